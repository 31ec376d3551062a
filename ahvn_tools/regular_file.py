"""Opening regular files: no link, pipe or device that a repository may have put at their place."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

_FLAGS: Final[int] = sum(
    getattr(os, f"O_{name}", 0) for name in ("NOFOLLOW", "NONBLOCK", "NOCTTY", "CLOEXEC", "BINARY")
)


def open_regular(path: str | os.PathLike[str], flags: int, mode: int = 0o666, *, folder: int | None = None) -> int:
    """Open a file as `os.open` does; with `folder`, a name in the folder of a descriptor. Never waits.

    Raises OSError, also for what is no regular file. Links in the folders of the path are followed.
    """
    require_regular(path, folder=folder)
    descriptor = os.open(path, flags | _FLAGS, mode, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # it has taken the place of the regular file just now
            raise OSError(errno.EINVAL, "It is no regular file", os.fspath(path))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def require_regular(path: str | os.PathLike[str], *, folder: int | None = None) -> os.stat_result | None:
    """Return the status of a regular file; None if there is nothing at the path. Raises OSError for all else."""
    try:
        status = os.stat(path, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "It is a link: use the path of the file that it leads to", os.fspath(path))
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "It is no regular file", os.fspath(path))
    return status
