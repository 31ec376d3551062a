"""PlainCall: a call in any `concurrent.futures.Executor`, which can only run a function and return its result."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
from concurrent.futures import Executor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Final

from ahvn_tools.execution.workers import channel, replies
from ahvn_tools.execution.workers.body_run import run_request
from ahvn_tools.execution.workers.call_executor import CallExecutor, CallObserver, CallTask, RunningCall
from ahvn_tools.execution.workers.channel import ChannelAddress, ChannelLink
from ahvn_tools.execution.workers.link import KeepingLink, Link

POLL_SECONDS: Final = 0.5
"""How soon a connection whose worker does not end is closed after its call."""

EXIT_SECONDS: Final = 3.0
"""How long a worker may wait for a reader or a person while the interpreter ends, which waits for the worker."""


@dataclass(frozen=True, kw_only=True)
class PlainTask:
    """One call, as it is sent to a worker. Its repr shows no value: executors write their arguments into messages."""

    request: bytes = field(repr=False)
    """A pickled CallRequest."""
    address: ChannelAddress | None = field(repr=False)
    """Where the caller can be reached while the body runs, if it needs that."""
    seconds: float | None
    """After how many seconds the ToolContext of a body is cancelled whose caller cannot say so; None: never."""


def run_task(task: PlainTask) -> list[bytes]:
    """Run the body of a call in this thread of a worker, and send its replies to the caller.

    Return those for which the caller cannot be reached; the last of them ends the call.
    """
    try:
        connection = None if task.address is None else channel.connect(task.address)
    except ConnectionAbortedError:  # the call has ended before the body could start
        return []
    if connection is None:
        kept = KeepingLink()
        last = run_here(task.request, kept, task.seconds)
        return [*kept.replies, last]
    link = ChannelLink(connection)
    link.send(run_request(task.request, link))  # its caller cancels it, or has ended, which cancels it, too
    link.cancel()  # threads that the body has left send no more, and get no answer
    return []


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
        self._connection: Connection | None = None
        """That of the worker, while it is served."""
        self._awaits_answer = False
        """Whether the worker waits for a reader or a person."""
        self._failure: str | None = None
        """What happened, if nothing more comes from the connection; None while the task runs."""
        self._is_over = False
        self._listener = channel.channel_listener
        self._address = self._open_channel() if task.is_connected else None
        plain_task = PlainTask(
            request=task.request, address=self._address, seconds=task.seconds if task.is_connected else None
        )
        try:
            self._future = _require_future(executor.submit(run_task, plain_task))
        except BaseException:
            self._end()
            raise
        self._future.add_done_callback(self._take_result)

    def send(self, answer: bytes) -> None:
        """Answer the body."""
        self._send(channel.ANSWER + answer if answer else channel.NEXT)

    def cancel(self) -> None:
        """Remove the call from the queue of the executor, or cancel the ToolContext of its body."""
        self._end()
        self._future.cancel()
        self._send(channel.CANCEL)

    def _send(self, content: bytes) -> None:
        self._awaits_answer = False
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(OSError):  # the worker has ended
                connection.send_bytes(content)

    def _open_channel(self) -> ChannelAddress | None:
        try:
            return self._listener.open(self._serve)
        except OSError:  # no process can connect here; what the body sends comes when it has ended
            return None

    def _end(self) -> None:
        self._is_over = True
        if self._address is not None:
            self._listener.close(self._address)

    def _serve(self, connection: Connection) -> None:
        """Deliver what the worker sends, until the call is over or the worker has ended."""
        with self._lock:
            if self._is_over:
                return
            self._connection = connection
        with contextlib.suppress(EOFError, OSError):  # the worker has ended
            connection.send_bytes(channel.START)
            self._receive(connection)
        with self._lock:
            self._connection = None
            self._fail_if_lost()

    def _receive(self, connection: Connection) -> None:
        exit_seconds = EXIT_SECONDS
        while not self._is_over and exit_seconds > 0:
            if connection.poll(POLL_SECONDS):
                self._deliver(connection.recv_bytes())
            elif self._failure is not None:  # a process that the worker has forked keeps the connection open
                return
            elif self._awaits_answer and getattr(threading, "_SHUTTING_DOWN", False):  # it has no public name
                exit_seconds -= POLL_SECONDS

    def _deliver(self, *contents: bytes) -> None:
        """Deliver replies. The last one of a call ends it."""
        with self._lock:
            for reply in contents:
                if self._is_over:
                    return
                self._awaits_answer = replies.is_chunk(reply) or replies.is_question(reply)
                if replies.is_final(reply):
                    self._end()
                self._observer.deliver(reply)

    def _take_result(self, future: concurrent.futures.Future[list[bytes]]) -> None:
        failure = "lost its connection before all that it sent had arrived"
        try:
            kept: object = future.result()
            if kept != [] or self._address is None:
                failure = f"returned a {type(kept).__name__} in place of its result"
            if isinstance(kept, list):
                self._deliver(*kept)
        except BaseException as error:  # noqa: BLE001  # an executor may raise anything
            failure = f"ended ({_describe(error)}) before it returned a result"
        with self._lock:
            self._failure = failure
            self._fail_if_lost()

    def _fail_if_lost(self) -> None:
        """Tell the caller what happened if the task has ended, and the connection, and the call has not."""
        if self._failure is not None and self._connection is None and not self._is_over:
            self._end()
            self._observer.fail(self._failure)


def _require_future(future: object) -> concurrent.futures.Future[list[bytes]]:
    if not hasattr(future, "add_done_callback"):
        raise TypeError(f"its `submit` returned a {type(future).__name__}, and no Future")
    return future  # type: ignore[return-value]  # it behaves like one


def _describe(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
