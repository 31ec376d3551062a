"""Reports of calls, for logs, spans, metrics and recordings: how a call ended, and what it received and returned.

Arguments and results are reported without secrets and bound values.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from pydantic_core import to_jsonable_python

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.encoders.loaded_classes import is_for_graph
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import InvalidResultError, ToolCallError, exception_text
from ahvn_tools.execution.call import Call
from ahvn_tools.execution.convert import body_error_text
from ahvn_tools.execution.raised_place import WorkerTraceback
from ahvn_tools.redaction import (
    MASK,
    MaskedValues,
    clip,
    find_secrets,
    is_secret_name,
    is_secret_schema,
    reveal_secrets,
    text_redactor,
)
from ahvn_tools.results import ToolResult, whole_value
from ahvn_tools.schema.keywords import iter_objects
from ahvn_tools.state import MISSING

MAX_FRAMES: Final = 50
"""The maximum number of frames of one exception, the innermost ones."""

MAX_EXCEPTIONS: Final = 20
"""The maximum number of exceptions in one report: causes, and members of groups."""


def format_exception(error: BaseException) -> str:
    """Return the tracebacks of an exception, of what caused it and of the members of a group.

    No variables. The text is not redacted.
    """
    return "\n".join(_lines(error, set()))


def _lines(error: BaseException, seen: set[int]) -> list[str]:
    if id(error) in seen or len(seen) == MAX_EXCEPTIONS:
        return []
    seen.add(id(error))
    if isinstance(error, WorkerTraceback):
        return [to_single_line(line) for line in str(error).splitlines()[1:]]
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    earlier = [] if cause is None else _lines(cause, seen)
    frames = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__), limit=-MAX_FRAMES)
    return [
        *([*earlier, "", "The exception above led to this one:", ""] if earlier else []),
        "Traceback (most recent call last):",
        *"".join(frames.format()).splitlines(),
        _summary(error),
        *(f"  | {line}" for member in _members(error) for line in _lines(member, seen)),
    ]


def _members(error: BaseException) -> tuple[BaseException, ...]:
    return error.exceptions if isinstance(error, BaseExceptionGroup) else ()


def _summary(error: BaseException) -> str:
    text = clip(exception_text(error))
    return to_single_line(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def to_single_line(text: str) -> str:
    """Return text with line breaks and other unprintable characters escaped."""
    return "".join(part if part.isprintable() else part.encode("unicode_escape").decode() for part in text)


MAX_LOGGED_CHARS: Final = 4_000
"""The maximum length of an argument or a result in a log or span."""


def error_code(result: ToolResult) -> str | None:
    """Return the code of a failed result; None for a successful one, and for one that a LangGraph graph takes over."""
    if result.error is not None:
        return None if is_for_graph(result.exception) else result.error.code
    return "cancelled" if result.is_interrupted else None


def exception_code(error: BaseException) -> str:
    """Return the code of an exception, or its type's name if it ends the program."""
    if isinstance(error, ToolCallError):
        return error.code
    if isinstance(error, Exception):
        return "tool_error"
    is_cancelled = type(error).__name__ in {"CancelledError", "GeneratorExit"}  # by name: asyncio need not be imported
    return "cancelled" if is_cancelled else type(error).__name__


def exception_result(call: Call, error: Exception) -> ToolResult:
    """Return the error result for an exception that an inner middleware raised."""
    message = error.message if isinstance(error, ToolCallError) else f"A middleware of tool {call.name!r} failed."
    return ToolResult(error=ErrorDetail(code=exception_code(error), message=message).hold(error))


class Mask(Protocol):
    """Replaces, in texts, what the host calls secret."""

    def __call__(self, text: str) -> str:
        """Return a text without it."""

    def mask_pieces(self, pieces: Sequence[str]) -> Sequence[str]:
        """Return the pieces of a text without what is in several of them."""


class Redactor:
    """Replaces, in JSON, a call's bound values and secret arguments by `<parameter>`, and then what a mask finds."""

    def __init__(self, call: Call, mask: Mask | None = None) -> None:
        self._redact_hidden = text_redactor(_hidden_values(call))
        self._mask = mask
        self._is_stream = call.emit is not None or call.plan.output.is_stream

    def __call__(self, value: Any, *, redact_keys: bool = True) -> Any:
        """Return redacted JSON. `redact_keys=False` leaves the keys, for objects whose keys a protocol defines."""
        return self._redact_parts(self.redact_joined(value), redact_keys=redact_keys)

    def redact_joined(self, value: Any) -> Any:
        """Return JSON without what is in several items of a list, such as the items of a stream.

        It is looked for in all texts under the same names together. What replaces it is where it begins.
        """
        texts: dict[tuple[str, ...], list[str]] = {}
        for names, text in _iter_texts(value, ()):
            texts.setdefault(names, []).append(text)
        pieces = {names: iter(self._redact_pieces(parts)) for names, parts in texts.items() if len(parts) > 1}
        return _with_texts(value, (), pieces) if pieces else value

    def _redact_pieces(self, pieces: Sequence[str]) -> Sequence[str]:
        redacted = self._redact_hidden.redact_pieces(pieces, with_credentials=self._is_stream)
        return redacted if self._mask is None or not self._is_stream else self._mask.mask_pieces(redacted)

    def _redact_parts(self, value: Any, *, redact_keys: bool) -> Any:
        if isinstance(value, str):
            return self._redact_text(value)
        if isinstance(value, dict):
            return {
                self._redact_text(key) if redact_keys else key: self._redact_parts(part, redact_keys=redact_keys)
                for key, part in value.items()
            }
        if isinstance(value, list):
            return [self._redact_parts(part, redact_keys=redact_keys) for part in value]
        if value is None or isinstance(value, bool):
            return value
        text = self._redact_text(str(value))
        return value if text == str(value) else text

    def _redact_text(self, text: str) -> str:
        redacted = self._redact_hidden(text)
        return redacted if self._mask is None else self._mask(redacted)


def _iter_texts(value: Any, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the texts in JSON, each with the names of the members that lead to it."""
    if isinstance(value, str):
        yield names, value
    elif isinstance(value, list):
        for part in value:
            yield from _iter_texts(part, names)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _iter_texts(part, (*names, key))


def _with_texts(value: Any, names: tuple[str, ...], texts: Mapping[tuple[str, ...], Iterator[str]]) -> Any:
    """Return JSON with other texts, by the names of the members that lead to them."""
    if isinstance(value, str):
        return next(texts[names]) if names in texts else value
    if isinstance(value, list):
        return [_with_texts(part, names, texts) for part in value]
    if isinstance(value, dict):
        return {key: _with_texts(part, (*names, key), texts) for key, part in value.items()}
    return value


def redact_arguments(call: Call, mask: Mask | None = None) -> Any:
    """Return a call's arguments as JSON, with `***` for every argument or member that is secret by mark or by name."""
    names = _secret_names(call)
    arguments = {name: MASK if name in names else value for name, value in call.arguments.items()}
    return redact_json(call, as_json(arguments), mask)


def redact_json(call: Call, value: Any, mask: Mask | None = None) -> Any:
    """Return JSON without the call's bound values, with `***` for members that are secret by mark or by name."""
    return Redactor(call, mask)(_mask_secrets(value, _secret_names(call)))


def redact_result(call: Call, result: ToolResult, mask: Mask | None = None) -> str:
    """Return a result's text, redacted and cut; for an interrupted call its partial value rather than the error.

    The text of what the body raised is included even if the model does not receive it.
    """
    has_value = result.error is None or (result.is_interrupted and result.value is not None)
    content = _public_value(result) if has_value else _error_text(call, result)
    return as_text(Redactor(call, mask)(content if isinstance(content, str) else as_json(content)))


def _public_value(result: ToolResult) -> Any:
    """Return the value; of a raw one what models read of it, or `<type>` if they cannot read it."""
    if not result.is_raw:
        return result.value
    whole = whole_value(result)
    return type_placeholder(result.value) if isinstance(whole, InvalidResultError) else whole


def redact_traceback(call: Call, error: BaseException) -> str:
    """Return a line break and the traceback of an exception, redacted; "" for a ToolCallError without a cause."""
    if isinstance(error, ToolCallError) and error.__cause__ is None:
        return ""
    return "\n" + text_redactor(_hidden_values(call))(format_exception(error))


def _error_text(call: Call, result: ToolResult) -> str:
    error, is_of_body = result.exception, result.error is call.scope.error_detail
    if error is None or not is_of_body or isinstance(error, ToolCallError):
        return result.text
    return body_error_text(error)


def as_json(value: Any) -> Any:
    """Return the JSON form of any value; `<type>` for one that has none."""
    try:
        return json.loads(json.dumps(to_jsonable_python(value, fallback=type_placeholder, bytes_mode="base64")))
    except Exception:  # noqa: BLE001  # a foreign class, or a circular reference: reporting must not fail the call
        return type_placeholder(value)


def received_as_json(value: Any, sent: Any) -> Any:
    """Return the JSON form of a validated argument, secrets included; of an iterator, what was sent."""
    return sent if isinstance(value, Iterator) else as_json(reveal_secrets(value))


def as_text(value: Any, max_chars: int = MAX_LOGGED_CHARS) -> str:
    """Return JSON as text, a str unchanged; cut after `max_chars` characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return clip(text.encode("utf-8", "backslashreplace").decode(), max_chars)


def type_placeholder(value: Any) -> str:
    """Return `<type>`, which represents a value without a JSON form."""
    return f"<{type(value).__name__}>"


def _hidden_values(call: Call) -> Mapping[str, Any]:
    """Return secret arguments and bound values by name: those that the body received, else those in the state."""
    hidden = find_secrets({**call.plan.secret_defaults, **call.arguments}, _secret_names(call))
    values = dict(call.scope.bound_values)
    for bound in call.plan.bound_parameters:
        if bound.parameter.name not in values and bound.binding.resolver is None:
            with suppress(ToolCallError):
                values[bound.parameter.name] = bound.read(call.state_scopes)
    inner_values = () if call.scope.context is None else call.scope.context._inner_values  # noqa: SLF001  # of this package
    for name, value in (*values.items(), *inner_values):
        if value is not MISSING:
            hidden.setdefault(name, MaskedValues()).append(value)
    return hidden


def _secret_names(call: Call) -> frozenset[str]:
    """Return the names of secret arguments, and of secret members at any depth."""
    return call.secrets.union(call.definition.memoize(_schema_secret_names)["names"])


def _schema_secret_names(definition: ToolDefinition) -> dict[str, list[str]]:
    groups = [node["properties"] for node in iter_objects(definition.input_schema) if "properties" in node]
    properties = [pair for group in groups if isinstance(group, dict) for pair in group.items()]
    return {"names": sorted({name for name, part in properties if is_secret_schema(part)})}


def _mask_secrets(value: Any, names: Collection[str]) -> Any:
    if isinstance(value, dict):
        return {
            key: MASK if key in names or is_secret_name(key) else _mask_secrets(part, names)
            for key, part in value.items()
        }
    return [_mask_secrets(part, names) for part in value] if isinstance(value, list) else value
