"""The stores of large results: in memory or in a folder, each result for the session whose call returned it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import stat
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Final, Protocol

from ahvn_tools.errors import ToolSpecError
from ahvn_tools.middleware.kept_json import Index, dump_index, load_index
from ahvn_tools.middleware.kept_text import TextInMemory
from ahvn_tools.regular_file import open_regular

log = logging.getLogger(__name__)

_HANDLE: Final = re.compile(r"result_[0-9a-f]{32}")
"""128 random bits: clients that cannot be distinguished have nothing else that others do not have."""
_ENCODINGS: Final = (("latin-1", 1), ("utf-16-le", 2), ("utf-32-le", 4))
"""With as many bytes for each character, so that any character of a file is found without reading those before it."""

_HEADER_BYTES: Final = 16
"""At the beginning of a file: the width of a character, and how many bytes the index after it has, in hex."""

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)

_LOOK_SECONDS: Final = 1.0
"""How often at most a process looks for the files of others: with many files this takes long."""

_MAX_HIDDEN: Final = 1_000
"""For how many results in files a process remembers what no report may show."""

_WRITTEN_CHARS: Final = 1 << 20


@dataclass(frozen=True, eq=False)
class Owner:
    """The session that results are kept for."""

    anchor: Any
    """An object that lives as long as the session."""
    ids: tuple[str, ...] | None
    """By which the session is opened again, in another process, too; None for one that ends with its anchor, and () for
    all clients that a server cannot distinguish."""


Hidden = Mapping[str, Sequence[str]]
"""The texts of bound values and secrets, by parameter."""


@dataclass(frozen=True, eq=False)
class KeptText(TextInMemory):
    """A result in memory, as a text."""

    index: Index | None = None
    """That of JSON; None for any other text."""
    hidden: Hidden = field(default_factory=dict, repr=False)
    """What no report of a call may show that reads the result."""


class KeptFile:
    """A result in an open file, as a text."""

    hidden: Hidden = MappingProxyType({})
    """As that of KeptText, if this process has kept the result: the file does not have it."""

    def __init__(self, file: IO[bytes]) -> None:
        """Read the header and the index. Raises ValueError, TypeError and KeyError for a file of something else."""
        header = file.read(_HEADER_BYTES)
        self._file, self._width, index_bytes = file, int(header[:1]), int(header[1:], 16)
        self._encoding = {width: encoding for encoding, width in _ENCODINGS}[self._width]
        self._begin = _HEADER_BYTES + index_bytes
        self.index = load_index(file.read(index_bytes)) if index_bytes else None
        self.length = (os.fstat(file.fileno()).st_size - self._begin) // self._width

    def read(self, start: int, end: int) -> str:
        """Return these characters."""
        self._file.seek(self._begin + start * self._width)
        content = self._file.read(max(min(end, self.length) - start, 0) * self._width)
        return content.decode(self._encoding, "surrogatepass" if self._width > 1 else "strict")


Kept = KeptText | KeptFile


class Store(Protocol):
    """Where results are kept."""

    def keep(self, owner: Owner, content: KeptText, size: int) -> str | None:
        """Keep a result of about `size` bytes, and return its handle; None if it cannot be kept."""

    def find(self, owner: Owner, handle: str) -> AbstractContextManager[Kept | None]:
        """Open a result of this session; None if it has none with this handle, or no longer."""


def _new_handle() -> str:
    return f"result_{secrets.token_hex(16)}"


@dataclass(frozen=True, eq=False)
class _Item:
    """One result in memory."""

    content: KeptText
    size: int
    since: float = field(default_factory=time.monotonic)


class MemoryStore:
    """Results in memory, at most `max_bytes` in all, for at most `max_age` seconds; the oldest are dropped first."""

    def __init__(self, max_bytes: int, max_age: float) -> None:
        self._max_bytes, self._max_age = max_bytes, max_age
        self._lock = threading.Lock()
        self._by_session: weakref.WeakKeyDictionary[Any, dict[str, _Item]] = weakref.WeakKeyDictionary()
        """The results of each session by their handles, under its anchor."""

    def keep(self, owner: Owner, content: KeptText, size: int) -> str | None:
        """Keep a result."""
        if size > self._max_bytes:
            return None
        handle = _new_handle()
        with self._lock:
            self._by_session.setdefault(owner.anchor, {})[handle] = _Item(content, size)
            self._drop()
        return handle

    def _drop(self) -> None:
        """Drop what is too old or too much."""
        total, oldest = 0, time.monotonic() - self._max_age
        kept = [(item, handle, items) for items in self._by_session.values() for handle, item in items.items()]
        for item, handle, items in sorted(kept, key=lambda one: one[0].since, reverse=True):
            total += item.size
            if total > self._max_bytes or item.since < oldest:
                del items[handle]

    @contextlib.contextmanager
    def find(self, owner: Owner, handle: str) -> Generator[Kept | None]:
        """Open a result."""
        with self._lock:
            self._drop()
            item = self._by_session.get(owner.anchor, {}).get(handle)
        yield None if item is None else item.content


class FolderStore:
    """Results as files, at most `max_bytes` in all, for at most `max_age` seconds; the oldest are dropped first.

    A session with ids has a folder that other processes find. The others have folders in that of this process, which
    has a locked file beside it: what a killed process leaves is removed by the next one. What another process
    writes counts a second later.
    """

    def __init__(self, path: str | os.PathLike[str], max_bytes: int, max_age: float) -> None:
        """Use a folder, which is made if it does not exist. Raises ToolSpecError for one that others may change."""
        self._max_bytes, self._max_age = max_bytes, max_age
        self._root = _private_folder(Path(path))
        self._lock = threading.Lock()
        self._known_bytes, self._looked_at = 0, 0.0
        """How many bytes there are, with what this process has written since it looked, and when it did."""
        self._own: Path | None = None
        self._folders: weakref.WeakKeyDictionary[Any, Path] = weakref.WeakKeyDictionary()
        self._hidden: OrderedDict[str, Hidden] = OrderedDict()
        """Of the latest results, by their handles."""
        _remove_abandoned(self._root)
        self._drop()

    def keep(self, owner: Owner, content: KeptText, size: int) -> str | None:
        """Keep a result in a file."""
        if size > self._max_bytes:
            return None
        handle = _new_handle()
        try:
            folder = self._folder(owner)
            folder.mkdir(mode=0o700, exist_ok=True)
            _write(folder / handle, content)
            self._hidden[handle] = content.hidden
            while len(self._hidden) > _MAX_HIDDEN:
                self._hidden.popitem(last=False)
            self._known_bytes += (folder / handle).stat().st_size
            if self._known_bytes > self._max_bytes or time.monotonic() - self._looked_at > _LOOK_SECONDS:
                self._drop()
        except OSError as error:
            log.warning("A large result cannot be kept in %s: %s.", self._root, error.strerror)
            return None
        return handle

    def _folder(self, owner: Owner) -> Path:
        if owner.ids is not None:
            digest = hashlib.sha256(json.dumps(owner.ids).encode()).hexdigest()
            return self._root / f"session-{digest}"
        with self._lock:
            if self._own is None:
                self._own, lock, descriptor = _own_folder(self._root)
                weakref.finalize(self, _remove_own, self._own, os.getpid(), lock, descriptor)
            folder = self._folders.get(owner.anchor)
            if folder is None:
                folder = self._folders[owner.anchor] = self._own / secrets.token_hex(16)
                weakref.finalize(owner.anchor, _remove_own, folder, os.getpid())
            return folder

    def _drop(self) -> None:
        """Remove files that are too old or too many bytes, also those of other processes."""
        files = sorted(_files(self._root))
        total, oldest = sum(size for _, size, _ in files), time.time() - self._max_age
        for since, size, path in files:
            if total <= self._max_bytes and since >= oldest:
                break
            total -= size
            with contextlib.suppress(OSError):  # another process has removed it
                path.unlink()
        self._known_bytes, self._looked_at = total, time.monotonic()

    @contextlib.contextmanager
    def find(self, owner: Owner, handle: str) -> Generator[Kept | None]:
        """Open the file of a result."""
        file = self._open(owner, handle) if _HANDLE.fullmatch(handle) else None
        if file is None:
            yield None
            return
        with file:
            is_kept = os.fstat(file.fileno()).st_mtime >= time.time() - self._max_age
            try:
                kept = KeptFile(file) if is_kept else None
                if kept is not None:
                    kept.hidden = self._hidden.get(handle, kept.hidden)
            except (ValueError, TypeError, KeyError, AttributeError):
                kept = None
            yield kept

    def _open(self, owner: Owner, handle: str) -> IO[bytes] | None:
        try:
            return os.fdopen(open_regular(self._folder(owner) / handle, os.O_RDONLY), "rb")
        except OSError:
            return None


def _private_folder(path: Path) -> Path:
    """Return a folder that only this user can change. Raises ToolSpecError for any other."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise ToolSpecError(f"Large results cannot be kept in {os.fspath(path)!r}: {error.strerror}.") from None
    is_others = os.name == "posix" and (status.st_uid != os.geteuid() or status.st_mode & 0o022)
    if not stat.S_ISDIR(status.st_mode) or is_others:
        raise ToolSpecError(
            f"Large results cannot be kept in {os.fspath(path)!r}: it must be a folder, and no link, which belongs to "
            "this user and which no other user can change."
        )
    return path.resolve()


def _write(path: Path, content: KeptText) -> None:
    """Write a file whole or not at all. Raises OSError."""
    index = b"" if content.index is None else dump_index(content.index)
    temporary = path.with_name(f"{path.name}.new")
    try:
        with os.fdopen(os.open(temporary, _NEW_FILE, 0o600), "wb") as file:
            for encoding, width in _ENCODINGS:
                with contextlib.suppress(UnicodeEncodeError):
                    file.seek(0)
                    file.write(f"{width}{len(index):0{_HEADER_BYTES - 1}x}".encode() + index)
                    file.writelines(_encoded(content.text, encoding, width))
                    file.truncate()
                    break
        temporary.rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _encoded(text: str, encoding: str, width: int) -> Iterator[bytes]:
    """Yield a text in parts. Raises UnicodeEncodeError for a character that is wider."""
    for start in range(0, len(text), _WRITTEN_CHARS):
        part = text[start : start + _WRITTEN_CHARS]
        encoded = part.encode(encoding, "surrogatepass" if width == max(_ENCODINGS)[1] else "strict")
        if len(encoded) != len(part) * width:
            raise UnicodeEncodeError(encoding, part, 0, len(part), "a character is wider")
        yield encoded


def _files(root: Path) -> Iterator[tuple[float, int, Path]]:
    """Yield the results in a folder: since when each is there, its size in bytes and its path."""
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            with contextlib.suppress(OSError):  # another process has removed it
                if _HANDLE.match(name):
                    status = path.lstat()
                    yield status.st_mtime, status.st_size, path


def _own_folder(root: Path) -> tuple[Path, Path, int]:
    """Return a new folder for a process, the file beside it, and the descriptor that locks that. Raises OSError."""
    while True:
        folder = root / f"process-{secrets.token_hex(16)}"
        lock = folder.with_suffix(".lock")
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        if _lock(descriptor) and lock.exists():  # another process may have removed it before it was locked
            folder.mkdir(mode=0o700)
            return folder, lock, descriptor
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock an open file, and return whether no other process has it locked."""
    try:
        import fcntl  # Windows has no such module
    except ModuleNotFoundError:  # pragma: no cover
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove_abandoned(root: Path) -> None:
    """Remove the folders of processes that have ended without doing so."""
    if os.name != "posix":  # pragma: no cover  # without locks, files are removed by their age
        return
    for lock in root.glob("process-*.lock"):
        with contextlib.suppress(OSError):
            descriptor = open_regular(lock, os.O_RDWR)
            if _lock(descriptor):
                shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                lock.unlink()
            os.close(descriptor)


def _remove_own(folder: Path, process: int, lock: Path | None = None, descriptor: int | None = None) -> None:
    """Remove a folder of this process, and its lock; a forked copy of the process leaves them."""
    if os.getpid() != process:
        return
    shutil.rmtree(folder, ignore_errors=True)
    if lock is not None and descriptor is not None:
        lock.unlink(missing_ok=True)
        os.close(descriptor)
