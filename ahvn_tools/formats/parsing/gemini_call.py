"""One call of Gemini, collected from its parts.

Vertex can be asked to send the arguments one value after the other, each under a JSONPath.
"""

from __future__ import annotations

import base64
import re
from typing import Any, Final

from ahvn_tools.formats.json_data import filter_objects
from ahvn_tools.formats.parsing.tool_calls import ARGUMENTS_NOT_OBJECT, RawCall
from ahvn_tools.json_types import JsonObject

NO_SIGNATURE: Final = "skip_thought_signature_validator"
"""Google's text in the place of a signature, for calls that Gemini has not made."""

_PATH_STEP = re.compile(r"""\.?([^.\[\]]+)|\[(\d+)\]|\[(['"])((?:\\.|(?!\3).)*)\3\]""", re.DOTALL)


class GeminiCallAccumulator:
    """One call, from its first part to its last."""

    def __init__(self) -> None:
        self._id: Any = None
        self._name: Any = None
        self._arguments: Any = None
        self._signature: str | None = None
        self._is_invalid = False

    def is_new_call(self, call: JsonObject) -> bool:
        """Return whether another call begins: its name or id differs from this call's."""
        return any(
            known is not None and value is not None and value != known
            for known, value in ((self._name, call.get("name")), (self._id, call.get("id")))
        )

    def add(self, part: JsonObject) -> None:
        """Add a part: its call, and its thought signature."""
        call = get_field(part, "functionCall")
        self._id = self._id or call.get("id")
        self._name = self._name or call.get("name")
        self._signature = self._signature or _get_signature(part)
        if call.get("args") is not None:
            self._arguments = call["args"]
        for fragment in filter_objects(get_field(call, "partialArgs")):
            try:
                path = _parse_json_path(get_field(fragment, "jsonPath"))
                self._arguments = _set_at_path(self._arguments, path, _get_value(fragment))
            except (ValueError, LookupError, TypeError, RecursionError):
                self._is_invalid = True

    def to_raw_call(self, *, cut_off: str | None) -> RawCall:
        """Return the call as far as it has arrived."""
        provider = {"id": self._id, "thoughtSignature": self._signature}
        return RawCall(
            id=self._id,
            name=self._name,
            arguments=self._arguments,
            provider={key: value for key, value in provider.items() if isinstance(value, str) and value},
            cut_off=cut_off,
            error=ARGUMENTS_NOT_OBJECT if self._is_invalid else None,
        )


def get_field(item: JsonObject, name: str) -> Any:
    """Return a field by its name in JSON, or by the same name in snake case, as the Python SDK writes it."""
    value = item.get(name)
    return item.get(re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)) if value is None else value


def _get_signature(part: JsonObject) -> str | None:
    """Return a part's thought signature as Gemini wrote it: the SDK has bytes, and dumps them as URL-safe base64."""
    value = get_field(part, "thoughtSignature")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    is_signature = isinstance(value, str) and value != NO_SIGNATURE
    return value.replace("-", "+").replace("_", "/") if is_signature else None


def _get_value(fragment: JsonObject) -> Any:
    """Return the value that a fragment adds; None for a null, and for a fragment that only announces a path."""
    values = (get_field(fragment, name) for name in ("stringValue", "numberValue", "boolValue"))
    return next((value for value in values if value is not None), None)


def _parse_json_path(path: Any) -> list[str | int]:
    """Return the steps of a JSONPath to an argument or into it. Raises ValueError for any other path."""
    if not isinstance(path, str) or not path.startswith("$"):
        raise ValueError(path)
    steps = list(_PATH_STEP.finditer(path, 1))
    if not steps or "".join(step[0] for step in steps) != path[1:]:
        raise ValueError(path)
    return [int(step[2]) if step[2] else step[1] or re.sub(r"\\(.)", r"\1", step[4]) for step in steps]


def _set_at_path(node: Any, steps: list[str | int], value: Any) -> Any:
    """Return a node with a value at the end of the steps; text is appended to text.

    Raises LookupError or TypeError for an impossible path; list items must arrive in order.
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
