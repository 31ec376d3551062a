"""DatabaseSession: a connection to a database for one call, and what it says of the tables."""

from __future__ import annotations

import contextlib
import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, Final

from ahvn_tools.builtins.database.statement import (
    InvalidStatementError,
    Parameters,
    Rows,
    RowWindow,
    StatementLimits,
    StatementRequest,
    plain_cell,
)
from ahvn_tools.errors import ToolError, near_misses
from ahvn_tools.json_types import JsonObject

MAX_TABLES: Final = 100
"""Tables that a list shows."""
MAX_COLUMNS: Final = 200
"""Columns that a description shows."""
MAX_COUNTED_ROWS: Final = 100_000
"""Rows of a table that are counted."""
SAMPLE_ROWS: Final = 3
MAX_SAMPLE_COLUMNS: Final = 30
_MAX_NAME: Final = 200
_MISSING_TABLE: Final = re.compile(
    r"no such table|(relation|table) .*does(n't| not) exist|invalid object name|unknown table", re.IGNORECASE
)

Table = tuple[str | None, str, str]
"""Schema, name and kind ("table" or "view")."""


class DatabaseSession(ABC):
    """One connection, in a process of its own."""

    errors: ClassVar[tuple[type[Exception], ...]]
    """What the driver raises."""
    TABLES: ClassVar[str] = ""
    """A query for schema, name and kind of each table."""
    COLUMNS: ClassVar[str] = ""
    """A query with a schema and a table, for name, type, nullable and default of each column."""
    KEYS: ClassVar[str] = ""
    """A query with a schema and a table, for its keys and unique indexes as SQL."""

    def __init__(self, connection: Any, limits: StatementLimits, *, may_write: bool) -> None:
        """`connection` is that of the driver."""
        self._connection = connection
        self._limits = limits
        self._may_write = may_write

    @abstractmethod
    def explain(self, error: Any) -> ToolError:
        """Return the message of the database for the model."""

    @abstractmethod
    def execute(self, query: str, parameters: Parameters) -> Any:
        """Execute the statement of a model, and return its cursor."""

    def names(self, cursor: Any) -> list[str]:
        """Return the columns of a result; there are none if the statement returns no rows."""
        return [column[0] for column in cursor.description or ()]

    def rows(self, cursor: Any) -> Iterable[Sequence[Any]]:
        """Read the rows one by one."""
        rows: Iterable[Sequence[Any]] = cursor
        return rows

    def commit(self) -> None:  # noqa: B027  # a driver may do it by itself
        """Keep what a statement has changed. By default, the driver does it."""

    def close(self) -> None:
        """Close the connection, which rolls back what was not committed."""
        self._connection.close()

    def perform(self, request: StatementRequest) -> JsonObject:
        """Return the answer: that of `Rows`, or a description."""
        if request.query is not None:
            return asdict(self.run(request.query, request.parameters))
        return self._describe() if request.table is None else self._describe_table(request.table)

    def run(self, query: str, parameters: Parameters = None) -> Rows:
        """Run one statement. Raises ToolError with the text of the database."""
        with self._explained_errors():
            cursor = self.execute(query, parameters)
            names = self.names(cursor)
            window = RowWindow([plain_cell(name, self._limits.max_width)[0] for name in names], self._limits)
            if names:
                all(map(window.add, self.rows(cursor)))  # until the window is full
            changed = cursor.rowcount if cursor.rowcount >= 0 and not names else None
            cursor.close()
            self.commit()
            return window.finish(changed=changed)

    def fetch(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a short query of our own."""
        with self._explained_errors():
            return list(self._connection.execute(query, parameters).fetchall())

    @contextlib.contextmanager
    def _explained_errors(self) -> Iterator[None]:
        try:
            yield
        except self.errors as error:
            explained = self.explain(error)
            if _MISSING_TABLE.search(explained.message):
                message = f"{explained.message.rstrip('.')}. `db_info` lists the tables."
                raise type(explained)(message) from None
            raise explained from None

    def tables(self) -> Sequence[Table]:
        """Return the tables and views that can be read."""
        return [(schema, name, kind) for schema, name, kind in self.fetch(self.TABLES)]

    def columns(self, schema: str | None, table: str) -> list[JsonObject]:
        """Return name, type, nullable and default of each column."""
        rows = self.fetch(self.COLUMNS, [schema, table])
        return [dict(zip(("name", "type", "nullable", "default"), row, strict=True)) for row in rows]

    def keys(self, schema: str | None, table: str) -> list[str]:
        """Return the keys and unique indexes of a table, as SQL."""
        return [text for (text,) in self.fetch(self.KEYS, [schema, table])]

    def quote(self, name: str) -> str:
        """Return a name as SQL."""
        return '"' + name.replace('"', '""') + '"'

    def _describe(self) -> JsonObject:
        """Return the tables and views, with the columns of each."""
        tables = self.tables()
        return {"tables": [self._listed(*table) for table in tables[:MAX_TABLES]], "table_count": len(tables)}

    def _listed(self, schema: str | None, table: str, kind: str) -> JsonObject:
        """Return what a list shows of a table: no columns if it cannot be read, such as a view of a deleted table."""
        try:
            columns = [_shown(column["name"]) for column in self.columns(schema, table)]
            rows = self._count_rows(schema, table) if kind == "table" else None
        except InvalidStatementError:
            columns, rows = [], None
        return {"name": _name(schema, table), "kind": kind, "columns": columns, "rows": rows}

    def _describe_table(self, name: str) -> JsonObject:
        """Return columns, keys, row count and first rows of one table or view."""
        tables = {_name(schema, table): (schema, table, kind) for schema, table, kind in self.tables()}
        found = tables.get(name) or next((row for known, row in tables.items() if known.lower() == name.lower()), None)
        if found is None:
            raise ToolError(f"There is no table {name[:_MAX_NAME]!r}. {near_misses(name, tables)}")
        schema, table, kind = found
        columns = self.columns(schema, table)
        names = ", ".join(self.quote(column["name"]) for column in columns[:MAX_SAMPLE_COLUMNS]) or "*"
        sample = self.run(f"SELECT {names} FROM {self._quoted(schema, table)} LIMIT {SAMPLE_ROWS}")  # noqa: S608
        return {
            "name": _name(schema, table),
            "kind": kind,
            "columns": [{key: _shown(value) for key, value in column.items()} for column in columns[:MAX_COLUMNS]],
            "column_count": len(columns),
            "keys": [_shown(key) for key in self.keys(schema, table)[:MAX_COLUMNS]],
            "rows": self._count_rows(schema, table),
            "sample": {"columns": list(sample.columns), "rows": [*sample.first, *sample.last]},
        }

    def _quoted(self, schema: str | None, table: str) -> str:
        return self.quote(table) if schema is None else f"{self.quote(schema)}.{self.quote(table)}"

    def _count_rows(self, schema: str | None, table: str) -> int:
        """Return the number of rows, at most `MAX_COUNTED_ROWS` + 1."""
        limited = f"SELECT 1 AS one FROM {self._quoted(schema, table)} LIMIT {MAX_COUNTED_ROWS + 1}"  # noqa: S608
        return int(self.run(f"SELECT count(*) FROM ({limited}) AS counted").first[0][0])  # noqa: S608


def _name(schema: str | None, table: str) -> str:
    return table if schema is None else f"{schema}.{table}"


def _shown(value: Any) -> Any:
    return plain_cell(value, _MAX_NAME)[0] if isinstance(value, str) else value


_TOKEN: Final = re.compile(
    r"""
      [eE]'(?:[^'\\]|\\.|'')*(?:'|\Z) | '(?:[^']|'')*(?:'|\Z) | "(?:[^"]|"")*(?:"|\Z)  # texts and names
      | --[^\n]* | /\*.*?(?:\*/|\Z)                                                      # comments
      | \$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z) | ::                                      # PostgreSQL's texts and casts
      | :(?P<name>[A-Za-z_]\w*)
      | (?P<mark>\?)
    """,
    re.VERBOSE | re.DOTALL,
)


def number_placeholders(query: str, parameters: Parameters, *, form: str = "${}") -> tuple[str, list[Any]]:
    """Return the query with `$1`, `$2` and so on in the place of `:name` or `?`, and their values in this order.

    `form` is another form than `${}`. Without parameters the query stays as it is. Raises ToolError if a `?` has no
    value. This finds placeholders only: whether a query is one statement, and what it may do, the database decides.
    """
    if not parameters:
        return query, []
    marks = itertools.count(1)
    used: dict[str, int] = {}

    def replace(match: re.Match[str]) -> str:
        if isinstance(parameters, Mapping):
            name = match["name"]
            return form.format(used.setdefault(name, len(used) + 1)) if name in parameters else match.group()
        if match["mark"] is None:
            return match.group()
        if (number := next(marks)) > len(parameters):
            raise ToolError(f"The query has more than {len(parameters)} `?`. Pass one value for each.")
        return form.format(number)

    query = _TOKEN.sub(replace, query)
    return query, [parameters[name] for name in used] if isinstance(parameters, Mapping) else list(parameters)
