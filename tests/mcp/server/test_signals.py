"""A server process ends within seconds after its client disconnects, SIGTERM or Ctrl-C, whatever its tools do."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from mcp.client.subscriptions import listen

from ahvn_tools.mcp.server import signals
from tests.mcp.serving import LONGEST, process

MAX_END_SECONDS = 25.0
"""The maximum number of seconds until a process has ended."""

TOOLS = """
import asyncio, sys, threading, time
from ahvn_tools import ToolSpec, serve
from ahvn_tools.mcp.server import signals

def ready() -> bool:
    "Return True."
    return True

def hang() -> None:
    "Wait."
    threading.Event().wait()

async def refuse() -> None:
    "Ignore cancellations."
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

async def block() -> None:
    "Block the event loop."
    time.sleep(3600)

signals.FORCED_EXIT_SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else signals.FORCED_EXIT_SECONDS
serve([ready, hang, refuse, block], sys.argv[1], **({"port": 0} if sys.argv[1] == "http" else {}))
print("it returned", file=sys.stderr)
"""

INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}


class LineClient:
    """A client of a server over stdio that writes and reads single lines."""

    def __init__(self, started: Any) -> None:
        self.started = started
        self.send("initialize", INITIALIZE)
        self.receive()

    def send(self, method: str, params: Any, request_id: int = 1) -> None:
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        self.started.stdin.write(json.dumps(message) + "\n")
        self.started.stdin.flush()

    def receive(self) -> Any:
        return json.loads(self.started.stdout.readline())

    def call(self, name: str) -> None:
        self.send("tools/call", {"name": name, "arguments": {}})

    def wait_for_end(self) -> tuple[int, float, str]:
        """Wait for the process to end; return its status, the seconds that it took, and its stderr."""
        began = time.perf_counter()
        status = self.started.wait(LONGEST)
        return status, time.perf_counter() - began, self.started.stderr.read()


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + LONGEST
    while not condition():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("trigger", "tool"),
    [
        ("SIGTERM", "refuse"),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in (
                ("end of input", "hang"),
                ("SIGINT", "hang"),
                ("end of input", "refuse"),
                ("SIGTERM", "ready"),
                ("SIGTERM", "hang"),
            )
        ),
    ],
)
@pytest.mark.exhaustive
def test_a_server_over_stdio_ends_although_a_tool_runs(trigger: str, tool: str):
    with process(TOOLS, "stdio") as started:
        server = LineClient(started)
        server.call("ready")
        server.receive()
        server.call(tool)
        time.sleep(0.1)
        if trigger == "end of input":
            started.stdin.close()
        else:
            started.send_signal(signal.Signals[trigger])
        status, seconds, stderr = server.wait_for_end()
    assert seconds < MAX_END_SECONDS
    if trigger == "SIGINT":
        assert status in {-signal.SIGINT, 1}
        assert stderr.rstrip().endswith("KeyboardInterrupt")
    else:
        assert (status, stderr) == (0, "it returned\n")


@pytest.mark.exhaustive
@pytest.mark.parametrize(("wire", "tool"), [("auto", "hang"), ("legacy", "hang"), ("auto", "refuse")])
async def test_a_server_over_http_ends_although_a_tool_runs(wire: str, tool: str):
    with process(TOOLS, "http") as started:
        url = started.stderr.readline().split()[-1]
        async with asyncio.timeout(LONGEST), Client(url, mode=wire) as client:
            assert (await client.call_tool("ready")).data is True
            call = asyncio.ensure_future(client.call_tool_mcp(tool, {}))
            await asyncio.sleep(0.2)
            began = time.perf_counter()
            started.terminate()
            assert await asyncio.to_thread(started.wait, LONGEST) == 0
            assert time.perf_counter() - began < MAX_END_SECONDS
            assert "may have had an effect" in (await call).content[0].text
        assert "it returned" in started.stderr.read()


@pytest.mark.exhaustive
def test_a_server_over_stdio_ends_normally_with_a_replaced_stdout():
    script = "import io, sys\nfrom ahvn_tools import serve\nsys.stdout = io.TextIOWrapper(io.BytesIO())\nserve(len)"
    with process(script) as started:
        _, stderr = started.communicate(timeout=LONGEST)
    assert (started.returncode, stderr) == (0, "")


@pytest.mark.exhaustive
async def test_a_subscribed_client_over_http_does_not_delay_the_end():
    with process(TOOLS, "http") as started:
        url = started.stderr.readline().split()[-1]
        async with (
            asyncio.timeout(LONGEST),
            Client(url) as client,
            listen(client.session, tools_list_changed=True) as events,
        ):
            began = time.perf_counter()
            started.terminate()
            assert [event async for event in events] == []
            assert await asyncio.to_thread(started.wait, LONGEST) == 0
            assert time.perf_counter() - began < MAX_END_SECONDS
        assert "it returned" in started.stderr.read()


@pytest.mark.exhaustive
def test_a_blocked_loop_cannot_prevent_the_end():
    with process(TOOLS, "stdio", "0.3") as started:
        server = LineClient(started)
        server.call("block")
        time.sleep(0.3)
        started.terminate()
        status, seconds, _ = server.wait_for_end()
    assert status == 128 + signal.SIGTERM
    assert seconds < MAX_END_SECONDS


@pytest.mark.exhaustive
def test_a_second_signal_exits_at_once():
    with process(TOOLS, "stdio", "60") as started:
        server = LineClient(started)
        server.call("block")
        time.sleep(0.3)
        for _ in range(2):
            started.send_signal(signal.SIGINT)
            time.sleep(0.1)
        status, seconds, _ = server.wait_for_end()
    assert status == 128 + signal.SIGINT
    assert seconds < MAX_END_SECONDS


STUBBORN = """
import os, signal, sys, time
from pathlib import Path
from fastmcp import FastMCP

signal.signal(signal.SIGTERM, signal.SIG_IGN)
folder = Path(sys.argv[1])
(folder / "pid").write_text(str(os.getpid()))
server = FastMCP("stubborn")
server.tool(lambda: "pong", name="ping")
server.run(show_banner=False)
(folder / "closing").touch()
time.sleep(3600)
"""

GATEWAY = """
import sys
from ahvn_tools import Toolkit, serve

gateway = Toolkit("gateway").add_mcp([sys.executable, "-c", sys.argv[1], sys.argv[2]], name="stubborn")
serve(gateway)
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("interface", ["serve", "command"])
def test_sigterm_while_a_gateway_closes_leaves_no_server(tmp_path: Path, interface: str):
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    if interface == "serve":
        arguments = [GATEWAY, STUBBORN, str(tmp_path)]
    else:
        source = shlex.join([sys.executable, str(tmp_path / "stubborn.py"), str(tmp_path)])
        arguments = ["import sys; from ahvn_tools.__main__ import run; sys.exit(run())", "serve", source]
    with process(*arguments) as started:
        LineClient(started)
        started.stdin.close()
        wait_until((tmp_path / "closing").exists)
        started.terminate()
        assert started.wait(LONGEST) == 128 + signal.SIGTERM
    wait_until(lambda: not is_running(int((tmp_path / "pid").read_text())))


# in the process of the test


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


def test_an_exception_of_the_work_is_raised_and_the_handlers_are_restored():
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


def test_an_exit_of_the_work_itself_is_raised():
    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        signals.run_until_signal(leave())


def test_ctrl_c_cancels_the_work_and_is_raised_after_its_end():
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
