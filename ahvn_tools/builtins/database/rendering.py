"""The answers of a database as texts for a model: rows, and descriptions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ahvn_tools.builtins.database.session import MAX_COLUMNS, MAX_COUNTED_ROWS, MAX_TABLES
from ahvn_tools.builtins.database.statement import Rows, RowWindow, StatementLimits

NO_ROWS: Final = "Query executed successfully. But no rows returned."
MAX_CHARS: Final = 40_000
"""Characters of a text; of a longer table, rows in the middle are omitted."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL_IN_TEXT: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SEPARATOR: Final = " | "
_LONG_TEXT: Final = 200
"""A single row with a longer text is shown with a line for each column."""
MAX_LISTED_COLUMNS: Final = 20
"""Columns of a table in a list of tables."""
_NAMES: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def fit_rows(rows: Rows) -> Rows:
    """Return fewer rows where the table of all of them would be longer than `MAX_CHARS`."""
    shown = [rows.columns, *rows.first, *rows.last]
    line = sum(max(map(_length, column)) for column in zip(*shown, strict=True))
    count = max(1, MAX_CHARS // max(line, 1) - 4)
    if count >= len(shown) - 1:
        return rows
    kept = shown[1:]
    return replace(rows, first=kept[: count - count // 2], last=kept[len(kept) - count // 2 :])


def _length(value: Any) -> int:
    return len(_cell_text(value)) + len(_SEPARATOR)


def render_rows(rows: Rows) -> str:
    """Return the rows as a text table, or a single row as lines, with what was left out and how to read it."""
    if not rows.row_count:
        return _without_rows(rows)
    body = _record(rows) if rows.row_count == 1 and rows.has_cut_values | _is_long(rows) else _table(rows)
    total = f"More than {rows.row_count:,}" if rows.has_more else f"{rows.row_count:,}"
    lines = [body[:MAX_CHARS], f"{total} {'row' if total == '1' else 'rows'} in total."]
    if len(body) > MAX_CHARS:
        lines.append("The text is cut here. Select fewer columns.")
    if rows.omitted or rows.has_more:
        lines.append("Use LIMIT and OFFSET, WHERE or an aggregate to read other rows.")
    if rows.has_cut_values:
        lines.append(
            "Values are cut at …: select a single row, or substr(column, start, length), to read more of them."
        )
    return "\n".join(lines)


def render_records(records: Sequence[Mapping[str, Any]], *, max_rows: int, max_width: int) -> str:
    """Return rows that a program has read from its own database as `exec_sql` shows them."""
    limits = StatementLimits(
        max_rows=max_rows, max_width=max_width, timeout=0, memory_bytes=0
    )  # a window uses the first two
    window = RowWindow([*records[0]] if records else [], limits)
    for record in records:
        window.add([*record.values()])
    return render_rows(fit_rows(window.finish()))


def _without_rows(rows: Rows) -> str:
    if rows.columns:
        return f"{NO_ROWS}\nColumns: {', '.join(map(_cell_text, rows.columns))}"
    if rows.changed is None:
        return NO_ROWS
    return f"{NO_ROWS}\n{rows.changed:,} {'row' if rows.changed == 1 else 'rows'} changed."


def _is_long(rows: Rows) -> bool:
    return any(isinstance(value, str) and len(value) > _LONG_TEXT for value in rows.first[0])


def _record(rows: Rows) -> str:
    """Return one row with a line for each column; texts keep their line ends."""
    pairs = zip(rows.columns, rows.first[0], strict=True)
    return "\n".join(f"{_cell_text(name)}: {_plain_text(value)}" for name, value in pairs)


def _table(rows: Rows) -> str:
    head, tail = ([[*map(_cell_text, row)] for row in part] for part in (rows.first, rows.last))
    names = [*map(_cell_text, rows.columns)]
    widths = [max(map(len, column)) for column in zip(names, *head, *tail, strict=True)]
    lines = [_line(names, widths), _line(["-" * width for width in widths], widths)]
    lines += [_line(row, widths) for row in head]
    if count := rows.omitted:
        lines.append(f"... ({count:,} {'row' if count == 1 else 'rows'} omitted)")
    return "\n".join([*lines, *(_line(row, widths) for row in tail)])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _SEPARATOR.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _cell_text(value: Any) -> str:
    """Return a value as text in one line."""
    return _CONTROL.sub(_escape, _value_text(value)).replace(_SEPARATOR, r" \| ")


def _plain_text(value: Any) -> str:
    return _CONTROL_IN_TEXT.sub(_escape, _value_text(value))


def _value_text(value: Any) -> str:
    if value is None:
        return "NULL"
    if value is True or value is False:
        return "true" if value else "false"
    return str(value)


def _escape(match: re.Match[str]) -> str:
    sign = match.group()
    return _NAMES.get(sign) or (f"\\x{ord(sign):02x}" if sign < "\u0100" else f"\\u{ord(sign):04x}")


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
