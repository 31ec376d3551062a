"""What only this Python process and its programs have: a private folder, files in memory, a short environment."""

from __future__ import annotations

import atexit
import os
import stat
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO


def delete_folder(path: Path) -> None:
    """Delete a folder in which no process writes any more. What this user cannot delete stays."""
    with suppress(OSError):  # code that runs as root without a sandbox can make a file that nobody can delete
        while folders := _delete_files(path):
            for folder in folders:
                _dissolve(folder, path)
        path.rmdir()


def _dissolve(folder: str, target: Path) -> None:
    """Delete a folder; its own folders become members of `target`, so that no path gets long."""
    for inner in _delete_files(folder):
        os.rename(inner, target / uuid.uuid4().hex)  # noqa: PTH104  # the name may be no text
    os.rmdir(folder)  # noqa: PTH106


def _delete_files(folder: str | Path) -> list[str]:
    """Delete all but the folders in a folder, and return those, made writable so that they can be moved."""
    with os.scandir(folder) as entries:
        members = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for path, is_folder in members:
        if is_folder:
            os.chmod(path, stat.S_IRWXU)  # noqa: PTH101
        else:
            os.unlink(path)  # noqa: PTH108
    return [path for path, is_folder in members if is_folder]


_PREFIX = "ahvn-tools-"
_MIN_AGE = 86_400.0
"""Seconds without a change after which the folder of a Python that was killed is removed."""


class PrivateFolder:
    """A folder that only this user can read. It is made at its first use, and removed when Python ends.

    A Python process that is killed leaves its folder. The next one removes it when it is a day old.
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._lock = threading.Lock()

    @property
    def path(self) -> Path:
        """The folder, whose name is unknown to others until it is made."""
        with self._lock:
            if self._path is None or not self._path.is_dir():
                self._path = Path(os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX)))
                if os.name == "posix":  # pragma: no branch  # Windows has no such locks
                    _lock_folder(self._path)  # open until this process ends
                    remove_abandoned_folders(self._path.parent)
                atexit.register(delete_own_folder, self._path, os.getpid())
            return self._path

    @property
    def home(self) -> Path:
        """The home folder of programs that run without a sandbox."""
        home = self.path / "home"
        home.mkdir(mode=0o700, exist_ok=True)
        return home

    def new_file(self, name: str) -> BinaryIO:
        """Make a file with a name of its own, and return it open and unbuffered."""
        descriptor, path = tempfile.mkstemp(prefix=f"{name}-", dir=self.path)
        os.close(descriptor)
        return Path(path).open("r+b", buffering=0)


def delete_own_folder(path: Path, process: int) -> None:
    """Delete a folder that this process has made; a forked copy of it leaves the folder."""
    if os.getpid() == process:
        delete_folder(path)


def remove_abandoned_folders(parent: Path) -> None:
    """Remove private folders of this user that no process has locked, and that are a day old."""
    with os.scandir(parent) as entries:
        paths = [Path(entry.path) for entry in entries if entry.name.startswith(_PREFIX) and _is_old(entry)]
    for path in paths:
        if (lock := _lock_folder(path)) is not None:
            delete_folder(path)
            os.close(lock)


def _is_old(entry: os.DirEntry[str]) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return False  # another process has removed it
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return is_own and time.time() - status.st_mtime > _MIN_AGE


def _lock_folder(path: Path) -> int | None:
    """Return the descriptor that holds the lock of a folder; None if another process has the lock."""
    import fcntl  # Windows does not have it

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


private_folder = PrivateFolder()


_INHERITED = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_TIME", "TZ")


def clean_environment(*names: str, **variables: str) -> dict[str, str]:
    """Return PATH, the language, the time zone, a private HOME, a plain TERM, and the given variables.

    `names` are variables of this process to pass on, if it has them. HOME is an empty folder that only this user can
    read. Relative folders of PATH are left out: they would name programs of the folder in which the process runs.
    """
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    named = {name: os.environ[name] for name in names if name in os.environ}
    return {
        "LANG": "C.UTF-8",
        **inherited,
        "PATH": _absolute_path(),
        "TERM": "dumb",
        "HOME": str(private_folder.home),
        **named,
        **variables,
    }


def _absolute_path() -> str:
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if folder.startswith("/")) or os.defpath


@contextmanager
def as_file(data: bytes | IO[bytes]) -> Iterator[int | IO[bytes]]:
    """Give data as a file, so that the caller need not wait until the program reads it. A file stays as it is."""
    if not isinstance(data, bytes):
        yield data
        return
    if not data:
        yield subprocess.DEVNULL
        return
    with _open_in_memory() as file:
        file.write(data)
        file.seek(0)
        yield file


def _open_in_memory() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("stdin"), "w+b")
    return tempfile.TemporaryFile()
