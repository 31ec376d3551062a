"""One connection per set of credentials: how many are open, and for how long."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastmcp import Context, FastMCP
from fastmcp.client.transports import FastMCPTransport
from mcp_types import ToolListChangedNotification

from ahvn_tools.errors import ToolConnectionError
from ahvn_tools.execution import background_loop
from ahvn_tools.mcp.client.client_settings import ClientSettings
from ahvn_tools.mcp.client.connection import ConnectionPool
from ahvn_tools.mcp.client.targets import Target, resolve_targets


class CountingTarget:
    """A target in memory that records the headers of its clients, and counts opened and closed ones."""

    def __init__(self) -> None:
        self.headers: list[dict[str, str]] = []
        self.opened = self.closed = 0
        self.gate = asyncio.Event()

    @contextlib.asynccontextmanager
    async def _life(self, _server: Any) -> AsyncIterator[None]:
        self.opened += 1
        yield
        self.closed += 1

    async def wait(self) -> str:
        await self.gate.wait()
        return "waited"

    def number(self) -> int:
        return self.opened

    async def change(self, context: Context) -> None:
        await context.send_notification(ToolListChangedNotification())

    def target(self) -> Target:
        from ahvn_tools.mcp.client import fastmcp_clients

        def make(settings: ClientSettings) -> Any:
            self.headers.append(dict(settings.headers))
            server = FastMCP("inside", lifespan=self._life)
            server.tool(self.wait)
            server.tool(self.number)
            server.tool(self.change)
            return fastmcp_clients.make_client(FastMCPTransport(server), settings)

        return Target(name="inside", make_client=make, takes_headers=True)


@pytest.fixture
async def made() -> CountingTarget:
    return CountingTarget()


async def until(is_so: Any, limit: float = 3.0) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + limit
    while not is_so():
        assert loop.time() < end
        await asyncio.sleep(0.01)


def user(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


async def test_equal_headers_share_a_connection_whatever_their_case_and_order(made: CountingTarget) -> None:
    pool = ConnectionPool(made.target())
    for headers in ({"A": "1", "b": "2"}, {"B": "2", "a": "1"}, {"a": "1", "b": "3"}, None, {}):
        await pool.call("number", {}, headers=headers)
    assert made.headers == [{"a": "1", "b": "2"}, {"a": "1", "b": "3"}, {}]
    await pool.aclose()
    assert (made.opened, made.closed) == (3, 3)


async def test_least_recently_used_connection_is_closed_for_a_new_one(made: CountingTarget) -> None:
    pool = ConnectionPool(made.target(), max_connections=2)
    for name in ("a", "b", "a", "c", "a", "b"):
        await pool.call("number", {}, headers=user(name))
    assert [headers["authorization"][-1] for headers in made.headers] == ["a", "b", "c", "b"]
    await until(lambda: made.closed == 2)
    await pool.aclose()
    await until(lambda: made.closed == 4)


async def test_call_waits_while_all_connections_are_in_use(made: CountingTarget) -> None:
    pool = ConnectionPool(made.target(), max_connections=1)
    first = asyncio.create_task(pool.call("wait", {}, headers=user("a")))
    await until(lambda: made.opened == 1)
    second = asyncio.create_task(pool.call("number", {}, headers=user("b")))
    third = asyncio.create_task(pool.call("number", {}, headers=user("c")))
    await asyncio.sleep(0.1)
    assert len(made.headers) == 1
    background_loop.call_soon(made.gate.set)
    assert (await first).structured_content == {"result": "waited"}
    await asyncio.gather(second, third)
    assert len(made.headers) == 3
    await pool.aclose()


async def test_idle_connections_with_headers_are_closed(made: CountingTarget) -> None:
    pool = ConnectionPool(made.target(), idle_seconds=0.2)
    await pool.call("number", {})
    await pool.call("number", {}, headers=user("a"))
    for _ in range(4):
        await asyncio.sleep(0.1)
        await pool.call("number", {}, headers=user("b"))
    assert made.opened == 3
    await until(lambda: made.closed == 2)
    await pool.call("number", {})
    assert made.opened == 3
    await pool.aclose()


async def test_connection_in_use_is_not_closed_as_idle(made: CountingTarget) -> None:
    pool = ConnectionPool(made.target(), idle_seconds=0.1)
    call = asyncio.create_task(pool.call("wait", {}, headers=user("a")))
    await pool.call("number", {}, headers=user("b"))
    await until(lambda: made.closed == 1)
    await asyncio.sleep(0.3)
    background_loop.call_soon(made.gate.set)
    await call
    await pool.aclose()


async def test_change_on_any_connection_is_notified(made: CountingTarget) -> None:
    notified: list[str] = []
    pool = ConnectionPool(made.target(), on_list_changed=lambda: notified.append("changed"))
    for number, headers in enumerate((None, user("a")), start=1):
        await pool.call("change", {}, headers=headers)
        await until(lambda number=number: notified == ["changed"] * number)
    await pool.aclose()


async def test_closed_pool_refuses_calls(made: CountingTarget) -> None:
    pool = ConnectionPool(made.target(), max_connections=1)
    waiting = asyncio.create_task(pool.call("wait", {}, headers=user("a")))
    await until(lambda: made.opened == 1)
    queued = asyncio.create_task(pool.call("wait", {}, headers=user("b")))
    await asyncio.sleep(0.05)
    await pool.aclose()
    for call in (waiting, queued):
        with pytest.raises(ToolConnectionError, match="closed"):
            await call
    for headers in (None, user("a")):
        with pytest.raises(ToolConnectionError, match="closed"):
            await pool.call("number", {}, headers=headers)
    await until(lambda: made.closed == 1)


@pytest.mark.parametrize("is_used", [True, False])
def test_pool_can_be_closed_without_a_loop(is_used: bool) -> None:
    made = CountingTarget()
    pool = ConnectionPool(made.target())
    if is_used:
        asyncio.run(pool.call("number", {}, headers=user("a")))
    pool.close()
    pool.close()
    assert made.closed == made.opened == is_used
    for headers in (None, user("a")):
        with pytest.raises(ToolConnectionError, match="closed"):
            asyncio.run(pool.call("number", {}, headers=headers))


async def test_pool_that_was_never_used_can_be_closed(made: CountingTarget) -> None:
    pool = ConnectionPool(made.target())
    await pool.aclose()
    with pytest.raises(ToolConnectionError, match="closed"):
        await pool.tools()


async def test_closing_on_the_background_loop_does_not_wait_for_itself(made: CountingTarget) -> None:
    pool = ConnectionPool(made.target())
    await pool.call("number", {})

    async def close() -> None:
        pool.close()

    await background_loop.arun(close)
    await until(lambda: made.closed == 1)


async def test_headers_are_refused_for_a_server_that_is_not_reached_over_http() -> None:
    pool = ConnectionPool(resolve_targets(FastMCP("inside"))[0])
    with pytest.raises(ToolConnectionError, match="takes no headers") as error:
        await pool.call("number", {}, headers=user("a"))
    assert error.value.tool == "number"
