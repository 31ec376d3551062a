"""PostgreSQL: read-only by a read-only transaction, a cursor, and a role without rights outside of the database.

A cursor takes nothing but a query that returns rows, so COPY, DO, SET, COMMIT and the like are syntax errors. The
extended protocol takes one statement. The transaction has a snapshot before the statement of the model begins, so
nothing in it can become read-write, and it is rolled back at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import psycopg
from psycopg import pq

from ahvn_tools.builtins.database.memory_limit import limit_memory
from ahvn_tools.builtins.database.placeholders import number_placeholders
from ahvn_tools.builtins.database.statement import (
    Limits,
    NotReadOnlyError,
    Rows,
    RowWindow,
    Statement,
    UnreachableError,
    lock_error,
    timeout_error,
)
from ahvn_tools.errors import ToolError

_IS_PRIVILEGED: Final = """
    SELECT EXISTS (SELECT FROM pg_roles WHERE pg_has_role(session_user, oid, 'MEMBER') AND (
        rolsuper OR rolreplication OR rolname IN (
            'pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program')))
"""
_TABLES: Final = """
    SELECT nullif(n.nspname, 'public'), c.relname, CASE WHEN c.relkind IN ('v', 'm') THEN 'view' ELSE 'table' END
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND n.nspname !~ '^pg_' AND n.nspname != 'information_schema'
    AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') ORDER BY 1 NULLS FIRST, 2
"""
_COLUMNS: Final = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_KEYS: Final = """
    SELECT pg_get_constraintdef(oid) FROM pg_constraint
    WHERE conrelid = $1::regclass AND contype IN ('p', 'f', 'u') ORDER BY contype DESC, conname
"""
_CONVERTERS: Final[dict[int, Callable[[str], Any]]] = {
    16: lambda text: text == "t",
    20: int,
    21: int,
    23: int,
    26: int,
    700: float,
    701: float,
}
"""By the id of a type. Every other value is a text in PostgreSQL's own form, which exists also for a date such as
`infinity`."""

_WRITE_STATES: Final = {"25006", "42601", "0A000"}
"""A write in a read-only transaction; what a cursor does not take."""
_TIMEOUT_STATE: Final = "57014"
_LOCK_STATE: Final = "55P03"
_MAX_MILLISECONDS: Final = 2**31 - 1
_CONNECTION_CHECK_VERSION: Final = 140000
_BATCH: Final = 200
"""Rows that are fetched at once."""


class PostgreSQLSession:
    """One connection with one transaction, in a process of its own, which has a limit of memory."""

    def __init__(self, url: str, limits: Limits, *, may_write: bool) -> None:
        """Connect, and begin the transaction."""
        self._limits = limits
        self._may_write = may_write
        try:
            self._connection = psycopg.connect(
                url, autocommit=True, connect_timeout=max(2, int(limits.timeout)), client_encoding="utf8"
            )
        except psycopg.Error as error:
            raise UnreachableError("The database cannot be reached.", explanation=str(error)) from None
        limit_memory(limits.max_memory)
        self._lock_timeout = limits.lock_timeout()
        self._send("BEGIN" if may_write else "BEGIN READ ONLY")
        for setting, value in self._settings():
            self._send("SELECT set_config($1, $2, true)", [setting, value])
        if not may_write:
            self._refuse_privileged()

    def _settings(self) -> Iterator[tuple[str, str]]:
        for setting, seconds in (("statement_timeout", self._limits.timeout), ("lock_timeout", self._lock_timeout)):
            yield setting, str(min(max(1, int(seconds * 1000)), _MAX_MILLISECONDS))
        yield "max_parallel_workers_per_gather", "0"
        if self._connection.info.server_version >= _CONNECTION_CHECK_VERSION:
            yield (
                "client_connection_check_interval",
                "1000",
            )  # the server ends the statement of a client that was killed

    def _refuse_privileged(self) -> None:
        """Raise ToolError for a role whose queries can read and write files, or run programs, in any transaction."""
        if self.fetch(_IS_PRIVILEGED)[0][0]:
            raise NotReadOnlyError(
                "The database cannot be used: its host must connect with another role.",
                explanation="PostgreSQL cannot make a superuser, or a member of pg_read_server_files, "
                "pg_write_server_files or pg_execute_server_program, read-only. Connect with a role that has none of "
                "these rights, or pass read_only=False.",
            )

    def run(self, statement: Statement) -> Rows:
        """Run the statement of a model."""
        query, values = number_placeholders(statement.query, statement.parameters)
        if self._may_write:
            result = self._send(query, values)
            window = self._add_rows(result, None)
            self._send("COMMIT")
            changed = result.command_tuples
            return window.finish(changed=changed if changed is not None and not result.nfields else None)
        self._check_syntax(query)
        self._send(f"DECLARE result NO SCROLL CURSOR FOR {query}", values)
        return self._read()

    def _check_syntax(self, query: str) -> None:
        """Raise ToolError for a mistake in the query, before it is part of the statement for a cursor."""
        result = self._connection.pgconn.prepare(b"", _encode(query))
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise self._refusal(result, is_write=False)

    def _read(self) -> Rows:
        window: RowWindow | None = None
        while True:
            result = self._send(f"FETCH FORWARD {_BATCH if window else 2} FROM result")
            count = result.ntuples
            window = self._add_rows(result, window)
            if not count or window.is_full:
                self._send("CLOSE result")
                return window.finish()

    def _add_rows(self, result: pq.abc.PGresult, window: RowWindow | None) -> RowWindow:
        names = [_decode(result.fname(index)) for index in range(result.nfields)]
        window = window or RowWindow(names, self._limits)
        for row in _rows(result):
            if not window.add(row):
                break
        return window

    def fetch(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a short query of our own."""
        return list(_rows(self._send(query, parameters)))

    def _send(self, query: str, parameters: Sequence[Any] = ()) -> pq.abc.PGresult:
        """Send one statement with the extended protocol, which takes no second one."""
        values = [None if value is None else _encode(_parameter(value)) for value in parameters]
        result = self._connection.pgconn.exec_params(_encode(query), values)
        if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
            raise self._refusal(result)
        return result

    def _refusal(self, result: pq.abc.PGresult, *, is_write: bool = True) -> ToolError:
        """Return PostgreSQL's message for the model."""
        state = _field(result, pq.DiagnosticField.SQLSTATE)
        message = _field(result, pq.DiagnosticField.MESSAGE_PRIMARY) or _decode(result.error_message)
        if state == _TIMEOUT_STATE:
            return timeout_error(self._limits.timeout)
        if state == _LOCK_STATE:
            return lock_error(self._lock_timeout)
        if "memory" in message and not state:
            return ToolError("The result needs too much memory. Read fewer rows, or shorter values.")
        if "multiple commands" in message:
            return ToolError("The query has several statements. Pass one statement at a time.")
        if not self._may_write and is_write and state in _WRITE_STATES:
            return NotReadOnlyError(
                "This database is read-only here: only SELECT, VALUES, TABLE and WITH queries without changes may run."
            )
        hint = _field(result, pq.DiagnosticField.MESSAGE_HINT)
        return ToolError(f"PostgreSQL refuses the statement: {message[:1000]}{f' ({hint[:500]})' if hint else ''}")

    def tables(self) -> list[tuple[str | None, str, str]]:
        """Return the tables and views that the role may read."""
        return [(schema, name, kind) for schema, name, kind in self.fetch(_TABLES)]

    def columns(self, schema: str | None, table: str) -> list[dict[str, Any]]:
        """Return the columns."""
        rows = self.fetch(_COLUMNS, [self._qualified(schema, table)])
        return [dict(zip(("name", "type", "nullable", "default"), row, strict=True)) for row in rows]

    def keys(self, schema: str | None, table: str) -> list[str]:
        """Return the keys and unique constraints."""
        return [text for (text,) in self.fetch(_KEYS, [self._qualified(schema, table)])]

    def _qualified(self, schema: str | None, table: str) -> str:
        return f"{self.quote(schema or 'public')}.{self.quote(table)}"

    def quote(self, name: str) -> str:
        """Return a name as SQL."""
        return '"' + name.replace('"', '""') + '"'

    def close(self) -> None:
        """Close the connection, which rolls back what was not committed."""
        self._connection.close()


def _rows(result: pq.abc.PGresult) -> Iterator[tuple[Any, ...]]:
    converters = [_CONVERTERS.get(result.ftype(index), str) for index in range(result.nfields)]
    for row in range(result.ntuples):
        values = (result.get_value(row, column) for column in range(result.nfields))
        yield tuple(
            None if value is None else convert(_decode(value))
            for value, convert in zip(values, converters, strict=True)
        )


def _parameter(value: Any) -> str:
    if value is True or value is False:
        return "true" if value else "false"
    return str(value)


def _encode(text: str) -> bytes:
    if "\0" in text:
        raise ToolError("PostgreSQL has no texts with NUL characters. Remove them.")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolError("The text has a character that UTF-8 cannot encode. Remove it.") from None


def _decode(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


def _field(result: pq.abc.PGresult, field: pq.DiagnosticField) -> str:
    return _decode(result.error_field(field))
