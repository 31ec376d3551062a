"""Outcome: the value or exception of a body, as a value. No BaseException reaches an event loop or a Future.

A CancelledError is either the caller's or was raised by the body itself. asyncio is imported only when there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ahvn_tools.encoders.loaded_classes import is_file_class, loaded_classes
from ahvn_tools.errors import CallCancelledError


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Outcome:
    """A value, or the exception that was raised instead."""

    value: Any = None
    error: BaseException | None = None
    is_runner_error: bool = False
    """Whether the runner made the error (a timeout), and not the body."""
    made: Sequence[Any] = ()
    """The values of the items that the body made before the error."""

    @classmethod
    def capture(cls, function: Callable[[], Any]) -> Outcome:
        """Call `function` and catch whatever it raises; `runner.capture_outcome` does so for a coroutine."""
        try:
            return cls(function())
        except BaseException as error:  # noqa: BLE001  # raised again in the caller
            return cls(error=error)

    def get(self, *, tool: str | None = None) -> Any:
        """Return the value or raise the exception.

        With the name of the `tool` that raised it, a CancelledError becomes a CallCancelledError: `call` would pass it
        on as its caller's.
        """
        if self.error is None:
            return self.value
        if tool is not None and is_cancellation(self.error):
            raise self_cancelled_error(tool)
        raise self.error


def is_cancellation(error: BaseException) -> bool:
    """Return whether an exception is asyncio's CancelledError."""
    return isinstance(error, loaded_classes("asyncio.exceptions", "CancelledError"))


def is_being_cancelled() -> bool:
    """Return whether the current task is being cancelled from outside."""
    import asyncio

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_self_cancellation(error: BaseException) -> bool:
    """Return whether a body raised CancelledError by itself, in a task that is not being cancelled."""
    return is_cancellation(error) and not is_being_cancelled()


def self_cancelled_error(tool: str) -> CallCancelledError:
    """Return the error for a tool that cancelled itself."""
    return CallCancelledError(f"Tool {tool!r} cancelled itself; its caller did not cancel it.", tool=tool)


def is_consumable(value: Any) -> bool:
    """Return whether a returned value has to be awaited or iterated; a file is a result, and an invalid one."""
    kind = type(value)
    if hasattr(kind, "__await__"):
        return True
    return (hasattr(kind, "__next__") or hasattr(kind, "__aiter__")) and not is_file_class(kind)


def is_iterator(value: Any) -> bool:
    """Return whether a value is a sync iterator."""
    return hasattr(type(value), "__next__")


def is_awaitable(value: Any) -> bool:
    """Return whether a value can be awaited."""
    return hasattr(type(value), "__await__")
