"""A server that is stopped answers its running calls: with their results, or with an error that says what happened."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp_types import CallToolResult

from ahvn_tools import Toolkit, aserve
from ahvn_tools.mcp.server import run
from tests.mcp.server.test_signals import LineClient
from tests.mcp.serving import ENVIRONMENT, LONGEST, process

each_wire = pytest.mark.parametrize("mode", ["auto", "legacy"])

REFUSED = "Tool 'ready' was not run: its server is being stopped."
CANCELLED = "Tool 'wait' was cancelled, because its server was stopped. It did not finish, and may have had an effect."


class Body:
    """A tool that runs until it is released."""

    def __init__(self) -> None:
        self.started, self.released = asyncio.Event(), asyncio.Event()

    def ready(self) -> bool:
        """Return True."""
        return True

    async def wait(self) -> str:
        """Wait."""
        self.started.set()
        await self.released.wait()
        return "released"


@contextlib.asynccontextmanager
async def serving(body: Body, mode: Literal["auto", "legacy"]) -> AsyncIterator[tuple[Client[Any], asyncio.Task[None]]]:
    """Serve a body over HTTP in this process; yield a client and the task that serves."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    running = asyncio.create_task(aserve(Toolkit("desk").add(body.wait, body.ready), "http", sockets=[listener]))
    async with asyncio.timeout(LONGEST):
        client = Client(url, mode=mode)
        await client.__aenter__()
        yield client, running
        with contextlib.suppress(Exception):  # its server has ended
            await client.close()
        await asyncio.wait({running})
    assert running.cancelled()


async def call_until_refused(call: Callable[[], Awaitable[Any]]) -> None:
    """Call until the server knows that it is being stopped."""
    while not (result := await call()).is_error:  # noqa: ASYNC110  # no event of the server's process
        await asyncio.sleep(0.01)
    assert result.content[0].text == REFUSED


@each_wire
async def test_a_running_call_ends_and_a_new_one_is_refused(mode: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run, "GRACE_SECONDS", LONGEST)
    body = Body()
    async with serving(body, mode) as (client, running):
        call = asyncio.create_task(client.call_tool("wait"))
        await body.started.wait()
        running.cancel()
        await call_until_refused(lambda: client.call_tool_mcp("ready", {}))
        body.released.set()
        assert (await call).data == "released"


@each_wire
async def test_a_call_that_does_not_end_is_cancelled_and_answered(mode: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run, "GRACE_SECONDS", 0.05)
    body = Body()
    async with serving(body, mode) as (client, running):
        call = asyncio.create_task(client.call_tool_mcp("wait", {}))
        await body.started.wait()
        running.cancel()
        result = await call
        assert (result.is_error, result.content[0].text) == (True, CANCELLED)


async def test_a_second_cancellation_leaves_no_more_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run, "GRACE_SECONDS", LONGEST)
    body = Body()
    async with serving(body, "legacy") as (client, running):
        call = asyncio.create_task(client.call_tool_mcp("wait", {}))
        await body.started.wait()
        running.cancel()
        await call_until_refused(lambda: client.call_tool_mcp("ready", {}))
        running.cancel()
        assert (await call).content[0].text == CANCELLED


# in another process

SERVER = """
import asyncio, sys
from pathlib import Path
from ahvn_tools import Toolkit, serve
from ahvn_tools.mcp.server import run, signals

kit = Toolkit("desk")

@kit.tool
def ready() -> bool:
    "Return True."
    return True

@kit.tool
async def wait() -> str:
    "Wait for a file."
    folder = Path(sys.argv[2])
    (folder / "started").touch()
    while not (folder / "released").exists():
        await asyncio.sleep(0.01)
    return "released"

@kit.tool
def wait_in_thread() -> str:
    "Wait forever."
    import threading
    (Path(sys.argv[2]) / "started").touch()
    threading.Event().wait()

if sys.argv[3] == "patient":
    run.GRACE_SECONDS, signals.FORCED_EXIT_SECONDS = 30.0, 60.0
if len(sys.argv) > 4:
    kit = Toolkit("gateway")
    kit.add_mcp([sys.executable, "-c", sys.argv[4], "stdio", *sys.argv[2:4]])
serve(kit, sys.argv[1], **({"port": 0} if sys.argv[1] == "http" else {}))
"""


async def wait_for(path: Path) -> None:
    """Wait for a file."""
    async with asyncio.timeout(LONGEST):
        while not path.exists():  # noqa: ASYNC110, ASYNC240  # another process creates it
            await asyncio.sleep(0.01)


def call_wait(server: LineClient, request_id: int, tool: str = "wait") -> None:
    server.send("tools/call", {"name": tool, "arguments": {}}, request_id)


async def call_ready(server: LineClient) -> CallToolResult:
    call_wait(server, 3, "ready")
    return CallToolResult.model_validate(server.receive()["result"])


@pytest.mark.exhaustive
async def test_a_running_call_over_stdio_ends_after_sigterm(tmp_path: Path):
    with process(SERVER, "stdio", str(tmp_path), "patient") as started:
        server = LineClient(started)
        call_wait(server, 2)
        await wait_for(tmp_path / "started")
        started.send_signal(signal.SIGTERM)
        await call_until_refused(functools.partial(call_ready, server))
        (tmp_path / "released").touch()
        answer = server.receive()
        assert (answer["id"], answer["result"]["content"][0]["text"]) == (2, "released")
        assert server.wait_for_end()[0] == 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("tool", ["wait", "wait_in_thread"])
@pytest.mark.parametrize("ending", ["SIGTERM", "SIGINT", "SIGHUP", "end of input"])
async def test_a_call_over_stdio_that_does_not_end_is_answered(tmp_path: Path, ending: str, tool: str):
    script = f"import signal\nsignal.signal(signal.SIGHUP, signal.SIG_DFL)\n{SERVER}"  # the tests may ignore it
    with process(script, "stdio", str(tmp_path), "usual") as started:
        server = LineClient(started)
        call_wait(server, 2, tool)
        await wait_for(tmp_path / "started")
        if ending == "end of input":
            started.stdin.close()
        else:
            started.send_signal(signal.Signals[ending])
        answer = server.receive()
        assert (answer["id"], answer["result"]["isError"]) == (2, True)
        assert answer["result"]["content"][0]["text"] == CANCELLED.replace("wait", tool)
        status = server.wait_for_end()[0]
    assert status in {-signal.SIGINT, 1} if ending == "SIGINT" else status == 0


@pytest.mark.exhaustive
async def test_a_second_signal_leaves_no_more_time(tmp_path: Path):
    with process(SERVER, "stdio", str(tmp_path), "patient") as started:
        server = LineClient(started)
        call_wait(server, 2)
        await wait_for(tmp_path / "started")
        started.send_signal(signal.SIGTERM)
        await call_until_refused(functools.partial(call_ready, server))
        started.send_signal(signal.SIGTERM)
        assert server.receive()["result"]["content"][0]["text"] == CANCELLED
        assert server.wait_for_end()[0] == 0


@pytest.mark.exhaustive
async def test_an_ignored_sighup_stays_ignored(tmp_path: Path):
    script = f"import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n{SERVER}"
    with process(script, "stdio", str(tmp_path), "usual") as started:
        server = LineClient(started)
        call_wait(server, 2)
        await wait_for(tmp_path / "started")
        started.send_signal(signal.SIGHUP)
        (tmp_path / "released").touch()
        assert server.receive()["result"]["content"][0]["text"] == "released"
        call_wait(server, 3)
        assert server.receive()["result"]["content"][0]["text"] == "released"


@pytest.mark.exhaustive
@each_wire
@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("patience", ["patient", "usual"])
async def test_a_call_through_a_gateway_is_answered(tmp_path: Path, transport: str, patience: str, mode: Any):
    arguments = [transport, str(tmp_path), patience, SERVER]
    async with contextlib.AsyncExitStack() as stack:
        target: Any
        if transport == "http":
            started = stack.enter_context(process(SERVER, *arguments))
            target, pid_file = started.stderr.readline().split()[-1], None
        else:
            pid_file = tmp_path / "pid"
            script = f"import os, sys\nopen({str(pid_file)!r}, 'w').write(str(os.getpid()))\n{SERVER}"
            target = StdioTransport(sys.executable, ["-c", script, *arguments], env=ENVIRONMENT)
        async with asyncio.timeout(2 * LONGEST):
            client = Client(target, mode=mode)
            await client.__aenter__()
            call = asyncio.create_task(client.call_tool_mcp("wait", {}))
            await wait_for(tmp_path / "started")
            os.kill(started.pid if pid_file is None else int(pid_file.read_text()), signal.SIGTERM)
            await call_until_refused(lambda: client.call_tool_mcp("ready", {}))
            if patience == "patient":
                (tmp_path / "released").touch()
            result = await call
            assert result.content[0].text == ("released" if patience == "patient" else CANCELLED)
            with contextlib.suppress(Exception):  # its server has ended
                await client.close()
            if pid_file is None:
                assert await asyncio.to_thread(started.wait, LONGEST) == 0


@pytest.mark.exhaustive
async def test_a_call_of_a_gateway_is_answered_by_the_server_behind_it(tmp_path: Path):
    with process(SERVER, "http", str(tmp_path), "patient") as upstream:
        kit = Toolkit("gateway")
        await kit.aadd_mcp(upstream.stderr.readline().split()[-1], name="upstream")
        call = asyncio.create_task(kit.aexec("wait"))
        await wait_for(tmp_path / "started")
        upstream.terminate()
        await call_until_refused(lambda: kit.aexec("ready"))
        (tmp_path / "released").touch()
        assert (await call).value == "released"
        await kit.aremove_mcp("upstream")
        assert await asyncio.to_thread(upstream.wait, LONGEST) == 0
