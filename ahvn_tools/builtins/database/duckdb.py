"""DuckDB: read-only by its access mode, without access to other files, and with a locked configuration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import duckdb

from ahvn_tools.builtins.database.session import DatabaseSession, number_placeholders
from ahvn_tools.builtins.database.statement import (
    READ_ONLY,
    SEVERAL_STATEMENTS,
    TOO_MUCH_MEMORY,
    InvalidStatementError,
    NotAllowedError,
    NotReadOnlyError,
    Parameters,
    StatementLimits,
)
from ahvn_tools.errors import ToolError

_READS: Final = {"SELECT", "EXPLAIN"}
_WRITES: Final = {
    *("INSERT", "UPDATE", "DELETE", "MERGE_INTO", "CREATE", "CREATE_FUNC", "DROP", "ALTER", "ANALYZE", "VACUUM"),
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


class DuckDBSession(DatabaseSession):
    """One connection, in a process of its own: many of DuckDB's functions cannot be interrupted or limited."""

    errors = (duckdb.Error, RuntimeError)
    TABLES = """
        SELECT nullif(table_schema, 'main'), table_name, CASE table_type WHEN 'VIEW' THEN 'view' ELSE 'table' END
        FROM information_schema.tables WHERE table_catalog = current_database() ORDER BY 1 NULLS FIRST, 2
    """
    COLUMNS = """
        SELECT column_name, data_type, is_nullable, column_default FROM duckdb_columns()
        WHERE database_name = current_database() AND schema_name = coalesce($1, 'main') AND table_name = $2
        ORDER BY column_index
    """
    KEYS = """
        SELECT DISTINCT constraint_text FROM duckdb_constraints()
        WHERE database_name = current_database() AND schema_name = coalesce($1, 'main') AND table_name = $2
        AND constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY', 'UNIQUE') ORDER BY 1
    """

    def __init__(self, target: str, limits: StatementLimits, *, may_write: bool) -> None:
        """Open the file."""
        configuration = {**_CONFIGURATION, "memory_limit": f"{limits.memory_bytes // 2}B"}
        try:
            connection = duckdb.connect(target, read_only=not may_write, config=configuration)
        except duckdb.Error as error:
            raise _opening_error(error) from None
        super().__init__(connection, limits, may_write=may_write)

    def execute(self, query: str, parameters: Parameters) -> Any:
        """Execute the statement if it is one, of a kind that may run here."""
        query, values = number_placeholders(query, parameters)
        self._require_one(query)
        return self._connection.execute(query, values or None)

    def _require_one(self, query: str) -> None:
        statements = self._connection.extract_statements(query)
        if len(statements) != 1:
            raise ToolError(
                SEVERAL_STATEMENTS if statements else "The query has no statement. Pass one statement at a time."
            )
        kind = statements[0].type.name
        if kind in _READS:
            return
        if kind not in _WRITES:
            raise NotAllowedError(f"{kind} statements are not allowed here.")
        if not self._may_write:
            raise NotReadOnlyError(READ_ONLY)

    def rows(self, cursor: Any) -> Iterator[Any]:
        """Read the rows in batches."""
        while batch := cursor.fetchmany(200):
            yield from batch

    def explain(self, error: Exception) -> ToolError:
        """Return DuckDB's message for the model."""
        text = str(error).split("\n\nPossible solutions", 1)[0].split("\n\nLINE ", 1)[0]
        if "read-only mode" in text:
            return NotReadOnlyError(READ_ONLY)
        if "Out of Memory" in text:
            return ToolError(TOO_MUCH_MEMORY)
        return InvalidStatementError(f"DuckDB refuses the statement: {text[:1000]}")


def _opening_error(error: duckdb.Error) -> ToolError:
    if "lock" in str(error).lower():
        return ToolError(
            "Another process has the database open: one that writes, or any if this statement writes. Try again later."
        )
    return ToolError("The database file cannot be opened.")
