"""The server processes that we started: they end with their connection, and all of them with this process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

SIGNAL_GRACE_SECONDS = 0.5
"""Seconds that a server's process group has after SIGTERM."""

EXIT_WAIT_SECONDS = 0.1
"""Seconds between the end of a server's output and its own, mostly."""

POLL_SECONDS = 0.01

_process_groups: set[int] = set()


def track_group(pid: int) -> None:
    """Remember the process group of a server."""
    _process_groups.add(pid)


def kill_group(pid: int) -> None:
    """Kill what is left of a server's process group, and forget it."""
    if pid in _process_groups:  # once only: the system may use the number again
        _process_groups.discard(pid)
        _signal_group(pid, signal.SIGKILL)


def kill_all_groups() -> None:
    """Kill every server that is left."""
    for pid in list(_process_groups):
        kill_group(pid)


async def stop_process(process: asyncio.subprocess.Process, seconds: float) -> None:
    """Close a server's input and wait until it has ended, for `limit` seconds; then send SIGTERM, then SIGKILL.

    Its whole group gets the signals, and each of them has `PATIENCE` seconds to work.
    """
    assert process.stdin is not None  # noqa: S101  # it was asked for
    process.stdin.close()
    await _wait_until(lambda: process.returncode is not None, seconds)
    if _signal_group(process.pid, signal.SIGTERM):
        await _wait_until(
            lambda: process.returncode is not None and not _signal_group(process.pid, 0), SIGNAL_GRACE_SECONDS
        )
    if _signal_group(process.pid, signal.SIGKILL):
        await _wait_until(lambda: process.returncode is not None, SIGNAL_GRACE_SECONDS)


async def wait_for_exit_reason(process: asyncio.subprocess.Process) -> str:
    """Say what has become of a server that says nothing any more."""
    if not await _wait_until(lambda: process.returncode is not None, EXIT_WAIT_SECONDS):
        return "the server has closed its output"
    return _describe_exit(process.returncode or 0)


def get_exit_reason(process: asyncio.subprocess.Process) -> str | None:
    """Say how a server has ended; None while it runs. The system is asked: asyncio hears of it a moment later."""
    if process.returncode is not None:
        return _describe_exit(process.returncode)
    try:
        found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # pragma: no cover  # asyncio has just heard of it, and not told yet
        return "the server process has ended"
    if found is None:
        return None
    return _describe_exit(found.si_status if found.si_code == os.CLD_EXITED else -found.si_status)


def _describe_exit(code: int) -> str:
    if code < 0:
        named = {number.value: number.name for number in signal.Signals}
        return f"the server process was ended by {named.get(-code, f'signal {-code}')}"
    return f"the server process has ended with exit code {code}"


async def _wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while not condition():
        if loop.time() >= until:
            return False
        await asyncio.sleep(POLL_SECONDS)
    return True


def _signal_group(pid: int, number: int) -> bool:
    """Send a signal to a process group; return whether there is one."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # pragma: no cover  # a server that became somebody else
        return True
    return True


def _reset_after_fork() -> None:  # pragma: no cover  # runs in forked children: the servers are their parent's
    _process_groups.clear()


if hasattr(os, "register_at_fork"):  # pragma: no branch  # not on Windows
    os.register_at_fork(after_in_child=_reset_after_fork)
