"""Servers under test: in this process over HTTP, or in another process over stdio or HTTP."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import ahvn_tools
from ahvn_tools import Toolkit, aserve

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(ahvn_tools.__file__).parents[1])}

LONGEST = 30.0
"""Seconds that a process may take to start or to end before a test fails."""


@asynccontextmanager
async def over_http(kit: Toolkit, **options: Any) -> AsyncIterator[str]:
    """Serve a toolkit in this process, and yield its URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    running = asyncio.create_task(aserve(kit, "http", sockets=[listener], **options))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    try:
        yield url
    finally:
        running.cancel()
        await asyncio.wait({running})
        listener.close()
    assert running.cancelled()


@contextmanager
def process(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a script in another process, which ends with the test."""
    pipe = subprocess.PIPE
    started = subprocess.Popen(
        [sys.executable, "-c", script, *arguments], env=ENVIRONMENT, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )
    with started:
        try:
            yield started
        finally:
            started.kill()
