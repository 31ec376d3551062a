"""An HTTP server that answers with the request that it received, byte by byte."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import uvicorn

WAIT_SECONDS = 30


@dataclass
class EchoServer:
    """The server's URL, what it has received, and the answers to single paths."""

    url: str = ""
    received: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, tuple[int, str, bytes]] = field(default_factory=dict)
    """Status, media type and body by path; other paths answer with the request."""

    @property
    def last(self) -> dict[str, Any]:
        """The last request."""
        return self.received[-1]

    def answer(self, path: str, content: Any, status: int = 200, media_type: str = "application/json") -> None:
        """Set the answer of a path; without content, the body is empty."""
        body = b"" if content is None else content if isinstance(content, bytes) else json.dumps(content).encode()
        self.answers[path] = status, media_type, body

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request: the ASGI application."""
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        request = {
            "method": scope["method"],
            "path": scope["raw_path"].decode(),
            "query": scope["query_string"].decode(),
            "headers": headers,
            "body": body.decode("latin-1"),
        }
        self.received.append(request)
        if request["path"] == "/token":
            answer = (
                200,
                "application/json",
                json.dumps({"access_token": "t-" + "1" * 20, "token_type": "Bearer"}).encode(),
            )
        else:
            answer = self.answers.get(request["path"], (200, "application/json", json.dumps(request).encode()))
        status, media_type, content = answer
        head = [(b"content-length", str(len(content)).encode())]
        if content:
            head.append((b"content-type", media_type.encode()))
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": content})


def pairs(query: str) -> list[tuple[str, str]]:
    """Return the decoded names and values of a query."""
    return parse_qsl(query, keep_blank_values=True)


@contextlib.contextmanager
def running() -> Iterator[EchoServer]:
    """Run a server on a free port of this machine, in a thread."""
    echo = EchoServer()
    listening = socket.socket(proto=socket.IPPROTO_TCP)  # asyncio sends at once only on sockets that say so
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    echo.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(echo, log_level="error", lifespan="off", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    until = time.monotonic() + WAIT_SECONDS
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        assert time.monotonic() < until, "the server took too long to start"
        time.sleep(0.005)
    try:
        yield echo
    finally:
        server.should_exit = True
        thread.join(WAIT_SECONDS)
        listening.close()
