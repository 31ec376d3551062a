"""A prompt of a server behind this one, as a FastMCP prompt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastmcp.exceptions import PromptError
from fastmcp.prompts import Message, Prompt, PromptResult
from mcp_types import GetPromptResult, ResourceLink, TextContent
from mcp_types import Prompt as WirePrompt
from pydantic import PrivateAttr

from ahvn_tools.errors import ToolCallError
from ahvn_tools.invisible import escape
from ahvn_tools.results import describe_link

GetPrompt = Callable[[dict[str, str]], Awaitable[GetPromptResult]]
"""Returns the messages of a prompt for some arguments. Raises ToolCallError."""


class PassedPrompt(Prompt):
    """A prompt of a server behind this one."""

    _get_messages: GetPrompt = PrivateAttr()

    async def render(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        """Return the messages, with their invisible characters escaped. Raises PromptError."""
        known = {argument.name for argument in self.arguments or ()}
        sent = {name: value for name, value in (arguments or {}).items() if name in known}
        if len(sent) < len(arguments or {}):
            raise PromptError(f"The prompt {self.name!r} takes these arguments: {sorted(known)}.")
        try:
            result = await self._get_messages(sent)
        except ToolCallError as error:
            raise PromptError(error.message) from None
        messages = [Message(_to_content(message.content), message.role) for message in result.messages]
        return PromptResult(messages, escape(result.description) if result.description else None)


def _to_content(content: Any) -> Any:
    """Return the content of a message; FastMCP has none for a link."""
    if isinstance(content, ResourceLink):
        return TextContent(type="text", text=escape(describe_link(content)))
    return TextContent(type="text", text=escape(content.text)) if isinstance(content, TextContent) else content


def to_fastmcp_prompt(prompt: WirePrompt, get_messages: GetPrompt) -> PassedPrompt:
    """Return the FastMCP prompt of a prompt, by its name here."""
    passed = PassedPrompt.model_validate(prompt.model_dump(exclude_none=True))
    passed._get_messages = get_messages  # noqa: SLF001  # pydantic accepts no private attribute in its constructor
    return passed
