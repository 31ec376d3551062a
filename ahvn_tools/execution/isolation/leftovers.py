"""What a body has left in its worker process: threads, child processes, and changed settings of the process."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from ahvn_tools import execution

THREAD_GRACE_SECONDS = 0.02
"""How many seconds a thread has to end that the body no longer waits for."""

_get_handler = getattr(signal.getsignal, "__wrapped__", signal.getsignal)
"""Without the conversion of each result to an enum, which takes most of the time."""

_OWN_THREADS = "ahvn-tools-"
_THREADS_MODULE = "ahvn_tools.execution.threads"
_POOL_MODULE = "ahvn_tools.execution.isolation.pool"


def process_settings() -> list[Any]:
    """Return what the operating system and the interpreter keep for the whole process, to compare it later.

    These are the umask, signal handlers, blocked signals, running timers, resource limits, the recursion limit, the
    priority, the cores that it may use, and its user and groups.
    The directory, the environment variables and the import path are set at each call anyway.
    """
    mask = os.umask(0)
    os.umask(mask)
    handlers = [_get_handler(number) for number in _signals()]
    return [mask, handlers, sys.getrecursionlimit(), *_posix_settings()]


@functools.cache
def _signals() -> list[int]:
    return [int(number) for number in signal.valid_signals()]


@functools.cache
def _resource_limits() -> list[int]:
    import resource

    return [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


def _posix_settings() -> Iterator[Any]:
    if sys.platform == "win32":  # pragma: no cover
        return
    yield signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield [
        signal.getitimer(timer) > (0, 0) for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    ]
    import resource

    yield [resource.getrlimit(limit) for limit in _resource_limits()]
    yield os.getpriority(os.PRIO_PROCESS, 0), os.getuid(), os.geteuid(), os.getgid(), os.getegid(), os.getgroups()
    if hasattr(os, "sched_getaffinity"):
        yield os.sched_getaffinity(0)


def open_descriptors() -> set[tuple[int, int, int, int]]:
    """Return number, kind, device and inode of what is open; nothing on a system that does not list it."""
    descriptors = set()
    try:
        numbers = map(int, os.listdir("/dev/fd"))  # noqa: PTH208  # iterdir is slower
    except OSError:  # pragma: no cover  # Windows
        return set()
    for number in numbers:
        with contextlib.suppress(OSError):  # it was open only to list the descriptors
            status = os.fstat(number)
            descriptors.add((number, stat.S_IFMT(status.st_mode), status.st_dev, status.st_ino))
    return descriptors


def has_new_descriptors(before: set[tuple[int, int, int, int]]) -> bool:
    """Return whether a file or a network connection is open that was not open before.

    What connects the threads and processes of this package does not count: pipes, local sockets, event queues.
    """
    new = open_descriptors() - before
    return any(
        _is_connection(number) if kind == stat.S_IFSOCK else kind not in (0, stat.S_IFIFO) for number, kind, *_ in new
    )


def _is_connection(descriptor: int) -> bool:
    import socket  # a worker whose bodies use no sockets does not load it

    try:
        connection = socket.socket(fileno=descriptor)
    except OSError:  # a thread has closed it since
        return False
    connection.detach()
    return connection.family != socket.AF_UNIX


def running_threads() -> set[threading.Thread | int]:
    """Return the threads that run Python code. Those that the threading module does not know are ids."""
    known = {thread.ident: thread for thread in threading.enumerate()}
    return {known.get(ident, ident) for ident in sys._current_frames()}  # noqa: SLF001  # it is documented


def has_new_threads(before: set[threading.Thread | int]) -> bool:
    """Return whether a thread still runs that did not run before; idle threads of this package do not count."""
    if _THREADS_MODULE in sys.modules and execution.abandoned():
        return True
    end = time.monotonic() + THREAD_GRACE_SECONDS
    while is_left := any(map(_is_foreign, running_threads() - before)):
        if time.monotonic() > end:
            break
        time.sleep(0.001)
    return is_left


def has_children() -> bool:
    """Return whether a process runs that this one has started or adopted; idle workers of this one do not count.

    Children that have ended are reaped.
    """
    if hasattr(os, "waitid"):
        try:
            while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG) is not None:
                pass
        except ChildProcessError:  # there are no children
            return False
    import psutil

    pool = sys.modules.get(_POOL_MODULE)
    idle = set() if pool is None else pool.process_pool.idle_process_ids()
    return any(child.pid not in idle for child in psutil.Process().children())


def _is_foreign(thread: threading.Thread | int) -> bool:
    return isinstance(thread, int) or not thread.name.startswith(_OWN_THREADS)
