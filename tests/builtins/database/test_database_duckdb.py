"""DuckDB through the tools of Database: what read-only refuses, and the limits of its process."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.builtins import Database

psutil = pytest.importorskip("psutil", reason="psutil is not installed")

NOT_READS = {
    "insert": "INSERT INTO teas VALUES (9, 'x', 1)",
    "create table": "CREATE TABLE x (a INTEGER)",
    "create macro": "CREATE TEMP MACRO f() AS 1",
    "drop": "DROP TABLE cups",
    "copy to a file": "COPY teas TO '{folder}/out.csv'",
    "copy from a file": "COPY teas FROM '/etc/passwd'",
    "export": "EXPORT DATABASE '{folder}/out'",
    "import": "IMPORT DATABASE '{folder}'",
    "attach a file": "ATTACH '{folder}/other.db'",
    "install": "INSTALL httpfs",
    "load a file": "LOAD '{folder}/x.duckdb_extension'",
    "set": "SET memory_limit = '100GB'",
    "pragma": "PRAGMA enable_profiling",
    "call": "CALL enable_logging()",
    "secret": "CREATE SECRET (TYPE s3)",
    "read a csv file": "SELECT * FROM read_csv('/etc/passwd')",
    "read a text file": "SELECT * FROM read_text('/etc/passwd')",
    "read a file by its name": "SELECT * FROM '/etc/passwd'",
    "the network": "SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')",
    "environment": "SELECT getenv('HOME')",
    "a query in a query": "FROM query('DELETE FROM cups')",
    "prepare": "PREPARE p AS DELETE FROM cups",
    "begin": "BEGIN",
    "checkpoint": "CHECKPOINT",
    "use": "USE memory",
    "two statements": "SELECT 1; DELETE FROM cups",
}
FEW = ["insert", "copy to a file", "read a text file", "set", "two statements"]


@pytest.mark.parametrize(
    "name", [name if name in FEW else pytest.param(name, marks=pytest.mark.exhaustive) for name in NOT_READS]
)
@pytest.mark.default_cases(1)
def test_read_only_refuses(duckdb_file: Path, run_query, name: str) -> None:
    before = duckdb_file.read_bytes()
    result = run_query(Database(duckdb_file), NOT_READS[name].format(folder=duckdb_file.parent))
    assert result.is_error
    assert "root:" not in result.text
    assert duckdb_file.read_bytes() == before
    assert [path.name for path in duckdb_file.parent.iterdir()] == ["teas.duckdb"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "query",
    [
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n",
        "SELECT levenshtein(repeat('a', 1000000), repeat('b', 1000000))",
        "SELECT length(repeat('a', 2000000000))",
        "SELECT list(range) FROM range(1000000000)",
    ],
)
def test_expensive_query_ends_by_its_limit(duckdb_file: Path, run_query, query: str) -> None:
    """Its process is killed at the time limit, or has no more memory, and nothing of it is left."""
    before = psutil.Process().memory_info().rss
    started = time.monotonic()
    result = run_query(Database(duckdb_file, timeout=3), query)
    assert "stopped after 3 seconds" in result.text or "too much memory" in result.text
    assert time.monotonic() - started < 60
    assert psutil.Process().children(recursive=True) == []
    assert psutil.Process().memory_info().rss - before < 100_000_000


def test_cancellation_ends_the_process(duckdb_file: Path) -> None:
    kit = Toolkit("teas").add(Database(duckdb_file, timeout=100))
    query = "SELECT levenshtein(repeat('a', 1000000), repeat('b', 1000000))"
    others = set(psutil.Process().children())
    assert kit.exec("exec_sql", {"query": query}, timeout=0.5).error.code == "timeout"
    assert psutil.wait_procs(set(psutil.Process().children()) - others, timeout=60)[1] == []


@pytest.mark.exhaustive
def test_two_million_rows_take_little_memory(duckdb_file: Path, run_query) -> None:
    result = run_query(Database(duckdb_file, timeout=250), "SELECT range FROM range(2000000)")
    assert "2,000,000 rows in total." in result.text
    assert result.structured_content["rows"][-1] == [1_999_999]


def test_values_of_any_type_have_a_text(duckdb_file: Path, run_query) -> None:
    query = (
        "SELECT 170141183460469231731687303715884105727::HUGEINT, 'NaN'::DOUBLE, 1.50::DECIMAL(9,2), "
        "DATE '2024-01-02', {'a': [1, NULL]}, '\\x00\\xFF'::BLOB, INTERVAL 3 DAY, "
        "UUID '6d0f8f4e-8c2c-4c09-8f5f-0f9f0a3d1a11', true, NULL"
    )
    rows = run_query(Database(duckdb_file), query).structured_content["rows"]
    assert rows == [
        [
            "170141183460469231731687303715884105727",
            "NaN",
            "1.50",
            "2024-01-02",
            '{"a": [1, null]}',
            "0x00ff",
            "3 days, 0:00:00",
            "6d0f8f4e-8c2c-4c09-8f5f-0f9f0a3d1a11",
            True,
            None,
        ]
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("query", "parameters", "rows"),
    [
        ("SELECT name FROM teas WHERE id = :id", {"id": 2}, [["assam"]]),
        (
            "SELECT :a || :b || :a",
            {"a": "x'; DROP TABLE teas; --", "b": ":a"},
            [["x'; DROP TABLE teas; --:ax'; DROP TABLE teas; --"]],
        ),
        ("SELECT ?, ?", ["?", None], [["?", None]]),
        ("SELECT ':a', '?', $$:a$$ -- :a", {"a": 1}, [[":a", "?", ":a"]]),
    ],
)
def test_parameters_are_bound(duckdb_file: Path, run_query, query: str, parameters, rows) -> None:
    assert run_query(Database(duckdb_file), query, parameters).structured_content["rows"] == rows


@pytest.mark.exhaustive
@pytest.mark.parametrize("read_only", [True, False])
def test_another_process_that_has_the_file_open_is_named(duckdb_file: Path, run_query, *, read_only: bool) -> None:
    """A reader keeps writers out, too."""
    code = f"import duckdb; c = duckdb.connect({str(duckdb_file)!r}, read_only={not read_only}); print(); input()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        try:
            other.stdout.readline()
            query = "SELECT 1 FROM teas" if read_only else "DELETE FROM cups"
            result = run_query(Database(duckdb_file, read_only=read_only, approve="never"), query)
        finally:
            other.kill()
    assert result.text.startswith("Another process has the database open")


@pytest.mark.exhaustive
def test_advice_names_what_runs_in_this_database_and_what_lists_its_tables(duckdb_file: Path, run_query) -> None:
    for read_only, runs in ((True, "read tables."), (False, "read or write tables.")):
        database = Database(duckdb_file, read_only=read_only, approve="never")
        result = run_query(database, "ATTACH 'x' AS y")
        assert result.text == f"ATTACH statements are not allowed here. Use statements that {runs}"
        assert "`db_info` lists the tables." in run_query(database, "SELECT * FROM absent").text


@pytest.mark.exhaustive
def test_settings_do_not_show_the_home_folder(duckdb_file: Path, run_query) -> None:
    database = Database(duckdb_file)
    settings = run_query(database, "SELECT name FROM duckdb_settings() WHERE value LIKE ?", [f"%{Path.home()}%"])
    assert settings.structured_content["rows"] == []
    assert str(Path.home()) not in run_query(database, "SELECT * FROM duckdb_secrets()").text
