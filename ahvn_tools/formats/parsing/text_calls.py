"""Calls that a model writes as JSON into its text, for models without function calling."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.formats.json_data import get_objects
from ahvn_tools.formats.parsing.broken_json import ParsedObject
from ahvn_tools.formats.parsing.json_text import iter_json_objects
from ahvn_tools.formats.parsing.tool_calls import RawCall, Reader, drop_repeated_beginnings
from ahvn_tools.json_types import JsonObject

TRUNCATED_CALL = (
    "The call was cut off, or its quotes and braces do not match. Send it again as one complete JSON object."
)
INVALID_CALL = "The call is not valid JSON. Send it again as one complete JSON object."
DUPLICATE_ARGUMENTS = 'The call contains its arguments twice. Send it again with "parameters" only.'

_NAME_KEYS = ("name", "tool", "function", "tool_name", "function_name")
_PARAMETER_KEYS = ("parameters", "arguments")
_PARAMETER_ALIASES = ("params", "args", "input")
"""What some models write for parameters. Other data has such keys too, so these count only next to a known name."""
_IGNORED_KEYS = frozenset({"id", "type"})
_WRAPPER_KEYS = ("tool_calls", "tool_call", "function_calls", "function_call", "calls")
_MAX_DEPTH = 4
"""A list in a wrapper in a list, and the call: no model nests deeper."""

_TEXT_TYPES = frozenset({
    None, "text", "output_text", "message", "text_delta", "content_block_delta", "response.output_text.delta", "ai",
    "AIMessageChunk",
})  # fmt: skip
"""The types of text parts, messages, events, and LangChain's messages. Most providers set no type."""

_LANGCHAIN_TYPES = ("ai", "AIMessageChunk")

_MODEL_ROLES = frozenset({None, "assistant", "model"})

_TEXT_KEYS = (
    "data",  # an event of Mistral
    "contentBlockDelta",  # an event of Bedrock
    "delta",  # of a choice, a block, a text
    "output",  # Responses, Bedrock
    "message",
    "content",
    "parts",  # Gemini
    "text",
    "response",  # Ollama's completions
)
"""The keys of a text, or of an object that contains the text, in the order of preference."""

_MAX_TEXT_DEPTH = 12
"""No provider nests its text deeper."""


class TextReader(Reader):
    """Reads text: of a response, or of a stream, in fragments or in the events of any provider."""

    def __init__(self, known: Mapping[str, ToolDefinition]) -> None:
        """Start with no text; `known` are the exported tools by wire name."""
        self._known = known
        self._texts: list[str] = []

    def extract(self, data: Any) -> list[RawCall]:
        """Return the calls that JSON data consists of, else the calls in its text if it is a provider's response."""
        if isinstance(data, dict) and data.get("type") in _LANGCHAIN_TYPES:  # `tool_calls` are not in its text
            return _extract_from_choices(data, self._known)
        raw_calls = list(_extract_from_value(data, self._known))
        if isinstance(data, list):
            return raw_calls  # a list without calls is a list of events
        return raw_calls or _extract_from_choices(data, self._known)

    def feed(self, event: Any) -> Iterable[RawCall]:
        """Read an event, or a fragment of text; calls come at the end."""
        self._texts.append(extract_text(event))
        return ()

    def end(self) -> Iterator[RawCall]:
        """Yield all calls."""
        yield from _extract_from_text(_join_texts(self._texts), self._known)


def _join_texts(texts: Iterable[str]) -> str:
    """Return the text of a stream, without what a host has sent again.

    Each text of some hosts begins with the one before; others send the whole text again at the end.
    """
    parts = list(filter(None, texts))
    if all(later.startswith(earlier) for earlier, later in itertools.pairwise(parts)):
        return parts[-1] if parts else ""
    return "".join(drop_repeated_beginnings(parts, sign="}"))


def _extract_from_text(text: str, known: Mapping[str, ToolDefinition]) -> Iterator[RawCall]:
    try:
        data = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        for parsed in iter_json_objects(text, _WRAPPER_KEYS):
            yield from _extract_from_object(parsed, known)
        return
    if isinstance(data, dict | list):
        yield from list(_extract_from_value(data, known)) or _extract_from_choices(data, known)


def _extract_from_choices(data: Any, known: Mapping[str, ToolDefinition]) -> list[RawCall]:
    """Return the calls in the first choice that contains calls; most responses have one choice."""
    texts = map(extract_text, _get_choices(data) or [data])
    return next(filter(None, (list(_extract_from_text(text, known)) for text in texts)), [])


def _extract_from_object(parsed: ParsedObject, known: Mapping[str, ToolDefinition]) -> Iterator[RawCall]:
    candidate = _to_candidate(parsed.value, known)
    is_unfinished = parsed.is_truncated and candidate and (candidate.other_keys or not candidate.arguments)
    if parsed.is_exact and not is_unfinished:
        yield from _extract_from_value(parsed.value, known)
    elif candidate and candidate.is_partial_call:
        error = TRUNCATED_CALL if parsed.is_truncated else INVALID_CALL
        yield RawCall(id=None, name=candidate.name, arguments=None, error=error)


def _extract_from_value(value: Any, known: Mapping[str, ToolDefinition], depth: int = 0) -> Iterator[RawCall]:
    """Yield the calls that a value is: a call, a list of calls, or a wrapper around calls."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, list):
        for item in value:
            yield from _extract_from_value(item, known, depth + 1)
    elif isinstance(value, dict):
        raw_call = _to_raw_call(value, known)
        if raw_call is not None:
            yield raw_call
            return
        for key in _WRAPPER_KEYS:
            yield from _extract_from_value(value.get(key), known, depth + 1)


def _to_raw_call(value: JsonObject, known: Mapping[str, ToolDefinition]) -> RawCall | None:
    """Return the call that an object is; None for other data."""
    candidate = _to_candidate(value, known)
    if candidate is None:
        return None
    if candidate.arguments:
        error = DUPLICATE_ARGUMENTS if len(candidate.arguments) > 1 else None
        return RawCall(id=None, name=candidate.name, arguments=candidate.arguments[0], error=error)
    is_call = candidate.name in known and not candidate.other_keys
    return RawCall(id=None, name=candidate.name, arguments=None) if is_call else None


@dataclass(frozen=True, kw_only=True)
class _CallCandidate:
    """An object that has the name of a tool, and may be a call."""

    name: str
    arguments: list[Any]
    """The values under all keys for parameters; more than one is ambiguous."""
    other_keys: set[str]

    @property
    def is_partial_call(self) -> bool:
        """Whether it is a call so far: it has parameters, or its other keys begin like the key for parameters."""
        return bool(self.arguments) or all(
            any(word.startswith(key) for word in _PARAMETER_KEYS) for key in self.other_keys
        )


def _to_candidate(value: JsonObject, known: Mapping[str, ToolDefinition]) -> _CallCandidate | None:
    """Return the candidate that an object is, alone or together with its `function` (OpenAI's form)."""
    function = value.get("function")
    parts = [function, value] if isinstance(function, dict) else [value]
    name = next((part[key] for part in parts for key in _NAME_KEYS if key in part), None)
    if not isinstance(name, str):
        return None
    name = name.replace("\\_", "_")  # an escape of Markdown
    arguments = _get_values(parts, _PARAMETER_KEYS) or (_get_values(parts, _PARAMETER_ALIASES) if name in known else [])
    other_keys = {key for part in parts for key in part} - _IGNORED_KEYS - {*_NAME_KEYS, *_PARAMETER_KEYS}
    return _CallCandidate(name=name, arguments=arguments, other_keys=other_keys)


def _get_values(parts: list[JsonObject], keys: Sequence[str]) -> list[Any]:
    return [part[key] for part in parts for key in keys if key in part]


def extract_text(value: Any, depth: int = 0) -> str:
    """Return the text of a response, a message, its parts or an event, as JSON data; of choices, the first one's."""
    if isinstance(value, str):
        return value
    if depth == _MAX_TEXT_DEPTH:
        return ""
    if isinstance(value, list):
        return "".join(extract_text(item, depth + 1) for item in value)
    if not isinstance(value, dict) or not _is_model_text(value):
        return ""
    if choices := _get_choices(value):
        return "".join(extract_text(choice, depth + 1) for choice in choices if not choice.get("index"))
    return next((extract_text(value[key], depth + 1) for key in _TEXT_KEYS if value.get(key)), "")


def has_text(value: Any, depth: int = 0) -> bool:
    """Return whether a response, a message, its parts or an event, as JSON data, contains a text, even an empty one."""
    if isinstance(value, list) and depth < _MAX_TEXT_DEPTH:
        return any(has_text(item, depth + 1) for item in value)
    if not isinstance(value, dict) or depth == _MAX_TEXT_DEPTH:
        return isinstance(value, str)
    parts = _get_choices(value) or [value[key] for key in _TEXT_KEYS if key in value]
    return _is_model_text(value) and has_text(parts, depth + 1)


def _get_choices(response: Any) -> list[JsonObject]:
    return get_objects(response, "choices") or get_objects(response, "candidates")


def _is_model_text(value: JsonObject) -> bool:
    kind, role = value.get("type"), value.get("role")
    is_hashable = all(isinstance(name, str | None) for name in (kind, role))
    return is_hashable and kind in _TEXT_TYPES and role in _MODEL_ROLES and not value.get("thought")
