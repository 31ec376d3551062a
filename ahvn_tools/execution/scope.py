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


class CallInterruptedError(Exception):
    """Ends a body in its caller's own thread, between two of its items."""


class CallScope:
    """What the body came to, and whether somebody has cancelled the call by its id."""

    __slots__ = (
        "_cancelling_before",
        "_request_task_cancel",
        "_task_ref",
        "bound_values",
        "context",
        "deadline",
        "error",
        "error_detail",
        "has_cancelled_task",
        "interrupted",
        "is_cancelled",
    )

    def __init__(self) -> None:
        """Begin a call that nobody has cancelled."""
        self.error: BaseException | None = None
        """What the body, or a middleware, raised: `call` raises it again, where the result that came of it still
        stands."""
        self.error_detail: ErrorDetail | None = None
        self.bound_values: Mapping[str, Any] = {}
        """What the body got for its bound parameters, for masking it in what middleware shows of the call."""
        self.interrupted: ToolResult | None = None
        """What there was when the body was cut off."""
        self.context: ToolContext | None = None
        self.deadline: Deadline | None = None
        """How long the body may still take, once it has begun."""
        self.is_cancelled = False
        """Whether somebody has cancelled the call by its id."""
        self.has_cancelled_task = False
        """Whether the task that owns the call has been told of it."""
        self._request_task_cancel: Callable[[], None] | None = None
        self._task_ref: Callable[[], asyncio.Task[Any] | None] = _no_task
        self._cancelling_before = 0

    def record_error(self, error: BaseException | None, result: ToolResult) -> ToolResult:
        """Remember an exception and the result that was made of it; return the result."""
        if error is not None:
            self.error, self.error_detail = error, result.error
        return result

    def cancel(self) -> None:
        """Cut the call off, from any thread."""
        self.is_cancelled = True
        if (context := self.context) is not None:
            context.cancel()
        if (stop := self._request_task_cancel) is not None:
            stop()

    def raise_if_cancelled(self, _item: Any = None) -> None:
        """Raise CutError when somebody has cancelled the call by its id; for bodies that no task runs."""
        if self.is_cancelled:
            raise CallInterruptedError

    @property
    def is_caller_cancelled(self) -> bool:
        """Whether the CancelledError that has just arrived is about whoever waits for the call, not about the call."""
        task = self._task_ref()
        return task is not None and task.cancelling() > self._cancelling_before + self.has_cancelled_task

    @contextlib.contextmanager
    def attach_task(self) -> Generator[None]:
        """Let `cancel` reach the task that runs in here."""
        task = asyncio.current_task()
        if task is None:  # a loop runs it by other means
            yield
            return
        # weakly: a task whose loop was closed under it is collected, and what it holds is let go
        owner = self._task_ref = weakref.ref(task)
        loop, is_over = task.get_loop(), False

        def send() -> None:
            if not (is_over or self.has_cancelled_task) and (task := owner()) is not None:
                self.has_cancelled_task = True
                task.cancel()

        def stop() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed under us
                loop.call_soon_threadsafe(send)

        self._cancelling_before, self._request_task_cancel = task.cancelling(), stop
        try:
            yield
        finally:
            is_over, self._request_task_cancel, self._task_ref = True, None, _no_task
            if self.has_cancelled_task:
                task.uncancel()

    def interrupted_result(self, tool: str, value: Any = None) -> ToolResult:
        """Return, and keep, the result of a body that was cut off, with what it had made so far."""
        detail = ErrorDetail(code="cancelled", message=f"The call of {tool!r} was cancelled.")
        self.interrupted = ToolResult(value, error=detail, is_interrupted=True)
        return self.interrupted

    def mark_interrupted(self, result: ToolResult) -> ToolResult:
        """Return a result, marked where the call was cancelled while its body made it."""
        return replace(result, is_interrupted=True) if self.is_cancelled and not result.is_interrupted else result


def _no_task() -> None:
    """Return the task that owns a call that none does."""
