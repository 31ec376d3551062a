"""DaskCall: one call in a Dask worker, as its caller sees it; and the calls of a client."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from distributed import Client, Future
from distributed.client import FutureCancelledError

from ahvn_tools.execution.workers import replies
from ahvn_tools.execution.workers.call_executor import SHUT_DOWN, CallObserver, CallTask
from ahvn_tools.executors.dask.scheduler_calls import (
    LOST_WORKER,
    REPLY_TOPIC,
    keep_no_messages,
    prepare_scheduler,
)
from ahvn_tools.executors.dask.task import ANSWER_OPERATION, MAX_MESSAGE_BYTES, DaskResult, DaskTask, run_task


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
    ) -> None:
        self._client = client
        self._loop = client.loop.asyncio_loop
        self._task = task
        self._observer = observer
        self._is_killable = is_killable
        self._submit_options = submit_options
        self._key = f"{task.tool}-{uuid.uuid4().hex}"
        self._future: Future[DaskResult] | None = None
        self._is_over = False
        self._running: asyncio.Task[Any] | None = None
        self._address: str | None = None
        self._lost = ""
        self._sending: set[asyncio.Task[Any]] = set()

    def send(self, answer: bytes) -> None:
        """Answer the body."""
        self._call_in_loop(lambda: self._keep(self._send(answer)))

    def cancel(self) -> None:
        """Cancel the task: Dask removes it from the queue, or tells its worker to end the body."""
        self._is_over = True
        self._call_in_loop(self._cancel_task)

    def end(self) -> None:
        """Cancel the task, and tell the observer so."""
        self._call_in_loop(lambda: self._lose(SHUT_DOWN))

    async def run(self) -> None:
        """Run the task, and tell the observer how it ends."""
        self._running = asyncio.current_task()
        try:
            result = await self._run()
            if result.reply is None:
                self._fail(result.lost or "ended before it returned a result")
            else:
                self._deliver(result.reply)
        except Exception as error:  # noqa: BLE001  # Dask raises many types
            self._fail(_describe(error))
        except BaseException as error:
            if self._is_over and isinstance(error, asyncio.CancelledError):
                return  # `receive` has cancelled it
            self._fail("ended (the event loop of the Dask client has ended) before it returned a result")
            raise

    def receive(self, worker: str, reply: bytes) -> None:
        """Take a reply that the body has sent from the worker with this address."""
        self._address = worker
        self._deliver(reply)
        if replies.is_final(reply) and self._running is not None:
            self._running.cancel()  # the result of the task says no more

    async def _run(self) -> DaskResult:
        """Run the task, and return its result. All that the body has sent comes before."""
        calls = find_client_calls(self._client)
        task: Any = DaskTask(call=self._task, key=self._key, is_killable=self._is_killable)
        await calls.prepare(self._client)
        if len(self._task.request) > MAX_MESSAGE_BYTES:
            task = await self._client.scatter(task, hash=False, workers=self._submit_options.get("workers"))
        if self._is_over or self._lost:
            return DaskResult(lost=self._lost)
        with calls.receiving(self._key, self):
            self._future = self._client.submit(run_task, task, key=self._key, pure=False, **self._submit_options)
            try:
                result: DaskResult = await self._future
            finally:
                self._future.release()
                self._future = None
        return result

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

    def _deliver(self, reply: bytes) -> None:
        if not self._is_over:
            self._is_over = replies.is_final(reply)
            self._observer.deliver(reply)

    def _lose(self, reason: str) -> None:
        self._lost = reason
        self._cancel_task()

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


def _describe(error: Exception) -> str:
    """Return what happened to a task. The texts of Dask's exceptions may have arguments of the task."""
    name = type(error).__name__
    if isinstance(error, ImportError):
        return f"cannot import {error.name!r}: install ahvn-tools, and what the tool needs, where Dask runs"
    if isinstance(error, FutureCancelledError):
        reason = error.reason if error.reason == LOST_WORKER else f"Dask cancelled the task: {error.reason}"
        return f"ended ({reason.removesuffix(': unknown')}) before it returned a result"
    return f"ended ({name}) before it returned a result"


class ClientCalls:
    """The calls of one client that run. Its methods are for the event loop of the client."""

    def __init__(self) -> None:
        self._receivers: dict[str, DaskCall] = {}
        self._connection: object = None
        """The connection whose scheduler is prepared."""
        self._lock = asyncio.Lock()

    async def prepare(self, client: Client) -> None:
        """Prepare the scheduler, once for each connection of the client. Raises what Dask raises."""
        async with self._lock:
            connection = client.scheduler_comm
            if self._connection is not connection:
                keep_no_messages(connection)
                await client.run_on_scheduler(prepare_scheduler, client.id)
                client.subscribe_topic(REPLY_TOPIC, self._pass_on)
                self._connection = connection

    @contextlib.contextmanager
    def receiving(self, key: str, receiver: DaskCall) -> Iterator[None]:
        """Pass the replies of a call to its receiver."""
        self._receivers[key] = receiver
        try:
            yield
        finally:
            del self._receivers[key]

    def _pass_on(self, event: tuple[str, str, bytes]) -> None:
        key, worker, reply = event
        if (receiver := self._receivers.get(key)) is not None:
            receiver.receive(worker, reply)


def find_client_calls(client: Client) -> ClientCalls:
    """Return the calls of a client, which all its executors share."""
    if (calls := _calls_of_clients.get(client)) is None:
        calls = _calls_of_clients[client] = ClientCalls()
    return calls


_calls_of_clients: Final[weakref.WeakKeyDictionary[Client, ClientCalls]] = weakref.WeakKeyDictionary()
