"""CallExecutor: an executor that can do more for a call than return its result: chunks, progress, questions, an end.

A function that is submitted runs like the body of a tool.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from ahvn_tools.errors import PickleError, ToolConnectionError
from ahvn_tools.execution.pickling import dumps, to_path
from ahvn_tools.execution.plan import ItemLimits
from ahvn_tools.execution.workers import replies
from ahvn_tools.execution.workers.worker_request import WorkerRequest

T = TypeVar("T")

SHUT_DOWN: Final = "was ended: the executor was shut down"
"""What happened to a worker when the host shut its executor down."""


@dataclass(frozen=True, kw_only=True)
class CallTask:
    """One call of a body, for an executor."""

    tool: str
    """The name of the tool, for dashboards."""
    request: bytes = field(repr=False)
    """A pickled WorkerRequest."""
    is_connected: bool
    """Whether the body may send chunks, output, progress and questions while it runs."""
    is_repeatable: bool
    """Whether the body may run again after its worker was lost."""
    seconds: float | None
    """How many seconds the body may take from now on; None: no limit. The time in which it waits for the caller, who
    reads a chunk or answers a question, does not count."""


class RunningCall(Protocol):
    """A call that an executor has accepted. Its methods may block, and any thread may call them."""

    def send(self, answer: bytes) -> None:
        """Answer the body: b"" requests the next chunk, anything else is the answer to a question."""

    def cancel(self) -> None:
        """End the call, queued or running. Nothing is delivered any more."""


class CallObserver:
    """Takes what a running call delivers, from any thread. Replies come in order; one that `is_final` ends the call."""

    def __init__(self, deliver: Callable[[bytes], None], fail: Callable[[str], None]) -> None:
        """`fail` takes what happened to the worker when there will be no final reply."""
        self.deliver = deliver
        self.fail = fail


class CallExecutor(Executor):
    """An executor for calls of tools. Each shipped one is a subclass; any other Executor works with less."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run a function in a worker. Cancelling the Future ends it, also while it runs.

        A generator that it returns is consumed there. Raises PickleError for what cannot be sent to a worker, and
        RuntimeError after `shutdown`. The Future raises ToolConnectionError when the worker has ended before the
        function returned.
        """
        name = getattr(fn, "__name__", "function")
        task = CallTask(
            tool=name,
            request=encode_function(name, fn, args, kwargs),
            is_connected=False,
            is_repeatable=False,
            seconds=None,
        )
        future: FunctionFuture[T] = FunctionFuture()
        future.call = self.start_call(task, CallObserver(future.deliver, future.fail))
        return future

    @abstractmethod
    def start_call(self, task: CallTask, observer: CallObserver) -> RunningCall:
        """Run the body of a task in a worker, and return at once.

        The body must not run again after its worker was lost, unless the task is repeatable. Raises what the engine
        raises if it takes no more work.
        """


class FunctionFuture(Future[T]):
    """The Future of a function in a worker."""

    def __init__(self) -> None:
        super().__init__()
        self.call: RunningCall | None = None
        self._lock = threading.Lock()
        self._is_decided = False
        """Whether it was cancelled, or gets its result."""

    def cancel(self) -> bool:
        """End the function, and return whether that was in time."""
        call = self.call
        if self._decide():
            if call is not None:
                call.cancel()
            super().cancel()
            self.set_running_or_notify_cancel()
        return self.cancelled()

    def deliver(self, reply: bytes) -> None:
        """Take a reply. The last one sets the result."""
        if not replies.is_final(reply) or not self._decide():
            return
        try:
            kind, _, *payload = replies.decode(reply)
        except BaseException as error:  # noqa: BLE001  # a user's __setstate__ may raise anything, SystemExit, too
            self.set_exception(PickleError(f"The result cannot be unpickled here: {type(error).__name__}."))
            return
        if kind == "value":
            self.set_result(payload[0])
        elif kind == "error":
            self.set_exception(replies.decode_error(*payload))
        else:
            text = "cannot be loaded in a worker" if kind == "load_failed" else "cannot be sent back"
            self.set_exception(PickleError(f"The function, or its result, {text} ({payload[0]}: {payload[1]})."))

    def fail(self, reason: str) -> None:
        """Take what happened to the worker."""
        if reason == SHUT_DOWN:
            self.cancel()
        elif self._decide():
            self.set_exception(ToolConnectionError(f"The worker of the function {reason}."))

    def _decide(self) -> bool:
        """Return True to the first that asks: it sets the result, or cancels the Future."""
        with self._lock:
            is_first, self._is_decided = not self._is_decided, True
            self.call = None  # it refers to this Future, which would live until the garbage collector runs
        return is_first


def encode_function(name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """Return the pickled WorkerRequest for a function without limits. Raises PickleError."""
    request = WorkerRequest(
        body=to_path(fn),
        positional=list(args),
        named=kwargs,
        is_async=False,
        limits=ItemLimits(tool=name, max_items=None, max_bytes=None),
        has_reader=False,
    )
    try:
        return dumps(request)
    except Exception as error:
        raise PickleError(f"The function, or an argument, cannot be pickled: {type(error).__name__}.") from error
