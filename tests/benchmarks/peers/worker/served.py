"""Calls of a served tool over a connection of FastMCP's client, which is the same for all packages."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from tests.benchmarks.peers.worker.adapter import PackageAdapter

CONCURRENCY = 4
"""Concurrent calls."""
WARM_UP = 40
"""Calls before the first that counts."""
START_TIMEOUT = 60.0


async def seconds(name: str, adapter: PackageAdapter, transport: str, number: int) -> float:
    """Start a server, call its tool, and return the seconds of one call. A server process is used once."""
    adapter.server()
    command = ["-m", "tests.benchmarks.peers.worker", name, "serve", transport]
    async with connected(command, transport) as client:
        await _calls(client, WARM_UP)
        start = time.perf_counter()
        await _calls(client, number)
        return (time.perf_counter() - start) / number


def serve(adapter: PackageAdapter, transport: str, port: str = "0") -> None:
    """Serve until the client disconnects or, over HTTP, until the input ends, as it does with the process above."""
    server = adapter.server()
    if transport == "stdio":
        server.run(transport="stdio", show_banner=False, log_level="ERROR")
    else:
        threading.Thread(target=_end_with_input, daemon=True).start()
        server.run(transport="http", host="127.0.0.1", port=int(port), show_banner=False, log_level="ERROR")


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


async def _calls(client: Any, calls: int) -> None:
    numbers = iter(range(calls))

    async def call() -> None:
        for number in numbers:
            result = await client.call_tool_mcp("add_later", {"left": number, "right": 1})
            if result.structured_content != {"result": number + 1}:
                raise AssertionError(result)

    await asyncio.gather(*(call() for _ in range(CONCURRENCY)))


@contextlib.asynccontextmanager
async def connected(command: Sequence[str], transport: str, env: Mapping[str, str] = os.environ) -> AsyncIterator[Any]:
    """Yield FastMCP's client of a server that Python starts with this command, and a port for HTTP, and ends after."""
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    if transport == "stdio":
        started = StdioTransport(sys.executable, list(command), env=dict(env), keep_alive=False)
        async with Client(started, init_timeout=START_TIMEOUT) as client:
            yield client
        return
    port = _free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, str(port), stdin=asyncio.subprocess.PIPE, env=env
    )
    try:
        await _listening(process, port)
        async with Client(f"http://127.0.0.1:{port}/mcp", init_timeout=START_TIMEOUT) as client:
            yield client
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _listening(process: asyncio.subprocess.Process, port: int) -> None:
    """Wait until a server listens."""
    async with asyncio.timeout(START_TIMEOUT):
        while process.returncode is None:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            writer.close()
            return
    raise RuntimeError("The server has ended before it listened.")


def _free_port() -> int:
    """Return a port at which nothing listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
