"""Saved: what a toolkit or a session holds, as JSON, and back: switched groups, toolsets and state; never a secret."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, Final

from ahvn_tools.errors import ToolkitError, ToolLookupError, ToolSpecError, near_misses
from ahvn_tools.state import StateKey, without_keys
from ahvn_tools.toolkit.entry import BASIC_GROUP
from ahvn_tools.toolkit.selection import Selection, SelectionOptions
from ahvn_tools.toolkit.visibility import StoreView

JsonObject = dict[str, Any]

VERSION: Final = 1

_PARTS = {"version": int, "groups": dict, "toolsets": dict, "state": dict, "omitted": list}
_ABSENT: Final = object()
_MAX_DEPTH = 100
"""A state is followed so many levels down; what lies deeper is left out."""


def state_dict(view: StoreView, *, strict: bool) -> JsonObject:
    """Return what the view's toolkit or session holds. Raises ToolkitError for what has no JSON form, when strict."""
    omitted: list[str] = []
    state = _to_json(without_keys(view.session_state.state, view.store.secret_keys()), "state", omitted)
    saved = {"version": VERSION, "groups": view.group_overrides(), "state": state}
    if _is_toolkit(view):
        saved["toolsets"] = _toolsets_to_json(view.store.toolsets, omitted)
    if strict and omitted:
        raise ToolkitError(
            f"These have no JSON form: {', '.join(omitted)}. Take them out, or leave them out with strict=False."
        )
    return {**saved, "omitted": omitted}


def load_state_dict(view: StoreView, data: Any, *, strict: bool) -> None:
    """Put back what `state_dict` gave; nothing is changed unless all of it can be.

    Raises ToolkitError for another shape or version, ToolLookupError for an unknown group; unless strict, what is
    unknown is ignored with a warning.
    """
    _validate_snapshot(data)
    toolsets = {name: _parse_selection(name, options) for name, options in data.get("toolsets", {}).items()}
    groups = data.get("groups", {})
    if not groups.get(BASIC_GROUP, True):
        raise ToolkitError(f"The group {BASIC_GROUP!r} is always active.")
    for error in _unknown_part_errors(view, data):
        if strict:
            raise error
        warnings.warn(f"{error} It is ignored.", stacklevel=3)
    toolsets = toolsets if _is_toolkit(view) else {}
    groups = {name: is_active for name, is_active in groups.items() if name in view.store.groups}
    state = _merge_state(view.session_state.state, data.get("state", {}))
    view.store.restore(view.session_state, groups, toolsets)
    view.session_state.state.update(state)


def _is_toolkit(view: StoreView) -> bool:
    return not (view.is_session or view.selections)


def _to_json(value: Any, path: str, omitted: list[str], ancestors: frozenset[int] = frozenset()) -> Any:
    """Return a JSON value as a copy; of a mapping, those members that have a JSON form. `around` tells of a circle."""
    if value is None or isinstance(value, bool | str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if id(value) not in ancestors and len(ancestors) < _MAX_DEPTH:
        ancestors |= {id(value)}
        if isinstance(value, Mapping):
            members = {
                name: _member_to_json(name, item, path, omitted, ancestors) for name, item in list(value.items())
            }
            return {name: item for name, item in members.items() if item is not _ABSENT}
        lost: list[str] = []
        if isinstance(value, list | tuple):
            items = [_to_json(item, path, lost, ancestors) for item in list(value)]
            if not lost:  # a list is saved whole or not at all: its places mean something
                return items
    omitted.append(path)
    return _ABSENT


def _member_to_json(name: Any, item: Any, path: str, omitted: list[str], ancestors: frozenset[int]) -> Any:
    if not isinstance(name, str):
        omitted.append(f"{path}[{type(name).__name__}]")
        return _ABSENT
    return _to_json(item, f"{path}.{StateKey.from_name(name).text}", omitted, ancestors)


def _toolsets_to_json(toolsets: Mapping[str, Selection], omitted: list[str]) -> JsonObject:
    """Return those toolsets that hold no function, in themselves or in the toolset that they narrow."""
    saved: JsonObject = {}
    for name, selection in toolsets.items():
        inner: Selection | None = selection
        while inner is not None and inner.where is None:
            inner = toolsets[inner.toolset] if inner.toolset is not None else None
        if inner is not None:
            omitted.append(f"toolsets.{StateKey.from_name(name).text}")
            continue
        parts = {key: getattr(selection, key) for key in SelectionOptions.__annotations__}
        saved[name] = {
            key: sorted(part) if isinstance(part, frozenset) else part
            for key, part in parts.items()
            if part is not None
        }
    return saved


def _validate_snapshot(data: Any) -> None:
    """Raise ToolkitError unless this has the shape of what `state_dict` gives."""
    if not isinstance(data, dict):
        raise ToolkitError(f"A saved state is an object, not a {type(data).__name__}.")
    if data.get("version") != VERSION or isinstance(data["version"], bool):
        raise ToolkitError(f"A saved state of version {VERSION} is wanted, not of version {data.get('version')!r}.")
    for name, kind in _PARTS.items():
        if not isinstance(data.get(name, kind()), kind):
            raise ToolkitError(f"{name!r} of a saved state is a {kind.__name__}, not a {type(data[name]).__name__}.")
    if not all(isinstance(name, str) and isinstance(is_on, bool) for name, is_on in data.get("groups", {}).items()):
        raise ToolkitError("'groups' of a saved state has a boolean for each name.")
    wrong: list[str] = []
    _to_json(data.get("state", {}), "state", wrong)
    if wrong:
        raise ToolkitError(f"These parts of a saved state are no JSON: {', '.join(wrong)}.")


def _parse_selection(name: Any, options: Any) -> Selection:
    is_listed = isinstance(options, dict) and all(
        isinstance(part, str) if key in {"audience", "toolset"} else _is_name_list(part) and key != "where"
        for key, part in options.items()
    )
    if not isinstance(name, str) or not is_listed:
        raise ToolkitError(f"The toolset {name!r} of a saved state is an object with lists of names.")
    return Selection.from_options(options)


def _is_name_list(part: Any) -> bool:
    return isinstance(part, list) and all(isinstance(name, str) for name in part)


def _unknown_part_errors(view: StoreView, data: JsonObject) -> list[ToolSpecError]:
    """Return what is wrong with parts that can be ignored: what is unknown here, or does not belong here."""
    known = view.store.groups
    unknown = [name for name in data.get("groups", {}) if name not in known]
    parts = [*map(repr, data.keys() - _PARTS.keys())]
    if data.get("toolsets") and not _is_toolkit(view):
        parts.append("'toolsets', which belong to the toolkit itself")
    return [
        *[ToolLookupError(f"There is no group {name!r}. {near_misses(name, known)}") for name in unknown],
        *[ToolkitError(f"A saved state has an unknown part here: {part}.") for part in sorted(parts)],
    ]


def _merge_state(current: Mapping[str, Any], saved: Mapping[str, Any]) -> JsonObject:
    """Return saved members over those that are there: what was left out when they were saved stays."""
    merged: JsonObject = {}
    for name, item in saved.items():
        held = current.get(name)
        if isinstance(item, dict) and isinstance(held, Mapping):
            merged[name] = {**held, **_merge_state(held, item)}
        else:
            merged[name] = _to_json(item, "", [])
    return merged
