"""RayExecutor: bodies of tools, and functions, as Ray tasks."""

from __future__ import annotations

import contextlib
import importlib.util
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.errors import DefinitionError
from ahvn_tools.execution.executors.call_executor import CallExecutor, CallObserver, CallTask, RunningCall
from ahvn_tools.execution.threads import thread_pool
from ahvn_tools.executors.function_future import FunctionFuture, encode_function
from ahvn_tools.executors.ray import task as tasks
from ahvn_tools.executors.ray.calls import StreamCall, TaskCall
from ahvn_tools.executors.ray.worker_process import kill_worker

T = TypeVar("T")

WATCH_SECONDS: Final = 0.5
"""How often to look whether Ray was shut down; Ray has no event for it."""

_OWN_OPTIONS: Final = ("max_retries", "name", "num_returns", "retry_exceptions", "_generator_backpressure_num_objects")


class RayExecutor(CallExecutor):
    """Runs functions and the bodies of tools as tasks of the Ray cluster that this process is connected to.

    Call `ray.init()` first, and `ray.shutdown()` last: an executor neither starts Ray nor ends it. `num_cpus` and the
    other options are those of Ray's tasks: `num_gpus`, `memory`, `resources`, `runtime_env`, `scheduling_strategy`,
    `max_calls` and so on. The nodes need this package and what the tools import. Needs the extra `ray`.
    """

    def __init__(self, *, num_cpus: float = 1, **options: Any) -> None:
        """Start nothing yet. Raises DefinitionError for wrong options, and if Ray is missing or not initialised."""
        if importlib.util.find_spec("ray") is None:
            raise DefinitionError('RayExecutor needs Ray: pip install "ahvn-tools[ray]"')
        _connect(DefinitionError)
        import ray

        if refused := [name for name in _OWN_OPTIONS if name in options]:
            raise DefinitionError(f"RayExecutor sets {refused[0]!r} itself: leave it out.")
        try:
            options |= {"num_cpus": num_cpus, "max_retries": 0}
            self._body = ray.remote(**options)(tasks.run_body)
            environment = {name: options[name] for name in ("runtime_env",) if name in options}
            self._kill_worker = ray.remote(num_cpus=0, **environment)(kill_worker)
            options |= {"num_returns": "streaming", "_generator_backpressure_num_objects": 1}
            self._stream = ray.remote(**options)(tasks.stream_body)
        except (AssertionError, TypeError, ValueError) as error:
            raise DefinitionError(f"Ray refuses the options of RayExecutor: {error}") from error
        self._is_shut_down = self._is_forked = False
        self._is_watched = False
        self._condition = threading.Condition()
        self._running: dict[TaskCall | StreamCall, str] = {}
        """The calls that have not ended, and the connection to Ray of each."""
        reset_after_fork(self._close_in_child)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run a function in a Ray task. Cancelling the Future kills its worker, if it runs already.

        A generator that it returns is consumed there. Raises PickleError for what cannot be sent to a worker, and
        RuntimeError after `shutdown` and without Ray. The Future raises ToolConnectionError when the worker ended
        before the function returned.
        """
        request = encode_function(fn, args, kwargs)
        future: FunctionFuture[T] = FunctionFuture()
        body = self._body.options(name=getattr(fn, "__name__", "function"))
        call = self._start(lambda: TaskCall(body.remote(request, None), CallObserver(future.deliver, future.fail)))
        future.cancel_call = call.cancel
        return future

    def start_call(self, task: CallTask, observer: CallObserver) -> RunningCall:
        """Run the body of a task in a worker."""

        def start() -> TaskCall | StreamCall:
            if task.is_connected:
                generator = self._stream.options(name=task.tool).remote(task.request, task.seconds)
                return StreamCall(generator, observer, self._kill_worker)
            return TaskCall(self._body.options(name=task.tool).remote(task.request, task.seconds), observer)

        return self._start(start)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls. Wait until those that run have ended; `cancel_futures` kills them."""
        with self._condition:
            self._is_shut_down = True
            running = list(self._running)
        cancelling = [threading.Thread(target=call.cancel, daemon=True) for call in running if cancel_futures]
        for thread in cancelling:
            thread.start()
        if wait:
            for thread in cancelling:
                thread.join()
            with self._condition:
                self._condition.wait_for(lambda: not self._running)

    def _start(self, start: Callable[[], TaskCall | StreamCall]) -> TaskCall | StreamCall:
        self._require_open()
        connection = _connect(RuntimeError)
        call = start()  # without the lock: it waits when Ray's object store is full
        try:
            with self._condition:
                self._require_open()
                self._running[call] = connection
                is_watched, self._is_watched = self._is_watched, True
        except RuntimeError:
            call.cancel()
            raise
        if not is_watched:
            thread_pool.run(self._watch_ray)
        call.watch(self._forget)
        return call

    def _require_open(self) -> None:
        if self._is_forked:
            raise RuntimeError("Ray does not work in a forked process: start processes with `spawn`, or call Ray here.")
        if self._is_shut_down:
            raise RuntimeError("The executor was shut down: create a new one.")

    def _forget(self, call: TaskCall | StreamCall) -> None:
        with self._condition:
            self._running.pop(call, None)
            self._condition.notify_all()

    def _close_in_child(self) -> None:
        """After a fork: the calls, and the connection to Ray, are those of the parent process."""
        self._is_forked = True
        self._condition = threading.Condition()
        self._running = {}

    def _watch_ray(self) -> None:
        """End the calls whose connection to Ray was closed, as long as there are calls."""
        is_watched = True
        while is_watched:
            connection = _find_connection()
            with self._condition:
                lost = [call for call, used in self._running.items() if used != connection]
                for call in lost:
                    del self._running[call]
                is_watched = self._is_watched = bool(self._running)
                self._condition.notify_all()
                if is_watched and not lost:
                    self._condition.wait(WATCH_SECONDS)
            for call in lost:
                call.lose()


def _connect(error: type[Exception]) -> str:
    """Return the id of this process's connection to Ray. Raises `error` if there is none for executors."""
    connection = _find_connection()
    if connection is None:
        raise error("Ray is not initialised in this process: call ray.init() first.")
    import ray.util.client

    if ray.util.client.ray.is_connected():
        raise error(
            "RayExecutor does not work with Ray Client (ray://…), which has no tasks that stream: run this program on "
            'a node of the cluster, with ray.init(address="auto"), or as a Ray job.'
        )
    return connection


def _find_connection() -> str | None:
    """Return the id of this process's connection to Ray, or None. Unlike other functions of Ray, never start it."""
    from ray.runtime_context import get_runtime_context

    with contextlib.suppress(AttributeError, RuntimeError):  # Ray is not initialised, or is being shut down
        context = get_runtime_context()
        return f"{context.get_node_id()} {context.get_worker_id()}"  # a new local cluster gives the same worker id
    return None
