"""What a Dask worker knows about the bodies that run in it, and how one of them reaches its caller."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

from distributed import Worker, WorkerPlugin
from distributed.utils import sync

from ahvn_tools.errors import CallCancelledError, ToolConnectionError
from ahvn_tools.execution.threads import thread_pool

_NAME: Final = "ahvn-tools"

ANSWER_OPERATION: Final = "ahvn_tools_answer"
"""What the scheduler sends to a worker that has a task to answer; unlike `Client.run`, it is not logged."""


class TaskLink:
    """The link of a body to its caller: replies go through a queue of the scheduler, which sends the answers."""

    def __init__(self, worker: Worker, key: str, replies: str | None) -> None:
        """`replies` is the name of the queue; None: the caller gets nothing but the result."""
        self.sent = 0
        """How many replies were sent."""
        self.is_cancelled = False
        self._worker = worker
        self._key = key
        self._queue = replies
        self._lock = threading.Lock()
        """Never held for long: the event loop of the worker takes it."""
        self._send_lock = threading.Lock()
        self._ask_lock = threading.Lock()
        self._cancel: Callable[[], None] | None = None
        self._requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def on_cancel(self, cancel: Callable[[], None]) -> None:
        """Call `cancel`, in any thread, when the caller no longer needs the result or the worker closes."""
        with self._lock:
            self._cancel = cancel
            is_cancelled = self.is_cancelled
        if is_cancelled:
            cancel()

    def cancel(self) -> None:
        """Take the message that the result is no longer needed."""
        with self._lock:
            self.is_cancelled = True
            cancel = self._cancel
        self._requests.put(False)
        self._answers.put(None)
        if cancel is not None:
            thread_pool.run(cancel)  # it may block

    def answer(self, answer: bytes) -> None:
        """Take an answer of the caller: b"" requests the next chunk, anything else answers a question."""
        if answer:
            self._answers.put(answer)
        else:
            self._requests.put(True)

    def send(self, reply: bytes) -> None:
        """Send a reply, unless the call has ended."""
        if self._queue is None or self.is_cancelled:
            return
        with self._send_lock:
            try:
                call_scheduler(
                    self._worker, "queue_put", name=self._queue, data=[self._key, self._worker.address, reply]
                )
            except Exception:  # noqa: BLE001  # Dask raises many types when the scheduler, or the queue, is gone
                self.cancel()
            else:
                self.sent += 1

    def send_chunk(self, reply: bytes) -> None:
        """Send a chunk, and wait until the next one is requested. Raises CallCancelledError."""
        self.send(reply)
        if self.is_cancelled or not self._requests.get():
            raise CallCancelledError("The call was cancelled.")

    def ask(self, question: bytes) -> bytes:
        """Send a question, and return the answer. Raises CallCancelledError, ToolConnectionError without a queue."""
        if self._queue is None:
            raise ToolConnectionError("This tool must ask for an approval, and takes no ToolContext.")
        with self._ask_lock:
            self.send(question)
            answer = None if self.is_cancelled else self._answers.get()
        if answer is None:
            raise CallCancelledError("The call that asks for an approval has ended.")
        return answer


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

        _call(worker, add)
    found: RunningTasks = worker.plugins[_NAME]
    return found


def call_scheduler(worker: Worker, operation: str, **arguments: Any) -> Any:
    """In a task: call a function of the scheduler's and return what it returns. Raises what Dask raises."""
    return _call(worker, getattr(worker.scheduler, operation), **arguments)


def _call(worker: Worker, function: Callable[..., Coroutine[Any, Any, Any]], **arguments: Any) -> Any:
    return sync(worker.loop, function, **arguments)
