"""Save a toolkit or a session as JSON and restore it: switched groups, toolsets and state without secrets."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, Final

from ahvn_tools.errors import ToolkitError, ToolLookupError, ToolSpecError, near_misses
from ahvn_tools.json_types import JsonObject
from ahvn_tools.settings import TEXT
from ahvn_tools.state import StateKey, may_have, without_keys
from ahvn_tools.toolkit.entry_options import checked
from ahvn_tools.toolkit.selection import Conditions, Selection, Toolset
from ahvn_tools.toolkit.visibility import StoreView

VERSION: Final = 1

_PARTS = {"version": int, "groups": dict, "toolsets": dict, "state": dict, "omitted": list}
_ABSENT: Final = object()
_MAX_DEPTH = 100
"""The maximum nesting of a state; what is nested deeper is left out."""


def state_dict(view: StoreView, *, strict: bool) -> JsonObject:
    """Return the snapshot of a toolkit or session. Raises ToolkitError for what has no JSON form, when strict."""
    omitted: list[str] = []
    secret_keys = sorted(view.store.secret_keys(), key=str)
    left_out = [f"state.{key.text}" for key in secret_keys if may_have(view.session_state.state, key)]
    state = _to_json(without_keys(view.session_state.state, secret_keys), "state", omitted)
    saved = {"version": VERSION, "groups": view.group_overrides(), "state": state}
    if view.is_toolkit:
        saved["toolsets"] = _toolsets_to_json(view.store.toolsets, omitted)
    if strict and omitted:
        raise ToolkitError(
            f"These have no JSON form: {', '.join(omitted)}. Remove them, or leave them out with strict=False."
        )
    return {**saved, "omitted": [*left_out, *omitted]}


def load_state_dict(view: StoreView, data: Any, *, strict: bool) -> None:
    """Restore a snapshot; all of it or, when it raises, nothing. Unless strict, what is unknown is ignored."""
    _validate_snapshot(data)
    toolsets = {name: _parse_toolset(name, options) for name, options in data.get("toolsets", {}).items()}
    for error in _unknown_part_errors(view, data):
        if strict:
            raise error
        warnings.warn(f"{error} It is ignored.", stacklevel=3)
    toolsets = toolsets if view.is_toolkit else {}
    groups = {name: is_active for name, is_active in data.get("groups", {}).items() if name in view.store.groups}
    state = _merge_state(view.session_state.state, data.get("state", {}))
    target = view.session_state.mutable_state() if state else None
    view.store.restore(view.session_state.switches, groups, toolsets)
    if target is not None:
        target.update(state)


def _to_json(value: Any, path: str, omitted: list[str], ancestors: frozenset[int] = frozenset()) -> Any:
    """Return a copy as JSON, without the members of a mapping that have no JSON form. `ancestors` detect a cycle."""
    if value is None or isinstance(value, bool | str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if id(value) not in ancestors and len(ancestors) < _MAX_DEPTH:
        ancestors |= {id(value)}
        if isinstance(value, Mapping):
            members = {
                name: _member_to_json(name, item, path, omitted, ancestors) for name, item in list(value.items())
            }
            return {name: item for name, item in members.items() if item is not _ABSENT}
        if isinstance(value, list | tuple):
            omitted_items: list[str] = []
            items = [_to_json(item, path, omitted_items, ancestors) for item in list(value)]
            if not omitted_items:  # a list is saved whole or not at all: its indexes have a meaning
                return items
    omitted.append(path)
    return _ABSENT


def _member_to_json(name: Any, item: Any, path: str, omitted: list[str], ancestors: frozenset[int]) -> Any:
    if not isinstance(name, str):
        omitted.append(f"{path}[{type(name).__name__}]")
        return _ABSENT
    return _to_json(item, f"{path}.{StateKey.from_name(name).text}", omitted, ancestors)


def _toolsets_to_json(toolsets: Mapping[str, Toolset], omitted: list[str]) -> JsonObject:
    """Return the toolsets that contain no function, neither in themselves nor in a toolset that they refer to."""
    saved: JsonObject = {}
    for name, toolset in toolsets.items():
        if _has_function(toolset, toolsets):
            omitted.append(f"toolsets.{StateKey.from_name(name).text}")
        else:
            description = {"description": toolset.description} if toolset.description else {}
            ordered = toolset.selection.ordered
            conditions = _selection_to_json(toolset.selection, ordered=ordered)
            saved[name] = {**description, **conditions, **({"ordered": True} if ordered else {})}
    return saved


def _has_function(toolset: Toolset, toolsets: Mapping[str, Toolset]) -> bool:
    reached = [toolset.name]
    for name in reached:  # it grows
        selection = toolsets[name].selection
        if any(part.where is not None for part in selection.parts()):
            return True
        reached += [inner for inner in selection.toolset_names() if inner not in reached]
    return False


def _selection_to_json(selection: Selection, *, ordered: bool) -> JsonObject:
    conditions = {key: getattr(selection, key) for key in Conditions.__annotations__}
    saved = {
        key: sorted(condition) if isinstance(condition, frozenset) else condition
        for key, condition in conditions.items()
        if condition is not None
    }
    if selection.any_of is not None:
        saved["any_of"] = [_selection_to_json(part, ordered=ordered) for part in selection.any_of]
    if ordered and selection.names is not None:
        saved["names"] = [*selection.listed_names]
    return saved


def _validate_snapshot(data: Any) -> None:
    """Raise ToolkitError unless this has the shape of a snapshot."""
    if not isinstance(data, dict):
        raise ToolkitError(f"A saved state is an object, not a {type(data).__name__}.")
    if data.get("version") != VERSION or isinstance(data["version"], bool):
        raise ToolkitError(f"A saved state must have the version {VERSION}, not {data.get('version')!r}.")
    for name, kind in _PARTS.items():
        if not isinstance(data.get(name, kind()), kind):
            raise ToolkitError(f"{name!r} of a saved state is a {kind.__name__}, not a {type(data[name]).__name__}.")
    if not all(isinstance(name, str) and isinstance(is_on, bool) for name, is_on in data.get("groups", {}).items()):
        raise ToolkitError("'groups' of a saved state must have a boolean for each name.")
    wrong: list[str] = []
    _to_json(data.get("state", {}), "state", wrong)
    if wrong:
        raise ToolkitError(f"These parts of a saved state are not JSON: {', '.join(wrong)}.")


def _parse_toolset(name: Any, saved: Any) -> Toolset:
    """Return a saved toolset. Raises ToolkitError for one of another shape, which is one with a null, too."""
    place = f"The toolset {name!r} of a saved state"
    if not (isinstance(name, str) and isinstance(saved, dict)) or None in saved.values():
        raise ToolkitError(f"{place} is an object with lists of names.")
    description = checked(f"{place}: description", saved.get("description", ""), TEXT)
    options: Any = {key: value for key, value in saved.items() if key != "description"}
    try:
        return Toolset(name=name, description=description, selection=Selection.from_options(options))
    except ToolkitError as error:
        raise ToolkitError(f"{place}: {error}") from None


def _unknown_part_errors(view: StoreView, data: JsonObject) -> list[ToolSpecError]:
    """Return the errors for parts that can be ignored: unknown ones, and those that belong to the toolkit itself."""
    known = view.store.groups
    unknown = [name for name in data.get("groups", {}) if name not in known]
    parts = [*map(repr, data.keys() - _PARTS.keys())]
    if data.get("toolsets") and not view.is_toolkit:
        parts.append("'toolsets', which belong to the toolkit itself")
    return [
        *[ToolLookupError(f"There is no group {name!r}. {near_misses(name, known)}") for name in unknown],
        *[ToolkitError(f"A saved state has an unknown part here: {part}.") for part in sorted(parts)],
    ]


def _merge_state(current: Mapping[str, Any], saved: Mapping[str, Any]) -> JsonObject:
    """Return the saved members merged over the current ones, which may contain what could not be saved."""
    merged: JsonObject = {}
    for name, item in saved.items():
        member = current.get(name)
        if isinstance(item, dict) and isinstance(member, Mapping):
            merged[name] = {**member, **_merge_state(member, item)}
        else:
            merged[name] = _to_json(item, "", [])
    return merged
