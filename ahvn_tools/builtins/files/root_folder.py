"""RootFolder: a folder that tools may use, which every call opens and checks to be the same one as before."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ahvn_tools.builtins.files.beneath import FOLDER_PART, Technique, open_without_links
from ahvn_tools.builtins.files.file_errors import REPLACED_ROOT
from ahvn_tools.errors import DefinitionError, ToolError
from ahvn_tools.roots import LinkedRoot, shown_path


@dataclass(frozen=True, kw_only=True, slots=True)
class RootFolder:
    """A folder that tools may use.

    It has no descriptor between calls, so that it can be pickled and forked, and a folder can be deleted or unmounted.
    """

    path: Path
    """Absolute, without links. A LinkedRoot knows by which link the host named it."""
    identity: tuple[int, int] | None
    """Device and inode of the folder when the host named it. None for a part of another root."""
    container: RootFolder | None = None
    """The root that this one is a part of: it is opened beneath it."""

    @classmethod
    def named_by_host(cls, path: Path) -> RootFolder:
        """Return a root. Raises DefinitionError for what is no folder."""
        try:
            status = path.stat()
        except OSError as error:
            raise DefinitionError(
                f"The root {str(path)!r} cannot be used: {error.strerror}. Make the folder first."
            ) from None
        if not stat.S_ISDIR(status.st_mode):
            raise DefinitionError(f"The root {str(path)!r} is no folder. Pass the folder that it is in.")
        return cls(path=path, identity=(status.st_dev, status.st_ino))

    def part(self, path: Path) -> RootFolder:
        """Return a folder beneath this one as a root."""
        if path == self.path:
            return self
        link = shown_path(path, [path, self.path])
        return RootFolder(path=path if link == path else LinkedRoot.create(path, link), identity=None, container=self)

    @contextmanager
    def opened(self, technique: Technique) -> Iterator[int]:
        """Open the folder and yield its descriptor. Raises ToolError if another one has its place."""
        descriptor = self._open(technique)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _open(self, technique: Technique) -> int:
        if self.container is None:
            return self._open_same()
        try:
            with self.container.opened(technique) as outer:
                relative = self.path.relative_to(self.container.path).as_posix()
                return open_without_links(outer, relative, FOLDER_PART, technique)
        except OSError as error:
            raise _to_error(error) from None

    def _open_same(self) -> int:
        try:
            descriptor = os.open(self.path, FOLDER_PART | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise _to_error(error) from None
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) != self.identity:
            os.close(descriptor)
            raise ToolError(REPLACED_ROOT)
        return descriptor


def _to_error(error: OSError) -> ToolError:
    if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
        return ToolError(REPLACED_ROOT)
    return ToolError(f"The folder that this tool may use cannot be opened: {error.strerror}. Try again later.")
