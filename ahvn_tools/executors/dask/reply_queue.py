"""ReplyQueue: a queue of the scheduler, through which the bodies of an executor's calls reply while they run."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import Protocol

from distributed import Client

from ahvn_tools.executors.dask.scheduler_queue import SchedulerQueue


class Receiver(Protocol):
    """Takes the replies of one call."""

    def receive(self, address: str, reply: bytes) -> None:
        """Take a reply from the worker with this address."""

    def lose(self, reason: str) -> None:
        """Take the reason why there will be no more replies."""


class ReplyQueue:
    """The queue of all calls that run at the same time. All its methods are for the event loop of the client."""

    def __init__(self, client: Client) -> None:
        self.is_ended = False
        """Whether it takes no more calls."""
        self._client = client
        self._receivers: dict[str, Receiver] = {}
        self._opened: asyncio.Future[SchedulerQueue] = asyncio.get_running_loop().create_future()
        self._polling = asyncio.ensure_future(self._poll())

    @contextlib.asynccontextmanager
    async def receiving(self, key: str, receiver: Receiver) -> AsyncIterator[str]:
        """Pass the replies of a call to its receiver, and return the name of the queue. Raises what Dask raises."""
        self._receivers[key] = receiver
        try:
            yield (await asyncio.shield(self._opened)).name
        finally:
            del self._receivers[key]
            if not self._receivers:
                self.is_ended = True
                await self._end()

    async def _end(self) -> None:
        """Let the polling end, which removes the queue."""
        with contextlib.suppress(Exception, asyncio.CancelledError):  # it is not open, or the connection was lost
            await self._opened.result().put(None)
        await asyncio.wait({self._polling})

    async def _poll(self) -> None:
        """Pass on what comes until there is a None."""
        try:
            async with SchedulerQueue.create(self._client, f"replies-{uuid.uuid4().hex}") as queue:
                self._opened.set_result(queue)
                while True:
                    for item in await queue.take():
                        if item is None:
                            return
                        self._pass_on(*item)
        except Exception as error:  # noqa: BLE001  # Dask raises many types when the scheduler is gone
            if not self._opened.done():
                self._opened.set_exception(error)
            for receiver in self._receivers.values():
                receiver.lose(f"cannot be reached through the scheduler of Dask ({type(error).__name__})")
        finally:
            self.is_ended = True
            self._opened.cancel()

    def _pass_on(self, key: str, address: str, reply: bytes) -> None:
        if (receiver := self._receivers.get(key)) is not None:
            receiver.receive(address, reply)
