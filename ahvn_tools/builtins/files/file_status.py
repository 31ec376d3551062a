"""What the system knows about files and folders."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Final, Literal

FileKind = Literal["file", "folder", "link", "other"]

_KINDS: Final[dict[int, FileKind]] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}


@dataclass(frozen=True, kw_only=True, slots=True)
class FileStatus:
    """What the system knows about a file or folder."""

    kind: FileKind
    size: int
    """Bytes."""
    modified_ns: int
    mode: int
    """The permission bits."""
    inode: int
    device: int
    links: int
    """The number of names that the file has."""

    @classmethod
    def from_stat(cls, status: os.stat_result) -> FileStatus:
        """Return what `os.stat` returned."""
        return cls(
            kind=_KINDS.get(stat.S_IFMT(status.st_mode), "other"),
            size=status.st_size, modified_ns=status.st_mtime_ns, mode=stat.S_IMODE(status.st_mode),
            inode=status.st_ino, device=status.st_dev, links=status.st_nlink,
        )  # fmt: skip

    @property
    def version(self) -> tuple[int, int, int, int]:
        """What differs when the content was replaced or changed."""
        return self.device, self.inode, self.size, self.modified_ns


@dataclass(frozen=True, slots=True)
class Entry:
    """A member of a folder; links are not followed."""

    name: str
    """The name. Bytes in it that are no UTF-8 are escaped: backslash, x, ff; a path cannot name such a file."""
    status: FileStatus


def readable_name(name: str) -> str:
    """Return a name as Python has it with bytes that are no UTF-8 escaped."""
    return name if name.isascii() else os.fsencode(name).decode(errors="backslashreplace")
