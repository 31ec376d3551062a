"""Fate: what becomes of one call, as all see it who handle it; and the way to cut the call off."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Any

from ahvn_tools.context import ToolContext
from ahvn_tools.execution.deadline import Deadline
from ahvn_tools.results import ErrorDetail, ToolResult


class CutError(Exception):
    """Ends a body in its caller's own thread, between two of its items."""


class Fate:
    """What the body came to, and whether somebody has cancelled the call by its id."""

    __slots__ = (
        "_before",
        "_stop",
        "_task",
        "bound",
        "clock",
        "context",
        "detail",
        "error",
        "interrupted",
        "is_cancelled",
        "is_sent",
    )

    def __init__(self) -> None:
        """Begin a call that nobody has cancelled."""
        self.error: BaseException | None = None
        """What the body, or a middleware, raised: `call` raises it again, where the result that came of it still
        stands."""
        self.detail: ErrorDetail | None = None
        self.bound: Mapping[str, Any] = {}
        """What the body got for its bound parameters, for masking it in what middleware shows of the call."""
        self.interrupted: ToolResult | None = None
        """What there was when the body was cut off."""
        self.context: ToolContext | None = None
        self.clock: Deadline | None = None
        """How long the body may still take, once it has begun."""
        self.is_cancelled = False
        """Whether somebody has cancelled the call by its id."""
        self.is_sent = False
        """Whether the task that owns the call has been told of it."""
        self._stop: Callable[[], None] | None = None
        self._task: Callable[[], asyncio.Task[Any] | None] = _nobody
        self._before = 0

    def note(self, error: BaseException | None, result: ToolResult) -> ToolResult:
        """Remember an exception and the result that was made of it; return the result."""
        if error is not None:
            self.error, self.detail = error, result.error
        return result

    def cancel(self) -> None:
        """Cut the call off, from any thread."""
        self.is_cancelled = True
        if (context := self.context) is not None:
            context.cancel()
        if (stop := self._stop) is not None:
            stop()

    def go_on(self, _item: Any = None) -> None:
        """Raise CutError when somebody has cancelled the call by its id; for bodies that no task runs."""
        if self.is_cancelled:
            raise CutError

    @property
    def is_left(self) -> bool:
        """Whether the CancelledError that has just arrived is about whoever waits for the call, not about the call."""
        task = self._task()
        return task is not None and task.cancelling() > self._before + self.is_sent

    @contextlib.contextmanager
    def owned(self) -> Generator[None]:
        """Let `cancel` reach the task that runs in here."""
        task = asyncio.current_task()
        if task is None:  # a loop runs it by other means
            yield
            return
        # weakly: a task whose loop was closed under it is collected, and what it holds is let go
        owner = self._task = weakref.ref(task)
        loop, is_over = task.get_loop(), False

        def send() -> None:
            if not (is_over or self.is_sent) and (task := owner()) is not None:
                self.is_sent = True
                task.cancel()

        def stop() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed under us
                loop.call_soon_threadsafe(send)

        self._before, self._stop = task.cancelling(), stop
        try:
            yield
        finally:
            is_over, self._stop, self._task = True, None, _nobody
            if self.is_sent:
                task.uncancel()

    def cut(self, tool: str, value: Any = None) -> ToolResult:
        """Return, and keep, the result of a body that was cut off, with what it had made so far."""
        detail = ErrorDetail(code="cancelled", message=f"The call of {tool!r} was cancelled.")
        self.interrupted = ToolResult(value, error=detail, is_interrupted=True)
        return self.interrupted

    def marked(self, made: ToolResult) -> ToolResult:
        """Return a result, marked where the call was cancelled while its body made it."""
        return replace(made, is_interrupted=True) if self.is_cancelled and not made.is_interrupted else made


def _nobody() -> None:
    """Return the task that owns a call that none does."""
