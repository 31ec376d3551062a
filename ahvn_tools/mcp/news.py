"""What a server tells of its tools outside of any request, where it can: the subscriptions of the newer protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import x_mcp_header_map

PAUSE = 1.0
"""Seconds before a lost subscription is asked for again; each time twice as many."""

LONGEST_PAUSE = 60.0


async def follow(client: Any, changed: Callable[[], None]) -> None:
    """Call `changed` whenever the server says that its tools have changed. Ends where a server says nothing unasked."""
    if not _tells(client):
        return
    pause = PAUSE
    while True:
        try:
            async with listen(client.session, tools_list_changed=True) as news:
                async for _ in news:
                    changed()
                    pause = PAUSE
            return
        except SubscriptionLost:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            changed()
        except (ListenNotSupportedError, MCPError, TimeoutError, OSError, RuntimeError):
            return


def _tells(client: Any) -> bool:
    tools = getattr(client.server_capabilities, "tools", None)
    return bool(getattr(tools, "list_changed", False))


def is_mirrored(tool: Any) -> bool:
    """Say whether a tool wants arguments in HTTP headers; mcp does that in sessions that have listed the tool."""
    return bool(x_mcp_header_map(tool.input_schema))
