"""What a request says, on both wires, in memory and over HTTP, and what tells one client from another."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier

from ahvn_tools import Toolkit
from tests.mcp.serving import over_http

WIRES = ("legacy", "auto")


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> str:
    """The two generations of the protocol that a client may speak."""
    return str(request.param)


class Heard:
    """A toolkit that keeps the requests that it is asked by."""

    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []
        self.kit = Toolkit("hearing")
        self.kit.tool(self.ping)

    def ping(self) -> None:
        """Answer."""

    def keep(self, request: Any) -> dict[str, Any]:
        names = ("headers", "claims", "scopes", "client_id", "client", "meta", "transport", "session_id")
        self.said.append({name: getattr(request, name) for name in names})
        return {}


async def test_in_memory_there_is_a_client_and_no_more(wire: str):
    heard = Heard()
    server = heard.kit.to_fastmcp_server(state=heard.keep)
    async with Client(server, mode=wire) as client:
        await client.call_tool("ping", meta={"trace": "t1"})
    (said,) = heard.said
    assert said["client"].keys() == {"name", "version"}
    assert (said["headers"], said["claims"], said["scopes"], said["client_id"]) == ({}, {}, frozenset(), None)
    assert (said["meta"]["trace"], said["transport"]) == ("t1", None)


async def test_over_http_there_are_headers_with_credentials(wire: str):
    heard = Heard()
    async with over_http(heard.kit, state=heard.keep) as url:
        transport = StreamableHttpTransport(url, headers={"X-User": "ann", "Authorization": "Basic eDp5"})
        async with Client(transport, mode=wire) as client:
            await client.call_tool("ping")
    (said,) = heard.said
    assert (said["headers"]["x-user"], said["headers"]["authorization"]) == ("ann", "Basic eDp5")
    assert said["transport"] == "streamable-http"


async def test_what_a_request_says_cannot_be_changed(wire: str):
    heard = Heard()
    async with Client(heard.kit.to_fastmcp_server(state=heard.keep), mode=wire) as client:
        await client.call_tool("ping")
    for name in ("headers", "claims", "client", "meta"):
        with pytest.raises(TypeError):
            heard.said[0][name]["x"] = 1


async def ids(heard: Heard, url: str, wire: str, *tokens: str | None) -> list[str | None]:
    """Make two calls with each token, and return the session ids that they had."""
    async with AsyncExitStack() as stack:
        for token in tokens:
            client = await stack.enter_async_context(Client(url, auth=token, mode=wire))
            for _ in range(2):
                await client.call_tool("ping")
    return [said["session_id"] for said in heard.said]


async def test_users_are_told_apart_by_their_tokens(wire: str):
    heard = Heard()
    users = {name: {"client_id": "app", "sub": name} for name in ("ann", "bob")}
    async with over_http(heard.kit, state=heard.keep, auth=StaticTokenVerifier(users)) as url:
        first, again, other, once_more = await ids(heard, url, wire, "ann", "bob")
    assert (first, other) == (again, once_more)
    assert first != other
    assert first is not None
    assert "ann" not in first


async def test_without_a_token_only_the_older_protocol_tells_clients_apart():
    heard = Heard()
    async with over_http(heard.kit, state=heard.keep) as url:
        first, again, other, _ = await ids(heard, url, "legacy", None, None)
        assert first == again != other
        heard.said.clear()
        assert await ids(heard, url, "auto", None, None) == [None] * 4
