"""MiddlewareClock: the time limit of a call's middleware, which does not count body, reader and approver."""

from __future__ import annotations

import functools
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from ahvn_tools.errors import ToolTimeoutError
from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.execution.deadline import Deadline, run_with_deadline
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.results import ToolResult


class MiddlewareClock:
    """The clock of one call. It is paused while the body runs, the reader takes a chunk, or an approver decides."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline: Deadline | None = None
        self._pauses = 0

    @classmethod
    def limit(cls, middleware: tuple[Middleware, ...], seconds: float) -> tuple[Middleware, ...]:
        """Return the middleware of one call, which together may take `seconds`."""
        clock = cls(seconds)
        return (clock._run_limited, *middleware, clock._run_paused)

    async def _run_limited(self, call: Call, next: Next) -> ToolResult:  # noqa: A002  # as the parameter of a middleware
        """Run the middleware inside of this one. Raises ToolTimeoutError when it takes too long."""
        self._deadline = Deadline(self._seconds)
        message = f"The middleware of tool {call.name!r} did not finish within {self._seconds:g} seconds."
        error = ToolTimeoutError(message, tool=call.name, timeout=self._seconds)
        call.scope.pause_middleware = functools.partial(self._paused, 1)
        emit = call.emit

        async def emit_paused(chunk: ToolResult) -> None:
            if emit is not None:
                with self._paused(1):
                    await emit(chunk)

        limited = call if emit is None else replace(call, emit=emit_paused)
        outcome = await run_with_deadline(self._deadline, error, capture_outcome, next, limited)
        result: ToolResult = outcome.get()
        return result

    async def _run_paused(self, call: Call, next: Next) -> ToolResult:  # noqa: A002  # as above
        """Run the body; what the middleware does with its chunks counts."""
        emit = call.emit

        async def emit_counted(chunk: ToolResult) -> None:
            if emit is not None:
                with self._paused(-1):
                    await emit(chunk)

        with self._paused(1):
            return await next(call if emit is None else replace(call, emit=emit_counted))

    @contextmanager
    def _paused(self, change: int) -> Generator[None]:
        """Stop the clock inside this block or, with a change of -1, let it run although the body runs."""
        self._change_pauses(change)
        try:
            yield
        finally:
            self._change_pauses(-change)

    def _change_pauses(self, change: int) -> None:
        self._pauses += change
        if self._deadline is not None:
            (self._deadline.pause if self._pauses else self._deadline.resume)()
