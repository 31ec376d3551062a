"""The lock of a folder: one change of its files at a time, among the threads and processes that use this module."""

from __future__ import annotations

import errno
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ahvn_tools.errors import CallCancelledError, ToolError

if sys.platform != "win32":  # there, no descriptor of a folder comes here
    import fcntl

LOCK_SECONDS: Final = 10.0
"""How long a change waits for the one before it."""

_PAUSE_SECONDS: Final = 0.005
_NOT_SUPPORTED: Final = {errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}

_one_process_lock = threading.Lock()
"""For file systems without locks of folders (NFS): changes by this process run one after the other, and no others."""


def never_cancelled() -> bool:
    """Return False, for calls that cannot be cancelled."""
    return False


@contextmanager
def locked_folder(folder: int, *, is_cancelled: Callable[[], bool] = never_cancelled) -> Iterator[bool]:
    """Lock the folder of a descriptor; yield whether other processes respect the lock, too.

    Raises ToolError after LOCK_SECONDS, and CallCancelledError.
    """
    deadline = time.monotonic() + LOCK_SECONDS
    shared = _wait(lambda: _try_lock(folder), deadline, is_cancelled)
    if not shared:
        _wait(lambda: _one_process_lock.acquire(blocking=False) or None, deadline, is_cancelled)
    try:
        yield shared
    finally:
        _unlock(folder) if shared else _one_process_lock.release()


def _wait(attempt: Callable[[], bool | None], deadline: float, is_cancelled: Callable[[], bool]) -> bool:
    """Return the answer of `attempt` when it is not None."""
    while (answer := attempt()) is None:
        if is_cancelled():
            raise CallCancelledError("The call was cancelled.")
        if time.monotonic() > deadline:
            raise ToolError(
                f"Another change in the same folder has not ended for {LOCK_SECONDS:g} seconds. Nothing was changed. "
                "Try again later."
            )
        time.sleep(_PAUSE_SECONDS)
    return answer


def _try_lock(folder: int) -> bool | None:
    """Return True for a lock, None if another process has it, and False if there are none on the file system."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno in _NOT_SUPPORTED:
            return False
        raise
    return True


def _unlock(folder: int) -> None:
    """Unlock at once: a process that was forked meanwhile has the same descriptor."""
    fcntl.flock(folder, fcntl.LOCK_UN)
