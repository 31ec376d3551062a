"""What a database has: its tables, and the columns, keys, row count and first rows of one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ahvn_tools.builtins.database.cells import plain_cell
from ahvn_tools.builtins.database.statement import InvalidStatementError, Rows, Session, Statement
from ahvn_tools.builtins.database.table import render_rows
from ahvn_tools.errors import ToolError, near_misses
from ahvn_tools.json_types import JsonObject

MAX_TABLES: Final = 100
"""Tables that a list shows."""
MAX_COLUMNS: Final = 200
"""Columns that a description shows …"""
MAX_LISTED_COLUMNS: Final = 20
"""… and a list, for each table."""
MAX_COUNTED_ROWS: Final = 100_000
"""Rows of a table that are counted."""
SAMPLE_ROWS: Final = 3
MAX_SAMPLE_COLUMNS: Final = 30
_MAX_NAME: Final = 200


def describe(session: Session) -> JsonObject:
    """Return the tables and views, with the columns of each."""
    tables = session.tables()
    listed = [_listed(session, *table) for table in tables[:MAX_TABLES]]
    return {"tables": listed, "table_count": len(tables)}


def _listed(session: Session, schema: str | None, table: str, kind: str) -> JsonObject:
    """Return what a list shows of a table: without columns if it cannot be read, such as a view of a deleted table."""
    try:
        columns = [_shown(column["name"]) for column in session.columns(schema, table)]
        rows = _count_rows(session, schema, table) if kind == "table" else None
    except InvalidStatementError:
        columns, rows = [], None
    return {"name": _name(schema, table), "kind": kind, "columns": columns, "rows": rows}


def describe_table(session: Session, name: str) -> JsonObject:
    """Return columns, keys, row count and first rows of one table or view."""
    tables = {_name(schema, table): (schema, table, kind) for schema, table, kind in session.tables()}
    found = tables.get(name) or _without_case(tables, name)
    if found is None:
        raise ToolError(f"There is no table {name[:_MAX_NAME]!r}. {near_misses(name, tables)}")
    schema, table, kind = found
    found_columns = session.columns(schema, table)
    sample = _sample(session, schema, table, [column["name"] for column in found_columns])
    columns = [
        {key: _shown(value) if isinstance(value, str) else value for key, value in column.items()}
        for column in found_columns
    ]
    return {
        "name": _name(schema, table),
        "kind": kind,
        "columns": columns[:MAX_COLUMNS],
        "column_count": len(columns),
        "keys": [_shown(key) for key in session.keys(schema, table)[:MAX_COLUMNS]],
        "rows": _count_rows(session, schema, table),
        "sample": {"columns": list(sample.columns), "rows": [*sample.first, *sample.last]},
    }


def _sample(session: Session, schema: str | None, table: str, columns: Sequence[str]) -> Rows:
    """Return the first rows, of some columns."""
    names = ", ".join(map(session.quote, columns[:MAX_SAMPLE_COLUMNS])) or "*"
    query = f"SELECT {names} FROM {_quoted(session, schema, table)} LIMIT {SAMPLE_ROWS}"  # noqa: S608  # quoted names
    return session.run(Statement(query=query))


def _without_case(tables: Mapping[str, tuple[str | None, str, str]], name: str) -> tuple[str | None, str, str] | None:
    return next((found for known, found in tables.items() if known.lower() == name.lower()), None)


def _name(schema: str | None, table: str) -> str:
    return table if schema is None else f"{schema}.{table}"


def _shown(text: str) -> str:
    return str(plain_cell(text, _MAX_NAME)[0])


def _quoted(session: Session, schema: str | None, table: str) -> str:
    return session.quote(table) if schema is None else f"{session.quote(schema)}.{session.quote(table)}"


def _count_rows(session: Session, schema: str | None, table: str) -> int | None:
    """Return the number of rows, at most `MAX_COUNTED_ROWS` + 1."""
    limited = f"SELECT 1 AS one FROM {_quoted(session, schema, table)} LIMIT {MAX_COUNTED_ROWS + 1}"  # noqa: S608
    rows = session.run(Statement(query=f"SELECT count(*) FROM ({limited}) AS counted"))  # noqa: S608  # a quoted name
    return int(rows.first[0][0])


def render_description(answer: Mapping[str, Any]) -> str:
    """Return a description as text."""
    return _render_table(answer) if "keys" in answer else _render_tables(answer)


def _render_tables(answer: Mapping[str, Any]) -> str:
    lines = [f"{answer['table_count']:,} tables and views."]
    for table in answer["tables"]:
        columns = table["columns"]
        names = ", ".join(columns[:MAX_LISTED_COLUMNS])
        more = f", and {len(columns) - MAX_LISTED_COLUMNS} more" if len(columns) > MAX_LISTED_COLUMNS else ""
        lines.append(
            f"{_one_line(table['name'])} ({table['kind']}{_row_text(table['rows'])}): "
            f"{_one_line(names) or 'it cannot be read'}{more}"
        )
    if answer["table_count"] > MAX_TABLES:
        lines.append(f"{answer['table_count'] - MAX_TABLES:,} more are not listed. Pass the name of one as `table`.")
    lines.append("Pass a name as `table` to see its columns, keys and first rows.")
    return "\n".join(lines)


def _row_text(count: int | None) -> str:
    if count is None:
        return ""
    return (
        f", more than {MAX_COUNTED_ROWS:,} rows"
        if count > MAX_COUNTED_ROWS
        else f", {count:,} {'row' if count == 1 else 'rows'}"
    )


def _render_table(answer: Mapping[str, Any]) -> str:
    lines = [f"{_one_line(answer['name'])} ({answer['kind']}{_row_text(answer['rows'])})", "Columns:"]
    for column in answer["columns"]:
        required = "" if column["nullable"] else " NOT NULL"
        default = "" if column["default"] is None else f" DEFAULT {column['default']}"
        lines.append(_one_line(f"  {column['name']} {column['type']}{required}{default}"))
    if answer["column_count"] > MAX_COLUMNS:
        lines.append(f"  {answer['column_count'] - MAX_COLUMNS:,} more columns are not listed.")
    lines += ["Keys:", *(_one_line(f"  {key}") for key in answer["keys"])] if answer["keys"] else []
    sample = answer["sample"]
    if sample["rows"]:
        rows = Rows(columns=sample["columns"], first=sample["rows"], row_count=len(sample["rows"]))
        lines += ["First rows:", render_rows(rows).rsplit("\n", 1)[0]]
    return "\n".join(lines)


def _one_line(text: str) -> str:
    """Return a text from the database in one line, so that it cannot look like another table or column."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
