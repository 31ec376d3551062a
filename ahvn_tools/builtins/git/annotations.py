"""GitBlame: the lines of a file, each with the commit that wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

_UNCOMMITTED: Final = "0" * 40
_MAX_LINE_CHARS: Final = 2_000


@dataclass(frozen=True, kw_only=True)
class BlamedLine:
    """A line of a file, and the commit that wrote it."""

    line: int
    """Counted from 1."""
    text: str
    """Cut after 2,000 characters."""
    commit: str | None
    """Its hash; None for a line that is not committed."""
    author: str
    date: str
    """When the line was written, in ISO 8601."""
    subject: str
    """The first line of the commit's message."""


@dataclass(frozen=True, kw_only=True)
class GitBlame:
    """One page of the lines of a file."""

    lines: list[BlamedLine]
    next_start_line: int | None = None
    """The `start_line` of the next page; None on the last one."""


def parse_blame(output: str) -> list[BlamedLine]:
    """Return the lines that `git blame --line-porcelain` has written; one that was cut off is left out."""
    lines: list[BlamedLine] = []
    header: dict[str, str] = {}
    for text in output.split("\n")[:-1]:
        if not header:
            commit, _, number, *_ = text.split(" ")
            header = {"commit": commit, "line": number}
        elif text.startswith("\t"):
            lines.append(_line(header, text[1:]))
            header = {}
        else:
            key, _, value = text.partition(" ")
            header[key] = value
    return lines


def _line(header: dict[str, str], text: str) -> BlamedLine:
    is_committed = not header["commit"].startswith(_UNCOMMITTED)
    return BlamedLine(
        line=int(header["line"]),
        text=text if len(text) <= _MAX_LINE_CHARS else f"{text[:_MAX_LINE_CHARS]}…",
        commit=header["commit"] if is_committed else None,
        author=header.get("author", "") if is_committed else "",
        date=_date(header.get("author-time", "0"), header.get("author-tz", "+0000")),
        subject=header.get("summary", "") if is_committed else "",
    )


def _date(seconds: str, offset: str) -> str:
    """Return a time of git as ISO 8601; in UTC where a commit has an offset or a year that do not exist."""
    try:
        sign = -1 if offset.startswith("-") else 1
        zone = timezone(sign * timedelta(hours=int(offset[1:3]), minutes=int(offset[3:5])))
        return datetime.fromtimestamp(int(seconds), zone).isoformat()
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC).isoformat()
