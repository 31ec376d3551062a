"""Large results over HTTP arrive complete, are sent in pieces, and what waits for one client is bounded."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.utilities.types import Image
from mcp_types import CallToolResult, EmbeddedResource, TextContent, TextResourceContents
from starlette.types import Message

from ahvn_tools import Toolkit
from ahvn_tools.errors import LimitExceededError
from ahvn_tools.mcp.server import large_results
from ahvn_tools.mcp.server.large_results import LargeParts, LargeResultSender, encode
from tests.mcp.serving import over_http

TEXT = 'größe "quoted" \U0001f600 \n' * 8_000
ROWS = [{"id": number, "text": f"row {number}", "parts": [None, True, 1.5]} for number in range(4_000)]


def text() -> str:
    """Return a text."""
    return TEXT


def rows() -> list[dict[str, Any]]:
    """Return rows."""
    return ROWS


def image() -> Image:
    """Return an image."""
    return Image(data=bytes(300_000), format="png")


def resource() -> EmbeddedResource:
    """Return a resource."""
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri="test://text", text=TEXT))


@pytest.mark.parametrize(
    ("wire", "json_response"),
    [
        ("auto", True),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in [("auto", False), ("legacy", False), ("legacy", True)]
        ),
    ],
)
async def test_a_large_result_is_what_the_tool_returned(wire: Any, json_response: bool):
    kit = Toolkit("large").add(text).add(rows).add(image).add(resource)
    async with over_http(kit, http={"json_response": json_response}) as url, Client(url, mode=wire) as client:
        assert (await client.call_tool("text")).data == TEXT
        answer = await client.call_tool("rows")
        assert answer.structured_content == {"result": ROWS}
        assert json.loads(answer.content[0].text) == ROWS
        assert base64.b64decode((await client.call_tool("image")).content[0].data) == bytes(300_000)
        assert (await client.call_tool("resource")).content[0].resource.text == TEXT


def test_the_pieces_of_a_value_are_its_json():
    value = {"a": ROWS, "b": {"c": TEXT, "d": []}, "é": 1, "f": (1, 2)}
    pieces = encode(value)
    assert json.loads(b"".join(pieces)) == {**value, "f": [1, 2]}
    assert len(pieces) > 1
    assert max(map(len, pieces)) <= 262_144


async def test_other_tasks_run_between_the_pieces_of_a_response():
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counter = asyncio.create_task(count_turns())
    messages = await respond(LargeResultSender, result_of(TEXT * 4))
    counter.cancel()
    bodies = [message["body"] for message in messages[1:]]
    assert json.loads(b"".join(bodies))["content"][0]["text"] == TEXT * 4
    assert turns > len(bodies) > 4
    assert [message["more_body"] for message in messages[1:]] == [True] * (len(bodies) - 1) + [False]
    assert dict(messages[0]["headers"]) == {b"a": b"b"}


async def test_what_waits_for_one_client_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(large_results, "MAX_WAITING_BYTES", 3 * len(TEXT))
    waiting: Counter[str] = Counter()
    first, second, other = (LargeParts(client, waiting) for client in ("ann", "ann", "bob"))
    await first.replace(result_of(TEXT * 4))  # one alone may be larger
    with pytest.raises(LimitExceededError, match="wait for this client"):
        await second.replace(result_of(TEXT))
    await other.replace(result_of(TEXT))
    first.close()
    await second.replace(result_of(TEXT))
    second.close()
    other.close()
    await other.replace(result_of(TEXT))  # its client has disconnected
    assert not waiting


async def test_a_client_that_stops_reading_is_disconnected(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(large_results, "STALL_SECONDS", 0.01)

    async def hang(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    with pytest.raises(OSError, match="does not read"):
        await respond(LargeResultSender, result_of(TEXT), hang)


def result_of(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)])


async def respond(sender: Any, result: CallToolResult, send: Any = None) -> list[Message]:
    """Return the messages of a response with a result."""
    messages: list[Message] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        sent = await scope["ahvn_tools.large_parts"].replace(result)
        await send({"type": "http.response.start", "headers": [(b"Content-Length", b"1"), (b"a", b"b")]})
        body = sent.model_dump_json(by_alias=True).encode()
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def collect(message: Message) -> None:
        messages.append(message)

    await sender(app)({"type": "http"}, None, send or collect)
    return messages
