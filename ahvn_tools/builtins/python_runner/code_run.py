"""CodeRun: what became of code, and the ToolResult that says so to a model and to a host."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.processes.process import ProcessResult
from ahvn_tools.builtins.processes.terminal_text import overwritten_note, to_last_states
from ahvn_tools.errors import ToolError
from ahvn_tools.results import ToolResult

_PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_MAX_NOTES: Final = 20
_MAX_NOTE_CHARS: Final = 1000
_MAX_REPR_CHARS: Final = 12
"""How long one character is at most in JSON: a surrogate pair."""


@dataclass(frozen=True, kw_only=True)
class AnswerLimits:
    """How much of an answer is used."""

    max_value_chars: int
    max_images: int
    max_image_bytes: int
    """Bytes of each picture."""

    @property
    def max_bytes(self) -> int:
        """How large the file of an honest answer is at most."""
        texts = self.max_value_chars + _MAX_NOTES * _MAX_NOTE_CHARS
        return texts * _MAX_REPR_CHARS + self.max_images * (self.max_image_bytes * 4 // 3 + 100) + 1000


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the program wrote about the code. Nothing if the code ended it before."""

    exit_code: int | None = None
    value: str | None = None
    """The repr of the last expression, or its beginning."""
    value_chars: int = 0
    """How many characters the whole repr has."""
    images: tuple[bytes, ...] = ()
    """PNG files."""
    notes: tuple[str, ...] = ()
    """Sentences about pictures that are missing."""

    @property
    def is_value_cut(self) -> bool:
        """Whether the repr is longer than `value`."""
        return self.value is not None and self.value_chars > len(self.value)

    @classmethod
    def read(cls, path: Path, limits: AnswerLimits) -> Self:
        """Return what the file says; an empty answer if there is none, or none that the program would write.

        The path is opened as those of a model: a link, a pipe or a huge file there is no answer.
        """
        folder = ConfinedFolders(path.parent, hard_links="refuse")
        try:
            content, _ = folder.read(path.name, max_bytes=limits.max_bytes)
            return cls._of(json.loads(content), limits)
        except (ToolError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return cls()

    @classmethod
    def _of(cls, data: Any, limits: AnswerLimits) -> Self:
        text, length = data["value"] or (None, 0)
        images = [_to_png(image, limits) for image in _list(data["images"])[: limits.max_images]]
        notes = [_printable(str(note)[:_MAX_NOTE_CHARS]) for note in _list(data["notes"])[:_MAX_NOTES]]
        return cls(
            exit_code=int(data["exit_code"]),
            value=None if text is None else _printable(str(text)[: limits.max_value_chars]),
            value_chars=int(length),
            images=tuple(image for image in images if image),
            notes=tuple(notes),
        )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _to_png(image: Any, limits: AnswerLimits) -> bytes:
    """Return the picture; nothing for what is no PNG file, or too large."""
    try:
        content = base64.b64decode(image, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return b""
    return content if content.startswith(_PNG_SIGNATURE) and len(content) <= limits.max_image_bytes else b""


def _printable(text: str) -> str:
    """Return the text with surrogates escaped, which no message could contain."""
    return text.encode("utf-8", "backslashreplace").decode()


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
    def of_process(cls, done: ProcessResult, answer: Answer, statement: str | None) -> CodeRun:
        """Return what became of code whose interpreter has ended."""
        for output in (done.stdout, done.stderr):
            if output.spool is not None:
                output.spool.unlink(missing_ok=True)
        return cls(
            exit_code=done.exit_code, ended_by=done.ended_by, answer=answer, duration=done.duration,
            notes=tuple(filter(None, [statement, _LEFT_PROCESSES if done.has_left_processes else None])),
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
