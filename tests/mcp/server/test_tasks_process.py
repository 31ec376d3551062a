"""Tasks of a server in another process: over stdio and HTTP, in memory and in a real Redis, also when it is killed."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastmcp_tasks", reason='tasks need pip install "ahvn-tools[tasks]"')

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp_tasks import ToolTask, call_tool_task
from mcp.shared.exceptions import MCPError

from ahvn_tools import Toolkit
from tests.mcp.serving import ENVIRONMENT, LONGEST

TOOLS = """
import asyncio, os, sys, time
from pathlib import Path
from ahvn_tools import ToolContext, Toolkit, serve

kit = Toolkit("long")

@kit.tool(task="optional")
async def wait(file: str, user: str = "nobody") -> dict[str, str]:
    '''Wait until the file has a second line.'''
    with Path(file).open("a") as log:
        log.write("started\\n")
    try:
        while Path(file).read_text().count("\\n") < 2:
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        Path(file).write_text("cancelled")
        raise
    return {"user": user}

@kit.tool(task="optional", isolation="process")
def block(file: str) -> None:
    '''Never end.'''
    Path(file).write_text(str(os.getpid()))
    time.sleep(600)

kit.add(kit["wait"], rename="wait_again", annotations={"idempotentHint": True})
kit.add(kit["wait"], rename="wait_as_task", task="required")
kit.bind("user")

if __name__ == "__main__":
    options = {"tasks": sys.argv[2], "state": lambda request: {"user": request.headers["x-user"]}}
    serve(kit, "http", port=int(sys.argv[1]), **options)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "long.py"
    path.write_text(TOOLS)
    return path


async def wait_for(condition: Any) -> None:
    """Wait until a condition is true."""
    async with asyncio.timeout(LONGEST):
        while not condition():  # noqa: ASYNC110  # another process makes it true
            await asyncio.sleep(0.02)


def stdio_client(file: Path) -> Client[Any]:
    """Return a client that starts the command."""
    arguments = ["-m", "ahvn_tools", "serve", str(file), "--tasks", "memory://"]
    return Client(StdioTransport(sys.executable, arguments, env=ENVIRONMENT, keep_alive=False), init_timeout=LONGEST)


@pytest.mark.exhaustive
async def test_a_client_over_stdio_polls_and_cancels_tasks_of_the_command(file, tmp_path):
    async with stdio_client(file) as client:
        log = tmp_path / "first"
        task = await call_tool_task(client, "wait", {"file": str(log)})
        await wait_for(log.exists)
        assert (await task.status()).status == "working"
        with log.open("a") as lines:
            lines.write("go on\n")
        assert (await task.result()).data == {"user": "nobody"}
        log = tmp_path / "second"
        task = await call_tool_task(client, "wait", {"file": str(log)})
        await wait_for(log.exists)
        await task.cancel()
        assert (await task.wait()).status == "cancelled"
        await wait_for(lambda: log.read_text() == "cancelled")


@pytest.mark.exhaustive
async def test_a_server_over_stdio_that_is_killed_ends_the_wait_for_its_task(file, tmp_path):
    async with stdio_client(file) as client:
        log = tmp_path / "log"
        task = await call_tool_task(client, "wait", {"file": str(log)})
        await wait_for(log.exists)
        waiting = asyncio.ensure_future(task.result())
        await client.transport.close()
        with pytest.raises(Exception, match=r"(?i)clos"):
            await asyncio.wait_for(waiting, LONGEST)


@pytest.mark.exhaustive
async def test_an_import_calls_tools_that_only_run_as_tasks(file, tmp_path):
    command = [sys.executable, "-m", "ahvn_tools", "serve", str(file), "--tasks", "memory://"]
    kit = await Toolkit("host").aadd_mcp(command, name="long", tasks=True)
    finished, cancelled, timed_out = (tmp_path / name for name in ("finished", "cancelled", "timed_out"))
    finished.write_text("one\n")
    assert (await kit.aexec("wait_as_task", {"file": str(finished)})).value == {"user": "nobody"}
    call = asyncio.ensure_future(kit.aexec("wait_as_task", {"file": str(cancelled)}))
    await wait_for(cancelled.exists)
    call.cancel()
    await wait_for(lambda: cancelled.read_text() == "cancelled")
    result = await kit.aexec("wait_as_task", {"file": str(timed_out)}, timeout=1)
    assert result.error is not None
    assert result.error.code == "timeout"
    await wait_for(lambda: timed_out.read_text() == "cancelled")
    await kit.aremove_mcp("long")


@pytest.mark.exhaustive
async def test_an_import_without_tasks_says_what_the_tool_needs(file, tmp_path):
    command = [sys.executable, "-m", "ahvn_tools", "serve", str(file), "--tasks", "memory://"]
    kit = await Toolkit("host").aadd_mcp(command, name="long")
    result = await kit.aexec("wait_as_task", {"file": str(tmp_path / "log")})
    await kit.aremove_mcp("long")
    assert "tasks=True" in result.text


# Redis


class Redis:
    """A Redis server."""

    def __init__(self, program: str, folder: Path) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        options = ["--port", str(self.port), "--save", "", "--dir", str(folder), "--bind", "127.0.0.1"]
        self._command = [program, *options]

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        wait_for_port(self.port)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(LONGEST)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    if (program := shutil.which("redis-server")) is None:
        pytest.skip("there is no redis-server")
    server = Redis(program, tmp_path)
    server.start()
    yield server
    server.stop()


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def wait_for_port(port: int) -> None:
    """Wait until a server listens."""
    ends = time.monotonic() + LONGEST
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            assert time.monotonic() < ends
            time.sleep(0.05)
        else:
            return


@contextmanager
def served(redis_url: str) -> Iterator[tuple[str, Any]]:
    """Serve the tools in another process; yield the URL and the process."""
    port = free_port()
    command = [sys.executable, "-c", TOOLS, str(port), redis_url]
    with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.DEVNULL) as started:
        try:
            wait_for_port(port)
            yield f"http://127.0.0.1:{port}/mcp", started
        finally:
            started.kill()


def client_of(url: str) -> Client[Any]:
    """Return a client of a user."""
    return Client(StreamableHttpTransport(url, headers={"X-User": "ann"}), init_timeout=LONGEST)


@pytest.mark.exhaustive
async def test_servers_at_one_redis_share_their_tasks(redis, tmp_path):
    log = tmp_path / "log"
    with served(redis.url) as (first, _), served(redis.url) as (second, _):
        async with client_of(first) as client, client_of(second) as other:
            task = await call_tool_task(client, "wait", {"file": str(log)})
            same = ToolTask(other, "wait", task.create_result)
            await wait_for(log.exists)
            assert (await same.status()).status == "working"
            with log.open("a") as lines:
                lines.write("go on\n")
            assert (await same.result()).data == {"user": "ann"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["wait", "wait_again"])
async def test_only_an_idempotent_tool_runs_again_when_its_server_was_killed(name, redis, tmp_path, monkeypatch):
    monkeypatch.setitem(ENVIRONMENT, "FASTMCP_DOCKET_REDELIVERY_TIMEOUT", "PT1S")
    log = tmp_path / "log"
    with served(redis.url) as (first, started):
        async with client_of(first) as client:
            task = await call_tool_task(client, name, {"file": str(log)})
            await wait_for(log.exists)
            started.kill()
    with served(redis.url) as (second, _):
        async with client_of(second) as client:
            result = await ToolTask(client, name, task.create_result, raise_on_error=False).result()
    if name == "wait":
        assert result.is_error
        assert "The server ended while 'wait' ran" in result.content[0].text
        assert log.read_text() == "started\n"
    else:
        assert result.data == {"user": "ann"}


@pytest.mark.exhaustive
async def test_clients_learn_that_redis_has_ended_and_tasks_run_when_it_is_back(redis, tmp_path, monkeypatch):
    monkeypatch.setitem(ENVIRONMENT, "FASTMCP_DOCKET_RECONNECTION_DELAY", "PT0.1S")
    monkeypatch.setitem(ENVIRONMENT, "FASTMCP_DOCKET_REDELIVERY_TIMEOUT", "PT1S")
    log = tmp_path / "log"
    log.write_text("one\n")
    with served(redis.url) as (url, started):
        async with client_of(url) as client:
            task = await call_tool_task(client, "wait", {"file": str(log)})
            assert (await task.result()).data == {"user": "ann"}
            redis.stop()
            for attempt in (task.status, lambda: call_tool_task(client, "wait", {"file": str(log)})):
                with pytest.raises(Exception, match="cannot reach its tasks"):
                    await asyncio.wait_for(attempt(), LONGEST)
            redis.start()
            result = None
            for _ in range(20):  # Docket may still use connections that have ended
                with contextlib.suppress(MCPError):
                    task = await call_tool_task(client, "wait", {"file": str(log)}, raise_on_error=False)
                    result = await asyncio.wait_for(task.result(), LONGEST)
                    if not result.is_error:
                        break
        started.terminate()
        assert await asyncio.to_thread(started.wait, LONGEST) == 0
    assert result is not None
    assert result.data == {"user": "ann"}


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning")  # by Docket's store of results
async def test_a_server_that_stops_leaves_waiting_tasks_to_another_one(redis, monkeypatch):
    monkeypatch.setenv("FASTMCP_DOCKET_CONCURRENCY", "2")
    ran = []

    def kit_of(server: str) -> Toolkit:
        async def run(number: int) -> str:
            """Run until the server stops; the first call takes a while to end."""
            ran.append((server, number))
            if server == "first":
                try:
                    await asyncio.sleep(LONGEST)
                finally:
                    await asyncio.sleep(0.09 if number == 0 else 0)
            return server

        return Toolkit("shared").add(run, task="optional")

    async with Client(kit_of("first").to_fastmcp_server(tasks=redis.url)) as client:
        tasks = [await call_tool_task(client, "run", {"number": number}) for number in range(5)]
        await wait_for(lambda: len(ran) == 2)
    async with Client(kit_of("second").to_fastmcp_server(tasks=redis.url)) as client:
        waiting = [ToolTask(client, "run", task.create_result) for task in tasks[2:]]
        assert [(await task.result()).data for task in waiting] == ["second"] * 3
        ended = [ToolTask(client, "run", task.create_result, raise_on_error=False) for task in tasks[:2]]
        assert ["was stopped while" in str(await task.result()) for task in ended] == [True, True]
    assert sorted(ran) == [("first", 0), ("first", 1), ("second", 2), ("second", 3), ("second", 4)]


@pytest.mark.exhaustive
async def test_another_server_cancels_a_task_whose_body_runs_in_a_process_of_its_own(redis, tmp_path):
    log = tmp_path / "log"
    with served(redis.url) as (first, _), served(redis.url) as (second, _):
        async with client_of(first) as client, client_of(second) as other:
            tasks = [await call_tool_task(client, "block", {"file": str(log) + str(n)}) for n in range(2)]
            for number, task in enumerate(tasks):
                file = Path(f"{log}{number}")
                await wait_for(lambda file=file: file.exists() and file.read_text())
                await ToolTask(other, "block", task.create_result).cancel()
                await wait_for(lambda file=file: not is_running(file))
                assert (await task.wait()).status == "cancelled"


def is_running(file: Path) -> bool:
    """Return whether the process whose id is in a file runs."""
    try:
        return Path(f"/proc/{file.read_text()}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False
