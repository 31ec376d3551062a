"""The tools that a toolkit makes for models itself, as a manifest has them: search, programs, switches of groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ahvn_tools.code_mode.limits import CodeLimits
from ahvn_tools.json_types import JsonObject
from ahvn_tools.manifest.dumping.problems import Problems, UndumpableError
from ahvn_tools.toolkit.code_mode import is_code_tool
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.model_tools import SEARCH_TOOLS, GroupsTool
from ahvn_tools.toolkit.search_listing import SearchListing
from ahvn_tools.toolkit.store import ToolStore


def is_model_tool(entry: Entry) -> bool:
    """Return whether the toolkit has made a tool itself."""
    return isinstance(entry.spec, GroupsTool) or entry.spec.function in SEARCH_TOOLS or is_code_tool(entry.spec)


def to_model_tools(store: ToolStore, problems: Problems) -> JsonObject:
    """Return `search`, `code_mode` and `groups_tool`, as far as the toolkit has them."""
    data: JsonObject = {}
    for entry in store.entries.values():
        if isinstance(entry.spec, GroupsTool):
            with problems.of(f"the tool {entry.name!r}"):
                data["groups_tool"] = _to_texts(entry, entry.spec._options, "set_groups") or True  # noqa: SLF001  # of this package
    listing = store.search_listing
    last = None if listing is None else store.entries.get(listing.search_tool_names[-1])
    if listing is not None and last is not None and is_code_tool(last.spec):
        with problems.of("the code mode"):
            data["code_mode"] = _code_mode(store, listing) or True
    elif listing is not None:
        with problems.of("the search"):
            if listing.rank is not None:
                raise UndumpableError("its `rank` is a function: call add_search after the manifest is loaded")
            texts = dict(_search_texts(store, name) for name in listing.search_tool_names)
            core = {"core": [*listing.core]} if listing.core else {}
            data["search"] = {**core, **{key: text for key, text in texts.items() if text}} or True
    return data


def _code_mode(store: ToolStore, listing: SearchListing) -> JsonObject:
    entries = [store.entries[name] for name in listing.search_tool_names]
    mode: Any = getattr(entries[-1].spec.function, "__self__", None)
    if not mode.has_own_sandbox:
        raise UndumpableError("its `sandbox` is an object: call add_code_mode after the manifest is loaded")
    data: JsonObject = {"core": [*listing.core]} if listing.core else {}
    if limits := {name: value for name, value in vars(mode.limits).items() if value != getattr(CodeLimits, name)}:
        data["limits"] = limits
    if listing.describe is not None:
        data["inline"] = True
    for entry in entries:
        default = getattr(entry.spec.function, "__name__", "")
        if texts := _to_texts(entry, mode.options[default], default):
            data[f"{default.partition('_')[0]}_tool"] = texts
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
