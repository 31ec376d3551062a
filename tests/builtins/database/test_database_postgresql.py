"""PostgreSQL, on a server of the test: what read-only refuses, and the limits."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.builtins import Database

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(180)]

psutil = pytest.importorskip("psutil", reason="psutil is not installed")
psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

PASSWORD = "hunter2secret"
SETUP = [
    f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'",
    "CREATE ROLE runner LOGIN IN ROLE pg_execute_server_program",
    "CREATE TABLE teas (id int PRIMARY KEY, name text NOT NULL UNIQUE, price numeric(6,2) DEFAULT 1, day date)",
    "INSERT INTO teas VALUES (1, 'sencha', 2.5, 'infinity'), (2, 'assam', 3, '0044-03-15 BC')",
    "CREATE TABLE cups (tea int REFERENCES teas (id), size int)",
    "CREATE SEQUENCE numbers",
    "CREATE SCHEMA shop",
    'CREATE TABLE shop."Order ""1""" (n int)',
    "CREATE TABLE hidden (n int)",
    "GRANT ALL ON teas, cups, numbers TO reader",
    "GRANT ALL ON SCHEMA public, shop TO reader",
    "GRANT ALL ON ALL TABLES IN SCHEMA shop TO reader",
    "GRANT CREATE ON DATABASE postgres TO reader",
    """CREATE FUNCTION add_cup() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS
    $$ BEGIN INSERT INTO cups VALUES (1, 1); RETURN 1; END $$""",
    "CREATE PROCEDURE commit_cup() LANGUAGE plpgsql AS $$ BEGIN COMMIT; INSERT INTO cups VALUES (1, 1); COMMIT; END $$",
]


def find_program(name: str) -> str:
    """Return the path of a program of PostgreSQL, or skip the test."""
    folders = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), Path("/usr/local/bin")]
    found = next((str(folder / name) for folder in folders if (folder / name).is_file()), shutil.which(name))
    return found or pytest.skip(f"{name} of PostgreSQL is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[SimpleNamespace]:
    """A server with a Unix socket in a folder of the test; it refuses to run as root."""
    initdb, pg_ctl = find_program("initdb"), find_program("pg_ctl")
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # the folders of pytest are closed to other users
    account: dict[str, Any] = {}
    if os.getuid() == 0:
        account = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        shutil.chown(folder, "nobody", "nogroup")

    def run(*command: str) -> None:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(command, cwd=folder, timeout=100, check=True, **streams, **account)

    data = str(folder / "data")
    run(initdb, "-D", data, "-A", "trust", "-U", "admin", "--no-sync", "-E", "UTF8")
    settings = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off -c max_prepared_transactions=5"
    run(pg_ctl, "-D", data, "-w", "-l", str(folder / "log"), "-o", settings, "start")
    try:
        admin = f"postgresql://admin@/postgres?host={folder}"
        with psycopg.connect(admin, autocommit=True) as connection:
            for statement in SETUP:
                connection.execute(statement)
        reader = f"postgresql://reader:{PASSWORD}@/postgres?host={folder}"
        yield SimpleNamespace(url=reader, admin=admin, folder=folder)
    finally:
        run(pg_ctl, "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder)


def snapshot(server: SimpleNamespace) -> list[Any]:
    """Return everything that a test could have changed."""
    queries = [
        "SELECT count(*), sum(price) FROM teas",
        "SELECT count(*) FROM cups",
        "SELECT last_value, is_called FROM numbers",
        "SELECT relname FROM pg_class WHERE relnamespace IN ('public'::regnamespace, 'shop'::regnamespace) ORDER BY 1",
        "SELECT rolname, rolsuper, rolconfig FROM pg_roles ORDER BY 1",
        "SELECT count(*) FROM pg_largeobject_metadata",
        "SELECT count(*) FROM pg_prepared_xacts",
        "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' ORDER BY 1",
    ]
    with psycopg.connect(server.admin) as connection:
        return [connection.execute(query).fetchall() for query in queries]


NOT_READS = {
    "insert": "INSERT INTO cups VALUES (1, 1)",
    "insert with a result": "INSERT INTO cups VALUES (1, 1) RETURNING *",
    "insert in a query": "WITH x AS (INSERT INTO cups VALUES (1, 1) RETURNING *) SELECT * FROM x",
    "truncate": "TRUNCATE cups",
    "select into": "SELECT * INTO x FROM teas",
    "create table": "CREATE TABLE x (n int)",
    "drop": "DROP TABLE cups",
    "lock rows": "SELECT * FROM teas FOR UPDATE",
    "next number": "SELECT nextval('numbers')",
    "set a number": "SELECT setval('numbers', 99)",
    "a function that writes": "SELECT add_cup()",
    "a query in a text": "SELECT query_to_xml('INSERT INTO cups VALUES (1, 1) RETURNING *', true, true, '')",
    "commit": "COMMIT",
    "commit and begin": "COMMIT; BEGIN; INSERT INTO cups VALUES (1, 1); COMMIT",
    "prepare a transaction": "PREPARE TRANSACTION 'x'",
    "read write": "SET TRANSACTION READ WRITE",
    "read write by a function": "SELECT set_config('transaction_read_only', 'off', false)",
    "read write and a function": "SELECT set_config('transaction_read_only', 'off', true), add_cup()",
    "do": "DO $$ BEGIN INSERT INTO cups VALUES (1, 1); END $$",
    "do with commit": "DO $$ BEGIN COMMIT; INSERT INTO cups VALUES (1, 1); END $$",
    "call": "CALL commit_cup()",
    "copy to a program": "COPY teas TO PROGRAM 'cat > {folder}/x'",
    "copy to the client": "COPY teas TO STDOUT",
    "read a file": "SELECT pg_read_file('/etc/passwd')",
    "export a large object": "SELECT lo_export(1, '{folder}/x')",
    "load a library": "LOAD 'plpgsql'",
    "alter system": "ALTER SYSTEM SET work_mem = '1GB'",
    "set role": "SET ROLE admin",
    "vacuum": "VACUUM teas",
    "lock a table": "LOCK TABLE teas IN ACCESS EXCLUSIVE MODE",
    "discard": "DISCARD ALL",
    "a cursor of its own": "DECLARE x CURSOR WITH HOLD FOR SELECT 1",
    "the end of our cursor": "SELECT 1) TO STDOUT",
    "two statements": "SELECT 1; DELETE FROM cups",
    "a table without rights": "SELECT * FROM hidden",
}


@pytest.mark.parametrize("name", NOT_READS)
def test_read_only_refuses(server, run_query, name: str) -> None:
    before = snapshot(server)
    result = run_query(Database(server.url), NOT_READS[name].format(folder=server.folder))
    assert result.is_error
    assert "root:" not in result.text
    assert snapshot(server) == before
    assert not (server.folder / "x").exists()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT lo_from_bytea(0, 'x')",
        "SELECT lo_create(0)",
        "SELECT pg_notify('x', 'y')",
        "SELECT pg_advisory_lock(1)",
        "SELECT set_config('statement_timeout', '0', false)",
        "SELECT set_config('search_path', 'shop', false)",
    ],
)
def test_what_a_read_only_transaction_allows_is_undone(server, run_query, query: str) -> None:
    """Large objects, locks and settings end with the connection of the call."""
    before = snapshot(server)
    run_query(Database(server.url), query)
    assert snapshot(server) == before
    with psycopg.connect(server.admin) as connection:
        assert connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (0,)
    assert run_query(Database(server.url), "SHOW statement_timeout").is_error


@pytest.mark.parametrize("role", ["admin", "runner"])
def test_role_that_read_only_does_not_restrict_is_refused(server, run_query, role: str) -> None:
    result = run_query(Database(server.admin.replace("admin@", f"{role}@")), "SELECT pg_read_file('/etc/passwd')")
    assert "its host must connect with another role" in result.text
    assert "superuser" in str(result.exception)


@pytest.mark.parametrize(
    ("query", "parameters", "rows"),
    [
        ("SELECT name FROM teas WHERE id = :id", {"id": 2}, [["assam"]]),
        ("SELECT name FROM teas WHERE id = $1", [2], [["assam"]]),
        ("SELECT name FROM teas WHERE name LIKE '%a%' AND id = ?", [1], [["sencha"]]),
        ("SELECT :a::text || ':a', E'\\':a', $$:a$$ -- :a", {"a": "'; --"}, [["'; --:a", "':a", ":a"]]),
        ("SELECT '{\"a\":1}'::json->>'a', :a::int", {"a": 1}, [["1", 1]]),
        ("SELECT :a::bool, :b::int, :c::float8", {"a": True, "b": 1, "c": 1.5}, [[True, 1, 1.5]]),
        ("SELECT :a::text", {"a": None}, [[None]]),
        ("TABLE cups", None, []),
        ("VALUES (1), (2)", None, [[1], [2]]),
        ("WITH n AS (SELECT generate_series(1, 2) AS x) SELECT x FROM n", None, [[1], [2]]),
        ("SELECT day FROM teas ORDER BY id; -- the end", None, [["infinity"], ["0044-03-15 BC"]]),
        ("SELECT '{1,2}'::int[], 'NaN'::float8, '\\x00ff'::bytea", None, [["{1,2}", "NaN", "\\x00ff"]]),
    ],
)
def test_reads_and_parameters(server, run_query, query: str, parameters, rows) -> None:
    result = run_query(Database(server.url), query, parameters)
    assert result.error is None
    assert result.structured_content["rows"] == rows


def test_tables_and_one_table(server) -> None:
    tools = Database(server.url).to_toolspecs()
    listed = tools["db_info"].exec()
    names = [table["name"] for table in listed.structured_content["tables"]]
    assert names == ["cups", "teas", 'shop.Order "1"']
    described = tools["db_info"].exec(table="teas").structured_content
    assert described["keys"] == ["UNIQUE (name)", "PRIMARY KEY (id)"]
    assert [column["type"] for column in described["columns"]] == ["integer", "text", "numeric(6,2)", "date"]
    assert described["rows"] == 2
    assert not tools["db_info"].exec(table='shop.Order "1"').is_error


@pytest.mark.parametrize(
    "query",
    [
        "SELECT pg_sleep(1000)",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n",
    ],
)
def test_time_limit_ends(server, run_query, query: str) -> None:
    result = run_query(Database(server.url, timeout=2), query)
    assert "stopped after 2 seconds" in result.text
    wait_for_idle_server(server)


def wait_for_idle_server(server: SimpleNamespace) -> None:
    """Wait until the server runs no statement of the reader."""
    end = time.monotonic() + 60
    with psycopg.connect(server.admin, autocommit=True) as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'reader' AND state = 'active'"
        while connection.execute(query).fetchone() != (0,):
            assert time.monotonic() < end
            time.sleep(0.05)


def test_cancellation_ends_the_statement_on_the_server(server) -> None:
    kit = Toolkit("teas").add(Database(server.url, timeout=100))
    assert kit.exec("exec_sql", {"query": "SELECT pg_sleep(1000)"}, timeout=3).error.code == "timeout"
    assert psutil.wait_procs(psutil.Process().children(), timeout=60)[1] == []
    wait_for_idle_server(server)


def test_value_of_a_gigabyte_does_not_reach_this_process(server, run_query) -> None:
    before = psutil.Process().memory_info().rss
    result = run_query(Database(server.url, timeout=100), "SELECT repeat('a', 1000000000)")
    assert "memory" in result.text
    assert psutil.Process().memory_info().rss - before < 100_000_000


def test_a_million_rows_are_counted(server, run_query) -> None:
    result = run_query(Database(server.url, timeout=100), "SELECT n FROM generate_series(1, 1000000) n")
    assert "1,000,000 rows in total." in result.text


def test_writing(server, run_query) -> None:
    """Reads need no approval; a write is committed; an error changes nothing."""
    asked = []
    kit = Toolkit("teas", approver=lambda request: asked.append(request) or True)
    kit.add(Database(server.url, read_only=False))
    assert "sencha" in kit.call("exec_sql", {"query": "SELECT * FROM teas"})
    assert asked == []
    try:
        insert = {"query": "INSERT INTO cups VALUES (:tea, 1)", "parameters": {"tea": 1}}
        assert "1 row changed." in kit.call("exec_sql", insert)
        assert len(asked) == 1
        assert "1\n" in kit.call("exec_sql", {"query": "SELECT count(*) FROM cups"})
        assert kit.exec("exec_sql", {**insert, "parameters": {"tea": 99}}).is_error
        assert "PostgreSQL refuses" in kit.exec("exec_sql", {"query": "SELEC 1"}).text
        assert len(asked) == 2
    finally:
        with psycopg.connect(server.admin) as connection:
            connection.execute("DELETE FROM cups")


@pytest.mark.parametrize("password", ["wr0ng-p@ss:word/1", "hunter2%41"])
def test_no_text_has_the_password_or_the_url(server, run_query, caplog, password: str) -> None:
    from urllib.parse import quote

    url = f"postgresql://nobody_here:{quote(password, safe='')}@/postgres?host={server.folder}"
    result = run_query(Database(url), "SELECT 1")
    assert result.text == "The database cannot be reached."
    texts = [repr(result), str(result.exception), repr(result.exception), caplog.text]
    assert not [text for text in texts if password in text or quote(password, safe="") in text or url in text]


@pytest.mark.parametrize(
    ("read_only", "query"),
    [(True, "SELECT * FROM cups"), (False, "UPDATE cups SET size = 1"), (True, "SELECT pg_advisory_xact_lock(7)")],
)
def test_a_lock_that_stays_is_named(server, run_query, query: str, *, read_only: bool) -> None:
    """The model learns that it must wait, and not that its statement is too expensive."""
    with psycopg.connect(server.admin) as connection:
        connection.execute("LOCK TABLE cups IN ACCESS EXCLUSIVE MODE")
        connection.execute("SELECT pg_advisory_xact_lock(7)")
        result = run_query(Database(server.url, read_only=read_only, approve="never", timeout=10), query)
    assert result.text.startswith("Another program holds a lock on the database")


def test_table_that_is_absent_names_the_tool_that_lists_them(server, run_query) -> None:
    assert "`db_info` lists the tables." in run_query(Database(server.url), "SELECT * FROM absent").text
