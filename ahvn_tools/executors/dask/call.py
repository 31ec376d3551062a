"""DaskCall: one call in a Dask worker, as its caller sees it."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

from distributed import Client, Future
from distributed.client import FutureCancelledError

from ahvn_tools.execution.executors.call_executor import CallObserver, CallTask
from ahvn_tools.executors.dask.reply_queue import ReplyQueue
from ahvn_tools.executors.dask.running_tasks import ANSWER_OPERATION
from ahvn_tools.executors.dask.scheduler_queue import SchedulerQueue
from ahvn_tools.executors.dask.task import DaskTask, TaskResult, run_task

MAX_GRAPH_BYTES: Final = 1_000_000
"""A larger request goes to a worker as data; Dask warns of large graphs."""


class DaskCall:
    """One call. Its coroutine runs in the event loop of the client."""

    def __init__(
        self,
        client: Client,
        task: CallTask,
        observer: CallObserver,
        *,
        is_killable: bool,
        submit_options: Mapping[str, Any],
        find_reply_queue: Callable[[], ReplyQueue],
    ) -> None:
        self._client = client
        self._loop = client.loop.asyncio_loop
        self._task = task
        self._observer = observer
        self._is_killable = is_killable
        self._submit_options = submit_options
        self._find_reply_queue = find_reply_queue
        self._key = f"{task.tool}-{uuid.uuid4().hex}"
        self._future: Future[TaskResult] | None = None
        self._is_over = False
        self._address: str | None = None
        self._received = 0
        self._reply_came = asyncio.Event()
        self._lost = ""
        self._sending: set[asyncio.Task[Any]] = set()

    def send(self, answer: bytes) -> None:
        """Answer the body."""
        self._call_in_loop(lambda: self._keep(self._send(answer)))

    def cancel(self) -> None:
        """Cancel the task: Dask removes it from the queue, or tells its worker to end the body."""
        self._is_over = True
        self._call_in_loop(lambda: self.lose("was cancelled"))

    def end(self) -> None:
        """Cancel the task, and tell the observer so."""
        self._call_in_loop(lambda: self.lose("was ended: the executor was shut down"))

    async def run(self) -> None:
        """Run the task, tell the observer how it ends, and remove what the task needed of the scheduler."""
        try:
            async with AsyncExitStack() as stack:
                result = await self._run(stack)
                if result.reply is None:
                    self._fail(result.lost)
                elif not self._is_over:
                    self._is_over = True
                    self._observer.deliver(result.reply)
        except Exception as error:  # noqa: BLE001  # Dask raises many types
            self._fail(_describe(error))
        except BaseException:
            self._fail("ended (the event loop of the Dask client has ended) before it returned a result")
            raise

    def receive(self, address: str, reply: bytes) -> None:
        """Take a reply that the body has sent."""
        self._address = address
        if not self._is_over:
            self._observer.deliver(reply)
        self._received += 1
        self._reply_came.set()

    def lose(self, reason: str) -> None:
        """Take the reason why no more replies will come."""
        self._lost = reason
        self._cancel_task()
        self._reply_came.set()

    def _is_needed(self) -> bool:
        return not (self._is_over or self._lost)

    async def _run(self, stack: AsyncExitStack) -> TaskResult:
        """Run the task, and return its result when all that it sent before has come."""
        task: Any = await self._prepare(stack)
        if len(self._task.request) > MAX_GRAPH_BYTES:
            task = await self._client.scatter(task, hash=False, workers=self._submit_options.get("workers"))
        if not self._is_needed():
            return TaskResult(lost=self._lost)
        self._future = self._client.submit(run_task, task, key=self._key, pure=False, **self._submit_options)
        try:
            result: TaskResult = await self._future
        finally:
            self._future.release()
            self._future = None
        while self._received < result.sent and self._is_needed():
            self._reply_came.clear()
            await self._reply_came.wait()
        return result if self._is_needed() else TaskResult(lost=self._lost)

    async def _prepare(self, stack: AsyncExitStack) -> DaskTask:
        """Create what the task needs of the scheduler, until the stack ends."""
        replies = claim = None
        if self._task.is_connected:
            replies = await stack.enter_async_context(self._find_reply_queue().receiving(self._key, self))
        if self._task.is_connected or not self._task.is_repeatable:  # a caller must not get replies twice
            claim = await stack.enter_async_context(_claim(self._client, self._key))
        return DaskTask(
            request=self._task.request,
            key=self._key,
            claim=claim,
            replies=replies,
            seconds=self._task.seconds,
            is_killable=self._is_killable,
        )

    async def _send(self, answer: bytes) -> None:
        if self._address is None or self._future is None:
            return
        message = {"op": ANSWER_OPERATION, "key": self._key, "answer": answer}
        with contextlib.suppress(Exception):  # the worker or the scheduler is gone: the task will say so
            await self._client.scheduler.broadcast(msg=message, workers=[self._address], on_error="ignore")

    def _fail(self, reason: str) -> None:
        if not self._is_over:
            self._is_over = True
            self._observer.fail(self._lost or reason)

    def _cancel_task(self) -> None:
        if self._future is not None:
            self._keep(self._client.cancel([self._future]))

    def _call_in_loop(self, function: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the call with it
            self._loop.call_soon_threadsafe(function)

    def _keep(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)


@contextlib.asynccontextmanager
async def _claim(client: Client, key: str) -> AsyncIterator[str]:
    """Return the name of a queue of one item, which a worker takes before it runs the body."""
    async with SchedulerQueue.create(client, f"claim-{key}") as queue:
        await queue.put(key)
        yield queue.name


def _describe(error: Exception) -> str:
    """Return what happened to a task. The texts of Dask's exceptions may have arguments of the task."""
    name = type(error).__name__
    if isinstance(error, ImportError):
        return f"cannot import {error.name!r}: install ahvn-tools, and what the tool needs, where Dask runs"
    if isinstance(error, FutureCancelledError):
        return f"ended (Dask cancelled the task: {error.reason}) before it returned a result"
    return f"ended ({name}) before it returned a result"
