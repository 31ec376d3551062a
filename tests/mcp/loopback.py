"""A FastMCP server on a free local port during a `with` block."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import uvicorn
from fastmcp import FastMCP


@contextlib.contextmanager
def over_http(server: FastMCP, **options: Any) -> Iterator[str]:
    """Serve over HTTP in a thread, and yield the URL; `options` are those of the server's `http_app`."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(server.http_app(**options), log_level="error", lifespan="on", timeout_graceful_shutdown=1)
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    until = time.monotonic() + 10
    while not running.started:
        assert thread.is_alive(), "the server did not start"
        assert time.monotonic() < until, "the server took too long to start"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    finally:
        running.should_exit = True
        thread.join(10)
        listening.close()
        assert not thread.is_alive(), "the server did not stop"
