"""A client that listens is told of changes that nobody's call has brought."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastmcp import Client
from mcp.client.subscriptions import listen
from mcp.server.subscriptions import ToolsListChanged

from ahvn_tools import Toolkit
from ahvn_tools.mcp.server.subscriptions import POLL_SECONDS
from tests.mcp.serving import LONGEST


def add(a: int, b: int) -> int:
    return a + b


@pytest.fixture
def kit() -> Toolkit:
    return Toolkit("math").add(add).group("more", "More.", active=False)


@contextlib.asynccontextmanager
async def listening(kit: Toolkit) -> AsyncIterator[asyncio.Queue[Any]]:
    """Give what a client hears."""
    heard: asyncio.Queue[Any] = asyncio.Queue()
    async with Client(kit.to_fastmcp_server()) as client, listen(client.session, tools_list_changed=True) as news:

        async def take() -> None:
            async for event in news:
                heard.put_nowait(event)

        taking = asyncio.create_task(take())
        yield heard
        taking.cancel()
        await asyncio.wait({taking})


async def next_of(heard: asyncio.Queue[Any]) -> Any:
    return await asyncio.wait_for(heard.get(), LONGEST)


@pytest.mark.parametrize(
    "change",
    [
        lambda kit: kit.add(add, rename="plus"),
        lambda kit: kit.remove("add"),
        lambda kit: kit.activate("more"),
        lambda kit: kit.bind("a"),
        lambda kit: kit["add"].bind("a"),
        lambda kit: kit.add_search(core=[]),
    ],
    ids=["added", "removed", "switched", "bound", "bound in one tool", "search"],
)
async def test_a_change_is_told_once_to_whoever_listens(kit, change):
    async with listening(kit) as heard:
        await asyncio.to_thread(change, kit)
        assert await next_of(heard) == ToolsListChanged()
        await asyncio.sleep(2.5 * POLL_SECONDS)
        assert heard.empty()


async def test_all_who_listen_are_told_and_who_has_left_is_not(kit):
    async with listening(kit) as one:
        async with listening(kit) as two:
            kit.add(add, rename="plus")
            assert await next_of(one) == await next_of(two) == ToolsListChanged()
        kit.remove("plus")
        assert await next_of(one) == ToolsListChanged()
        assert two.empty()


async def test_nothing_looks_when_nobody_listens(kit):
    async with listening(kit):
        pass
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_gateway_follows_the_server_that_it_is_in_front_of(kit):
    gateway = Toolkit("gateway")
    await gateway.aadd_mcp(kit.to_fastmcp_server(), name="math")
    async with listening(gateway) as heard:
        kit.add(add, rename="plus")
        assert await next_of(heard) == ToolsListChanged()
        assert [spec.name for spec in gateway] == ["add", "plus"]
    await gateway.aremove_mcp("math")
