"""System calls that Python does not have: openat2 and renameat2 of Linux."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from functools import cache
from typing import Final

RESOLVE_NO_MAGICLINKS: Final = 0x02
RESOLVE_NO_SYMLINKS: Final = 0x04
RESOLVE_BENEATH: Final = 0x08

_OPENAT2: Final = 437  # the number on every architecture but alpha
_RENAME_NOREPLACE: Final = 1


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@cache
def has_openat2() -> bool:
    """Return whether the kernel has openat2 (Linux 5.6) and lets this process use it."""
    if sys.platform != "linux" or platform.machine() == "alpha":
        return False
    try:
        folder = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.close(openat2(folder, ".", os.O_PATH | os.O_CLOEXEC, RESOLVE_BENEATH))
    except OSError:
        return False
    finally:
        os.close(folder)
    return True


def openat2(folder: int, path: str, flags: int, resolve: int) -> int:
    """Open a path from a descriptor of a folder under the rules of `resolve`. Creates nothing. Raises OSError."""
    how = _OpenHow(flags, 0, resolve)
    name = os.fsencode(path)
    while True:
        descriptor: int = _libc().syscall(
            ctypes.c_long(_OPENAT2), ctypes.c_int(folder), ctypes.c_char_p(name), ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )  # fmt: skip
        if descriptor >= 0:
            return descriptor
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))


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
        if _exists(target_folder, target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        os.rename(source, target, src_dir_fd=source_folder, dst_dir_fd=target_folder)
    else:
        os.unlink(source, dir_fd=source_folder)


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
