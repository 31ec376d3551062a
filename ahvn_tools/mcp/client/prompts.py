"""The requests for the prompts of one server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ahvn_tools.errors import LimitExceededError
from ahvn_tools.mcp.client.errors import METHOD_NOT_FOUND
from ahvn_tools.mcp.client.session import Session
from ahvn_tools.mcp.trust.limits import Limits

if TYPE_CHECKING:
    from mcp_types import GetPromptResult, Prompt


async def list_prompts(current: Session, limits: Limits) -> list[Prompt]:
    """Return the prompts of a server from all pages. Raises LimitExceededError, and the client's errors."""
    prompts: list[Prompt] = []
    cursors: list[str] = []
    if getattr(current.client.server_capabilities, "prompts", None) is None:
        return prompts
    while True:
        try:
            page: Any = await current.client.list_prompts_mcp(cursor=cursors[-1] if cursors else None)
        except Exception as error:
            if getattr(error, "code", None) == METHOD_NOT_FOUND and not cursors:
                return prompts
            raise
        prompts += page.prompts
        if len(prompts) > limits.tools:
            raise LimitExceededError(f"The list of prompts has more than {limits.tools} prompts.")
        if page.next_cursor is None:
            return prompts
        if page.next_cursor in cursors or len(cursors) >= limits.pages:
            raise LimitExceededError(f"The list of prompts repeats a page, or has more than {limits.pages} pages.")
        cursors.append(page.next_cursor)


async def get_prompt(current: Session, name: str, arguments: dict[str, str]) -> GetPromptResult:
    """Return the messages of a prompt."""
    result: GetPromptResult = await current.client.get_prompt_mcp(name, arguments)
    return result
