"""Tools for background jobs."""

from __future__ import annotations

from ahvn_tools.builtins.processes.process import ProcessResult
from ahvn_tools.builtins.shell.command_result import CommandResult
from ahvn_tools.builtins.shell.command_tools import CommandTools, notes_on
from ahvn_tools.builtins.shell.jobs import Job, JobStatus
from ahvn_tools.builtins.shell.terminal_text import to_readable
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.registry import reg_toolspec

MAX_WAIT = 60.0
"""Seconds that `job_output` waits at most."""

_NO_SESSION = "Jobs are not possible here, because no later call could find this one. Use shell_exec."


class JobTools(CommandTools):
    """Tools for background jobs. `Shell` inherits them."""

    @reg_toolspec(
        annotations={"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}, tags={"shell", "execute"}
    )
    def start_job(self, cmd: str, context: ToolContext, uri: str = ".", shell_path: str | None = None) -> JobStatus:
        """Start a shell command in the background, such as a server or a long build, and return its job_id at once.

        Args:
            cmd: The command line.
            uri: The folder in which it runs.
            shell_path: The shell, such as /bin/sh. Omit it for the default.
        """
        if context.is_anonymous:
            raise ToolError(_NO_SESSION)
        command = self.preparation.prepare(cmd, uri, shell_path, context)
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
        if not 0 <= wait <= MAX_WAIT:
            raise ToolError(f"`wait` must be from 0 to {MAX_WAIT:.0f} seconds.")
        job = self._jobs.find(job_id, context.session_id)
        job.process.wait_for_output(wait, is_cancelled=lambda: context.cancelled)
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
        return CommandResult(
            exit_code=None if done is None else done.exit_code, ended_by=None if done is None else done.ended_by,
            stdout=to_readable(stdout), stderr=to_readable(stderr), output_id=job.output_id,
            is_truncated=done is not None and bool(done.stdout.tail or done.stderr.tail),
            sandbox=job.command.confinement.sandbox, duration=job.status().seconds,
            is_part=True,
            notes=tuple(filter(None, [*notes, job.command.confinement.statement])),
        )  # fmt: skip
