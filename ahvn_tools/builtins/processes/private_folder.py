"""The private folder of this Python process: output that is read back later, and the home folder of programs."""

from __future__ import annotations

import atexit
import os
import stat
import tempfile
import threading
import time
from pathlib import Path
from typing import BinaryIO

from ahvn_tools.builtins.processes.folder_deletion import delete_folder

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
