"""The server: it listens on 127.0.0.1, saves the requests, and stops with its `with` block."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType, TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from . import (
    anthropic_messages,
    bedrock_converse,
    gemini_generate,
    mistral_chat,
    model,
    ollama_chat,
    openai_chat,
    openai_responses,
)
from .rules import Refusal

TIMEOUT_SECONDS = 10.0
"""Seconds that the server waits for a client, or for its own end."""

SERVICES = {
    service.__name__.rpartition(".")[2]: service
    for service in (
        anthropic_messages,
        bedrock_converse,
        gemini_generate,
        mistral_chat,
        ollama_chat,
        openai_chat,
        openai_responses,
    )
}


class Loopback:
    """Answers every service's requests: first with calls, one for each of the `arguments`, then with text.

    >>> with Loopback({"city": "Oslo"}) as server:
    ...     server.url("openai_chat").startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, *arguments: dict[str, Any], turns: Sequence[model.Call] = ()) -> None:
        """Take the arguments of the calls that the model makes.

        With `turns`, pairs of a tool's name and arguments, each of its first answers makes one of these calls.
        """
        self.arguments: Sequence[dict[str, Any]] = arguments
        self.turns: Iterator[model.Call] = iter(turns)
        self.malformed = 0
        """How many of the next answers have a malformed call, of services that discard one."""
        self.requests: list[dict[str, Any]] = []
        """The bodies of the requests, oldest first, refused ones included."""
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.loopback = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def url(self, service: str) -> str:
        """Return the base address of a service. Its name comes first: Mistral's and OpenAI's own paths are the same."""
        return f"http://127.0.0.1:{self._server.server_port}/{service}"

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(TIMEOUT_SECONDS)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    loopback: Loopback

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that disconnected before its answer was written."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_SECONDS
    server: _Server

    def do_POST(self) -> None:
        """Answer one request, and close: no client can keep the server waiting."""
        self.close_connection = True
        try:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        except ValueError:
            body = None
        if not isinstance(body, dict):
            self._send(400, {"error": "The body is no JSON object."})
            return
        self.server.loopback.requests.append(body)
        _, name, path = unquote(urlsplit(self.path).path).split("/", 2)
        service = SERVICES.get(name)
        asked = service.ROUTE.fullmatch(path) if service else None
        if service is None or asked is None:
            self._send(404, {"error": f"Nothing answers at {self.path!r}."})
            return
        self._answer(service, {**asked.groupdict(), **body})

    def _answer(self, service: ModuleType, request: dict[str, Any]) -> None:
        try:
            loopback = self.server.loopback
            answer = model.make_answer(service, request, loopback.arguments, loopback.turns)
            if loopback.malformed > 0:
                loopback.malformed, answer = loopback.malformed - 1, service.malformed_answer(answer)
        except Refusal as refusal:
            self._send(400, service.error_body(str(refusal)))
            return
        except (KeyError, TypeError) as error:
            self._send(400, service.error_body(f"The request is not as it has to be: {error!r}"))
            return
        if not request.get("stream"):
            self._send(200, answer)
            return
        self._start(200, service.CONTENT_TYPE)
        for event in service.events(answer):
            self.wfile.write(event)

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self._start(status, "application/json", length=len(data))
        self.wfile.write(data)

    def _start(self, status: int, content_type: str, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Connection", "close")
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name in http.server
        """Log nothing: the requests are saved."""
