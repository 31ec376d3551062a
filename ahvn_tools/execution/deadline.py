"""Deadline: a limit on the time a body takes, not on the time its reader takes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from ahvn_tools.errors import ToolTimeoutError
from ahvn_tools.execution.outcome import Outcome

GRACE = 0.1
"""How many seconds a cancelled body has to close what it opened before it is left behind."""

_left_behind: set[asyncio.Task[Any]] = set()


class Deadline:
    """Counts down while the body runs; a pause stops the clock."""

    def __init__(self, seconds: float) -> None:
        """Start the clock. Must be made in a running loop."""
        self._loop = asyncio.get_running_loop()
        self._left = seconds
        self.expired: asyncio.Future[None] = self._loop.create_future()
        self.resume()

    def pause(self) -> None:
        """Stop the clock."""
        self._timer.cancel()
        self._left -= self._loop.time() - self._since

    def resume(self) -> None:
        """Let the clock run on."""
        self._since = self._loop.time()
        self._timer = self._loop.call_later(max(self._left, 0), self._expire)

    def _expire(self) -> None:
        if not self.expired.done():
            self.expired.set_result(None)

    def close(self) -> None:
        """Stop the clock for good."""
        self._timer.cancel()
        self._expire()


async def within(deadline: Deadline, running: Coroutine[Any, Any, Outcome], late: ToolTimeoutError) -> Outcome:
    """Run a coroutine until it is done or the deadline has passed; then cancel it and give `late` as the outcome.

    Returns on time even when the body refuses to be cancelled: after `GRACE` seconds it is left behind.
    """
    task = asyncio.create_task(running)
    try:
        both: set[asyncio.Future[Any]] = {task, deadline.expired}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
    finally:
        deadline.close()
        if not task.done():
            await end(task)
    return Outcome(error=late, is_ours=True)


async def end(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it has ended, for at most `GRACE` seconds."""
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE)
    if not task.done():
        _left_behind.add(task)
        task.add_done_callback(_left_behind.discard)
    elif not task.cancelled():
        task.exception()


def left_behind() -> int:
    """Return how many async bodies refused to be cancelled and still run."""
    return len(_left_behind)
