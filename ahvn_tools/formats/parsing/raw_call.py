"""Sent: one call as it stands in an answer; and how the events of a stream are gathered into calls."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ahvn_tools.definition import JsonObject


@dataclass(frozen=True, kw_only=True)
class RawCall:
    """One call as it stands in an answer."""

    id: Any
    name: Any
    arguments: Any
    """An object, JSON text, or nothing at all."""
    provider: JsonObject = field(default_factory=dict)
    is_truncated: bool = False
    """Whether the answer ended in this call for want of room."""
    error: str | None = None
    """What the provider itself says is wrong with the call, in words for the model."""


class Reader(Protocol):
    """Reads the events of one stream, as JSON data."""

    def feed(self, event: Any) -> Iterable[RawCall]:
        """Take the next event; give the calls that it completes."""
        ...

    def end(self) -> Iterable[RawCall]:
        """Give the calls that no event completed: the stream is over, or broke off."""
        ...


class CallAccumulator:
    """One call whose arguments arrive in pieces of text."""

    def __init__(self, *, id: Any, name: Any, provider: JsonObject | None = None) -> None:  # noqa: A002  # as in Sent
        """Take what the start of the call says."""
        self.id = id
        self.name = name
        self.provider = provider or {}
        self._texts: list[str] = []
        self._complete_arguments: Any = None

    def add(self, piece: Any) -> None:
        """Take the next piece; a host that sends the object whole is taken at its word."""
        if not isinstance(piece, str):
            self._complete_arguments = self._complete_arguments if piece is None else piece
        elif piece:
            self._texts.append(piece)

    def arguments(self) -> Any:
        """Return the arguments as far as they have come: the text, else what came whole."""
        text = "".join(self._texts)
        return text if text.strip() else self._complete_arguments

    def is_complete(self) -> bool:
        """Tell whether the arguments are one whole JSON object."""
        if not self._texts:
            return isinstance(self._complete_arguments, dict)
        if "}" not in self._texts[-1]:
            return False  # most pieces need no longer look
        try:
            return isinstance(json.loads("".join(self._texts), strict=False), dict)
        except (ValueError, RecursionError):
            return False

    def to_raw_call(self, *, is_truncated: bool = False) -> RawCall:
        """Return the call as far as it has come."""
        return RawCall(
            id=self.id, name=self.name, arguments=self.arguments(), provider=self.provider, is_truncated=is_truncated
        )


def get_index(event: JsonObject, key: str) -> int | str | None:
    """Return the index under `key`, which tells whose a piece is; None for what can be none."""
    index = event.get(key)
    return index if isinstance(index, int | str) else None


def get_objects(value: Any, key: str) -> list[JsonObject]:
    """Return the objects in the list under `key`; none when there is no such list."""
    return filter_objects(value.get(key)) if isinstance(value, dict) else []


def get_object(value: Any, *keys: str) -> JsonObject:
    """Return the object under a path of keys; an empty one when there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def filter_objects(value: Any) -> list[JsonObject]:
    """Return the objects in a list; none when it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def unread_fields(item: JsonObject, *read_keys: str) -> JsonObject:
    """Return what an item says besides the members that were read: the provider wants some of it echoed."""
    return {key: value for key, value in item.items() if key not in read_keys and value is not None}
