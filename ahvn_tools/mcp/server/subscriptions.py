"""Notifications for clients of the newest protocol that subscribe to changes of the tool list."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from fastmcp import FastMCP
from mcp.server.subscriptions import ListenHandler, ServerEvent, ToolsListChanged
from mcp_types import SubscriptionsListenRequestParams

POLL_SECONDS: Final = 0.5
"""Seconds between two checks for changes while a client is subscribed: a change may come from any thread."""

Listener = Callable[[ServerEvent], None]


class PollingSubscriptionBus:
    """A subscription bus of mcp that notifies each listener when the revision of the tool list changes."""

    def __init__(self, get_revision: Callable[[], Any]) -> None:
        """Use `get_revision`, which returns another value whenever the list of tools may have changed."""
        self._get_revision = get_revision
        self._listeners: dict[asyncio.Task[None], Listener] = {}

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Notify a listener of changes from now on; return the function that ends the subscription."""
        poll_task = asyncio.get_running_loop().create_task(self._poll(listener))
        self._listeners[poll_task] = listener

        def unsubscribe() -> None:
            self._listeners.pop(poll_task, None)
            poll_task.cancel()

        return unsubscribe

    async def publish(self, event: ServerEvent) -> None:
        """Send another event to all listeners."""
        for listener in list(self._listeners.values()):
            listener(event)

    async def _poll(self, listener: Listener) -> None:
        last = self._get_revision()
        while True:
            await asyncio.sleep(POLL_SECONDS)
            revision = self._get_revision()
            if revision != last:
                last = revision
                listener(ToolsListChanged())


def enable_subscriptions(server: FastMCP, get_revision: Callable[[], Any]) -> Callable[[], None]:
    """Let a server answer `subscriptions/listen`; return the function that ends all subscriptions in good order.

    FastMCP 4 has no public API for this. Without the private attribute, clients learn of a change with their next call.
    """
    handler = ListenHandler(PollingSubscriptionBus(get_revision))
    mcp_server: Any = getattr(server, "_mcp_server", None)
    if hasattr(mcp_server, "add_request_handler"):
        mcp_server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, handler)
    return handler.close
