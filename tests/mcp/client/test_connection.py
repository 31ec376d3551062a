"""A connection to a server that is killed, hangs, writes garbage or floods; and one for each set of credentials."""

from __future__ import annotations

import asyncio
import contextlib
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
from fastmcp.client.transports import FastMCPTransport
from mcp import ClientSession
from mcp.server.mcpserver import MCPServer
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp_types import ToolListChangedNotification

from ahvn_tools.errors import (
    InvalidResultError,
    LimitExceededError,
    ToolConnectionError,
    ToolError,
    ToolTimeoutError,
)
from ahvn_tools.execution import background_loop
from ahvn_tools.mcp.client import connection as connection_module
from ahvn_tools.mcp.client.client_settings import ClientSettings
from ahvn_tools.mcp.client.connection import ConnectionPool
from ahvn_tools.mcp.client.targets import Target, resolve_targets
from ahvn_tools.mcp.trust.limits import Limits
from tests.mcp.hostile.meter import Stall

RAW = Path(__file__).parents[1] / "raw_server.py"

Connect = Callable[..., ConnectionPool]


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
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
    made: list[ConnectionPool] = []

    def connection(
        mode: str = "good",
        on_list_changed: Callable[[], None] = lambda: None,
        elicitation: Callable[..., Any] | None = None,
        sampling: Callable[..., Any] | None = None,
        **limits: Any,
    ) -> ConnectionPool:
        (target,) = resolve_targets([sys.executable, str(RAW), mode, str(mark)], name="raw")
        settings = ClientSettings(elicitation=elicitation, sampling=sampling, limits=Limits(**limits))
        made.append(ConnectionPool(target, settings, on_list_changed=on_list_changed))
        return made[-1]

    yield connection
    for one in made:
        one.close()
    assert wait_until(lambda: not any(map(is_alive, pids(mark))))


@pytest.fixture
async def lag() -> AsyncIterator[Stall]:
    """The longest time for which the background loop was blocked; checked after the test."""
    stall = Stall()
    measuring = asyncio.run_coroutine_threadsafe(stall.watch(), background_loop.get_loop())
    yield stall
    measuring.cancel()
    assert stall.worst < 0.5


async def answer(connection: ConnectionPool, tool: str, timeout: float | None = 5.0, **arguments: Any) -> Any:
    """Return the result of a tool."""
    return (await connection.call(tool, arguments, timeout=timeout)).structured_content["result"]


# one process for all


async def test_no_process_starts_before_the_first_request(connect: Connect, mark: Path) -> None:
    connection = connect()
    assert pids(mark) == []
    assert {"pid", "echo"} <= {tool.name for tool in await connection.tools()}
    assert len(pids(mark)) == 1


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("refuses_the_handshake", "no licence: set RAW_KEY"),
        ("of_another_age", "protocol version.*1999-01-01"),
        ("shapeless_handshake", "its answer to the handshake is not valid MCP"),
    ],
)
async def test_failed_handshake_error_says_why(connect: Connect, mode: str, reason: str) -> None:
    connection = connect(mode)
    for _ in range(2):
        with pytest.raises(ToolConnectionError, match=reason):
            await connection.tools()


async def test_server_without_the_tools_method_has_no_tools(connect: Connect) -> None:
    assert await connect("without_tools").tools() == []


async def test_concurrent_calls_share_one_process_and_get_their_own_results(connect: Connect, mark: Path) -> None:
    connection = connect()
    assert await asyncio.gather(*(answer(connection, "echo", number=number) for number in range(200))) == [
        {"number": number} for number in range(200)
    ]
    assert len(pids(mark)) == 1


def test_threads_with_separate_loops_share_a_connection(connect: Connect, mark: Path) -> None:
    connection = connect()
    seen: list[Any] = []

    async def calls(thread: int) -> None:
        for number in range(25):
            result = await answer(connection, "echo", thread=thread, number=number)
            seen.append((thread, number, result))

    threads = [threading.Thread(target=lambda thread=thread: asyncio.run(calls(thread))) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(seen) == 200
    assert all(result == {"thread": thread, "number": number} for thread, number, result in seen)
    assert len(pids(mark)) == 1


async def test_server_object_in_memory_is_called_like_other_servers() -> None:
    server = FastMCP("inside")

    @server.tool
    def fail() -> None:
        raise ValueError("no")

    (target,) = resolve_targets(server)
    connection = ConnectionPool(target)
    assert (await connection.call("fail", {})).is_error
    assert [tool.name for tool in await connection.tools()] == ["fail"]
    assert repr(connection) == "<ConnectionPool 'inside' of 0>"
    await connection.aclose()


# lost and restarted servers


async def kill(pid: int) -> None:
    """Kill a process, and wait until it has ended."""
    os.kill(pid, signal.SIGKILL)
    await asyncio.to_thread(wait_until, lambda: not is_alive(pid))


async def test_next_call_restarts_a_killed_server(connect: Connect, mark: Path) -> None:
    connection = connect()
    first = await answer(connection, "pid")
    await kill(first)
    assert await answer(connection, "pid") != first
    assert len(pids(mark)) == 2


async def test_pending_call_fails_at_once_and_is_not_repeated(connect: Connect, mark: Path) -> None:
    connection = connect()
    since = time.monotonic()
    with pytest.raises(
        ToolConnectionError, match="'raw' is not available: the server process has ended with exit code 3"
    ):
        await answer(connection, "die")
    assert time.monotonic() - since < 15
    assert len(pids(mark)) == 1
    assert await answer(connection, "pid") == pids(mark)[1]


async def test_all_pending_calls_fail_when_the_server_is_killed(connect: Connect) -> None:
    connection = connect()
    pid = await answer(connection, "pid")
    calls = [asyncio.create_task(answer(connection, "sleep", seconds=60)) for _ in range(5)]
    await asyncio.sleep(0.1)
    await kill(pid)
    errors = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(error) for error in errors} == {ToolConnectionError}
    assert "SIGKILL" in str(errors[0])


async def test_repeatable_call_is_repeated_once(connect: Connect, mark: Path) -> None:
    connection = connect()
    assert (await connection.call("die_once", {}, is_repeatable=True)).structured_content == {"result": 2}
    with pytest.raises(ToolConnectionError):
        await connection.call("die", {}, is_repeatable=True)
    assert len(pids(mark)) == 3


async def test_timeout_keeps_the_connection(connect: Connect, mark: Path) -> None:
    connection = connect()
    pid = await answer(connection, "pid")
    with pytest.raises(ToolTimeoutError, match=r"Tool 'sleep' of server 'raw' took longer than 0\.2 s") as error:
        await answer(connection, "sleep", 0.2, seconds=0.4)
    assert (error.value.timeout, error.value.tool) == (0.2, "sleep")
    assert await answer(connection, "pid") == pid


async def test_cancelled_call_does_not_affect_other_calls(connect: Connect, mark: Path) -> None:
    connection = connect()
    calls = [asyncio.create_task(answer(connection, "pid")) for _ in range(3)]
    await asyncio.sleep(0.01)  # while the server starts
    calls[0].cancel()
    assert set(await asyncio.gather(*calls[1:])) == set(pids(mark))
    with pytest.raises(asyncio.CancelledError):
        await calls[0]


async def test_server_receives_a_cancellation_for_an_abandoned_request(connect: Connect) -> None:
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


async def test_notification_flood_from_a_server_object_ends_the_connection() -> None:
    server = FastMCP("inside")

    @server.tool
    async def flood(context: Context) -> int:
        for _ in range(100):
            await context.send_notification(ToolListChangedNotification())
        return 1

    (target,) = resolve_targets(server)
    connection = ConnectionPool(target, ClientSettings(limits=Limits(notifications=50)))
    with pytest.raises(ToolConnectionError, match="more than 50 notifications"):
        await answer(connection, "flood")
    await connection.aclose()


async def test_connection_error_has_the_original_exception_as_cause() -> None:
    def make(*_: Any) -> Any:
        raise ZeroDivisionError

    connection = ConnectionPool(Target(name="broken", make_client=make))
    with pytest.raises(ToolConnectionError, match="ZeroDivisionError") as error:
        await connection.tools()
    assert error.value.__cause__ is not None
    assert isinstance(error.value.__cause__.__cause__, ZeroDivisionError)
    await connection.aclose()


async def test_failing_subscription_does_not_break_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    subscribed = threading.Event()

    def listen(*_: Any, **__: Any) -> None:
        subscribed.set()
        raise ZeroDivisionError

    monkeypatch.setattr("mcp.client.subscriptions.listen", listen)
    connection = ConnectionPool(resolve_targets(MCPServer("inside", subscriptions=InMemorySubscriptionBus()))[0])
    assert await connection.tools() == []
    assert await asyncio.to_thread(subscribed.wait, 3)
    assert await connection.tools() == []
    await connection.aclose()


async def test_hanging_server_does_not_delay_other_servers(connect: Connect) -> None:
    hanging, good = connect("hang", connect=60.0), connect()
    waiting = asyncio.create_task(answer(hanging, "pid"))
    await answer(good, "pid")
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


# the start of a server


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("hang", "there was no connection within 0.4 s"),
        ("deaf_at_start", "there was no connection within 0.4 s"),
        ("exit", "the server process has ended with exit code 3"),
        ("garbage", "more than 1000 lines that are not messages"),
        ("endless", "a message of more than 1000000 bytes"),
        ("notify", "more than 300 notifications within 10 s"),
    ],
)
async def test_failed_start_error_says_why(connect: Connect, lag: Stall, mode: str, reason: str) -> None:
    seconds = 0.4 if "0.4 s" in reason else 20.0
    connection = connect(mode, connect=seconds, message_bytes=1_000_000, notifications=300)
    since = time.monotonic()
    with pytest.raises(ToolConnectionError, match=reason):
        await answer(connection, "pid")
    assert time.monotonic() - since < 15
    await connection.aclose()


async def test_output_before_the_first_message_is_ignored(connect: Connect) -> None:
    assert await answer(connect("banner"), "echo", a=1) == {"a": 1}


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["/nowhere/server"], "its program or folder does not exist"),
        (["/etc/passwd"], "its program may not be run"),
        (["a\0b"], r"it cannot be reached \(ValueError\)"),
    ],
)
async def test_command_that_cannot_run_is_an_error_that_says_why(command: list[str], reason: str) -> None:
    (target,) = resolve_targets(command, name="none")
    with pytest.raises(ToolConnectionError, match=f"'none' is not available: {reason}"):
        await ConnectionPool(target).tools()


# answers


@pytest.mark.parametrize("tool", ["deep", "deep_last"])
async def test_unreadable_answer_is_an_error_and_not_a_timeout(connect: Connect, tool: str) -> None:
    connection = connect()
    with pytest.raises(InvalidResultError, match="cannot be read"):
        await answer(connection, tool)
    assert await answer(connection, "echo") == {}


async def test_second_answer_is_ignored(connect: Connect) -> None:
    connection = connect()
    assert await answer(connection, "twice") == 1
    assert await answer(connection, "echo", a=1) == {"a": 1}


async def test_answer_with_an_unknown_id_ends_in_a_timeout(connect: Connect) -> None:
    with pytest.raises(ToolTimeoutError):
        await answer(connect(), "wrong_id", 0.4)


async def test_malformed_result_is_an_invalid_result(connect: Connect) -> None:
    with pytest.raises(InvalidResultError):
        await answer(connect(), "riddle")


async def test_error_result_is_returned_unchanged(connect: Connect) -> None:
    result = await connect().call("fail", {})
    assert result.is_error
    assert result.structured_content == {"result": "it did not work"}


async def test_server_error_text_is_cut_and_escaped(connect: Connect) -> None:
    connection = connect()
    with pytest.raises(ToolError) as error:
        await answer(connection, "refuse")
    assert str(error.value).startswith("no\\u202e \\x1b[31mzz")
    assert len(str(error.value)) < 2100
    with pytest.raises(ToolError, match="error -32603"):
        await answer(connection, "refuse_mutely")


async def test_server_error_with_the_code_of_a_closed_connection_keeps_the_connection(
    connect: Connect, mark: Path
) -> None:
    connection = connect()
    with pytest.raises(ToolError, match="the tool took too long"):
        await answer(connection, "look_closed")
    await answer(connection, "pid")
    assert len(pids(mark)) == 1


@pytest.mark.parametrize("tool", ["close_output", "close_input"])
async def test_server_that_closes_a_pipe_is_restarted(connect: Connect, mark: Path, tool: str) -> None:
    connection = connect(close=0.1)
    with contextlib.suppress(ToolConnectionError):
        await answer(connection, tool)
    with contextlib.suppress(ToolConnectionError):
        await answer(connection, "pid")
    assert await answer(connection, "pid") == pids(mark)[1]


async def test_slow_pattern_in_an_output_schema_does_not_block_the_loop(connect: Connect, lag: Stall) -> None:
    connection = connect()
    await connection.tools()  # mcp checks results by the schemas that it has listed
    result = await connection.call("redos", {}, timeout=5)
    assert result.structured_content == {"text": "a" * 40 + "!"}


def test_mcp_still_has_the_validation_method_that_the_session_replaces() -> None:
    assert callable(ClientSession.validate_tool_result)


@pytest.mark.parametrize("count", [10, 900])
async def test_stray_lines_are_ignored(connect: Connect, count: int) -> None:
    assert await answer(connect(), "garbage", lines=count) == "done"


async def test_timeout_error_mentions_stray_lines(connect: Connect) -> None:
    connection = connect()
    await answer(connection, "garbage", lines=3)
    with pytest.raises(ToolTimeoutError, match="wrote 3 lines that are not messages"):
        await answer(connection, "sleep", 0.1, seconds=0.3)


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("garbage", {"lines": 2_000}, "more than 1000 lines"),
        ("flood", {"count": 5_000}, "more than 500 notifications within 10 s"),
        ("huge", {"size": 2_000_000}, "a message of more than 1000000 bytes"),
    ],
)
async def test_exceeded_limit_ends_the_connection_and_the_next_call_reconnects(
    connect: Connect, lag: Stall, tool: str, arguments: dict[str, int], reason: str
) -> None:
    connection = connect(notifications=500, message_bytes=1_000_000)
    with pytest.raises(ToolConnectionError, match=reason):
        await answer(connection, tool, **arguments)
    assert await answer(connection, "echo") == {}


async def test_large_result_does_not_block_the_loop(connect: Connect, lag: Stall) -> None:
    assert len(await answer(connect(), "huge", 20, size=5_000_000)) == 5_000_000


# listings


@pytest.mark.parametrize(
    ("mode", "reason"),
    [("pages", "has more than 100 pages"), ("circle", "repeats a page"), ("many", "more than 200 tools")],
)
async def test_endless_list_of_tools_is_an_error(connect: Connect, mode: str, reason: str) -> None:
    connection = connect(mode, tools=200)
    with pytest.raises(LimitExceededError, match=f"The list of tools of server 'raw' .*{reason}"):
        await connection.tools()


async def test_list_of_tools_that_never_arrives_ends_in_a_timeout(connect: Connect) -> None:
    with pytest.raises(ToolTimeoutError, match=r"Listing the tools of server 'raw' took longer than 0\.3 s"):
        await connect("slow_list", listing=0.3, close=0.1).tools()


# requests and notifications of the server


async def test_client_without_handlers_declines_requests(connect: Connect) -> None:
    connection = connect()
    assert await answer(connection, "elicit") == {"action": "decline"}
    assert "not supported" in (await answer(connection, "sample"))["message"]


async def test_handlers_answer_the_servers_requests(connect: Connect) -> None:
    threads: list[int] = []

    async def elicitation(message: str, _kind: Any, _params: Any, _context: Any) -> Any:
        return {"colour": f"red, since you ask: {message}"}

    def sampling(messages: Any, _params: Any, _context: Any) -> str:
        threads.append(threading.get_ident())
        return f"you said {messages[0].content.text}"

    connection = connect(elicitation=elicitation, sampling=sampling)
    assert (await answer(connection, "elicit"))["content"] == {"colour": "red, since you ask: Which colour?"}
    assert (await answer(connection, "sample"))["content"]["text"] == "you said hello"
    loops = asyncio.run_coroutine_threadsafe(_thread(), background_loop.get_loop())
    assert threads != [await asyncio.wrap_future(loops)]  # a sync handler does not block the loop


async def _thread() -> int:
    return threading.get_ident()


async def test_exception_of_a_handler_is_not_sent_to_the_server(connect: Connect) -> None:
    def elicitation(*_: Any) -> Any:
        raise ValueError("our secret")

    connection = connect(elicitation=elicitation)
    assert (await answer(connection, "elicit"))["message"] == "The client could not answer."


async def test_progress_is_reported_in_order(connect: Connect) -> None:
    seen: list[Any] = []

    def progress(*report: Any) -> None:
        seen.append(report)

    await connect().call("progress", {"count": 20}, on_progress=progress)
    assert seen == [(number, None, str(number)) for number in range(20)]


async def test_restart_of_a_server_is_notified_as_a_change(connect: Connect) -> None:
    notified: list[str] = []
    connection = connect(on_list_changed=lambda: notified.append("changed"))
    await kill(await answer(connection, "pid"))
    await answer(connection, "pid")
    await asyncio.sleep(0.2)
    assert notified == ["changed"]


# closing


@pytest.mark.parametrize("mode", ["good", "deaf", "family", "hang"])
async def test_closing_leaves_no_process(connect: Connect, mark: Path, mode: str) -> None:
    connection = connect(mode, connect=0.5, close=0.3)
    with contextlib.suppress(ToolConnectionError):
        await answer(connection, "pid")
    since = time.monotonic()
    await connection.aclose()
    assert time.monotonic() - since < 15
    assert len(pids(mark)) == (2 if mode == "family" else 1)
    assert wait_until(lambda: not any(map(is_alive, pids(mark))), 10)


async def test_closed_connection_cannot_be_used_again(connect: Connect, mark: Path) -> None:
    connection = connect()
    await answer(connection, "pid")
    await connection.aclose()
    await connection.aclose()
    connection.close()
    with pytest.raises(ToolConnectionError, match="was closed"):
        await answer(connection, "pid")
    assert len(pids(mark)) == 1


async def test_closing_waits_for_the_processes_of_failed_sessions(connect: Connect, mark: Path) -> None:
    connection = connect(close=0.3)
    for _ in range(2):
        with pytest.raises(ToolConnectionError):
            await answer(connection, "close_output")
    await answer(connection, "pid")
    await connection.aclose()
    assert len(pids(mark)) == 3
    assert not any(map(is_alive, pids(mark)))


async def test_pending_call_fails_when_the_connection_is_closed(connect: Connect) -> None:
    connection = connect(close=0.1)
    waiting = asyncio.create_task(answer(connection, "sleep", seconds=60))
    await asyncio.sleep(0.3)
    await connection.aclose()
    with pytest.raises(ToolConnectionError, match="The connection to server 'raw' was closed"):
        await waiting


EXIT = """
import asyncio, sys
from ahvn_tools.execution import background_loop
from ahvn_tools.mcp.client.client_settings import ClientSettings
from ahvn_tools.mcp.client import connection as connection_module
from ahvn_tools.mcp.client.connection import ConnectionPool
from ahvn_tools.mcp.trust.limits import Limits
from ahvn_tools.mcp.client.targets import resolve_targets

RAW, MARK, HOW = sys.argv[1:]

def connection(mode):
    settings = ClientSettings(limits=Limits(close=0.5))
    return ConnectionPool(resolve_targets([sys.executable, RAW, mode, MARK])[0], settings)

if HOW == "block":
    import ahvn_tools.mcp.client.connection, time
    ahvn_tools.mcp.client.connection.MAX_EXIT_SECONDS = 0.5

connections = [connection("good"), connection("deaf"), connection("family"), connection("deaf_at_start")]

async def main():
    for one in connections[:3]:
        await one.call("pid", {})
    requests = [connections[0].call("sleep", {"seconds": 60}), connections[3].tools()]
    await asyncio.wait(map(asyncio.ensure_future, requests), timeout=0.3)
    if HOW == "raise":
        raise ValueError("the end")
    if HOW == "exit":
        sys.exit(0)
    if HOW == "block":
        background_loop.call_soon(lambda: time.sleep(60))

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "how", ["raise", *(pytest.param(how, marks=pytest.mark.exhaustive) for how in ("exit", "block"))]
)
@pytest.mark.exhaustive
def test_no_server_outlives_the_program(mark: Path, tmp_path: Path, how: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(EXIT)
    since = time.monotonic()
    ended = subprocess.run(
        [sys.executable, str(program), str(RAW), str(mark), how],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == (1 if how == "raise" else 0), ended.stderr
    assert ("ValueError: the end" in ended.stderr) == (how == "raise")
    assert "Task was destroyed" not in ended.stderr
    assert time.monotonic() - since < 50
    assert len(pids(mark)) == 5
    assert wait_until(lambda: not any(map(is_alive, pids(mark))), 10)


class CountingTarget:
    """A target in memory that records the headers of its clients, and counts opened and closed ones."""

    def __init__(self) -> None:
        self.headers: list[dict[str, str]] = []
        self.opened = self.closed = 0
        self.gate = asyncio.Event()

    @contextlib.asynccontextmanager
    async def _life(self, _server: Any) -> AsyncIterator[None]:
        self.opened += 1
        yield
        self.closed += 1

    async def wait(self) -> str:
        await self.gate.wait()
        return "waited"

    def number(self) -> int:
        return self.opened

    async def change(self, context: Context) -> None:
        await context.send_notification(ToolListChangedNotification())

    def target(self) -> Target:
        from ahvn_tools.mcp.client import fastmcp_clients

        def make(settings: ClientSettings) -> Any:
            self.headers.append(dict(settings.headers))
            server = FastMCP("inside", lifespan=self._life)
            server.tool(self.wait)
            server.tool(self.number)
            server.tool(self.change)
            return fastmcp_clients.make_client(FastMCPTransport(server), settings)

        return Target(name="inside", make_client=make, takes_headers=True)


@pytest.fixture
async def made() -> CountingTarget:
    return CountingTarget()


async def until(is_so: Any, limit: float = 3.0) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + limit
    while not is_so():
        assert loop.time() < end
        await asyncio.sleep(0.01)


def user(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


async def test_equal_headers_share_a_connection_whatever_their_case_and_order(made: CountingTarget) -> None:
    pool = ConnectionPool(made.target())
    for headers in ({"A": "1", "b": "2"}, {"B": "2", "a": "1"}, {"a": "1", "b": "3"}, None, {}):
        await pool.call("number", {}, headers=headers)
    assert made.headers == [{"a": "1", "b": "2"}, {"a": "1", "b": "3"}, {}]
    await pool.aclose()
    assert (made.opened, made.closed) == (3, 3)


async def test_least_recently_used_connection_is_closed_for_a_new_one(
    made: CountingTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "MAX_CONNECTIONS", 2)
    pool = ConnectionPool(made.target())
    for name in ("a", "b", "a", "c", "a", "b"):
        await pool.call("number", {}, headers=user(name))
    assert [headers["authorization"][-1] for headers in made.headers] == ["a", "b", "c", "b"]
    await until(lambda: made.closed == 2)
    await pool.aclose()
    await until(lambda: made.closed == 4)


async def test_call_waits_while_all_connections_are_in_use(
    made: CountingTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "MAX_CONNECTIONS", 1)
    pool = ConnectionPool(made.target())
    first = asyncio.create_task(pool.call("wait", {}, headers=user("a")))
    await until(lambda: made.opened == 1)
    second = asyncio.create_task(pool.call("number", {}, headers=user("b")))
    third = asyncio.create_task(pool.call("number", {}, headers=user("c")))
    await asyncio.sleep(0.1)
    assert len(made.headers) == 1
    background_loop.call_soon(made.gate.set)
    assert (await first).structured_content == {"result": "waited"}
    await asyncio.gather(second, third)
    assert len(made.headers) == 3
    await pool.aclose()


async def test_idle_connections_with_headers_are_closed(made: CountingTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "IDLE_SECONDS", 0.2)
    pool = ConnectionPool(made.target())
    await pool.call("number", {})
    await pool.call("number", {}, headers=user("a"))
    for _ in range(4):
        await asyncio.sleep(0.1)
        await pool.call("number", {}, headers=user("b"))
    assert made.opened == 3
    await until(lambda: made.closed == 2)
    await pool.call("number", {})
    assert made.opened == 3
    await pool.aclose()


async def test_connection_in_use_is_not_closed_as_idle(made: CountingTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "IDLE_SECONDS", 0.1)
    pool = ConnectionPool(made.target())
    call = asyncio.create_task(pool.call("wait", {}, headers=user("a")))
    await pool.call("number", {}, headers=user("b"))
    await until(lambda: made.closed == 1)
    await asyncio.sleep(0.3)
    background_loop.call_soon(made.gate.set)
    await call
    await pool.aclose()


async def test_change_on_any_connection_is_notified(made: CountingTarget) -> None:
    notified: list[str] = []
    pool = ConnectionPool(made.target(), on_list_changed=lambda: notified.append("changed"))
    for number, headers in enumerate((None, user("a")), start=1):
        await pool.call("change", {}, headers=headers)
        await until(lambda number=number: notified == ["changed"] * number)
    await pool.aclose()


async def test_closed_pool_refuses_calls(made: CountingTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "MAX_CONNECTIONS", 1)
    pool = ConnectionPool(made.target())
    waiting = asyncio.create_task(pool.call("wait", {}, headers=user("a")))
    await until(lambda: made.opened == 1)
    queued = asyncio.create_task(pool.call("wait", {}, headers=user("b")))
    await asyncio.sleep(0.05)
    await pool.aclose()
    for call in (waiting, queued):
        with pytest.raises(ToolConnectionError, match="closed"):
            await call
    for headers in (None, user("a")):
        with pytest.raises(ToolConnectionError, match="closed"):
            await pool.call("number", {}, headers=headers)
    await until(lambda: made.closed == 1)


@pytest.mark.parametrize("is_used", [True, False])
def test_pool_can_be_closed_without_a_loop(is_used: bool) -> None:
    made = CountingTarget()
    pool = ConnectionPool(made.target())
    if is_used:
        asyncio.run(pool.call("number", {}, headers=user("a")))
    pool.close()
    pool.close()
    assert made.closed == made.opened == is_used
    for headers in (None, user("a")):
        with pytest.raises(ToolConnectionError, match="closed"):
            asyncio.run(pool.call("number", {}, headers=headers))


async def test_closing_on_the_background_loop_does_not_wait_for_itself(made: CountingTarget) -> None:
    pool = ConnectionPool(made.target())
    await pool.call("number", {})

    async def close() -> None:
        pool.close()

    await background_loop.arun(close)
    await until(lambda: made.closed == 1)


async def test_headers_are_refused_for_a_server_that_is_not_reached_over_http() -> None:
    pool = ConnectionPool(resolve_targets(FastMCP("inside"))[0])
    with pytest.raises(ToolConnectionError, match="takes no headers") as error:
        await pool.call("number", {}, headers=user("a"))
    assert error.value.tool == "number"
