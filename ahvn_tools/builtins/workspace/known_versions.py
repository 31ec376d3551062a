"""KnownVersions: which content of a file a session has read or written, so that it does not overwrite another one."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final

Key = tuple[str | None, Path]

_LOCKS: Final = 64
"""Several files share a lock."""


class KnownVersions:
    """The content and encoding of each file as each session last read or wrote it: of the most recent files only."""

    def __init__(self, max_files: int = 10_000) -> None:
        """`max_files` counts all sessions together; what was read and written least recently is forgotten first."""
        self._known: OrderedDict[Key, tuple[bytes, str]] = OrderedDict()
        self._max_files = max_files
        self._lock = threading.Lock()
        self._file_locks = tuple(threading.Lock() for _ in range(_LOCKS))

    def locked(self, session: str | None, file: Path) -> threading.Lock:
        """Return the lock of a file in a session, for a read or write and what is remembered of it.

        Without it, a read of the old content could be remembered after an edit that has ended meanwhile. A call that
        has the lock must not wait for another lock.
        """
        return self._file_locks[hash((session, file)) % _LOCKS]

    def remember(self, session: str | None, file: Path, content: bytes, encoding: str) -> None:
        """Store that the session has read or written this content in this encoding."""
        known = _digest(content), encoding
        with self._lock:
            self._known[session, file] = known
            self._known.move_to_end((session, file))
            while len(self._known) > self._max_files:
                self._known.popitem(last=False)

    def encoding(self, session: str | None, file: Path) -> str | None:
        """Return the encoding in which the session has read or written the file last; None if it has not."""
        with self._lock:
            known = self._known.get((session, file))
        return None if known is None else known[1]

    def is_known(self, session: str | None, file: Path) -> bool:
        """Return whether the session has read or written the file."""
        with self._lock:
            return (session, file) in self._known

    def is_stale(self, session: str | None, file: Path, content: bytes) -> bool:
        """Return whether the session has read or written the file, and it has another content now."""
        with self._lock:
            known = self._known.get((session, file))
        return known is not None and known[0] != _digest(content)

    def move(self, session: str | None, file: Path, target: Path) -> None:
        """Know a file under its new path."""
        with self._lock:
            if (known := self._known.pop((session, file), None)) is not None:
                self._known[session, target] = known


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
