"""Outcome: the value or exception of a body, as a value. No BaseException reaches an event loop or a Future."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """A value, or the exception that was raised instead."""

    value: Any = None
    error: BaseException | None = None
    is_runner_error: bool = False
    """Whether the runner made the error (a timeout), and not the body."""

    @classmethod
    def capture(cls, function: Callable[[], Any]) -> Outcome:
        """Call `function` and catch whatever it raises; `runner.capture_outcome` does so for a coroutine."""
        try:
            return cls(function())
        except BaseException as error:  # noqa: BLE001  # raised again in the caller
            return cls(error=error)

    def get(self) -> Any:
        """Return the value or raise the exception."""
        if self.error is not None:
            raise self.error
        return self.value


def is_consumable(value: Any) -> bool:
    """Return whether a returned value has to be awaited or iterated."""
    kind = type(value)
    return hasattr(kind, "__next__") or hasattr(kind, "__await__") or hasattr(kind, "__aiter__")


def is_iterator(value: Any) -> bool:
    """Return whether a value is a sync iterator."""
    return hasattr(type(value), "__next__")


def is_awaitable(value: Any) -> bool:
    """Return whether a value can be awaited."""
    return hasattr(type(value), "__await__")
