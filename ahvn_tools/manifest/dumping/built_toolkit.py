"""A toolkit that was built in code, as the data of a manifest."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from pathlib import Path

from ahvn_tools.json_types import JsonObject
from ahvn_tools.manifest.dumping import servers, tools
from ahvn_tools.manifest.dumping.model_tools import is_model_tool, to_model_tools
from ahvn_tools.manifest.dumping.problems import Problems, UndumpableError
from ahvn_tools.manifest.dumping.selections import to_group, to_toolset
from ahvn_tools.manifest.dumping.settings import to_binds, to_settings
from ahvn_tools.manifest.dumping.variables import escape
from ahvn_tools.toolkit import Toolkit
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.entry_options import BASIC_GROUP
from ahvn_tools.toolkit.imported_server import ImportedServer
from ahvn_tools.toolkit.selection import Group
from ahvn_tools.toolkit.store import ToolStore


def to_data(toolkit: Toolkit, folder: Path, problems: Problems) -> JsonObject:
    """Return the data of its manifest. What cannot be written is added to the problems."""
    view = toolkit._view  # noqa: SLF001  # of this package
    store = view.store
    sources, options = to_sources(store, store.entries.values(), store.imported_servers.values(), folder, problems)
    data = {
        "name": escape(toolkit.name),
        "sources": sources,
        "tools": options,
        "groups": to_groups(view.groups(), store),
        "toolsets": to_toolsets(store, problems),
        "binds": to_binds(store.bindings, problems),
        **to_settings(view, folder, problems),
        **to_model_tools(store, problems),
    }
    return {key: value for key, value in data.items() if value not in ({}, []) or key == "roots"}


def to_sources(
    store: ToolStore,
    entries: Iterable[Entry],
    imported: Iterable[ImportedServer],
    folder: Path,
    problems: Problems,
) -> tuple[list[JsonObject], JsonObject]:
    """Return the sources of tools and servers, and the options of single tools that their sources do not have.

    A server is where its first tool is; one without tools comes last.
    """
    waiting = servers.to_sources(imported, folder, problems)
    sources: list[JsonObject] = []
    options: JsonObject = {}
    entries = (entry for entry in entries if not is_model_tool(entry))
    for call, group in itertools.groupby(entries, functools.partial(_server_call, store)):
        if call is None:
            own_sources, own_options = tools.to_sources(group, folder, problems)
            sources += own_sources
            options |= own_options
            continue
        if call in waiting:
            sources.append(waiting.pop(call))
        for entry in group:
            with problems.of(f"the tool {entry.name!r}"):
                if changed := servers.changed_options(entry, store):
                    options[entry.name] = changed
    return [*sources, *waiting.values()], options


def _server_call(store: ToolStore, entry: Entry) -> int | None:
    """Return which call of `add_mcp` has added a tool; None for a tool of the host."""
    imported = store.imported_servers.get(entry.server_name or "")
    return None if imported is None else id(imported.added)


def to_groups(groups: dict[str, Group], store: ToolStore) -> JsonObject:
    """Return the groups. Those that are only labels of tools are left out, while all are."""
    used = set() if needs_definitions(groups) else {entry.group for entry in store.entries.values()}
    return {name: escape(to_group(group)) for name, group in groups.items() if name != BASIC_GROUP and name not in used}


def needs_definitions(groups: dict[str, Group]) -> bool:
    """Return whether a group is more than the label of its tools; a manifest then defines all."""
    return any(group.is_defined or not group.is_active for group in groups.values())


def to_toolsets(store: ToolStore, problems: Problems) -> JsonObject:
    """Return the toolsets."""
    toolsets: JsonObject = {}
    for name, toolset in store.toolsets.items():
        with problems.of(f"the toolset {name!r}"):
            if "${" in name:
                raise UndumpableError("a name cannot contain `${` in a manifest: give it another one")
            toolsets[name] = escape(to_toolset(toolset))
    return toolsets
