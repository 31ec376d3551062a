"""The tools of a database."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ahvn_tools.builtins.approval import Action, Approval, Approve
from ahvn_tools.builtins.database.results import fit_rows, render_description, render_rows
from ahvn_tools.builtins.database.statement import (
    Limits,
    NotAllowedError,
    NotReadOnlyError,
    Request,
    Rows,
    UnreachableError,
)
from ahvn_tools.builtins.database.target import DISPLAY_NAMES, DatabaseConnection, Target, Url
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import DefinitionError, ToolError, suggests_options
from ahvn_tools.registry import ToolRegistry, reg_toolspec
from ahvn_tools.results import ToolResult
from ahvn_tools.spec import ToolSpec

Value = str | int | float | bool | None
"""The value of a parameter."""

MAX_QUERY_CHARS: Final = 100_000
_PACKAGES: Final = {
    "sqlite": ("sqlite3", ""),
    "duckdb": ("duckdb", "pip install duckdb"),
    "postgresql": ("psycopg", 'pip install "psycopg[binary]"'),
    "other": ("sqlalchemy", 'pip install "ahvn-tools[sql]"'),
}
"""The package of each engine, and how to install it."""
_WRITES: Final = {"readOnlyHint": False, "destructiveHint": True}


class Database(ToolRegistry):
    """Tools that query one database: SQLite, DuckDB, PostgreSQL, or any other that SQLAlchemy knows.

    >>> import contextlib, sqlite3, tempfile
    >>> from ahvn_tools.builtins import Database
    >>> path = tempfile.mkdtemp() + "/teas.db"
    >>> with contextlib.closing(sqlite3.connect(path)) as db:
    ...     _ = db.execute("CREATE TABLE teas AS SELECT 'sencha' AS name, 2 AS price")
    >>> query = Database(path).toolspec("exec_sql")
    >>> print(query(query="SELECT name FROM teas WHERE price = :price", parameters={"price": 2}))
    name
    ------
    sencha
    1 row in total.
    """

    @suggests_options
    def __init__(
        self,
        url: Url,
        *,
        read_only: bool = True,
        approve: Approve = "risky",
        max_rows: int = 64,
        max_width: int = 64,
        timeout: float = 30.0,
        memory_bytes: int = 512_000_000,
    ) -> None:
        """Raise DefinitionError for a database that cannot be read-only, and for one that does not exist.

        `url` is a URL (`sqlite:///path`, `duckdb:///path`, `postgresql://user:password@host/name`, or one of
        SQLAlchemy), the path of a SQLite file, or of a DuckDB file that ends in .duckdb or .ddb, or a function that
        returns one of them. `approve` is for statements that are no reads: each of them is risky. `max_rows` and
        `max_width` limit what a model reads: rows, and characters of a value. `timeout` is in seconds, for one call.
        `memory_bytes` is in bytes, for the process of a statement.
        """
        self.read_only = read_only
        self.approval = Approval(approve)
        self.limits = Limits(max_rows=max_rows, max_width=max_width, timeout=timeout, memory_bytes=memory_bytes)
        if min(max_rows, max_width, timeout, memory_bytes) <= 0:
            raise DefinitionError("`max_rows`, `max_width`, `timeout` and `memory_bytes` must be above 0.")
        self._connection = DatabaseConnection(url)
        if not callable(url):
            _check_target(self._connection.target, read_only=read_only)

    @reg_toolspec(annotations={"readOnlyHint": True, "openWorldHint": False}, tags={"database", "read"})
    def exec_sql(
        self, query: str, context: ToolContext, parameters: dict[str, Value] | list[Value] | None = None
    ) -> ToolResult:
        """Run one SQL statement and return the rows as a table.

        Long results are shortened: use LIMIT, WHERE or an aggregate.

        Args:
            query: One statement, with `:name` or `?` in the place of each value.
            parameters: The values: an object for `:name`, a list for `?`.
        """
        rows = fit_rows(self._rows(query, parameters, context))
        structured = {
            "columns": list(rows.columns),
            "rows": [*rows.first, *rows.last],
            "row_count": None if rows.has_more else rows.row_count,
            "truncated": bool(rows.omitted or rows.has_more or rows.has_cut_values),
        }
        return ToolResult(render_rows(rows), structured)

    @reg_toolspec(annotations={"readOnlyHint": True, "openWorldHint": False}, tags={"database", "read"})
    def db_info(self, context: ToolContext, table: str | None = None) -> ToolResult:
        """List the tables and views of the database, or describe one: columns, keys, row count and first rows.

        Args:
            table: The name of a table or view. Without it, all are listed.
        """
        if table is not None:
            _require_utf8(table)
        self._target()
        answer = self._connection.perform(Request(limits=self.limits, table=table), context)
        return ToolResult(render_description(answer), dict(answer))

    def _rows(self, query: str, parameters: Mapping[str, Value] | list[Value] | None, context: ToolContext) -> Rows:
        """Run a statement; say which ones run here if the database never runs this one."""
        request = Request(limits=self.limits, query=_checked_query(query), parameters=_checked_parameters(parameters))
        try:
            return Rows(**self._read_or_write(request, context))
        except NotAllowedError as error:
            runs = "read tables" if self.read_only else "read or write tables"
            raise ToolError(f"{error.message} Use statements that {runs}.") from None

    def _read_or_write(self, request: Request, context: ToolContext) -> dict[str, Any]:
        """Read; if the database says that the statement is no read and writing is allowed, ask, and write."""
        target = self._target()
        if target.engine != "other" and target.exists:
            try:
                return dict(self._connection.perform(request, context))
            except NotReadOnlyError:
                if self.read_only:
                    raise
        self.approval.require(context, _write_action(request, target))
        return dict(self._connection.perform(replace(request, may_write=True), context))

    def _target(self) -> Target:
        """Return the target of this call: a function may return another URL, and a file may be gone."""
        try:
            return _check_target(self._connection.target, read_only=self.read_only)
        except DefinitionError as error:
            raise UnreachableError("The database cannot be reached.", explanation=str(error)) from None

    def to_toolspecs(self) -> dict[str, ToolSpec]:
        """Return the tools; `exec_sql` says whether it may write."""
        specs = super().to_toolspecs()
        if not self.read_only and "exec_sql" in specs:
            specs["exec_sql"] = specs["exec_sql"].transform(annotations=_WRITES, tags={"database", "write"})
        return specs

    def fetch(self, query: str, parameters: dict[str, Value] | list[Value] | None = None) -> list[dict[str, Any]]:
        """Run one SQL statement for a program, and return its rows by the names of their columns.

        Raises ToolError, also for a result with more than `max_rows` rows or a value of more than `max_width`
        characters (10,000 in a single row): a part of a result is never returned.
        """
        rows = self._rows(query, parameters, ToolContext())
        if rows.omitted or rows.has_more or rows.has_cut_values:
            raise ToolError(
                f"The result has more than {self.limits.max_rows:,} rows, or a value of more than "
                f"{self.limits.max_width:,} characters. Select less, or make the Database with a larger `max_rows` and "
                "`max_width`."
            )
        return [dict(zip(rows.columns, row, strict=True)) for row in (*rows.first, *rows.last)]

    def close(self) -> None:
        """Delete the database of `sqlite://`."""
        self._connection.close()

    def __repr__(self) -> str:
        return f"<Database{', read-only' if self.read_only else ''}>"


def _check_target(target: Target, *, read_only: bool) -> Target:
    if read_only and target.engine == "other":
        raise DefinitionError(
            "Only SQLite, DuckDB and PostgreSQL can be read-only here. Pass read_only=False, and connect with an "
            "account that can only read."
        )
    if not target.location and (read_only or target.engine == "duckdb"):
        raise DefinitionError(
            "A database without a path is empty. Pass a file; 'sqlite://' also works with read_only=False."
        )
    if read_only and target.is_file and not Path(target.location).is_file():
        raise DefinitionError("There is no database at this path. Pass the path of a file, or read_only=False.")
    if importlib.util.find_spec(_PACKAGES[target.engine][0]) is None:
        package, command = _PACKAGES[target.engine]
        raise DefinitionError(f"This database needs the package {package}: {command}")
    return target


def _write_action(request: Request, target: Target) -> Action:
    parameters = request.parameters
    return Action(
        kind="write",
        text=f"Run on the {DISPLAY_NAMES[target.engine]} database: {(request.query or '')[:2000]}",
        is_risky=True,
        details={
            "query": request.query,
            "parameters": dict(parameters) if isinstance(parameters, Mapping) else list(parameters or ()),
        },
    )


def _checked_query(query: str) -> str:
    """Return the query. Raises ToolError for one that no database takes."""
    if not query.strip():
        raise ToolError("The query is empty. Pass one SQL statement.")
    if len(query) > MAX_QUERY_CHARS:
        raise ToolError(f"The query is longer than {MAX_QUERY_CHARS:,} characters. Make it shorter.")
    _require_utf8(query)
    return query


def _checked_parameters(
    parameters: Mapping[str, Value] | list[Value] | None,
) -> Mapping[str, Value] | list[Value] | None:
    values = parameters.values() if isinstance(parameters, Mapping) else parameters or ()
    for text in (*(parameters if isinstance(parameters, Mapping) else ()), *values):
        if isinstance(text, str):
            _require_utf8(text)
    return parameters


def _require_utf8(text: str) -> None:
    """Raise ToolError for a text with a NUL or a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ToolError("The text has a character that UTF-8 cannot encode. Remove it.") from None
    if "\0" in text:
        raise ToolError("The text has a NUL character. Remove it.")
