"""A server's process ends within seconds of its client's going, of SIGTERM and of Ctrl-C, whatever its tools do."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from typing import Any

import pytest
from fastmcp import Client
from mcp.client.subscriptions import listen

from ahvn_tools.mcp.server import signals
from tests.mcp.serving import LONGEST, process

SOON = 5.0
"""Seconds in which a process has to end."""

TOOLS = """
import asyncio, sys, threading, time
from ahvn_tools import ToolSpec, serve
from ahvn_tools.mcp.server import signals

def ready() -> bool:
    return True

def hang() -> None:
    threading.Event().wait()

async def refuse() -> None:
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

async def block() -> None:
    time.sleep(3600)

signals.FORCED_EXIT_SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else signals.FORCED_EXIT_SECONDS
serve([ready, hang, refuse, block], sys.argv[1], **({"port": 0} if sys.argv[1] == "http" else {}))
print("it returned", file=sys.stderr)
"""

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}


class Server:
    """A server over stdio, spoken to line by line."""

    def __init__(self, started: Any) -> None:
        self.started = started
        self.ask("initialize", HELLO)
        self.answer()

    def ask(self, method: str, params: Any) -> None:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self.started.stdin.write(json.dumps(message) + "\n")
        self.started.stdin.flush()

    def answer(self) -> Any:
        return json.loads(self.started.stdout.readline())

    def call(self, name: str) -> None:
        self.ask("tools/call", {"name": name, "arguments": {}})

    def ended(self) -> tuple[int, float, str]:
        """Wait for the end; return the process's status, how long it took and what it said."""
        began = time.perf_counter()
        status = self.started.wait(LONGEST)
        return status, time.perf_counter() - began, self.started.stderr.read()


@pytest.mark.parametrize(
    ("how", "tool"),
    [
        ("end of input", "hang"),
        ("end of input", "refuse"),
        ("SIGTERM", "ready"),
        ("SIGTERM", "hang"),
        ("SIGTERM", "refuse"),
        ("SIGINT", "hang"),
    ],
)
def test_a_server_over_stdio_ends_in_good_order(how: str, tool: str):
    with process(TOOLS, "stdio") as started:
        server = Server(started)
        server.call("ready")
        server.answer()
        server.call(tool)
        time.sleep(0.1)
        if how == "end of input":
            started.stdin.close()
        else:
            started.send_signal(signal.Signals[how])
        status, took, said = server.ended()
    assert took < SOON
    if how == "SIGINT":
        assert status in {-signal.SIGINT, 1}
        assert said.rstrip().endswith("KeyboardInterrupt")
    else:
        assert (status, said) == (0, "it returned\n")


@pytest.mark.parametrize(("wire", "tool"), [("legacy", "hang"), ("auto", "hang"), ("auto", "refuse")])
async def test_a_server_over_http_ends_in_good_order(wire: str, tool: str):
    with process(TOOLS, "http") as started:
        url = started.stderr.readline().split()[-1]
        async with asyncio.timeout(LONGEST), Client(url, mode=wire) as client:
            assert (await client.call_tool("ready")).data is True
            call = asyncio.ensure_future(client.call_tool_mcp(tool, {}))
            await asyncio.sleep(0.2)
            began = time.perf_counter()
            started.terminate()
            assert await asyncio.to_thread(started.wait, LONGEST) == 0
            assert time.perf_counter() - began < SOON
            with pytest.raises(Exception):
                await call
        assert "it returned" in started.stderr.read()


def test_a_server_over_stdio_ends_well_where_stdout_is_not_the_processs_own():
    script = "import io, sys\nfrom ahvn_tools import serve\nsys.stdout = io.TextIOWrapper(io.BytesIO())\nserve(len)"
    with process(script) as started:
        _, said = started.communicate(timeout=LONGEST)
    assert (started.returncode, said) == (0, "")


async def test_who_listens_over_http_is_told_of_the_end_and_holds_nothing_up():
    with process(TOOLS, "http") as started:
        url = started.stderr.readline().split()[-1]
        async with (
            asyncio.timeout(LONGEST),
            Client(url) as client,
            listen(client.session, tools_list_changed=True) as news,
        ):
            began = time.perf_counter()
            started.terminate()
            assert [event async for event in news] == []
            assert await asyncio.to_thread(started.wait, LONGEST) == 0
            assert time.perf_counter() - began < SOON
        assert "it returned" in started.stderr.read()


def test_a_blocked_loop_is_ended_all_the_same():
    with process(TOOLS, "stdio", "0.3") as started:
        server = Server(started)
        server.call("block")
        time.sleep(0.3)
        started.terminate()
        status, took, _ = server.ended()
    assert status == 128 + signal.SIGTERM
    assert took < SOON


def test_a_second_signal_ends_at_once():
    with process(TOOLS, "stdio") as started:
        server = Server(started)
        server.call("block")
        time.sleep(0.3)
        for _ in range(2):
            started.send_signal(signal.SIGINT)
            time.sleep(0.1)
        status, took, _ = server.ended()
    assert status == 128 + signal.SIGINT
    assert took < signals.FORCED_EXIT_SECONDS


# in this process


def test_work_runs_to_its_end_in_any_thread():
    done = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.append(threading.current_thread())

    signals.run_until_signal(work())
    other = threading.Thread(target=lambda: signals.run_until_signal(work()))
    other.start()
    other.join()
    assert done == [threading.main_thread(), other]


def test_what_work_raises_is_raised_and_the_handlers_are_put_back():
    async def fail() -> None:
        raise ValueError("no port")

    async def cancel() -> None:
        raise asyncio.CancelledError

    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="no port"):
        signals.run_until_signal(fail())
    with pytest.raises(asyncio.CancelledError):
        signals.run_until_signal(cancel())
    assert before == (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, None])
def test_what_a_task_beside_it_does_to_the_loop_does_not_end_the_work(
    kind: type[BaseException] | None, caplog: pytest.LogCaptureFixture
):
    done = []

    async def beside() -> None:
        if kind is None:
            asyncio.get_running_loop().stop()
        else:
            raise kind

    async def work() -> None:
        for _ in range(2):
            kept.append(asyncio.create_task(beside()))
            await asyncio.sleep(0.01)
        done.append(True)

    kept: list[asyncio.Task[None]] = []
    signals.run_until_signal(work())
    assert done == [True]
    assert len(caplog.messages) == 2
    assert all(task.done() and (kind is None or isinstance(task.exception(), kind)) for task in kept)


def test_work_that_exits_has_ended():
    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        signals.run_until_signal(leave())


def test_ctrl_c_cancels_the_work_and_is_raised_when_it_has_ended():
    ended = []

    async def work() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        signals.run_until_signal(work())
    assert ended == [True]
