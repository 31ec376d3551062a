"""One call as a provider wrote it, and what collects it from the events of a stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ahvn_tools.json_types import JsonObject


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


class Reader(Protocol):
    """Reads the events of one stream, as JSON data."""

    def feed(self, event: Any) -> Iterable[RawCall]:
        """Read the next event and return the calls that it completes."""
        ...

    def end(self) -> Iterable[RawCall]:
        """Return the calls that are incomplete when the stream ends."""
        ...


class WholeCallReader:
    """Reads a stream in which each event contains complete calls, or none."""

    def __init__(self, extract_calls: Callable[[Any], Iterable[RawCall]]) -> None:
        self._extract_calls = extract_calls

    def feed(self, event: Any) -> Iterable[RawCall]:
        """Return the calls of an event."""
        return self._extract_calls(event) if isinstance(event, dict) else ()

    def end(self) -> Iterable[RawCall]:
        """Return no calls: none can be incomplete."""
        return ()


class CallAccumulator:
    """One call whose arguments arrive as several fragments of text."""

    def __init__(self, start: RawCall | None = None) -> None:
        self.id: Any = None
        self.name: Any = None
        self.provider: JsonObject = {}
        self._texts: list[str] = []
        self._complete_arguments: Any = None
        if start is not None:
            self.merge(start)

    def merge(self, piece: RawCall) -> None:
        """Add a piece of the call. The first id and the first name count."""
        self.id = self.id or piece.id
        self.name = self.name or piece.name
        self.provider |= piece.provider
        self.add(piece.arguments)

    def add(self, fragment: Any) -> None:
        """Add the next fragment of text, or the complete object, which some hosts send instead."""
        if not isinstance(fragment, str):
            self._complete_arguments = self._complete_arguments if fragment is None else fragment
        elif fragment:
            self._texts.append(fragment)

    def arguments(self) -> Any:
        """Return the arguments so far: the text, else the complete object."""
        text = "".join(self._texts)
        return text if text.strip() else self._complete_arguments

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
        """Return the call as far as it has arrived."""
        return RawCall(
            id=self.id, name=self.name, arguments=self.arguments(), provider=self.provider, is_truncated=is_truncated
        )
