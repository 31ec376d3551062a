"""Redaction of calls: their arguments and results without secrets and bound values, for logs, spans and recordings."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from pydantic_core import to_jsonable_python

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution.call import Call
from ahvn_tools.redaction import MASK, MaskedValues, clip, find_secrets, is_secret_name, is_secret_schema, text_redactor
from ahvn_tools.results import ToolResult
from ahvn_tools.state import MISSING

MAX_LOGGED_CHARS: Final = 4_000
"""The maximum length of an argument or a result in a log or span."""


class Redactor:
    """Replaces, in JSON, a call's bound values and secret arguments by `<parameter>`."""

    def __init__(self, call: Call) -> None:
        self._redact_text = text_redactor(_hidden_values(call))

    def __call__(self, value: Any, *, redact_keys: bool = True) -> Any:
        """Return redacted JSON. `redact_keys=False` leaves the keys, for objects whose keys a protocol defines."""
        if isinstance(value, str):
            return self._redact_text(value)
        if isinstance(value, dict):
            return {
                self._redact_text(key) if redact_keys else key: self(part, redact_keys=redact_keys)
                for key, part in value.items()
            }
        if isinstance(value, list):
            return [self(part, redact_keys=redact_keys) for part in value]
        if value is None or isinstance(value, bool):
            return value
        text = self._redact_text(str(value))
        return value if text == str(value) else text


def redact_arguments(call: Call) -> Any:
    """Return a call's arguments as JSON, with `***` for every argument or member that is secret by mark or by name."""
    names = _secret_names(call)
    arguments = {name: MASK if name in names else value for name, value in call.arguments.items()}
    return Redactor(call)(_mask_secrets(as_json(arguments), names))


def redact_result(call: Call, result: ToolResult) -> str:
    """Return a result's text, redacted and cut; for an interrupted call its partial value rather than the error."""
    has_value = result.error is None or (result.is_interrupted and result.value is not None)
    content = result.value if has_value else result.text
    return as_text(Redactor(call)(content if isinstance(content, str) else as_json(content)))


def as_json(value: Any) -> Any:
    """Return the JSON form of any value; `<type>` for one that has none."""
    try:
        return json.loads(json.dumps(to_jsonable_python(value, fallback=type_placeholder, bytes_mode="base64")))
    except Exception:  # noqa: BLE001  # a foreign class, or a circular reference: reporting must not fail the call
        return type_placeholder(value)


def as_text(value: Any, max_chars: int = MAX_LOGGED_CHARS) -> str:
    """Return JSON as text, a str unchanged; cut after `max_chars` characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return clip(text.encode("utf-8", "backslashreplace").decode(), max_chars)


def type_placeholder(value: Any) -> str:
    """Return `<type>`, which represents a value without a JSON form."""
    return f"<{type(value).__name__}>"


def _hidden_values(call: Call) -> Mapping[str, Any]:
    """Return secret arguments and bound values by name: those that the body received, else those in the state."""
    hidden = find_secrets(call.arguments, _secret_names(call))
    for name, value in {**_read_bound_values(call), **call.scope.bound_values}.items():
        hidden.setdefault(name, MaskedValues()).append(value)
    return hidden


def _read_bound_values(call: Call) -> dict[str, Any]:
    """Return the bound values that are in the state now; resolvers are not called."""
    values = {}
    for bound in call.plan.bound_parameters:
        if bound.binding.resolver is None:
            with suppress(ToolCallError):
                values[bound.parameter.name] = bound.read(call.state_scopes)
    return {name: value for name, value in values.items() if value is not MISSING}


def _secret_names(call: Call) -> frozenset[str]:
    """Return the names of secret arguments, and of secret members at any depth."""
    return call.secrets.union(call.definition.memoize(_schema_secret_names)["names"])


def _schema_secret_names(definition: ToolDefinition) -> dict[str, list[str]]:
    return {"names": sorted(set(_iter_secret_properties(definition.input_schema)))}


def _iter_secret_properties(schema: Any) -> Iterator[str]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if isinstance(properties, dict):
        yield from (name for name, part in properties.items() if is_secret_schema(part))
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _iter_secret_properties(part)


def _mask_secrets(value: Any, names: Collection[str]) -> Any:
    if isinstance(value, dict):
        return {
            key: MASK if key in names or is_secret_name(key) else _mask_secrets(part, names)
            for key, part in value.items()
        }
    return [_mask_secrets(part, names) for part in value] if isinstance(value, list) else value
