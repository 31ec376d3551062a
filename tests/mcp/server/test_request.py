"""The content of a request in both protocol generations, in memory and over HTTP, and the identity of its client."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier

from ahvn_tools import Toolkit
from tests.mcp import loopback
from tests.mcp.serving import over_http

WIRES = ("legacy", "auto")


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> str:
    """Return one of the two protocol generations that a client may use."""
    return str(request.param)


class RequestRecorder:
    """A toolkit that records the content of its requests."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.kit = Toolkit("recorder")
        self.kit.tool(self.ping)

    def ping(self) -> None:
        """Do nothing."""

    def record(self, request: Any) -> dict[str, Any]:
        names = ("headers", "claims", "scopes", "client_id", "client", "meta", "transport", "session_id")
        self.requests.append({name: getattr(request, name) for name in names})
        return {}


async def test_a_request_in_memory_has_only_a_client_and_metadata(wire: str):
    recorder = RequestRecorder()
    server = recorder.kit.to_fastmcp_server(state=recorder.record)
    async with Client(server, mode=wire) as client:
        await client.call_tool("ping", meta={"trace": "t1"})
    (content,) = recorder.requests
    assert content["client"].keys() == {"name", "version"}
    assert (content["headers"], content["claims"], content["scopes"], content["client_id"]) == (
        {},
        {},
        frozenset(),
        None,
    )
    assert (content["meta"]["trace"], content["transport"]) == ("t1", None)


async def test_a_request_over_http_has_headers_with_credentials(wire: str):
    recorder = RequestRecorder()
    async with over_http(recorder.kit, state=recorder.record) as url:
        transport = StreamableHttpTransport(url, headers={"X-User": "ann", "Authorization": "Basic eDp5"})
        async with Client(transport, mode=wire) as client:
            await client.call_tool("ping")
    (content,) = recorder.requests
    assert (content["headers"]["x-user"], content["headers"]["authorization"]) == ("ann", "Basic eDp5")
    assert content["transport"] == "streamable-http"


async def test_the_content_of_a_request_is_read_only(wire: str):
    recorder = RequestRecorder()
    async with Client(recorder.kit.to_fastmcp_server(state=recorder.record), mode=wire) as client:
        await client.call_tool("ping")
    for name in ("headers", "claims", "client", "meta"):
        with pytest.raises(TypeError):
            recorder.requests[0][name]["x"] = 1


async def get_session_ids(recorder: RequestRecorder, url: str, wire: str, *tokens: str | None) -> list[str | None]:
    """Make two calls with each token and return their session IDs."""
    async with AsyncExitStack() as stack:
        for token in tokens:
            client = await stack.enter_async_context(Client(url, auth=token, mode=wire))
            for _ in range(2):
                await client.call_tool("ping")
    return [content["session_id"] for content in recorder.requests]


async def test_users_with_different_tokens_have_different_sessions(wire: str):
    recorder = RequestRecorder()
    users = {name: {"client_id": "app", "sub": name} for name in ("ann", "bob")}
    async with over_http(recorder.kit, state=recorder.record, auth=StaticTokenVerifier(users)) as url:
        first, again, other, once_more = await get_session_ids(recorder, url, wire, "ann", "bob")
    assert (first, other) == (again, once_more)
    assert first != other
    assert first is not None
    assert "ann" not in first


async def test_without_a_token_only_the_legacy_protocol_distinguishes_clients():
    recorder = RequestRecorder()
    async with over_http(recorder.kit, state=recorder.record) as url:
        first, again, other, _ = await get_session_ids(recorder, url, "legacy", None, None)
        assert first == again != other
        recorder.requests.clear()
        assert await get_session_ids(recorder, url, "auto", None, None) == [None] * 4


async def test_a_stateless_server_cannot_distinguish_clients_whatever_they_send():
    recorder = RequestRecorder()
    with loopback.over_http(recorder.kit.to_fastmcp_server(state=recorder.record), stateless_http=True) as url:
        for headers in ({}, {"mcp-session-id": "of-another"}):
            async with Client(StreamableHttpTransport(url, headers=headers), mode="legacy") as client:
                await client.call_tool("ping")
    assert [content["session_id"] for content in recorder.requests] == [None, None]
