"""Checks of a server's answers before mcp parses them."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from ahvn_tools.errors import InvalidResultError, LimitExceededError
from ahvn_tools.mcp.client.client_settings import ClientSettings
from ahvn_tools.mcp.client.guarded_session import GuardedStream, check_result
from ahvn_tools.mcp.trust.limits import Limits

SMALL = Limits(tools_per_page=2, blocks=2, values_per_message=20)


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"content": [{"type": "text", "text": "x" * 1000}] * 2},
        {"tools": [{}] * 2},
        {"tools": "no list", "content": None},
        {"structuredContent": {"a": 1.5, "b": [0] * 10}},
    ],
)
def test_result_within_the_limits_passes(result: dict[str, Any]) -> None:
    check_result(result, SMALL)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"tools": [{}] * 3}, "lists more than 2 tools on one page"),
        ({"content": [{}] * 3}, "more than 2 blocks of content"),
        ({"structuredContent": {"a": [0] * 30}}, "more than 20 values"),
        ({"structuredContent": {"a": [[[[0] * 7] * 3]]}}, "more than 20 values"),
    ],
)
def test_result_beyond_the_limits_is_refused(result: dict[str, Any], message: str) -> None:
    with pytest.raises(LimitExceededError, match=message):
        check_result(result, SMALL)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_are_refused(value: float) -> None:
    with pytest.raises(InvalidResultError, match="NaN or Infinity"):
        check_result({"structuredContent": {"deep": [{"a": value}]}}, SMALL)


MEDIA = {
    "image": ({"type": "image", "data": "AAAA", "mimeType": "image/png"}, True),
    "lines": ({"type": "image", "data": "AA\nAA\n", "mimeType": "image/svg+xml; charset=utf-8"}, True),
    "resource": ({"type": "resource", "resource": {"uri": "x://y", "blob": "AAAA"}}, True),
    "text": ({"type": "resource", "resource": {"uri": "x://y", "text": "!", "mimeType": "text/plain"}}, True),
    "no object": ("text", True),
    "no base64": ({"type": "audio", "data": "A", "mimeType": "audio/wav"}, False),
    "blob": ({"type": "resource", "resource": {"uri": "x://y", "blob": "!!!!"}}, False),
    "type": ({"type": "image", "data": "AAAA", "mimeType": "image/\x1b[31mpng"}, False),
}


@pytest.mark.parametrize(("block", "is_good"), MEDIA.values(), ids=MEDIA)
def test_media_must_be_base64_with_a_printable_type(block: Any, is_good: bool) -> None:
    if is_good:
        check_result({"content": [block]}, SMALL)
        return
    with pytest.raises(InvalidResultError, match="media"):
        check_result({"content": [block]}, SMALL)


async def test_too_many_requests_of_a_server_end_the_connection() -> None:
    reasons: list[str] = []
    send, receive = anyio.create_memory_object_stream[Any](10)
    settings = ClientSettings(limits=Limits(requests=2), on_connection_lost=reasons.append)
    incoming = GuardedStream(receive, settings)
    for number in range(3):
        await send.send(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=number, method="ping")))
    async with send, incoming:
        assert [(await incoming.receive()).message.id for _ in range(2)] == [0, 1]
        with pytest.raises(anyio.EndOfStream):
            await incoming.receive()
    assert reasons == ["the server sent more than 2 requests within 10 s"]


async def pass_through(message: Any, version: str | None = None) -> tuple[Any, GuardedStream]:
    """Send one message through a guarded stream, and return the result and the stream."""
    send, receive = anyio.create_memory_object_stream[Any](1)
    incoming = GuardedStream(receive, ClientSettings(limits=SMALL))
    incoming.protocol_version = version
    await send.send(message)
    async with send, incoming:
        return await incoming.receive(), incoming


async def test_refused_answer_becomes_the_error_of_its_request() -> None:
    item, _ = await pass_through(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=7, result={"tools": [{}] * 3})))
    assert isinstance(item.message, JSONRPCError)
    assert item.message.id == 7
    assert isinstance(item.message.error.data, LimitExceededError)


@pytest.mark.parametrize(
    ("result", "error"),
    [
        ({"status": "input_required", "inputRequests": {"a": {}}}, None),
        ({"status": "completed", "result": {"content": [{}] * 2}}, None),
        ({"status": "completed", "result": {"content": [{}] * 3}}, LimitExceededError),
        ({"status": "input_required", "inputRequests": {}}, InvalidResultError),
        ({"status": "input_required"}, InvalidResultError),
    ],
    ids=["question", "result", "too many blocks", "no question", "nothing"],
)
async def test_the_status_of_a_task_is_checked(result: dict[str, Any], error: type[Exception] | None) -> None:
    item, _ = await pass_through(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=7, result=result)))
    assert type(getattr(getattr(item.message, "error", None), "data", None)) is (error or type(None))


@pytest.mark.parametrize(
    "message",
    [SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="x", params={"a": [0] * 100})), ValueError("no message")],
)
async def test_other_messages_pass_unchanged(message: Any) -> None:
    item, _ = await pass_through(message)
    assert item is message


async def test_malformed_tool_is_left_out_and_recorded() -> None:
    good = {"name": "good", "inputSchema": {"type": "object"}}
    page = {"tools": [good, {"name": "bad"}]}
    item, incoming = await pass_through(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=7, result=page)), "2025-11-25")
    assert item.message.result["tools"] == [good]
    assert incoming._settings.status.malformed_tools == [{"name": "bad"}]


async def test_stream_ends_with_the_inner_stream() -> None:
    send, receive = anyio.create_memory_object_stream[Any](2)
    incoming = GuardedStream(receive, ClientSettings(limits=SMALL))
    await send.send("one")
    await send.aclose()
    assert [item async for item in incoming] == ["one"]
    assert incoming.last_context is None
    await incoming.aclose()
