"""Every other database that SQLAlchemy has a dialect for. Nothing limits what a statement may do there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, cast

import sqlalchemy
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from ahvn_tools.builtins.database.memory_limit import limit_memory
from ahvn_tools.builtins.database.placeholders import number_placeholders
from ahvn_tools.builtins.database.statement import Limits, Rows, RowWindow, Statement, UnreachableError
from ahvn_tools.errors import ToolError

_MARK: Final = re.compile("\0(\\d+)\0")


class OtherSession:
    """One connection with one transaction, in a process of its own, which has a limit of memory."""

    def __init__(self, url: str, limits: Limits) -> None:
        """Connect, and begin the transaction."""
        self._limits = limits
        try:
            self._engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
            self._connection = self._engine.connect()
        except (SQLAlchemyError, ImportError, ArgumentError, NoSuchModuleError) as error:
            raise UnreachableError("The database cannot be reached.", explanation=_text_of(error)) from None
        limit_memory(limits.max_memory)

    def run(self, statement: Statement) -> Rows:
        """Run the statement of a model, and commit it."""
        try:
            result = self._execute(statement)
            window = self._read(result)
            changed = None if result.returns_rows or result.rowcount < 0 else result.rowcount
            self._connection.commit()
            return window.finish(changed=changed)
        except SQLAlchemyError as error:
            raise ToolError(f"The database refuses the statement: {_text_of(error)[:1000]}") from None

    def _execute(self, statement: Statement) -> sqlalchemy.CursorResult[Any]:
        if not statement.parameters:
            options = {"no_parameters": True, "stream_results": True}
            return self._connection.exec_driver_sql(statement.query, execution_options=options)
        numbered, values = number_placeholders(statement.query, statement.parameters, form="\0{}\0")
        query = _MARK.sub(r":p\1", numbered.replace(":", r"\:"))  # SQLAlchemy sees no other colon
        named = {f"p{number}": value for number, value in enumerate(values, 1)}
        return self._connection.execute(sqlalchemy.text(query), named, execution_options={"stream_results": True})

    def _read(self, result: sqlalchemy.CursorResult[Any]) -> RowWindow:
        if not result.returns_rows:
            return RowWindow((), self._limits)
        window = RowWindow([*result.keys()], self._limits)
        while batch := result.fetchmany(200):
            if not all(window.add(tuple(row)) for row in batch):
                break
        return window

    def fetch(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a short query of our own, which has no parameters."""
        assert not parameters  # noqa: S101  # none of our queries for these databases has any
        return [tuple(row) for row in self._connection.exec_driver_sql(query)]

    def tables(self) -> list[tuple[str | None, str, str]]:
        """Return the tables and views of the default schema."""
        inspector = sqlalchemy.inspect(self._connection)
        tables = [(None, name, "table") for name in inspector.get_table_names()]
        return sorted([*tables, *((None, name, "view") for name in inspector.get_view_names())], key=lambda row: row[1])

    def columns(self, schema: str | None, table: str) -> list[dict[str, Any]]:
        """Return the columns."""
        columns = sqlalchemy.inspect(self._connection).get_columns(table, schema)
        return [
            {
                "name": column["name"],
                "type": str(column["type"]),
                "nullable": bool(column["nullable"]),
                "default": column.get("default"),
            }
            for column in columns
        ]

    def keys(self, schema: str | None, table: str) -> list[str]:
        """Return the primary key and the foreign keys."""
        inspector = sqlalchemy.inspect(self._connection)
        primary = inspector.get_pk_constraint(table, schema)["constrained_columns"]
        keys = [f"PRIMARY KEY ({', '.join(primary)})"] if primary else []
        for key in inspector.get_foreign_keys(table, schema):
            target = f"{key['referred_table']} ({', '.join(key['referred_columns'])})"
            keys.append(f"FOREIGN KEY ({', '.join(key['constrained_columns'])}) REFERENCES {target}")
        return keys

    def quote(self, name: str) -> str:
        """Return a name as SQL."""
        return str(cast("Any", self._engine.dialect).identifier_preparer.quote_identifier(name))

    def close(self) -> None:
        """Close the connection, which rolls back what was not committed."""
        self._connection.close()


def _text_of(error: BaseException) -> str:
    """Return the driver's own message, without the statement and its parameters."""
    return str(error.orig if isinstance(error, DBAPIError) else error)
