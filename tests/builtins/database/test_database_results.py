"""What a model reads of a result: the table, what is left out, and how it says so."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from ahvn_tools.builtins import Database
from ahvn_tools.errors import InvalidParametersError, ToolError


def numbers(count: int) -> str:
    """Return a query for the numbers from 1."""
    return f"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT {count}) SELECT x FROM n"


def test_table(sqlite_file: Path, run_query) -> None:
    result = run_query(Database(sqlite_file), "SELECT id, name, NULL AS origin FROM teas ORDER BY id")
    assert result.text == (
        "id | name   | origin\n-- | ------ | ------\n1  | sencha | NULL\n2  | assam  | NULL\n2 rows in total."
    )
    assert result.structured_content == {
        "columns": ["id", "name", "origin"],
        "rows": [[1, "sencha", None], [2, "assam", None]],
        "row_count": 2,
        "truncated": False,
    }


def test_fetch_returns_all_rows_or_none(sqlite_file: Path) -> None:
    database = Database(sqlite_file, max_rows=2, max_width=5)
    assert database.fetch("SELECT id, price FROM teas WHERE id > :low", {"low": 1}) == [{"id": 2, "price": 3}]
    assert database.fetch("SELECT id FROM teas WHERE id > ?", [2]) == []
    for query in (numbers(3), "SELECT 'a' UNION ALL SELECT 'abcdef'"):
        with pytest.raises(ToolError, match=r"more than 2 rows, or a value of more than 5 characters"):
            database.fetch(query)


def test_middle_rows_are_omitted(sqlite_file: Path, run_query) -> None:
    result = run_query(Database(sqlite_file, max_rows=5), numbers(100))
    assert result.text.splitlines()[2:] == [
        *("1", "2", "3", "... (95 rows omitted)", "99", "100", "100 rows in total."),
        "Use LIMIT and OFFSET, WHERE or an aggregate to read other rows.",
    ]
    assert result.structured_content["rows"] == [[1], [2], [3], [99], [100]]
    assert result.structured_content["row_count"] == 100
    assert result.structured_content["truncated"]


@pytest.mark.parametrize("count", [1, 3, 6])
@pytest.mark.parametrize("max_rows", [1, 2, 5])
@pytest.mark.exhaustive
def test_first_and_last_rows_are_complete(sqlite_file: Path, run_query, count: int, max_rows: int) -> None:
    rows = run_query(Database(sqlite_file, max_rows=max_rows), numbers(count)).structured_content["rows"]
    expected = [[n] for n in range(1, count + 1)]
    if count > max_rows:
        expected = expected[: max_rows - max_rows // 2] + expected[count - max_rows // 2 :]
    assert rows == expected


def test_long_values_are_cut_and_can_be_read(sqlite_file: Path, run_query) -> None:
    """In several rows a value is cut; a single row shows more of it."""
    query = "SELECT hex(zeroblob(500)) AS zeros UNION ALL SELECT 'b'"
    result = run_query(Database(sqlite_file, max_width=10), query)
    assert "0000000000… (1,000 characters)" in result.text
    assert "select a single row, or substr(column, start, length)" in result.text
    assert result.structured_content["truncated"]
    single = run_query(Database(sqlite_file, max_width=10), "SELECT 1 AS n, hex(zeroblob(500)) AS zeros")
    assert single.text == f"n: 1\nzeros: {'0' * 1000}\n1 row in total."
    assert not single.structured_content["truncated"]
    longer = run_query(Database(sqlite_file), "SELECT hex(zeroblob(50000)) AS zeros")
    assert len(longer.text) < 11_000
    assert "(100,000 characters)" in longer.text


def test_text_has_a_limit(sqlite_file: Path, run_query) -> None:
    columns = ", ".join(f"hex(zeroblob(30)) AS c{n}" for n in range(100))
    result = run_query(Database(sqlite_file), f"WITH n AS ({numbers(64)}) SELECT {columns} FROM n")
    assert len(result.text) < 100_000
    assert "rows omitted" in result.text
    single = run_query(Database(sqlite_file), f"SELECT {columns.replace('30', '4000')}")
    assert len(single.text) < 41_000
    assert "Select fewer columns" in single.text


def test_no_rows(sqlite_file: Path, run_query) -> None:
    result = run_query(Database(sqlite_file), "SELECT id, name FROM teas WHERE 0")
    assert result.text == "Query executed successfully. But no rows returned.\nColumns: id, name"
    assert result.structured_content["rows"] == []


@pytest.mark.parametrize(
    ("expression", "value", "text"),
    [
        ("x'00ff'", "0x00ff", "0x00ff"),
        ("1e999", "Infinity", "Infinity"),
        ("-1e999", "-Infinity", "-Infinity"),
        ("9223372036854775807", 9223372036854775807, "9223372036854775807"),
        ("'a' || char(0) || 'b'", "a\0b", r"a\x00b"),
        ("'a' || char(10) || '1 | 2'", "a\n1 | 2", r"a\n1 \| 2"),
        ("char(27) || '[31m'", "\x1b[31m", r"\x1b[31m"),
        ("CAST(x'ff61' AS TEXT)", "\N{REPLACEMENT CHARACTER}a", "\N{REPLACEMENT CHARACTER}a"),
        ("'NULL'", "NULL", "NULL"),
        ("0.1", 0.1, "0.1"),
    ],
)
@pytest.mark.default_cases(3)
def test_any_value_has_a_text(sqlite_file: Path, run_query, expression: str, value, text: str) -> None:
    result = run_query(Database(sqlite_file), f"SELECT {expression} AS v UNION ALL SELECT {expression}")
    assert result.structured_content["rows"] == [[value], [value]]
    assert result.text.splitlines()[2] == text


def test_columns_of_the_same_name_are_separate(sqlite_file: Path, run_query) -> None:
    result = run_query(Database(sqlite_file), "SELECT 1 AS a, 2 AS a, 3 AS [a | b]")
    assert result.structured_content["columns"] == ["a", "a", "a | b"]
    assert result.structured_content["rows"] == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "The query is empty"),
        (" \n", "The query is empty"),
        ("SELEC 1", 'near "SELEC": syntax error'),
        ("SELECT * FROM absent", "no such table: absent. `db_info` lists the tables."),
        ("SELECT 1; SELECT 2", "Pass one statement at a time"),
        ("SELECT 1\0", "NUL character"),
        ("SELECT '\ud800'", "UTF-8 cannot encode"),
        ("SELECT " + "1," * 60_000 + "1", "longer than 100,000 characters"),
        ("SELECT :a", "SQLite refuses the statement"),
        ("SELECT ?", "SQLite refuses the statement"),
        ("SELECT " + "(" * 500 + "1" + ")" * 500, "SQLite refuses the statement"),
    ],
    ids=range(11),
)
@pytest.mark.default_cases(4)
def test_error_says_what_is_wrong(sqlite_file: Path, run_query, query: str, message: str) -> None:
    result = run_query(Database(sqlite_file), query)
    assert result.is_error
    assert message in result.text


@pytest.mark.parametrize(
    ("query", "parameters", "rows"),
    [
        ("SELECT :a, :b, :c, :d", {"a": "x", "b": 1, "c": None, "d": 1.5}, [["x", 1, None, 1.5]]),
        ("SELECT ?, ?", ["x", True], [["x", 1]]),
        ("SELECT :a", {"a": "'; DROP TABLE t; --", "b' OR 1=1": "unused", "": 1, "ü": 2}, [["'; DROP TABLE t; --"]]),
        ("SELECT ':a', name FROM teas WHERE id = :a", {"a": 1}, [[":a", "sencha"]]),
    ],
)
def test_parameters_are_bound(sqlite_file: Path, run_query, query: str, parameters, rows) -> None:
    assert run_query(Database(sqlite_file), query, parameters).structured_content["rows"] == rows


@pytest.mark.parametrize("parameters", [{"a": [1]}, {"a": {"b": 1}}, "text", 7])
def test_parameters_are_plain_values(sqlite_file: Path, parameters) -> None:
    with pytest.raises(InvalidParametersError):
        Database(sqlite_file).toolspec("exec_sql")(query="SELECT :a", parameters=parameters)


def test_integer_that_is_too_large_is_an_error(sqlite_file: Path, run_query) -> None:
    assert "cannot take" in run_query(Database(sqlite_file), "SELECT :a", {"a": 2**70}).text


def test_db_info_lists_tables(sqlite_file: Path) -> None:
    result = Database(sqlite_file).toolspec("db_info").exec()
    assert result.text.splitlines() == [
        "4 tables and views.",
        "cheap (view): name",
        "cups (table, 3 rows): tea, size",
        "notes (table, 1 row): body",
        "teas (table, 2 rows): id, name, price",
        "Pass a name as `table` to see its columns, keys and first rows.",
    ]


def test_db_info_describes_a_table(sqlite_file: Path) -> None:
    tool = Database(sqlite_file).toolspec("db_info")
    assert tool.exec(table="teas").text.splitlines() == [
        *("teas (table, 2 rows)", "Columns:", "  id INTEGER", "  name TEXT NOT NULL"),
        *("  price DECIMAL(6, 2) DEFAULT 1", "Keys:", "  PRIMARY KEY (id)", "  UNIQUE INDEX (name)", "First rows:"),
        *("id | name   | price", "-- | ------ | -----", "1  | sencha | 2.5", "2  | assam  | 3"),
    ]
    assert "FOREIGN KEY (tea) REFERENCES teas (id)" in tool.exec(table="CUPS").text
    assert tool.exec(table="tea").text == "There is no table 'tea'. Did you mean 'teas'?"


@pytest.mark.parametrize("name", ['a"b', "a]b", "a'b", "select", "a b; DROP TABLE teas", "sqli\nte", "-- x", "ü"])
@pytest.mark.default_cases(2)
def test_db_info_describes_tables_of_any_name(sqlite_file: Path, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    with contextlib.closing(sqlite3.connect(sqlite_file)) as connection, connection:
        connection.execute(f"CREATE TABLE {quoted} ({quoted} INTEGER PRIMARY KEY)")
    result = Database(sqlite_file).toolspec("db_info").exec(table=name)
    assert result.structured_content["columns"][0]["name"] == name
    assert "\n" not in result.text.splitlines()[0]


def test_db_info_says_what_it_does_not_show(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "many.db")) as connection, connection:
        connection.execute("BEGIN")
        for number in range(150):
            connection.execute(f"CREATE TABLE t{number:03} ({', '.join(f'c{n}' for n in range(30))})")
        connection.execute(f"CREATE TABLE a AS {numbers(100_500)}")
    text = Database(tmp_path / "many.db").toolspec("db_info").exec().text
    assert "151 tables and views." in text
    assert "51 more are not listed." in text
    assert "c19, and 10 more" in text
    assert "a (table, more than 100,000 rows): x" in text
