"""The background event loop: one per process, in a daemon thread, for async work that sync callers wait for."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.errors import SyncCallError
from ahvn_tools.execution.deadline import CANCEL_GRACE_SECONDS
from ahvn_tools.execution.outcome import Outcome

log = logging.getLogger(__name__)

T = TypeVar("T")

CoroutineFactory = Callable[..., Coroutine[Any, Any, Outcome]]
"""Makes the coroutine in the loop, so that none is left unawaited where it cannot start."""

blocked_loops: contextvars.ContextVar[tuple[asyncio.AbstractEventLoop, ...]] = contextvars.ContextVar(
    "blocked", default=()
)
"""The loops that are blocked because their thread waits for the background loop: they cannot run anything."""

_running_tasks: set[asyncio.Task[Any]] = set()
"""The tasks that were started from outside of the loop.

asyncio would let the garbage collector destroy one that has no waiter.
"""

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


@reset_after_fork
def _drop_loop() -> None:  # pragma: no cover  # runs in child processes, which report no coverage
    global _lock, _loop
    _lock, _loop = threading.Lock(), None


def get_loop() -> asyncio.AbstractEventLoop:
    """Return the background loop, which is started when first needed; a forked child starts its own."""
    global _loop  # noqa: PLW0603
    with _lock:
        if _loop is None:
            loop = asyncio.new_event_loop()
            threading.Thread(target=_run_forever, args=(loop,), name="ahvn-tools-loop", daemon=True).start()
            _loop = loop
        return _loop


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    while True:
        try:
            loop.run_forever()
        except BaseException as error:  # noqa: BLE001  # a body's task may raise SystemExit through the loop
            log.warning("A task on the background loop raised %s; the loop continues.", type(error).__name__)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _is_current() -> bool:
    return _loop is not None and running_loop() is _loop


class LoopCall:
    """A coroutine on the background loop, for the thread that starts it and waits for it.

    Ctrl-C may raise KeyboardInterrupt at any point there, also inside of `Future.result` or `Event.wait`, whose
    lock then stays locked and blocks the loop forever. So the two threads share nothing but a `SimpleQueue`.

    Use it as `with loop_call, loop_call:`, so that leaving the block cancels it twice: another Ctrl-C may interrupt the
    first of the two exits.
    """

    def __init__(self, start: CoroutineFactory, *arguments: Any, on_end: Callable[[], None] = lambda: None) -> None:
        """`on_end` is called on the background loop when the coroutine has ended.

        Raises SyncCallError on the background loop, which would wait for itself.
        """
        if _is_current():
            raise SyncCallError(
                "A sync call was made on the background loop, which would wait for itself: "
                "in an async body use `await spec.acall(…)`, `aexec`, `astream` or `amap`."
            )
        self._start, self._arguments, self._on_end = start, arguments, on_end
        self._task: asyncio.Task[Outcome] | None = None
        self._end_signal: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._has_ended = self._is_cancelled = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.cancel()

    def start(self) -> None:
        """Start the coroutine, inside the `with` block: Ctrl-C may come before or after the start."""
        loop, caller_loop = get_loop(), running_loop()
        context = contextvars.copy_context()
        if caller_loop is not None:
            context.run(blocked_loops.set, (*blocked_loops.get(), caller_loop))
        loop.call_soon_threadsafe(self._create_task, context=context)

    def _create_task(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._start(*self._arguments))
        _running_tasks.add(self._task)
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[Outcome]) -> None:
        _running_tasks.discard(task)
        self._has_ended = True
        self._end_signal.put(None)
        self._on_end()

    def outcome(self, timeout: float | None = None) -> Outcome:
        """Wait for the outcome, for at most `timeout` seconds. Raises TimeoutError."""
        try:
            self._end_signal.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError from None
        assert self._task is not None  # noqa: S101  # it has ended
        if self._task.cancelled():  # the body cancelled the task that it runs in
            return Outcome(error=asyncio.CancelledError())
        return self._task.result()

    def cancel(self, grace: float = CANCEL_GRACE_SECONDS) -> None:
        """Cancel the coroutine unless it has ended, and wait up to `grace` seconds for its cleanup, once."""
        if self._has_ended or self._is_cancelled:
            return
        call_soon(self._cancel_task)
        self._is_cancelled = True
        if not _is_current():
            with contextlib.suppress(queue.Empty):
                self._end_signal.get(timeout=grace)

    def _cancel_task(self) -> None:
        if self._task is None:  # an interrupt came before the start
            self._end_signal.put(None)
        else:
            self._task.cancel()


def run(start: CoroutineFactory, *arguments: Any) -> Outcome:
    """Run `start(*arguments)` on the background loop and wait for it; Ctrl-C while waiting cancels it.

    Raises SyncCallError when called on the background loop.
    """
    loop_call = LoopCall(start, *arguments)
    with loop_call, loop_call:
        loop_call.start()
        return loop_call.outcome()


async def arun(start: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
    """Await `start(*arguments)` on the background loop, from any loop; cancelling the caller cancels it."""
    if _is_current():
        return await start(*arguments)
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(start(*arguments), get_loop()))


def start_task(start: Callable[..., Coroutine[Any, Any, None]], *arguments: Any, context: contextvars.Context) -> None:
    """Run `start(*arguments)` in a task on the background loop, in this context, and do not wait for it."""

    def create_task() -> None:
        task = asyncio.get_running_loop().create_task(start(*arguments))
        _running_tasks.add(task)
        task.add_done_callback(_running_tasks.discard)

    get_loop().call_soon_threadsafe(create_task, context=context)


def call_soon(function: Callable[[], None]) -> None:
    """Call `function` on the background loop, soon."""
    get_loop().call_soon_threadsafe(function)
