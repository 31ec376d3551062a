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

PAUSE = 1.0
"""Seconds before a lost subscription is asked for again; each time twice as many."""

LONGEST_PAUSE = 60.0


async def follow(client: Any, changed: Callable[[], None]) -> None:
    """Call `changed` whenever the server says that its tools have changed. Ends where a server says nothing unasked.

    A subscription that is lost is asked for again, and what was missed counts as a change. Where that fails the client
    is of no use any more: the next one begins anew.
    """
    if not _tells(client):
        return
    pause, has_begun = PAUSE, False
    while True:
        since = time.monotonic()
        try:
            async with listen(client.session, tools_list_changed=True) as news:
                if has_begun:
                    changed()
                has_begun = True
                async for _ in news:
                    changed()
        except SubscriptionLost:
            pass
        except (ListenNotSupportedError, MCPError, httpx2.HTTPError, OSError, RuntimeError):
            if has_begun:
                changed()
            return
        if time.monotonic() - since > LONGEST_PAUSE:
            pause = PAUSE
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _tells(client: Any) -> bool:
    tools = getattr(client.server_capabilities, "tools", None)
    return bool(getattr(tools, "list_changed", False))


def is_mirrored(tool: Any) -> bool:
    """Say whether a tool wants arguments in HTTP headers; mcp does that in sessions that have listed the tool."""
    return bool(x_mcp_header_map(tool.input_schema))
