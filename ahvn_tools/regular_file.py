"""Opening and reading regular files: no link, pipe or device that a repository may have put at their place."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO, Final

from ahvn_tools.errors import SourceError

_FLAGS: Final[int] = sum(
    getattr(os, f"O_{name}", 0) for name in ("NOFOLLOW", "NONBLOCK", "NOCTTY", "CLOEXEC", "BINARY")
)

_FOLDER_FLAGS: Final[int] = os.O_RDONLY | sum(
    getattr(os, f"O_{name}", 0) for name in ("DIRECTORY", "NOFOLLOW", "CLOEXEC")
)


MAX_BYTES: Final = 128_000_000
"""What is read of one file at most: a planted file may be larger than the memory."""


MAX_TEXT_BYTES: Final = 64_000_000
"""How large a file of tools may be."""


def read_regular(path: str | os.PathLike[str], *, folder: int | None = None) -> bytes:
    """Return the content of a file, opened as `open_regular` does. Raises OSError, also for more than `MAX_BYTES`."""
    with os.fdopen(open_regular(path, os.O_RDONLY, folder=folder), "rb") as file:
        return read_bounded(file)


def read_text(file: Path, shown: str, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Return the text of a file that is not too large. Raises SourceError; `shown` is how it names the file."""
    try:
        with os.fdopen(open_regular(os.path.realpath(file), os.O_RDONLY), "rb") as stream:
            data = stream.read(max_bytes + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise SourceError(f"{shown} cannot be read: {error.strerror}.", file=shown) from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"{shown}, line {line}: this is not UTF-8: save the file in that encoding."
        raise SourceError(message, file=shown, line=line) from None
    if len(data) > max_bytes:
        raise SourceError(f"{shown} is too large: at most {max_bytes:,} bytes are read.", file=shown)
    return text


def read_bounded(file: IO[bytes]) -> bytes:
    """Return the content of an open file. Raises OSError for more than `MAX_BYTES`."""
    content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(errno.EFBIG, f"It has more than {MAX_BYTES:,} bytes")
    return content


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


def open_below(root: Path, path: Path) -> int:
    """Open a regular file below a folder to read it, and follow no link on the way, also none that was just put there.

    `path` begins with `root` and has no `..`. Raises OSError. Where the system opens no name in the folder of a
    descriptor (Windows), links that are put there in this moment are followed.
    """
    *folders, name = path.relative_to(root).parts or (".",)
    if os.open not in os.supports_dir_fd:
        return open_regular(path, os.O_RDONLY)
    descriptor = os.open(root, _FOLDER_FLAGS)
    try:
        for folder in folders:
            inner = os.open(folder, _FOLDER_FLAGS, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        return open_regular(name, os.O_RDONLY, folder=descriptor)
    finally:
        os.close(descriptor)


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
