"""Gathered: one call of Gemini, from the first part that tells of it to the last.

Vertex can be asked to send the arguments one value after the other, each under a JSONPath.
"""

from __future__ import annotations

import base64
import re
from typing import Any

from ahvn_tools.definition import JsonObject
from ahvn_tools.formats.parsing import tool_calls
from ahvn_tools.formats.parsing.raw_call import RawCall, filter_objects

_PATH_STEP = re.compile(r"""\.?([^.\[\]]+)|\[(\d+)\]|\[(['"])((?:\\.|(?!\3).)*)\3\]""", re.DOTALL)


class GeminiCallAccumulator:
    """One call, from its first part to its last."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._id: Any = None
        self._name: Any = None
        self._arguments: Any = None
        self._signature: str | None = None
        self._is_invalid = False

    def is_new_call(self, call: JsonObject) -> bool:
        """Tell whether another call begins: with a name or an id that is not this one's."""
        return any(
            said is not None and said != own
            for said, own in ((call.get("name"), self._name), (call.get("id"), self._id))
            if own is not None
        )

    def add(self, part: JsonObject) -> None:
        """Take what a part says of the call, and beside it."""
        call = get_field(part, "functionCall")
        self._id = self._id or call.get("id")
        self._name = self._name or call.get("name")
        self._signature = self._signature or _get_signature(part)
        if call.get("args") is not None:
            self._arguments = call["args"]
        for piece in filter_objects(get_field(call, "partialArgs")):
            try:
                self._arguments = _set_at_path(
                    self._arguments, _parse_json_path(get_field(piece, "jsonPath")), _get_value(piece)
                )
            except (ValueError, LookupError, TypeError, RecursionError):
                self._is_invalid = True

    def to_raw_call(self, *, is_truncated: bool) -> RawCall:
        """Return the call as far as it has come."""
        given = {"id": self._id, "thoughtSignature": self._signature}
        return RawCall(
            id=self._id,
            name=self._name,
            arguments=self._arguments,
            provider={key: value for key, value in given.items() if isinstance(value, str) and value},
            is_truncated=is_truncated,
            error=tool_calls.ARGUMENTS_NOT_OBJECT if self._is_invalid else None,
        )


def get_field(item: JsonObject, name: str) -> Any:
    """Return a member by its name on the wire, or as Python spells it."""
    value = item.get(name)
    return item.get(re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)) if value is None else value


def _get_signature(part: JsonObject) -> str | None:
    """Return a part's thought signature as Gemini wrote it: SDK objects hold bytes, and dump them in another base64."""
    value = get_field(part, "thoughtSignature")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.replace("-", "+").replace("_", "/") if isinstance(value, str) else None


def _get_value(piece: JsonObject) -> Any:
    """Return the value that a piece adds: None for a null, and for a piece that only says where more will come."""
    said = (get_field(piece, name) for name in ("stringValue", "numberValue", "boolValue"))
    return next((value for value in said if value is not None), None)


def _parse_json_path(path: Any) -> list[str | int]:
    """Return the steps of a JSONPath to one argument, or into one. Raises ValueError for any other path."""
    if not isinstance(path, str) or not path.startswith("$"):
        raise ValueError(path)
    found = list(_PATH_STEP.finditer(path, 1))
    if not found or "".join(step[0] for step in found) != path[1:]:
        raise ValueError(path)
    return [int(step[2]) if step[2] else step[1] or re.sub(r"\\(.)", r"\1", step[4]) for step in found]


def _set_at_path(node: Any, steps: list[str | int], value: Any) -> Any:
    """Return a node with a value at the end of the steps; text goes on where text is.

    Raises LookupError or TypeError for a place that cannot be; an item of a list has one after those before it.
    """
    if not steps:
        return node + value if isinstance(node, str) and isinstance(value, str) else node if value is None else value
    step, *rest = steps
    if node is None:
        node = [] if isinstance(step, int) else {}
    if isinstance(node, list) and step == len(node):
        node.append(None)
    if isinstance(node, dict) and isinstance(step, str):
        node.setdefault(step, None)
    node[step] = _set_at_path(node[step], rest, value)
    return node
