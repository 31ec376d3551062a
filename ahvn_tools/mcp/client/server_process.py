"""The server processes that this process started. They end with their connection, and all of them with this process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Generator

from ahvn_tools.after_fork import reset_after_fork

SIGNAL_GRACE_SECONDS = 0.5  # that a server's process group has after each signal
EXIT_WAIT_SECONDS = 0.1  # that usually suffice between the end of a server's output and its exit
POLL_SECONDS = 0.01

_process_groups: set[int] = set()
reset_after_fork(_process_groups.clear)  # the servers belong to the parent process


def track_group(pid: int) -> None:
    """Remember the process group of a server."""
    _process_groups.add(pid)


def kill_group(pid: int) -> None:
    """Kill what is left of a server's process group, and forget it."""
    if pid in _process_groups:  # only once: the system may reuse the number
        _process_groups.discard(pid)
        _signal_group(pid, signal.SIGKILL)


def kill_all_groups() -> None:
    """Kill every server that is left."""
    for pid in list(_process_groups):
        kill_group(pid)


def killed_by_signals() -> contextlib.AbstractContextManager[None]:
    """Let SIGTERM and SIGHUP kill every server before they end this process, unless the host handles them.

    Most servers end by themselves.
    """
    return ending_signals(exit_by_signal)


@contextlib.contextmanager
def ending_signals(handler: Callable[[int, object], None]) -> Generator[None]:
    """Call a function at SIGTERM and SIGHUP; a signal that the host handles, or ignores as by nohup, stays so."""
    if threading.current_thread() is not threading.main_thread():  # only this one can handle signals
        yield
        return
    names = ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    unhandled = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in unhandled:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in unhandled:
            signal.signal(number, signal.SIG_DFL)


def exit_by_signal(number: int, _frame: object) -> None:
    """Handle a signal: kill every server, and exit."""
    kill_all_groups()
    os._exit(128 + number)


async def stop_process(process: asyncio.subprocess.Process, seconds: float) -> None:
    """Close a server's input and wait `seconds` for its exit; then send SIGTERM, then SIGKILL, to its process group.

    `execution.workers` cannot do this: it kills at once, and needs psutil.
    """
    assert process.stdin is not None  # noqa: S101  # it was requested
    process.stdin.close()
    await _wait_until(lambda: process.returncode is not None, seconds)
    if _signal_group(process.pid, signal.SIGTERM):
        await _wait_until(
            lambda: process.returncode is not None and not _signal_group(process.pid, 0), SIGNAL_GRACE_SECONDS
        )
    if _signal_group(process.pid, signal.SIGKILL):
        await _wait_until(lambda: process.returncode is not None, SIGNAL_GRACE_SECONDS)


async def wait_for_exit_reason(process: asyncio.subprocess.Process) -> str:
    """Return why a server has stopped writing."""
    if not await _wait_until(lambda: process.returncode is not None, EXIT_WAIT_SECONDS):
        return "the server has closed its output"
    return _describe_exit(process.returncode or 0)


def get_exit_reason(process: asyncio.subprocess.Process) -> str | None:
    """Return how a server has ended; None while it runs. The system is asked, because asyncio knows a moment later."""
    if process.returncode is not None:
        return _describe_exit(process.returncode)
    try:
        status = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # pragma: no cover  # asyncio has reaped it but not set the return code yet
        return "the server process has ended"
    if status is None:
        return None
    return _describe_exit(status.si_status if status.si_code == os.CLD_EXITED else -status.si_status)


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"the server process has ended with exit code {code}"
    names = {number.value: number.name for number in signal.Signals}
    return f"the server process was ended by {names.get(-code, f'signal {-code}')}"


async def _wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not condition():
        if loop.time() >= deadline:
            return False
        await asyncio.sleep(POLL_SECONDS)
    return True


def _signal_group(pid: int, number: int) -> bool:
    """Send a signal to a process group; return whether the group exists."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # pragma: no cover  # a server that changed its user
        return True
    return True
