"""Watch: calls are in a file while someone looks, as they run and as they end, of all processes; without secrets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import ToolError, Toolkit, ToolSpecError
from ahvn_tools.after_fork import CAN_FORK
from ahvn_tools.middleware import watch, watched_calls
from ahvn_tools.middleware.watched_calls import WatchedCalls
from tests.execution.entry_points import until

POSIX = pytest.mark.skipif(os.name != "posix", reason="permissions and signals of POSIX")


def add(a: int, b: int = 1, token: str = "none") -> int:
    """Add."""
    return a + b


async def count(to: int) -> AsyncIterator[int]:
    """Count."""
    for number in range(to):
        yield number


class Watched:
    """A toolkit whose calls are watched, and the file."""

    def __init__(self, path: Path, *tools: Any, **options: Any) -> None:
        self.calls = WatchedCalls(path)
        self.middleware: Any = watch(path)
        self.kit = Toolkit("shop", middleware=[self.middleware], **options).add(*tools)

    def look(self) -> Watched:
        self.calls.look()
        assert until(lambda: not self.middleware.is_idle)
        return self

    def wait(self, is_there: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Return the calls in the file when they are as they should be."""
        assert until(lambda: is_there(self.read())), self.read()
        return self.read()

    def read(self) -> list[dict[str, Any]]:
        return sorted(self.calls.read(), key=lambda call: call["serial"])

    def wait_for_outcomes(self, *outcomes: str | None) -> list[dict[str, Any]]:
        return self.wait(lambda calls: [call["outcome"] for call in calls] == [*outcomes])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.sqlite"


@pytest.fixture
def watched(path: Path) -> Watched:
    return Watched(path, add, count).look()


def test_nothing_is_written_and_calls_are_direct_while_nobody_looks(path):
    watched = Watched(path, add)
    assert watched.middleware.is_idle
    assert watched.kit.exec("add", {"a": 1}).id is None  # a call that passes through middleware has an id
    assert list(path.parent.iterdir()) == []
    watched.look()
    assert watched.kit.exec("add", {"a": 1}).id is not None
    assert len(watched.wait_for_outcomes("ok")) == 1


class Sometimes:
    """A middleware that has something to do at times."""

    is_idle = True

    async def __call__(self, call: Any, next: Any) -> Any:
        self.seen = call.name
        return await next(call)


@pytest.mark.parametrize("place", ["toolkit", "tool", "tool of an inner toolkit"])
def test_calls_do_not_pass_through_a_middleware_that_is_idle(place):
    layer = Sometimes()
    layers = {name: [layer] if name == place else [] for name in ("toolkit", "tool", "tool of an inner toolkit")}
    inner = Toolkit("inner", middleware=layers["tool of an inner toolkit"]).add(add)
    kit = Toolkit("outer", middleware=layers["toolkit"]).add(inner["add"], middleware=layers["tool"])
    assert kit.exec("add", {"a": 1}).id is None
    layer.is_idle = False
    assert kit.exec("add", {"a": 1}).id is not None
    assert layer.seen == "add"


def test_nobody_looks_any_more_after_a_minute(watched, path):
    os.utime(path.with_name("calls.sqlite-viewed"), (0, 0))
    assert until(lambda: watched.middleware.is_idle)
    assert watched.kit.exec("add", {"a": 1}).id is None


def test_a_call_is_written_with_what_is_known_of_it(watched):
    session = watched.kit.session(session_id="ann@shop.example")
    answer = {"tool_calls": [{"id": f"c{n}", "function": {"name": "add", "arguments": '{"a": 1}'}} for n in range(2)]}
    session.run(answer, format="openai")
    watched.kit.exec("add", {"a": "x"})
    first, second, third = watched.wait_for_outcomes("ok", "ok", "invalid_parameters")
    assert (first["tool"], first["toolkit"], first["arguments"]) == ("add", "shop", '{"a": 1}')
    assert first["run"] == second["run"] != third["run"] == ""
    assert first["session"] == second["session"] != third["session"] == ""
    assert "ann" not in json.dumps(watched.read())
    assert first["process"].startswith(f"{os.getpid()}-")
    assert 0 <= first["duration"] < 60
    assert (first["lost"], first["chunks"]) == (0, 0)


def test_a_running_call_is_seen_and_its_chunks_are_counted(watched):
    reader = watched.kit.stream("count", {"to": 3})
    next(reader), next(reader)
    [call] = watched.wait(lambda calls: bool(calls) and calls[0]["chunks"] >= 2)
    assert (call["outcome"], call["duration"]) == (None, None)
    assert next(reader).value == 2
    assert next(reader).is_last
    [call] = watched.wait_for_outcomes("ok")
    assert call["chunks"] == 3


async def test_cancelled_calls_and_those_that_wait_for_an_approval_are_seen(path):
    async def hang() -> None:
        await asyncio.sleep(600)

    watched = Watched(path, hang).look()
    watched.kit.add(add, requires_approval=True)
    task = asyncio.create_task(watched.kit.aexec("hang"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await watched.kit.aexec("add", {"a": 1})
    watched.wait_for_outcomes("cancelled", "approval_required")


def test_only_what_has_changed_is_read_again(watched):
    watched.kit.call("add", {"a": 1})
    [first] = watched.wait_for_outcomes("ok")
    watched.kit.call("add", {"a": 2})
    assert until(lambda: len(watched.calls.read(first["number"])) == 1)
    [second] = watched.calls.read(first["number"])
    assert second["arguments"] == '{"a": 2}'
    assert watched.calls.read(second["number"]) == []
    assert len(watched.calls.read(second["number"] + 1)) == 2, "a number of a former file"


def test_secrets_and_bound_values_are_not_in_the_file(path):
    def log_in(user: str, password: str, token: str) -> str:
        raise ToolError(f"wrong {token}")

    watched = Watched(path, log_in).look()
    watched.kit.bind("token", "auth.token")
    session = watched.kit.session({"auth": {"token": "canary-state"}}, session_id="canary-session")
    session.exec("log_in", {"user": "ann canary-state", "password": "canary-password"})
    [call] = watched.wait_for_outcomes("tool_error")
    assert json.loads(call["arguments"]) == {"user": "ann <token>", "password": "***"}
    for file in path.parent.iterdir():
        assert b"canary" not in file.read_bytes()


@pytest.mark.parametrize("size", [10_000, 200_000])
def test_large_arguments_are_cut(path, size):
    watched = Watched(path, len).look()
    watched.kit.exec("len", {"obj": "é" * size})
    [call] = watched.wait_for_outcomes("ok")
    assert len(call["arguments"]) < 2_100


def test_the_file_has_the_newest_calls_and_those_that_run(path, monkeypatch):
    monkeypatch.setattr(watched_calls, "MAX_CALLS", 10)
    watched = Watched(path, add).look()
    for number in range(30):
        watched.kit.call("add", {"a": number})
        watched.wait(lambda calls, number=number: calls and calls[-1]["arguments"] == f'{{"a": {number}}}')
    assert [json.loads(call["arguments"])["a"] for call in watched.read()] == [*range(20, 30)]


@POSIX
def test_only_the_owner_can_read_the_file(watched, path):
    watched.kit.call("add", {"a": 1})
    watched.wait_for_outcomes("ok")
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    path.chmod(0o644)
    with pytest.raises(ToolSpecError, match="no other user may read it"):
        watched.calls.read()


def test_the_file_of_a_user_is_in_the_folder_for_states(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    calls = WatchedCalls()
    calls.look()
    assert calls.path == tmp_path.resolve() / "ahvn-tools" / "calls-1.sqlite"
    assert stat.S_IMODE(calls.path.parent.stat().st_mode) & 0o077 == 0 or os.name != "posix"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert WatchedCalls().path.is_relative_to(Path.home().resolve())


UNUSABLE: dict[str, Callable[[Path], Any]] = {
    "a folder": Path.mkdir,
    "a text": lambda path: path.write_text("no database " * 1_000),
    "a link": lambda path: path.symlink_to("other.sqlite"),
    "another database": lambda path: sqlite3.connect(path).execute("CREATE TABLE watched_calls (a)").connection.close(),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_an_unusable_file_is_an_error_for_who_looks_and_not_for_calls(path, what):
    UNUSABLE[what](path)
    watched = Watched(path, add)
    if path.is_file() and not path.is_symlink():
        path.chmod(0o600)
    with pytest.raises(ToolSpecError, match="Name another one on a local disk"):
        watched.calls.look()
    assert watched.kit.call("add", {"a": 1}) == 2


@pytest.fixture
def max_calls(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let a file hold, and a writer keep, few calls."""
    for module in ("watch", "watched_calls"):
        monkeypatch.setattr(import_module(f"ahvn_tools.middleware.{module}"), "MAX_CALLS", 200)
    return 200


def test_calls_go_on_while_the_file_is_broken_and_the_newest_are_written_when_it_works(
    watched, path, caplog, max_calls
):
    path.rename(path.with_name("elsewhere"))
    for number in range(2 * max_calls + 5):  # half of them may be in a write that works at last
        assert watched.kit.call("add", {"a": number}) == number + 1
    assert until(lambda: "Calls cannot be watched" in caplog.text)
    path.with_name("elsewhere").rename(path)
    watched.kit.call("add", {"a": 1})
    calls = watched.wait(lambda calls: len(calls) >= max_calls and calls[-1]["arguments"] == '{"a": 1}')
    assert calls[-1]["lost"] > 0
    assert len([record for record in caplog.records if "watched" in record.message]) == 1


BREAKS: dict[str, Callable[[Path], Any]] = {
    "removed": Path.unlink,
    "overwritten": lambda path: path.write_bytes(b"\xff" * 100_000),
    "emptied": lambda path: path.write_bytes(b""),
    "not writable": lambda path: path.chmod(0o444),
}


@pytest.mark.parametrize("how", BREAKS)
def test_a_file_that_breaks_while_it_is_used_costs_no_call(watched, path, how, caplog):
    watched.kit.call("add", {"a": 1})
    watched.wait_for_outcomes("ok")
    BREAKS[how](path)
    assert [watched.kit.call("add", {"a": number}) for number in range(5)] == [1, 2, 3, 4, 5]
    assert until(lambda: "Calls cannot be watched" in caplog.text)


@POSIX
def test_a_full_disk_costs_no_call(watched, path):
    code = """
import logging, resource
warned = threading.Event()
logging.getLogger('ahvn_tools.middleware.watch').addFilter(lambda record: warned.set())
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
assert [kit.call('add', {'a': number}) for number in range(5)] == [0, 1, 2, 3, 4]
assert warned.wait(60)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
kit.call('add', {'a': 5})
"""
    with start(path, code) as process:
        assert process.wait(60) == 0
    watched.wait_for_outcomes(*["ok"] * 6)


def test_a_locked_file_does_not_hold_calls_up(watched, path):
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    for number in range(20):
        assert watched.kit.call("add", {"a": number}) == number + 1
    other.execute("ROLLBACK")
    other.close()
    watched.wait_for_outcomes(*["ok"] * 20)


def test_a_call_whose_end_was_lost_is_not_running_for_ever(watched, path, max_calls):
    go_on = threading.Event()

    def hold() -> None:
        go_on.wait(60)

    watched.kit.add(hold)
    thread = threading.Thread(target=watched.kit.call, args=("hold",))
    thread.start()
    watched.wait_for_outcomes(None)
    path.rename(path.with_name("elsewhere"))
    go_on.set()
    thread.join()
    for number in range(2 * max_calls + 5):
        watched.kit.call("add", {"a": number})
    path.with_name("elsewhere").rename(path)
    watched.wait(lambda calls: any(call["outcome"] == "lost" for call in calls) or len(calls) == max_calls)
    assert all(call["outcome"] for call in watched.read())


def test_two_that_watch_one_call_write_it_once(path):
    watched = Watched(path, add).look()
    watched.kit.use(watch(path))
    watched.kit.call("add", {"a": 1})
    watched.wait_for_outcomes("ok")


PROGRAM = """
import sys, threading
from ahvn_tools import Toolkit
from ahvn_tools.middleware import watch

def hold(number: int) -> None:
    threading.Event().wait(600)

def add(a: int) -> int:
    return a

layer = watch(sys.argv[1])
kit = Toolkit("other", middleware=[layer]).add(hold).add(add)
"""


def start(path: Path, code: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM + code, str(path)], stdout=subprocess.PIPE, text=True)


def test_a_call_in_another_process_is_seen_though_it_ends_at_once(watched, path):
    with start(path, "kit.call('add', {'a': 1})") as process:
        assert process.wait(60) == 0
    [call] = watched.wait_for_outcomes("ok")
    assert (call["toolkit"], call["process"].partition("-")[0]) == ("other", str(process.pid))


@POSIX
def test_the_calls_of_a_killed_process_are_lost(watched, path):
    with start(path, "kit.call('hold', {'number': 1})") as process:
        watched.wait_for_outcomes(None)
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    [call] = watched.wait_for_outcomes("lost")
    assert call["duration"] is None


@POSIX
def test_many_processes_write_to_one_file(watched, path):
    code = "for number in range(50): kit.call('add', {'a': number})"
    processes = [start(path, code) for _ in range(4)]
    for process in processes:
        with process:
            assert process.wait(60) == 0
    watched.wait_for_outcomes(*["ok"] * 200)


@pytest.mark.skipif(not CAN_FORK, reason="this platform does not fork")
def test_a_forked_process_writes_its_own_calls(watched, path):
    code = """
import os
kit.call('add', {'a': 1})
pid = os.fork()
kit.call('add', {'a': 2})
if pid:
    os.waitpid(pid, 0)
"""
    with start(path, code) as process:
        assert process.wait(60) == 0
    calls = watched.wait_for_outcomes("ok", "ok", "ok")
    assert sorted(call["arguments"] for call in calls) == ['{"a": 1}', '{"a": 2}', '{"a": 2}']
    assert len({call["process"] for call in calls}) == 2


GOOD = {
    "tool": "add", "toolkit": "shop", "session": "", "run": "", "program": "p", "arguments": "{}",
    "started": 1.5, "duration": None, "chunks": 0, "lost": 0,
}  # fmt: skip
BAD_ROWS: dict[str, tuple[Any, ...]] = {
    "deep": ("1-1", 1, "ok", "[" * 90_000),
    "list": ("1-1", 1, "ok", "[]"),
    "no JSON": ("1-1", 1, "ok", "{"),
    "no fields": ("1-1", 1, "ok", "{}"),
    "a BLOB as call": ("1-1", 1, "ok", b"\xff"),
    "a BLOB as process": (b"\xff", 1, "ok", json.dumps(GOOD)),
    "a BLOB as outcome": ("1-1", 1, b"\xff", json.dumps(GOOD)),
    "a text as serial": ("1-1", "x", "ok", json.dumps(GOOD)),
    "a long outcome": ("1-1", 1, "o" * 200_000, json.dumps(GOOD)),
    "a long call": ("1-1", 1, "ok", json.dumps({**GOOD, "arguments": "a" * 200_000})),
    **{
        f"{name} as process": (name, 1, None, json.dumps(GOOD))
        for name in ("x", "..-1", "-5-1", "9" * 5_000 + "-1", "", "1-1/", "\u0661-1")
    },
    **{
        f"{value!r} as {name}": ("1-1", 1, "ok", json.dumps({**GOOD, name: value}))
        for name, value in [
            ("started", float("nan")), ("started", float("inf")), ("started", "x"), ("started", 10**400),
            ("started", True), ("duration", "y"), ("duration", float("-inf")), ("tool", {"a": 1}), ("program", None),
            ("arguments", 7), ("run", 5), ("chunks", "<b>"), ("lost", 1.5), ("lost", -1), ("chunks", 2**60),
            ("lost", None), ("session", []),
        ]
    },
}  # fmt: skip


@pytest.mark.parametrize("row", BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_a_row_that_something_else_has_written_is_left_out(watched, path, row):
    insert = "INSERT INTO watched_calls (process, serial, outcome, call) VALUES (?, ?, ?, ?)"
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(insert, ("1-2", 7, "ok", json.dumps({**GOOD, "more": "<b>"})))
        connection.execute(insert, row)
    [read] = watched.read()
    assert read == {**GOOD, "number": 1, "process": "1-2", "serial": 7, "outcome": "ok"}
    watched.kit.exec("add", {"a": 1})
    assert [call["tool"] for call in watched.wait(lambda calls: len(calls) == 2)] == ["add", "add"]


def test_a_text_that_is_no_utf_8_breaks_nothing(watched, path):
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        insert = "INSERT INTO watched_calls (process, serial, outcome, call) VALUES "
        connection.execute(f"{insert} ('1-1', 1, CAST(x'ff' AS TEXT), CAST(x'ff' AS TEXT))")
        connection.execute(f"{insert} (CAST(x'ff' AS TEXT), 1, NULL, '{{}}')")
    assert watched.read() == []


def test_what_was_dropped_is_not_left_in_the_file(watched, path, monkeypatch):
    monkeypatch.setattr(watched_calls, "MAX_CALLS", 1)
    watched.calls.write({1: {**GOOD, "arguments": "an old secret " * 100, "outcome": "ok"}})
    watched.calls.write({2: {**GOOD, "outcome": "ok"}})
    assert [call["serial"] for call in watched.read()] == [2]
    assert b"an old secret" not in path.read_bytes()
