"""PlainCall: a call in any `concurrent.futures.Executor`, which can only run a function and return its result."""

from __future__ import annotations

import concurrent.futures
import threading
from concurrent.futures import Executor
from dataclasses import dataclass, field

from ahvn_tools.execution.workers import channel, replies
from ahvn_tools.execution.workers.body_run import run_request
from ahvn_tools.execution.workers.call_executor import CallExecutor, CallObserver, CallTask, RunningCall
from ahvn_tools.execution.workers.channel import Channel, ChannelAddress, ChannelLink
from ahvn_tools.execution.workers.link import KeepingLink, Link


@dataclass(frozen=True, kw_only=True)
class PlainTask:
    """One call, as it is sent to a worker. Its repr shows no value: executors write their arguments into messages."""

    request: bytes = field(repr=False)
    """A pickled CallRequest."""
    address: ChannelAddress | None = field(repr=False)
    """Where the caller can be reached while the body runs, if it needs that."""
    seconds: float | None
    """After how many seconds the ToolContext of a body is cancelled whose caller cannot say so; None: never."""


@dataclass(frozen=True)
class TaskResult:
    """What a task returns."""

    sent: int
    """How many replies were sent while the body ran."""
    replies: list[bytes] = field(repr=False)
    """The other ones; the last of them ends the call. None if the call had ended before the body could start."""


def run_task(task: PlainTask) -> TaskResult:
    """Run the body of a call in this thread of a worker, linked to its caller."""
    try:
        connection = None if task.address is None else channel.connect(task.address)
    except ConnectionAbortedError:
        return TaskResult(0, [])
    if connection is None:
        kept = KeepingLink()
        last = run_here(task.request, kept, task.seconds)
        return TaskResult(0, [*kept.replies, last])
    link = ChannelLink(connection)
    try:
        last = run_request(task.request, link)  # its caller cancels it, or has ended, which cancels it, too
    finally:
        link.close()
    return TaskResult(link.sent, [last])


def run_here(request: bytes, link: Link, seconds: float | None) -> bytes:
    """Run the body of a pickled CallRequest in this thread, and return the reply that ends the call.

    After `seconds`, without those in which it waits for its caller, the ToolContext of the body is cancelled; a body
    that does not look at it runs on.
    """
    with link.limited(seconds, link.cancel):
        return run_request(request, link)


def start_call(executor: Executor, task: CallTask, observer: CallObserver) -> RunningCall:
    """Run a task in any executor. Raises what the executor raises if it takes no more work."""
    if isinstance(executor, CallExecutor):
        return executor.start_call(task, observer)
    return PlainCall(executor, task, observer)


class PlainCall:
    """A call in any executor.

    A body that may send something while it runs gets a channel to this process, which it reaches on this computer; on
    another one, all that it sends comes when it has ended. A body that runs cannot be ended: its ToolContext is
    cancelled, and nothing waits for it.
    """

    def __init__(self, executor: Executor, task: CallTask, observer: CallObserver) -> None:
        self._observer = observer
        self._lock = threading.Lock()
        self._received = 0
        self._result: TaskResult | None = None
        self._failure: str | None = None
        """What happened to the worker, if there is no result."""
        self._is_over = False
        self._listener = channel.channel_listener
        self._channel = self._open_channel() if task.is_connected else None
        self._has_channel_ended = self._channel is None
        plain_task = PlainTask(
            request=task.request,
            address=None if self._channel is None else self._channel.address,
            seconds=task.seconds if task.is_connected else None,
        )
        try:
            self._future = _require_future(executor.submit(run_task, plain_task))
        except BaseException:
            self._close_channel()
            raise
        self._future.add_done_callback(self._take_result)

    def send(self, answer: bytes) -> None:
        """Answer the body."""
        if self._channel is not None:
            self._channel.send(channel.ANSWER + answer if answer else channel.NEXT)

    def cancel(self) -> None:
        """Remove the call from the queue of the executor, or cancel the ToolContext of its body."""
        with self._lock:
            self._is_over = True
        self._future.cancel()
        if self._channel is not None:
            self._channel.send(channel.CANCEL)
        self._close_channel()

    def _open_channel(self) -> Channel | None:
        try:
            return self._listener.open(self._receive, self._end_channel)
        except OSError:  # no process can connect here; what the body sends comes when it has ended
            return None

    def _close_channel(self) -> None:
        if self._channel is not None:
            self._listener.close(self._channel)

    def _receive(self, reply: bytes) -> None:
        """Deliver a reply that came through the channel."""
        with self._lock:
            if not self._is_over:
                self._received += 1
                if self._channel is not None and (replies.is_chunk(reply) or replies.is_question(reply)):
                    self._channel.awaits_answer = True
                self._observer.deliver(reply)
                self._end_if_complete()

    def _end_channel(self) -> None:
        with self._lock:
            self._has_channel_ended = True
            if not self._is_over:
                self._end_if_complete()

    def _take_result(self, future: concurrent.futures.Future[TaskResult]) -> None:
        try:
            result, failure = future.result(), None
        except BaseException as error:  # noqa: BLE001  # an executor may raise anything
            result, failure = None, f"ended ({_describe(error)}) before it returned a result"
        with self._lock:
            if self._is_over:
                return
            if failure is None and not (isinstance(result, TaskResult) and _has_end(result)):
                failure = f"returned a {type(result).__name__} in place of its result"
            self._result, self._failure = result if failure is None else None, failure
            if failure is not None and self._channel is not None:
                self._has_channel_ended = self._has_channel_ended or not self._channel.finish()
            self._end_if_complete()

    def _end_if_complete(self) -> None:
        """End the call if the task has ended, and all that it sent before has come through the channel."""
        result = self._result
        if result is not None and self._received >= result.sent:
            self._is_over = True
            for reply in result.replies:
                self._observer.deliver(reply)
            self._close_channel()
        elif self._has_channel_ended and (result is not None or self._failure is not None):
            self._is_over = True
            self._observer.fail(self._failure or "lost its connection before all that it sent had arrived")
            self._close_channel()


def _has_end(result: TaskResult) -> bool:
    return bool(result.replies) and replies.is_final(result.replies[-1])


def _require_future(future: object) -> concurrent.futures.Future[TaskResult]:
    if not hasattr(future, "add_done_callback"):
        raise TypeError(f"its `submit` returned a {type(future).__name__}, and no Future")
    return future  # type: ignore[return-value]  # it behaves like one


def _describe(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
