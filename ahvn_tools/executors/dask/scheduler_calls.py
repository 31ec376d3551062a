"""SchedulerCalls: what the scheduler does for calls: a body starts once, and its replies go to its client."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

from distributed import Scheduler, SchedulerPlugin
from distributed.batched import BatchedSend

START_OPERATION: Final = "ahvn_tools_start"
REPLY_OPERATION: Final = "ahvn_tools_reply"
"""What workers request of the scheduler."""

REPLY_TOPIC: Final = "ahvn-tools-replies"
"""What clients subscribe to. Replies are sent to one client, and are not in the event log of the scheduler."""

LOST_WORKER: Final = "its Dask worker was lost"
"""Why a call is cancelled whose body cannot run again."""


class SchedulerCalls(SchedulerPlugin):
    """Lets a body start once, cancels its task when its worker is lost, and passes replies on."""

    name = "ahvn-tools"

    def __init__(self) -> None:
        self._started: set[str] = set()
        """The keys of the tasks whose bodies have started, and may not start again."""

    async def start(self, scheduler: Scheduler) -> None:
        """Take the requests of workers."""
        self._scheduler = scheduler
        for stream in scheduler.stream_comms.values():
            keep_no_messages(stream)
        scheduler.handlers[START_OPERATION] = self.start_body
        scheduler.handlers[REPLY_OPERATION] = self.pass_reply
        scheduler.stream_handlers[REPLY_OPERATION] = self.pass_reply

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Keep no requests that are sent to a worker."""
        keep_no_messages(scheduler.stream_comms[worker])

    def start_body(self, key: str, worker: str) -> bool:
        """Return whether the body of a task may start in a worker: it is the first one that asks."""
        if key in self._started or self._find_worker(key) != worker:
            return False
        self._started.add(key)
        return True

    def pass_reply(self, key: str, worker: str, content: bytes) -> bool:
        """Send what a body in a worker replies to its client, and return whether there is one."""
        if self._find_worker(key) != worker:
            return False
        message = {"op": "event", "topic": REPLY_TOPIC, "event": (key, worker, content)}
        for client in self._clients(key):
            self._scheduler.report(message, client=client)
        return True

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """Cancel a task that Dask would run again though its body has started."""
        if key not in self._started:
            return
        if finish == "forgotten":
            self._started.discard(key)
        elif finish == "released" and start in {"processing", "memory"}:
            asyncio.get_running_loop().call_soon(self._cancel, key)

    def _cancel(self, key: str) -> None:
        for client in self._clients(key):
            self._scheduler.stimulus_cancel([key], client=client, force=True, reason=LOST_WORKER, msg="")

    def _find_worker(self, key: str) -> str | None:
        """Return the address of the worker that has a task."""
        task = self._scheduler.tasks.get(key)
        return None if task is None or task.processing_on is None else str(task.processing_on.address)

    def _clients(self, key: str) -> list[str]:
        """Return the clients that wait for a task: one, or none."""
        task = self._scheduler.tasks.get(key)
        return [] if task is None else [client.client_key for client in task.who_wants or ()]


async def prepare_scheduler(client: str, dask_scheduler: Scheduler) -> None:
    """In the scheduler: prepare it for the calls of a client."""
    await dask_scheduler.register_scheduler_plugin(SchedulerCalls(), idempotent=True)
    keep_no_messages(dask_scheduler.client_comms[client])


def keep_no_messages(stream: BatchedSend) -> None:
    """Let a stream drop what it has sent: Dask keeps the last 1,000 messages, arguments and results among them."""
    stream.recent_message_log = deque(maxlen=0)
