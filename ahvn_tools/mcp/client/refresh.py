"""When the tools of a server are listed again: on request, and soon after the server announced a change."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable

from ahvn_tools.mcp.trust.changes import Changes

log = logging.getLogger(__name__)

INITIAL_REFRESH_DELAY = 0.1  # seconds after an announced change, in which more changes may be announced
MAX_REFRESH_DELAY = 30.0  # seconds between two refreshes of a server that announces changes all the time


class Refresher:
    """Runs `update`, which lists the tools of a server, on the background loop and one at a time."""

    def __init__(
        self,
        server_name: str,
        update: Callable[[], Awaitable[Changes]],
        notify: Callable[[Changes], Awaitable[None]],
    ) -> None:
        """`notify` is awaited with the changes after each `refresh`."""
        self.is_closed = False
        self._server_name = server_name
        self._run_update = update
        self._notify = notify
        self._loop: asyncio.AbstractEventLoop | None = None
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
        self._reset_for_running_loop()
        async with self._lock:
            if self.refreshed_at > unless_since:
                return Changes()
            began = asyncio.get_running_loop().time()
            changes = await self._run_update()
            self.refreshed_at = began
            return changes

    def schedule(self, changed_at: float) -> None:
        """Refresh soon, unless an update begins after `changed_at` anyway."""
        self._reset_for_running_loop()
        self._changed_at = max(self._changed_at, changed_at)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._refresh_until_current())

    async def _refresh_until_current(self) -> None:
        """Refresh until no newer change is announced. The delay before each refresh doubles."""
        delay, handled = INITIAL_REFRESH_DELAY, -math.inf
        while self._changed_at > handled and not self.is_closed:
            await asyncio.sleep(delay)
            delay = min(2 * delay, MAX_REFRESH_DELAY)
            handled = self._changed_at
            try:
                await self.refresh(unless_since=handled)
            except Exception as error:  # noqa: BLE001  # a server may fail in any way; the previous tools stay valid
                if not self.is_closed:
                    log.warning("The tools of the MCP server %r were not refreshed: %s", self._server_name, error)

    def _reset_for_running_loop(self) -> None:
        """Drop the lock and the task of another loop: in a forked child, the lock may be held forever."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._lock, self._task = loop, asyncio.Lock(), None
