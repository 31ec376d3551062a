"""The bridge from sync to async: one background event loop per process, in a daemon thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ahvn_tools.errors import SyncCallError
from ahvn_tools.execution.deadline import CANCEL_GRACE_SECONDS
from ahvn_tools.execution.outcome import Outcome

log = logging.getLogger(__name__)

T = TypeVar("T")

CoroutineFactory = Callable[..., Coroutine[Any, Any, Outcome]]
"""Makes the coroutine: it is made on the loop, so that none is left unawaited where it cannot start."""

blocked_loops: contextvars.ContextVar[tuple[asyncio.AbstractEventLoop, ...]] = contextvars.ContextVar(
    "blocked", default=()
)
"""The loops that stand still because their thread waits on the bridge; nothing may be sent to them."""


class _BackgroundLoop:
    """The loop and its thread, started when first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def get_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                try:
                    threading.Thread(
                        target=self._run_forever, args=(loop,), name="ahvn-tools-loop", daemon=True
                    ).start()
                except BaseException:  # pragma: no cover  # no thread to be had; the next call tries again
                    loop.close()
                    raise
                self._loop = loop
            return self._loop

    def is_current(self) -> bool:
        return self._loop is not None and running_loop() is self._loop

    def _run_forever(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while True:
            try:
                loop.run_forever()
            except BaseException as error:  # noqa: BLE001  # a task of a body's own may raise SystemExit through the loop
                log.warning("A task on the background loop raised %s; the loop goes on.", type(error).__name__)


_background = _BackgroundLoop()


def _reset_after_fork() -> None:  # pragma: no cover  # runs in forked children, which report to nobody
    global _background  # noqa: PLW0603  # a forked child has none of its parent's threads
    _background = _BackgroundLoop()


if hasattr(os, "register_at_fork"):  # pragma: no branch  # not on Windows
    os.register_at_fork(after_in_child=_reset_after_fork)


class LoopCall:
    """A coroutine on the background loop, as the thread sees it that waits for it."""

    def __init__(self, start: CoroutineFactory, *arguments: Any) -> None:
        """Start it. Raises SyncCallError on the background loop itself, which would wait for itself."""
        if _background.is_current():
            raise SyncCallError(
                "A sync door was used on the background loop, which would wait for itself: "
                "in an async body use `await spec.acall(…)`, `aexec` or `astream`."
            )
        self._ended = threading.Event()
        loop, here = _background.get_loop(), running_loop()
        token = blocked_loops.set((*blocked_loops.get(), here)) if here is not None else None
        try:
            self._future = asyncio.run_coroutine_threadsafe(self._run(start, arguments), loop)
        finally:
            if token is not None:
                blocked_loops.reset(token)

    async def _run(self, start: CoroutineFactory, arguments: tuple[Any, ...]) -> Outcome:
        try:
            return await start(*arguments)
        finally:
            self._ended.set()

    def on_end(self, function: Callable[[], None]) -> None:
        """Call `function` when it has ended."""
        self._future.add_done_callback(lambda _: function())

    def outcome(self, timeout: float | None = None) -> Outcome:
        """Wait for its outcome, for at most `limit` seconds. Raises TimeoutError."""
        try:
            return self._future.result(timeout)
        except concurrent.futures.CancelledError:  # the body cancelled the task that it runs in
            return Outcome(error=asyncio.CancelledError())

    def cancel(self, grace: float = CANCEL_GRACE_SECONDS) -> None:
        """Cancel it unless it has ended, and wait up to `grace` seconds for what it has to close."""
        if self._future.cancel() and not _background.is_current():
            self._ended.wait(grace)


def run(start: CoroutineFactory, *arguments: Any, max_wait: float | None = None) -> Outcome:
    """Run `start(*arguments)` on the background loop and wait for it; Ctrl-C while waiting cancels it.

    `backstop` bounds the wait in seconds, for the case that another body blocks the loop: then a TimeoutError is
    raised. Raises SyncCallError when called on the background loop itself.
    """
    crossing = LoopCall(start, *arguments)
    try:
        return crossing.outcome(max_wait)
    except TimeoutError:
        crossing.cancel(0)
        raise
    except BaseException:
        crossing.cancel()
        raise


async def arun(start: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
    """Await `start(*arguments)` on the background loop, from any loop; who is cancelled cancels it."""
    if _background.is_current():
        return await start(*arguments)
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(start(*arguments), _background.get_loop()))


def call_soon(function: Callable[[], None]) -> None:
    """Call a function on the background loop, soon."""
    _background.get_loop().call_soon_threadsafe(function)


def get_loop() -> asyncio.AbstractEventLoop:
    """Return the background loop, started if need be; a forked child has one of its own."""
    return _background.get_loop()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
