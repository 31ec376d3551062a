"""A connection to an HTTP server that is killed, restarted, refuses requests or sends too much."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn
from fastmcp import Client, Context, FastMCP
from fastmcp.server.dependencies import get_http_headers
from fastmcp.tools import FunctionTool
from mcp_types import ToolListChangedNotification
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from ahvn_tools import Toolkit
from ahvn_tools.errors import InvalidResultError, ToolConnectionError, ToolError, ToolTimeoutError
from ahvn_tools.mcp.client.client_settings import ClientSettings
from ahvn_tools.mcp.client.connection import ConnectionPool
from ahvn_tools.mcp.client.targets import resolve_targets
from ahvn_tools.mcp.trust.limits import Limits


class Site:
    """An ASGI application on a free port, which can be killed and restarted."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port = taken.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.start()

    def start(self) -> None:
        config = uvicorn.Config(
            self._make(), port=self.port, log_level="critical", ws="none", timeout_graceful_shutdown=0
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=asyncio.run, args=(self._run(),))
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)

    async def _run(self) -> None:
        self.loop = asyncio.get_running_loop()
        await self._server.serve()

    def kill(self) -> None:
        self._server.force_exit = self._server.should_exit = True
        self._thread.join(5)
        assert not self._thread.is_alive()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sse_app() -> Any:
    return make_server().http_app(path="/sse", transport="sse")


def app() -> Any:
    return make_server().http_app(path="/mcp")


def make_server() -> FastMCP:
    server = FastMCP("web")
    visits: list[str] = []

    @server.tool
    def headers() -> dict[str, str]:
        """Return the headers; of the credentials a digest, because the client masks them in results."""
        received = dict(get_http_headers(include={"authorization"}))
        return {**received, "authorization": digest(received["authorization"])}

    @server.tool
    def visited() -> int:
        visits.append("visit")
        return len(visits)

    @server.tool
    async def sleep(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "awake"

    @server.tool
    def great(size: int) -> str:
        return "x" * size

    @server.tool
    async def great_with_progress(size: int, context: Context) -> str:
        await context.report_progress(1)
        return "x" * size

    def region(region: str) -> str | None:
        return get_http_headers().get("mcp-param-region")

    tool = FunctionTool.from_function(region)
    tool.parameters["properties"]["region"] = {"type": "string", "x-mcp-header": "Region"}
    server.add_tool(tool)

    @server.tool
    async def change(context: Context) -> str:
        await context.send_notification(ToolListChangedNotification())
        return "changed"

    return server


@pytest.fixture
def sites() -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def site(make: Callable[[], Any] = app) -> Site:
        made.append(Site(make))
        return made[-1]

    yield site
    for one in made:
        one.kill()


@pytest.fixture(params=["auto", pytest.param("legacy", marks=pytest.mark.exhaustive)])
def server(request: pytest.FixtureRequest) -> Callable[[Site], Any]:
    """Returns the server to connect to for a site, for both generations of the protocol."""
    if request.param == "auto":
        return lambda site: site.url
    return lambda site: Client(site.url, mode="legacy")


@contextlib.asynccontextmanager
async def connected(
    server: Any,
    limits: Limits | None = None,
    on_list_changed: Callable[[], None] = lambda: None,
    **options: Any,
) -> Any:
    (target,) = resolve_targets(server, **options)
    settings = ClientSettings(limits=limits or Limits())
    connection = ConnectionPool(target, settings, on_list_changed=on_list_changed)
    try:
        yield connection
    finally:
        await connection.aclose()


async def answer(connection: ConnectionPool, tool: str, timeout: float = 5.0, **arguments: Any) -> Any:
    return (await connection.call(tool, arguments, timeout=timeout)).structured_content["result"]


async def test_concurrent_calls_get_their_own_results(sites: Any, server: Any) -> None:
    async with connected(server(sites())) as connection:
        sizes = await asyncio.gather(*(answer(connection, "great", size=size) for size in range(50)))
        assert list(map(len, sizes)) == list(range(50))


async def test_call_after_a_restart_reconnects(sites: Any, server: Any) -> None:
    site = sites()
    async with connected(server(site)) as connection:
        assert [await answer(connection, "visited") for _ in range(2)] == [1, 2]
        site.kill()
        site.start()
        assert await answer(connection, "visited") == 1  # a new server, which saw the call once


async def test_pending_call_fails_and_the_next_reconnects(sites: Any, server: Any) -> None:
    site = sites()
    async with connected(server(site)) as connection:
        waiting = asyncio.create_task(answer(connection, "sleep", seconds=30))
        await asyncio.sleep(0.5)
        site.kill()
        with pytest.raises(ToolConnectionError):
            await waiting
        with pytest.raises(ToolConnectionError, match="is not available"):
            await answer(connection, "visited")
        site.start()
        assert await answer(connection, "visited") == 1


async def test_timeout_keeps_the_connection(sites: Any, server: Any) -> None:
    async with connected(server(sites())) as connection:
        assert await answer(connection, "visited") == 1
        with pytest.raises(ToolTimeoutError):
            await answer(connection, "sleep", 0.2, seconds=30)
        assert await answer(connection, "visited") == 2


async def test_change_of_the_tools_is_notified(sites: Any, server: Any) -> None:
    notified: list[str] = []
    async with connected(server(sites()), on_list_changed=lambda: notified.append("changed")) as connection:
        await answer(connection, "change")
        await asyncio.sleep(0.3)
        assert notified == ["changed"]


async def test_unreachable_server_is_an_error_at_once(sites: Any) -> None:
    site = sites()
    site.kill()
    async with connected(site.url) as connection:
        with pytest.raises(ToolConnectionError, match="it cannot be reached"):
            await connection.tools()


@pytest.mark.parametrize("status", [401, 403, 404, 500])
async def test_http_error_is_reported_with_its_status(sites: Any, status: int) -> None:
    async def refuse(_: Request) -> Response:
        return PlainTextResponse("no sesame", status)

    site = sites(lambda: Starlette(routes=[Route("/mcp", refuse, methods=["GET", "POST"])]))
    async with connected(site.url) as connection:
        with pytest.raises(ToolConnectionError, match=f"answered HTTP {status}") as error:
            await connection.tools()
        assert "sesame" not in str(error.value)


@pytest.mark.parametrize("path", ["mcp", "sse"])
@pytest.mark.parametrize("status", [302, 401, 500])
@pytest.mark.default_cases(2)
async def test_http_error_shows_no_key_of_the_url_in_its_traceback(sites: Any, path: str, status: int) -> None:
    async def refuse(_: Request) -> Response:
        return PlainTextResponse("no sesame", status, headers={"location": "http://127.0.0.1:1/?key=sesame"})

    site = sites(lambda: Starlette(routes=[Route(f"/{path}", refuse, methods=["GET", "POST"])]))
    async with connected(f"http://user:sesame@127.0.0.1:{site.port}/{path}?api_key=sesame") as connection:
        with pytest.raises(ToolConnectionError) as error:
            await connection.tools()
    assert "sesame" not in "".join(traceback.format_exception(error.value))


async def test_answer_beyond_the_size_limit_is_not_read(sites: Any) -> None:
    async with connected(sites().url, limits=Limits(message_bytes=100_000)) as connection:
        assert len(await answer(connection, "great", size=10_000)) == 10_000
        with pytest.raises(ToolConnectionError, match="a message of more than 100000 bytes"):
            await answer(connection, "great", size=100_000)
        assert await answer(connection, "visited") == 1


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_answer_in_an_event_stream_may_be_as_large_as_any_message(sites: Any, mode: str) -> None:
    kit = await Toolkit("k").aadd_mcp(sites().url, name="web", mode=mode, limits=Limits(message_bytes=6_000_000))
    try:  # a tool that reports progress is answered with an event stream in the newest protocol, too
        assert len(await kit.acall("great_with_progress", {"size": 2_500_000})) == 2_500_000
        failed = await kit.aexec("great_with_progress", {"size": 3_500_000})
        assert failed.error.code == "connection"
        assert "a message of more than 6000000 bytes. The tool may have run." in failed.text
        assert await kit.acall("visited") == 1
    finally:
        await kit.aremove_mcp()


async def test_an_answer_over_sse_has_its_own_limit(sites: Any) -> None:
    kit = await Toolkit("k").aadd_mcp(sites(sse_app).url.replace("/mcp", "/sse"), name="web")
    try:
        assert len(await kit.acall("great", {"size": 500_000})) == 500_000
        failed = await kit.aexec("great", {"size": 600_000})
        assert "a message of more than 1048576 bytes. The tool may have run." in failed.text
        assert await kit.acall("visited") == 1
    finally:
        await kit.aremove_mcp()


async def test_an_event_that_the_hosts_own_client_does_not_read_is_named(sites: Any) -> None:
    kit = await Toolkit("k").aadd_mcp(Client(sites().url, mode="legacy"), name="web")
    try:
        failed = await kit.aexec("great", {"size": 3_000_000})
        assert "an event of more than 1048576 bytes, which its client does not read. The tool may have" in failed.text
        assert await kit.acall("visited") == 1
    finally:
        await kit.aremove_mcp()


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.default_cases(1)
async def test_endless_answer_is_not_read(sites: Any, kind: str) -> None:
    async def endless(_: Request) -> Response:
        async def chunks() -> Any:
            while True:
                yield b"x" * 65_536
                await asyncio.sleep(0)

        return StreamingResponse(chunks(), media_type=kind)

    site = sites(lambda: Starlette(routes=[Route("/mcp", endless, methods=["POST"])]))
    async with connected(site.url, limits=Limits(connect=2)) as connection:
        since = time.monotonic()
        with pytest.raises(ToolConnectionError):
            await connection.tools()
        assert time.monotonic() - since < 20


async def test_compressed_answer_is_refused(sites: Any) -> None:
    async def compressed(_: Request) -> Response:
        return Response(b"\x1f\x8b", media_type="application/json", headers={"content-encoding": "gzip"})

    site = sites(lambda: Starlette(routes=[Route("/mcp", compressed, methods=["POST"])]))
    async with connected(site.url) as connection:
        with pytest.raises(ToolConnectionError, match="compressed"):
            await connection.tools()


async def test_silent_server_does_not_block_its_caller(sites: Any) -> None:
    async def silent(_: Request) -> Response:
        await asyncio.sleep(30)
        return Response()

    site = sites(lambda: Starlette(routes=[Route("/mcp", silent, methods=["POST"])]))
    async with connected(site.url, limits=Limits(connect=0.5)) as connection:
        with pytest.raises(ToolConnectionError, match=r"no connection within 0\.5 s"):
            await connection.tools()


@pytest.mark.parametrize("content", [b"[]", b"nonsense", b'{"jsonrpc": "2.0"}'])
async def test_invalid_content_is_an_error(sites: Any, content: bytes) -> None:
    async def nonsense(_: Request) -> Response:
        return Response(content, media_type="application/json")

    site = sites(lambda: Starlette(routes=[Route("/mcp", nonsense, methods=["POST"])]))
    async with connected(site.url) as connection:
        with pytest.raises((ToolConnectionError, ToolError, InvalidResultError)):
            await connection.tools()


@pytest.mark.parametrize(
    ("kind", "content", "status", "reason"),
    [
        ("text/html; charset=utf-8", b"<html>SECRET</html>", 200, "it answered with text/html"),
        ("application/json", b'{"SECRET": 1}', 200, "it answered with JSON that is no message of MCP"),
        ("text/event-stream", b"data: SECRET\n\n", 200, "it answered with JSON that is no message of MCP"),
        ("text/plain", b"", 202, "it answered with no content"),
    ],
)
async def test_url_without_an_mcp_server_is_an_error_that_says_so_without_the_answer(
    sites: Any, kind: str, content: bytes, status: int, reason: str
) -> None:
    async def other(_: Request) -> Response:
        return Response(content, status, media_type=kind)

    routes = [Route("/mcp", other, methods=["POST", "GET"])]
    async with connected(sites(lambda: Starlette(routes=routes)).url) as connection:
        with pytest.raises(
            ToolConnectionError, match=f"there is no MCP server at this URL: {reason}\\. Check"
        ) as caught:
            await connection.tools()
    assert "SECRET" not in str(caught.value)


async def test_credentials_do_not_follow_a_redirect(sites: Any) -> None:
    seen: list[str | None] = []

    async def other(request: Request) -> Response:
        seen.append(request.headers.get("x-api-key"))
        return Response()

    thief = sites(lambda: Starlette(routes=[Route("/mcp", other, methods=["GET", "POST"])]))

    async def redirect(_: Request) -> Response:
        return Response(status_code=307, headers={"location": thief.url})

    site = sites(lambda: Starlette(routes=[Route("/mcp", redirect, methods=["POST"])]))
    async with connected(site.url, auth={"x-api-key": "k"}) as connection:
        with pytest.raises(ToolConnectionError):
            await connection.tools()
    assert seen == []


async def test_header_argument_is_also_sent_after_a_reconnect(sites: Any) -> None:
    site = sites()
    async with connected(site.url) as connection:
        await connection.tools()
        assert await answer(connection, "region", region="north") == "north"
        site.kill()
        with pytest.raises(ToolConnectionError):
            await answer(connection, "region", region="north")
        site.start()
        assert await answer(connection, "region", region="south") == "south"


# a connection for each set of credentials


@contextlib.asynccontextmanager
async def pooled(url: str, **options: Any) -> Any:
    pool = ConnectionPool(
        resolve_targets({"web": {"url": url, "headers": {"x-team": "blue"}}}, auth="ours")[0], **options
    )
    try:
        yield pool
    finally:
        await pool.aclose()


async def test_calls_of_different_users_never_share_a_connection(sites: Any) -> None:
    async with pooled(sites().url) as pool:

        async def seen(user: str) -> tuple[str, str]:
            called = await pool.call("headers", {}, headers={"Authorization": f"Bearer {user}"})
            return called.structured_content["authorization"], called.structured_content["x-team"]

        users = [f"user-{number % 4}" for number in range(40)]
        assert await asyncio.gather(*map(seen, users)) == [(digest(f"Bearer {user}"), "blue") for user in users]
        assert repr(pool) == "<ConnectionPool 'web' of 4>"
        called = await pool.call("headers", {})
        assert called.structured_content["authorization"] == digest("Bearer ours")
        assert called.structured_content["accept-encoding"] == "identity"
        assert {tool.name for tool in await pool.tools(headers={"authorization": "Bearer x"})} >= {"headers"}
