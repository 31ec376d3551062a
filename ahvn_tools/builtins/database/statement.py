"""A statement for a database, the limits of its run, and the rows that it returns."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ahvn_tools.builtins.database.cells import plain_cell
from ahvn_tools.errors import ToolError

_LOCK_PART: Final = 0.75

Parameters = Mapping[str, Any] | Sequence[Any] | None
"""The values of `:name` by name, the values of `?` in order, or none."""


class NotReadOnlyError(ToolError):
    """The database has refused a statement because it is more than a read."""


class NotAllowedError(ToolError):
    """A statement is of a kind that never runs here; `Database` adds which ones do."""


class InvalidStatementError(ToolError):
    """The database cannot run a statement: it has a mistake, or reads what does not exist."""


def timeout_error(timeout: float, *, knows_locks: bool = True) -> ToolError:
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


class UnreachableError(ToolError):
    """There is no connection to the database; `explanation` has the reason for the developer."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one call may use."""

    max_rows: int
    """Rows of a result that are returned."""
    max_width: int
    """Characters of a value, in a result of several rows."""
    timeout: float
    """Seconds, with the time to connect."""
    max_memory: int
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
class Statement:
    """One statement and the values of its parameters."""

    query: str
    parameters: Parameters = None


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


class Session(Protocol):
    """One connection, for one call."""

    def run(self, statement: Statement) -> Rows:
        """Run the statement of a model. Raises ToolError with the text of the database."""

    def fetch(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a short query of our own."""

    def tables(self) -> list[tuple[str | None, str, str]]:
        """Return schema, name and kind ("table" or "view") of each table."""

    def columns(self, schema: str | None, table: str) -> list[dict[str, Any]]:
        """Return name, type, nullable and default of each column."""

    def keys(self, schema: str | None, table: str) -> list[str]:
        """Return the keys and unique indexes of a table, as SQL."""

    def quote(self, name: str) -> str:
        """Return a name as SQL."""

    def close(self) -> None:
        """Close the connection."""


class RowWindow:
    """Keeps the first and the last rows of a result, and counts all of them."""

    def __init__(self, columns: Sequence[str], limits: Limits) -> None:
        """A result that fits into `max_rows` is kept whole."""
        self._columns = columns
        self._limits = limits
        self._first: list[tuple[list[Any], bool]] = []
        self._last: deque[tuple[list[Any], bool]] = deque(maxlen=limits.max_rows // 2)
        self._only_row: Sequence[Any] | None = None
        self._count = 0
        self._has_more = False

    @property
    def is_full(self) -> bool:
        """Whether there are more rows than are read."""
        return self._has_more

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
