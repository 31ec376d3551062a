"""A connection of FastMCP's client to a server of this package in another process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

from tests.benchmarks.peers.worker.served import START_TIMEOUT, free_port, listening

MODULE = "tests.benchmarks.code_mode.worker"


@contextlib.asynccontextmanager
async def connected(adapter: str, transport: str) -> AsyncIterator[Any]:
    """Yield a client of a server that ends with the block."""
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    command = ["-m", MODULE, adapter, "serve", transport]
    if transport == "stdio":
        started = StdioTransport(sys.executable, command, env=dict(os.environ), keep_alive=False)
        async with Client(started, init_timeout=START_TIMEOUT) as client:
            yield client
        return
    port = free_port()
    process = await asyncio.create_subprocess_exec(sys.executable, *command, str(port), stdin=asyncio.subprocess.PIPE)
    try:
        await listening(process, port)
        async with Client(f"http://127.0.0.1:{port}/mcp", init_timeout=START_TIMEOUT) as client:
            yield client
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
