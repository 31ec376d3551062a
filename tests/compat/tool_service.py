"""A service over loopback: HTTP requests, and tools behind `/tools/{name}/schema` and `/tools/{name}/execute`."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "k-123456789"

WEATHER = {
    "name": "weather",
    "description": "Return the weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
}

LOCAL: dict[str, Any] = {"allow_private": ["127.0.0.1"]}
"""The options of a tool that may reach the service."""


class Service:
    """What the service was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[dict[str, Any]] = []

    def respond(self, path: str, sent: Any) -> tuple[int, Any]:
        """Return the status and the content of a response."""
        if path.startswith("/flaky") and len(self.requests) < 3:
            return 503, {"detail": "try again"}
        if path.endswith("/schema"):
            schemas = {"weather": WEATHER, "broken": ["no", "schema"]}
            schema = schemas.get(path.split("/")[-2])
            return (404, {"detail": "no such tool"}) if schema is None else (200, schema)
        return 200, {"path": path, "sent": sent}


@contextlib.contextmanager
def running(*, needs_key: bool = False) -> Iterator[Service]:
    """Run the service during a `with` block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer("")

        def do_POST(self) -> None:
            self.answer(self.rfile.read(int(self.headers["Content-Length"] or 0)).decode())

        def answer(self, body: str) -> None:
            sent = json.loads(body) if body else None
            request = {"method": self.command, "path": self.path, "headers": dict(self.headers), "body": sent}
            service.requests.append(request)
            has_key = not needs_key or self.headers["Authorization"] == f"Bearer {KEY}"
            self.reply(*(service.respond(self.path, sent) if has_key else (403, {"detail": "no permission"})))

        def reply(self, status: int, content: Any) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service = Service(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
