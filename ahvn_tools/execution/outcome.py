"""Outcome: what a body came to, as a value. BaseExceptions travel in it and never reach a loop or a Future."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """A value, or the exception that came instead."""

    value: Any = None
    error: BaseException | None = None
    is_runner_error: bool = False
    """Whether the error is the runner's own (a timeout) and not the body's."""

    @classmethod
    def capture(cls, function: Callable[[], Any]) -> Outcome:
        """Call `function` and catch whatever it raises. One of the runner's two nets (the other is in `run`)."""
        try:
            return cls(function())
        except BaseException as error:  # noqa: BLE001  # carried as a value and raised again in the caller
            return cls(error=error)

    def get(self) -> Any:
        """Return the value or raise the exception."""
        if self.error is not None:
            raise self.error
        return self.value


def is_consumable(value: Any) -> bool:
    """Tell whether a returned value still has to be awaited or iterated."""
    kind = type(value)
    return hasattr(kind, "__next__") or hasattr(kind, "__await__") or hasattr(kind, "__aiter__")


def is_iterator(value: Any) -> bool:
    """Tell whether a live value is iterated from sync code."""
    return hasattr(type(value), "__next__")


def is_awaitable(value: Any) -> bool:
    """Tell whether a live value is awaited."""
    return hasattr(type(value), "__await__")
