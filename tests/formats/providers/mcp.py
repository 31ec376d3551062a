"""The Model Context Protocol. An response is a list of requests, for a request holds one call."""

from __future__ import annotations

from typing import Any

from tests.formats.providers import Calls, as_input

CALL_DATA = {"_meta": {"progressToken": "p1"}, "id": 7}

CHOICES = {word: {"toolChoice": {"mode": word}} for word in ("auto", "none", "required")}

forced_names = None


def response(calls: Calls) -> list[dict[str, Any]]:
    return [
        {"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": {"name": n, "arguments": as_input(a)}}
        for i, n, a in calls
    ]


def events(calls: Calls) -> list[dict[str, Any]]:
    return [{"jsonrpc": "2.0", "method": "notifications/initialized"}, *response(calls)]


def exported(tools: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(tool["name"], tool["inputSchema"]) for tool in tools]


def result_ids(messages: list[dict[str, Any]]) -> list[str]:
    return [message["id"] for message in messages]


def result_texts(messages: list[dict[str, Any]]) -> list[Any]:
    return ["".join(block["text"] for block in _blocks(message)) if _blocks(message) else None for message in messages]


def read(messages: list[dict[str, Any]]) -> list[Any]:
    return [_blocks(message) for message in messages]


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    return message["result"]["content"]


def is_ours(row: dict[str, Any]) -> bool:
    return False
