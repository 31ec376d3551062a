"""Stopping: a server as the process's own work, ended by SIGTERM and Ctrl-C in good order, and within seconds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Coroutine, Generator
from types import FrameType
from typing import Any, Final

log = logging.getLogger(__name__)

FORCED_EXIT_SECONDS: Final = 5.0
"""Seconds after the signal in which the process ends, whatever holds it."""

CANCEL_SECONDS: Final = 0.5
"""Seconds that tasks have to end when the loop is closed."""


def run_until_signal(work: Coroutine[Any, Any, None]) -> None:
    """Run a server to its end. SIGTERM ends it and returns, Ctrl-C ends it and raises KeyboardInterrupt.

    A second signal ends the process at once, and SIGTERM does so after `LAST` seconds.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    with _handle_signals(loop, task) as stop:
        try:
            _run_to_completion(loop, task)
        except asyncio.CancelledError:
            if stop.signal is None:
                raise
        finally:
            _close_loop(loop)
    if stop.signal == signal.SIGINT:
        raise KeyboardInterrupt


def _run_to_completion(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    """Run a task to its end, whatever other tasks in its loop do: `sys.exit()` in one of them goes through the loop."""
    while True:
        try:
            return loop.run_until_complete(task)
        except BaseException as error:  # sorted by whose it is
            if task.done():
                raise
            log.warning("A task in the server's loop raised %s; the server goes on.", type(error).__name__)


class _SignalHandler:
    """What a signal does."""

    def __init__(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
        self._loop = loop
        self._task = task
        self.signal: int | None = None
        self.exit_timer = threading.Timer(FORCED_EXIT_SECONDS, self._force_exit)
        self.exit_timer.daemon = True

    @property
    def should_exit(self) -> bool:
        """Whether a signal has come. sse-starlette looks for this where the handler is from, and ends open streams."""
        return self.signal is not None

    def handle_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # what Python gives
        """Take a signal."""
        if self.signal is not None:
            self._force_exit()
        self.signal = number
        self.exit_timer.start()
        self._loop.call_soon_threadsafe(self._task.cancel)

    def _force_exit(self) -> None:
        os._exit(128 + (self.signal or 0))  # threads that nothing can end hold up any other way out


@contextlib.contextmanager
def _handle_signals(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> Generator[_SignalHandler]:
    stop = _SignalHandler(loop, task)
    if threading.current_thread() is not threading.main_thread():  # Python leaves signals to the main one
        yield stop
        return
    kept = {number: signal.signal(number, stop.handle_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        if stop.signal != signal.SIGTERM:
            stop.exit_timer.cancel()


def _close_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what is left in a loop; what will not end is left behind in it."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=CANCEL_SECONDS))
    if not asyncio.all_tasks(loop):
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
