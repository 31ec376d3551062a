"""Faults with this package at both ends: a toolkit served by another process, and one that imports it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ahvn_tools import Toolkit
from tests.mcp.serving import ENVIRONMENT, LONGEST

SERVER = """
import asyncio, os, sys, time
from collections.abc import Iterator
from ahvn_tools import ToolContext, Toolkit, serve

kit = Toolkit("faults")
left = []

@kit.add
async def echo(value: int) -> int:
    await asyncio.sleep(0)
    return value

@kit.add
async def sleep(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "slept"

def work(seconds: float) -> str:
    time.sleep(seconds)
    return "worked"

kit.add(work, timeout=0.5)

@kit.add
def wait(context: ToolContext) -> str:
    while not context.cancelled:
        time.sleep(0.02)
    left.append("cancelled")
    return "left"

@kit.add
def heard() -> list[str]:
    return left

@kit.add
def leave(way: str) -> str:
    if way == "kill":
        os._exit(1)
    raise {"exit": SystemExit, "interrupt": KeyboardInterrupt, "stop": StopIteration}[way]("secret")

@kit.add
def loud() -> str:
    print("unread")
    os.write(1, b"{}\\\\n")
    sys.stdout.flush()
    return "said"

@kit.add
def count(last: int) -> Iterator[int]:
    yield from range(last)

@kit.add
async def grow() -> str:
    kit.add(lambda: "new", rename="grown")
    return "grown"

serve(kit, **({"transport": "http", "port": int(sys.argv[1])} if len(sys.argv) > 1 else {}))
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


@contextlib.contextmanager
def serving(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Serve over HTTP, and wait until the server listens."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(port)], env=ENVIRONMENT, stderr=subprocess.DEVNULL
    ) as ours:
        try:
            until = time.monotonic() + LONGEST
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                assert ours.poll() is None
                assert time.monotonic() < until
                time.sleep(0.02)
            yield ours
        finally:
            ours.kill()


@pytest.fixture(scope="module", params=["stdio", pytest.param("http", marks=pytest.mark.exhaustive)])
def imported(request: pytest.FixtureRequest) -> Iterator[Toolkit]:
    """A toolkit with the tools of the served one."""
    toolkit = Toolkit("importer")
    with contextlib.ExitStack() as stack:
        if request.param == "http":
            port = free_port()
            stack.enter_context(serving(port))
            toolkit.add_mcp(f"http://127.0.0.1:{port}/mcp", name="faults", timeout=150)
        else:
            toolkit.add_mcp(by_stdio(), name="faults", timeout=150)
        yield toolkit
        toolkit.remove_mcp("faults")


def by_stdio() -> dict[str, Any]:
    environment = {"PYTHONPATH": ENVIRONMENT["PYTHONPATH"]}
    return {"mcpServers": {"faults": {"command": sys.executable, "args": ["-c", SERVER], "env": environment}}}


def took(function: Callable[[], Any]) -> tuple[Any, float]:
    began = time.monotonic()
    return function(), time.monotonic() - began


def works(toolkit: Toolkit) -> bool:
    return bool(toolkit.exec("echo", {"value": 7}).value == 7)


@pytest.mark.exhaustive
def test_timeout_of_an_async_tool_is_on_time(imported: Toolkit) -> None:
    result, seconds = took(lambda: imported.exec("sleep", {"seconds": 20}, timeout=0.5))
    assert (result.error.code, seconds < 15) == ("timeout", True)
    assert works(imported)


def test_server_times_out_a_sync_tool_on_time(imported: Toolkit) -> None:
    result, seconds = took(lambda: imported.exec("work", {"seconds": 20}))
    assert (result.error.code, seconds < 15) == ("tool_error", True)
    assert "0.5 s" in result.error.message
    assert works(imported)


async def test_cancellation_reaches_the_server(imported: Toolkit) -> None:
    before = len((await imported.aexec("heard", {})).value)
    call = asyncio.create_task(imported.aexec("wait", {}))
    await asyncio.sleep(0.3)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    until = time.monotonic() + 5
    while len((await imported.aexec("heard", {})).value) == before:
        assert time.monotonic() < until
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "way", ["exit", *(pytest.param(way, marks=pytest.mark.exhaustive) for way in ("interrupt", "stop"))]
)
def test_tool_that_raises_system_exit_ends_only_its_call(imported: Toolkit, way: str) -> None:
    result, seconds = took(lambda: imported.exec("leave", {"way": way}))
    assert (result.error.code, seconds < 15) == ("tool_error", True)
    assert "secret" not in result.error.message
    assert works(imported)


def test_output_of_a_tool_is_not_a_message(imported: Toolkit) -> None:
    assert imported.exec("loud", {}).value == "said"
    assert works(imported)


def test_tool_added_later_is_imported(imported: Toolkit) -> None:
    assert imported.exec("grow", {}).value == "grown"
    until = time.monotonic() + 5
    while "grown" not in [spec.name for spec in imported]:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert imported.exec("grown", {}).value == "new"


@pytest.mark.exhaustive
@pytest.mark.timeout(180)
async def test_thousand_concurrent_calls_return_their_own_results(imported: Toolkit) -> None:
    calls = (imported.aexec("echo", {"value": number}) for number in range(1000))
    results = await asyncio.gather(*calls)
    assert [result.value for result in results] == list(range(1000))


async def test_sync_call_works_inside_a_running_loop(imported: Toolkit) -> None:
    assert works(imported)
