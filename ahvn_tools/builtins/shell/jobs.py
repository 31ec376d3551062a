"""Jobs: commands that run while the agent does other things, each visible to the session that started it."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ahvn_tools.builtins.processes.confinement import ProcessLimits
from ahvn_tools.builtins.processes.process import EndReason, ProcessResult, RunningProcess
from ahvn_tools.builtins.shell.command_preparation import PreparedCommand
from ahvn_tools.builtins.shell.stored_outputs import StoredOutputs, delete_output
from ahvn_tools.errors import ToolError

MAX_ENDED_JOBS: Final = 16
"""How many ended jobs of a session can still be read."""
MAX_ENDED_JOBS_IN_ALL: Final = 256
"""How many ended jobs of all sessions together can still be read: the end of a session is not reported."""


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """A background job, as models and hosts see it."""

    job_id: str
    command: str
    is_running: bool
    exit_code: int | None
    """None if it runs or was stopped; negative: the signal that ended it."""
    ended_by: EndReason | None
    """None while it runs."""
    seconds: float
    """How long it runs, or ran."""


@dataclass(kw_only=True, eq=False)
class Job:
    """One command in the background."""

    job_id: str
    session_id: str | None
    command: PreparedCommand
    process: RunningProcess
    started: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while the output is read, so that each part is read once."""
    output_id: str | None = None
    is_stored: bool = False
    """Whether `output_id` is final, and the files belong to the stored outputs."""
    _result: ProcessResult | None = None

    def wait(self, timeout: float, *, is_cancelled: Callable[[], bool] = lambda: False) -> ProcessResult | None:
        """Return how it ended; None if it still runs after `timeout` seconds."""
        if self._result is None:
            self._result = self.process.wait(timeout, is_cancelled=is_cancelled)
        return self._result

    def stop(self) -> ProcessResult:
        """End it with everything that it started."""
        if self._result is None:
            self._result = self.process.stop()
        return self._result

    def status(self) -> JobStatus:
        """Return what it does now."""
        done = self.wait(0)
        return JobStatus(
            job_id=self.job_id, command=self.command.text, is_running=done is None,
            exit_code=None if done is None else done.exit_code, ended_by=None if done is None else done.ended_by,
            seconds=round(time.monotonic() - self.started if done is None else done.duration, 3),
        )  # fmt: skip

    def store(self, outputs: StoredOutputs) -> None:
        """Add the output to the stored ones, whose limits hold from then on. Only for a job that has ended."""
        if not self.is_stored:
            self.output_id, self.is_stored = outputs.add(self.stop(), self.session_id), True

    def discard(self) -> None:
        """Stop it, and delete its files unless they were stored."""
        result = self.stop()
        if not self.is_stored:
            delete_output(result)


class Jobs:
    """The background jobs of all sessions."""

    def __init__(self, outputs: StoredOutputs, *, max_jobs: int, max_jobs_in_all: int) -> None:
        """`max_jobs` may run at once in one session, and `max_jobs_in_all` in all sessions together."""
        self._outputs = outputs
        self._max_jobs = max_jobs
        self._max_jobs_in_all = max_jobs_in_all
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def start(self, command: PreparedCommand, limits: ProcessLimits, session_id: str | None) -> Job:
        """Start a command. Raises ToolError if too many run already."""
        with self._lock:
            self._check_limits(session_id)
            process = RunningProcess(command.arguments, limits=limits, **command.process_arguments)
            job = Job(job_id=secrets.token_hex(8), session_id=session_id, command=command, process=process)
            self._jobs[job.job_id] = job
            dropped = self._take_old(session_id)
        for old in dropped:
            old.discard()
        return job

    def find(self, job_id: str, session_id: str | None) -> Job:
        """Return a job of the session. Raises ToolError for any other id."""
        job = self._jobs.get(job_id)
        if job is None or job.session_id != session_id:
            raise ToolError(f"There is no job {job_id!r}. Call job_status without an id for the list of your jobs.")
        return job

    def of_session(self, session_id: str | None) -> list[Job]:
        """Return the jobs of a session, the oldest first."""
        return [job for job in list(self._jobs.values()) if job.session_id == session_id]

    def close(self) -> None:
        """Stop all jobs. No job can be started afterwards."""
        with self._lock:
            self._is_closed = True
            jobs = list(self._jobs.values())
            self._jobs.clear()
        for job in jobs:
            job.discard()

    def _take_old(self, session_id: str | None) -> list[Job]:
        """Remove the oldest ended jobs if there are too many, and return them. Store the output of the others."""
        ended = [job for job in self._jobs.values() if job.wait(0) is not None]
        own = [job for job in ended if job.session_id == session_id]
        old = [*dict.fromkeys([*own[:-MAX_ENDED_JOBS], *ended[:-MAX_ENDED_JOBS_IN_ALL]])]
        for job in old:
            del self._jobs[job.job_id]
        for job in self._jobs.values():
            if job.wait(0) is not None:
                with job.lock:
                    job.store(self._outputs)
        return old

    def _check_limits(self, session_id: str | None) -> None:
        if self._is_closed:
            raise ToolError("The shell is closed, so no job can be started.")
        running = [job for job in self._jobs.values() if job.wait(0) is None]
        own = [job.job_id for job in running if job.session_id == session_id]
        if len(own) >= self._max_jobs:
            raise ToolError(f"{len(own)} jobs are running already, and no more may. Stop one of {', '.join(own)}.")
        if len(running) >= self._max_jobs_in_all:
            raise ToolError("Too many jobs of other sessions are running. Try again later.")
