"""DuckDB: read-only by its access mode, without access to other files, and with a locked configuration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

from ahvn_tools.builtins.database.cells import plain_cell
from ahvn_tools.builtins.database.memory_limit import limit_memory
from ahvn_tools.builtins.database.placeholders import number_placeholders
from ahvn_tools.builtins.database.statement import (
    InvalidStatementError,
    Limits,
    NotAllowedError,
    NotReadOnlyError,
    Rows,
    RowWindow,
    Statement,
)
from ahvn_tools.errors import ToolError

_READS: Final = {"SELECT", "EXPLAIN"}
_WRITES: Final = {
    "INSERT",
    "UPDATE",
    "DELETE",
    "MERGE_INTO",
    "CREATE",
    "CREATE_FUNC",
    "DROP",
    "ALTER",
    "ANALYZE",
    "VACUUM",
}

_CONFIGURATION: Final[dict[str, str | bool | int | float | list[str]]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "temp_directory": "",
    "allow_persistent_secrets": "false",
    "home_directory": "/nonexistent",  # these names are shown in settings and errors
    "secret_directory": "/nonexistent",
    "threads": "2",
    "lock_configuration": "true",
}


class DuckDBSession:
    """One connection, in a process of its own: many of DuckDB's functions cannot be interrupted or limited."""

    def __init__(self, path: Path, limits: Limits, *, may_write: bool) -> None:
        """Open the file, then limit the memory of this process."""
        self._limits = limits
        self._may_write = may_write
        configuration = {**_CONFIGURATION, "memory_limit": f"{limits.max_memory // 2}B"}
        try:
            self._connection = duckdb.connect(path, read_only=not may_write, config=configuration)
        except duckdb.Error as error:
            raise _opening_error(error) from None
        limit_memory(limits.max_memory)

    def run(self, statement: Statement) -> Rows:
        """Run the statement of a model."""
        query, values = number_placeholders(statement.query, statement.parameters)
        try:
            self._require_one(query)
            cursor = self._connection.execute(query, values or None)
            return self._read(cursor)
        except (duckdb.Error, RuntimeError) as error:
            raise _refusal(error) from None
        except MemoryError:
            raise ToolError("The statement needs too much memory. Read fewer rows, or shorter values.") from None

    def _require_one(self, query: str) -> None:
        """Raise ToolError unless DuckDB finds one statement, of a kind that may run here."""
        statements = self._connection.extract_statements(query)
        if len(statements) != 1:
            count = "no statement" if not statements else "several statements"
            raise ToolError(f"The query has {count}. Pass one statement at a time.")
        kind = statements[0].type.name
        if kind in _READS:
            return
        if kind not in _WRITES:
            raise NotAllowedError(f"{kind} statements are not allowed here.")
        if not self._may_write:
            raise NotReadOnlyError("This database is read-only here: only statements that read may run.")

    def _read(self, cursor: Any) -> Rows:
        names = [plain_cell(column[0], self._limits.max_width)[0] for column in cursor.description or ()]
        window = RowWindow(names, self._limits)
        while batch := cursor.fetchmany(200):
            if not all(window.add(row) for row in batch):
                break
        return window.finish()

    def fetch(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a short query of our own."""
        try:
            return list(self._connection.execute(query, list(parameters) or None).fetchall())
        except duckdb.Error as error:
            raise _refusal(error) from None

    def tables(self) -> list[tuple[str | None, str, str]]:
        """Return the tables and views of the file."""
        return self.fetch(
            "SELECT nullif(table_schema, 'main'), table_name, CASE table_type WHEN 'VIEW' THEN 'view' ELSE 'table' END "
            "FROM information_schema.tables WHERE table_catalog = current_database() ORDER BY 1 NULLS FIRST, 2"
        )

    def columns(self, schema: str | None, table: str) -> list[dict[str, Any]]:
        """Return the columns."""
        rows = self.fetch(
            "SELECT column_name, data_type, is_nullable, column_default FROM duckdb_columns() "
            "WHERE database_name = current_database() AND schema_name = ? AND table_name = ? ORDER BY column_index",
            [schema or "main", table],
        )
        return [dict(zip(("name", "type", "nullable", "default"), row, strict=True)) for row in rows]

    def keys(self, schema: str | None, table: str) -> list[str]:
        """Return the keys and unique constraints."""
        rows = self.fetch(
            "SELECT DISTINCT constraint_text FROM duckdb_constraints() WHERE database_name = current_database() "
            "AND schema_name = ? AND table_name = ? AND constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY', 'UNIQUE') "
            "ORDER BY 1",
            [schema or "main", table],
        )
        return [text for (text,) in rows]

    def quote(self, name: str) -> str:
        """Return a name as SQL."""
        return '"' + name.replace('"', '""') + '"'

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _opening_error(error: duckdb.Error) -> ToolError:
    if "lock" in str(error).lower():
        return ToolError(
            "Another process has the database open: one that writes, or any if this statement writes. Try again later."
        )
    return ToolError("The database file cannot be opened.")


def _refusal(error: Exception) -> ToolError:
    """Return DuckDB's message for the model."""
    text = str(error).split("\n\nPossible solutions", 1)[0].split("\n\nLINE ", 1)[0]
    if "read-only mode" in text:
        return NotReadOnlyError("This database is read-only here: only statements that read may run.")
    if "Out of Memory" in text:
        return ToolError("The statement needs too much memory. Read fewer rows, or shorter values.")
    return InvalidStatementError(f"DuckDB refuses the statement: {text[:1000]}")
