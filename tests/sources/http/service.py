"""A small HTTP service on loopback, in a thread, that answers as a test asks it to."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.parser import HeaderParser
from typing import Any

Reply = Callable[["Received"], bytes]
"""Returns the bytes of a response."""


@dataclass(frozen=True, kw_only=True)
class Received:
    """A request that the service got."""

    method: str
    target: str
    """Path and query, as they were sent."""
    headers: dict[str, str]
    """By lowercase names."""
    body: bytes
    connection: Any = field(repr=False)
    """The socket."""


@dataclass
class Service:
    """A running service; `replies` are its responses by path."""

    port: int
    scheme: str = "http"
    replies: dict[str, Reply] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0
    closed: threading.Event = field(default_factory=threading.Event)
    """Set when a client has closed a connection."""
    release: threading.Event = field(default_factory=threading.Event)
    """What a slow reply waits for."""

    @property
    def url(self) -> str:
        """The address of the service."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def reply(self, path: str, *replies: Reply) -> None:
        """Answer requests for a path with these responses in turn; the last one stays."""
        pending = list(replies)

        def answer(request: Received) -> bytes:
            return (pending.pop(0) if len(pending) > 1 else pending[0])(request)

        self.replies[path] = answer

    @property
    def last(self) -> Received:
        """The last request."""
        return self.received[-1]


def respond(
    body: bytes | str = b"", status: str = "200 OK", content_type: str | None = "application/json", **headers: str
) -> Reply:
    """Return a reply with this body."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}"]
    lines += [] if content_type is None else [f"Content-Type: {content_type}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return lambda _: "\r\n".join([*lines, "", ""]).encode() + data


def redirect(location: str, status: str = "302 Found") -> Reply:
    """Return a reply that redirects."""
    return respond(status=status, location=location)


class _Handler(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        service = self.server.service
        with self.server.lock:
            service.connections += 1
            service.open_connections += 1
        try:
            with contextlib.suppress(OSError), self.request.makefile("rb") as reader:
                while self._answer_one(reader):
                    pass
        finally:
            with self.server.lock:
                service.open_connections -= 1
            service.closed.set()

    def _answer_one(self, reader: Any) -> bool:
        line = reader.readline()
        if not line:
            return False
        method, target, _ = line.decode("latin-1").split(" ", 2)
        raw = b""
        while (part := reader.readline()) not in {b"\r\n", b""}:
            raw += part
        headers = {name.lower(): value for name, value in HeaderParser().parsestr(raw.decode("latin-1")).items()}
        body = reader.read(int(headers.get("content-length", 0)))
        request = Received(method=method, target=target, headers=headers, body=body, connection=self.request)
        service = self.server.service
        service.received.append(request)
        reply = service.replies.get(target.partition("?")[0]) or service.replies["*"]
        data = reply(request)
        self.request.sendall(data)
        return not (data == b"" or b"Connection: close" in data[:2000])


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 300

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lock = threading.Lock()
        self.service = Service(self.server_address[1], "http" if tls is None else "https")
        self.tls = tls

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return (connection if self.tls is None else self.tls.wrap_socket(connection, server_side=True)), address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent: a client may close its connection at any time."""


@contextlib.contextmanager
def serve(tls: ssl.SSLContext | None = None) -> Iterator[Service]:
    """Run a service; it answers `{"ok": true}` unless told otherwise."""
    with _Server(tls) as server:
        server.service.replies["*"] = respond('{"ok": true}')
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="service", daemon=True)
        thread.start()
        try:
            yield server.service
        finally:
            server.service.release.set()
            server.shutdown()
            thread.join(10)
