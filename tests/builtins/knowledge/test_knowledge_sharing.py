"""A knowledge base with many users, threads and processes at once."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

import ahvn_tools
from ahvn_tools import ToolError, Toolkit
from ahvn_tools.builtins import Knowledge

OWNERS = [("acme", "ann"), ("acme", "bob"), ("other", "ann"), (" ", "\0"), ("acme' OR 1=1 --", "ann"), ("ACME", "Ann")]
TITLES = ["Tea", "Plan", "tea", "%"]
WRITER = """
import sys
from ahvn_tools.builtins import Knowledge
path, user, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
tools = Knowledge(path, tenant="acme", user=user, timeout=60).to_toolspecs()
print("ready", flush=True)
for number in range(count):
    tools["add"](title=f"{user} {number}", text=f"sunrise {user} " + "x" * 2_000)
"""


def check_is_intact(path: Path) -> None:
    """Assert that SQLite and the full text index find no damage."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.execute("INSERT INTO knowledge_index (knowledge_index) VALUES ('integrity-check')")


@pytest.mark.exhaustive
def test_no_user_reads_or_changes_what_belongs_to_another(tmp_path: Path) -> None:
    """Whatever users do, each finds exactly what a dictionary for that user would have."""
    counter = iter(range(10**6))

    class Sharing(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            knowledge = Knowledge(tmp_path / f"{next(counter)}.db")
            knowledge.replace_documents([("shared.md", "word shared")])
            kit = Toolkit("knowledge").add(knowledge)
            self.sessions = {owner: kit.session(tenant=owner[0], user=owner[1]) for owner in OWNERS}
            self.notes: dict[Any, dict[str, str]] = {owner: {} for owner in OWNERS}

        @rule(owner=st.sampled_from(OWNERS), title=st.sampled_from(TITLES), number=st.integers(0, 99))
        def add(self, owner: Any, title: str, number: int) -> None:
            name, text = f"note://{title}", f"word {number} of {owner!r}"
            result = self.sessions[owner].exec("add", {"title": title, "text": text})
            assert result.is_error == (name in self.notes[owner])
            self.notes[owner].setdefault(name, text)

        @rule(owner=st.sampled_from(OWNERS), title=st.sampled_from(TITLES), number=st.integers(0, 99))
        def update(self, owner: Any, title: str, number: int) -> None:
            name, text = f"note://{title}", f"word {number} by {owner!r}"
            result = self.sessions[owner].exec("update", {"name": name, "text": text})
            assert result.is_error == (name not in self.notes[owner])
            if name in self.notes[owner]:
                self.notes[owner][name] = text

        @rule(owner=st.sampled_from(OWNERS), title=st.sampled_from(TITLES))
        def delete(self, owner: Any, title: str) -> None:
            result = self.sessions[owner].exec("delete", {"name": f"note://{title}"})
            assert result.is_error == (self.notes[owner].pop(f"note://{title}", None) is None)

        @invariant()
        def each_user_has_their_own(self) -> None:
            for owner, session in self.sessions.items():
                hits = {hit["name"] for hit in session.call("search", {"query": "word", "limit": 20})}
                assert hits == {"shared.md", *self.notes[owner]}
                assert session.call("stats")["notes"] == len(self.notes[owner])
                for title in TITLES:
                    result = session.exec("read", {"name": f"note://{title}"})
                    expected = self.notes[owner].get(f"note://{title}")
                    assert result.is_error == (expected is None)
                    assert expected is None or result.value["text"] == expected

    run_state_machine_as_test(Sharing, settings=settings(max_examples=25, stateful_step_count=20, deadline=None))


def test_threads_write_at_once(tmp_path: Path) -> None:
    kit = Toolkit("knowledge").add(Knowledge(tmp_path / "k.db", timeout=60))

    def work(number: int) -> int:
        session = kit.session(tenant="acme", user=f"user{number}")
        for count in range(2):
            session.call("add", {"title": f"{count}", "text": f"sunrise {number}"})
            session.call("update", {"name": f"note://{count}", "text": f"sunset {number}"})
        session.call("delete", {"name": "note://0"})
        return len(session.call("search", {"query": "sunset sunrise", "limit": 20}))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [1] * 8
    check_is_intact(tmp_path / "k.db")


def start_writer(path: Path, user: str, count: int) -> subprocess.Popen[str]:
    """Start a process that adds notes, and wait until it begins."""
    environment = {**os.environ, "PYTHONPATH": str(Path(ahvn_tools.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), user, str(count)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.exhaustive
def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "k.db"
    processes = [start_writer(path, user, 100) for user in ("ann", "bob")]
    assert [process.communicate(timeout=100)[0] for process in processes] == ["", ""]
    assert [process.returncode for process in processes] == [0, 0]
    for user in ("ann", "bob"):
        assert Knowledge(path, tenant="acme", user=user).toolspec("stats")()["notes"] == 100
    check_is_intact(path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("attempt", range(6))
def test_killed_writer_leaves_a_readable_database(tmp_path: Path, attempt: int) -> None:
    """Each note is there whole, or not at all."""
    path = tmp_path / "k.db"
    process = start_writer(path, "ann", 100_000)
    tools = Knowledge(path, tenant="acme", user="ann", timeout=60).to_toolspecs()
    while tools["stats"]()["notes"] <= attempt:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    count = tools["stats"]()["notes"]
    for number in range(count):
        assert len(tools["read"](name=f"note://ann {number}")["text"]) == 2_000
    tools["add"](title="after", text="It works.")
    assert tools["stats"]()["notes"] == count + 1
    check_is_intact(path)


def test_waiting_writer_can_be_cancelled(tmp_path: Path) -> None:
    knowledge = Knowledge(tmp_path / "k.db", tenant="acme", user="ann", timeout=1_000)
    kit = Toolkit("knowledge").add(knowledge)
    with contextlib.closing(sqlite3.connect(tmp_path / "k.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        result = kit.exec("add", {"title": "Tea", "text": "Green."}, timeout=0.3)
        assert result.error is not None
        assert result.error.code == "timeout"
        end = time.monotonic() + 60
        while ahvn_tools.execution.abandoned():
            assert time.monotonic() < end
            time.sleep(0.01)
        connection.rollback()
    assert kit.call("stats")["notes"] == 0


def test_busy_database_is_an_error_after_the_timeout(tmp_path: Path) -> None:
    knowledge = Knowledge(tmp_path / "k.db", tenant="acme", user="ann", timeout=0.2)
    with contextlib.closing(sqlite3.connect(tmp_path / "k.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert "busy" in knowledge.toolspec("add").exec(title="Tea", text="Green.").text
        assert knowledge.toolspec("stats")()["notes"] == 0


@pytest.fixture
def older(tmp_path: Path) -> Any:
    """Return a connection to a file whose index is that of another version of Unicode, and the path."""
    Knowledge(tmp_path / "k.db").replace_documents([("zh.md", "使用Python编程"), ("en.md", "plain tea")])
    with contextlib.closing(sqlite3.connect(tmp_path / "k.db", isolation_level=None, timeout=0)) as connection:
        connection.executescript("INSERT INTO knowledge_index (knowledge_index) VALUES ('delete-all')")
        connection.execute("PRAGMA user_version = 1")
        yield connection, tmp_path / "k.db"


def found(path: Path, query: str) -> set[str]:
    tools = Knowledge(path, tenant="acme", user="ann").to_toolspecs()
    return {hit["name"] for hit in tools["search"](query)}


def test_the_index_of_another_version_is_made_again(older: Any) -> None:
    _, path = older
    assert [found(path, query) for query in ("编程", "python", "tea")] == [{"zh.md"}, {"zh.md"}, {"en.md"}]
    check_is_intact(path)


def test_the_index_is_made_again_when_no_other_program_reads_the_file(older: Any) -> None:
    connection, path = older
    connection.execute("BEGIN")
    connection.execute("SELECT * FROM knowledge_texts").fetchall()
    with pytest.raises(ToolError, match="busy"):
        Knowledge(path, timeout=0.05)
    connection.execute("COMMIT")
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: found(path, "编程"), range(4))) == [{"zh.md"}] * 4
    check_is_intact(path)
