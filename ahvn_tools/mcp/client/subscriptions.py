"""Subscriptions of the newer MCP protocol: a server announces changes of its tools outside of any request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import httpx2
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp.shared.exceptions import MCPError

INITIAL_RETRY_DELAY = 1.0  # seconds before a lost subscription is renewed; doubled each time
MAX_RETRY_DELAY = 60.0


async def watch_list_changes(client: Any, on_list_changed: Callable[[], None]) -> None:
    """Call `on_list_changed` whenever the server announces changed tools. Returns when the server cannot announce them.

    A lost subscription is renewed, and counts as a change because an announcement may have been missed. Where that
    fails, the client is broken, and its successor subscribes again.
    """
    tools = getattr(client.server_capabilities, "tools", None)
    if not getattr(tools, "list_changed", False):
        return
    delay, is_renewal = INITIAL_RETRY_DELAY, False
    while True:
        began = time.monotonic()
        try:
            async with listen(client.session, tools_list_changed=True) as announcements:
                if is_renewal:
                    on_list_changed()
                is_renewal = True
                async for _ in announcements:
                    on_list_changed()
        except SubscriptionLost:
            pass
        except (ListenNotSupportedError, MCPError, httpx2.HTTPError, OSError, RuntimeError):
            if is_renewal:
                on_list_changed()
            return
        if time.monotonic() - began > MAX_RETRY_DELAY:
            delay = INITIAL_RETRY_DELAY
        await asyncio.sleep(delay)
        delay = min(2 * delay, MAX_RETRY_DELAY)
