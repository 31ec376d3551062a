"""The groups and toolsets of a toolkit as a manifest has them."""

from __future__ import annotations

from collections.abc import Mapping

from ahvn_tools.json_types import JsonObject
from ahvn_tools.manifest.dumping.problems import UndumpableError
from ahvn_tools.toolkit.selection import Group, Selection, Toolset


def to_group(group: Group) -> JsonObject:
    """Return a group; `is_active` is whether the toolkit has it switched on."""
    data: JsonObject = {}
    if group.description:
        data["description"] = group.description
    if group.notes is not None:
        data["notes"] = group.notes
    return {**data, "active": True} if group.is_active else data


def to_toolset(toolset: Toolset) -> JsonObject:
    """Return a toolset. Raises UndumpableError for a function in it."""
    description = {"description": toolset.description} if toolset.description else {}
    selection = toolset.selection
    data = {**description, **_to_conditions(selection, ordered=selection.ordered)}
    if selection.any_of is not None:
        data["any_of"] = [_to_part(part, ordered=selection.ordered) for part in selection.any_of]
    return {**data, "ordered": True} if selection.ordered else data


def to_agent(toolset: Toolset) -> JsonObject | None:
    """Return a toolset as an agent; None for one of another shape."""
    selection = toolset.selection
    names, *sets = selection.any_of or (Selection(),)
    if names.names is None or not selection.ordered or any(part.toolset is None for part in sets):
        return None
    if Selection(names=names.names, listed_names=names.listed_names) != names:
        return None
    if any(Selection(toolset=part.toolset) != part for part in sets):
        return None
    data: JsonObject = {"description": toolset.description} if toolset.description else {}
    if names.names:
        data["tools"] = [*names.listed_names]
    if sets:
        data["tool_sets"] = [part.toolset for part in sets]
    return {**data, "audience": selection.audience} if selection.audience is not None else data


def _to_part(part: Selection, *, ordered: bool) -> str | JsonObject:
    conditions = _to_conditions(part, ordered=ordered)
    return part.toolset if part.toolset is not None and len(conditions) == 1 else conditions


def _to_conditions(selection: Selection, *, ordered: bool) -> JsonObject:
    if selection.where is not None:
        raise UndumpableError("its `where` is a function: select by names, tags or groups")
    names: Mapping[str, frozenset[str] | None] = {"tags": selection.tags, "groups": selection.groups}
    data: JsonObject = {}
    if selection.names is not None:
        data["tools"] = [*selection.listed_names] if ordered else sorted(selection.names)
    data |= {key: sorted(listed) for key, listed in names.items() if listed is not None}
    if selection.audience is not None:
        data["audience"] = selection.audience
    if selection.toolset is not None:
        data["toolset"] = selection.toolset
    return data
