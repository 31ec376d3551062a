"""Calls from the events of a streamed response, each as soon as it is complete."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, overload

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.formats.parsing.payload import dump_models
from ahvn_tools.formats.parsing.raw_call import Reader
from ahvn_tools.formats.parsing.tool_calls import to_tool_call
from ahvn_tools.formats.rendering.names import index_by_wire_name
from ahvn_tools.results import ToolCall


def is_stream(value: Any) -> bool:
    """Return whether a value can be a stream of events: an iterable, but no text, bytes or mapping."""
    if isinstance(value, Mapping | str | bytes | bytearray | memoryview):
        return False
    return isinstance(value, Iterable | AsyncIterable)


class StreamParser:
    """Parses streams: `for call in stream(events, definitions)`, or `async for` over an asynchronous stream.

    Events are the SDK's objects or their dicts, in order; events without a call are ignored. Each call is yielded as
    soon as it is complete. When a stream breaks off, its incomplete calls come last, with an `error`.
    """

    def __init__(self, make_reader: Callable[[], Reader]) -> None:
        """Take the function that creates a reader for one stream."""
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
        """Yield the calls; with `definitions`, under the tools' own names. Raises TypeError if this is no stream."""
        if not is_stream(events):
            raise TypeError(f"{type(events).__name__} is no stream of events. Pass the SDK's stream, or its events.")
        known = index_by_wire_name(definitions)
        reader = self.get_reader(known)
        if isinstance(events, AsyncIterable):
            return _parse_async(events, reader, known)
        return _parse_sync(events, reader, known)

    def get_reader(self, known: Mapping[str, ToolDefinition]) -> Reader:  # noqa: ARG002  # the format `prompt` needs it
        """Return a new reader. `known` are the exported tools by wire name."""
        return self._make_reader()


def _parse_sync(events: Iterable[Any], reader: Reader, known: dict[str, ToolDefinition]) -> Iterator[ToolCall]:
    for event in events:
        for raw_call in reader.feed(dump_models(event)):
            yield to_tool_call(raw_call, known)
    for raw_call in reader.end():
        yield to_tool_call(raw_call, known)


async def _parse_async(
    events: AsyncIterable[Any], reader: Reader, known: dict[str, ToolDefinition]
) -> AsyncIterator[ToolCall]:
    async for event in events:
        for raw_call in reader.feed(dump_models(event)):
            yield to_tool_call(raw_call, known)
    for raw_call in reader.end():
        yield to_tool_call(raw_call, known)
