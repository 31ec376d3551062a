"""The Dask task of one call, and what a Dask worker knows about the bodies that run in it.

A body runs in the worker, or in a killable process of the worker's computer.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from distributed import Worker, WorkerPlugin, get_worker
from distributed.comm import CommClosedError

from ahvn_tools.errors import ToolConnectionError
from ahvn_tools.execution.threads import thread_pool
from ahvn_tools.execution.workers.body_call import WorkerLostError
from ahvn_tools.execution.workers.call_executor import CallTask
from ahvn_tools.execution.workers.link import Link
from ahvn_tools.execution.workers.plain import run_here
from ahvn_tools.execution.workers.process_call import run_killable
from ahvn_tools.executors.dask.scheduler_calls import (
    LOST_WORKER,
    REPLY_OPERATION,
    START_OPERATION,
    keep_no_messages,
)

MAX_MESSAGE_BYTES: Final = 1_000_000
"""A larger request or result travels as Dask's data, a smaller one in a message."""

_NAME: Final = "ahvn-tools"

ANSWER_OPERATION: Final = "ahvn_tools_answer"
"""What the scheduler sends to a worker that has a task to answer; unlike `Client.run`, it is not logged."""


@dataclass(frozen=True, kw_only=True)
class DaskTask:
    """One call, as it is sent to a worker. Its repr shows no value: Dask writes arguments into messages."""

    call: CallTask
    key: str
    """The key of the task."""
    is_killable: bool
    """Whether it runs in a process that can be killed."""

    @property
    def starts_once(self) -> bool:
        """Whether the body must not start again when its worker was lost: replies must not come twice."""
        return self.call.is_connected or not self.call.is_repeatable


@dataclass(frozen=True, kw_only=True)
class DaskResult:
    """What a task returns. It raises nothing, because Dask would log the arguments."""

    reply: bytes | None = field(default=None, repr=False)
    """The reply that ends the call; None if it was sent in a message."""
    lost: str = ""
    """What happened to the worker, if there is no such reply."""


def run_task(task: DaskTask) -> DaskResult:
    """Run the body of a call."""
    worker = get_worker()
    try:
        running = find_running_tasks(worker)
        if task.starts_once and not call_scheduler(worker, START_OPERATION, key=task.key):
            return DaskResult(lost=f"ended ({LOST_WORKER}) before it returned a result")
    except Exception as error:  # noqa: BLE001  # Dask raises many types when the scheduler is gone
        return DaskResult(lost=f"cannot reach the scheduler of Dask ({type(error).__name__})")
    link = TaskLink(worker, task.key, is_connected=task.call.is_connected)
    with running.added(worker, task.key, link):
        try:
            run = run_killable if task.is_killable else run_here
            reply = run(task.call.request, link, task.call.seconds)
        except WorkerLostError as error:
            return DaskResult(lost=str(error))
        except (Exception, concurrent.futures.CancelledError) as error:  # noqa: BLE001  # see DaskResult
            return DaskResult(lost=f"was ended ({type(error).__name__}) before it returned a result")
        if len(reply) > MAX_MESSAGE_BYTES:
            return DaskResult(reply=reply)
        link.send_last(reply)
        return DaskResult()


class TaskLink(Link):
    """The link of a body to its caller: the scheduler passes replies and answers on."""

    def __init__(self, worker: Worker, key: str, *, is_connected: bool) -> None:
        """`is_connected`: whether the caller gets more than the result."""
        super().__init__(self._send)
        self._worker = worker
        self._key = key
        self._is_connected = is_connected
        self._send_lock = threading.Lock()

    def on_cancel(self, cancel: Callable[[], None]) -> None:
        """Call `cancel`, in another thread, when the caller no longer needs the result or the worker closes."""
        super().on_cancel(lambda: thread_pool.run(cancel))  # it may block, and the event loop of the worker cancels

    def _send(self, reply: bytes) -> None:
        if not self._is_connected:
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
