"""SQLite: read-only by the mode of the file, by `query_only`, and by an authorizer that allows reads alone."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from ahvn_tools.builtins.database.cells import plain_cell
from ahvn_tools.builtins.database.memory_limit import limit_memory
from ahvn_tools.builtins.database.statement import (
    InvalidStatementError,
    Limits,
    NotAllowedError,
    NotReadOnlyError,
    Rows,
    RowWindow,
    Statement,
    lock_error,
)
from ahvn_tools.errors import ToolError

MAX_COLUMNS: Final = 100
"""The most columns of a result."""
_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_COLUMN: MAX_COLUMNS,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}

_MAX_WAIT: Final = 1_000_000.0
"""Seconds for a lock. SQLite counts milliseconds in 32 bits."""

_KINDS: Final = {
    sqlite3.SQLITE_ATTACH: "ATTACH or VACUUM",
    sqlite3.SQLITE_DETACH: "DETACH",
    sqlite3.SQLITE_TRANSACTION: "A transaction (BEGIN, COMMIT, ROLLBACK)",
    sqlite3.SQLITE_SAVEPOINT: "SAVEPOINT or RELEASE",
    sqlite3.SQLITE_PRAGMA: "This PRAGMA",
}
"""What the authorizer refuses, as models know it."""

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


class SQLiteSession:
    """One connection, in a process of its own: SQLite interrupts no function, and one of them may run for minutes."""

    def __init__(self, path: Path, limits: Limits, *, may_write: bool) -> None:
        """Open the file, then limit what the statement may do and the memory of this process."""
        self._limits = limits
        self._denied: set[int] = set()
        self._may_write = may_write
        self._lock_timeout = min(limits.lock_timeout(), _MAX_WAIT)
        self._connection = connection = _connect(path, self._lock_timeout, may_write=may_write)
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        connection.execute(f"PRAGMA query_only = {'OFF' if may_write else 'ON'}")
        connection.execute(f"PRAGMA hard_heap_limit = {limits.max_memory}")
        with self._explained_errors():
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()  # before the limit of columns
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        connection.set_authorizer(self._authorize)
        limit_memory(limits.max_memory)

    def run(self, statement: Statement) -> Rows:
        """Run the statement of a model."""
        with self._explained_errors():
            cursor = self._connection.execute(statement.query, statement.parameters or ())
            names = [plain_cell(column[0], self._limits.max_width)[0] for column in cursor.description or ()]
            window = RowWindow(names, self._limits)
            for row in cursor:
                if not window.add(row):
                    break
            changed = cursor.rowcount if cursor.rowcount >= 0 and not names else None
            cursor.close()
            return window.finish(changed=changed)

    def fetch(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a short query of our own."""
        with self._explained_errors():
            return self._connection.execute(query, parameters).fetchall()

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
        """Close the connection."""
        self._connection.close()

    @contextlib.contextmanager
    def _explained_errors(self) -> Iterator[None]:
        self._denied.clear()
        try:
            yield
        except sqlite3.Error as error:
            raise self._explain(error) from None
        except (OverflowError, UnicodeError) as error:
            raise ToolError(f"SQLite cannot take the query or a parameter: {type(error).__name__}.") from None

    def _explain(self, error: sqlite3.Error) -> ToolError:
        """Return SQLite's message for the model."""
        message, code = str(error), getattr(error, "sqlite_errorcode", 0)
        if code == sqlite3.SQLITE_READONLY_ROLLBACK:
            return NotReadOnlyError(
                "A program was ended while it changed this database. A program that may write must open it once."
            )
        if code == sqlite3.SQLITE_NOTADB:
            return ToolError(
                "The file is no SQLite database.",
                explanation="A DuckDB file has a name that ends in .duckdb or .ddb, or the URL 'duckdb:///path'.",
            )
        if self._denied & _WRITES or code & 0xFF == sqlite3.SQLITE_READONLY:
            return NotReadOnlyError("This database is read-only here: only statements that read may run.")
        if self._denied:
            kind = next((name for action, name in _KINDS.items() if action in self._denied), "This statement")
            detail = "" if message == "not authorized" else f": {message}"
            return NotAllowedError(f"{kind} is not allowed here{detail}.")
        if code & 0xFF == sqlite3.SQLITE_BUSY:
            return lock_error(self._lock_timeout)
        if "You can only execute one statement" in message:
            return ToolError("The query has several statements. Pass one statement at a time.")
        if "string or blob too big" in message:
            return ToolError("The statement makes a value that is too large for SQLite. Make it shorter.")
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


def _connect(path: Path, lock_timeout: float, *, may_write: bool) -> sqlite3.Connection:
    """Return a connection that cannot write, unless it may, in autocommit."""
    target = f"file:{quote(str(path))}?mode={'rwc' if may_write else 'ro'}"
    try:
        return sqlite3.connect(target, uri=True, timeout=lock_timeout, isolation_level=None, cached_statements=0)
    except sqlite3.Error:
        raise ToolError("The database file cannot be opened.") from None
