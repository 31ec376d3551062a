"""Serving over HTTP and stdio, to clients of both wires: who asks, what is refused, and many calls at once."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.server.auth.providers.jwt import JWTVerifier, RSAKeyPair, StaticTokenVerifier
from fastmcp.tools import Tool
from mcp.shared.exceptions import MCPError

from ahvn_tools import ToolContext, Toolkit, ToolSpec, aserve
from ahvn_tools.errors import ToolkitError, ToolSpecError
from ahvn_tools.mcp.server import app
from ahvn_tools.mcp.server.provider import ServedToolsProvider, install_schema_lookup
from ahvn_tools.toolkit.mcp_server import ToolkitServer
from ahvn_tools.toolkit.serve import to_toolkit
from tests.mcp.serving import ENVIRONMENT, over_http

WIRES = ("legacy", "auto")

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}
ACCEPTED = {"Accept": "application/json, text/event-stream"}

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

class Told(ToolRegistry):
    is_told = False

    @reg_toolspec
    def wait(self, context: ToolContext) -> None:
        while not context.cancelled:
            time.sleep(0.01)
        self.is_told = True

    @reg_toolspec
    def was_told(self) -> bool:
        return self.is_told

serve([add, noisy, leave, interrupt, hang, who, Told()], state=lambda request: {"user": request.client["name"]})
"""


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> str:
    """The two generations of the protocol that a client may speak."""
    return str(request.param)


def by_stdio(wire: str) -> Any:
    return Client(StdioTransport(sys.executable, ["-c", SCRIPT], env=ENVIRONMENT, keep_alive=False), mode=wire)


def asking() -> Toolkit:
    """A toolkit that tells who asks."""
    kit = Toolkit("asking")

    @kit.tool
    async def who(user: str, number: int = 0) -> list[str | int]:
        return [user, number]

    @kit.tool(audience="boss")
    def fire(whom: str) -> str:
        return f"{whom} is gone"

    return kit.bind("user")


def by_token(url: str, token: str, wire: str) -> Any:
    return Client(url, auth=token, mode=wire)


# over stdio


async def test_nothing_that_a_tool_does_ends_a_server_over_stdio(wire: str):
    async with by_stdio(wire) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3
        for name in ("leave", "interrupt"):
            answer = await asyncio.wait_for(client.call_tool_mcp(name, {}), 5)
            assert (answer.is_error, answer.content[0].text) == (True, f"Error calling tool {name!r}")
        assert (await client.call_tool("noisy")).data == ""
        with pytest.raises(MCPError):
            await client.call_tool("hang", timeout=0.2)
        with pytest.raises(MCPError):
            await client.call_tool("wait", timeout=0.2)
        await asyncio.sleep(0.1)
        assert (await client.call_tool("was_told")).data is True
        assert (await client.call_tool("who")).data == "mcp"


async def test_a_thousand_calls_at_once_over_stdio_are_all_right(wire: str):
    async with by_stdio(wire) as client:
        answers = await asyncio.gather(*[client.call_tool("add", {"a": n, "b": n}) for n in range(1_000)])
    assert [answer.data for answer in answers] == [2 * n for n in range(1_000)]


# over HTTP: who asks


async def test_headers_make_the_state_of_a_call(wire: str):
    async with over_http(asking(), state=lambda request: {"user": request.headers["x-user"]}) as url:
        for user in ("ann", "bob"):
            async with Client(StreamableHttpTransport(url, headers={"X-User": user}), mode=wire) as client:
                assert (await client.call_tool("who")).data == [user, 0]


async def test_two_users_at_once_never_share_a_value(wire: str):
    verifier = StaticTokenVerifier({name: {"client_id": "app", "sub": name, "name": name} for name in ("ann", "bob")})
    async with (
        over_http(asking(), auth=verifier, state=lambda request: {"user": request.claims["name"]}) as url,
        by_token(url, "ann", wire) as ann,
        by_token(url, "bob", wire) as bob,
    ):
        calls = [client.call_tool("who", {"number": n}) for n in range(40) for client in (ann, bob)]
        answers = [answer.data for answer in await asyncio.gather(*calls)]
    assert answers == [[user, n] for n in range(40) for user in ("ann", "bob")]


async def test_claims_say_what_a_user_sees(wire: str):
    users = {"ann": {"client_id": "app", "role": "boss"}, "bob": {"client_id": "app", "role": "staff"}}
    options = {"audience": lambda request: request.claims.get("role"), "state": lambda request: {"user": "x"}}
    async with over_http(asking(), auth=StaticTokenVerifier(users), **options) as url:
        async with by_token(url, "ann", wire) as ann:
            assert [tool.name for tool in await ann.list_tools()] == ["who", "fire"]
            assert (await ann.call_tool("fire", {"whom": "bob"})).data == "bob is gone"
        async with by_token(url, "bob", wire) as bob:
            assert [tool.name for tool in await bob.list_tools()] == ["who"]
            assert (await bob.call_tool_mcp("fire", {"whom": "ann"})).is_error


async def test_a_signed_token_is_verified_and_its_claims_are_read(wire: str):
    keys = RSAKeyPair.generate()
    verifier = JWTVerifier(public_key=keys.public_key, issuer="https://issuer.example", audience="notes")
    seen = []

    def state(request: Any) -> dict[str, Any]:
        seen.append((request.client_id, request.scopes, repr(request)))
        return {"user": request.claims["sub"]}

    def token(**options: Any) -> str:
        return keys.create_token(subject="ann", issuer="https://issuer.example", scopes=["read"], **options)

    async with over_http(asking(), auth=verifier, state=state) as url:
        async with by_token(url, token(audience="notes"), wire) as client:
            assert (await client.call_tool("who")).data == ["ann", 0]
        forged = RSAKeyPair.generate().create_token(subject="ann", audience="notes")
        for wrong in (token(audience="other"), forged):
            assert (await asked(url, Authorization=f"Bearer {wrong}")).status_code == 401
        assert (await asked(url)).status_code == 401
    assert seen == [("ann", frozenset({"read"}), "<Request over streamable-http>")]


async def test_groups_are_switched_for_the_user_of_a_token(wire: str):
    kit = Toolkit("grouped").group("math").add(reversed_text, group="math")
    kit.add(kit.groups_tool())
    users = {name: {"client_id": "app", "sub": name} for name in ("ann", "bob")}
    async with (
        over_http(kit, auth=StaticTokenVerifier(users)) as url,
        by_token(url, "ann", wire) as ann,
        by_token(url, "bob", wire) as bob,
    ):
        await ann.call_tool("set_groups", {"math": True})
        assert [tool.name for tool in await ann.list_tools()] == ["reversed_text", "set_groups"]
        assert [tool.name for tool in await bob.list_tools()] == ["set_groups"]


def reversed_text(text: str) -> str:
    """Turn a text around."""
    return text[::-1]


# over HTTP: what is refused


async def test_foreign_hosts_and_origins_are_refused():
    async with over_http(Toolkit("safe").add(reversed_text)) as url:
        assert (await asked(url)).status_code == 200
        assert (await asked(url, Origin="https://evil.example")).status_code == 403
        assert (await asked(url, Host="evil.example")).status_code == 421


@pytest.mark.parametrize(
    "allowed",
    [
        {"allowed_hosts": ("tools.example",), "allowed_origins": ("https://app.example",)},
        {"allowed_hosts": "tools.example", "allowed_origins": "https://app.example"},
        {"allowed_hosts": "*.example", "allowed_origins": "https://*.example"},
    ],
    ids=["in a tuple", "as texts", "with stars"],
)
async def test_hosts_and_origins_that_are_allowed_are_served_and_no_others(allowed: dict[str, Any]):
    async with over_http(Toolkit("safe").add(reversed_text), **allowed) as url:
        assert (await asked(url, Host="tools.example", Origin="https://app.example")).status_code == 200
        assert (await asked(url, Host="evil.test")).status_code == 421
        assert (await asked(url, Origin="https://evil.test")).status_code == 403


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"path": "mcp"}, "`path` begins with a slash"),
        ({"host": None}, "`host` is a text"),
        ({"port": 70_000}, "`port` is a number from 0 to 65535, not 70000"),
        ({"log_level": "loud"}, "`log_level` is one of critical"),
        ({"http": {"path": "/x"}}, r"give \['path'\] beside `http`"),
    ],
)
async def test_options_that_do_not_fit_are_told(options: dict[str, Any], told: str):
    with pytest.raises(ToolSpecError, match=told):
        await aserve(Toolkit("safe"), "http", **options)


async def asked(url: str, **headers: str) -> Any:
    """Open a session as an older client does, with these headers, too."""
    async with httpx2.AsyncClient() as client:
        return await client.post(url, json=HELLO, headers={**ACCEPTED, **headers})


async def test_a_server_that_is_open_to_the_network_without_auth_says_so(caplog: pytest.LogCaptureFixture):
    listener = socket.create_server(("0.0.0.0", 0))
    with listener:
        running = asyncio.create_task(aserve(reversed_text, "http", sockets=[listener]))
        await asyncio.sleep(0.1)
        running.cancel()
        await asyncio.wait({running})
    assert "'reversed_text' is open to whoever reaches 0.0.0.0" in caplog.text


# over HTTP: calls


async def test_a_sync_tool_is_told_when_its_client_goes(wire: str):
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


@pytest.mark.parametrize(("mode", "count"), [("legacy", 200), ("auto", 1_000)])
async def test_a_thousand_calls_at_once_over_http_are_all_right(mode: str, count: int):
    async with over_http(asking(), state=lambda request: {"user": "x"}) as url, Client(url, mode=mode) as client:
        answers = await asyncio.gather(*[client.call_tool("who", {"number": n}) for n in range(count)])
    assert [answer.data for answer in answers] == [["x", n] for n in range(count)]


async def test_a_call_looks_its_tool_up_by_name_and_lists_none(wire: str, monkeypatch: pytest.MonkeyPatch):
    listed = []
    definitions = ToolkitServer.definitions

    async def counted(self: ToolkitServer, request: Any) -> Any:
        listed.append(1)
        return await definitions(self, request)

    monkeypatch.setattr(ToolkitServer, "definitions", counted)
    async with over_http(asking(), state=lambda request: {"user": "x"}) as url, Client(url, mode=wire) as client:
        await client.call_tool("who", {"number": 1})
        before = len(listed)
        for n in range(5):
            await client.call_tool("who", {"number": n})
        assert len(listed) == before


async def test_the_server_still_has_the_place_for_looking_schemas_up():
    """FastMCP has no public way to it: without it calls over HTTP on the newer wire list all tools."""
    server = asking().to_fastmcp_server()
    look_up = server._mcp_server.get_tool_input_schema
    schema = look_up("who")
    assert list(schema["properties"]) == ["number"]
    assert look_up("who") is schema
    assert (look_up("fire"), look_up("nothing")) == (None, None)
    told_apart = asking().to_fastmcp_server(audience=lambda request: "boss")
    assert told_apart._mcp_server.get_tool_input_schema("fire") is not None


def test_a_server_without_that_place_is_left_as_it_is():
    provider = ServedToolsProvider(ToolkitServer(asking()._view, {}))
    server = FastMCP("other", providers=[provider])
    server._mcp_server = None
    install_schema_lookup(server, provider)
    assert server._mcp_server is None


async def test_a_server_can_have_more_of_fastmcp():
    kit = asking()
    server = kit.to_fastmcp_server(name="mine", version="7", fastmcp={"website_url": "https://mine.example"})

    @server.tool
    def own() -> str:
        return "own"

    async with Client(server) as client:
        assert {tool.name for tool in await client.list_tools()} == {"own", "who"}
        assert (await client.call_tool("own")).data == "own"
    assert (server.name, server.version, server.website_url) == ("mine", "7", "https://mine.example")


# where it runs


async def test_what_cannot_be_run_is_refused():
    with pytest.raises(ToolSpecError, match="'stdio' or 'http', not over 'sse'"):
        await aserve(reversed_text, "sse")  # type: ignore[arg-type]
    with pytest.raises(ToolkitError, match="prot"):
        await aserve(reversed_text, "http", prot=1)  # type: ignore[call-arg]
    with pytest.raises(ToolSpecError, match="known: host, port"):
        await app.run_server(to_toolkit(reversed_text).to_fastmcp_server(), "http", prot=1)  # type: ignore[call-arg]
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        await aserve(reversed_text, "http", port=taken.getsockname()[1])


async def test_a_server_can_listen_on_a_socket_without_a_port(tmp_path: Path):
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        running = asyncio.create_task(aserve(reversed_text, "http", sockets=[listener]))
        async with httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(uds=path)) as client:
            answer = await client.post("http://localhost/mcp", json=HELLO, headers=ACCEPTED)
        assert answer.status_code == 200
        running.cancel()
        await asyncio.wait({running})


async def test_a_server_says_where_it_is(capfd: pytest.CaptureFixture[str]):
    for host, shown in (("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("::1", "[::1]")):
        running = asyncio.create_task(aserve(asking(), "http", host=host, port=0, path="/tools"))
        told = ""
        while "/tools\n" not in told:
            await asyncio.sleep(0.01)
            told += capfd.readouterr().err
        url = told.strip().rpartition(" ")[2]
        assert url.startswith(f"http://{shown}:")
        async with Client(url) as client:
            assert len(await client.list_tools()) == 1
        running.cancel()
        await asyncio.wait({running})


async def test_what_is_added_to_the_server_is_served_beside_the_toolkit_which_is_asked_first():
    server = Toolkit("kit").add(ToolSpec.from_function(lambda: "ours", name="same")).to_fastmcp_server()
    server.add_tool(Tool.from_function(lambda: "beside", name="other"))
    server.add_tool(Tool.from_function(lambda: "theirs", name="same"))
    async with Client(server) as client:
        assert (await client.call_tool("other")).content[0].text == "beside"
        assert (await client.call_tool("same")).content[0].text == "ours"
        assert (await client.call_tool_mcp("none", {})).is_error
