"""SQLite through the tools of Database: what read-only refuses, and the limits."""

from __future__ import annotations

import contextlib
import resource
import sqlite3
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import psutil
import pytest

from ahvn_tools import Toolkit, execution
from ahvn_tools.builtins import Database

NOT_READS = {
    "insert": "INSERT INTO teas VALUES (9, 'x', 1)",
    "delete": "DELETE FROM teas",
    "returning": "DELETE FROM teas RETURNING *",
    "create table": "CREATE TABLE x (a)",
    "create temporary table": "CREATE TEMP TABLE x (a)",
    "create virtual table": "CREATE VIRTUAL TABLE x USING fts5(a)",
    "drop": "DROP TABLE teas",
    "analyze": "ANALYZE",
    "vacuum": "VACUUM",
    "vacuum into a file": "VACUUM INTO '{folder}/copy.db'",
    "attach a file": "ATTACH '{folder}/other.db' AS other",
    "begin": "BEGIN",
    "savepoint": "SAVEPOINT x",
    "query_only off": "PRAGMA query_only = OFF",
    "writable schema": "PRAGMA writable_schema = ON",
    "journal mode": "PRAGMA journal_mode = WAL",
    "temporary directory": "PRAGMA temp_store_directory = '{folder}'",
    "the path of the file": "PRAGMA database_list",
    "the path of the file as a table": "SELECT file FROM pragma_database_list",
    "the schema table": "UPDATE sqlite_master SET sql = 'x'",
    "load an extension": "SELECT load_extension('{folder}/x.so')",
    "read a file": "SELECT readfile('/etc/passwd')",
    "write a file": "SELECT writefile('{folder}/x', 'x')",
    "a full text command": "INSERT INTO notes (notes) VALUES ('optimize')",
    "a shadow table": "DELETE FROM notes_data",
    "two statements": "SELECT 1; DELETE FROM teas",
    "a second statement after a comment": "SELECT 1 /* ; */; -- x\nDROP TABLE teas",
}


_TYPICAL = {
    "insert",
    "create temporary table",
    "vacuum into a file",
    "attach a file",
    "query_only off",
    "begin",
    "the path of the file",
    "the schema table",
    "load an extension",
    "a full text command",
    "two statements",
}


@pytest.mark.parametrize(
    "name", [name if name in _TYPICAL else pytest.param(name, marks=pytest.mark.exhaustive) for name in NOT_READS]
)
@pytest.mark.default_cases(4)
def test_read_only_refuses(sqlite_file: Path, run_query, name: str) -> None:
    before = sqlite_file.read_bytes()
    result = run_query(Database(sqlite_file), NOT_READS[name].format(folder=sqlite_file.parent))
    assert result.is_error
    assert str(sqlite_file.parent) not in result.text.replace(NOT_READS[name], "")
    assert sqlite_file.read_bytes() == before
    assert [path.name for path in sqlite_file.parent.iterdir()] == ["teas.db"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM teas",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 9) SELECT sum(x) FROM n",
        "EXPLAIN QUERY PLAN SELECT * FROM teas",
        "PRAGMA table_info(teas)",
        "SELECT name FROM pragma_table_info('teas')",
        "VALUES (1), (2)",
        "SELECT body FROM notes WHERE notes MATCH 'hot'",
        "SELECT name FROM cheap",
        "SELECT '; DELETE FROM teas; --'",
        "-- a comment\nSELECT 1;",
    ],
)
@pytest.mark.default_cases(4)
def test_read_only_allows_reads(sqlite_file: Path, run_query, query: str) -> None:
    assert not run_query(Database(sqlite_file), query).is_error


def test_write_of_another_connection_is_seen(sqlite_file: Path, run_query) -> None:
    database = Database(sqlite_file)
    with contextlib.closing(sqlite3.connect(sqlite_file)) as connection, connection:
        connection.execute("INSERT INTO teas VALUES (3, 'oolong', 4)")
    assert run_query(database, "SELECT count(*) FROM teas").structured_content["rows"] == [[3]]


ENDLESS = {
    "recursion": "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n",
    "endless rows": "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n WHERE x < 0",
    "a product": "WITH n(x) AS (VALUES "
    + ",".join(["(1)"] * 90)
    + ") SELECT count(*) FROM n a, n b, n c, n d, n e, n f",
    "a sort": "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n ORDER BY -x",
}


@pytest.mark.parametrize(
    "name", ["recursion", *(pytest.param(n, marks=pytest.mark.exhaustive) for n in [*ENDLESS][1:])]
)
def test_time_limit_ends(sqlite_file: Path, run_query, name: str) -> None:
    result = run_query(Database(sqlite_file, timeout=0.3), ENDLESS[name])
    assert "stopped after 0.3 seconds" in result.text


FUNCTIONS = {
    "precision": "printf('%.*c', 2000000000, 'x')",
    "trim": "trim(a, b)",
    "replace": "replace(a, z || '1', '')",
    "like": "a LIKE '%' || substr(z, 1, 40000) || '1'",
}


@pytest.mark.parametrize(
    "name", ["precision", *(pytest.param(n, marks=pytest.mark.exhaustive) for n in [*FUNCTIONS][1:])]
)
def test_no_function_outlives_the_time_limit(sqlite_file: Path, run_query, name: str) -> None:
    """SQLite interrupts no function. Each of these runs for minutes, in many columns and rows."""
    columns = ", ".join(f"{FUNCTIONS[name]} AS c{n}" for n in range(90))
    query = f"""
        WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n),
            va AS MATERIALIZED (SELECT hex(zeroblob(4990000)) AS a),
            vb AS MATERIALIZED (SELECT replace(hex(zeroblob(2400000)), '0', '2') || '0' AS b),
            vz AS MATERIALIZED (SELECT hex(zeroblob(2400000)) AS z)
        SELECT count(*) FROM (SELECT {columns} FROM va, vb, vz, n LIMIT 1000000) WHERE c0 IS NOT c89 || 'x'
    """
    started = time.monotonic()
    result = run_query(Database(sqlite_file, timeout=0.5), query)
    assert "stopped after 0.5 seconds" in result.text
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    "value",
    ["zeroblob(1000000000)", *(pytest.param(f"{v}(900000000)", marks=pytest.mark.exhaustive) for v in ("randomblob",))],
)
def test_value_of_a_gigabyte_is_refused(sqlite_file: Path, run_query, value: str) -> None:
    before = psutil.Process().memory_info().rss
    assert "too much memory" in run_query(Database(sqlite_file), f"SELECT {value}").text
    assert psutil.Process().memory_info().rss - before < 100_000_000


@pytest.mark.parametrize("name", ["teas.db", "text.db"])
def test_nothing_of_a_call_is_left(sqlite_file: Path, run_query, name: str) -> None:
    before = psutil.Process().children(recursive=True)
    (sqlite_file.parent / "text.db").write_text("text " * 1_000)
    for query in ("SELECT 1", "SELEC"):
        run_query(Database(sqlite_file.parent / name), query)
    assert psutil.Process().children(recursive=True) == before


def test_file_that_is_no_sqlite_database_is_an_error(tmp_path: Path, run_query) -> None:
    (tmp_path / "text.db").write_text("text " * 1_000)
    result = run_query(Database(tmp_path / "text.db"), "SELECT 1")
    assert result.text == "The file is no SQLite database."
    assert "'duckdb:///path'" in str(result.exception)


@pytest.mark.exhaustive
def test_change_that_was_killed_is_undone(sqlite_file: Path, run_query) -> None:
    """A read-only database can be read again at once."""
    before = sqlite_file.read_bytes()
    query = (
        "WITH RECURSIVE n(x) AS (SELECT 3 UNION ALL SELECT x + 1 FROM n) "
        "INSERT INTO cups SELECT x, 'x' || hex(zeroblob(1000)) FROM n"
    )
    result = run_query(Database(sqlite_file, read_only=False, approve="never", timeout=1), query)
    assert "stopped after 1 seconds" in result.text
    assert run_query(Database(sqlite_file), "SELECT count(*) FROM cups").structured_content["rows"] == [[3]]
    assert sqlite_file.read_bytes() == before


@pytest.mark.exhaustive
def test_change_of_another_program_that_was_killed_is_undone_by_a_writer(sqlite_file: Path, run_query) -> None:
    code = (
        f"import os, sqlite3; c = sqlite3.connect({str(sqlite_file)!r}, isolation_level=None); "
        "c.execute('BEGIN'); [c.execute('INSERT INTO cups VALUES (1, ?)', ['x' * 9000]) for _ in range(500)]; "
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    count = "SELECT count(*) FROM cups"
    assert "must open it once" in run_query(Database(sqlite_file), count).text
    writer = Database(sqlite_file, read_only=False, approve="never")
    assert run_query(writer, count).structured_content["rows"] == [[3]]
    assert run_query(Database(sqlite_file), count).structured_content["rows"] == [[3]]


def test_large_value_is_readable(sqlite_file: Path, run_query) -> None:
    with contextlib.closing(sqlite3.connect(sqlite_file)) as connection, connection:
        connection.execute("CREATE TABLE pictures AS SELECT zeroblob(5000000) AS data")
    result = run_query(Database(sqlite_file), "SELECT data FROM pictures")
    assert result.structured_content["rows"][0][0].endswith("… (5,000,000 bytes)")


def test_large_value_does_not_hide_its_row(sqlite_file: Path, run_query) -> None:
    with contextlib.closing(sqlite3.connect(sqlite_file)) as connection, connection:
        connection.execute("CREATE TABLE pictures AS SELECT 'cat' AS name, zeroblob(5000000) AS data")
    result = run_query(Database(sqlite_file), "SELECT name, length(data) FROM pictures")
    assert result.structured_content["rows"] == [["cat", 5_000_000]]


@pytest.mark.exhaustive
@pytest.mark.parametrize("count", [300_000, 2_000_000])
def test_many_rows_take_little_memory(sqlite_file: Path, run_query, count: int) -> None:
    """Python's own allocations are measured for some rows, because that is slow, and the process for all."""
    query = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT :count) SELECT x, 'tea' FROM n"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if count < 1_000_000:
        tracemalloc.start()
    try:
        result = run_query(Database(sqlite_file, timeout=250), query, {"count": count})
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
    assert f"{count:,} rows in total." in result.text
    assert result.structured_content["rows"][-1] == [count, "tea"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@pytest.mark.exhaustive
def test_rows_beyond_the_limit_are_not_read(sqlite_file: Path, run_query) -> None:
    query = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
    result = run_query(Database(sqlite_file, timeout=250), query)
    assert "More than 10,000,000 rows in total." in result.text
    assert result.structured_content["row_count"] is None


def test_cancellation_ends_a_query(sqlite_file: Path) -> None:
    """The call ends soon after it is cancelled, and so does the query in its thread."""
    kit = Toolkit("teas").add(Database(sqlite_file, timeout=100))
    result = kit.exec("exec_sql", {"query": ENDLESS["recursion"]}, timeout=0.3)
    assert result.error.code == "timeout"
    end = time.monotonic() + 60
    while execution.abandoned():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("lock", "read_only", "query"),
    [
        ("EXCLUSIVE", True, "SELECT 1 FROM teas"),
        pytest.param("IMMEDIATE", False, "DELETE FROM teas", marks=pytest.mark.exhaustive),
        pytest.param("EXCLUSIVE", True, None, marks=pytest.mark.exhaustive),
        pytest.param("EXCLUSIVE", False, "DELETE FROM teas", marks=pytest.mark.exhaustive),
    ],
)
def test_a_lock_that_stays_is_named(sqlite_file: Path, lock: str, query: str | None, *, read_only: bool) -> None:
    """The model learns that it must wait, and not that its statement is too expensive."""
    kit = Toolkit("db").add(Database(sqlite_file, read_only=read_only, approve="never", timeout=8))
    with contextlib.closing(sqlite3.connect(sqlite_file, isolation_level=None)) as connection:
        connection.execute(f"BEGIN {lock}")
        text = kit.exec("exec_sql" if query else "db_info", {"query": query} if query else {}).text
    assert text.startswith("Another program holds a lock on the database, and did not release it within ")
    assert text.endswith(" seconds. Nothing was changed. Try again later.")


def test_locked_file_is_waited_for(sqlite_file: Path, run_query) -> None:
    with contextlib.closing(sqlite3.connect(sqlite_file, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        threading.Timer(0.1, connection.rollback).start()
        assert not run_query(Database(sqlite_file, timeout=3e6), "SELECT 1 FROM teas").is_error


@pytest.mark.parametrize(
    ("query", "refusal"),
    [
        ("ATTACH 'x' AS y", "ATTACH or VACUUM is not allowed here."),
        pytest.param(
            "BEGIN", "A transaction (BEGIN, COMMIT, ROLLBACK) is not allowed here.", marks=pytest.mark.exhaustive
        ),
        pytest.param("PRAGMA database_list", "This PRAGMA is not allowed here.", marks=pytest.mark.exhaustive),
        pytest.param(
            "SELECT load_extension('x')",
            "This statement is not allowed here: not authorized to use function: load_extension.",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_advice_names_what_runs_in_this_database(sqlite_file: Path, run_query, query: str, refusal: str) -> None:
    reading = run_query(Database(sqlite_file), query).text
    assert reading == f"{refusal} Use statements that read tables."
    writing = run_query(Database(sqlite_file, read_only=False, approve="never"), query).text
    assert writing == f"{refusal} Use statements that read or write tables."


@pytest.mark.parametrize(
    "name", ["a?mode=rwc&x=1.db", "with space.db", "100%41.db", "#hash.db", "ünï.db", "quote'\".db"]
)
@pytest.mark.exhaustive
def test_any_name_of_a_file_works(tmp_path: Path, run_query, name: str) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / name)) as connection, connection:
        connection.execute("CREATE TABLE t AS SELECT 7 AS n")
    assert run_query(Database(tmp_path / name), "SELECT n FROM t").structured_content["rows"] == [[7]]
    assert run_query(Database(tmp_path / name), "DELETE FROM t").is_error


def test_wide_schema_is_readable(tmp_path: Path, run_query) -> None:
    """A table may have more columns than a result."""
    with contextlib.closing(sqlite3.connect(tmp_path / "wide.db")) as connection, connection:
        connection.execute(f"CREATE TABLE wide ({', '.join(f'c{n}' for n in range(1_000))})")
        connection.execute("INSERT INTO wide (c999) VALUES (7)")
    database = Database(tmp_path / "wide.db")
    assert run_query(database, "SELECT c999 FROM wide").structured_content["rows"] == [[7]]
    assert run_query(database, "SELECT * FROM wide").is_error


@pytest.mark.parametrize("read_only", [True, False])
def test_db_info_lists_what_cannot_be_read(sqlite_file: Path, *, read_only: bool) -> None:
    with contextlib.closing(sqlite3.connect(sqlite_file)) as connection, connection:
        connection.execute("CREATE VIEW broken AS SELECT * FROM gone")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "INSERT INTO sqlite_master VALUES ('table', 'map', 'map', 0, 'CREATE VIRTUAL TABLE map USING gone')"
        )
    kit = Toolkit("db").add(Database(sqlite_file, read_only=read_only))
    text = kit.call("db_info", {})
    assert "broken (view): it cannot be read" in text
    assert "map (table): it cannot be read" in text
    assert "teas (table, 2 rows): id, name, price" in text


@pytest.mark.exhaustive
def test_an_r_tree_can_be_read_and_not_written(sqlite_file: Path) -> None:
    with contextlib.closing(sqlite3.connect(sqlite_file)) as connection, connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE boxes USING rtree(id, low, high)")
        except sqlite3.OperationalError:
            pytest.skip("this SQLite has no R-trees")
        connection.execute("INSERT INTO boxes VALUES (1, 2, 3)")
        connection.execute("CREATE TABLE my_node (a)")
    before = sqlite_file.read_bytes()
    kit = Toolkit("db").add(Database(sqlite_file))
    assert "boxes (table, 1 row): id, low, high" in kit.call("db_info", {})
    assert kit.exec("exec_sql", {"query": "SELECT low FROM boxes"}).structured_content["rows"] == [[2.0]]
    for query in (
        "INSERT INTO boxes VALUES (4, 5, 6)", "DELETE FROM boxes", "DELETE FROM boxes_node",
        "INSERT INTO boxes_rowid VALUES (7, 1)", "INSERT INTO my_node VALUES (1)", "DELETE FROM my_node",
    ):  # fmt: skip
        assert "read-only here" in kit.exec("exec_sql", {"query": query}).text, query
    assert sqlite_file.read_bytes() == before
