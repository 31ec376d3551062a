"""The tools that a toolkit makes for models itself, as a manifest has them: search, and the switches of groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ahvn_tools.json_types import JsonObject
from ahvn_tools.manifest.dumping.problems import Problems, UndumpableError
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.model_tools import SEARCH_TOOLS, GroupsTool
from ahvn_tools.toolkit.store import ToolStore


def is_model_tool(entry: Entry) -> bool:
    """Return whether the toolkit has made a tool itself."""
    return isinstance(entry.spec, GroupsTool) or entry.spec.function in SEARCH_TOOLS


def to_model_tools(store: ToolStore, problems: Problems) -> JsonObject:
    """Return `search` and `groups_tool`, as far as the toolkit has them."""
    data: JsonObject = {}
    for entry in store.entries.values():
        if isinstance(entry.spec, GroupsTool):
            with problems.of(f"the tool {entry.name!r}"):
                data["groups_tool"] = _to_texts(entry, entry.spec._options, "set_groups") or True  # noqa: SLF001  # of this package
    listing = store.search_listing
    if listing is not None:
        with problems.of("the search"):
            if listing.rank is not None:
                raise UndumpableError("its `rank` is a function: call add_search after the manifest is loaded")
            texts = dict(_search_texts(store, name) for name in listing.search_tool_names)
            core = {"core": [*listing.core]} if listing.core else {}
            data["search"] = {**core, **{key: text for key, text in texts.items() if text}} or True
    return data


def _search_texts(store: ToolStore, name: str) -> tuple[str, JsonObject]:
    entry = store.entries[name]
    function = entry.spec.function
    key = "search_tool" if function is SEARCH_TOOLS[0] else "call_tool"
    return key, _to_texts(entry, entry.spec.compiled.template.options, function.__name__)


def _to_texts(entry: Entry, options: Mapping[str, Any], default: str) -> JsonObject:
    """Return the name and the texts of a tool that differ from the default."""
    name = {} if entry.name == default else {"name": entry.name}
    texts = {key: options[key] for key in ("title", "description") if options.get(key) is not None}
    return {**name, **texts}
