"""Misbehaviour with the 2026 protocol: a server that answers `server/discover` and asks in its results."""

from __future__ import annotations

from tests.mcp.hostile.behaviours import behaviour
from tests.mcp.hostile.living import FORM
from tests.mcp.hostile.wire import JsonObject, Server, text

CACHED: JsonObject = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def _speak(server: Server) -> None:
    capabilities = {"tools": {"listChanged": True}}
    found = {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, **CACHED}
    server.stamp = {"resultType": "complete"}
    server.answers["server/discover"] = lambda server, request: server.reply(request, found)
    server.answers["tools/list"] = lambda server, request: server.reply(request, {"tools": server.tools, **CACHED})


@behaviour
def modern(server: Server) -> None:
    """Uses the 2026 protocol and behaves."""
    _speak(server)
    server.bad = lambda server, request: server.reply(request, {**text("well"), "resultType": "complete"})


@behaviour
def input_for_ever(server: Server) -> None:
    """Answers each call with one more question to the user (2026)."""
    _speak(server)
    question = {"method": "elicitation/create", "params": {"mode": "form", **FORM}}

    def more(server: Server, request: JsonObject) -> None:
        server.asked += 1
        state = f"round {server.asked}"
        needed = {"resultType": "input_required", "inputRequests": {"q": question}, "requestState": state}
        server.reply(request, needed)

    server.bad = more


@behaviour
def unknown_result_type(server: Server) -> None:
    """Answers a call with an unknown result type (2026)."""
    _speak(server)
    server.bad = lambda server, request: server.reply(request, {**text("well"), "resultType": "mystery"})
