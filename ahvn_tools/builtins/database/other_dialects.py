"""Every other database that SQLAlchemy has a dialect for. Nothing limits what a statement may do there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from ahvn_tools.builtins.database.session import DatabaseSession, Table, number_placeholders
from ahvn_tools.builtins.database.statement import Parameters, StatementLimits, UnreachableError
from ahvn_tools.errors import ToolError
from ahvn_tools.json_types import JsonObject

_MARK: Final = re.compile("\0(\\d+)\0")


class OtherSession(DatabaseSession):
    """One connection with one transaction, in a process of its own, which has a limit of memory."""

    errors = (SQLAlchemyError,)

    def __init__(self, target: str, limits: StatementLimits, *, may_write: bool) -> None:
        """Connect, and begin the transaction."""
        try:
            connection = sqlalchemy.create_engine(target, poolclass=sqlalchemy.NullPool).connect()
        except (SQLAlchemyError, ImportError) as error:
            raise UnreachableError("The database cannot be reached.", explanation=_text_of(error)) from None
        super().__init__(connection, limits, may_write=may_write)

    def execute(self, query: str, parameters: Parameters) -> sqlalchemy.CursorResult[Any]:
        """Execute the statement."""
        result: sqlalchemy.CursorResult[Any]
        if not parameters:
            options = {"no_parameters": True, "stream_results": True}
            result = self._connection.exec_driver_sql(query, execution_options=options)
            return result
        numbered, values = number_placeholders(query, parameters, form="\0{}\0")
        query = _MARK.sub(r":p\1", numbered.replace(":", r"\:"))  # SQLAlchemy sees no other colon
        named = {f"p{number}": value for number, value in enumerate(values, 1)}
        options = {"stream_results": True}
        result = self._connection.execute(sqlalchemy.text(query), named, execution_options=options)
        return result

    def names(self, cursor: sqlalchemy.CursorResult[Any]) -> list[str]:
        """Return the columns of a result."""
        return [*cursor.keys()] if cursor.returns_rows else []

    def commit(self) -> None:
        """Keep what the statement has changed."""
        self._connection.commit()

    def explain(self, error: Exception) -> ToolError:
        """Return the message of the driver for the model."""
        return ToolError(f"The database refuses the statement: {_text_of(error)[:1000]}")

    def tables(self) -> Sequence[Table]:
        """Return the tables and views of the default schema."""
        inspector = sqlalchemy.inspect(self._connection)
        kinds = (("table", inspector.get_table_names()), ("view", inspector.get_view_names()))
        return sorted(((None, name, kind) for kind, names in kinds for name in names), key=lambda row: row[1])

    def columns(self, schema: str | None, table: str) -> list[JsonObject]:
        """Return the columns."""
        return [
            {
                "name": column["name"],
                "type": str(column["type"]),
                "nullable": bool(column["nullable"]),
                "default": column.get("default"),
            }
            for column in sqlalchemy.inspect(self._connection).get_columns(table, schema)
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
        return str(self._connection.dialect.identifier_preparer.quote_identifier(name))


def _text_of(error: BaseException) -> str:
    """Return the driver's own message, without the statement and its parameters."""
    return str(error.orig if isinstance(error, DBAPIError) else error)
