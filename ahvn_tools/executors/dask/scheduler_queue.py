"""SchedulerQueue: a `distributed.Queue` of the scheduler, of which nothing is left after its use."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import AsyncIterator
from typing import Any, Final

from distributed import Client, Scheduler, SchedulerPlugin

_PLUGIN: Final = "ahvn-tools"

_prepared: weakref.WeakSet[Client] = weakref.WeakSet()
"""The clients whose scheduler removes what they leave."""


class SchedulerQueue:
    """A queue in the scheduler, for the event loop of a client. Its methods raise what Dask raises.

    `distributed.Queue` counts how often it was created, and an awaited one counts twice: it would stay for ever.
    """

    def __init__(self, client: Client, name: str) -> None:
        self.name = name
        self._client = client

    @classmethod
    @contextlib.asynccontextmanager
    async def create(cls, client: Client, purpose: str) -> AsyncIterator[SchedulerQueue]:
        """Create a queue, and remove it in the end, also if the client has closed or its process has died."""
        if client not in _prepared:
            await client.run_on_scheduler(_add_plugin)
            _prepared.add(client)
        queue = cls(client, f"{_prefix(client.id)}{purpose}")
        await client.scheduler.queue_create(name=queue.name)
        try:
            yield queue
        finally:
            if client.status == "running":  # else the scheduler removes the queue, or is gone
                client._send_to_scheduler({"op": "queue_release", "name": queue.name})  # noqa: SLF001  # as Queue.close

    async def put(self, item: Any) -> None:
        """Add an item."""
        await self._client.scheduler.queue_put(name=self.name, data=item)

    async def take(self) -> list[Any]:
        """Wait for an item, and return it with the others that are there."""
        rpc = self._client.scheduler
        first = await rpc.queue_get(name=self.name)
        return [record["value"] for record in (first, *await rpc.queue_get(name=self.name, batch=True))]


class QueueRemoval(SchedulerPlugin):
    """Removes the queues of a client that leaves the scheduler."""

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Remove the queues of a client."""
        extension = scheduler.extensions["queues"]
        for name in [name for name in extension.queues if str(name).startswith(_prefix(client))]:
            extension.release(name=name)


def _add_plugin(dask_scheduler: Scheduler) -> None:
    dask_scheduler.add_plugin(QueueRemoval(), idempotent=True, name=_PLUGIN)


def _prefix(client_id: str) -> str:
    return f"ahvn-tools-{client_id}-"
