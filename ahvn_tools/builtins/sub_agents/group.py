"""SubAgentGroup: the sub-agents of one call, which run at once and end together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from ahvn_tools.builtins.sub_agents.reports import Report
from ahvn_tools.builtins.sub_agents.task import Runner, SubAgentTask
from ahvn_tools.errors import ToolError, exception_text

CANCEL_GRACE_SECONDS: Final = 5.0
"""How many seconds a runner has to end after its task was cancelled; then it is left, with a warning in the log."""

_logger = logging.getLogger(__name__)


class SubAgentGroup:
    """The sub-agents of one call. Every method but `cancel` runs in the event loop of the call."""

    def __init__(
        self,
        runner: Runner,
        tasks: Sequence[SubAgentTask],
        submitted: Callable[[str], str | None],
        *,
        masks_errors: bool,
    ) -> None:
        """`submitted` returns what a sub-agent has passed to task_finish, by its id.

        With `masks_errors` a report has the text of a ToolError, and of no other exception.
        """
        self._runner = runner
        self._tasks = tasks
        self._submitted = submitted
        self._masks_errors = masks_errors
        self._running: dict[str, asyncio.Task[str | None]] = {}
        self._cancelled: set[str] = set()
        self._loop = asyncio.get_running_loop()

    async def run(self, max_parallel: int, report_progress: Callable[[int], object]) -> list[Report]:
        """Run all sub-agents and return their reports in the order of the tasks. None is left when it is cancelled."""
        slots = asyncio.Semaphore(max_parallel)
        reports: dict[str, Report] = {}

        async def run_one(task: SubAgentTask) -> None:
            async with slots:
                reports[task.id] = await self._run_one(task)
            report_progress(len(reports))

        children = [asyncio.ensure_future(run_one(task)) for task in self._tasks]
        try:
            await asyncio.gather(*children)
        except BaseException:
            for child in children:
                child.cancel()
            await asyncio.gather(*children, return_exceptions=True)
            raise
        return [reports[task.id] for task in self._tasks]

    def cancel(self, id: str) -> None:  # noqa: A002  # the word for it
        """Cancel one sub-agent, from any thread, also one that still waits for others to end."""
        self._loop.call_soon_threadsafe(self._cancel, id)

    def _cancel(self, id: str) -> None:  # noqa: A002
        self._cancelled.add(id)
        if id in self._running:
            self._running[id].cancel()

    async def _run_one(self, task: SubAgentTask) -> Report:
        """Run one sub-agent until it ends, or its time is over."""
        if task.id in self._cancelled:
            return Report(name=task.name, ending="cancelled", text="")
        running = self._running[task.id] = asyncio.ensure_future(self._start(task))
        try:
            await asyncio.wait([running], timeout=task.timeout)
        finally:
            is_over = not running.done()
            await self._end(task, running)
            del self._running[task.id]
        return self._report(task, running, is_over=is_over)

    async def _start(self, task: SubAgentTask) -> str | None:
        return await self._runner(task)

    async def _end(self, task: SubAgentTask, running: asyncio.Task[str | None]) -> None:
        """Cancel a sub-agent that still runs, and wait for its end."""
        if running.done():
            return
        running.cancel()
        await asyncio.wait([running], timeout=CANCEL_GRACE_SECONDS)
        if not running.done():
            _logger.warning("The runner of sub-agent %r ignores its cancellation, and still runs.", task.name)
            running.add_done_callback(_discard)

    def _report(self, task: SubAgentTask, running: asyncio.Task[str | None], *, is_over: bool) -> Report:
        submitted = self._submitted(task.id)
        if is_over:
            text = f"it took longer than {task.timeout:g} seconds."
            text += "" if submitted is None else f" It had reported before:\n{submitted}"
            return Report(name=task.name, ending="timeout", text=text)
        if running.cancelled():
            return Report(name=task.name, ending="cancelled", text="")
        if error := running.exception():
            _logger.warning("Sub-agent %r failed with %s.", task.name, type(error).__name__)
            return Report(name=task.name, ending="failed", text=self._error_text(error))
        report: object = running.result()  # a runner is the host's code, perhaps without types
        if report is None:
            report = submitted
        if report is None:
            return Report(name=task.name, ending="failed", text="It ended without a report.")
        if not isinstance(report, str):
            _logger.warning("The runner of sub-agent %r must return a text or None.", task.name)
            return Report(name=task.name, ending="failed", text="Its report is no text.")
        return Report(name=task.name, ending="finished", text=report)

    def _error_text(self, error: BaseException) -> str:
        if isinstance(error, ToolError):
            return exception_text(error)
        return type(error).__name__ if self._masks_errors else f"{type(error).__name__}: {exception_text(error)}"


def _discard(running: asyncio.Task[str | None]) -> None:
    """Take the exception of a task that is no longer awaited, so that asyncio does not log it."""
    if not running.cancelled():
        running.exception()
