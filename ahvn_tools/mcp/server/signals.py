"""Run a server as the work of a process, which SIGTERM and Ctrl-C end in good order and within seconds."""

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
"""Seconds after SIGTERM at which the process exits, whatever blocks it."""

CANCEL_SECONDS: Final = 0.5
"""Seconds that the remaining tasks have to end when the loop is closed."""


def run_until_signal(work: Coroutine[Any, Any, None]) -> None:
    """Run a server to its end. SIGTERM ends it and returns; Ctrl-C ends it and raises KeyboardInterrupt.

    A second signal exits the process at once; SIGTERM does so after `FORCED_EXIT_SECONDS`.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    with _handle_signals(loop, task) as handler:
        try:
            _run_to_completion(loop, task)
        except asyncio.CancelledError:
            if handler.signal is None:
                raise
        finally:
            _close_loop(loop)
    if handler.signal == signal.SIGINT:
        raise KeyboardInterrupt


def _run_to_completion(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    """Run a task to its end, although `sys.exit()` in another task of the loop interrupts the loop."""
    while True:
        try:
            return loop.run_until_complete(task)
        except BaseException as error:  # raised again if it is the task's own
            if task.done():
                raise
            log.warning("A task in the server's loop raised %s; the server continues.", type(error).__name__)


class _SignalHandler:
    """Cancels the server's task at the first signal and exits the process at the second."""

    def __init__(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
        self._loop = loop
        self._task = task
        self.signal: int | None = None
        self.exit_timer = threading.Timer(FORCED_EXIT_SECONDS, self._force_exit)
        self.exit_timer.daemon = True

    @property
    def should_exit(self) -> bool:
        """Whether a signal has arrived. sse-starlette reads this of the handler's owner, to end open streams."""
        return self.signal is not None

    def handle_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # the signature of `signal`
        """Handle a signal."""
        if self.signal is not None:
            self._force_exit()
        self.signal = number
        self.exit_timer.start()
        self._loop.call_soon_threadsafe(self._task.cancel)

    def _force_exit(self) -> None:
        os._exit(128 + (self.signal or 0))  # a normal exit would wait for threads that do not end


@contextlib.contextmanager
def _handle_signals(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> Generator[_SignalHandler]:
    handler = _SignalHandler(loop, task)
    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield handler
        return
    previous = {number: signal.signal(number, handler.handle_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield handler
    finally:
        for number, action in previous.items():
            signal.signal(number, action)
        if handler.signal != signal.SIGTERM:
            handler.exit_timer.cancel()


def _close_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the remaining tasks and close the loop; a task that does not end is abandoned in it."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=CANCEL_SECONDS))
    if not asyncio.all_tasks(loop):
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
