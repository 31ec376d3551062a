"""Tool calls: as a provider wrote them, collected from a stream, and checked.

Broken arguments become an error that the model can act on.
"""

from __future__ import annotations

import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
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
INVALID_RESPONSE = "The response is not valid JSON, so its calls cannot be read. Send it again."
MISSING_NAME = "The call does not name a tool. Send it again with the name of the tool."
ARGUMENTS_NOT_OBJECT = "The arguments are not a JSON object. Send one JSON object with the arguments by name."

_MODEL_ROLES = ("assistant", "model")


@dataclass(frozen=True, kw_only=True)
class RawCall:
    """One call as the response contains it, unchecked."""

    id: Any
    name: Any
    arguments: Any
    """An object, JSON text, or None."""
    provider: JsonObject = field(default_factory=dict)
    is_truncated: bool = False
    """Whether the response reached its length limit in this call."""
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
    """One call whose arguments arrive as several fragments of text."""

    id: Any = None
    name: Any = None
    provider: JsonObject = field(default_factory=dict)
    _texts: list[str] = field(default_factory=list)
    _complete_arguments: Any = None

    def merge(self, piece: RawCall) -> CallAccumulator:
        """Add a piece of the call, and return the accumulator. The first id and the first name count."""
        self.id = self.id or piece.id
        self.name = self.name or piece.name
        self.provider |= piece.provider
        self.add(piece.arguments)
        return self

    def add(self, fragment: Any) -> None:
        """Add the next fragment of text, or the complete object, which some hosts send instead."""
        if not isinstance(fragment, str):
            self._complete_arguments = self._complete_arguments if fragment is None else fragment
        elif fragment:
            self._texts.append(fragment)

    def is_complete(self) -> bool:
        """Return whether the arguments are one complete JSON object."""
        if not self._texts:
            return isinstance(self._complete_arguments, dict)
        if "}" not in self._texts[-1]:
            return False  # saves parsing the text after most fragments
        try:
            return isinstance(json.loads("".join(self._texts), strict=False), dict)
        except (ValueError, RecursionError):
            return False

    def to_raw_call(self, *, is_truncated: bool = False) -> RawCall:
        """Return the call as far as it has arrived. Arguments as text count before the complete object."""
        text = "".join(self._texts)
        arguments = text if text.strip() else self._complete_arguments
        return RawCall(
            id=self.id, name=self.name, arguments=arguments, provider=self.provider, is_truncated=is_truncated
        )


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
        known = index_by_wire_name(definitions)
        reader = self.get_reader(known)
        if isinstance(events, AsyncIterable):
            return self._parse_async(events, reader, known)
        raw_calls = _read_events(map(self._dump, events), reader)
        return (self.to_tool_call(raw_call, known) for raw_call in raw_calls)

    def get_reader(self, known: Mapping[str, ToolDefinition]) -> Reader:
        """Return a new reader. `known` are the exported tools by wire name."""
        return self.make_reader(known) if self.needs_definitions else self.make_reader()

    def _dump(self, event: Any) -> Any:
        data = dump_models(event)
        refuse_other_sdk(event, data, self.format)
        return data

    def to_tool_call(self, raw_call: RawCall, known: Mapping[str, ToolDefinition]) -> ToolCall:
        """Return the checked call, under the tool's own name if the tool is among `known`, by wire name.

        Its id, name and provider data can be sent back: lone surrogates are replaced.
        """
        wire = replace_surrogates(raw_call.name) if isinstance(raw_call.name, str) else ""
        arguments, error = ({}, raw_call.error) if raw_call.error else _parse_arguments(raw_call)
        return ToolCall(
            id=replace_surrogates(raw_call.id) if isinstance(raw_call.id, str) and raw_call.id else _make_call_id(),
            name=known[wire].name if wire in known else wire,
            arguments=arguments,
            provider=to_json_data(raw_call.provider),
            error=error if wire else MISSING_NAME,
            wire_name=wire,
            format=self.format,
        )

    async def _parse_async(
        self, events: AsyncIterable[Any], reader: Reader, known: Mapping[str, ToolDefinition]
    ) -> AsyncIterator[ToolCall]:
        async for event in events:
            for raw_call in reader.feed(self._dump(event)):
                yield self.to_tool_call(raw_call, known)
        for raw_call in reader.end():
            yield self.to_tool_call(raw_call, known)


def parse_calls(response: Any, definitions: Iterable[ToolDefinition], stream: StreamParser) -> list[ToolCall]:
    """Return the calls that the reader of `stream` extracts from a response; unreadable calls have an `error`.

    A list from which it extracts none is read as the events of a stream, and then as messages of the model. Raises
    TypeError for a `response` that is no response, text or stream, and for an SDK's object of another format.
    """
    known = index_by_wire_name(definitions)
    try:
        data = parse_payload(response)
    except (ValueError, RecursionError):
        return [ToolCall(id=_make_call_id(), name="", error=INVALID_RESPONSE, format=stream.format)]
    raw_calls = list(stream.get_reader(known).extract(data))
    if not raw_calls and isinstance(data, list):
        raw_calls = list(_read_events(data, stream.get_reader(known)))
    if not raw_calls and _are_messages(data):
        raw_calls = [raw_call for message in data for raw_call in stream.get_reader(known).extract(message)]
    if not raw_calls:
        refuse_other_sdk(response, data, stream.format)
    return [stream.to_tool_call(raw_call, known) for raw_call in raw_calls]


def _are_messages(data: Any) -> bool:
    """Return whether data is a list of a model's messages, as `message` returns it; a whole history is none."""
    return isinstance(data, list) and all(isinstance(item, dict) and item.get("role") in _MODEL_ROLES for item in data)


def _make_call_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"


def _parse_arguments(raw_call: RawCall) -> tuple[JsonObject, str | None]:
    """Return the arguments and None, or an empty object and an error that quotes none of them."""
    value = raw_call.arguments
    if raw_call.is_truncated and not (isinstance(value, str) and value.strip()):
        return {}, TRUNCATED_CALL  # text shows whether it is complete; an object does not
    try:
        for _ in range(2):  # some models encode the JSON text as JSON again
            if isinstance(value, str):
                value = json.loads(value, strict=False) if value.strip() else None
    except (ValueError, RecursionError) as error:
        position = f" (error at character {error.pos + 1})" if isinstance(error, json.JSONDecodeError) else ""
        invalid = f"The arguments are not valid JSON{position}. Send one complete JSON object."
        return {}, TRUNCATED_CALL if raw_call.is_truncated else invalid
    if value is None:
        return {}, None
    return (value, None) if isinstance(value, dict) else ({}, ARGUMENTS_NOT_OBJECT)


def _read_events(events: Iterable[Any], reader: Reader) -> Iterator[RawCall]:
    for event in events:
        yield from reader.feed(event)
    yield from reader.end()
