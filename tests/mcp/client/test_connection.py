"""A connection to a server over stdio, which is killed, hangs, writes garbage and floods."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Context, FastMCP
from mcp import ClientSession
from mcp_types import ToolListChangedNotification

from ahvn_tools.errors import (
    InvalidResultError,
    LimitExceededError,
    ToolConnectionError,
    ToolError,
    ToolTimeoutError,
)
from ahvn_tools.execution import background_loop
from ahvn_tools.mcp.client.connection import Connection
from ahvn_tools.mcp.client.handlers import Handlers
from ahvn_tools.mcp.client.targets import Target, resolve_targets
from ahvn_tools.mcp.trust.limits import Limits

RAW = Path(__file__).parents[1] / "raw_server.py"

Connect = Callable[..., Connection]


def is_alive(pid: int) -> bool:
    """Say whether a process runs; one that nobody has waited for yet does not."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def wait_until(is_so: Callable[[], bool], limit: float = 5.0) -> bool:
    until = time.monotonic() + limit
    while not is_so():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """The file that the servers of a test write their process ids to."""
    return tmp_path / "pids"


def pids(mark: Path) -> list[int]:
    return [int(line) for line in mark.read_text().splitlines()] if mark.exists() else []


@pytest.fixture
def connect(mark: Path) -> Iterator[Connect]:
    made: list[Connection] = []

    def connection(mode: str = "good", handlers: Handlers | None = None, **limits: Any) -> Connection:
        (target,) = resolve_targets([sys.executable, str(RAW), mode, str(mark)], name="raw")
        made.append(Connection(target, limits=Limits(**limits), handlers=handlers))
        return made[-1]

    yield connection
    for one in made:
        one.close()
    assert wait_until(lambda: not any(map(is_alive, pids(mark))))


@pytest.fixture
async def lag() -> AsyncIterator[list[float]]:
    """The longest time, in seconds, for which the background loop stood still; asked for only after the test."""
    worst = [0.0]

    async def measure() -> None:
        while True:
            since = time.perf_counter()
            await asyncio.sleep(0.005)
            worst[0] = max(worst[0], time.perf_counter() - since)

    measuring = asyncio.run_coroutine_threadsafe(measure(), background_loop.get_loop())
    yield worst
    measuring.cancel()
    assert worst[0] < 0.5


async def answer(connection: Connection, tool: str, timeout: float | None = 5.0, **arguments: Any) -> Any:
    """What the tool gives."""
    return (await connection.call(tool, arguments, timeout=timeout)).structured_content["result"]


# one process for all


async def test_nothing_is_started_before_the_first_request(connect: Connect, mark: Path) -> None:
    connection = connect()
    assert pids(mark) == []
    assert {"pid", "echo"} <= {tool.name for tool in await connection.tools()}
    assert len(pids(mark)) == 1


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("refuses_the_handshake", "no licence: set RAW_KEY"),
        ("of_another_age", "protocol version.*1999-01-01"),
        ("shapeless_handshake", "its answer to the handshake is no valid MCP"),
    ],
)
async def test_why_there_is_no_connection_is_told(connect: Connect, mode: str, told: str) -> None:
    connection = connect(mode)
    for _ in range(2):
        with pytest.raises(ToolConnectionError, match=told):
            await connection.tools()


async def test_a_server_that_knows_no_tools_has_none(connect: Connect) -> None:
    assert await connect("without_tools").tools() == []


async def test_every_call_gets_its_own_answer_from_one_process(connect: Connect, mark: Path) -> None:
    connection = connect()
    assert await asyncio.gather(*(answer(connection, "echo", number=number) for number in range(200))) == [
        {"number": number} for number in range(200)
    ]
    assert len(pids(mark)) == 1


def test_threads_with_loops_of_their_own_share_a_connection(connect: Connect, mark: Path) -> None:
    connection = connect()
    seen: list[Any] = []

    async def calls(thread: int) -> None:
        for number in range(25):
            given = await answer(connection, "echo", thread=thread, number=number)
            seen.append((thread, number, given))

    threads = [threading.Thread(target=lambda thread=thread: asyncio.run(calls(thread))) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(seen) == 200
    assert all(given == {"thread": thread, "number": number} for thread, number, given in seen)
    assert len(pids(mark)) == 1


def test_a_loop_may_end_before_the_connection(connect: Connect) -> None:
    connection = connect()
    assert asyncio.run(answer(connection, "pid")) == asyncio.run(answer(connection, "pid"))


async def test_a_server_object_in_memory_is_a_server_like_any_other() -> None:
    server = FastMCP("inside")

    @server.tool
    def fail() -> None:
        raise ValueError("no")

    (target,) = resolve_targets(server)
    connection = Connection(target)
    assert (await connection.call("fail", {})).is_error
    assert [tool.name for tool in await connection.tools()] == ["fail"]
    assert repr(connection) == "<Connection 'inside'>"
    await connection.aclose()


# it goes, and comes back


async def killed(pid: int) -> None:
    """Kill a process, and wait until the system says so."""
    os.kill(pid, signal.SIGKILL)
    await asyncio.to_thread(wait_until, lambda: not is_alive(pid))


async def test_a_server_that_was_killed_is_started_again_by_the_next_call(connect: Connect, mark: Path) -> None:
    connection = connect()
    first = await answer(connection, "pid")
    await killed(first)
    assert await answer(connection, "pid") != first
    assert len(pids(mark)) == 2


async def test_a_call_under_way_is_told_at_once_and_not_made_again(connect: Connect, mark: Path) -> None:
    connection = connect()
    since = time.monotonic()
    with pytest.raises(ToolConnectionError, match="'raw' is not there: the server process has ended with exit code 3"):
        await answer(connection, "die")
    assert time.monotonic() - since < 4
    assert len(pids(mark)) == 1
    assert await answer(connection, "pid") == pids(mark)[1]


async def test_all_calls_under_way_are_told(connect: Connect) -> None:
    connection = connect()
    pid = await answer(connection, "pid")
    calls = [asyncio.create_task(answer(connection, "sleep", seconds=60)) for _ in range(5)]
    await asyncio.sleep(0.1)
    await killed(pid)
    told = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(error) for error in told} == {ToolConnectionError}
    assert "SIGKILL" in str(told[0])


async def test_a_repeatable_call_is_made_once_more(connect: Connect, mark: Path) -> None:
    connection = connect()
    assert (await connection.call("die_once", {}, is_repeatable=True)).structured_content == {"result": 2}
    with pytest.raises(ToolConnectionError):
        await connection.call("die", {}, is_repeatable=True)
    assert len(pids(mark)) == 3


async def test_a_tool_that_takes_too_long_leaves_the_connection_as_it_was(connect: Connect, mark: Path) -> None:
    connection = connect()
    pid = await answer(connection, "pid")
    with pytest.raises(ToolTimeoutError, match=r"Tool 'sleep' of server 'raw' took longer than 0\.2 s") as error:
        await answer(connection, "sleep", 0.2, seconds=0.4)
    assert (error.value.timeout, error.value.tool) == (0.2, "sleep")
    assert await answer(connection, "pid") == pid


async def test_a_caller_that_leaves_takes_nothing_from_the_others(connect: Connect, mark: Path) -> None:
    connection = connect()
    calls = [asyncio.create_task(answer(connection, "pid")) for _ in range(3)]
    await asyncio.sleep(0.01)  # while the server starts
    calls[0].cancel()
    assert set(await asyncio.gather(*calls[1:])) == set(pids(mark))
    with pytest.raises(asyncio.CancelledError):
        await calls[0]


async def test_the_server_is_told_of_who_does_not_wait(connect: Connect) -> None:
    connection = connect()
    await answer(connection, "pid")
    with pytest.raises(ToolTimeoutError):
        await answer(connection, "sleep", 0.1, seconds=0.2)
    left = asyncio.create_task(answer(connection, "sleep", seconds=0.3))
    await asyncio.sleep(0.2)
    left.cancel()
    await asyncio.wait({left})
    await asyncio.sleep(0.1)
    assert await answer(connection, "cancelled") == 2


async def test_a_server_object_may_end_what_it_runs_in(lag: list[float]) -> None:
    server = FastMCP("inside")

    @server.tool
    async def leave() -> None:
        raise SystemExit(3)

    @server.tool
    def stay() -> int:
        return 1

    (target,) = resolve_targets(server)
    connection = Connection(target)
    with contextlib.suppress(ToolConnectionError, ToolTimeoutError, ToolError):
        await connection.call("leave", {}, timeout=1)
    assert await answer(connection, "stay") == 1
    await connection.aclose()


async def test_a_flood_in_memory_ends_the_connection_too() -> None:
    server = FastMCP("inside")

    @server.tool
    async def flood(context: Context) -> int:
        for _ in range(100):
            await context.send_notification(ToolListChangedNotification())
        return 1

    (target,) = resolve_targets(server)
    connection = Connection(target, limits=Limits(notifications=50))
    with pytest.raises(ToolConnectionError, match="more than 50 notifications"):
        await answer(connection, "flood")
    await connection.aclose()


async def test_a_server_that_cancels_itself_is_an_error() -> None:
    server = FastMCP("inside")

    @server.tool
    async def leave() -> None:
        raise asyncio.CancelledError

    (target,) = resolve_targets(server)
    connection = Connection(target)
    with pytest.raises((ToolConnectionError, ToolTimeoutError, ToolError)):
        await connection.call("leave", {}, timeout=1)
    assert [tool.name for tool in await connection.tools()] == ["leave"]
    await connection.aclose()


async def test_the_cause_of_a_failure_is_there_for_the_developer() -> None:
    def make(*_: Any) -> Any:
        raise ZeroDivisionError

    connection = Connection(Target(name="broken", make_client=make))
    with pytest.raises(ToolConnectionError, match="ZeroDivisionError") as error:
        await connection.tools()
    assert error.value.__cause__ is not None
    assert isinstance(error.value.__cause__.__cause__, ZeroDivisionError)
    await connection.aclose()


async def test_news_that_are_none_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    async def follow(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("ahvn_tools.mcp.client.subscriptions.watch_list_changes", follow)
    (target,) = resolve_targets(FastMCP("inside"))
    connection = Connection(target)
    assert await connection.tools() == []
    await connection.aclose()


async def test_a_dead_server_does_not_hold_up_the_others(connect: Connect) -> None:
    hanging, good = connect("hang", connect=2.0), connect()
    waiting = asyncio.create_task(answer(hanging, "pid"))
    since = time.monotonic()
    await answer(good, "pid")
    assert time.monotonic() - since < 2
    assert not waiting.done()
    with pytest.raises(ToolConnectionError):
        await waiting


# what it says at its start


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("hang", "there was no connection within 1 s"),
        ("deaf_at_start", "there was no connection within 1 s"),
        ("exit", "the server process has ended with exit code 3"),
        ("garbage", "more than 1000 lines that are no messages"),
        ("endless", "a message of more than 1000000 bytes"),
        ("notify", "more than 300 notifications within 10 s"),
    ],
)
async def test_a_server_that_does_not_start_is_an_error_that_says_why(
    connect: Connect, lag: list[float], mode: str, reason: str
) -> None:
    connection = connect(mode, connect=1.0, message_bytes=1_000_000, notifications=300)
    since = time.monotonic()
    with pytest.raises(ToolConnectionError, match=reason):
        await answer(connection, "pid")
    assert time.monotonic() - since < 4
    await connection.aclose()


async def test_words_before_the_first_message_do_no_harm(connect: Connect) -> None:
    assert await answer(connect("banner"), "echo", a=1) == {"a": 1}


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["/nowhere/server"], "its program or folder does not exist"),
        (["/etc/passwd"], "its program may not be run"),
        (["a\0b"], r"it cannot be reached \(ValueError\)"),
    ],
)
async def test_a_command_that_cannot_be_run_is_an_error_that_says_why(command: list[str], reason: str) -> None:
    (target,) = resolve_targets(command, name="none")
    with pytest.raises(ToolConnectionError, match=f"'none' is not there: {reason}"):
        await Connection(target).tools()


# what it answers


@pytest.mark.parametrize("tool", ["deep", "deep_last"])
async def test_an_answer_that_cannot_be_read_is_an_error_and_no_wait(connect: Connect, tool: str) -> None:
    connection = connect()
    with pytest.raises(InvalidResultError, match="cannot be read"):
        await answer(connection, tool)
    assert await answer(connection, "echo") == {}


async def test_a_second_answer_is_ignored(connect: Connect) -> None:
    connection = connect()
    assert await answer(connection, "twice") == 1
    assert await answer(connection, "echo", a=1) == {"a": 1}


async def test_an_answer_to_nobody_ends_in_a_timeout(connect: Connect) -> None:
    with pytest.raises(ToolTimeoutError):
        await answer(connect(), "wrong_id", 1)


async def test_a_result_that_is_none_is_an_invalid_one(connect: Connect) -> None:
    with pytest.raises(InvalidResultError):
        await answer(connect(), "riddle")


async def test_an_error_result_is_given_as_it_came(connect: Connect) -> None:
    result = await connect().call("fail", {})
    assert result.is_error
    assert result.structured_content == {"result": "it did not work"}


async def test_a_servers_own_error_is_told_short_and_without_hidden_characters(connect: Connect) -> None:
    connection = connect()
    with pytest.raises(ToolError) as error:
        await answer(connection, "refuse")
    assert str(error.value).startswith("no\\u202e \\x1b[31mzz")
    assert len(str(error.value)) < 2100
    with pytest.raises(ToolError, match="error -32603"):
        await answer(connection, "refuse_mutely")


async def test_an_error_that_looks_like_a_lost_connection_is_none(connect: Connect, mark: Path) -> None:
    connection = connect()
    with pytest.raises(ToolError, match="the tool took too long"):
        await answer(connection, "look_closed")
    await answer(connection, "pid")
    assert len(pids(mark)) == 1


@pytest.mark.parametrize("tool", ["close_output", "close_input"])
async def test_a_server_that_closes_a_pipe_is_started_again(connect: Connect, mark: Path, tool: str) -> None:
    connection = connect(close=0.1)
    with contextlib.suppress(ToolConnectionError):
        await answer(connection, tool)
    with contextlib.suppress(ToolConnectionError):
        await answer(connection, "pid")
    assert await answer(connection, "pid") == pids(mark)[1]


async def test_a_hostile_pattern_does_not_stop_the_process(connect: Connect, lag: list[float]) -> None:
    connection = connect()
    await connection.tools()  # mcp checks results by the schemas that it has listed
    result = await connection.call("redos", {}, timeout=5)
    assert result.structured_content == {"text": "a" * 40 + "!"}


def test_mcp_still_has_the_check_that_we_take_out() -> None:
    assert callable(ClientSession.validate_tool_result)


@pytest.mark.parametrize("count", [10, 900])
async def test_lines_that_are_no_messages_are_passed_over(connect: Connect, count: int) -> None:
    assert await answer(connect(), "garbage", lines=count) == "done"


async def test_a_timeout_tells_of_lines_that_are_no_messages(connect: Connect) -> None:
    connection = connect()
    await answer(connection, "garbage", lines=3)
    with pytest.raises(ToolTimeoutError, match="wrote 3 lines that are no messages"):
        await answer(connection, "sleep", 0.1, seconds=0.3)


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("garbage", {"lines": 2_000}, "more than 1000 lines"),
        ("flood", {"count": 5_000}, "more than 500 notifications within 10 s"),
        ("huge", {"size": 2_000_000}, "a message of more than 1000000 bytes"),
    ],
)
async def test_too_much_ends_the_connection_and_the_next_call_makes_another(
    connect: Connect, lag: list[float], tool: str, arguments: dict[str, int], reason: str
) -> None:
    connection = connect(notifications=500, message_bytes=1_000_000)
    with pytest.raises(ToolConnectionError, match=reason):
        await answer(connection, tool, **arguments)
    assert await answer(connection, "echo") == {}


async def test_a_great_result_is_no_trouble(connect: Connect, lag: list[float]) -> None:
    assert len(await answer(connect(), "huge", 20, size=5_000_000)) == 5_000_000


# what it lists


@pytest.mark.parametrize(
    ("mode", "reason"),
    [("pages", "has more than 100 pages"), ("circle", "comes to the same page again"), ("many", "more than 200 tools")],
)
async def test_a_list_without_an_end_is_an_error(connect: Connect, mode: str, reason: str) -> None:
    connection = connect(mode, tools=200)
    with pytest.raises(LimitExceededError, match=f"The list of tools of server 'raw' .*{reason}"):
        await connection.tools()


async def test_a_list_that_does_not_come_ends_in_a_timeout(connect: Connect) -> None:
    with pytest.raises(ToolTimeoutError, match=r"Listing the tools of server 'raw' took longer than 0\.3 s"):
        await connect("slow_list", listing=0.3, close=0.1).tools()


# what it asks and tells


async def test_a_server_that_asks_is_told_no(connect: Connect) -> None:
    connection = connect()
    assert await answer(connection, "elicit") == {"action": "decline"}
    assert "not supported" in (await answer(connection, "sample"))["message"]


async def test_handlers_answer_a_server_that_asks(connect: Connect) -> None:
    threads: list[int] = []

    async def elicitation(message: str, _kind: Any, _params: Any, _context: Any) -> Any:
        return {"colour": f"red, since you ask: {message}"}

    def sampling(messages: Any, _params: Any, _context: Any) -> str:
        threads.append(threading.get_ident())
        return f"you said {messages[0].content.text}"

    connection = connect(handlers=Handlers(elicitation=elicitation, sampling=sampling))
    assert (await answer(connection, "elicit"))["content"] == {"colour": "red, since you ask: Which colour?"}
    assert (await answer(connection, "sample"))["content"]["text"] == "you said hello"
    loops = asyncio.run_coroutine_threadsafe(_thread(), background_loop.get_loop())
    assert threads != [await asyncio.wrap_future(loops)]  # a sync handler does not hold up the loop


async def _thread() -> int:
    return threading.get_ident()


async def test_a_handler_that_raises_tells_the_server_nothing(connect: Connect) -> None:
    def elicitation(*_: Any) -> Any:
        raise ValueError("our secret")

    connection = connect(handlers=Handlers(elicitation=elicitation))
    assert (await answer(connection, "elicit"))["message"] == "The client could not answer."


async def test_progress_is_reported_in_order(connect: Connect) -> None:
    seen: list[Any] = []

    def progress(*report: Any) -> None:
        seen.append(report)
        raise ValueError("what hears of progress is nobody's business")

    await connect().call("progress", {"count": 20}, on_progress=progress)
    assert seen == [(number, None, str(number)) for number in range(20)]


async def test_a_row_of_changes_is_told_once(connect: Connect) -> None:
    connection, told = connect(), []

    def broken() -> None:
        raise ValueError("what hears of changes is nobody's business")

    connection.on_list_changed(broken)
    undo = connection.on_list_changed(lambda: told.append("changed"))
    await answer(connection, "change", times=50)
    await asyncio.sleep(0.2)
    assert told == ["changed"]
    undo()
    undo()
    await answer(connection, "change", times=1)
    await asyncio.sleep(0.2)
    assert told == ["changed"]


async def test_a_server_that_had_to_be_started_again_may_have_changed(connect: Connect) -> None:
    connection, told = connect(), []
    connection.on_list_changed(lambda: told.append("changed"))
    await killed(await answer(connection, "pid"))
    await answer(connection, "pid")
    await asyncio.sleep(0.2)
    assert told == ["changed"]


# its end


@pytest.mark.parametrize("mode", ["good", "deaf", "family", "hang"])
async def test_closing_leaves_no_process(connect: Connect, mark: Path, mode: str) -> None:
    connection = connect(mode, connect=0.5, close=0.3)
    with contextlib.suppress(ToolConnectionError):
        await answer(connection, "pid")
    since = time.monotonic()
    await connection.aclose()
    assert time.monotonic() - since < 3
    assert len(pids(mark)) == (2 if mode == "family" else 1)
    assert wait_until(lambda: not any(map(is_alive, pids(mark))), 0.5)


async def test_a_closed_connection_is_closed_for_good(connect: Connect, mark: Path) -> None:
    connection = connect()
    await answer(connection, "pid")
    await connection.aclose()
    await connection.aclose()
    connection.close()
    with pytest.raises(ToolConnectionError, match="was closed"):
        await answer(connection, "pid")
    assert len(pids(mark)) == 1


async def test_a_connection_that_was_never_used_can_be_closed(connect: Connect) -> None:
    connection = connect()
    await connection.aclose()
    connection.close()
    with pytest.raises(ToolConnectionError, match="was closed"):
        await connection.tools()


def test_a_connection_can_be_closed_without_a_loop(connect: Connect, mark: Path) -> None:
    connection = connect()
    asyncio.run(answer(connection, "pid"))
    connection.close()
    assert not is_alive(pids(mark)[0])


async def test_closing_on_the_background_loop_does_not_wait_for_itself(connect: Connect, mark: Path) -> None:
    connection = connect()
    await answer(connection, "pid")

    async def close() -> None:
        connection.close()

    await background_loop.arun(close)
    assert await asyncio.to_thread(wait_until, lambda: not is_alive(pids(mark)[0]))


async def test_closing_waits_for_servers_that_were_given_up(connect: Connect, mark: Path) -> None:
    connection = connect(close=0.3)
    for _ in range(2):
        with pytest.raises(ToolConnectionError):
            await answer(connection, "close_output")
    await answer(connection, "pid")
    await connection.aclose()
    assert len(pids(mark)) == 3
    assert not any(map(is_alive, pids(mark)))


async def test_whoever_waits_is_told_of_the_close(connect: Connect) -> None:
    connection = connect(close=0.1)
    waiting = asyncio.create_task(answer(connection, "sleep", seconds=60))
    await asyncio.sleep(0.3)
    await connection.aclose()
    with pytest.raises(ToolConnectionError, match="The connection to server 'raw' was closed"):
        await waiting


async def test_a_connection_that_is_forgotten_ends_its_server(mark: Path) -> None:
    (target,) = resolve_targets([sys.executable, str(RAW), "good", str(mark)])
    connection = Connection(target)
    await answer(connection, "pid")
    del connection
    gc.collect()
    assert await asyncio.to_thread(wait_until, lambda: not is_alive(pids(mark)[0]))


EXIT = """
import asyncio, sys
from ahvn_tools.execution import background_loop as bridge
from ahvn_tools.mcp.client.connection import Connection
from ahvn_tools.mcp.trust.limits import Limits
from ahvn_tools.mcp.client.targets import resolve_targets

RAW, MARK, HOW = sys.argv[1:]

def connection(mode):
    return Connection(resolve_targets([sys.executable, RAW, mode, MARK])[0], limits=Limits(close=0.5))

if HOW == "block":
    import ahvn_tools.mcp.client.connection, time
    ahvn_tools.mcp.client.connection.MAX_EXIT_SECONDS = 0.5

kept = [connection("good"), connection("deaf"), connection("family"), connection("deaf_at_start")]

async def main():
    for one in kept[:3]:
        await one.call("pid", {})
    calls = [asyncio.ensure_future(kept[0].call("sleep", {"seconds": 60})), asyncio.ensure_future(kept[3].tools())]
    await asyncio.wait(calls, timeout=0.3)
    if HOW == "raise":
        raise ValueError("the end")
    if HOW == "exit":
        sys.exit(0)
    if HOW == "block":
        bridge.call_soon(lambda: time.sleep(60))

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["raise", "exit", "block"])
def test_no_server_outlives_the_program(mark: Path, tmp_path: Path, how: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(EXIT)
    since = time.monotonic()
    ended = subprocess.run(
        [sys.executable, str(program), str(RAW), str(mark), how],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == (1 if how == "raise" else 0), ended.stderr
    assert ("ValueError: the end" in ended.stderr) == (how == "raise")
    assert "Task was destroyed" not in ended.stderr
    assert time.monotonic() - since < 15
    assert len(pids(mark)) == 5
    assert wait_until(lambda: not any(map(is_alive, pids(mark))), 1)


FORK = """
import asyncio, os, sys
from ahvn_tools.mcp.client.connection import Connection
from ahvn_tools.mcp.client.targets import resolve_targets

connection = Connection(resolve_targets([sys.executable, sys.argv[1], "good", sys.argv[2]])[0])
pid = lambda: asyncio.run(connection.call("pid", {})).structured_content["result"]
first = pid()
child = os.fork()
if not child:
    second = pid()
    connection.close()
    os._exit(0 if second != first else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert pid() == first
"""


def test_a_forked_child_has_a_server_of_its_own(mark: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(FORK)
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", str(program), str(RAW), str(mark)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert len(pids(mark)) == 2
    assert wait_until(lambda: not any(map(is_alive, pids(mark))), 1)
