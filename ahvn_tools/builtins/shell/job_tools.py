"""Tools for background jobs."""

from __future__ import annotations

import time
from typing import Final

from ahvn_tools.builtins.processes.process import ProcessResult
from ahvn_tools.builtins.shell.command_result import CommandResult, to_command_result
from ahvn_tools.builtins.shell.command_tools import CommandTools, notes_on
from ahvn_tools.builtins.shell.jobs import Job, JobStatus
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.registry import reg_toolspec

MAX_WAIT = 60.0
"""Seconds that `job_output` and `job_input` wait at most for new output."""
MAX_INPUT_SECONDS: Final = 5.0
"""How long `job_input` waits at most until the job has read what does not fit into the pipe."""

_NO_SESSION = "Jobs are not possible here, because no later call could find this one. Use shell_exec."


class JobTools(CommandTools):
    """Tools for background jobs. `Shell` inherits them."""

    @reg_toolspec(
        annotations={"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}, tags={"shell", "execute"}
    )
    def start_job(
        self,
        cmd: str,
        context: ToolContext,
        uri: str = ".",
        shell_path: str | None = None,
        *,
        interleaved: bool = False,
    ) -> JobStatus:
        """Start a shell command in the background, such as a server or a long build, and return its job_id at once.

        Args:
            cmd: The command line.
            uri: The folder in which it runs.
            shell_path: The shell, such as /bin/sh. Omit it for the default.
            interleaved: Whether to return STDOUT and STDERR as one text, in the order in which they were written.
        """
        if context.is_anonymous:
            raise ToolError(_NO_SESSION)
        command = self.preparation.prepare(cmd, uri, shell_path, context, is_interleaved=interleaved)
        return self._jobs.start(command, self.job_limits, context.session_id).status()

    @reg_toolspec(annotations={"readOnlyHint": True, "openWorldHint": False}, tags={"shell", "read"})
    def job_status(self, context: ToolContext, job_id: str | None = None) -> list[JobStatus]:
        """Return whether a background job runs, and its exit code. Without an id: of all your jobs.

        Args:
            job_id: The id that start_job returned.
        """
        jobs = self._jobs
        found = jobs.of_session(context.session_id) if job_id is None else [jobs.find(job_id, context.session_id)]
        return [job.status() for job in found]

    @reg_toolspec(
        output="raw", render=str, annotations={"readOnlyHint": True, "openWorldHint": False}, tags={"shell", "read"}
    )
    def job_output(self, job_id: str, context: ToolContext, wait: float = 0) -> CommandResult:
        """Return what a background job has written since the last call of job_output.

        Args:
            job_id: The id that start_job returned.
            wait: Seconds to wait for new output or the end of the job, at most 60.
        """
        _check_wait(wait)
        return self._wait_and_read(self._jobs.find(job_id, context.session_id), wait, context)

    @reg_toolspec(
        output="raw",
        render=str,
        annotations={"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
        tags={"shell", "execute"},
    )
    def job_input(
        self,
        job_id: str,
        context: ToolContext,
        text: str = "",
        *,
        end: bool = False,
        wait: float = 0,
    ) -> CommandResult:
        """Send text to the standard input of a background job, and return what is new in its output.

        The input is no terminal: a program that asks for a password does not read it. It may need an approval. Many
        programs write to a pipe only when they end: start Python with -u, others with `stdbuf -oL`.

        Args:
            job_id: The id that start_job returned.
            text: The text, with a line feed at the end of each line.
            end: Whether the input ends after the text. Nothing can be sent afterwards.
            wait: Seconds to wait for output after the input or for the end of the job, at most 60.
        """
        _check_wait(wait)
        job = self._jobs.find(job_id, context.session_id)
        if text and not job.process.is_running:
            raise ToolError(
                f"The job {job_id!r} has ended and reads no input. Read its output with job_output, or start it again."
            )
        data = self.preparation.check_input(text, job.command, context)
        unread = job.process.unread_bytes
        self._send(job, data, context)
        if end:
            job.process.end_input()
        return self._wait_and_read(job, wait, context, more_than=unread)

    def _send(self, job: Job, data: bytes, context: ToolContext) -> None:
        """Send all of it. Raises ToolError for a job that has ended, and for one that does not read it."""
        deadline = time.monotonic() + MAX_INPUT_SECONDS
        sent = job.process.write(data, is_cancelled=lambda: context.cancelled or time.monotonic() > deadline)
        context.check_cancelled()
        if sent < len(data):
            raise ToolError(
                f"The job does not read its input: {sent:,} of {len(data):,} bytes were sent, and the others were not."
            )

    def _wait_and_read(self, job: Job, wait: float, context: ToolContext, *, more_than: int = 0) -> CommandResult:
        job.process.wait_for_output(wait, more_than=more_than, is_cancelled=lambda: context.cancelled)
        context.check_cancelled()
        return self._read(job)

    @reg_toolspec(
        output="raw",
        render=str,
        annotations={"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False},
        tags={"shell", "execute"},
    )
    def stop_job(self, job_id: str, context: ToolContext) -> CommandResult:
        """Stop a background job with everything that it started, and return what it has written since the last call.

        Args:
            job_id: The id that start_job returned.
        """
        job = self._jobs.find(job_id, context.session_id)
        job.stop()
        return self._read(job)

    def _read(self, job: Job) -> CommandResult:
        with job.lock:
            done = job.wait(0)  # before reading: what is read afterwards has all of an ended job
            stdout, stderr = job.process.read_new()
            if done is not None:
                job.store(self._outputs)
            return self._to_job_result(job, done, stdout, stderr)

    def _to_job_result(self, job: Job, done: ProcessResult | None, stdout: str, stderr: str) -> CommandResult:
        if done is None:
            notes = [f"The job {job.job_id} is still running. Call job_output again for more, or stop_job."]
        else:
            notes = [f"The job {job.job_id} has ended.", *notes_on(done, job.output_id, self.job_limits)]
        return to_command_result(
            job.command, done, stdout=stdout, stderr=stderr, duration=job.status().seconds, output_id=job.output_id,
            notes=notes, is_part=True,
        )  # fmt: skip


def _check_wait(wait: float) -> None:
    if not 0 <= wait <= MAX_WAIT:
        raise ToolError(f"`wait` must be from 0 to {MAX_WAIT:.0f} seconds.")
