"""The hostile server over HTTP: raw sockets in threads of the test process, one behaviour per server."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.mcp.hostile.wire import SECRET, JsonObject, Server, text

Handler = Callable[["Web", "Request"], None]

UNPACKED = 100
"""Megabytes in the zip bomb."""


@dataclass
class Request:
    """One request, and its socket."""

    method: str
    headers: dict[str, str]
    body: bytes
    socket: socket.socket

    @property
    def message(self) -> JsonObject:
        """The JSON-RPC message of the request."""
        return json.loads(self.body or b"{}")

    @property
    def is_call(self) -> bool:
        """Whether it is a call of `bad`."""
        return self.message.get("params", {}).get("name") == "bad"

    def send(self, status: str, *headers: str, body: bytes = b"", length: int | None = None) -> None:
        """Answer with a status, headers and a body; `length` is its declared length."""
        said = f"Content-Length: {len(body) if length is None else length}"
        self.socket.sendall("\r\n".join([f"HTTP/1.1 {status}", *headers, said, "", ""]).encode() + body)

    def stream(self, *headers: str) -> None:
        """Begin an answer that ends with the connection."""
        lines = ["HTTP/1.1 200 OK", *(headers or ("Content-Type: text/event-stream",)), "Connection: close", "", ""]
        self.socket.sendall("\r\n".join(lines).encode())

    def drip(self, data: bytes = b": still here\n\n", pause: float = 0.05) -> None:
        """Send the same bytes until the client closes the connection."""
        while True:
            self.socket.sendall(data)
            time.sleep(pause)


class _Answers(Server):
    """The well-behaved stdio server, whose lines are collected."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.lines.append(data)


@dataclass
class Web:
    """One server on a free port. `seen` has the requests that it received."""

    behaviour: Handler
    elsewhere: str = ""
    """Where `redirects_elsewhere` sends its clients."""
    seen: list[Request] = field(default_factory=list)
    open: set[socket.socket] = field(default_factory=set)
    """The connections that have not ended."""
    sessions: int = 0

    def __post_init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/mcp"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Close the server and all its connections."""
        for opened in (self._listening, *list(self.open)):
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()

    def well(self, request: Request, *headers: str) -> None:
        """Answer correctly."""
        if request.method != "POST":
            request.send("405 Method Not Allowed")
            return
        message = request.message
        if "id" not in message:
            request.send("202 Accepted")
            return
        server = _Answers()
        answer = server.answers.get(message["method"])
        if answer is None:
            server.fail(message, "Method not found", code=-32601)
        else:
            answer(server, message)
        request.send("200 OK", "Content-Type: application/json", *headers, body=b"".join(server.lines))

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self.open.add(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), connection, connection.makefile("rb") as reader:
            while (request := _read(reader, connection)) is not None:
                self.seen.append(request)
                self.behaviour(self, request)
        self.open.discard(connection)


def _read(reader: Any, connection: socket.socket) -> Request | None:
    first = reader.readline().decode("latin-1").split()
    if len(first) < 2:
        return None
    headers = {}
    while line := reader.readline().strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    return Request(first[0], headers, reader.read(int(headers.get("content-length", 0))), connection)


@contextlib.contextmanager
def serving(behaviour: Handler, **options: Any) -> Iterator[Web]:
    """Run a server during a `with` block."""
    web = Web(behaviour, **options)
    try:
        yield web
    finally:
        web.close()


BEHAVIOURS: dict[str, Handler] = {}
"""The behaviours by name; the docstring of a function is its line in the table."""


def at_start(handler: Handler) -> Handler:
    """Register the answer to every request."""
    BEHAVIOURS[handler.__name__] = handler
    return handler


def at_call(handler: Handler) -> Handler:
    """Register the answer to a call of `bad`; other requests are answered correctly."""

    def sorted_out(web: Web, request: Request) -> None:
        (handler if request.is_call else Web.well)(web, request)

    sorted_out.__doc__ = handler.__doc__
    BEHAVIOURS[handler.__name__] = sorted_out
    return handler


@at_start
def unauthorised(web: Web, request: Request) -> None:
    """Answers 401 and names a login URL of its choice."""
    place = f'Bearer resource_metadata="{web.url}/metadata"'
    request.send("401 Unauthorized", f"WWW-Authenticate: {place}")


@at_start
def forbidden(web: Web, request: Request) -> None:
    """Answers 403."""
    request.send("403 Forbidden", body=b"no")


@at_start
def broken(web: Web, request: Request) -> None:
    """Answers 500 with a page that contains a secret."""
    page = f"<html>DSN=postgres://admin:{SECRET}@db{'x' * 1_000_000}".encode()
    request.send("500 Internal Server Error", "Content-Type: text/html", body=page)


@at_start
def redirect_loop(web: Web, request: Request) -> None:
    """Sends every request back to itself."""
    request.send("307 Temporary Redirect", f"Location: {web.url}")


@at_start
def greets_in_another_tongue(web: Web, request: Request) -> None:
    """Does not speak HTTP."""
    request.socket.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")


@at_start
def silent(web: Web, request: Request) -> None:
    """Reads a request and never answers."""
    request.socket.recv(1)


@at_start
def html_page(web: Web, request: Request) -> None:
    """Answers every request with a page."""
    request.send("200 OK", "Content-Type: text/html", body=b"<html>Please log in</html>")


@at_start
def slow_head(web: Web, request: Request) -> None:
    """Sends its headers a byte at a time."""
    request.socket.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    request.drip(b"x")


@at_start
def huge_header(web: Web, request: Request) -> None:
    """Sends a header of 10 MB."""
    web.well(request, f"X-Huge: {'x' * 10_000_000}")


@at_start
def endless_headers(web: Web, request: Request) -> None:
    """Sends headers without end."""
    request.socket.sendall(b"HTTP/1.1 200 OK\r\n")
    request.drip(b"X-More: and more\r\n" * 1000, 0.001)


@at_start
def odd_session_id(web: Web, request: Request) -> None:
    """Uses a session id of 50 kB."""
    web.well(request, f"Mcp-Session-Id: {'s' * 50_000}")


@at_call
def call_unauthorised(web: Web, request: Request) -> None:
    """Answers a call with 401."""
    request.send("401 Unauthorized")


@at_call
def call_broken(web: Web, request: Request) -> None:
    """Answers a call with 500."""
    request.send("500 Internal Server Error", body=SECRET.encode())


@at_call
def limited(web: Web, request: Request) -> None:
    """Answers a call with 429 and asks to wait a day."""
    request.send("429 Too Many Requests", "Retry-After: 86400")


@at_start
def forgetful(web: Web, request: Request) -> None:
    """Forgets each session with its first call: answers it with 404, and knows the session that comes after it."""
    known = f"session-{web.sessions}"
    if request.method == "POST" and request.message.get("method") == "initialize":
        web.sessions += 1
        web.well(request, f"Mcp-Session-Id: session-{web.sessions}")
    elif request.is_call and (web.sessions < 2 or request.headers.get("mcp-session-id") != known):
        request.send("404 Not Found")
    else:
        web.well(request)


@at_start
def never_remembers(web: Web, request: Request) -> None:
    """Forgets every session before the call."""
    if request.is_call:
        request.send("404 Not Found")
    else:
        web.well(request, "Mcp-Session-Id: again")


@at_start
def redirects_elsewhere(web: Web, request: Request) -> None:
    """Sends every request to another server."""
    request.send("307 Temporary Redirect", f"Location: {web.elsewhere}")


@at_call
def accepted(web: Web, request: Request) -> None:
    """Answers a call with 202 and no more."""
    request.send("202 Accepted")


@at_call
def slow_body(web: Web, request: Request) -> None:
    """Sends its body a byte at a time."""
    request.socket.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{")
    request.drip(b" ")


@at_call
def short_body(web: Web, request: Request) -> None:
    """Declares more bytes than it sends, and closes."""
    request.send("200 OK", "Content-Type: application/json", body=b'{"jsonrpc":', length=1000)
    request.socket.shutdown(socket.SHUT_RDWR)


@at_call
def endless_body(web: Web, request: Request) -> None:
    """Sends a body without end."""
    request.stream("Content-Type: application/json")
    request.drip(b"x" * 65536, 0.001)


@at_call
def bad_chunks(web: Web, request: Request) -> None:
    """Sends chunks whose sizes are not numbers."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    request.socket.sendall(head + b"zz\r\n{}\r\n")


@at_call
def zip_bomb(web: Web, request: Request) -> None:
    """Sends 100 kB that are 100 MB when decompressed."""
    request.send("200 OK", "Content-Type: application/json", "Content-Encoding: gzip", body=_bomb())


def _bomb() -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    megabyte = b" " * 1_000_000
    return b"".join([*(packer.compress(megabyte) for _ in range(UNPACKED)), packer.flush()])


@at_call
def countless_values(web: Web, request: Request) -> None:
    """Sends three million empty objects in 9 MB."""
    body = b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"a":[' + b"{}," * 3_000_000 + b"{}]}}}"
    request.send("200 OK", "Content-Type: application/json", body=body)


@at_call
def countless_events(web: Web, request: Request) -> None:
    """Sends the answer as the last of 2,001 events."""
    request.stream()
    notice = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "a,[{" * 9}}
    request.socket.sendall(b"data: %s\n\n" % json.dumps(notice).encode() * 2_000)
    answer = {"jsonrpc": "2.0", "id": request.message["id"], "result": text("at last")}
    request.socket.sendall(b"data: %s\n\n" % json.dumps(answer).encode())
    request.socket.shutdown(socket.SHUT_RDWR)


@at_call
def events_for_ever(web: Web, request: Request) -> None:
    """Opens a stream of events and sends only comments."""
    request.stream()
    request.drip()


@at_call
def no_events(web: Web, request: Request) -> None:
    """Opens a stream of events and sends none."""
    request.stream()
    request.socket.recv(1)


@at_call
def notices_for_ever(web: Web, request: Request) -> None:
    """Sends log messages as events without end."""
    request.stream()
    notice = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "on and on"}}
    request.drip(b"data: %s\n\n" % json.dumps(notice).encode() * 100, 0)


@at_call
def endless_event(web: Web, request: Request) -> None:
    """Sends one event that never ends."""
    request.stream()
    request.socket.sendall(b"data: ")
    request.drip(b"x" * 65536, 0.001)


@at_call
def events_end_early(web: Web, request: Request) -> None:
    """Ends its stream of events before the answer, again and again, and asks to come back at once."""
    request.stream()
    request.socket.sendall(b"id: 1\nretry: 0\ndata:\n\n")
    request.socket.shutdown(socket.SHUT_RDWR)


@at_call
def garbage_events(web: Web, request: Request) -> None:
    """Sends events that are not messages, and then the answer."""
    request.stream()
    answer = {"jsonrpc": "2.0", "id": request.message["id"], "result": text("at last")}
    events = b"event: strange\ndata: {}\n\ndata: not JSON\n\ndata: [1]\n\nretry: soon\n\n"
    request.socket.sendall(events + b"event: message\ndata: %s\n\n" % json.dumps(answer).encode())
    request.socket.shutdown(socket.SHUT_RDWR)


@at_call
def resets(web: Web, request: Request) -> None:
    """Resets the connection in the middle of an answer."""
    request.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    request.send("200 OK", "Content-Type: application/json", body=b"{", length=100)
    os.close(request.socket.detach())
