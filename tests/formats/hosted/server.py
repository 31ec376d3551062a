"""A loopback server for one service that plays a protocol strictly: a wrong request gets the provider's error."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from examples.loopback import frames
from examples.loopback.rules import Refusal


class Service(Protocol):
    """What answers requests."""

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer. Raises Refusal."""
        ...

    def events(self, answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the events of an answer as a stream."""
        ...


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    service: Service


class _Handler(BaseHTTPRequestHandler):
    timeout = 10.0
    server: _Server

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            answer = self.server.service.answer(request)
        except Refusal as refusal:
            error = {"type": "invalid_request_error", "message": str(refusal)}
            self._send(400, "application/json", json.dumps({"type": "error", "error": error}).encode())
            return
        if not request.get("stream"):
            self._send(200, "application/json", json.dumps(answer).encode())
            return
        events = self.server.service.events(answer)
        body = b"".join(frames.server_sent(event, event["type"]) for event in events)
        self._send(200, frames.SERVER_SENT, body)

    def _send(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@contextmanager
def serving(service: Service) -> Iterator[str]:
    """Yield the address of a server that this service answers for."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.service = service
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10.0)
