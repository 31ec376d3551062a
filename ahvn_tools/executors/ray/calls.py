"""The caller's side of what runs in Ray: a task with one result, a task that streams, and the Future of a function."""

from __future__ import annotations

import concurrent.futures
import queue
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from ahvn_tools.errors import ToolConnectionError
from ahvn_tools.execution.executors.call_executor import CallObserver
from ahvn_tools.execution.isolation import replies
from ahvn_tools.execution.threads import thread_pool
from ahvn_tools.executors.ray.stream_link import Batch
from ahvn_tools.executors.ray.worker_process import WorkerProcess

T = TypeVar("T")

SHUT_DOWN: Final = "was lost when Ray was shut down"

FORCE_SECONDS: Final = 0.5
"""How long a cancelled body that streams may take to end by itself before its worker is killed."""

_REASONS: Final = {
    "WorkerCrashedError": "its process died",
    "OutOfMemoryError": "it was killed, because its node had too little memory left",
    "NodeDiedError": "its node died",
    "TaskCancelledError": "its Ray task was cancelled",
    "RuntimeEnvSetupError": "its `runtime_env` could not be set up; Ray's logs say why",
}


class TaskCall:
    """A Ray task with one result."""

    def __init__(self, reference: Any, end: Callable[[Any], None], fail: Callable[[BaseException], None]) -> None:
        """`end` takes the result, or `fail` the error, in any thread."""
        self._reference = reference
        self._end = end
        self._fail = fail
        self._lock = threading.Lock()
        self._is_over = False

    def watch(self, on_done: Callable[[TaskCall], None]) -> None:
        """Wait in the background for the task; `on_done` is called last."""

        def take(future: concurrent.futures.Future[Any]) -> None:
            error = future.exception()
            if self._close():
                if error is None:
                    self._end(future.result())
                else:
                    self._fail(error)
            on_done(self)

        self._reference.future().add_done_callback(take)

    def send(self, answer: bytes) -> None:
        """Do nothing: the body sends nothing that needs an answer."""

    def cancel(self) -> None:
        """Remove the task from the queue, or kill its worker."""
        reference = self._reference
        if self._close():
            _cancel(reference, force=True)

    def lose(self) -> None:
        """Ray was shut down."""
        if self._close():
            self._fail(ToolConnectionError(SHUT_DOWN))

    def _close(self) -> bool:
        """Return whether the call was not over yet. The object of the result is released."""
        with self._lock:
            was_over, self._is_over = self._is_over, True
            self._reference = None
        return not was_over


class StreamCall:
    """A Ray task that streams batches of replies."""

    def __init__(self, generator: Any, observer: CallObserver, kill_worker: Any) -> None:
        """`kill_worker` is the Ray function of this name."""
        self._generator = generator
        self._observer = observer
        self._kill_worker = kill_worker
        self._worker: WorkerProcess | None = None
        self._requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._mailbox: Any = None
        self._is_over = False
        self._has_ended = threading.Event()

    def watch(self, on_done: Callable[[StreamCall], None]) -> None:
        """Deliver what the task streams, in another thread; `on_done` is called last."""

        def deliver_all() -> None:
            try:
                self._deliver_all()
            except StopIteration:
                self._fail("ended before it returned a result")
            except BaseException as error:  # noqa: BLE001  # Ray raises SystemExit in this thread when it is shut down
                self._fail(describe_loss(error))
            finally:
                self._has_ended.set()
                on_done(self)

        thread_pool.run(deliver_all)

    def send(self, answer: bytes) -> None:
        """Request the next chunk with b"", or answer the question."""
        if answer:
            self._mailbox.put.remote(answer)
        else:
            self._requests.put(True)

    def cancel(self) -> None:
        """Cancel the ToolContext of the body, and kill its worker if that does not end it.

        While a body keeps all threads from running, its worker can take one request of Ray: that was the first one.
        """
        if self._has_ended.is_set():
            return
        self._is_over = True
        _cancel(self._generator, force=False)  # without effect while Ray's back-pressure holds the task
        self._requests.put(False)
        if self._is_running_on():
            _cancel(self._generator, force=True)
        if self._is_running_on() and self._worker is not None:
            self._kill_worker.options(scheduling_strategy=_on_node(self._worker.node_id)).remote(self._worker)

    def lose(self) -> None:
        """Ray was shut down."""
        self._fail(SHUT_DOWN)
        self._requests.put(False)

    def _is_running_on(self) -> bool:
        """Return whether the task has not ended after FORCE_SECONDS."""
        import ray

        if not ray.is_initialized():
            return False
        ended, _ = ray.wait([self._generator.completed()], timeout=FORCE_SECONDS, fetch_local=False)
        return not ended

    def _deliver_all(self) -> None:
        import ray

        self._worker = ray.get(next(self._generator))
        while True:
            batch: Batch = ray.get(next(self._generator))
            self._mailbox = batch.mailbox or self._mailbox
            for reply in batch.replies:
                if not self._is_over:  # a cancelled task is read to its end
                    self._observer.deliver(reply)
                    self._is_over = replies.is_final(reply)
            if batch.replies and replies.is_chunk(batch.replies[-1]) and not self._requests.get():
                return

    def _fail(self, reason: str) -> None:
        if not self._is_over:
            self._is_over = True
            self._observer.fail(reason)


class TaskFuture(concurrent.futures.Future[T]):
    """The Future of a function in a Ray task. Cancelling it ends the task, also while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.end_task: Callable[[], None] = lambda: None

    def cancel(self) -> bool:
        """Cancel the task, and return whether that was in time."""
        is_cancelled = super().cancel()
        if is_cancelled:
            self.end_task()
        return is_cancelled

    def end(self, value: T) -> None:
        """Take what the function returned."""
        if self.set_running_or_notify_cancel():
            self.set_result(value)

    def fail(self, error: BaseException) -> None:
        """Take what the function raised, or what happened to its worker."""
        import ray

        if not self.set_running_or_notify_cancel():
            return
        if isinstance(error, ray.exceptions.RayTaskError):
            self.set_exception(error.cause)
        else:
            self.set_exception(ToolConnectionError(f"The worker of the function {describe_loss(error)}."))


def describe_loss(error: BaseException) -> str:
    """Return what happened to a worker, without the texts of other code: they may have arguments in them."""
    if isinstance(error, ToolConnectionError):
        return str(error)
    if isinstance(error, SystemExit):
        return SHUT_DOWN
    name = type(error).__name__
    cause = getattr(error, "cause", None)
    if isinstance(cause, ImportError):  # the worker has not what is installed here
        reason = f"{type(cause).__name__}: {cause}"
    elif isinstance(cause, BaseException):
        reason = type(cause).__name__
    else:
        reason = f"{name}: {_REASONS[name]}" if name in _REASONS else name
    return f"ended ({reason}) before it returned a result"


def _on_node(node_id: str) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node_id, soft=False)


def _cancel(reference: Any, *, force: bool) -> None:
    """Cancel a task, unless Ray was shut down: it would be started again."""
    import ray

    if ray.is_initialized():
        ray.cancel(reference, force=force)
