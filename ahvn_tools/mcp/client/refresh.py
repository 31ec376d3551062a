"""When the tools of a server are listed again: on request, and soon after the server announced a change."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

from ahvn_tools.execution import background_loop
from ahvn_tools.mcp.client.errors import find_shown_cause
from ahvn_tools.mcp.trust.changes import Changes

log = logging.getLogger(__name__)

INITIAL_REFRESH_DELAY = 0.1  # seconds after an announced change, in which more changes may be announced
MAX_REFRESH_DELAY = 30.0  # seconds between two refreshes of a server that announces changes all the time
INITIAL_RETRY_DELAY = 1.0  # seconds before a lost subscription is renewed; doubled each time
MAX_RETRY_DELAY = 60.0


class Refresher:
    """Runs `update`, which lists the tools of a server, on the background loop and one at a time."""

    def __init__(
        self,
        server_name: str,
        update: Callable[[], Awaitable[Changes]],
        notify: Callable[[Changes], Awaitable[None]],
    ) -> None:
        """`notify` is awaited with the changes after each `refresh`."""
        self._is_closed = False
        self._server_name = server_name
        self._run_update = update
        self._notify = notify
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.refreshed_at = -math.inf
        """When the last complete update has begun, by the loop's clock."""
        self._changed_at = -math.inf

    async def refresh(self, *, unless_since: float = math.inf) -> Changes:
        """Update as `update` does, notify of the changes and return them."""
        changes = await self.update(unless_since=unless_since)
        if changes:
            await self._notify(changes)
        return changes

    async def update(self, *, unless_since: float = math.inf) -> Changes:
        """Update and return the changes; do nothing if an update has begun after `unless_since`."""
        async with self._lock:
            if self.refreshed_at > unless_since:
                return Changes()
            began = asyncio.get_running_loop().time()
            changes = await self._run_update()
            self.refreshed_at = began
            return changes

    def schedule(self) -> None:
        """Refresh soon, unless another update begins before that."""
        if self._is_closed:
            return
        loop = asyncio.get_running_loop()
        self._changed_at = loop.time()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._refresh_until_current())

    def close(self) -> None:
        """Cancel the scheduled refresh, and schedule no other. May be called in any thread."""
        self._is_closed = True
        if self._task is not None:
            background_loop.call_soon(self._cancel_task)

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _refresh_until_current(self) -> None:
        """Refresh until no newer change is announced. The delay before each refresh doubles."""
        delay, handled = INITIAL_REFRESH_DELAY, -math.inf
        while self._changed_at > handled and not self._is_closed:
            await asyncio.sleep(delay)
            delay = min(2 * delay, MAX_REFRESH_DELAY)
            handled = self._changed_at
            try:
                await self.refresh(unless_since=handled)
            except Exception as error:  # noqa: BLE001  # a server may fail in any way; the previous tools stay valid
                if not self._is_closed:
                    log.warning("The tools of the MCP server %r were not refreshed: %s", self._server_name, error)


async def watch_list_changes(
    client: Any,
    on_list_changed: Callable[[], None],
    on_prompts_changed: Callable[[], None],
    on_failed_renewal: Callable[[], None],
) -> None:
    """Call `on_list_changed` whenever the server announces changed tools outside of any request, and for prompts too.

    The newer MCP protocol has subscriptions for that. Returns when the server has none. A lost subscription is renewed,
    and counts as a change because an announcement may have been missed. Where that fails, a new client should subscribe
    again.
    """
    from mcp.client.subscriptions import PromptsListChanged, SubscriptionLost, listen

    tools, prompts = (
        bool(getattr(getattr(client.server_capabilities, kind, None), "list_changed", False))
        for kind in ("tools", "prompts")
    )
    if not (tools or prompts):
        return

    def report_all() -> None:
        on_list_changed()
        on_prompts_changed()

    delay, is_renewal = INITIAL_RETRY_DELAY, False
    while True:
        began = time.monotonic()
        try:
            async with listen(client.session, tools_list_changed=tools, prompts_list_changed=prompts) as announcements:
                if is_renewal:
                    report_all()
                is_renewal = True
                async for event in announcements:
                    (on_prompts_changed if isinstance(event, PromptsListChanged) else on_list_changed)()
        except SubscriptionLost:
            pass
        except Exception as error:  # calls work without a subscription, and a server may send anything in it
            log.debug("A subscription to changes of tools has ended.", exc_info=find_shown_cause(error, str))
            if is_renewal:
                on_failed_renewal()
                report_all()
            return
        if time.monotonic() - began > MAX_RETRY_DELAY:
            delay = INITIAL_RETRY_DELAY
        await asyncio.sleep(delay)
        delay = min(2 * delay, MAX_RETRY_DELAY)
