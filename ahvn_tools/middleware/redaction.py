"""Shown: what logs, spans and records may show of a call. Secrets and values bound in the call are masked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from pydantic import SecretBytes, SecretStr
from pydantic_core import to_jsonable_python

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution import failure
from ahvn_tools.execution.call import Call
from ahvn_tools.redaction import MASK, MaskedValues, clip, find_secrets, is_secret_name, is_secret_schema, text_redactor
from ahvn_tools.results import ErrorDetail, ToolResult
from ahvn_tools.state import MISSING

MAX_LOGGED_CHARS: Final = 4_000
"""An argument or a result is cut after this many characters where people read it."""


class Redactor:
    """Replaces, in JSON, the values bound in a call and its secret arguments by `<parameter>`."""

    def __init__(self, call: Call) -> None:
        self._redact_text = text_redactor(_hidden_values(call))

    def __call__(self, value: Any, *, redact_keys: bool = True) -> Any:
        """Return JSON with what must not be shown replaced; its keys, too, unless a protocol sets them."""
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
    """Return a call's arguments as JSON; `***` stands for what is secret, those members that are named so included."""
    names = _secret_names(call)
    shown = {name: MASK if name in names else value for name, value in call.arguments.items()}
    return Redactor(call)(_mask_secrets(as_json(shown), names))


def arguments_digest(arguments: Mapping[str, Any]) -> str:
    """Return a SHA-256 over exact arguments, secret ones included: the same for the same arguments only."""
    try:
        revealed = _reveal_secrets(arguments)
    except RecursionError:  # a circle: no tool that can be recorded takes it
        revealed = _type_placeholder(arguments)
    exact = json.dumps(as_json(revealed), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(exact.encode("utf-8", "surrogatepass")).hexdigest()


def redact_result(call: Call, result: ToolResult) -> str:
    """Return a result's text, masked and cut; of one that was cut off, what there is, before why."""
    is_part = result.is_interrupted and result.value is not None
    told = result.value if result.error is None or is_part else result.error.message
    return as_text(Redactor(call)(told if isinstance(told, str) else as_json(told)))


def as_json(value: Any) -> Any:
    """Return the JSON form of anything; what has none is told by its type alone."""
    try:
        return json.loads(json.dumps(to_jsonable_python(value, fallback=_type_placeholder, bytes_mode="base64")))
    except Exception:  # noqa: BLE001  # a foreign class, or a circle: showing it must not fail the call
        return _type_placeholder(value)


def as_text(value: Any, max_chars: int = MAX_LOGGED_CHARS) -> str:
    """Return JSON as text, a text as it is; cut after `most` characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return clip(text.encode("utf-8", "backslashreplace").decode(), max_chars)


def error_code(result: ToolResult) -> str | None:
    """Return how a call failed, as a code; None: it did not."""
    if result.error is not None:
        return result.error.code
    return "cancelled" if result.is_interrupted else None


def exception_result(call: Call, error: Exception) -> ToolResult:
    """Return the result that becomes of what a middleware inside has raised."""
    if isinstance(error, ToolCallError):
        return ToolResult(error=failure.call_error_detail(error))
    return ToolResult(error=ErrorDetail(code="tool_error", message=f"A middleware of tool {call.name!r} failed."))


def exception_code(error: BaseException) -> str:
    """Return how a call failed that an exception has left: a code, or the exception's type where it ends a program."""
    if isinstance(error, ToolCallError):
        return error.code
    if isinstance(error, Exception):
        return "tool_error"
    is_cancelled = type(error).__name__ in {"CancelledError", "GeneratorExit"}  # asyncio is not imported for the answer
    return "cancelled" if is_cancelled else type(error).__name__


def _hidden_values(call: Call) -> Mapping[str, Any]:
    """Return what must not be shown: the values that the body got, those in the state where it was not reached."""
    hidden = find_secrets(call.arguments, _secret_names(call))
    for name, value in {**_read_bound_values(call), **call.scope.bound_values}.items():
        hidden.setdefault(name, MaskedValues()).append(value)
    return hidden


def _read_bound_values(call: Call) -> dict[str, Any]:
    """Return what is bound in a call as the state has it now; no resolver is asked for it."""
    read = {}
    for bound in call.plan.bound_parameters:
        if bound.binding.resolver is None:
            with suppress(ToolCallError):
                read[bound.parameter.name] = bound.read(call.state_scopes)
    return {name: value for name, value in read.items() if value is not MISSING}


def _secret_names(call: Call) -> frozenset[str]:
    """Return the names of arguments, and of members at any depth, that must not be shown."""
    return call.secrets.union(call.definition.memoize(_schema_secret_names)["names"])


def _schema_secret_names(definition: ToolDefinition) -> dict[str, list[str]]:
    """Return the names of all properties that a tool's input schema marks as secret."""
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


def _reveal_secrets(value: Any) -> Any:
    """Return a value with pydantic's secrets opened: its JSON would be the same for all of them."""
    if isinstance(value, SecretStr | SecretBytes):
        return value.get_secret_value()
    if isinstance(value, Mapping):
        return {key: _reveal_secrets(part) for key, part in value.items()}
    return [_reveal_secrets(part) for part in value] if isinstance(value, list | tuple) else value


def _type_placeholder(value: Any) -> str:
    return f"<{type(value).__name__}>"
