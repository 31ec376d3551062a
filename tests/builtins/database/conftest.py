"""Databases with the same two tables, and calls of their tools."""

from __future__ import annotations

import contextlib
import importlib.util
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import ToolResult
from ahvn_tools.builtins import Database

TABLES = [
    "CREATE TABLE teas (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, price DECIMAL(6, 2) DEFAULT 1)",
    "CREATE TABLE cups (tea INTEGER REFERENCES teas (id), size INTEGER)",
    "CREATE VIEW cheap AS SELECT name FROM teas WHERE price < 3",
    "INSERT INTO teas VALUES (1, 'sencha', 2.5), (2, 'assam', 3)",
    "INSERT INTO cups VALUES (1, 200), (2, 300), (2, 400)",
]


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The content of a SQLite file with two tables, a view and a full text index."""
    path = tmp_path_factory.mktemp("sqlite") / "teas.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        notes = ["CREATE VIRTUAL TABLE notes USING fts5(body)", "INSERT INTO notes VALUES ('hot')"]
        connection.executescript(";".join(["BEGIN", *TABLES, *notes, "COMMIT"]))
    return path.read_bytes()


@pytest.fixture
def sqlite_file(tmp_path: Path, sqlite_template: bytes) -> Path:
    """A SQLite file with two tables, a view and a full text index."""
    path = tmp_path / "teas.db"
    path.write_bytes(sqlite_template)
    return path


@pytest.fixture(scope="session")
def duckdb_template(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The content of a DuckDB file with two tables and a view."""
    if importlib.util.find_spec("duckdb") is None:
        pytest.skip("duckdb is not installed")
    path = tmp_path_factory.mktemp("duckdb") / "teas.duckdb"
    code = f"import duckdb\nwith duckdb.connect({str(path)!r}) as c: [c.execute(s) for s in {TABLES!r}]"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    return path.read_bytes()


@pytest.fixture
def duckdb_file(tmp_path: Path, duckdb_template: bytes) -> Path:
    """A DuckDB file with two tables and a view."""
    path = tmp_path / "teas.duckdb"
    path.write_bytes(duckdb_template)
    return path


Query = Callable[..., ToolResult]


@pytest.fixture
def run_query() -> Query:
    """Return a function that runs one query on a database."""

    def run(database: Database, query: str, parameters: Any = None) -> ToolResult:
        return database.toolspec("exec_sql").exec(query=query, parameters=parameters)

    return run
