"""A small MCP server over two pipes, raw JSON lines. It behaves well until a behaviour replaces one of its answers."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

JsonObject = dict[str, Any]
Answer = Callable[["Server", JsonObject], None]
"""Handles one request, including the answer."""

ECHO: JsonObject = {
    "name": "echo",
    "description": "Say it again.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}
BAD: JsonObject = {"name": "bad", "description": "The tool that misbehaves.", "inputSchema": {"type": "object"}}

LIFE = 60
"""Seconds after which every server and every child of one exits, even without its client."""

SECRET = "sk-live-4242424242424242"
"""A secret that must not appear in texts for callers or in logs."""


def text(content: str, **more: Any) -> JsonObject:
    """Return a result with one text."""
    return {"content": [{"type": "text", "text": content}], **more}


class Server:
    """One connection. `answers` has the handler of each method; `echo` always works, behaviours replace `bad`."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {
            "initialize": Server.initialize,
            "tools/list": Server.list,
            "tools/call": Server.call,
            "ping": lambda server, request: server.reply(request, {}),
        }
        self.tools: list[JsonObject] = [ECHO, BAD]
        self.bad: Answer = lambda server, request: server.reply(request, text("well"))
        self.heard: Callable[[JsonObject], None] = lambda message: None
        """Called with every answer and notification of the client."""
        self.stamp: JsonObject = {}
        """Additional members of every result of `echo`, for the 2026 protocol."""
        self.lists = 0
        self.asked = 0
        self._writing = threading.Lock()
        self._lines = sys.stdin.buffer

    def serve(self) -> None:
        """Answer until the client closes the pipe."""
        for line in self._messages():
            message = json.loads(line)
            if "method" not in message or "id" not in message:
                self.heard(message)
                continue
            answer = self.answers.get(message["method"])
            if answer is None:
                self.fail(message, "Method not found", code=-32601)
            else:
                answer(self, message)

    def _messages(self) -> Iterator[bytes]:
        while line := self._lines.readline():
            yield line

    def write(self, data: bytes) -> None:
        """Write all bytes unchanged."""
        with self._writing:
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]

    def line(self, content: str) -> None:
        """Write one line unchanged."""
        self.write(content.encode() + b"\n")

    def send(self, message: JsonObject) -> None:
        self.line(json.dumps({"jsonrpc": "2.0", **message}))

    def reply(self, request: JsonObject, result: Any) -> None:
        self.send({"id": request["id"], "result": result})

    def reply_raw(self, request: JsonObject, result: str) -> None:
        """Answer with a result as raw text, which need not be JSON."""
        self.line(f'{{"jsonrpc":"2.0","id":{json.dumps(request["id"])},"result":{result}}}')

    def fail(self, request: JsonObject, message: str, *, code: int = -32603) -> None:
        self.send({"id": request["id"], "error": {"code": code, "message": message}})

    def notify(self, method: str, **params: Any) -> None:
        self.send({"method": method, "params": params})

    def ask(self, method: str, **params: Any) -> None:
        """Send a request to the client."""
        self.asked += 1
        self.send({"id": f"ask-{self.asked}", "method": method, "params": params})

    def initialize(self, request: JsonObject) -> None:
        self.reply(
            request,
            {
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}, "logging": {}},
                "serverInfo": {"name": "hostile", "version": "1"},
            },
        )

    def list(self, request: JsonObject) -> None:
        self.lists += 1
        self.reply(request, {"tools": self.tools})

    def call(self, request: JsonObject) -> None:
        name, arguments = request["params"]["name"], request["params"].get("arguments") or {}
        if name == "echo":
            self.reply(request, {**text(str(arguments.get("text"))), **self.stamp})
        else:
            self.bad(self, request)
