"""Stream: the events of an answer that arrives piece by piece, read into calls as these become whole."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, overload

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.formats import answer
from ahvn_tools.formats.names import by_wire_name
from ahvn_tools.formats.received import plain
from ahvn_tools.formats.sent import Reader
from ahvn_tools.results import ToolCall

_NO_EVENTS = (Mapping, str, bytes, bytearray, memoryview)
"""What can be iterated over and is no stream."""


class Stream:
    """Reads a stream: `for call in stream(events, definitions)`, or `async for` over an asynchronous one.

    Events are the SDK's objects or their dicts, in their order; those that have to do with no call are passed over. A
    call comes as soon as it is whole. Of a stream that breaks off, calls that are not whole come last, with an `error`.
    """

    def __init__(self, reader: Callable[[], Reader]) -> None:
        """Take what makes a reader for one stream."""
        self._reader = reader

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
        if isinstance(events, _NO_EVENTS) or not isinstance(events, Iterable | AsyncIterable):
            raise TypeError(f"{type(events).__name__} is no stream of events. Pass the SDK's stream, or its events.")
        known = by_wire_name(definitions)
        return self._later(events, known) if isinstance(events, AsyncIterable) else self._now(events, known)

    def _now(self, events: Iterable[Any], known: dict[str, ToolDefinition]) -> Iterator[ToolCall]:
        reader = self._reader()
        for event in events:
            for sent in reader.feed(plain(event)):
                yield answer.call(sent, known)
        for sent in reader.end():
            yield answer.call(sent, known)

    async def _later(self, events: AsyncIterable[Any], known: dict[str, ToolDefinition]) -> AsyncIterator[ToolCall]:
        reader = self._reader()
        async for event in events:
            for sent in reader.feed(plain(event)):
                yield answer.call(sent, known)
        for sent in reader.end():
            yield answer.call(sent, known)
