"""Deadlines: a limit on the time that a body takes, not on the time that its reader takes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Generator
from time import monotonic
from typing import Any, Final

from ahvn_tools.errors import ToolTimeoutError
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.plan import Plan

PREPARATION_TOO_SLOW: Final = "a resolver, a validator or the state took too long"

CANCEL_GRACE_SECONDS = 0.1
"""Seconds that a cancelled body has to close what it opened before it is abandoned."""

_abandoned_tasks: set[asyncio.Task[Any]] = set()


class Deadline:
    """Counts down while the body runs; a pause stops the clock."""

    def __init__(self, seconds: float) -> None:
        """Start the clock. Requires a running loop."""
        self._loop = asyncio.get_running_loop()
        self._remaining_seconds = seconds
        self._resumed_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._holds = 0
        self.unstarted: tuple[str, str] | None = None
        """Why the body, or the remote tool that it calls, has not started, for developers and for models."""
        self.expired: asyncio.Future[None] = self._loop.create_future()
        self.resume()

    def remaining_seconds(self) -> float:
        """Return the seconds that are left; from any thread."""
        since = self._resumed_at
        return self._remaining_seconds if since is None else self._remaining_seconds - (self._loop.time() - since)

    def pause(self) -> None:
        """Stop the clock."""
        self._cancel_timer()
        self._remaining_seconds, self._resumed_at = self.remaining_seconds(), None

    def pause_for(self, max_seconds: float) -> None:
        """Stop the clock, for at most `max_seconds`."""
        self.pause()
        self._timer = self._loop.call_later(max_seconds, self.resume)

    def resume(self) -> None:
        """Continue the clock, unless it was closed or is held."""
        if self._holds == 0 and self._resumed_at is None and not self.expired.done():
            self._cancel_timer()
            self._resumed_at = self._loop.time()
            self._timer = self._loop.call_later(max(self._remaining_seconds, 0), self._expire)

    @contextlib.contextmanager
    def hold(self) -> Generator[None]:
        """Stop the clock inside this block, also when `resume` is called meanwhile."""
        self._holds += 1
        self.pause()
        try:
            yield
        finally:
            self._holds -= 1
            self.resume()

    def close(self) -> None:
        """Stop the clock permanently."""
        self._cancel_timer()
        self._expire()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _expire(self) -> None:
        if not self.expired.done():
            self.expired.set_result(None)


async def run_with_deadline(
    deadline: Deadline,
    make_error: Callable[[asyncio.Task[Outcome]], ToolTimeoutError],
    start: Callable[..., Coroutine[Any, Any, Outcome]],
    *arguments: Any,
) -> Outcome:
    """Run `start(*arguments)` until it ends or the deadline passes; then cancel it: `make_error` makes the outcome.

    It takes the task, which was cancelled, has ended in another way, or still runs.

    Returns on time even when the body ignores its cancellation: after CANCEL_GRACE_SECONDS it is abandoned. The clock
    is read when the body ends, too: no timer fires while a body blocks the loop.
    """
    task = asyncio.create_task(start(*arguments))
    try:
        both: set[asyncio.Future[Any]] = {task, deadline.expired}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if task.done() and deadline.remaining_seconds() > 0:
            return outcome_of(task)
    finally:
        deadline.close()
        await cancel_and_wait(task)
    return Outcome(error=make_error(task), is_runner_error=True)


def timeout_error(plan: Plan, reason: str, masked_reason: str | None = None) -> ToolTimeoutError:
    """Return the error of a call that exceeded its timeout.

    `reason` says what happened to the body, and `masked_reason` the same without how bodies run.
    """
    message = f"Tool {plan.name!r} did not finish within {plan.timeout:g} seconds; "
    error = ToolTimeoutError(f"{message}{reason}.", tool=plan.name, timeout=plan.timeout)
    error.masked_message = None if masked_reason is None else f"{message}{masked_reason}."
    return error


def seconds_left(plan: Plan, started: float) -> float | None:
    """Return how many seconds are left for the body of a call that began at this `monotonic` time; None: no timeout.

    Raises ToolTimeoutError when what runs before the body has used all of them.
    """
    if plan.seconds is None:
        return None
    seconds = plan.seconds - (monotonic() - started)
    if seconds <= 0 < plan.seconds:
        raise timeout_error(plan, PREPARATION_TOO_SLOW)
    return seconds


def outcome_of(task: asyncio.Task[Outcome]) -> Outcome:
    """Return the outcome of a finished task; a body may have cancelled the task that ran it."""
    return Outcome(error=asyncio.CancelledError()) if task.cancelled() else task.result()


async def cancel_and_wait(task: asyncio.Task[Any]) -> None:
    """Cancel a task unless it is done, and wait for its end, at most CANCEL_GRACE_SECONDS."""
    if not (task.done() or task.get_loop().is_closed()):
        _abandoned_tasks.add(task)
        task.add_done_callback(_abandoned_tasks.discard)
        task.cancel()
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001  # the process may end before it
        await asyncio.wait({task}, timeout=CANCEL_GRACE_SECONDS)


def count_abandoned_tasks() -> int:
    """Return how many async bodies still run after their cancellation."""
    return len(_abandoned_tasks)
