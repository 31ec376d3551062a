"""A served toolkit over stdio and HTTP, for clients of both protocol generations."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.server.auth.providers.jwt import JWTVerifier, RSAKeyPair, StaticTokenVerifier
from mcp.shared.exceptions import MCPError

from ahvn_tools import Inbox, ToolContext, Toolkit
from ahvn_tools.mcp.server.app import ServedToolsServer
from ahvn_tools.toolkit.mcp_server import ToolkitServer
from tests.mcp.server.test_run import create_kit, post_hello, reversed_text
from tests.mcp.serving import ENVIRONMENT, LONGEST, over_http

WIRES = (pytest.param("legacy", marks=pytest.mark.exhaustive), "auto")

SCRIPT = """
import os, sys, threading, time
from ahvn_tools import ToolContext, ToolRegistry, ToolSpec, reg_toolspec, serve

def add(a: int, b: int) -> int:
    return a + b

def noisy() -> str:
    print("noise")
    os.write(1, b"more noise")
    os.system("echo and more")
    return sys.stdin.read()

def leave() -> None:
    sys.exit(1)

def interrupt() -> None:
    raise KeyboardInterrupt

def hang() -> None:
    threading.Event().wait()

def who(user: str) -> str:
    return user

who = ToolSpec.from_function(who).bind("user")

class Waiting(ToolRegistry):
    is_cancelled = False

    @reg_toolspec
    def wait(self, context: ToolContext) -> None:
        while not context.cancelled:
            time.sleep(0.01)
        self.is_cancelled = True

    @reg_toolspec
    def was_cancelled(self) -> bool:
        return self.is_cancelled

serve([add, noisy, leave, interrupt, hang, who, Waiting()], state=lambda request: {"user": request.client["name"]})
"""


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> str:
    """Return one of the two protocol generations that a client may use."""
    return str(request.param)


def stdio_client(wire: str) -> Any:
    return Client(StdioTransport(sys.executable, ["-c", SCRIPT], env=ENVIRONMENT, keep_alive=False), mode=wire)


def token_client(url: str, token: str, wire: str) -> Any:
    return Client(url, auth=token, mode=wire)


# over stdio


@pytest.mark.exhaustive
async def test_no_tool_can_end_a_server_over_stdio(wire: str):
    async with stdio_client(wire) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3
        for name in ("leave", "interrupt"):
            answer = await asyncio.wait_for(client.call_tool_mcp(name, {}), 20)
            assert (answer.is_error, answer.content[0].text) == (True, f"Error calling tool {name!r}")
        assert (await client.call_tool("noisy")).data == ""
        with pytest.raises(MCPError):
            await client.call_tool("hang", timeout=0.2)
        with pytest.raises(MCPError):
            await client.call_tool("wait", timeout=0.2)
        async with asyncio.timeout(20):
            while not (await client.call_tool("was_cancelled")).data:  # noqa: ASYNC110  # another process
                await asyncio.sleep(0.02)
        assert (await client.call_tool("who")).data == "mcp"


@pytest.mark.exhaustive
async def test_a_thousand_calls_at_once_over_stdio_have_right_results(wire: str):
    async with stdio_client(wire) as client:
        answers = await asyncio.gather(*[client.call_tool("add", {"a": n, "b": n}) for n in range(1_000)])
    assert [answer.data for answer in answers] == [2 * n for n in range(1_000)]


# over HTTP: clients


async def test_headers_can_set_the_state_of_a_call(wire: str):
    async with over_http(create_kit(), state=lambda request: {"user": request.headers["x-user"]}) as url:
        for user in ("ann", "bob"):
            async with Client(StreamableHttpTransport(url, headers={"X-User": user}), mode=wire) as client:
                assert (await client.call_tool("who")).data == [user, 0]


async def test_two_users_at_once_never_share_a_value(wire: str):
    verifier = StaticTokenVerifier({name: {"client_id": "app", "sub": name, "name": name} for name in ("ann", "bob")})
    async with (
        over_http(create_kit(), auth=verifier, state=lambda request: {"user": request.claims["name"]}) as url,
        token_client(url, "ann", wire) as ann,
        token_client(url, "bob", wire) as bob,
    ):
        calls = [client.call_tool("who", {"number": n}) for n in range(40) for client in (ann, bob)]
        answers = [answer.data for answer in await asyncio.gather(*calls)]
    assert answers == [[user, n] for n in range(40) for user in ("ann", "bob")]


@pytest.mark.parametrize(
    ("name_session", "owners"),
    [
        (lambda request: f"{request.client_id}/mcp", ["ann", "bob"]),
        (lambda request: "desk/mcp", ["desk", "desk"]),  # two users who claim one session
    ],
)
async def test_a_call_that_waits_has_the_session_that_was_named_and_two_users_share_none(
    name_session: Any, owners: list[str], wire: str, tmp_path: Path
):
    inbox = Inbox(tmp_path / "inbox.db", secret_key="the key of all processes", timeout=LONGEST)
    kit = Toolkit("files", approver=inbox).add(reversed_text, name="turn", requires_approval=True)
    users = {name: {"client_id": name} for name in ("ann", "bob")}
    session_ids = []

    async with (
        over_http(kit, auth=StaticTokenVerifier(users), session=name_session) as url,
        token_client(url, "ann", wire) as ann,
        token_client(url, "bob", wire) as bob,
    ):
        for client in (ann, bob):
            calling = asyncio.create_task(client.call_tool("turn", {"text": "ab"}))
            while not (waiting := [item for item in inbox.items() if item.state == "waiting"]):  # noqa: ASYNC110
                await asyncio.sleep(0.01)  # an Inbox is a file
            session_ids.append(str(waiting[0].session_id))
            inbox.approve(waiting[0].id)
            assert (await calling).data == "ba"
    assert [session_id.split("/")[0] for session_id in session_ids] == owners
    assert len(set(session_ids)) == len(users)


async def test_claims_decide_which_tools_a_user_sees(wire: str):
    users = {"ann": {"client_id": "app", "role": "boss"}, "bob": {"client_id": "app", "role": "staff"}}
    options = {"audience": lambda request: request.claims.get("role"), "state": lambda request: {"user": "x"}}
    async with over_http(create_kit(), auth=StaticTokenVerifier(users), **options) as url:
        async with token_client(url, "ann", wire) as ann:
            assert [tool.name for tool in await ann.list_tools()] == ["who", "fire"]
            assert (await ann.call_tool("fire", {"name": "bob"})).data == "bob is gone"
        async with token_client(url, "bob", wire) as bob:
            assert [tool.name for tool in await bob.list_tools()] == ["who"]
            assert (await bob.call_tool_mcp("fire", {"name": "ann"})).is_error


async def test_a_signed_token_is_verified_and_its_claims_are_available(wire: str):
    keys = RSAKeyPair.generate()
    verifier = JWTVerifier(public_key=keys.public_key, issuer="https://issuer.example", audience="notes")
    seen = []

    def state(request: Any) -> dict[str, Any]:
        seen.append((request.client_id, request.scopes, repr(request)))
        return {"user": request.claims["sub"]}

    def token(**options: Any) -> str:
        return keys.create_token(subject="ann", issuer="https://issuer.example", scopes=["read"], **options)

    async with over_http(create_kit(), auth=verifier, state=state) as url:
        async with token_client(url, token(audience="notes"), wire) as client:
            assert (await client.call_tool("who")).data == ["ann", 0]
        forged = RSAKeyPair.generate().create_token(subject="ann", audience="notes")
        for wrong in (token(audience="other"), forged):
            assert (await post_hello(url, Authorization=f"Bearer {wrong}")).status_code == 401
        assert (await post_hello(url)).status_code == 401
    assert seen == [("ann", frozenset({"read"}), "<Request over streamable-http>")]


async def test_a_user_activates_groups_only_for_its_own_token(wire: str):
    kit = Toolkit("grouped").add_group("math").add(reversed_text, group="math")
    kit.add(kit.groups_tool())
    users = {name: {"client_id": "app", "sub": name} for name in ("ann", "bob")}
    async with (
        over_http(kit, auth=StaticTokenVerifier(users)) as url,
        token_client(url, "ann", wire) as ann,
        token_client(url, "bob", wire) as bob,
    ):
        await ann.call_tool("set_groups", {"math": True})
        assert [tool.name for tool in await ann.list_tools()] == ["reversed_text", "set_groups"]
        assert [tool.name for tool in await bob.list_tools()] == ["set_groups"]


# over HTTP: calls


async def test_a_sync_tool_is_cancelled_when_its_client_times_out(wire: str):
    kit, ended = Toolkit("waiting"), threading.Event()

    @kit.tool
    def wait(context: ToolContext) -> None:
        while not context.cancelled:
            time.sleep(0.005)
        ended.set()

    async with over_http(kit) as url, Client(url, mode=wire) as client:
        with pytest.raises(MCPError):
            await client.call_tool("wait", timeout=0.3)
        assert await asyncio.to_thread(ended.wait, 5)


@pytest.mark.parametrize(
    ("mode", "count"),
    [
        ("auto", 100),
        *(pytest.param(*load, marks=pytest.mark.exhaustive) for load in (("legacy", 200), ("auto", 1_000))),
    ],
)
@pytest.mark.exhaustive
async def test_many_calls_at_once_over_http_have_right_results(mode: str, count: int):
    async with over_http(create_kit(), state=lambda request: {"user": "x"}) as url, Client(url, mode=mode) as client:
        answers = await asyncio.gather(*[client.call_tool("who", {"number": n}) for n in range(count)])
    assert [answer.data for answer in answers] == [["x", n] for n in range(count)]


async def test_a_call_does_not_list_the_tools(wire: str, monkeypatch: pytest.MonkeyPatch):
    listed = []
    definitions = ToolkitServer.definitions

    async def count_calls(self: ToolkitServer, request: Any) -> Any:
        listed.append(1)
        return await definitions(self, request)

    monkeypatch.setattr(ToolkitServer, "definitions", count_calls)
    async with over_http(create_kit(), state=lambda request: {"user": "x"}) as url, Client(url, mode=wire) as client:
        await client.call_tool("who", {"number": 1})
        before = len(listed)
        for n in range(5):
            await client.call_tool("who", {"number": n})
        assert len(listed) == before


async def test_fastmcp_still_has_the_private_attribute_for_the_schema_lookup():
    """Without it every modern call over HTTP lists all tools."""
    server = create_kit().to_fastmcp_server()
    look_up = server._mcp_server.get_tool_input_schema
    schema = look_up("who")
    assert list(schema["properties"]) == ["number"]
    assert look_up("who") is schema
    assert (look_up("fire"), look_up("nothing")) == (None, None)
    for_bosses = create_kit().to_fastmcp_server(audience=lambda request: "boss")
    assert for_bosses._mcp_server.get_tool_input_schema("fire") is not None


def test_a_server_without_that_attribute_is_unchanged():
    server = ServedToolsServer(ToolkitServer(create_kit()._view, {}), "other")
    server._mcp_server = None
    server._install_handlers()
    assert server._mcp_server is None


async def test_a_server_takes_further_options_and_tools_of_fastmcp():
    kit = create_kit()
    server = kit.to_fastmcp_server(name="mine", version="7", fastmcp={"website_url": "https://mine.example"})

    @server.tool
    def own() -> str:
        return "own"

    async with Client(server) as client:
        assert {tool.name for tool in await client.list_tools()} == {"own", "who"}
        assert (await client.call_tool("own")).data == "own"
    assert (server.name, server.version, server.website_url) == ("mine", "7", "https://mine.example")
