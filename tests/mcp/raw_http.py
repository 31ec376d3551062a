"""An MCP server over HTTP that needs only the standard library, and answers each call as a test says."""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[["Request", dict[str, Any]], Any]
"""Answers a call: it returns the result of the call, or writes a response itself and returns None."""


class RawService:
    """The state of a server: its tools, the sessions that it knows, and the calls that reached a tool."""

    url = ""

    def __init__(self, **tools: Answer) -> None:
        self.tools = tools
        self.output_schemas: dict[str, Any] = {}
        self.listing: Answer | None = None
        """Answers a request for the tools."""
        self.listing_count = 0
        self.sessions: set[str] = set()
        self.started: list[str] = []
        """Every session that was started."""
        self.calls: list[tuple[str, Any]] = []
        """The names and arguments of the calls that reached a tool."""
        self.called = threading.Event()
        """Set when the first call has reached a tool."""
        self.forgotten: Answer = lambda request, message: request.refuse(404, -32001, "Session not found")
        """Answers a request of an unknown session."""


class Request(BaseHTTPRequestHandler):
    """One request."""

    service: RawService

    def do_GET(self) -> None:
        self.write(405)

    def do_DELETE(self) -> None:
        self.write(200)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method, service = message["method"], self.service
        if method == "server/discover":
            self.write_error(200, message["id"], -32601, "Method not found")
        elif method == "initialize":
            session = uuid.uuid4().hex
            service.sessions.add(session)
            service.started.append(session)
            about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "raw"}}
            about["serverInfo"]["version"] = "1"
            self.write_result(message["id"], about, session)
        elif self.headers.get("Mcp-Session-Id") not in service.sessions:
            service.forgotten(self, message)
        elif "id" not in message:
            self.write(202)
        elif method == "tools/list" and service.listing is not None:
            service.listing_count += 1
            service.listing(self, message)
        elif method == "tools/list":
            tool = {"description": "A tool.", "inputSchema": {"type": "object"}}
            schemas = {name: {"outputSchema": schema} for name, schema in service.output_schemas.items()}
            tools = [{"name": name, **tool, **schemas.get(name, {})} for name in service.tools]
            self.write_result(message["id"], {"tools": tools})
        else:
            name, arguments = message["params"]["name"], message["params"].get("arguments")
            service.calls.append((name, arguments))
            service.called.set()
            result = service.tools[name](self, message)
            if result is not None:
                self.write_result(message["id"], result)

    def write(self, status: int, body: bytes = b"", kind: str = "application/json", session: str | None = None) -> None:
        """Write a response."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if session is not None:
            self.send_header("Mcp-Session-Id", session)
        self.end_headers()
        self.wfile.write(body)

    def write_result(self, identifier: Any, result: Any, session: str | None = None) -> None:
        """Write the result of a request."""
        body = json.dumps({"jsonrpc": "2.0", "id": identifier, "result": result}).encode()
        self.write(200, body, session=session)

    def write_error(self, status: int, identifier: Any, code: int, message: str) -> None:
        """Write an error."""
        error = {"code": code, "message": message}
        self.write(status, json.dumps({"jsonrpc": "2.0", "error": error, "id": identifier}).encode())

    def refuse(self, status: int, code: int, message: str) -> None:
        """Refuse a request as a server does that has not read it."""
        self.write_error(status, None, code, message)

    def cut(self, sent: bytes = b"", *, status: int = 200, kind: str = "application/json") -> None:
        """End the connection in the middle of a response, or before it."""
        if sent:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(sent) + 1))
            self.end_headers()
            self.wfile.write(sent)
        self.wfile.flush()
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


def text(content: str) -> dict[str, Any]:
    """Return the result of a call."""
    return {"content": [{"type": "text", "text": content}]}


@contextlib.contextmanager
def serving(service: RawService, *, port: int = 0) -> Iterator[RawService]:
    """Serve during a `with` block; `url` of the service is where."""
    handler = type("Handler", (Request,), {"service": service})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_port}/mcp"
    try:
        yield service
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
