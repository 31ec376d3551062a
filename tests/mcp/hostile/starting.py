"""Misbehaviour before there is a connection."""

from __future__ import annotations

import os
import sys
import time

from tests.mcp.hostile.behaviours import at_start, behaviour
from tests.mcp.hostile.wire import LIFE, SECRET, JsonObject, Server


@at_start
def hang_at_start(server: Server, request: JsonObject) -> None:
    """Takes the first request and never answers."""


@behaviour
def deaf_at_start(server: Server) -> None:
    """Never reads a byte."""
    time.sleep(LIFE)


@behaviour
def garbage_at_start(server: Server) -> None:
    """Writes a thousand lines that are no JSON, then answers nothing."""
    server.line("\n".join(["Welcome! <html>", "{", "[1, 2", '"text"', "42", "null", "[]", "{}"] * 125))
    time.sleep(LIFE)


@behaviour
def binary_at_start(server: Server) -> None:
    """Writes bytes that are no UTF-8."""
    server.write(bytes(range(128, 256)) * 4 + b"\n")
    time.sleep(LIFE)


@behaviour
def garbage_for_ever(server: Server) -> None:
    """Writes one line that never ends."""
    while True:
        server.write(b"x" * 65536)
        time.sleep(0.001)


@behaviour
def greets_first(server: Server) -> None:
    """Prints a banner, blank lines and a line with a BOM to the pipe of the protocol before it works."""
    server.line("Hostile server 1.0\n\n\r\n\ufeff{}")


@behaviour
def exit_at_start(server: Server) -> None:
    """Ends at once with status 3 and a word on stderr."""
    sys.stderr.write("no configuration\n")
    os._exit(3)


@at_start
def exit_when_asked(server: Server, request: JsonObject) -> None:
    """Ends when the first request has come."""
    os._exit(0)


@at_start
def refuses_to_start(server: Server, request: JsonObject) -> None:
    """Answers the first requests with an error that holds escape sequences, a secret and 100 kB."""
    server.fail(request, f"\x1b[2J\x1b]0;gotcha\x07 token={SECRET} " + "x" * 100_000)


@at_start
def version_of_old(server: Server, request: JsonObject) -> None:
    """Speaks a version of the protocol that never was."""
    result = {"protocolVersion": "1999-01-01", "capabilities": {}, "serverInfo": {"name": "old", "version": "0"}}
    server.reply(request, result)


@at_start
def shapeless_start(server: Server, request: JsonObject) -> None:
    """Answers the first requests with a list."""
    server.reply_raw(request, "[1, 2, 3]")


@behaviour
def slow_start(server: Server) -> None:
    """Needs half a second before it reads, and then works."""
    time.sleep(0.5)
