"""What a Dask worker knows about the bodies that run in it, and how one of them reaches its caller."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from distributed import Worker, WorkerPlugin
from distributed.comm import CommClosedError

from ahvn_tools.errors import ToolConnectionError
from ahvn_tools.execution.isolation.answered_link import AnsweredLink
from ahvn_tools.execution.threads import thread_pool
from ahvn_tools.executors.dask.scheduler_calls import REPLY_OPERATION, keep_no_messages

_NAME: Final = "ahvn-tools"

ANSWER_OPERATION: Final = "ahvn_tools_answer"
"""What the scheduler sends to a worker that has a task to answer; unlike `Client.run`, it is not logged."""


class TaskLink(AnsweredLink):
    """The link of a body to its caller: the scheduler passes replies and answers on."""

    def __init__(self, worker: Worker, key: str, *, is_connected: bool) -> None:
        """`is_connected`: whether the caller gets more than the result."""
        super().__init__()
        self._worker = worker
        self._key = key
        self._is_connected = is_connected
        self._send_lock = threading.Lock()

    def on_cancel(self, cancel: Callable[[], None]) -> None:
        """Call `cancel`, in another thread, when the caller no longer needs the result or the worker closes."""
        super().on_cancel(lambda: thread_pool.run(cancel))  # it may block, and the event loop of the worker cancels

    def send(self, reply: bytes) -> None:
        """Send a reply, unless the call has ended."""
        if not self._is_connected or self.is_cancelled:
            return
        with self._send_lock:
            try:
                is_sent = call_scheduler(self._worker, REPLY_OPERATION, key=self._key, content=reply)
            except Exception:  # noqa: BLE001  # Dask raises many types when the scheduler is gone
                is_sent = False
        if not is_sent:
            self.cancel()

    def send_last(self, reply: bytes) -> None:
        """Send the reply that ends the call, before Dask tells the scheduler that the task has ended."""
        message = {"op": REPLY_OPERATION, "key": self._key, "content": reply}

        def send() -> None:
            with contextlib.suppress(CommClosedError):  # Dask cancels the task
                self._worker.batched_stream.send(message)

        self._worker.loop.add_callback(send)

    def ask(self, question: bytes) -> bytes:
        """Send a question, and return the answer. Raises CallCancelledError, ToolConnectionError without a caller."""
        if not self._is_connected:
            raise ToolConnectionError("This tool must ask for an approval, and takes no ToolContext.")
        return super().ask(question)


class RunningTasks(WorkerPlugin):
    """The links of the bodies that run in a worker. Dask tells it which tasks are no longer needed.

    That is so when their caller has cancelled them, when the client has closed or died, and when the worker closes.
    """

    def __init__(self) -> None:
        self._links: dict[str, TaskLink] = {}

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """End the body of a task that is released while it runs."""
        if start in {"executing", "long-running"} and finish == "released" and (link := self._links.get(key)):
            link.cancel()

    def setup(self, worker: Worker) -> None:
        """Take answers from now on."""
        worker.handlers[ANSWER_OPERATION] = self.deliver
        keep_no_messages(worker.batched_stream)

    def deliver(self, key: str, answer: bytes) -> str:
        """Pass an answer to the task that waits for it, unless the task has ended."""
        if (link := self._links.get(key)) is not None:
            link.answer(answer)
        return "OK"

    def teardown(self, worker: Worker) -> None:
        """End the bodies of a worker that closes."""
        worker.handlers.pop(ANSWER_OPERATION, None)
        for link in list(self._links.values()):
            link.cancel()

    @contextlib.contextmanager
    def added(self, worker: Worker, key: str, link: TaskLink) -> Iterator[None]:
        """Keep a link while its task runs; cancel it at once if the task is no longer needed."""
        self._links[key] = link
        try:
            task = worker.state.tasks.get(key)
            if task is None or task.state not in {"executing", "long-running"}:
                link.cancel()
            yield
        finally:
            del self._links[key]


def find_running_tasks(worker: Worker) -> RunningTasks:
    """In a task: return what its worker knows about running bodies."""
    if _NAME not in worker.plugins:

        async def add() -> None:
            if _NAME not in worker.plugins:  # no other coroutine runs between this line and the end of adding
                await worker.plugin_add(plugin=RunningTasks(), name=_NAME)

        asyncio.run_coroutine_threadsafe(add(), worker.loop.asyncio_loop).result()
    found: RunningTasks = worker.plugins[_NAME]
    return found


def call_scheduler(worker: Worker, operation: str, **arguments: Any) -> Any:
    """In a task: request something of the scheduler, and return its answer. Raises what Dask raises."""
    requesting = getattr(worker.scheduler, operation)(worker=worker.address, **arguments)
    return asyncio.run_coroutine_threadsafe(requesting, worker.loop.asyncio_loop).result()
