"""What a body has left running in its worker process: threads and child processes."""

from __future__ import annotations

import os
import sys
import threading
import time

from ahvn_tools import execution

THREAD_GRACE_SECONDS = 0.02
"""How many seconds a thread has to end that the body no longer waits for."""

_OWN_THREADS = "ahvn-tools-"
_THREADS_MODULE = "ahvn_tools.execution.threads"
_POOL_MODULE = "ahvn_tools.execution.isolation.pool"


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
