"""Stream: the events of an answer that arrives piece by piece, read into calls as these become whole."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, overload

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.formats.parsing import tool_calls
from ahvn_tools.formats.parsing.payload import dump_models
from ahvn_tools.formats.parsing.raw_call import Reader
from ahvn_tools.formats.rendering.names import index_by_wire_name
from ahvn_tools.results import ToolCall

_NOT_STREAMS = (Mapping, str, bytes, bytearray, memoryview)
"""What can be iterated over and is no stream."""


class StreamParser:
    """Reads a stream: `for call in stream(events, definitions)`, or `async for` over an asynchronous one.

    Events are the SDK's objects or their dicts, in their order; those that have to do with no call are passed over. A
    call comes as soon as it is whole. Of a stream that breaks off, calls that are not whole come last, with an `error`.
    """

    def __init__(self, make_reader: Callable[[], Reader]) -> None:
        """Take what makes a reader for one stream."""
        self._make_reader = make_reader

    @overload
    def __call__(self, events: Iterable[Any], definitions: Iterable[ToolDefinition] = ()) -> Iterator[ToolCall]: ...
    @overload
    def __call__(
        self, events: AsyncIterable[Any], definitions: Iterable[ToolDefinition] = ()
    ) -> AsyncIterator[ToolCall]: ...
    def __call__(
        self, events: Iterable[Any] | AsyncIterable[Any], definitions: Iterable[ToolDefinition] = ()
    ) -> Iterator[ToolCall] | AsyncIterator[ToolCall]:
        """Yield the calls; with `definitions`, under the tools' own names. Raises TypeError for what is no stream."""
        if isinstance(events, _NOT_STREAMS) or not isinstance(events, Iterable | AsyncIterable):
            raise TypeError(f"{type(events).__name__} is no stream of events. Pass the SDK's stream, or its events.")
        known = index_by_wire_name(definitions)
        return (
            self._parse_async(events, known) if isinstance(events, AsyncIterable) else self._parse_sync(events, known)
        )

    def _parse_sync(self, events: Iterable[Any], known: dict[str, ToolDefinition]) -> Iterator[ToolCall]:
        reader = self._make_reader()
        for event in events:
            for sent in reader.feed(dump_models(event)):
                yield tool_calls.to_tool_call(sent, known)
        for sent in reader.end():
            yield tool_calls.to_tool_call(sent, known)

    async def _parse_async(
        self, events: AsyncIterable[Any], known: dict[str, ToolDefinition]
    ) -> AsyncIterator[ToolCall]:
        reader = self._make_reader()
        async for event in events:
            for sent in reader.feed(dump_models(event)):
                yield tool_calls.to_tool_call(sent, known)
        for sent in reader.end():
            yield tool_calls.to_tool_call(sent, known)
