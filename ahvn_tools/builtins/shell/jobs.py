"""Background jobs and long outputs of commands: what later calls of the session that started them read."""

from __future__ import annotations

import codecs
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from ahvn_tools.builtins.processes.confinement import ProcessLimits
from ahvn_tools.builtins.processes.process import EndReason, ProcessOutput, ProcessResult, RunningProcess
from ahvn_tools.builtins.processes.terminal_text import overwritten_note, to_readable
from ahvn_tools.builtins.shell.command_preparation import PreparedCommand
from ahvn_tools.errors import ToolError

MAX_OUTPUTS: Final = 32
MAX_STORED_BYTES: Final = 500_000_000


@dataclass(frozen=True)
class _StoredOutput:
    session_id: str | None
    streams: Mapping[str, ProcessOutput]

    @property
    def stored_bytes(self) -> int:
        return sum(_size_of(output.spool) for output in self.streams.values())

    def delete(self) -> None:
        for output in self.streams.values():
            if output.spool is not None:
                output.spool.unlink(missing_ok=True)


class StoredOutputs:
    """The outputs of which a result has only the beginning and the end. A new one may drop the oldest ones."""

    def __init__(self, *, max_outputs: int = MAX_OUTPUTS, max_bytes: int = MAX_STORED_BYTES) -> None:
        """`max_bytes`: of all outputs together, on disk."""
        self._max_outputs = max_outputs
        self._max_bytes = max_bytes
        self._outputs: OrderedDict[str, _StoredOutput] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, result: ProcessResult, session_id: str | None) -> str | None:
        """Return the id under which the session can read the output; None if the result has all of it."""
        stored = _StoredOutput(session_id, {"stdout": result.stdout, "stderr": result.stderr})
        if result.stdout.spool is None and result.stderr.spool is None:
            return None
        output_id = secrets.token_hex(8)
        with self._lock:
            self._outputs[output_id] = stored
            while len(self._outputs) > self._max_outputs or self._is_too_large():
                self._outputs.popitem(last=False)[1].delete()
        return output_id

    def read(
        self, output_id: str, session_id: str | None, *, stream: Literal["stdout", "stderr"], start: int, size: int
    ) -> str:
        """Return a page of at most `size` bytes that begins at the byte `start`, and how to read the next one."""
        with self._lock:  # also while reading: no other thread deletes the file meanwhile
            stored = self._outputs.get(output_id)
            if stored is None or stored.session_id != session_id:
                raise ToolError(f"There is no output {output_id!r}: old ones are deleted. Run the command again.")
            output = stored.streams[stream]
            if output.spool is None:
                return _page(output.text, stream, 0, output.size, output.size, output.size)
            available = _size_of(output.spool)
            if not available:
                raise ToolError(f"The output {output_id!r} was deleted. Run the command again.")
            if not 0 <= start < available:
                raise ToolError(f"`start_byte` must be from 0 to {available - 1}: so much of the output was stored.")
            text, end = _read_whole_characters(output.spool, start, size, available=available)
        return _page(text, stream, start, end, output.size, available)

    def close(self) -> None:
        """Delete all files."""
        with self._lock:
            while self._outputs:
                self._outputs.popitem()[1].delete()

    def _is_too_large(self) -> bool:
        return sum(stored.stored_bytes for stored in self._outputs.values()) > self._max_bytes


def delete_output(result: ProcessResult) -> None:
    """Delete what a process has left on disk."""
    _StoredOutput(None, {"stdout": result.stdout, "stderr": result.stderr}).delete()


def _page(text: str, stream: str, start: int, end: int, size: int, available: int) -> str:  # noqa: PLR0917
    if end < available:
        rest = f"Continue with start_byte={end}."
    elif available < size:
        rest = f"Only the first {available:,} bytes were stored."
    else:
        rest = "This is the end."
    text, count = to_readable(text)
    note = overwritten_note(**{stream: count})
    return f"{text}\n[{stream}: bytes {start:,} to {end:,} of {size:,}. {f'{note} ' if note else ''}{rest}]"


def _read_whole_characters(path: Path, start: int, size: int, *, available: int) -> tuple[str, int]:
    """Return a text of at most `size` bytes and where it ends: before a character that ends after them."""
    with path.open("rb") as file:
        file.seek(start)
        content = file.read(size)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(content, start + len(content) >= available)
    if text:
        return text, start + len(content) - len(decoder.getstate()[0])
    return content.decode(errors="replace"), start + len(content)  # less than a character fits


def _size_of(path: Path | None) -> int:
    return 0 if path is None or not path.exists() else path.stat().st_size


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

    def result(self) -> ProcessResult | None:
        """Return how it ended; None if it still runs."""
        if self._result is None:
            self._result = self.process.wait(0)
        return self._result

    def stop(self) -> ProcessResult:
        """End it with everything that it started."""
        if self._result is None:
            self._result = self.process.stop()
        return self._result

    def status(self) -> JobStatus:
        """Return what it does now."""
        done = self.result()
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
        ended = [job for job in self._jobs.values() if job.result() is not None]
        own = [job for job in ended if job.session_id == session_id]
        old = [*dict.fromkeys([*own[:-MAX_ENDED_JOBS], *ended[:-MAX_ENDED_JOBS_IN_ALL]])]
        for job in old:
            del self._jobs[job.job_id]
        for job in self._jobs.values():
            if job.result() is not None:
                with job.lock:
                    job.store(self._outputs)
        return old

    def _check_limits(self, session_id: str | None) -> None:
        if self._is_closed:
            raise ToolError("The shell is closed, so no job can be started.")
        running = [job for job in self._jobs.values() if job.result() is None]
        own = [job.job_id for job in running if job.session_id == session_id]
        if len(own) >= self._max_jobs:
            raise ToolError(f"{len(own)} jobs are running already, and no more may. Stop one of {', '.join(own)}.")
        if len(running) >= self._max_jobs_in_all:
            raise ToolError("Too many jobs of other sessions are running. Try again later.")
