"""SQLite: read-only by the mode of the file, by `query_only`, and by an authorizer that allows reads alone."""

from __future__ import annotations

import contextlib
import functools
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

from ahvn_tools.builtins.database.cells import plain_cell
from ahvn_tools.builtins.database.deadline import POLL_SECONDS, Deadline
from ahvn_tools.builtins.database.statement import (
    InvalidStatementError,
    Limits,
    NotReadOnlyError,
    Rows,
    RowWindow,
    Statement,
)
from ahvn_tools.errors import ToolError

MAX_VALUE_BYTES: Final = 1_000_000
"""The longest value that a statement may read or make."""
MAX_COLUMNS: Final = 100
"""The most columns of a result; each may hold a value of `MAX_VALUE_BYTES`."""
_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_VALUE_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_COLUMN: MAX_COLUMNS,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 250_000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 500,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 20,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}

_READS: Final = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_WRITES: Final = {
    getattr(sqlite3, f"SQLITE_{name}")
    for name in (
        *("INSERT", "UPDATE", "DELETE", "ALTER_TABLE", "REINDEX", "ANALYZE", "CREATE_INDEX", "CREATE_TABLE"),
        *("CREATE_TRIGGER", "CREATE_VIEW", "CREATE_VTABLE", "DROP_INDEX", "DROP_TABLE", "DROP_TRIGGER", "DROP_VIEW"),
        *("DROP_VTABLE", "CREATE_TEMP_TABLE", "DROP_TEMP_TABLE", "CREATE_TEMP_INDEX", "DROP_TEMP_INDEX"),
    )
}
_WRITES_OF_RTREE: Final = {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_DELETE}
_TABLES_OF_RTREE: Final = ("_node", "_rowid", "_parent")
_REFUSED_FUNCTIONS: Final = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "lsmode"}
_PRAGMAS: Final = {
    *("table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list"),
    *("compile_options", "collation_list", "function_list", "module_list", "data_version", "foreign_key_check"),
    *("integrity_check", "quick_check"),
}
"""Pragmas that read, whatever their argument is; `database_list` shows the path of the file."""
_PRAGMAS_WITHOUT_ARGUMENT: Final = {
    *("user_version", "schema_version", "application_id", "encoding", "page_count", "page_size", "freelist_count"),
    *("journal_mode", "foreign_keys", "auto_vacuum"),
}
"""Pragmas that read without an argument and write with one."""

T = TypeVar("T")


class SQLiteSession:
    """One connection to a SQLite file, or the one connection to a database in memory."""

    def __init__(self, connection: sqlite3.Connection, limits: Limits, deadline: Deadline, *, may_write: bool) -> None:
        """Restrict the connection to what one call may do."""
        self._connection = connection
        self._limits = limits
        self._deadline = deadline
        self._denied: set[int] = set()
        self._may_write = may_write
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        self._is_done = threading.Event()
        self._watcher = threading.Thread(target=self._interrupt_at_end, name="database deadline", daemon=True)
        connection.execute(f"PRAGMA query_only = {'OFF' if may_write else 'ON'}")
        for name, sides in _TRIMS.items():
            connection.create_function(name, 2, functools.partial(_trim, **sides), deterministic=True)
        self._repeat(
            lambda: connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        )  # before the limit of columns
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        connection.set_authorizer(self._authorize)
        self._watcher.start()

    def run(self, statement: Statement) -> Rows:
        """Run the statement of a model."""
        parameters = statement.parameters or ()
        return self._repeat(lambda: self._read(statement.query, parameters))

    def _read(self, query: str, parameters: Mapping[str, Any] | Sequence[Any]) -> Rows:
        with contextlib.closing(self._connection.execute(query, parameters)) as cursor:
            names = [plain_cell(column[0], self._limits.max_width)[0] for column in cursor.description or ()]
            window = RowWindow(names, self._limits)
            for row in cursor:
                if not window.add(row) or self._deadline.is_over:
                    break
            self._deadline.check()
            return window.finish(changed=cursor.rowcount if cursor.rowcount >= 0 and not names else None)

    def fetch(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a short query of our own."""
        return self._repeat(lambda: self._connection.execute(query, parameters).fetchall())

    def tables(self) -> list[tuple[str | None, str, str]]:
        """Return the tables and views, without the parts of virtual tables."""
        has_list = sqlite3.sqlite_version_info >= (3, 37)
        parts = "SELECT name FROM pragma_table_list WHERE type = 'shadow'" if has_list else "SELECT NULL WHERE 0"
        query = (
            "SELECT NULL, name, type FROM sqlite_master WHERE type IN ('table', 'view') "  # noqa: S608  # constants
            f"AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT IN ({parts}) ORDER BY name"
        )
        return self.fetch(query)

    def columns(self, schema: str | None, table: str) -> list[dict[str, Any]]:  # noqa: ARG002  # there is one schema
        """Return the columns, without hidden ones."""
        rows = self.fetch(
            'SELECT name, type, "notnull", dflt_value FROM pragma_table_xinfo(?) WHERE hidden != 1', [table]
        )
        return [
            {"name": name, "type": kind or "any", "nullable": not required, "default": default}
            for name, kind, required, default in rows
        ]

    def keys(self, schema: str | None, table: str) -> list[str]:  # noqa: ARG002  # there is one schema
        """Return the primary key, the foreign keys and the unique indexes."""
        primary = [
            name for (name,) in self.fetch("SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk", [table])
        ]
        keys = [f"PRIMARY KEY ({', '.join(primary)})"] if primary else []
        foreign: dict[int, tuple[str, list[str], list[str]]] = {}
        query = 'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq'
        for key, target, column, target_column in self.fetch(query, [table]):
            _, columns, target_columns = foreign.setdefault(key, (target, [], []))
            columns.append(column)
            target_columns.extend([target_column] if target_column else [])
        for target, columns, target_columns in foreign.values():
            named = f" ({', '.join(target_columns)})" if target_columns else ""
            keys.append(f"FOREIGN KEY ({', '.join(columns)}) REFERENCES {target}{named}")
        return keys + self._indexes(table)

    def _indexes(self, table: str) -> list[str]:
        indexes = []
        query = "SELECT name, \"unique\" FROM pragma_index_list(?) WHERE origin != 'pk' ORDER BY name"
        for name, is_unique in self.fetch(query, [table]):
            columns = [
                column or "(expression)" for (column,) in self.fetch("SELECT name FROM pragma_index_info(?)", [name])
            ]
            indexes.append(f"{'UNIQUE ' if is_unique else ''}INDEX ({', '.join(columns)})")
        return indexes

    def quote(self, name: str) -> str:
        """Return a name as SQL."""
        return '"' + name.replace('"', '""') + '"'

    def close(self) -> None:
        """Take what belongs to this call from the connection, and close the connection if it is to a file."""
        self._is_done.set()
        self._watcher.join()
        self._connection.set_authorizer(None)

    def _interrupt_at_end(self) -> None:
        """Interrupt the connection at the deadline: SQLite ends its statement at the next row.

        A progress handler would count instructions, and one instruction may call a function that takes seconds.
        """
        while not self._is_done.wait(POLL_SECONDS):
            if self._deadline.is_over:
                self._connection.interrupt()

    def _repeat(self, action: Callable[[], T]) -> T:
        """Return the result of an action; while another connection holds its lock, try again."""
        while True:
            self._denied.clear()
            try:
                return action()
            except sqlite3.Error as error:
                code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                self._deadline.check()
                if code not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    raise self._explain(error) from None
                time.sleep(POLL_SECONDS)
            except (OverflowError, UnicodeError) as error:
                raise ToolError(f"SQLite cannot take the query or a parameter: {type(error).__name__}.") from None
            except MemoryError:
                raise ToolError("The result is too large. Select fewer columns, or shorter values.") from None

    def _explain(self, error: sqlite3.Error) -> ToolError:
        """Return SQLite's message for the model."""
        message = str(error)
        if self._denied & _WRITES or getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY:
            return NotReadOnlyError("This database is read-only here: only statements that read may run.")
        if self._denied:
            return ToolError(
                f"This statement is not allowed here: {message}. Use statements that read or write tables."
            )
        if "You can only execute one statement" in message:
            return ToolError("The query has several statements. Pass one statement at a time.")
        if "string or blob too big" in message:
            return ToolError(f"A value is larger than {MAX_VALUE_BYTES:,} bytes. Use substr() to read a part of it.")
        return InvalidStatementError(f"SQLite refuses the statement: {message[:1000]}")

    def _authorize(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action in _READS or self._is_allowed(action, first, second):
            return sqlite3.SQLITE_OK
        self._denied.add(action)
        return sqlite3.SQLITE_DENY

    def _is_allowed(self, action: int, first: str | None, second: str | None) -> bool:
        if action == sqlite3.SQLITE_FUNCTION:
            return (second or "").lower() not in _REFUSED_FUNCTIONS
        if action == sqlite3.SQLITE_PRAGMA:
            name = (first or "").lower()
            return name in _PRAGMAS or (name in _PRAGMAS_WITHOUT_ARGUMENT and second is None)
        if action == sqlite3.SQLITE_UPDATE and first == "sqlite_master":
            return True  # SQLite asks this where a query opens a virtual table; it refuses a real update itself
        if action in _WRITES_OF_RTREE and (first or "").endswith(_TABLES_OF_RTREE):
            return True  # opening an R-tree prepares these; the mode of the file and `query_only` refuse to run them
        return self._may_write and action in _WRITES


def connect_file(path: Path, *, may_write: bool) -> sqlite3.Connection:
    """Return a connection that cannot write, unless it may, in autocommit."""
    mode = "rwc" if may_write else "ro"
    try:
        return _connect(f"file:{quote(str(path))}?mode={mode}")
    except sqlite3.Error:
        raise ToolError("The database file cannot be opened.") from None


def connect_memory() -> sqlite3.Connection:
    """Return a connection to a new, empty database in memory."""
    return _connect(":memory:")


def _connect(target: str) -> sqlite3.Connection:
    return sqlite3.connect(
        target, uri=True, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=0
    )


_TRIMS: Final[Mapping[str, Mapping[str, bool]]] = {
    "trim": {"at_start": True, "at_end": True},
    "ltrim": {"at_start": True, "at_end": False},
    "rtrim": {"at_start": False, "at_end": True},
}


def _trim(text: Any, characters: Any, *, at_start: bool, at_end: bool) -> str | None:
    """Trim in linear time: SQLite's own function compares each character with each, and cannot be interrupted."""
    if text is None or characters is None:
        return None
    text, trimmed = _text(text), frozenset(_text(characters))
    start, end = 0, len(text)
    while at_start and start < end and text[start] in trimmed:
        start += 1
    while at_end and end > start and text[end - 1] in trimmed:
        end -= 1
    return str(text[start:end])


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return f"{value:.15g}" if isinstance(value, float) else str(value)
