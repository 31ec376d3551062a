"""Atomic writes in a folder that is locked: a file has its old or its new content, also after a crash."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

from ahvn_tools.atomic_file import keep_owner_and_mode
from ahvn_tools.builtins.files.file_status import FileStatus
from ahvn_tools.errors import CallCancelledError, ToolError

_RENAME_NOREPLACE: Final = 1


def rename_exclusive(source_folder: int, source: str, target_folder: int, target: str) -> None:
    """Rename a file or folder unless the target exists. Raises FileExistsError then, and other kinds of OSError."""
    rename = getattr(_libc(), "renameat2", None)
    if rename is None:
        rename_by_link(source_folder, source, target_folder, target)
        return
    names = ctypes.c_char_p(os.fsencode(source)), ctypes.c_char_p(os.fsencode(target))
    if rename(source_folder, names[0], target_folder, names[1], ctypes.c_uint(_RENAME_NOREPLACE)) == 0:
        return
    number = ctypes.get_errno()
    if number not in {errno.EINVAL, errno.ENOSYS}:
        raise OSError(number, os.strerror(number))
    rename_by_link(source_folder, source, target_folder, target)  # a file system without the flag


def rename_by_link(source_folder: int, source: str, target_folder: int, target: str) -> None:
    """Rename with calls that every system has. A folder may replace an empty one that is made at the same moment."""
    try:
        os.link(source, target, src_dir_fd=source_folder, dst_dir_fd=target_folder, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:  # a folder, or a file system without hard links
        if status_of(target_folder, target) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        os.rename(source, target, src_dir_fd=source_folder, dst_dir_fd=target_folder)
    else:
        os.unlink(source, dir_fd=source_folder)


def status_of(folder: int, name: str) -> os.stat_result | None:
    """Return the status of a member of a folder, None if there is none. Raises other kinds of OSError."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


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


_TEMPORARY_NAME: Final = re.compile(r"\.ahvn-[0-9a-f]{16}\.tmp")
_OTHER_OWNER: Final = (
    "The file belongs to another user, and would belong to the user of this tool after the change. It was not changed. "
    "Ask the user to change the file, or its owner."
)
_SWEEP_SECONDS: Final = 60.0
_SWEPT_FOLDERS_MAX: Final = 1000

_swept: dict[tuple[int, int, int], float] = {}
"""When this process has removed leftovers from a folder: process id, device and inode → monotonic time."""


def is_temporary_name(name: str) -> bool:
    """Return whether a name is that of a file that `write_file` is writing, or has left when its process was killed."""
    return name.startswith(".ahvn-") and _TEMPORARY_NAME.fullmatch(name) is not None


def write_file(
    folder: int, name: str, content: bytes, *, old: os.stat_result | None, new_mode: int = 0o666
) -> FileStatus:  # fmt: skip
    """Write a file in a folder through a temporary file.

    `old` is the status of the file to replace, whose owner and permissions stay; None for a new file, which has the
    permissions `new_mode`, and then FileExistsError is raised if there is one. Raises OSError, and ToolError if the
    owner cannot stay. The folder is locked by the caller.
    """
    temporary = f".ahvn-{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, new_mode if old is None else 0o600, dir_fd=folder)
    try:
        status = _fill(descriptor, content, old)
        if old is None:
            rename_exclusive(folder, temporary, folder, name)
        else:
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    return FileStatus.from_stat(status)


def sweep(folder: int) -> None:
    """Remove what killed writers have left in a folder; at most once a minute. The caller has its lock.

    A writer has the lock as long as its temporary file exists, so every such file is a leftover.
    """
    status = os.fstat(folder)
    key = os.getpid(), status.st_dev, status.st_ino
    now = time.monotonic()
    if now - _swept.get(key, -_SWEEP_SECONDS) < _SWEEP_SECONDS:
        return
    for name in os.listdir(folder):
        if is_temporary_name(name):
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
    if len(_swept) >= _SWEPT_FOLDERS_MAX:
        _swept.clear()
    _swept[key] = now


def _fill(descriptor: int, content: bytes, old: os.stat_result | None) -> os.stat_result:
    """Write the content to the disk, close the descriptor and return the status of the file."""
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        if old is not None:
            keep_owner_and_mode(descriptor, old)
        os.fsync(descriptor)
        status = os.fstat(descriptor)
    if old is not None and status.st_uid != old.st_uid:
        raise ToolError(_OTHER_OWNER)
    return status
