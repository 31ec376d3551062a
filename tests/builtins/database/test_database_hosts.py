"""What the host of a Database decides: the target, writing and approvals; and where the password is not."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cloudpickle
import pytest

from ahvn_tools import Toolkit
from ahvn_tools.builtins import Action, Database
from ahvn_tools.errors import DefinitionError

SECRET_URL = "postgresql://ann:s3cr3t-p%40ss@127.0.0.1:1/teas"
SECRETS = ("s3cr3t", "p%40ss", "p@ss", SECRET_URL)


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("nothing.db", {}, "There is no database at this path"),
        ("sqlite:///nothing.db", {}, "There is no database at this path"),
        ("/", {}, "There is no database at this path"),
        ("sqlite://", {}, "A database without a path is empty"),
        ("sqlite:///:memory:", {}, "A database without a path is empty"),
        ("duckdb://", {"read_only": False}, "A database without a path is empty"),
        ("sqlite:///a.db?mode=rwc", {}, "without options"),
        ("sqlite://host/a.db", {}, "without options"),
        ("mysql+pymysql://ann:s3cr3t@h/d", {}, "Pass read_only=False"),
        ("sqlite+pysqlite:///a.db", {}, "Pass read_only=False"),
        ("", {}, "`url` is the URL"),
        ("a\0b", {}, "`url` is the URL"),
        ("sqlite://", {"read_only": False, "max_rows": 0}, "must be above 0"),
        ("sqlite://", {"read_only": False, "approve": "perhaps"}, "`approve` is"),
    ],
)
def test_mistake_of_the_host_is_an_error(tmp_path, monkeypatch, url, options, message) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DefinitionError, match=message) as error:
        Database(url, **options)
    assert "s3cr3t" not in str(error.value)


@pytest.mark.parametrize("form", ["{path}", "sqlite:///teas.db", "function"])
def test_target_is_found_also_from_another_folder(sqlite_file: Path, run_query, form: str, monkeypatch) -> None:
    monkeypatch.chdir(sqlite_file.parent)
    url = (lambda: str(sqlite_file)) if form == "function" else form.format(path=sqlite_file)
    database = Database(url)
    monkeypatch.chdir("/")
    assert not run_query(database, "SELECT 1 FROM teas").is_error


def test_file_that_is_gone_is_an_error(sqlite_file: Path, run_query) -> None:
    database = Database(sqlite_file)
    sqlite_file.unlink()
    assert run_query(database, "SELECT 1").text == "The database cannot be reached."
    assert not sqlite_file.exists()


def test_password_is_in_no_text(run_query, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    database = Database(SECRET_URL)
    kit = Toolkit("teas").add(database)
    result = kit.exec("exec_sql", {"query": "SELECT 1"})
    assert result.text == "The database cannot be reached."
    texts = [
        *(repr(database), str(database), repr(kit), kit.to_prompt(), str(kit.to("openai")), repr(result), caplog.text),
        *(
            str(result.exception),
            repr(result.exception),
            repr(database._connection),
            repr(database._connection._target),
        ),
        str([spec.definition for spec in kit]),
        str(pickle.dumps(database)),
        str(cloudpickle.dumps(database)),
        str(cloudpickle.dumps(database.toolspec("exec_sql"))),
        str(pickle.dumps(result)),
    ]
    assert not [text for text in texts for secret in SECRETS if secret in text]


def read_url() -> str:
    """Return a URL with a password, as from the environment."""
    return os.environ["AHVN_TEST_DATABASE_URL"]


def test_pickle_without_its_password_says_so(run_query, monkeypatch) -> None:
    result = run_query(pickle.loads(pickle.dumps(Database(SECRET_URL))), "SELECT 1")
    assert result.text == "The database cannot be reached."
    assert "Pass a function that returns the URL" in str(result.exception)
    monkeypatch.setenv("AHVN_TEST_DATABASE_URL", "postgresql://ann:s3cr3t@127.0.0.1:1/teas")
    copied = cloudpickle.loads(cloudpickle.dumps(Database(read_url)))
    assert "Connection refused" in str(run_query(copied, "SELECT 1").exception)


def test_pickle_of_a_file_works(sqlite_file: Path, run_query) -> None:
    database = Database(sqlite_file)
    run_query(database, "SELECT 1")
    assert not run_query(cloudpickle.loads(cloudpickle.dumps(database)), "SELECT 1 FROM teas").is_error


def test_reads_need_no_approval_and_writes_do(sqlite_file: Path) -> None:
    asked: list[Action] = []
    approve = lambda action: asked.append(action) or False
    kit = Toolkit("teas").add(Database(sqlite_file, read_only=False, approve=approve))
    kit.call("exec_sql", {"query": "SELECT * FROM teas"})
    assert asked == []
    result = kit.call("exec_sql", {"query": "UPDATE teas SET price = :p", "parameters": {"p": 7}})
    assert result == "Query executed successfully. But no rows returned.\n2 rows changed."
    assert [(action.kind, action.is_risky) for action in asked] == [("write", True)]
    assert asked[0].details == {"query": "UPDATE teas SET price = :p", "parameters": {"p": 7}}
    assert "7" in kit.call("exec_sql", {"query": "SELECT price FROM teas"})


def test_rejected_write_changes_nothing(sqlite_file: Path) -> None:
    before = sqlite_file.read_bytes()
    kit = Toolkit("teas", approver=lambda request: False).add(Database(sqlite_file, read_only=False))
    assert kit.exec("exec_sql", {"query": "DELETE FROM teas"}).error.code == "rejected"
    assert sqlite_file.read_bytes() == before


@pytest.mark.parametrize(
    "query",
    [
        "ATTACH '{folder}/x.db' AS x",
        pytest.param("VACUUM INTO '{folder}/x.db'", marks=pytest.mark.exhaustive),
        "PRAGMA writable_schema = ON",
        pytest.param("PRAGMA query_only = ON", marks=pytest.mark.exhaustive),
        pytest.param("SELECT load_extension('x')", marks=pytest.mark.exhaustive),
        "BEGIN",
        pytest.param("COMMIT", marks=pytest.mark.exhaustive),
        "UPDATE teas SET price = 0; DELETE FROM teas",
    ],
)
@pytest.mark.default_cases(2)
def test_writing_stays_in_the_tables(sqlite_file: Path, run_query, query: str) -> None:
    before = sqlite_file.read_bytes()
    database = Database(sqlite_file, read_only=False, approve="never")
    assert run_query(database, query.format(folder=sqlite_file.parent)).is_error
    assert sqlite_file.read_bytes() == before
    assert [path.name for path in sqlite_file.parent.iterdir()] == ["teas.db"]


@pytest.mark.exhaustive
def test_failed_write_changes_nothing(sqlite_file: Path, run_query) -> None:
    """A statement is one transaction: none of its rows is stored if one fails, or if its time is over."""
    before = sqlite_file.read_bytes()
    database = Database(sqlite_file, read_only=False, approve="never", timeout=0.3)
    assert run_query(database, "INSERT INTO teas VALUES (7, 'x', 1), (8, 'x', 1)").is_error
    endless = "WITH RECURSIVE n(x) AS (SELECT 9 UNION ALL SELECT x + 1 FROM n) INSERT INTO teas SELECT x, x, 1 FROM n"
    assert "stopped after" in run_query(database, endless).text
    assert sqlite_file.read_bytes() == before


@pytest.mark.parametrize("name", ["new.db", pytest.param("new.duckdb", marks=pytest.mark.exhaustive)])
def test_new_file_is_made_by_the_first_write(tmp_path: Path, run_query, name: str) -> None:
    database = Database(tmp_path / name, read_only=False, approve="never")
    assert not run_query(database, "CREATE TABLE t (n INTEGER)").is_error
    assert run_query(database, "SELECT count(*) FROM t").structured_content["rows"] == [[0]]


def test_annotations_say_whether_it_may_write(sqlite_file: Path) -> None:
    for read_only in (True, False):
        database = Database(sqlite_file, read_only=read_only)
        for spec in (database.toolspec("exec_sql"), database.to_toolspecs()["exec_sql"]):
            assert spec.definition.annotations["readOnlyHint"] is read_only
        assert database.toolspec("db_info").definition.annotations["readOnlyHint"] is True


@pytest.mark.exhaustive
def test_database_without_a_path_lives_until_it_is_closed(run_query) -> None:
    database = Database("sqlite://", read_only=False, approve="never")
    assert not run_query(database, "CREATE TABLE t (n)").is_error
    assert not run_query(database, "INSERT INTO t VALUES (1)").is_error
    with ThreadPoolExecutor(4) as pool:
        inserted = pool.map(lambda n: run_query(database, "INSERT INTO t VALUES (:n)", {"n": n}).is_error, range(6))
        assert not any(inserted)
    assert run_query(database, "SELECT count(*) FROM t").structured_content["rows"] == [[7]]
    assert run_query(cloudpickle.loads(cloudpickle.dumps(database)), "SELECT * FROM t").is_error
    database.close()
    assert run_query(database, "SELECT * FROM t").is_error
    database.close()


@pytest.mark.exhaustive
async def test_many_calls_from_async_code(sqlite_file: Path) -> None:
    import asyncio

    kit = Toolkit("teas").add(Database(sqlite_file))
    texts = await asyncio.gather(
        *(kit.acall("exec_sql", {"query": "SELECT :n AS n", "parameters": {"n": n}}) for n in range(12))
    )
    assert [text.splitlines()[2] for text in texts] == [str(n) for n in range(12)]


@pytest.mark.exhaustive
def test_writers_wait_for_each_other(sqlite_file: Path, run_query) -> None:
    database = Database(sqlite_file, read_only=False, approve="never", timeout=100)
    with ThreadPoolExecutor(8) as pool:
        results = pool.map(lambda n: run_query(database, "INSERT INTO cups VALUES (1, :n)", {"n": n}).text, range(10))
        assert {text.splitlines()[1] for text in results} == {"1 row changed."}
    assert run_query(database, "SELECT count(*) FROM cups").structured_content["rows"] == [[13]]


def test_calls_leave_no_descriptor_open(sqlite_file: Path, run_query) -> None:
    database = Database(sqlite_file)
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("this platform has no /proc")
    for query in ("SELECT 1", "DELETE FROM teas", "SELEC", "SELECT * FROM teas"):
        run_query(database, query)
    targets = [str(entry.readlink()) for entry in folder.iterdir() if entry.is_symlink() and entry.exists()]
    assert not [target for target in targets if "teas.db" in target]


@pytest.mark.exhaustive
def test_other_databases_work_through_sqlalchemy(sqlite_file: Path, run_query) -> None:
    pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")
    asked: list[Action] = []
    database = Database(
        f"sqlite+pysqlite:///{sqlite_file}", read_only=False, approve=lambda action: asked.append(action) or False
    )
    rows = run_query(database, "SELECT name || ':a' || '%', :a FROM teas WHERE id = :id", {"id": 1, "a": "x"})
    assert rows.structured_content["rows"] == [["sencha:a%", "x"]]
    assert len(asked) == 1, "every statement needs an approval"
    assert run_query(database, "SELECT '{\"a\":1}', '%s', ?", ["y"]).structured_content["rows"] == [
        ['{"a":1}', "%s", "y"]
    ]
    assert "1 row changed." in run_query(database, "INSERT INTO cups VALUES (1, 1)").text
    assert run_query(database, "SELECT count(*) FROM cups").structured_content["rows"] == [[4]]
    assert "no such table" in run_query(database, "SELECT * FROM absent").text
    info = database.toolspec("db_info")
    assert "teas (table, 2 rows): id, name, price" in info.exec().text
    assert "FOREIGN KEY (tea) REFERENCES teas (id)" in info.exec(table="cups").text


@pytest.mark.exhaustive
def test_a_timeout_of_another_database_says_that_a_lock_is_possible(sqlite_file: Path, run_query) -> None:
    pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed")
    database = Database(f"sqlite+pysqlite:///{sqlite_file}", read_only=False, approve="never", timeout=2)
    with contextlib.closing(sqlite3.connect(sqlite_file, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        text = run_query(database, "SELECT 1 FROM teas").text
    assert text.startswith("The statement was stopped after 2 seconds.")
    assert text.endswith("If another session holds a lock, try again later.")


def test_duckdb_writes_after_an_approval(duckdb_file: Path) -> None:
    asked: list[Action] = []
    kit = Toolkit("teas")
    kit.add(Database(duckdb_file, read_only=False, approve=lambda action: asked.append(action) or False))
    kit.call("exec_sql", {"query": "SELECT * FROM teas"})
    assert asked == []
    kit.call("exec_sql", {"query": "INSERT INTO cups VALUES (1, :n)", "parameters": {"n": 7}})
    assert [action.kind for action in asked] == ["write"]
    assert "4" in kit.call("exec_sql", {"query": "SELECT count(*) FROM cups"})
    assert kit.exec("exec_sql", {"query": f"COPY teas TO '{duckdb_file.parent}/x'"}).is_error
    assert len(asked) == 1
