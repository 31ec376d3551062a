"""Where decisions are remembered: in memory, in a SQLite file, or in a store of the host."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import ToolCall, Toolkit
from ahvn_tools.errors import ToolkitError
from ahvn_tools.toolkit.approval_store import ApprovalStore, MemoryApprovalStore
from ahvn_tools.toolkit.sqlite_approval_store import SQLiteApprovalStore

KEY = "a key that all processes have"


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path) -> ApprovalStore:
    return MemoryApprovalStore() if request.param == "memory" else SQLiteApprovalStore(tmp_path / "approvals.db")


def test_requests_are_decided_once_all_or_none(store):
    assert store.decide({"a": None, "b": None})
    assert not store.decide({"c": None, "b": None})
    assert store.decide({"c": None})
    assert store.decide({})


def test_attempts_are_counted_by_request(store):
    assert [store.count_attempt(name, None) for name in "aabab"] == [1, 2, 1, 3, 2]
    assert store.decide({"a": None})
    assert not store.decide({"a": None})


def test_one_of_many_threads_decides(store):
    start, decided = threading.Barrier(8), []

    def decide() -> None:
        start.wait(30)
        decided.append(store.decide({"a": None}))

    threads = [threading.Thread(target=decide) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(decided) == [False] * 7 + [True]


def test_a_request_is_forgotten_a_day_after_it_has_expired(store, monkeypatch):
    """It cannot be approved any more, so nothing needs to be remembered."""
    now = int(time.time())
    assert store.decide({f"old {number}": now for number in range(1200)})
    assert store.decide({"late": now + 48 * 3600, "never": None})
    monkeypatch.setattr(time, "time", lambda: now + 25 * 3600)
    assert store.decide({f"new {number}": None for number in range(1300)})
    assert store.count_attempt("new", None) == 1
    assert not store.decide({"late": None})
    assert not store.decide({"never": None})
    assert store.decide({"old 7": None})


def test_a_file_is_read_by_its_owner_only_and_by_the_next_process(tmp_path):
    path = tmp_path / "approvals.db"
    assert SQLiteApprovalStore(path).decide({"a": None})
    assert path.stat().st_mode & 0o077 == 0
    assert not SQLiteApprovalStore(str(path)).decide({"a": None})


def kit_of(store: Any, removed: list[str] | None = None, **options: Any) -> Toolkit:
    removed = [] if removed is None else removed
    kit = Toolkit("files", secret_key=KEY, approval_store=store, **options)

    @kit.tool(requires_approval=True)
    def remove(path: str) -> str:
        removed.append(path)
        return path

    return kit


def ask(kit: Toolkit) -> Any:
    run = kit.run([ToolCall(id="c1", name="remove", arguments={"path": "/x"})])
    return run.pending[0].to_json()


async def test_two_toolkits_with_one_file_run_a_call_once(tmp_path):
    removed: list[str] = []
    first, second = (kit_of(tmp_path / "approvals.db", removed) for _ in range(2))
    request = ask(first)
    assert (await second.aresume(request, approved=True)).results[0][1].value == "/x"
    with pytest.raises(ToolkitError, match="used before"):
        first.resume(request, approved=True)
    with pytest.raises(ToolkitError, match="used before"):
        await first.aresume(request, approved=False)
    assert removed == ["/x"]


def test_a_store_of_the_host_decides():
    class Refusing:
        asked: list[Any] = []

        def decide(self, requests: Any) -> bool:
            self.asked.append(dict(requests))
            return False

        def count_attempt(self, request_id: str, expires_at: int | None) -> int:
            return 1

    store, removed = Refusing(), []
    kit = kit_of(store, removed, approval_expiry=None)
    request = ask(kit)
    with pytest.raises(ToolkitError, match="used before"):
        kit.resume(request, approved=True)
    assert (store.asked, removed) == ([{request["id"]: None}], [])


def test_nothing_runs_when_the_file_cannot_be_used(tmp_path):
    removed: list[str] = []
    path = tmp_path / "approvals.db"
    kit = kit_of(path, removed)
    request = ask(kit)
    path.write_text("no database, but long enough to look like a broken one" * 20)
    for leftover in tmp_path.glob("approvals.db-*"):
        leftover.unlink()
    with pytest.raises(ToolkitError, match=r"The approval_store '.*approvals\.db' cannot be used \(.*a local disk"):
        kit.resume(request, approved=True)
    assert removed == []


@pytest.mark.parametrize("store", [5, object(), ["approvals.db"]])
def test_another_store_is_refused(store):
    with pytest.raises(ToolkitError, match="the path of a SQLite file, or an object with the methods"):
        kit_of(store)


@pytest.mark.parametrize("name", ["approvals.db", "approvals.db-wal", "approvals.db-journal"])
def test_nothing_is_written_through_a_link(tmp_path, name):
    other = tmp_path / "other"
    (tmp_path / name).symlink_to(other)
    with pytest.raises(ToolkitError, match="cannot be used"):
        SQLiteApprovalStore(tmp_path / "approvals.db")
    assert not other.exists()


def test_a_file_that_cannot_be_made_is_refused_at_once(tmp_path):
    with pytest.raises(ToolkitError, match="cannot be used"):
        kit_of(tmp_path / "missing" / "approvals.db")


def test_a_new_file_that_another_process_has_locked_is_waited_for(tmp_path, monkeypatch):
    path = tmp_path / "approvals.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("CREATE TABLE other (number INTEGER)")
    other.execute("BEGIN EXCLUSIVE")
    with monkeypatch.context() as patch:
        patch.setattr("ahvn_tools.toolkit.sqlite_approval_store.LOCK_SECONDS", 0.01)
        with pytest.raises(ToolkitError, match=r"cannot be used \(database is locked\)"):
            SQLiteApprovalStore(path)
    stores: list[SQLiteApprovalStore] = []
    thread = threading.Thread(target=lambda: stores.append(SQLiteApprovalStore(path)))
    thread.start()
    other.execute("COMMIT")
    other.close()
    thread.join(60)
    assert stores[0].decide({"a": None})


RESUME = """
import json, os, signal, sys
from pathlib import Path
from ahvn_tools import Toolkit
from ahvn_tools.errors import ToolkitError

folder, how = Path(sys.argv[1]), sys.argv[2]
kit = Toolkit("files", secret_key=sys.argv[3], approval_store=folder / "approvals.db")

@kit.tool(requires_approval=True)
def remove(path: str) -> str:
    if how == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    with (folder / "removed").open("a") as file:
        file.write(path + "\\n")
    return path

requests = json.loads((folder / "requests.json").read_text())
print("ready", flush=True)
sys.stdin.readline()
for request in requests:
    try:
        [(_, result)] = kit.resume(request, approved=True).results
        print("ran" if result.value == "/x" else result.text)
    except ToolkitError as error:
        print("used before" if "used before" in str(error) else error)
"""


def start(folder: Path, how: str) -> subprocess.Popen[str]:
    """Start a process that resumes all requests when it reads a line, and wait until it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", RESUME, str(folder), how, KEY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
def test_of_two_processes_that_resume_the_same_requests_exactly_one_runs_each(tmp_path):
    kit = kit_of(None)
    (tmp_path / "requests.json").write_text(json.dumps([ask(kit) for _ in range(50)]))
    processes = [start(tmp_path, "runs") for _ in range(2)]
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=200)[0].split("\n")[:-1] for process in processes]
    assert [sorted(pair) for pair in zip(*outputs, strict=True)] == [["ran", "used before"]] * 50
    assert (tmp_path / "removed").read_text().split() == ["/x"] * 50


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
def test_a_call_whose_process_was_killed_before_it_ran_does_not_run_in_another(tmp_path):
    (tmp_path / "requests.json").write_text(json.dumps([ask(kit_of(None))]))
    dying = start(tmp_path, "dies")
    assert dying.communicate("\n", timeout=100)[0] == ""
    assert dying.returncode == -signal.SIGKILL
    assert start(tmp_path, "runs").communicate("\n", timeout=100)[0] == "used before\n"
    assert not (tmp_path / "removed").exists()


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
def test_a_decision_waits_for_another_process_that_writes(tmp_path):
    store = SQLiteApprovalStore(tmp_path / "approvals.db")
    with sqlite3.connect(tmp_path / "approvals.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        decided: list[bool] = []
        thread = threading.Thread(target=lambda: decided.append(store.decide({"a": None})))
        thread.start()
        thread.join(0.5)
        assert decided == []
        other.execute("COMMIT")
    thread.join(60)
    assert decided == [True]
    other.close()
