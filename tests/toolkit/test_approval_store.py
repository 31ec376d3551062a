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
from ahvn_tools.toolkit.approval_store import MIN_KEPT, ApprovalStore, SQLiteApprovalStore
from tests.toolkit.subjects import in_threads

KEY = "a key that all processes have"


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path) -> ApprovalStore:
    return SQLiteApprovalStore(None if request.param == "memory" else tmp_path / "approvals.db")


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

    in_threads([decide] * 8)
    assert sorted(decided) == [False] * 7 + [True]


def test_all_but_the_last_requests_are_forgotten_a_day_after_they_have_expired(store, monkeypatch):
    """They cannot be approved any more, whatever the clock does, so nothing needs to be remembered of each."""
    now = int(time.time())
    assert store.decide({f"old {number}": now for number in range(1200)})
    assert store.decide({f"late {number}": now + 25 * 3600 for number in range(MIN_KEPT)} | {"never": None})
    monkeypatch.setattr(time, "time", lambda: now + 23 * 3600)
    assert store.decide({f"new {number}": None for number in range(1300)})
    assert store.forgotten_until() == 0
    monkeypatch.setattr(time, "time", lambda: now + 24 * 3600)
    assert store.decide({f"newer {number}": None for number in range(4500)})
    assert store.forgotten_until() == now
    assert store.count_attempt("new", None) == 1
    assert not store.decide({"late 0": now + 25 * 3600})
    assert not store.decide({"never": None})
    assert not store.decide({"old 7": now})
    assert not store.decide({"older": now - 1})
    assert store.decide({"another": now + 1})


def test_no_jump_of_the_clock_lets_a_decided_request_be_decided_again(store, monkeypatch):
    """Not even of one that was made while the clock was wrong; and requests that are made later can be decided."""
    now, year = int(time.time()), 365 * 24 * 3600
    decided: dict[str, int] = {}
    for step, at in enumerate([now, now + 10 * year, now + 200, now + 20 * year, now + 400, now + 600]):
        monkeypatch.setattr(time, "time", lambda at=at: at)
        requests = {f"{step}-{number}": at + 3600 + number % 100 for number in range(1 if step % 2 else 3000)}
        assert store.decide(requests)
        decided |= requests
        assert not any(store.decide({name: end}) for name, end in decided.items() if name[2:] in {"0", "99", "2700"})
    assert store.forgotten_until() < now + year


def test_what_one_process_has_forgotten_no_other_decides_again(tmp_path, monkeypatch):
    now = int(time.time())
    first, second = (SQLiteApprovalStore(tmp_path / "approvals.db") for _ in range(2))
    assert first.decide({f"a{number}": now + number for number in range(MIN_KEPT + 1)})
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: now + 48 * 3600)
        assert second.decide({"b": None})
    assert first.forgotten_until() == second.forgotten_until() == now
    assert not first.decide({"a0": now})
    assert not SQLiteApprovalStore(first.path).decide({"a1": now + 1})


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


def test_an_approval_is_used_once_although_the_clock_jumps_forward_and_back(store, monkeypatch):
    removed: list[str] = []
    kit, now = kit_of(store, removed, approval_expiry=60), time.time()
    used, undecided = ask(kit), ask(kit)
    kit.resume(used, approved=True)
    assert store.decide({f"other {number}": used["expires_at"] + 1 for number in range(4 * MIN_KEPT)})
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: now + 48 * 3600)
        assert store.decide({"another": None})
        assert store.forgotten_until() == used["expires_at"]
    for request in (used, undecided):
        with pytest.raises(ToolkitError, match="Reject it, so that"):
            kit.resume(request, approved=True)
        assert kit.resume(request, approved=False).results[0][1].error.code == "rejected"
    assert removed == ["/x"]
    monkeypatch.setattr(time, "time", lambda: now + 5)
    kit.resume(ask(kit), approved=True)
    assert removed == ["/x", "/x"]


async def test_two_toolkits_with_one_file_run_a_call_once(tmp_path):
    removed: list[str] = []
    first, second = (kit_of(tmp_path / "approvals.db", removed) for _ in range(2))
    request = ask(first)
    assert (await second.aresume(request, approved=True)).results[0][1].value == "/x"
    with pytest.raises(ToolkitError, match="used before"):
        first.resume(request, approved=True)
    assert "may have run already" in (await first.aresume(request, approved=False)).results[0][1].text
    assert removed == ["/x"]


def test_a_store_of_the_host_decides():
    class Refusing:
        asked: list[Any] = []

        def decide(self, requests: Any) -> bool:
            self.asked.append(dict(requests))
            return False

        def forgotten_until(self) -> int:
            return 0

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


@pytest.mark.parametrize("name", ["approvals.db", "approvals.db-journal"])
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
        patch.setattr("ahvn_tools.toolkit.approval_store.LOCK_SECONDS", 0.01)
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
