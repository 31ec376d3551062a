"""The prompts of the MCP servers in a view, which a served toolkit passes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from mcp_types import GetPromptResult, Prompt

from ahvn_tools.errors import ToolCallError, ToolkitError
from ahvn_tools.mcp.server.components import GetPrompt
from ahvn_tools.toolkit.imported_server import ImportedServer
from ahvn_tools.toolkit.selection import Selection
from ahvn_tools.toolkit.visibility import StoreView

log = logging.getLogger(__name__)


async def list_prompts(view: StoreView, state: Mapping[str, Any]) -> list[tuple[Prompt, GetPrompt]]:
    """Return the prompts by their names here. Of a server that does not answer, none: that is logged."""
    servers = list(_visible_servers(view))
    listings = await asyncio.gather(*map(_list, servers))
    found: dict[str, tuple[Prompt, GetPrompt]] = {}
    for imported, prompts in zip(servers, listings, strict=True):
        for name, prompt in prompts.items():
            if (passed := _to_passed(imported, prompt, state)) is not None:
                found.setdefault(imported.prefix + name, passed)  # no other server can replace it
    return list(found.values())


async def find_prompt(view: StoreView, state: Mapping[str, Any], name: str) -> tuple[Prompt, GetPrompt] | None:
    """Return the prompt of that name; None if there is none."""
    for imported in _visible_servers(view):
        own = name.removeprefix(imported.prefix)
        if not name.startswith(imported.prefix):
            continue
        prompt = (imported.server.prompts or {}).get(own) or (await _list(imported)).get(own)
        if prompt is not None and (passed := _to_passed(imported, prompt, state)) is not None:
            return passed
    return None


def revision(view: StoreView) -> tuple[Any, ...]:
    """Return a value that differs whenever the list of prompts may have changed."""
    return tuple((imported, imported.server.prompts_revision) for imported in _servers(view))


def _servers(view: StoreView) -> Iterator[ImportedServer]:
    servers = list(view.store.imported_servers.values())  # a copy: a server may be added at the same time
    return (imported for imported in servers if imported.server.passes_prompts and imported.error is None)


def _visible_servers(view: StoreView) -> Iterator[ImportedServer]:
    """Yield the servers that have a tool in the view; those without any tool if the view is only for an audience."""
    used = {entry.server_name for entry in view.selected_entries()}
    is_whole = all(selection == Selection(audiences=selection.audiences) for selection in view.selections)
    for imported in _servers(view):
        has_no_tools = not imported.server.tools and not imported.server.refused
        if imported.server.name in used or (has_no_tools and is_whole and "audience" not in imported.options):
            yield imported


async def _list(imported: ImportedServer) -> Mapping[str, Prompt]:
    try:
        prompts = await imported.server.alist_prompts()
    except (ToolCallError, ToolkitError) as error:
        log.warning("The prompts of the MCP server %r were not listed: %s", imported.server.name, error)
        return {}
    for prompt in prompts.values():
        for finding in imported.find_in_prompt(prompt):
            imported.store.finding_log.log(finding)
    return prompts


def _to_passed(imported: ImportedServer, prompt: Prompt, state: Mapping[str, Any]) -> tuple[Prompt, GetPrompt] | None:
    """Return a prompt by its name here; None for one that is not passed on."""
    if imported.prompt_refusal(prompt) is not None:
        return None

    async def get_messages(arguments: dict[str, str]) -> GetPromptResult:
        return await imported.server.aget_prompt(prompt.name, arguments, state, imported.timeout)

    return prompt.model_copy(update={"name": imported.prefix + prompt.name}), get_messages
