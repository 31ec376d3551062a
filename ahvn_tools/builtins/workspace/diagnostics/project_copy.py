"""ProjectCopy: the source files of a project without its settings, plugins, links and programs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ahvn_tools.builtins.processes.private_folder import private_folder


class ProjectCopy:
    """A folder with copies of source files, which checkers read instead of the project itself."""

    def __init__(self, folder: Path) -> None:
        self.settings_folder = folder
        """The folder above the files: checkers run in it, and find the settings that they write themselves."""
        self.folder = folder / "project"
        self.folder.mkdir()

    def add(self, path: str, content: bytes) -> None:
        """Copy a file; its path is relative, with /."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)

    def read(self, path: str) -> bytes:
        """Return the content of a copied file."""
        return (self.folder / path).read_bytes()

    def absolute(self, path: str) -> str:
        """Return the absolute path of a copied file: no program reads it as an option."""
        return str(self.folder / path)

    def relative(self, path: str) -> str | None:
        """Return the path of a copied file as it was added, from an absolute one or one as checkers see it."""
        full = os.path.normpath(self.settings_folder / path)
        return Path(full).relative_to(self.folder).as_posix() if Path(full).is_relative_to(self.folder) else None


@contextmanager
def project_copy() -> Iterator[ProjectCopy]:
    """Yield an empty copy, which is deleted afterwards."""
    with tempfile.TemporaryDirectory(dir=private_folder.path, prefix="check-", ignore_cleanup_errors=True) as folder:
        yield ProjectCopy(Path(folder))
