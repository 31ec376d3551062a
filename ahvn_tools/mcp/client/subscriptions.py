"""What a server tells of its tools outside of any request, where it can: the subscriptions of the newer protocol."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import httpx2
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import x_mcp_header_map

INITIAL_RETRY_DELAY = 1.0
"""Seconds before a lost subscription is asked for again; each time twice as many."""

MAX_RETRY_DELAY = 60.0


async def watch_list_changes(client: Any, on_list_changed: Callable[[], None]) -> None:
    """Call `changed` whenever the server says that its tools have changed. Ends where a server says nothing unasked.

    A subscription that is lost is asked for again, and what was missed counts as a change. Where that fails the client
    is of no use any more: the next one begins anew.
    """
    if not _supports_list_changed(client):
        return
    pause, has_begun = INITIAL_RETRY_DELAY, False
    while True:
        since = time.monotonic()
        try:
            async with listen(client.session, tools_list_changed=True) as news:
                if has_begun:
                    on_list_changed()
                has_begun = True
                async for _ in news:
                    on_list_changed()
        except SubscriptionLost:
            pass
        except (ListenNotSupportedError, MCPError, httpx2.HTTPError, OSError, RuntimeError):
            if has_begun:
                on_list_changed()
            return
        if time.monotonic() - since > MAX_RETRY_DELAY:
            pause = INITIAL_RETRY_DELAY
        await asyncio.sleep(pause)
        pause = min(2 * pause, MAX_RETRY_DELAY)


def _supports_list_changed(client: Any) -> bool:
    tools = getattr(client.server_capabilities, "tools", None)
    return bool(getattr(tools, "list_changed", False))


def has_header_parameters(tool: Any) -> bool:
    """Say whether a tool wants arguments in HTTP headers; mcp does that in sessions that have listed the tool."""
    return bool(x_mcp_header_map(tool.input_schema))
