"""Run a server as the work of a process, which SIGTERM and Ctrl-C end in good order and within seconds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Generator
from types import FrameType
from typing import Any, Final

FORCED_EXIT_SECONDS: Final = 5.0
"""Seconds after SIGTERM at which the process exits, whatever blocks it."""

HURRIED_EXIT_SECONDS: Final = 2.0
"""The same after a second signal."""

CANCEL_SECONDS: Final = 0.5
"""Seconds that the remaining tasks have to end when the loop is closed."""


def run_until_signal(
    work: Coroutine[Any, Any, None],
    kill_processes: Callable[[], None] = lambda: None,
    exit_handler: Callable[[int, Any], None] | None = None,
) -> None:
    """Run a server to its end. SIGTERM and SIGHUP end it and return; Ctrl-C ends it and raises KeyboardInterrupt.

    A signal cancels `work`, a second one cancels it again, and a third one exits the process. So does the time:
    `FORCED_EXIT_SECONDS` after SIGTERM, `HURRIED_EXIT_SECONDS` after a second signal. Before such an exit
    `kill_processes` is called, to end what the process has started. A SIGHUP that the host handles is left alone;
    `exit_handler` is no handler of the host.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    with _handle_signals(_SignalHandler(loop, task, kill_processes), exit_handler) as handler:
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            if handler.signal is None:
                raise
        finally:
            _close_loop(loop)
    if handler.signal == signal.SIGINT:
        raise KeyboardInterrupt


class _SignalHandler:
    """Cancels the server's task at the first and the second signal, and exits the process at the third."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[None], kill_processes: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._task = task
        self._kill_processes = kill_processes
        self._exit_timer: threading.Timer | None = None
        self._count = 0
        self.signal: int | None = None
        """The first signal."""

    def handle_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # the signature of `signal`
        """Handle a signal."""
        self._count += 1
        if self._count > 2:  # noqa: PLR2004  # the third
            self._force_exit()
        self.signal = self.signal or number
        self.cancel_exit()
        self._exit_timer = threading.Timer(
            FORCED_EXIT_SECONDS if self._count == 1 else HURRIED_EXIT_SECONDS, self._force_exit
        )
        self._exit_timer.daemon = True
        self._exit_timer.start()
        self._loop.call_soon_threadsafe(self._task.cancel)

    def cancel_exit(self) -> None:
        """Let the process live on."""
        if self._exit_timer is not None:
            self._exit_timer.cancel()

    def _force_exit(self) -> None:
        self._kill_processes()
        os._exit(128 + (self.signal or 0))  # a normal exit would wait for threads that do not end


@contextlib.contextmanager
def _handle_signals(
    handler: _SignalHandler, exit_handler: Callable[[int, Any], None] | None
) -> Generator[_SignalHandler]:
    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield handler
        return
    previous = {number: signal.signal(number, handler.handle_signal) for number in _list_signals(exit_handler)}
    try:
        yield handler
    finally:
        for number, action in previous.items():
            signal.signal(number, action)
        if handler.signal == signal.SIGINT:
            handler.cancel_exit()


def _list_signals(exit_handler: Callable[[int, Any], None] | None) -> list[signal.Signals]:
    """Return the signals that end a server. The host may use SIGHUP for something else, and `nohup` ignores it."""
    signals = [signal.SIGTERM, signal.SIGINT]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) in (signal.SIG_DFL, exit_handler):
        signals.append(signal.SIGHUP)
    return signals


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
