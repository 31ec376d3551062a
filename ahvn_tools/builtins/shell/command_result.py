"""CommandResult: how a shell command ended, for the host, and the text that a model reads of it."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ahvn_tools.builtins.processes.process import EndReason, ProcessResult
from ahvn_tools.builtins.processes.terminal_text import overwritten_note, to_readable
from ahvn_tools.builtins.shell.command_preparation import PreparedCommand


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """How a shell command ended. Its `str()` is what a model reads."""

    exit_code: int | None
    """None if the command runs or was stopped; negative: the signal that ended it."""
    ended_by: EndReason | None
    """None while it runs."""
    stdout: str
    """What it wrote, with the last state of each line and its control and invisible characters escaped: the beginning
    and the end of much."""
    stderr: str
    is_interleaved: bool = False
    """Whether `stdout` has both streams, in the order in which they were written."""
    is_truncated: bool = False
    """Whether a part of the output is left out."""
    output_id: str | None = None
    """What `shell_output` reads the rest of the output with."""
    sandbox: Literal["bubblewrap", "none"]
    duration: float
    """Seconds."""
    is_part: bool = False
    """Whether `stdout` and `stderr` have only what is new since the last call: of a background job."""
    notes: tuple[str, ...] = ()
    """Sentences for the model."""

    def __str__(self) -> str:
        r"""Return the parts that are not empty: `STDOUT:\n…`, `STDERR:\n…`, `ERROR:\n…` and `NOTE:\n…`.

        Of interleaved streams the first part is `STDOUT AND STDERR:\n…`.
        There is an ERROR part unless the exit code is 0. Without any output and error the first line is "Command
        executed with no output.", or "No new output." of a background job.
        """
        first = "STDOUT AND STDERR" if self.is_interleaved else "STDOUT"
        parts = [(first, self.stdout), ("STDERR", self.stderr), ("ERROR", self.error or "")]
        texts = [f"{name}:\n{_without_last_line_feed(text)}" for name, text in parts if text]
        if not texts:
            texts = ["No new output." if self.is_part else "Command executed with no output."]
        return "\n".join([*texts, *(["NOTE:", *self.notes] if self.notes else [])])

    @property
    def error(self) -> str | None:
        """What is wrong with the end of the command, in one sentence; None while it runs and after exit code 0."""
        if self.ended_by == "timeout":
            return (
                f"The command and everything that it started were stopped after {self.duration:.1f} seconds (timeout)."
            )
        if self.ended_by in ("stopped", "cancelled"):
            return "The command and everything that it started were stopped."
        if self.exit_code is not None and self.exit_code < 0:
            return f"The command was ended by the signal {_signal_name(-self.exit_code)}."
        return f"The command ended with exit code {self.exit_code}." if self.exit_code else None


def to_command_result(
    command: PreparedCommand, done: ProcessResult | None, *, stdout: str, stderr: str, duration: float,
    output_id: str | None, notes: Iterable[str | None], is_part: bool = False,
) -> CommandResult:  # fmt: skip
    """Return the result of a command with what it has written. `done` is None while it runs."""
    stdout, of_stdout = to_readable(stdout)
    stderr, of_stderr = to_readable(stderr)
    all_notes = [*notes, overwritten_note(stdout=of_stdout, stderr=of_stderr), command.confinement.statement]
    return CommandResult(
        exit_code=None if done is None else done.exit_code, ended_by=None if done is None else done.ended_by,
        stdout=stdout, stderr=stderr, is_interleaved=command.is_interleaved, output_id=output_id, duration=duration,
        is_truncated=done is not None and bool(done.stdout.tail or done.stderr.tail), is_part=is_part,
        sandbox=command.confinement.sandbox, notes=tuple(filter(None, all_notes)),
    )  # fmt: skip


def _without_last_line_feed(text: str) -> str:
    return text.removesuffix("\n")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
