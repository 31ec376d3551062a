"""RayExecutor: bodies of tools, and functions, as Ray tasks."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from ahvn_tools.errors import DefinitionError, PickleError
from ahvn_tools.execution.executors.call_executor import CallExecutor, CallObserver, CallTask, RunningCall
from ahvn_tools.execution.pickling import dumps
from ahvn_tools.execution.threads import thread_pool
from ahvn_tools.executors.ray import task as tasks
from ahvn_tools.executors.ray.calls import StreamCall, TaskCall, TaskFuture, describe_loss
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
        _require_ray(DefinitionError)
        import ray

        if refused := [name for name in _OWN_OPTIONS if name in options]:
            raise DefinitionError(f"RayExecutor sets {refused[0]!r} itself: leave it out.")
        try:
            options |= {"num_cpus": num_cpus, "max_retries": 0}
            self._function = ray.remote(**options)(tasks.run_function)
            self._body = ray.remote(**options)(tasks.run_body)
            environment = {name: options[name] for name in ("runtime_env",) if name in options}
            self._kill_worker = ray.remote(num_cpus=0, **environment)(kill_worker)
            options |= {"num_returns": "streaming", "_generator_backpressure_num_objects": 1}
            self._stream = ray.remote(**options)(tasks.stream_body)
        except (AssertionError, TypeError, ValueError) as error:
            raise DefinitionError(f"Ray refuses the options of RayExecutor: {error}") from error
        self._condition = threading.Condition()
        self._running: set[TaskCall | StreamCall] = set()
        self._is_shut_down = self._is_watched = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run a function in a Ray task. Cancelling the Future kills its worker, if it runs already.

        Raises PickleError for what cannot be sent to a worker, and RuntimeError after `shutdown` and without Ray. The
        Future raises ToolConnectionError when the worker ended before the function returned.
        """
        try:
            pickled = dumps((fn, args, kwargs))
        except Exception as error:
            raise PickleError(f"The function, or an argument, cannot be pickled: {type(error).__name__}.") from error
        future: TaskFuture[T] = TaskFuture()
        name = getattr(fn, "__name__", "function")
        call = self._start(lambda: TaskCall(self._function.options(name=name).remote(pickled), future.end, future.fail))
        future.end_task = call.cancel
        return future

    def start_call(self, task: CallTask, observer: CallObserver) -> RunningCall:
        """Run the body of a task in a worker."""

        def start() -> TaskCall | StreamCall:
            if task.is_connected:
                generator = self._stream.options(name=task.tool).remote(task.request, task.seconds)
                return StreamCall(generator, observer, self._kill_worker)
            reference = self._body.options(name=task.tool).remote(task.request, task.seconds)
            return TaskCall(reference, deliver_all, lambda error: observer.fail(describe_loss(error)))

        def deliver_all(replies: list[bytes]) -> None:
            for reply in replies:
                observer.deliver(reply)

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
        _require_ray(RuntimeError)
        self._require_open()
        call = start()  # without the lock: it waits when Ray's object store is full
        try:
            with self._condition:
                self._require_open()
                self._running.add(call)
                is_watched, self._is_watched = self._is_watched, True
        except RuntimeError:
            call.cancel()
            raise
        if not is_watched:
            thread_pool.run(self._watch_ray)
        call.watch(self._forget)
        return call

    def _require_open(self) -> None:
        if self._is_shut_down:
            raise RuntimeError("The executor was shut down: create a new one.")

    def _forget(self, call: TaskCall | StreamCall) -> None:
        with self._condition:
            self._running.discard(call)
            self._condition.notify_all()

    def _watch_ray(self) -> None:
        """End the calls when Ray was shut down, as long as there are any."""
        import ray

        with self._condition:
            while self._running and ray.is_initialized():
                self._condition.wait(WATCH_SECONDS)
            lost, self._running = self._running, set()
            self._is_watched = False
            self._condition.notify_all()
        for call in lost:
            call.lose()


def _require_ray(error: type[Exception]) -> None:
    import ray

    if not ray.is_initialized():
        raise error("Ray is not initialised in this process: call ray.init() first.")
