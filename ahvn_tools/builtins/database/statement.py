"""What a call asks of a database, its limits, the rows that it returns, and its errors. All of it is JSON data."""

from __future__ import annotations

import datetime as dt
import json
import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ahvn_tools.errors import ToolError

Parameters = Mapping[str, Any] | Sequence[Any] | None
"""The values of `:name` by name, the values of `?` in order, or none."""

_LOCK_PART: Final = 0.75
_MAX_INT: Final = 2**63
"""Larger integers become texts: many programs that read JSON would round them."""
_MAX_DECIMAL_BITS: Final = 10_000
"""Python refuses to write longer integers in decimal."""


class NotReadOnlyError(ToolError):
    """The database has refused a statement because it is more than a read."""


class NotAllowedError(ToolError):
    """A statement is of a kind that never runs here; `Database` adds which ones do."""


class InvalidStatementError(ToolError):
    """The database cannot run a statement: it has a mistake, or reads what does not exist."""


class UnreachableError(ToolError):
    """There is no connection to the database; `explanation` has the reason for the developer."""


READ_ONLY: Final = "This database is read-only here: only statements that read may run."
TOO_MUCH_MEMORY: Final = "The statement needs too much memory. Read fewer rows, or shorter values."
SEVERAL_STATEMENTS: Final = "The query has several statements. Pass one statement at a time."


def statement_timeout_error(timeout: float, *, knows_locks: bool = True) -> ToolError:
    """Return the error of a statement that was stopped after `timeout` seconds.

    `knows_locks`: whether one that waits for a lock has another error.
    """
    lock = "" if knows_locks else " If another session holds a lock, try again later."
    return ToolError(
        f"The statement was stopped after {timeout:g} seconds. "
        f"Make it cheaper: read fewer rows with WHERE or LIMIT.{lock}"
    )


def lock_error(timeout: float) -> ToolError:
    """Return the error of a statement that waited `timeout` seconds for the lock of another program."""
    return ToolError(
        f"Another program holds a lock on the database, and did not release it within {timeout:.1f} seconds. Nothing "
        "was changed. Try again later."
    )


@dataclass(frozen=True, kw_only=True)
class StatementLimits:
    """What one call may use."""

    max_rows: int
    """Rows of a result that are returned."""
    max_width: int
    """Characters of a value, in a result of several rows."""
    timeout: float
    """Seconds, with the time to connect."""
    memory_bytes: int
    """Bytes for a process that runs a statement."""
    end: float = 0.0
    """When the process that runs a statement is killed, as of `time.time()`."""
    max_value: int = 10_000
    """Characters of a value, in a result of one row."""
    max_read_rows: int = 10_000_000
    """Rows that are read and counted."""

    def lock_timeout(self) -> float:
        """Return how many seconds a statement may wait for a lock now: with the rest of its time it can say so."""
        return max(self.end - time.time(), 0.0) * _LOCK_PART


@dataclass(frozen=True, kw_only=True)
class StatementRequest:
    """Run `query`; without one, describe `table`; without one, describe the database."""

    limits: StatementLimits
    may_write: bool = False
    query: str | None = None
    parameters: Parameters = None
    table: str | None = None


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The first and the last rows of a result. Each value is None, a bool, a number or a text."""

    columns: Sequence[str]
    first: Sequence[Sequence[Any]]
    last: Sequence[Sequence[Any]] = ()
    row_count: int = 0
    """Rows that were read."""
    has_more: bool = False
    """Whether reading stopped before the end."""
    has_cut_values: bool = False
    """Whether a value is only the beginning of a longer one."""
    changed: int | None = None
    """Rows that the statement has changed, if the database counts them."""

    @property
    def omitted(self) -> int:
        """How many rows are missing between the first and the last ones."""
        return self.row_count - len(self.first) - len(self.last)


class RowWindow:
    """Keeps the first and the last rows of a result, and counts all of them."""

    def __init__(self, columns: Sequence[str], limits: StatementLimits) -> None:
        """A result that fits into `max_rows` is kept whole."""
        self._columns = columns
        self._limits = limits
        self._first: list[tuple[list[Any], bool]] = []
        self._last: deque[tuple[list[Any], bool]] = deque(maxlen=limits.max_rows // 2)
        self._only_row: Sequence[Any] | None = None
        self._count = 0
        self._has_more = False

    def add(self, row: Sequence[Any]) -> bool:
        """Take a row. Return False if no more rows must be read."""
        if self._count >= self._limits.max_read_rows:
            self._has_more = True
            return False
        self._count += 1
        if self._count == 1:
            self._only_row = row
            return True
        if self._only_row is not None:
            self._store(self._only_row, self._limits.max_width)
            self._only_row = None
        self._store(row, self._limits.max_width)
        return True

    def _store(self, row: Sequence[Any], width: int) -> None:
        cells = [plain_cell(value, width) for value in row]
        stored = [cell for cell, _ in cells], any(is_cut for _, is_cut in cells)
        if len(self._first) < self._limits.max_rows - self._limits.max_rows // 2:
            self._first.append(stored)
        else:
            self._last.append(stored)

    def finish(self, *, changed: int | None = None) -> Rows:
        """Return what was kept."""
        if self._only_row is not None:
            self._store(self._only_row, self._limits.max_value)
        return Rows(
            columns=self._columns,
            first=[row for row, _ in self._first],
            last=[row for row, _ in self._last],
            row_count=self._count,
            has_more=self._has_more,
            has_cut_values=any(is_cut for _, is_cut in (*self._first, *self._last)),
            changed=changed,
        )


def plain_cell(value: Any, limit: int) -> tuple[Any, bool]:
    """Return a value as None, a bool, a number or a text of about `limit` characters, and whether it was cut."""
    if value is None or value is True or value is False:
        return value, False
    if type(value) is int and -_MAX_INT <= value < _MAX_INT:
        return value, False
    if type(value) is float and math.isfinite(value):
        return value, False
    if isinstance(value, bytes | bytearray | memoryview):
        return _cut_bytes(bytes(value), limit)
    return _cut(_text_of(value), limit)


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value) if value.bit_length() < _MAX_DECIMAL_BITS else hex(value)
    if type(value) is float:
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _cut(text: str, limit: int) -> tuple[str, bool]:
    text = text if text.isascii() else text.encode("utf-8", "replace").decode()
    return (text, False) if len(text) <= limit else (f"{text[:limit]}… ({len(text):,} characters)", True)


def _cut_bytes(value: bytes, limit: int) -> tuple[str, bool]:
    shown = max(limit // 2, 1)
    text = f"0x{value[:shown].hex()}"
    return (text, False) if len(value) <= shown else (f"{text}… ({len(value):,} bytes)", True)
