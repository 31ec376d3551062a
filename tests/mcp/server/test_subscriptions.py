"""A subscribed client is notified of changes that no call has caused."""

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
from ahvn_tools.mcp.server import app
from tests.mcp.serving import LONGEST


def add(a: int, b: int) -> int:
    return a + b


@pytest.fixture(autouse=True)
def poll_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "POLL_SECONDS", 0.05)


@pytest.fixture
def kit() -> Toolkit:
    return Toolkit("math").add(add).add_group("more", "More.", active=False)


@contextlib.asynccontextmanager
async def subscribe(kit: Toolkit) -> AsyncIterator[asyncio.Queue[Any]]:
    """Yield the events that a subscribed client receives."""
    received: asyncio.Queue[Any] = asyncio.Queue()
    async with Client(kit.to_fastmcp_server()) as client, listen(client.session, tools_list_changed=True) as events:

        async def receive() -> None:
            async for event in events:
                received.put_nowait(event)

        receiving = asyncio.create_task(receive())
        yield received
        receiving.cancel()
        await asyncio.wait({receiving})


async def next_event(received: asyncio.Queue[Any]) -> Any:
    return await asyncio.wait_for(received.get(), LONGEST)


@pytest.mark.parametrize(
    "change",
    [
        lambda kit: kit.add(add, rename="plus"),
        pytest.param(lambda kit: kit.remove("add"), marks=pytest.mark.exhaustive),
        lambda kit: kit.activate("more"),
        pytest.param(lambda kit: kit.bind("a"), marks=pytest.mark.exhaustive),
        pytest.param(lambda kit: kit["add"].bind("a"), marks=pytest.mark.exhaustive),
        pytest.param(lambda kit: kit.add_search(core=[]), marks=pytest.mark.exhaustive),
    ],
    ids=["added", "removed", "switched", "bound", "bound in one tool", "search"],
)
async def test_a_change_is_sent_once(kit, change):
    async with subscribe(kit) as received:
        await asyncio.to_thread(change, kit)
        assert await next_event(received) == ToolsListChanged()
        await asyncio.sleep(5 * app.POLL_SECONDS)
        assert received.empty()


async def test_all_subscribed_clients_are_notified_until_they_unsubscribe(kit):
    async with subscribe(kit) as one:
        async with subscribe(kit) as two:
            kit.add(add, rename="plus")
            assert await next_event(one) == await next_event(two) == ToolsListChanged()
        kit.remove("plus")
        assert await next_event(one) == ToolsListChanged()
        assert two.empty()


async def test_nothing_polls_without_a_subscription(kit):
    async with subscribe(kit):
        pass
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_gateway_forwards_changes_of_the_server_behind_it(kit):
    gateway = Toolkit("gateway")
    await gateway.aadd_mcp(kit.to_fastmcp_server(), name="math")
    async with subscribe(gateway) as received:
        kit.add(add, rename="plus")
        assert await next_event(received) == ToolsListChanged()
        assert [spec.name for spec in gateway] == ["add", "plus"]
    await gateway.aremove_mcp("math")
