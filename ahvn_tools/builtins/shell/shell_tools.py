"""Shell: the tools that run shell commands in the folders of a workspace."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final, Literal, Self

from ahvn_tools.builtins.approval import Approve
from ahvn_tools.builtins.processes.confinement import ProcessLimits, Sandbox
from ahvn_tools.builtins.processes.process import ProcessOutput, ProcessResult, StreamName, run_process
from ahvn_tools.builtins.processes.terminal_text import to_readable
from ahvn_tools.builtins.shell.command_preparation import (
    DEFAULT_SHELLS,
    CommandPreparation,
    to_seconds,
)
from ahvn_tools.builtins.shell.command_result import CommandResult, to_command_result
from ahvn_tools.builtins.shell.jobs import Job, Jobs, JobStatus, StoredOutputs, delete_output
from ahvn_tools.builtins.workspace.folder_tools import FolderTools
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import DefinitionError, ToolError, suggests_options
from ahvn_tools.registry import ArgumentKind, ToolRegistry, reg_toolspec
from ahvn_tools.roots import Roots
from ahvn_tools.settings import is_count
from ahvn_tools.toolkit.entry import NEEDS_SESSION

KEPT_BYTES: Final = 30_000
"""How much of stdout, and of stderr, a result has by default, and a page of `shell_output`."""
MAX_STREAMED_CHARS: Final = 1_000_000
"""How much of its output a command sends while it runs; the result and `shell_output` have more."""
_LEFT_PROCESSES: Final = (
    "Processes that the command left in the background were ended with it. Start each as the command of a job of its "
    "own, without &: start_job."
)

MAX_WAIT = 60.0
"""Seconds that `job_output` and `job_input` wait at most for new output."""
MAX_INPUT_SECONDS: Final = 5.0
"""How long `job_input` waits at most until the job has read what does not fit into the pipe."""


_EXECUTES: Final = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}
_READS: Final = {"readOnlyHint": True, "openWorldHint": False}


class Shell(ToolRegistry):
    """Tools that run shell commands in the folders of a workspace, to their end or as background jobs.

    - `workspace`: a Workspace, whose folders and `read_only` apply, or roots.
    - `sandbox`: "auto" uses bubblewrap where it works; a result says so when nothing confines the command.
    - `timeout`: seconds of a command. A model can choose a shorter time, and no longer one.
    - `allow`: rules such as "git status *" for what runs without an approval. By default they are `READING_COMMANDS` in
      a sandbox and `HARMLESS_COMMANDS` without.
    - `deny`: rules for what never runs. Deny beats allow. A deny rule stops mistakes, and only the sandbox stops an
      attacker.
    - `approve`: "risky" asks for what no rule allows, also in a sandbox; "always" for each command, "never" for none.
    - `environment`: variables in addition to `clean_environment()`. Commands can read all of them.
    - `network`: whether a command in the sandbox reaches the network.
    - `limits`: of each command and job; `timeout` and `job_timeout` replace its own. By default a result has 30,000
      bytes of each stream, and `shell_output` reads the rest.
    - `shells`: the shells that a model may choose; the first one that exists is the default.
    - `job_timeout`: seconds of a job.
    - `max_jobs`: how many jobs run at once in one session.
    - `max_jobs_in_all`: how many jobs run at once in all sessions together.

    Jobs and stored outputs end with `close()`, with the object, and with Python.

    >>> import tempfile
    >>> from ahvn_tools import Toolkit
    >>> with tempfile.TemporaryDirectory() as folder, Shell(folder, sandbox="none", allow=["echo *"]) as shell:
    ...     result = Toolkit("commands").add(shell).call("shell_exec", {"cmd": "echo one | echo two"})
    >>> result.stdout.strip(), result.exit_code
    ('two', 0)
    """

    argument_kinds: ClassVar[Mapping[str, ArgumentKind]] = {
        "cmd": "command",
        "text": "command",
        "uri": "path",
        "shell_path": "path",
    }

    @suggests_options
    def __init__(
        self,
        workspace: FolderTools | Roots,
        *,
        sandbox: Sandbox = "auto",
        timeout: float = 120.0,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] = (),
        approve: Approve = "risky",
        environment: Mapping[str, str] | None = None,
        network: bool = False,
        limits: ProcessLimits | None = None,
        shells: Sequence[str] = DEFAULT_SHELLS,
        job_timeout: float = 3600.0,
        max_jobs: int = 4,
        max_jobs_in_all: int = 32,
    ) -> None:
        """Raise DefinitionError for an option that is wrong."""
        for name, seconds in (("timeout", timeout), ("job_timeout", job_timeout)):
            if not seconds > 0:
                raise DefinitionError(f"`{name}` is a number of seconds greater than 0, not {seconds!r}.")
        if not (is_count(max_jobs) and is_count(max_jobs_in_all)):
            raise DefinitionError("`max_jobs` and `max_jobs_in_all` are whole numbers of at least 1.")
        self.preparation = CommandPreparation(
            workspace, sandbox=sandbox, allow=allow, deny=deny, approve=approve, environment=environment,
            network=network, shells=shells,
        )  # fmt: skip
        self.folders, self.approval = self.preparation.folders, self.preparation.approval
        self.limits = replace(limits or ProcessLimits(kept_bytes=KEPT_BYTES), timeout=timeout)
        self.job_limits = replace(self.limits, timeout=job_timeout)
        self._outputs = StoredOutputs()
        self._jobs = Jobs(self._outputs, max_jobs=max_jobs, max_jobs_in_all=max_jobs_in_all)
        weakref.finalize(self, _close_all, self._jobs, self._outputs)

    @reg_toolspec(output="raw", render=str, annotations=_EXECUTES, tags={"shell", "execute"})
    def shell_exec(
        self,
        cmd: str,
        context: ToolContext,
        uri: str = ".",
        shell_path: str | None = None,
        timeout: float | None = None,
        *,
        interleaved: bool = False,
    ) -> CommandResult:
        """Run a shell command and return what it wrote.

        The result has the parts STDOUT, STDERR and ERROR; a part without text is left out. Without ERROR the exit code
        is 0. All processes that the command starts end with it: use start_job for a server. A command may need an
        approval. Plain commands, without variables, substitutions and redirections into files, need one less often.

        Args:
            cmd: The command line.
            uri: The folder in which it runs.
            shell_path: The shell, such as /bin/sh. Omit it for the default.
            timeout: Seconds until the command is stopped. The host may have set a shorter limit.
            interleaved: Whether to return STDOUT and STDERR as one text, in the order in which they were written.
        """
        limits = replace(self.limits, timeout=to_seconds(timeout, self.limits.timeout))
        command = self.preparation.prepare(cmd, uri, shell_path, context, is_interleaved=interleaved)
        done = run_process(
            command.arguments, limits=limits, on_output=_OutputSender(context).send,
            is_cancelled=lambda: context.cancelled, **command.process_arguments,
        )  # fmt: skip
        if done.ended_by == "cancelled":
            delete_output(done)
            context.check_cancelled()
        output_id = self._outputs.add(done, context.session_id)
        return to_command_result(
            command, done, stdout=done.stdout.text, stderr=done.stderr.text, duration=done.duration,
            output_id=output_id, notes=_notes_on(done, output_id, self.limits),
        )  # fmt: skip

    @reg_toolspec(annotations=_READS, tags={"shell", "read"})
    def shell_output(
        self, output_id: str, context: ToolContext, start_byte: int = 0, stream: Literal["stdout", "stderr"] = "stdout"
    ) -> str:
        """Read a part of a long output of an earlier command.

        Args:
            output_id: The id in the result of the command.
            start_byte: The first byte to read. Each call says how to continue.
            stream: Which output to read.
        """
        size = max(self.limits.kept_bytes, 1000)
        return self._outputs.read(output_id, context.session_id, stream=stream, start=start_byte, size=size)

    @reg_toolspec(annotations=_EXECUTES, tags={"shell", "execute"})
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
            raise ToolError("Jobs are not possible here, because no later call could find this one. Use shell_exec.")
        command = self.preparation.prepare(cmd, uri, shell_path, context, is_interleaved=interleaved)
        return self._jobs.start(command, self.job_limits, context.session_id).status()

    @reg_toolspec(annotations=_READS, tags={"shell", "read"})
    def job_status(self, context: ToolContext, job_id: str | None = None) -> list[JobStatus]:
        """Return whether a background job runs, and its exit code. Without an id: of all your jobs.

        Args:
            job_id: The id that start_job returned.
        """
        jobs = self._jobs
        found = jobs.of_session(context.session_id) if job_id is None else [jobs.find(job_id, context.session_id)]
        return [job.status() for job in found]

    @reg_toolspec(output="raw", render=str, annotations=_READS, tags={"shell", "read"})
    def job_output(self, job_id: str, context: ToolContext, wait: float = 0) -> CommandResult:
        """Return what a background job has written since the last call of job_output.

        Args:
            job_id: The id that start_job returned.
            wait: Seconds to wait for new output or the end of the job, at most 60.
        """
        _check_wait(wait)
        return self._wait_and_read(self._jobs.find(job_id, context.session_id), wait, context)

    @reg_toolspec(output="raw", render=str, annotations=_EXECUTES, tags={"shell", "execute"})
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
        deadline = time.monotonic() + MAX_INPUT_SECONDS
        sent = job.process.write(data, is_cancelled=lambda: context.cancelled or time.monotonic() > deadline)
        context.check_cancelled()
        if sent < len(data):
            raise ToolError(
                f"The job does not read its input: {sent:,} of {len(data):,} bytes were sent, and the others were not."
            )
        if end:
            job.process.end_input()
        return self._wait_and_read(job, wait, context, more_than=unread)

    def _wait_and_read(self, job: Job, wait: float, context: ToolContext, *, more_than: int = 0) -> CommandResult:
        job.process.wait_for_output(wait, more_than=more_than, is_cancelled=lambda: context.cancelled)
        context.check_cancelled()
        return self._read(job)

    @reg_toolspec(
        output="raw", render=str, tags={"shell", "execute"},
        annotations={"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False},
    )  # fmt: skip
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
            done = job.result()  # before reading: what is read afterwards has all of an ended job
            stdout, stderr = job.process.read_new()
            notes = [f"The job {job.job_id} is still running. Call job_output again for more, or stop_job."]
            if done is not None:
                job.store(self._outputs)
                notes = [f"The job {job.job_id} has ended.", *_notes_on(done, job.output_id, self.job_limits)]
            return to_command_result(
                job.command, done, stdout=stdout, stderr=stderr, duration=job.status().seconds,
                output_id=job.output_id, notes=notes, is_part=True,
            )  # fmt: skip

    def close(self) -> None:
        """Stop all background jobs and delete all stored outputs. Commands can still be run."""
        self._jobs.close()
        self._outputs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


for _method in (
    Shell.shell_output, Shell.start_job, Shell.job_status, Shell.job_output, Shell.job_input, Shell.stop_job
):  # fmt: skip
    setattr(_method, NEEDS_SESSION, True)


class _OutputSender:
    """Sends the output of a command to the reader of the call's stream, up to a limit."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._left = MAX_STREAMED_CHARS
        self._returned: set[StreamName] = set()
        """The streams whose last character was a carriage return: what follows replaces a line, or ends it."""

    def send(self, stream: StreamName, text: str) -> None:
        if self._left <= 0 or not text:
            return
        if stream in self._returned:
            text = f"\r{text}"
        (self._returned.add if text[-1] == "\r" else self._returned.discard)(stream)
        begins_again = text[0] == "\r" and text.lstrip("\r")[:1] not in ("", "\n")
        shown, _ = to_readable(text[: self._left])
        self._context.append_output(f"\n{shown}" if begins_again else shown)
        self._left -= len(text)
        if self._left <= 0:
            self._context.append_output("\n[… the command writes on; the result has the end of its output …]\n")


def _notes_on(done: ProcessResult, output_id: str | None, limits: ProcessLimits) -> list[str]:
    """Return what became of background processes, and how a model reads what is left out of an output."""
    streams = {"stdout": done.stdout, "stderr": done.stderr}
    left = [_LEFT_PROCESSES] if done.has_left_processes else []
    return left + [_rest_note(name, output, output_id, limits) for name, output in streams.items() if output.tail]


def _rest_note(name: str, output: ProcessOutput, output_id: str | None, limits: ProcessLimits) -> str:
    omitted = f"{output.omitted:,} of {output.size:,} bytes of {name} are left out."
    if output_id is None or output.spool is None:
        return f"{omitted} They were not stored."
    start = min(len(output.head.encode()), limits.kept_bytes // 2)
    return f'{omitted} Read them with shell_output(output_id="{output_id}", stream="{name}", start_byte={start}).'


def _close_all(*closed: Jobs | StoredOutputs) -> None:
    for one in closed:
        one.close()


def _check_wait(wait: float) -> None:
    if not 0 <= wait <= MAX_WAIT:
        raise ToolError(f"`wait` must be from 0 to {MAX_WAIT:.0f} seconds.")
