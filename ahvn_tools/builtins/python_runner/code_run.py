"""CodeRun: what became of code, and the ToolResult that says so to a model and to a host."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ahvn_tools.builtins.processes.process import ProcessResult
from ahvn_tools.builtins.processes.terminal_text import overwritten_note, to_last_states
from ahvn_tools.builtins.python_runner.answer import Answer
from ahvn_tools.results import ToolResult

_LEFT_PROCESSES: Final = "Processes that the code had started and that were running at its end were ended with it."


@dataclass(frozen=True, kw_only=True)
class CodeRun:
    """What became of code."""

    exit_code: int | None
    """None if it was ended because of its timeout; negative, or 128 more than it: the signal that ended it."""
    ended_by: str
    """`exit`, `timeout`, or another reason of ProcessResult."""
    stdout: str
    stderr: str
    is_output_cut: bool = False
    answer: Answer = field(default_factory=Answer)
    duration: float
    """Seconds."""
    notes: tuple[str, ...] = ()
    """Sentences for the model, such as that there was no sandbox."""

    @classmethod
    def of_process(cls, done: ProcessResult, answer: Answer, notes: tuple[str, ...]) -> CodeRun:
        """Return what became of code whose interpreter has ended."""
        for output in (done.stdout, done.stderr):
            if output.spool is not None:
                output.spool.unlink(missing_ok=True)
        return cls(
            exit_code=done.exit_code, ended_by=done.ended_by, answer=answer, duration=done.duration,
            notes=(*notes, _LEFT_PROCESSES) if done.has_left_processes else notes,
            stdout=done.stdout.text, stderr=done.stderr.text,
            is_output_cut=bool(done.stdout.tail or done.stderr.tail),
        )  # fmt: skip

    def to_result(self, *, timeout: float, details: Mapping[str, Any]) -> ToolResult:
        """Return the text and the pictures that a model reads; for the host also the parts, with its `details`."""
        return self._with_last_states()._to_result(timeout, details)  # noqa: SLF001  # of this class

    def _with_last_states(self) -> CodeRun:
        """Return it with the last state of lines that were overwritten, as those of progress bars."""
        stdout, of_stdout = to_last_states(self.stdout)
        stderr, of_stderr = to_last_states(self.stderr)
        note = overwritten_note(stdout=of_stdout, stderr=of_stderr)
        return replace(
            self, stdout=stdout if of_stdout else self.stdout, stderr=stderr if of_stderr else self.stderr,
            notes=(*self.notes, note) if note else self.notes,
        )  # fmt: skip

    def _to_result(self, timeout: float, details: Mapping[str, Any]) -> ToolResult:
        structured = {
            "exit_code": self.exit_code,
            "ended_by": self.ended_by,
            "stdout": self.stdout,
            "stderr": self._all_stderr(timeout),
            "result": self.answer.value,
            "images": len(self.answer.images),
            "truncated": self.is_output_cut or self.answer.is_value_cut,
            "notes": list(self._all_notes()),
            "duration": self.duration,
            **details,
        }
        text = self._text(timeout)
        return ToolResult(text, structured_content=structured, blocks=_blocks(text, self.answer.images))

    def _text(self, timeout: float) -> str:
        code = -1 if self.exit_code is None else self.exit_code
        stderr = self._all_stderr(timeout)
        parts = [f"<returncode>{code}</returncode><stdout>{self.stdout}</stdout><stderr>{stderr}</stderr>"]
        if self.answer.value is not None:
            parts.append(f"<result>{self.answer.value}</result>")
        return "".join(parts + [f"<note>{note}</note>" for note in self._all_notes()])

    def _all_stderr(self, timeout: float) -> str:
        if self.ended_by != "timeout":
            return self.stderr
        message = f"TimeoutError: The code execution exceeded the timeout of {timeout:.12g} seconds."
        return f"{self.stderr}\n{message}" if self.stderr else message

    def _all_notes(self) -> tuple[str, ...]:
        notes = [*self.answer.notes, *self.notes]
        if self.answer.is_value_cut:
            notes.append(
                f"The result has {self.answer.value_chars:,} characters, and only the first "
                f"{len(self.answer.value or ''):,} are here. Select a part of it."
            )
        if self.is_output_cut:
            notes.append("The output is too long and only a part of it is here. Print less, or select a part of it.")
        return tuple(notes)


def _blocks(text: str, images: tuple[bytes, ...]) -> tuple[Any, ...] | None:
    if not images:
        return None
    from mcp_types import ImageContent, TextContent

    pictures = [
        ImageContent(type="image", data=base64.b64encode(image).decode(), mime_type="image/png") for image in images
    ]
    return (TextContent(type="text", text=text), *pictures)
