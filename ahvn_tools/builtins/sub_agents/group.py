"""SubAgentGroup: the sub-agents of one call, which run at once and end together; what each gets and reports."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from ahvn_tools.errors import ToolError, exception_text
from ahvn_tools.toolkit import Toolkit


class SubAgentRequest(BaseModel):
    """One sub-agent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: Annotated[
        str, Field(min_length=1, description="The task. The sub-agent sees nothing else of this conversation.")
    ]
    allowed_uris: Annotated[
        list[str] | None,
        Field(min_length=1, description="The folders that it may use, inside of yours; all of yours by default."),
    ] = None
    model: Annotated[str | None, Field(description="A model that get_available_models lists.")] = None
    name: Annotated[str | None, Field(max_length=80, description="A name for its report.")] = None
    timeout: Annotated[float | None, Field(gt=0, description="Seconds after which it is cancelled.")] = None


@dataclass(frozen=True, kw_only=True)
class SubAgentTask:
    """What one sub-agent shall do, and what it may use."""

    id: str
    """Unique, and the id of its session."""
    name: str
    """How the parent refers to it."""
    prompt: str
    context_summary: str
    """What the parent says about its own task."""
    model: str | None
    """One of the models of `SubAgents`; None: the runner chooses."""
    toolkit: Toolkit
    """The tools for its audience that its parent has, too, and task_finish; in a session of its own."""
    roots: tuple[Path, ...]
    """The folders that it may use, in none of which its parent may not. The toolkit's session has the same ones."""
    timeout: float
    """Seconds until it is cancelled."""
    depth: int
    """1 for a sub-agent of the main agent, 2 for one of that, and so on."""


Runner = Callable[[SubAgentTask], Awaitable[str | None]]
"""Runs a sub-agent to its end and returns its report; None: what it has passed to task_finish."""


_logger = logging.getLogger(__name__)

Ending = Literal["finished", "failed", "cancelled", "timeout"]

_SEPARATOR: Final = "\n\n----------------\n\n"
_IMITATION: Final = re.compile(
    r"(?:\A|(?<=[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]))(?=[^\S\n]{0,50}(?:#{1,9}\s{0,9}Sub-agent|-{16}))", re.IGNORECASE
)
"""The beginning of a line that looks like one of ours."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """How one sub-agent ended."""

    name: str
    ending: Ending
    text: str
    """What it reports; for a failed one what went wrong."""

    def to_text(self, max_chars: int) -> str:
        """Return the text for the parent, with at most `max_chars` characters of the report."""
        if self.ending == "cancelled":
            return f"### Sub-agent {self.name!r} was deleted (Cancelled)."
        text = _cut(self.text, max_chars)
        if self.ending == "timeout":
            return f"### Sub-agent {self.name!r} was stopped: {text}"
        if self.ending == "failed":
            return f"### Sub-agent {self.name!r} Failed:\n{text}"
        return f"### Sub-agent {self.name!r} Finished:\n{text}"


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
            async with asyncio.timeout(task.timeout) as timeout:
                report = await running
        except asyncio.CancelledError:
            if (parent := asyncio.current_task()) is not None and parent.cancelling():
                raise
            return Report(name=task.name, ending="cancelled", text="")
        except Exception as error:  # noqa: BLE001  # it is what the parent reads
            if timeout.expired():
                return self._report_timeout(task)
            _logger.warning("Sub-agent %r failed with %s.", task.name, type(error).__name__)
            return Report(name=task.name, ending="failed", text=self._error_text(error))
        finally:
            del self._running[task.id]
        if report is None and (report := self._submitted(task.id)) is None:
            return Report(name=task.name, ending="failed", text="It ended without a report.")
        return Report(name=task.name, ending="finished", text=report)

    async def _start(self, task: SubAgentTask) -> str | None:
        return await self._runner(task)

    def _report_timeout(self, task: SubAgentTask) -> Report:
        submitted = self._submitted(task.id)
        text = f"it took longer than {task.timeout:g} seconds."
        text += "" if submitted is None else f" It had reported before:\n{submitted}"
        return Report(name=task.name, ending="timeout", text=text)

    def _error_text(self, error: BaseException) -> str:
        if isinstance(error, ToolError):
            return exception_text(error)
        return type(error).__name__ if self._masks_errors else f"{type(error).__name__}: {exception_text(error)}"


def join(reports: Iterable[Report], max_chars: int) -> str:
    """Return the reports as one text."""
    return _SEPARATOR.join(report.to_text(max_chars) for report in reports)


def _cut(text: str, max_chars: int) -> str:
    """Return a report, shortened, in which no line looks like the beginning of another report."""
    shown = _IMITATION.sub("> ", text[:max_chars])
    if len(text) <= max_chars:
        return shown
    return f"{shown}\n[… {len(text) - max_chars:,} more characters were left out …]"
