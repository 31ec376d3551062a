"""The traceback of an exception as text for the host's log."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any, Final

from ahvn_tools.execution.error_text import error_text
from ahvn_tools.execution.raised_place import WorkerTraceback
from ahvn_tools.redaction import clip

MAX_FRAMES: Final = 50
"""The maximum number of frames of one exception, the innermost ones."""

MAX_EXCEPTIONS: Final = 20
"""The maximum number of exceptions in one report: causes, and members of groups."""


def format_exception(error: BaseException, hidden: Mapping[str, Any]) -> str:
    """Return the tracebacks of an exception, of what caused it and of the members of a group.

    No variables. `hidden` are the values whose identity an argument of the exception may have; the text is not redacted
    otherwise.
    """
    return "\n".join(_lines(error, hidden, set()))


def _lines(error: BaseException, hidden: Mapping[str, Any], seen: set[int]) -> list[str]:
    if id(error) in seen or len(seen) == MAX_EXCEPTIONS:
        return []
    seen.add(id(error))
    if isinstance(error, WorkerTraceback):
        return [to_single_line(line) for line in str(error).splitlines()[1:]]
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    earlier = [] if cause is None else _lines(cause, hidden, seen)
    frames = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__), limit=-MAX_FRAMES)
    return [
        *([*earlier, "", "The exception above led to this one:", ""] if earlier else []),
        "Traceback (most recent call last):",
        *"".join(frames.format()).splitlines(),
        _summary(error, hidden),
        *(f"  | {line}" for member in _members(error) for line in _lines(member, hidden, seen)),
    ]


def _members(error: BaseException) -> tuple[BaseException, ...]:
    return error.exceptions if isinstance(error, BaseExceptionGroup) else ()


def _summary(error: BaseException, hidden: Mapping[str, Any]) -> str:
    text = clip(error_text(error, hidden))
    return to_single_line(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def to_single_line(text: str) -> str:
    """Return text with line breaks and other unprintable characters escaped."""
    return "".join(part if part.isprintable() else part.encode("unicode_escape").decode() for part in text)
