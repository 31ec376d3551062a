"""Tool calls: as a provider wrote them, collected from a stream, and checked.

Broken arguments become an error that the model can act on.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.formats.json_data import replace_surrogates, to_json_data
from ahvn_tools.formats.parsing.payload import dump_models, is_stream, parse_payload
from ahvn_tools.formats.rendering.names import index_by_wire_name
from ahvn_tools.formats.sdk_objects import refuse_other_sdk
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolCall

TRUNCATED_CALL = "The call was cut off because the response reached its length limit. Send a shorter call."
INTERRUPTED_CALL = "The call was cut off because the response ended before the call was complete. Send the call again."
INVALID_RESPONSE = "The response is not valid JSON, so its calls cannot be read. Send it again."
MISSING_NAME = "The call does not name a tool. Send it again with the name of the tool."
ARGUMENTS_NOT_OBJECT = "The arguments are not a JSON object. Send one JSON object with the arguments by name."

_MODEL_ROLES = ("assistant", "model")
_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder(strict=False)

_ANSWER_PARTS = ("message", "response", "chunk", "data", "ResponseMetadata")
"""Where an answer, or an event, has the fields that identify it; else it has them itself."""
_ANSWER_KEYS = ("id", "responseId", "response_id", "RequestId", "created", "created_at")
"""The fields that differ between two answers of a conversation."""


@dataclass(frozen=True, kw_only=True)
class RawCall:
    """One call as the response contains it, unchecked."""

    id: Any
    name: Any
    arguments: Any
    """An object, JSON text, or None."""
    provider: JsonObject = field(default_factory=dict)
    cut_off: str | None = None
    """Why the response ended in this call, as a text for the model in case its arguments are incomplete."""
    error: str | None = None
    """What is wrong with the call, as a text for the model; None when only the arguments can be wrong."""


class Reader(ABC):
    """Reads one response, or the events of one stream, as JSON data."""

    @abstractmethod
    def extract(self, data: Any) -> Iterable[RawCall]:
        """Return the calls in a complete response, or in a part of it."""

    def feed(self, event: Any) -> Iterable[RawCall]:
        """Return the calls that the next event completes. By default, an event contains complete calls or none."""
        return self.extract(event) if isinstance(event, dict) else ()

    def end(self) -> Iterable[RawCall]:
        """Return the calls that are incomplete when the stream ends. By default, there are none."""
        return ()


@dataclass(eq=False)
class CallAccumulator:
    """One call whose arguments arrive as several fragments of text, which some hosts repeat."""

    known: Mapping[str, Any] = field(default_factory=dict)
    """The exported tools by wire name: they decide whether several names are the parts of one."""
    id: Any = None
    provider: JsonObject = field(default_factory=dict)
    _names: list[Any] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)
    _complete_arguments: Any = None

    @property
    def name(self) -> Any:
        """The first name that has arrived, or the tool whose name all that have arrived begin or are."""
        return _join_names(self._names, self.known) if len(self._names) > 1 else self._names[0] if self._names else None

    def merge(self, piece: RawCall) -> CallAccumulator:
        """Add a piece of the call, and return the accumulator. The first id counts."""
        self.id = self.id or piece.id
        if piece.name and piece.name not in self._names:
            self._names.append(piece.name)
        self.provider |= piece.provider
        self.add(piece.arguments)
        return self

    def add(self, fragment: Any) -> None:
        """Add the next fragment of text, or the complete object, which some hosts send instead."""
        if isinstance(fragment, str):
            self._texts += [fragment] if fragment else []
        elif fragment is not None:
            self._texts.clear()
            self._complete_arguments = fragment

    def get_object(self) -> JsonObject | None:
        """Return the arguments if they are complete; None if they are not."""
        if self._texts and "}" not in next(filter(str.strip, reversed(self._texts)), "}"):
            return None  # saves parsing the text after most fragments
        arguments = self._get_arguments()
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments, strict=False)
            except (ValueError, RecursionError):
                return None
        return arguments if isinstance(arguments, dict) else None

    def has_name(self, name: Any) -> bool:
        """Return whether this is the call's name or a part of it, or the next part, or all of which it is a part."""
        if name == self.name or name in self._names:
            return True
        return bool(_join_names([*self._names, name], self.known) != self.name)

    def repeats(self, other: CallAccumulator) -> bool:
        """Return whether this call of the same tool is another one again: it adds nothing to its arguments."""
        arguments, whole, found = self._get_arguments(), other._get_arguments(), self.get_object()
        if arguments is None or found is not None:
            return found is None or found == other.get_object()
        return isinstance(arguments, str) and isinstance(whole, str) and whole.startswith(arguments.rstrip())

    def absorb(self, other: CallAccumulator) -> None:
        """Take the id and the provider data of another accumulator of the same call."""
        self.id, self.provider = self.id or other.id, other.provider | self.provider

    def begins_again(self, start: RawCall) -> bool:
        """Return whether the start of a call is this call's, which a host sends again."""
        return bool(self.id) and self.id == start.id

    def to_raw_call(self, *, cut_off: str | None = None) -> RawCall:
        """Return the call as far as it has arrived. Arguments as text count before the complete object."""
        arguments = self._get_arguments()
        return RawCall(id=self.id, name=self.name, arguments=arguments, provider=self.provider, cut_off=cut_off)

    def _get_arguments(self) -> Any:
        text = join_fragments(self._texts)
        return text if text.strip() else self._complete_arguments


def join_fragments(texts: Sequence[str]) -> str:
    """Return the text of all fragments, without what a host has sent again.

    Fragments that are one JSON text together are just joined. Otherwise a fragment that begins with all that has
    arrived replaces it, and so does a complete JSON object after a complete one.
    """
    whole = "".join(texts)
    if len(texts) < 2 or _is_json(whole):  # noqa: PLR2004  # one fragment repeats nothing
        return whole
    for text in (whole, "".join(drop_repeated_beginnings(texts))):
        last = _get_last_object(text)
        if last is not None:
            return last
    return whole


def drop_repeated_beginnings(texts: Iterable[str], *, sign: str = "") -> list[str]:
    """Return the fragments without those that a later one repeats: one that begins with all that has arrived.

    What has arrived counts from its first `sign` on.
    """
    kept: list[str] = []
    length = 0
    for text in texts:
        # a shorter one cannot repeat all, so the time grows with the length of the texts alone
        if length and len(text) >= length and text.startswith(whole := "".join(kept)) and sign in whole:
            kept, length = [], 0
        kept.append(text)
        length += len(text)
    return kept


def _get_last_object(text: str) -> str | None:
    """Return the last of several JSON objects in a row; None if the text contains anything else.

    The last one may be cut off where it repeats the one before.
    """
    last, position = None, 0
    while (position := _SPACE.match(text, position).end()) < len(text):  # type: ignore[union-attr]  # it always matches
        try:
            value, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            return last if last is not None and last.startswith(text[position:]) else None
        if not isinstance(value, dict):
            return None
        last, position = text[position:end], end
    return last


def _is_json(text: str) -> bool:
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return False
    return True


def _join_names(names: Sequence[Any], known: Mapping[str, Any]) -> Any:
    """Return the known name that these names are: as its parts, or as its growing beginning; else the first one."""
    if not all(isinstance(name, str) for name in names) or all(name in known for name in names):
        return names[0]
    joined = "".join(drop_repeated_beginnings(names))
    return joined if joined in known else names[0]


@dataclass(frozen=True)
class StreamParser:
    """Parses streams: `for call in stream(events, definitions)`, or `async for` over an asynchronous stream.

    Events are the SDK's objects or their dicts, in order; events without a call are ignored. Each call is yielded as
    soon as it is complete. When a stream breaks off, its incomplete calls come last, with an `error`.
    """

    make_reader: Callable[..., Reader]
    """Creates a reader for one stream."""
    needs_definitions: bool = False
    """Whether a reader is created from the exported tools by wire name; otherwise from nothing."""
    format: str | None = None
    """The name of the format, for the `format` of the calls."""
    make_id: Callable[[str], str] = lambda text: f"call_{hash_text(text)[:24]}"
    """Makes the id of a call that has none, always the same for a text."""

    @overload
    def __call__(self, events: Iterable[Any], definitions: Iterable[ToolDefinition] = ()) -> Iterator[ToolCall]: ...
    @overload
    def __call__(
        self, events: AsyncIterable[Any], definitions: Iterable[ToolDefinition] = ()
    ) -> AsyncIterator[ToolCall]: ...
    def __call__(
        self, events: Iterable[Any] | AsyncIterable[Any], definitions: Iterable[ToolDefinition] = ()
    ) -> Iterator[ToolCall] | AsyncIterator[ToolCall]:
        """Yield the calls; with `definitions`, under the tools' own names. Raises TypeError if this is no stream."""
        if not is_stream(events):
            raise TypeError(f"{type(events).__name__} is no stream of events. Pass the SDK's stream, or its events.")
        reader = _AnswerReader(self, index_by_wire_name(definitions))
        if isinstance(events, AsyncIterable):
            return self._parse_async(events, reader)
        return reader.read_events(map(self._dump, events))

    def _dump(self, event: Any) -> Any:
        data = dump_models(event)
        refuse_other_sdk(event, data, self.format)
        return data

    async def _parse_async(self, events: AsyncIterable[Any], reader: _AnswerReader) -> AsyncIterator[ToolCall]:
        async for event in events:
            for call in reader.feed(self._dump(event)):
                yield call
        for call in reader.end():
            yield call


class _AnswerReader:
    """Reads one answer with a new reader of a format, and checks its calls.

    A call without an id gets one that is always the same for the answer: it is made from what identifies the answer,
    and the call's position, name and arguments. The names are the tools' own, of the tools that are `known`.
    """

    def __init__(self, parser: StreamParser, known: Mapping[str, ToolDefinition]) -> None:
        self._parser = parser
        self._known = known
        self._reader = parser.make_reader(known) if parser.needs_definitions else parser.make_reader()
        self._answer: Any = None
        self._answer_key = ""
        """What identifies the answer; it is read when a call needs it, or a stream begins."""
        self._count = 0
        self._sent: set[tuple[str, str, str]] = set()

    def extract(self, data: Any) -> Iterator[ToolCall]:
        """Yield the calls of a complete response, or of a part of it."""
        self._answer = data
        return map(self._to_tool_call, self._reader.extract(data))

    def read_events(self, events: Iterable[Any]) -> Iterator[ToolCall]:
        """Yield the calls of all events of a stream."""
        for event in events:
            yield from self.feed(event)
        yield from self.end()

    def feed(self, event: Any) -> Iterator[ToolCall]:
        """Yield the calls that the next event of a stream completes."""
        self._answer_key = self._answer_key or _get_answer_key(event)
        return self._drop_repeated(self._reader.feed(event))

    def end(self) -> Iterator[ToolCall]:
        """Yield the calls that are incomplete when the stream ends."""
        return self._drop_repeated(self._reader.end())

    def _drop_repeated(self, raw_calls: Iterable[RawCall]) -> Iterator[ToolCall]:
        """Yield the calls of a stream, without those that a host sends again with the same id."""
        for raw_call in raw_calls:
            call = self._to_tool_call(raw_call)
            key = (call.id, call.name, _to_sorted_json(call.arguments))
            if key not in self._sent:
                self._sent.add(key)
                yield call

    def _to_tool_call(self, raw_call: RawCall) -> ToolCall:
        """Return the checked call. Its id, name and provider data can be sent back: lone surrogates are replaced."""
        wire = replace_surrogates(raw_call.name) if isinstance(raw_call.name, str) else ""
        arguments, error = ({}, raw_call.error) if raw_call.error else _parse_arguments(raw_call)
        call_id = raw_call.id
        if not isinstance(call_id, str) or not call_id:
            number = call_id if isinstance(call_id, int | float) else ""
            self._answer_key = self._answer_key or _get_answer_key(self._answer)
            parts = (self._answer_key, self._count, number, wire, _to_sorted_json(arguments))
            call_id = self._parser.make_id(" ".join(map(str, parts)))
        self._count += 1
        return ToolCall(
            id=replace_surrogates(call_id),
            name=self._known[wire].name if wire in self._known else wire,
            arguments=arguments,
            provider=to_json_data(raw_call.provider),
            error=error if wire else MISSING_NAME,
            wire_name=wire,
            format=self._parser.format,
        )


def parse_calls(response: Any, definitions: Iterable[ToolDefinition], stream: StreamParser) -> list[ToolCall]:
    """Return the calls that the reader of `stream` extracts from a response; unreadable calls have an `error`.

    A list from which it extracts none is read as the events of a stream, and then as messages of the model. Raises
    TypeError for a `response` that is no response, text or stream, and for an SDK's object of another format.
    """
    known = index_by_wire_name(definitions)
    try:
        data = parse_payload(response)
    except (ValueError, RecursionError):
        text = repr(response) if isinstance(response, str | bytes) else ""  # what is nested too deep has no text
        return [ToolCall(id=stream.make_id(text), name="", error=INVALID_RESPONSE, format=stream.format)]
    calls = list(_AnswerReader(stream, known).extract(data))
    if not calls and isinstance(data, list):
        calls = list(_AnswerReader(stream, known).read_events(data))
    if not calls and _are_messages(data):
        calls = [call for message in data for call in _AnswerReader(stream, known).extract(message)]
    if not calls:
        refuse_other_sdk(response, data, stream.format)
    return calls


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _get_answer_key(data: Any) -> str:
    """Return what identifies an answer, or the answer of an event; an empty text if nothing does."""
    parts = [data, *(data.get(part) for part in _ANSWER_PARTS)] if isinstance(data, dict) else []
    found = [part.get(key) for part in parts if isinstance(part, dict) for key in _ANSWER_KEYS]
    return " ".join(str(value) for value in found if value and isinstance(value, str | int | float))


def _to_sorted_json(arguments: JsonObject) -> str:
    return json.dumps(to_json_data(arguments), sort_keys=True)


def _are_messages(data: Any) -> bool:
    """Return whether data is a list of a model's messages, as `message` returns it; a whole history is none."""
    return isinstance(data, list) and all(isinstance(item, dict) and item.get("role") in _MODEL_ROLES for item in data)


def _parse_arguments(raw_call: RawCall) -> tuple[JsonObject, str | None]:
    """Return the arguments and None, or an empty object and an error that quotes none of them."""
    value = raw_call.arguments
    if raw_call.cut_off and not (isinstance(value, str) and value.strip()):
        return {}, raw_call.cut_off  # text shows whether it is complete; an object does not
    try:
        for _ in range(2):  # some models encode the JSON text as JSON again
            if isinstance(value, str):
                value = json.loads(value, strict=False) if value.strip() else None
    except (ValueError, RecursionError) as error:
        position = f" (error at character {error.pos + 1})" if isinstance(error, json.JSONDecodeError) else ""
        invalid = f"The arguments are not valid JSON{position}. Send one complete JSON object."
        return {}, raw_call.cut_off or invalid
    if value is None:
        return {}, None
    return (value, None) if isinstance(value, dict) else ({}, ARGUMENTS_NOT_OBJECT)
