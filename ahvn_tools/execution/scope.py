"""CallScope: what is known of one call while it runs, and the way to cancel it."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from ahvn_tools.context import ToolContext
from ahvn_tools.encoders.rendering import Rendering
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import InvalidResultError
from ahvn_tools.execution.deadline import Deadline
from ahvn_tools.results import ToolResult


class CallInterruptedError(Exception):
    """Ends a body in its caller's thread, between two of its items."""


def _no_task() -> None:
    """Return the task of a call that no task runs."""


@dataclass(slots=True)
class QuestionApprovals:
    """The digests of approved questions of one call. An approval answers one question, also if the body runs again."""

    approved: tuple[str, ...]
    """All of them, in their order."""
    unused: list[str]
    """Those that were given before this call and have answered no question yet."""


@dataclass(slots=True, eq=False, repr=False)
class CallScope:
    """The error and the partial result of a call, and whether it was cancelled by its id."""

    error: BaseException | None = None
    """What the body or a middleware raised; `call` raises it again unless its result was replaced."""
    error_detail: ErrorDetail | None = None
    """The detail of the result that was made of `error`."""
    bound_values: Mapping[str, Any] = field(default_factory=dict)
    """The values of the bound parameters, to be masked in what middleware shows of the call."""
    interrupted: ToolResult | None = None
    """The partial result at the moment when the body was interrupted."""
    context: ToolContext | None = None
    question_approvals: QuestionApprovals | None = None
    """What the body has asked for with success; None before its first run."""
    deadline: Deadline | None = None
    """The clock of the body, while it runs."""
    pause_middleware: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    """Stops the clock of the middleware inside of a `with` block, in which a person decides."""
    pause_outer: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    """Stops the clocks of the call that this one is a part of, in the same way."""
    answer_by: float | None = None
    """Until when the caller waits for the result, in seconds since 1970; None: for any time."""
    is_cancelled: bool = False
    """Whether the call was cancelled by its id."""
    has_cancelled_task: bool = False
    """Whether that has cancelled the task that runs the call."""
    _request_task_cancel: Callable[[], None] | None = None
    _task_ref: Callable[[], asyncio.Task[Any] | None] = _no_task
    _cancelling_before: int = 0

    def record_error(self, error: BaseException | None, result: ToolResult) -> ToolResult:
        """Remember an exception with the result that was made of it; return the result."""
        if error is not None:
            self.error, self.error_detail = error, result.error
        return result

    @contextlib.contextmanager
    def pause(self) -> Generator[None]:
        """Stop all clocks of the call inside this block, in which a person decides. In the loop of the call."""
        body = contextlib.nullcontext() if self.deadline is None else self.deadline.hold()
        with body, self.pause_middleware(), self.pause_outer():
            yield

    def cancel(self) -> None:
        """Cancel the call, from any thread."""
        self.is_cancelled = True
        if (context := self.context) is not None:
            context.cancel()
        if (request_task_cancel := self._request_task_cancel) is not None:
            request_task_cancel()

    def raise_if_cancelled(self, _item: Any = None) -> None:
        """Raise CallInterruptedError when the call was cancelled by its id; for bodies that no task runs."""
        if self.is_cancelled:
            raise CallInterruptedError

    @property
    def has_task(self) -> bool:
        """Whether a task runs the call, so that code of the host must not block its thread."""
        return self._request_task_cancel is not None

    @property
    def is_caller_cancelled(self) -> bool:
        """Whether a CancelledError that has just arrived cancels the caller's task, and not just this call."""
        task = self._task_ref()
        return task is not None and task.cancelling() > self._cancelling_before + self.has_cancelled_task

    @contextlib.contextmanager
    def attach_task(self) -> Generator[None]:
        """Let `cancel` cancel the current task inside this block."""
        task = asyncio.current_task()
        if task is None:  # a loop runs it by other means
            yield
            return
        # weakly: a task whose loop was closed is collected together with what it holds
        task_ref = self._task_ref = weakref.ref(task)
        loop, has_left = task.get_loop(), False

        def cancel_task() -> None:
            if not (has_left or self.has_cancelled_task) and (task := task_ref()) is not None:
                self.has_cancelled_task = True
                task.cancel()

        def request_task_cancel() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(cancel_task)

        self._cancelling_before, self._request_task_cancel = task.cancelling(), request_task_cancel
        try:
            yield
        finally:
            has_left, self._request_task_cancel, self._task_ref = True, None, _no_task
            if self.has_cancelled_task:
                task.uncancel()

    def interrupted_result(self, tool: str, value: Any = None, *, is_raw: bool = False) -> ToolResult:
        """Return, and remember, the result of a body that was interrupted; `value` is what it had made so far.

        `is_raw`: only the host may read that.
        """
        detail = ErrorDetail(code="cancelled", message=f"The call of {tool!r} was cancelled.")
        rendering = Rendering(value, InvalidResultError(detail.message)) if is_raw else None
        self.interrupted = ToolResult(value, error=detail, is_interrupted=True, rendering=rendering)
        return self.interrupted

    def mark_interrupted(self, result: ToolResult) -> ToolResult:
        """Return the result, marked as interrupted when the call was cancelled while its body ran."""
        return replace(result, is_interrupted=True) if self.is_cancelled and not result.is_interrupted else result
