"""SQLite: read-only by the mode of the file and by `query_only`; an authorizer refuses what leaves the tables."""

from __future__ import annotations

import sqlite3
from typing import Final
from urllib.parse import quote

from ahvn_tools.builtins.database.session import DatabaseSession
from ahvn_tools.builtins.database.statement import (
    READ_ONLY,
    SEVERAL_STATEMENTS,
    InvalidStatementError,
    NotAllowedError,
    NotReadOnlyError,
    Parameters,
    StatementLimits,
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


_HAS_TABLE_LIST: Final = sqlite3.sqlite_version_info >= (3, 37)
_PARTS: Final = "SELECT name FROM pragma_table_list WHERE type = 'shadow'" if _HAS_TABLE_LIST else "SELECT NULL WHERE 0"
"""The parts of virtual tables."""


class SQLiteSession(DatabaseSession):
    """One connection, in a process of its own: SQLite interrupts no function, and one of them may run for minutes."""

    errors = (sqlite3.Error, OverflowError, UnicodeError)
    TABLES = f"""
        SELECT NULL, name, type FROM sqlite_master WHERE type IN ('table', 'view')
        AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT IN ({_PARTS}) ORDER BY name
    """  # noqa: S608  # constants
    COLUMNS = """
        SELECT name, coalesce(nullif(type, ''), 'any'), NOT "notnull", dflt_value
        FROM pragma_table_xinfo(?2) WHERE hidden != 1 AND ?1 IS NULL
    """
    KEYS = """
        SELECT 'PRIMARY KEY (' || group_concat(name, ', ') || ')'
        FROM (SELECT name FROM pragma_table_info(?2) WHERE pk ORDER BY pk) HAVING count(*) AND ?1 IS NULL
        UNION ALL
        SELECT 'FOREIGN KEY (' || group_concat("from", ', ') || ') REFERENCES ' || "table"
               || coalesce(' (' || group_concat("to", ', ') || ')', '')
        FROM (SELECT * FROM pragma_foreign_key_list(?2) ORDER BY id, seq) GROUP BY id
        UNION ALL
        SELECT iif("unique", 'UNIQUE INDEX (', 'INDEX (') || (
            SELECT group_concat(coalesce(name, '(expression)'), ', ') FROM pragma_index_info(indexes.name)) || ')'
        FROM (SELECT * FROM pragma_index_list(?2) WHERE origin != 'pk' ORDER BY name) AS indexes
    """

    def __init__(self, target: str, limits: StatementLimits, *, may_write: bool) -> None:
        """Open the file, then limit what the statement may do. Nothing is written unless it may be."""
        self._denied: set[int] = set()
        self._lock_timeout = min(limits.lock_timeout(), _MAX_WAIT)
        url = f"file:{quote(target)}?mode={'rwc' if may_write else 'ro'}"
        try:
            connection = sqlite3.connect(
                url, uri=True, timeout=self._lock_timeout, isolation_level=None, cached_statements=0
            )
        except sqlite3.Error:
            raise ToolError("The database file cannot be opened.") from None
        super().__init__(connection, limits, may_write=may_write)
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        connection.execute(f"PRAGMA query_only = {'OFF' if may_write else 'ON'}")
        connection.execute(f"PRAGMA hard_heap_limit = {limits.memory_bytes}")
        self.fetch("SELECT 1 FROM sqlite_master LIMIT 1")  # before the limit of columns
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        connection.set_authorizer(self._authorize)

    def execute(self, query: str, parameters: Parameters) -> sqlite3.Cursor:
        """Execute the statement; SQLite knows both placeholders."""
        self._denied.clear()
        cursor: sqlite3.Cursor = self._connection.execute(query, parameters or ())
        return cursor

    def explain(self, error: Exception) -> ToolError:
        """Return SQLite's message for the model."""
        if not isinstance(error, sqlite3.Error):
            return ToolError(f"SQLite cannot take the query or a parameter: {type(error).__name__}.")
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
        if code & 0xFF == sqlite3.SQLITE_READONLY:
            return NotReadOnlyError(READ_ONLY)
        if self._denied:
            kind = next((name for action, name in _KINDS.items() if action in self._denied), "This statement")
            detail = "" if message == "not authorized" else f": {message}"
            return NotAllowedError(f"{kind} is not allowed here{detail}.")
        if code & 0xFF == sqlite3.SQLITE_BUSY:
            return lock_error(self._lock_timeout)
        if "You can only execute one statement" in message:
            return ToolError(SEVERAL_STATEMENTS)
        if "string or blob too big" in message:
            return ToolError("The statement makes a value that is too large for SQLite. Make it shorter.")
        return InvalidStatementError(f"SQLite refuses the statement: {message[:1000]}")

    def _authorize(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        """Deny what is neither a read nor a change of a table; whether it may change one, the file decides."""
        if action == sqlite3.SQLITE_FUNCTION:
            is_allowed = (second or "").lower() not in _REFUSED_FUNCTIONS
        elif action == sqlite3.SQLITE_PRAGMA:
            name = (first or "").lower()
            is_allowed = name in _PRAGMAS or (name in _PRAGMAS_WITHOUT_ARGUMENT and second is None)
        else:
            is_allowed = action not in _KINDS
        if is_allowed:
            return sqlite3.SQLITE_OK
        self._denied.add(action)
        return sqlite3.SQLITE_DENY
