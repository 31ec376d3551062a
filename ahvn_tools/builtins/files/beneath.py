"""Opening beneath a folder: a path from a descriptor, which never leads out of the folder.

Each part of the path is opened by itself, without following links.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from typing import Final

PATH_ONLY: Final[int] = getattr(os, "O_PATH", os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
"""Flags that open whatever has a name, for its status. Only Linux does not need the permission to read."""
FOLDER: Final[int] = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
"""Flags that open a folder to list and change it."""
FOLDER_PART: Final[int] = PATH_ONLY | getattr(os, "O_DIRECTORY", 0)
"""Flags that open a folder to go on from it."""
REGULAR_FILE: Final[int] = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
"""Flags that open a file to read it. They never wait for the other end of a pipe."""

_NO_LINK: Final[int] = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_O_PATH: Final[int] = getattr(os, "O_PATH", 0)


@contextlib.contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """Yield a descriptor, and close it at the end."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_without_links(folder: int, path: str, flags: int) -> int:
    """Open a path beneath a folder that has no links and no `..` in it. Raises OSError, ELOOP or ENOTDIR for a link."""
    *folders, last = path.split("/")
    current = folder
    try:
        for name in folders:
            inner = open_part(current, name, FOLDER_PART)
            if current != folder:
                os.close(current)
            current = inner
        return open_part(current, last, flags)
    finally:
        if current != folder:
            os.close(current)


def open_part(folder: int, name: str, flags: int) -> int:
    """Open a member of a folder, but no link. Raises OSError."""
    descriptor = os.open(name, flags | _NO_LINK, dir_fd=folder)
    if flags & _O_PATH and stat.S_ISLNK(os.fstat(descriptor).st_mode):  # O_PATH opens the link itself
        os.close(descriptor)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return descriptor


def make_parts(folder: int, names: Sequence[str]) -> None:
    """Make a folder in a folder, in it the next one, and so on; existing ones stay. Raises OSError, also for a link."""
    current = folder
    try:
        for name in names:
            inner = _open_or_make(current, name)
            if current != folder:
                os.close(current)
            current = inner
    finally:
        if current != folder:
            os.close(current)


def _open_or_make(folder: int, name: str) -> int:
    with contextlib.suppress(FileNotFoundError):
        return open_part(folder, name, FOLDER_PART)
    with contextlib.suppress(FileExistsError):  # another process has made it at this moment
        os.mkdir(name, dir_fd=folder)
    return open_part(folder, name, FOLDER_PART)
