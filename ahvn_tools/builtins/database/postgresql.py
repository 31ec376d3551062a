"""PostgreSQL: read-only by a read-only transaction, a cursor, and a role without rights outside of the database.

A cursor takes nothing but a query that returns rows, so COPY, DO, SET, COMMIT and the like are syntax errors. The
extended protocol takes one statement. The transaction has a snapshot before the statement of the model begins, so
nothing in it can become read-write, and it is rolled back at the end.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.pq import ExecStatus

from ahvn_tools.builtins.database.session import DatabaseSession, number_placeholders
from ahvn_tools.builtins.database.statement import (
    SEVERAL_STATEMENTS,
    NotReadOnlyError,
    Parameters,
    StatementLimits,
    UnreachableError,
    lock_error,
    statement_timeout_error,
)
from ahvn_tools.errors import ToolError

_IS_PRIVILEGED: Final = """
    SELECT EXISTS (SELECT FROM pg_roles WHERE pg_has_role(session_user, oid, 'MEMBER') AND (
        rolsuper OR rolreplication OR rolname IN (
            'pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program')))
"""
_SET_UP: Final = """
    SELECT set_config(name, value, true) FROM pg_settings JOIN (VALUES
        ('statement_timeout', $1), ('lock_timeout', $2), ('max_parallel_workers_per_gather', '0'),
        ('client_connection_check_interval', '1000')) AS wanted (name, value) USING (name)
"""
"""The last one, which is new in PostgreSQL 14, ends the statement of a client that was killed."""
_TABLE: Final = "format('%I.%I', coalesce($1::text, 'public'), $2::text)::regclass"
_NUMBERS: Final = {16, 20, 21, 23, 26, 700, 701}
"""The ids of the types bool, int8, int2, int4, oid, float4 and float8."""
_WRITE_STATES: Final = {"25006", "42601", "0A000"}
"""A write in a read-only transaction; what a cursor does not take."""
_TIMEOUT_STATE: Final = "57014"
_LOCK_STATE: Final = "55P03"
_MAX_MILLISECONDS: Final = 2**31 - 1


class _TextLoader(Loader):
    """Reads a value in PostgreSQL's own form, which exists also for a date such as `infinity`."""

    def load(self, data: Buffer) -> str:
        return bytes(data).decode("utf-8", "replace")


class PostgreSQLSession(DatabaseSession):
    """One connection with one transaction, in a process of its own, which has a limit of memory."""

    errors = (psycopg.Error,)
    TABLES = """
        SELECT nullif(n.nspname, 'public'), c.relname, CASE WHEN c.relkind IN ('v', 'm') THEN 'view' ELSE 'table' END
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND n.nspname !~ '^pg_' AND n.nspname != 'information_schema'
        AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') ORDER BY 1 NULLS FIRST, 2
    """
    COLUMNS = f"""
        SELECT a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
        FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE a.attrelid = {_TABLE} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
    """  # noqa: S608  # constants
    KEYS = f"""
        SELECT pg_get_constraintdef(oid) FROM pg_constraint
        WHERE conrelid = {_TABLE} AND contype IN ('p', 'f', 'u') ORDER BY contype DESC, conname
    """  # noqa: S608  # constants

    def __init__(self, target: str, limits: StatementLimits, *, may_write: bool) -> None:
        """Connect, and begin the transaction."""
        try:
            connection = psycopg.connect(
                target,
                connect_timeout=max(2, int(limits.timeout)),
                client_encoding="utf8",
                cursor_factory=psycopg.RawCursor[Any],
            )
        except psycopg.Error as error:
            raise UnreachableError("The database cannot be reached.", explanation=str(error)) from None
        super().__init__(connection, limits, may_write=may_write)
        self._is_checked = False
        """Whether the statement has no mistake, so that a refusal is about what it does."""
        connection.read_only = not may_write
        for number in {number for kind in connection.adapters.types for number in (kind.oid, kind.array_oid)}:
            if number not in _NUMBERS:
                connection.adapters.register_loader(number, _TextLoader)
        self._lock_timeout = limits.lock_timeout()
        milliseconds = [max(1, int(seconds * 1000)) for seconds in (limits.timeout, self._lock_timeout)]
        self.fetch(_SET_UP, [str(min(number, _MAX_MILLISECONDS)) for number in milliseconds])
        if not may_write and self.fetch(_IS_PRIVILEGED)[0][0]:
            raise NotReadOnlyError(
                "The database cannot be used: its host must connect with another role.",
                explanation="PostgreSQL cannot make a superuser, or a member of pg_read_server_files, "
                "pg_write_server_files or pg_execute_server_program, read-only. Connect with a role that has none of "
                "these rights, or pass read_only=False.",
            )

    def execute(self, query: str, parameters: Parameters) -> Any:
        """Execute one statement. A read-only one must be a query that a cursor takes."""
        query, values = number_placeholders(query, parameters)
        self._require_one(query)
        if self._may_write:
            return self._connection.execute(query, [*map(_parameter, values)])
        return psycopg.RawServerCursor(self._connection, "result", scrollable=False).execute(
            query, [*map(_parameter, values)]
        )

    def _require_one(self, query: str) -> None:
        """Raise ToolError for several statements, and for a mistake, before the query is part of another statement."""
        result = self._connection.pgconn.prepare(b"", query.encode())
        if result.status != ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(result, "utf-8")
        self._is_checked = True

    def commit(self) -> None:
        """Keep what the statement has changed, if it may change anything."""
        if self._may_write:
            self._connection.commit()

    def explain(self, error: psycopg.Error) -> ToolError:
        """Return PostgreSQL's message for the model."""
        state, message = error.sqlstate, error.diag.message_primary or str(error)
        if state == _TIMEOUT_STATE:
            return statement_timeout_error(self._limits.timeout)
        if state == _LOCK_STATE:
            return lock_error(self._lock_timeout)
        if not state and (
            "memory" in message or "received 2 results" in message
        ):  # psycopg's word for an end of memory
            return ToolError("The result needs too much memory. Read fewer rows, or shorter values.")
        if "multiple commands" in message:
            return ToolError(SEVERAL_STATEMENTS)
        if self._is_checked and not self._may_write and state in _WRITE_STATES:
            return NotReadOnlyError(
                "This database is read-only here: only SELECT, VALUES, TABLE and WITH queries without changes may run."
            )
        hint = error.diag.message_hint
        return ToolError(f"PostgreSQL refuses the statement: {message[:1000]}{f' ({hint[:500]})' if hint else ''}")


def _parameter(value: Any) -> str | None:
    """Return a value as a text, whose type PostgreSQL finds by its place."""
    if value is None or value is True or value is False:
        return None if value is None else str(value).lower()
    return str(value)
