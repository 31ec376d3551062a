"""Tools that run a command to its end, and read what it wrote."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, Self

from ahvn_tools.builtins.approval import Approve
from ahvn_tools.builtins.processes.confinement import Sandbox
from ahvn_tools.builtins.processes.limits import ProcessLimits
from ahvn_tools.builtins.processes.process import Output, ProcessResult, StreamName, run_process
from ahvn_tools.builtins.processes.terminal_text import to_readable
from ahvn_tools.builtins.shell.command_preparation import CommandPreparation, PreparedCommand, to_seconds
from ahvn_tools.builtins.shell.command_result import CommandResult, to_command_result
from ahvn_tools.builtins.shell.jobs import Jobs
from ahvn_tools.builtins.shell.shell_programs import DEFAULT_SHELLS
from ahvn_tools.builtins.shell.stored_outputs import StoredOutputs, delete_output
from ahvn_tools.builtins.workspace.folder_tools import FolderTools
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import DefinitionError, suggests_options
from ahvn_tools.registry import ToolRegistry, reg_toolspec
from ahvn_tools.roots import Roots
from ahvn_tools.settings import is_count

KEPT_BYTES: Final = 30_000
"""How much of stdout, and of stderr, a result has by default, and a page of `shell_output`."""
MAX_STREAMED_CHARS: Final = 1_000_000
"""How much of its output a command sends while it runs; the result and `shell_output` have more."""
_LEFT_PROCESSES: Final = (
    "Processes that the command left in the background were ended with it. Start each as the command of a job of its "
    "own, without &: start_job."
)


class CommandTools(ToolRegistry):
    """Tools that run commands. `Shell` inherits them."""

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
        """Take the options of `Shell`."""
        for name, seconds in (("timeout", timeout), ("job_timeout", job_timeout)):
            if not seconds > 0:
                raise DefinitionError(f"`{name}` is a number of seconds greater than 0, not {seconds!r}.")
        if not (is_count(max_jobs) and is_count(max_jobs_in_all)):
            raise DefinitionError("`max_jobs` and `max_jobs_in_all` are whole numbers of at least 1.")
        self.preparation = CommandPreparation(
            workspace, sandbox=sandbox, allow=allow, deny=deny, approve=approve, environment=environment,
            network=network, shells=shells,
        )  # fmt: skip
        self.limits = replace(limits or ProcessLimits(kept_bytes=KEPT_BYTES), timeout=timeout)
        self.job_limits = replace(self.limits, timeout=job_timeout)
        self._outputs = StoredOutputs()
        self._jobs = Jobs(self._outputs, max_jobs=max_jobs, max_jobs_in_all=max_jobs_in_all)
        weakref.finalize(self, _close_all, self._jobs, self._outputs)

    @reg_toolspec(
        output="raw",
        render=str,
        annotations={"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
        tags={"shell", "execute"},
    )
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
        return self._to_result(done, command, context)

    @reg_toolspec(annotations={"readOnlyHint": True, "openWorldHint": False}, tags={"shell", "read"})
    def shell_output(
        self, output_id: str, context: ToolContext, start: int = 0, stream: Literal["stdout", "stderr"] = "stdout"
    ) -> str:
        """Read a part of a long output of an earlier command.

        Args:
            output_id: The id in the result of the command.
            start: The first byte to read. Each call says how to continue.
            stream: Which output to read.
        """
        size = max(self.limits.kept_bytes, 1000)
        return self._outputs.read(output_id, context.session_id, stream=stream, start=start, size=size)

    def _to_result(self, done: ProcessResult, command: PreparedCommand, context: ToolContext) -> CommandResult:
        output_id = self._outputs.add(done, context.session_id)
        return to_command_result(
            command, done, stdout=done.stdout.text, stderr=done.stderr.text, duration=done.duration,
            output_id=output_id, notes=notes_on(done, output_id, self.limits),
        )  # fmt: skip

    def close(self) -> None:
        """Stop all background jobs and delete all stored outputs. Commands can still be run."""
        self._jobs.close()
        self._outputs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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


def notes_on(done: ProcessResult, output_id: str | None, limits: ProcessLimits) -> list[str]:
    """Return what became of background processes, and how a model reads what is left out of an output."""
    streams = {"stdout": done.stdout, "stderr": done.stderr}
    left = [_LEFT_PROCESSES] if done.has_left_processes else []
    return left + [_rest_note(name, output, output_id, limits) for name, output in streams.items() if output.tail]


def _rest_note(name: str, output: Output, output_id: str | None, limits: ProcessLimits) -> str:
    omitted = f"{output.omitted:,} of {output.size:,} bytes of {name} are left out."
    if output_id is None or output.spool is None:
        return f"{omitted} They were not stored."
    start = min(len(output.head.encode()), limits.kept_bytes // 2)
    return f'{omitted} Read them with shell_output(output_id="{output_id}", stream="{name}", start={start}).'


def _close_all(*closed: Jobs | StoredOutputs) -> None:
    for one in closed:
        one.close()
