"""RayExecutor: bodies of tools, and functions, as Ray tasks."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import importlib.util
import threading
from collections.abc import Callable
from typing import Any, Final

from ahvn_tools.errors import DefinitionError
from ahvn_tools.execution import background_loop
from ahvn_tools.execution.threads import thread_pool
from ahvn_tools.execution.workers import replies
from ahvn_tools.execution.workers.call_executor import CallExecutor, CallObserver, CallTask, RunningCall
from ahvn_tools.executors.ray.task import RayProcess, ReplyBatch, kill_worker, stream_body

WATCH_SECONDS: Final = 0.5
"""How often to look whether Ray was shut down; Ray has no event for it."""

_OWN_OPTIONS: Final = ("max_retries", "name", "num_returns", "retry_exceptions", "_generator_backpressure_num_objects")

RAY_SHUT_DOWN: Final = "was lost when Ray was shut down"

CANCEL_SECONDS: Final = 1.5
"""How long a cancelled task that streams may take to end: END_SECONDS of its body, and up to a second in which Ray's
back-pressure does not look whether the task was cancelled."""

FORCE_SECONDS: Final = 0.5
"""How long Ray may take to kill a worker."""

EXIT_SECONDS: Final = 1.0
"""How long the end of this process waits until a call is not read any more."""

_REASONS: Final = {
    "WorkerCrashedError": "its process died",
    "OutOfMemoryError": "it was killed, because its node had too little memory left",
    "NodeDiedError": "its node died",
    "TaskCancelledError": "its Ray task was cancelled",
    "RuntimeEnvSetupError": "its `runtime_env` could not be set up; Ray's logs say why",
}


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
            environment = {name: options[name] for name in ("runtime_env",) if name in options}
            self._kill_worker = ray.remote(num_cpus=0, **environment)(kill_worker)
            options |= {"num_cpus": num_cpus, "max_retries": 0, "num_returns": "streaming"}
            self._stream = ray.remote(**options, _generator_backpressure_num_objects=1)(stream_body)
        except (AssertionError, TypeError, ValueError) as error:
            raise DefinitionError(f"Ray refuses the options of RayExecutor: {error}") from error
        self._is_shut_down = False
        self._is_watched = False
        self._condition = threading.Condition()
        self._running: dict[RayCall, Any] = {}
        """The calls that have not ended, and the connection to Ray of each."""
        atexit.register(self._end_calls)  # runs before Ray's own, which was registered first

    def start_call(self, task: CallTask, observer: CallObserver) -> RunningCall:
        """Run the body of a task in a worker."""
        self._require_open()
        connection = _connect(RuntimeError)
        remote = self._stream.options(name=task.tool).remote
        generator = remote(task.request, task.seconds)  # without the lock: it waits when Ray's object store is full
        call = RayCall(generator, observer, self._kill_worker)
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
            atexit.unregister(self._end_calls)

    def _require_open(self) -> None:
        if self._is_shut_down:
            raise RuntimeError("The executor was shut down: create a new one.")

    def _forget(self, call: RayCall) -> None:
        with self._condition:
            self._running.pop(call, None)
            self._condition.notify_all()

    def _end_calls(self) -> None:
        """Read nothing more, because Ray ends with this process."""
        with self._condition:
            running = list(self._running)
            self._running.clear()
        for call in running:
            call.lose()
        for call in running:
            call.wait(EXIT_SECONDS)

    def _watch_ray(self) -> None:
        """End the calls whose connection to Ray was closed, as long as there are calls."""
        is_watched = True
        while is_watched:
            connection = _find_connection()
            with self._condition:
                lost = [call for call, used in self._running.items() if used is not connection]
                for call in lost:
                    del self._running[call]
                is_watched = self._is_watched = bool(self._running)
                self._condition.notify_all()
                if is_watched and not lost:
                    self._condition.wait(WATCH_SECONDS)
            for call in lost:
                call.lose()


class RayCall:
    """A Ray task that streams batches of replies. They are read in the background loop.

    No thread waits inside of Ray: `ray.shutdown()` would crash the process.
    """

    def __init__(self, generator: Any, observer: CallObserver, kill_worker: Any) -> None:
        """`kill_worker` is the Ray function of this name."""
        self._generator = generator
        self._observer = observer
        self._kill_worker = kill_worker
        self._worker: RayProcess | None = None
        self._mailbox: Any = None
        self._loop = background_loop.get_loop()
        self._may_read_on = asyncio.Event()
        self._reading: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._is_over = False
        self._has_ended = threading.Event()

    def watch(self, on_done: Callable[[RayCall], None]) -> None:
        """Deliver what the task streams; `on_done` is called last."""
        self._reading = asyncio.run_coroutine_threadsafe(self._read(), self._loop)
        self._reading.add_done_callback(lambda _: on_done(self))

    def send(self, answer: bytes) -> None:
        """Request the next chunk with b"", or answer the question, unless the task has ended."""
        mailbox = self._mailbox
        if not answer:
            self._loop.call_soon_threadsafe(self._may_read_on.set)
        elif mailbox is not None:
            mailbox.put.remote(answer)

    def cancel(self) -> None:
        """Cancel the ToolContext of the body; the worker kills itself if that does not end it.

        While a body keeps all threads from running, its worker does nothing of this, and is killed from outside.
        """
        generator = self._generator
        if generator is None:
            return
        self._is_over = True
        try:
            _cancel(generator, force=False)
            if self._is_running_after(CANCEL_SECONDS):
                _cancel(generator, force=True)
            if self._is_running_after(FORCE_SECONDS) and self._worker is not None:
                self._kill_worker.options(scheduling_strategy=_on_node(self._worker.node_id)).remote(self._worker)
        finally:
            self._loop.call_soon_threadsafe(self._may_read_on.set)

    def lose(self) -> None:
        """Ray was shut down."""
        self._fail(RAY_SHUT_DOWN)
        self._reading.cancel()

    def wait(self, seconds: float) -> bool:
        """Wait until nothing of the task is read any more; return whether that was in time."""
        return self._has_ended.wait(seconds)

    def _is_running_after(self, seconds: float) -> bool:
        """Return whether the task has not ended so many seconds later."""
        generator = self._generator
        if generator is None or not _is_connected():
            return False
        generator.completed().future().add_done_callback(lambda _: self._has_ended.set())
        return not self.wait(seconds)

    async def _read(self) -> None:
        try:
            async for reference in self._generator:
                await self._deliver(await reference)
            self._fail("ended before it returned a result")
        except Exception as error:  # noqa: BLE001  # Ray may raise anything
            self._fail(describe_loss(error))
        finally:
            self._generator = self._mailbox = None  # their ends call Ray's core: after the call, Ray may be shut down
            self._has_ended.set()

    async def _deliver(self, batch: ReplyBatch) -> None:
        self._mailbox = batch.mailbox or self._mailbox
        self._worker = batch.worker or self._worker
        for reply in batch.replies:
            if not self._is_over:  # a cancelled task is read to its end
                self._observer.deliver(reply)
                self._is_over = replies.is_final(reply)
        if batch.replies and replies.is_chunk(batch.replies[-1]) and not self._is_over:
            await self._may_read_on.wait()
            self._may_read_on.clear()

    def _fail(self, reason: str) -> None:
        if not self._is_over:
            self._is_over = True
            self._observer.fail(reason)


def describe_loss(error: BaseException) -> str:
    """Return what happened to a worker, without the texts of other code: they may have arguments in them."""
    if not _is_connected():
        return RAY_SHUT_DOWN
    cause = getattr(error, "cause", None)
    name = type(cause if isinstance(cause, BaseException) else error).__name__
    reason = f"{name}: {_REASONS[name]}" if name in _REASONS else name
    if isinstance(cause, ImportError):  # the worker has not what is installed here
        reason = f"{name}: {cause}"
    return f"ended ({reason}) before it returned a result"


def _on_node(node_id: str) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node_id, soft=False)


def _cancel(reference: Any, *, force: bool) -> None:
    """Cancel a task, unless Ray was shut down: it would be started again."""
    if _is_connected():
        import ray

        ray.cancel(reference, force=force)


def _is_connected() -> bool:
    import ray

    connected: bool = ray.is_initialized()
    return connected


def _connect(error: type[Exception]) -> Any:
    """Return this process's connection to Ray. Raises `error` if there is none that executors can use."""
    import ray.util.client

    if ray.util.client.ray.is_connected():
        raise error(
            "RayExecutor does not work with Ray Client (ray://…), which has no tasks that stream: run this program on "
            'a node of the cluster, with ray.init(address="auto"), or as a Ray job.'
        )
    if not _is_connected():
        raise error("Ray is not initialised in this process: call ray.init() first.")
    return _find_connection()


def _find_connection() -> Any:
    """Return this process's connection to Ray: an object for each `ray.init()`, or None once `ray.shutdown()` is over.

    While Ray is being shut down, a call of its core ends the process. So this only reads an attribute, and what refers
    to objects of Ray is kept until the attribute is gone.
    """
    from ray._private.worker import global_worker

    return getattr(global_worker, "core_worker", None)
