"""A file that one process and thread at a time may change: the lock is another file beside it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ahvn_tools.errors import ToolkitError

LOCK_TIMEOUT_SECONDS = 10.0
"""So many seconds a lock is waited for."""

_RETRY_SECONDS = 0.02

if sys.platform == "win32":  # pragma: no cover  # tests run elsewhere
    import msvcrt

    def _acquire(file: IO[bytes]) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _acquire(file: IO[bytes]) -> None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def file_lock(path: Path, timeout: float = LOCK_TIMEOUT_SECONDS) -> Iterator[None]:
    """Hold the lock of the file at `path` (`<name>.lock` beside it). Raises ToolkitError when it is not to be had.

    The system lets go of it when the process ends, however it ends.
    """
    beside = path.with_name(f"{path.name}.lock")
    try:
        file = beside.open("ab")
    except OSError as error:
        raise ToolkitError(
            f"{str(beside)!r} cannot be written ({type(error).__name__}); give a folder that can."
        ) from error
    with file:
        deadline = time.monotonic() + timeout
        while not _try_acquire(file):
            if time.monotonic() > deadline:
                raise ToolkitError(f"{str(path)!r} was locked for {timeout:g} seconds; end the process that holds it.")
            time.sleep(_RETRY_SECONDS)
        yield


def _try_acquire(file: IO[bytes]) -> bool:
    try:
        _acquire(file)
    except OSError:
        return False
    return True
