"""Changes of tools that a server announces outside of any request."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.subscriptions import ToolsListChanged

from ahvn_tools.execution import background_loop
from ahvn_tools.mcp.client import refresh
from ahvn_tools.mcp.client.connection import ConnectionPool
from ahvn_tools.mcp.client.targets import resolve_targets
from tests.mcp.client.test_http import Site


async def test_change_announced_outside_of_a_request_is_notified() -> None:
    bus = InMemorySubscriptionBus()
    server = MCPServer("inside", subscriptions=bus)
    notified: list[str] = []
    connection = ConnectionPool(resolve_targets(server)[0], on_list_changed=lambda: notified.append("changed"))
    assert await connection.tools() == []
    await asyncio.sleep(0.2)
    for _ in range(2):
        notified.clear()
        await background_loop.arun(bus.publish, ToolsListChanged())
        await asyncio.sleep(0.3)
        assert set(notified) == {"changed"}
    await connection.aclose()


@pytest.mark.parametrize("is_down", [True, False])
async def test_lost_subscription_is_renewed_and_notified_as_a_change(
    monkeypatch: pytest.MonkeyPatch, is_down: bool
) -> None:
    monkeypatch.setattr(refresh, "INITIAL_RETRY_DELAY", 0.2)
    buses: list[InMemorySubscriptionBus] = []

    def app() -> Any:
        buses.append(InMemorySubscriptionBus())
        return MCPServer("web", subscriptions=buses[-1], log_level="ERROR").streamable_http_app()

    site = Site(app)
    heard = threading.Semaphore(0)
    connection = ConnectionPool(resolve_targets(site.url)[0], on_list_changed=heard.release)
    try:
        await connection.tools()
        await asyncio.sleep(0.2)
        site.kill()
        if not is_down:
            site.start()
        assert await asyncio.to_thread(heard.acquire, timeout=20)
        if is_down:
            site.start()
            assert (await connection.call("none", {})).is_error  # which is no error of the connection
        for _ in range(50):  # until the subscription is renewed, nothing is heard
            site.loop.call_soon_threadsafe(lambda: site.loop.create_task(buses[-1].publish(ToolsListChanged())))
            if await asyncio.to_thread(heard.acquire, timeout=0.2):
                break
        else:
            pytest.fail("the new subscription was not notified")
    finally:
        await connection.aclose()
        site.kill()
