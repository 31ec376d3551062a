"""Atomic writes: a file has its old content or its new content, also after a crash, and never a part of one."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from typing import Final

from ahvn_tools.atomic_file import keep_owner_and_mode
from ahvn_tools.builtins.files.file_status import FileStatus
from ahvn_tools.builtins.files.kernel import rename_exclusive
from ahvn_tools.errors import ToolError

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
