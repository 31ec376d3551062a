"""Listening: clients of the newest protocol that ask for news are told when the list of tools has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from fastmcp import FastMCP
from mcp.server.subscriptions import ListenHandler, ServerEvent, ToolsListChanged
from mcp_types import SubscriptionsListenRequestParams

POLL_SECONDS: Final = 0.5
"""Seconds between two looks at what is served, while somebody listens: a change may come from any thread."""

Listener = Callable[[ServerEvent], None]


class PollingSubscriptionBus:
    """Tells each listener of changes. It is what mcp calls a subscription bus."""

    def __init__(self, get_revision: Callable[[], Any]) -> None:
        """`mark` gives something else whenever the list of tools may have changed."""
        self._get_revision = get_revision
        self._listeners: dict[asyncio.Task[None], Listener] = {}

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell somebody of changes from now on; return what ends that."""
        watching = asyncio.get_running_loop().create_task(self._poll(listener))
        self._listeners[watching] = listener

        def unsubscribe() -> None:
            self._listeners.pop(watching, None)
            watching.cancel()

        return unsubscribe

    async def publish(self, event: ServerEvent) -> None:
        """Tell all listeners something else."""
        for listener in list(self._listeners.values()):
            listener(event)

    async def _poll(self, listener: Listener) -> None:
        seen = self._get_revision()
        while True:
            await asyncio.sleep(POLL_SECONDS)
            now = self._get_revision()
            if now != seen:
                seen = now
                listener(ToolsListChanged())


def enable_subscriptions(server: FastMCP, get_revision: Callable[[], Any]) -> Callable[[], None]:
    """Let a server answer `subscriptions/listen`; return what ends all that listen, in good order.

    FastMCP 4 has no public way to do so; without the attribute clients are told of a change with their next call.
    """
    handler = ListenHandler(PollingSubscriptionBus(get_revision))
    inner: Any = getattr(server, "_mcp_server", None)
    if hasattr(inner, "add_request_handler"):
        inner.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, handler)
    return handler.close
