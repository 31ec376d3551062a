"""ConfinedPaths: opens the paths that models write, beneath the roots and nowhere else."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ahvn_tools.builtins.files.atomic_write import sweep
from ahvn_tools.builtins.files.beneath import FOLDER, Technique, make_parts, open_following, open_without_links
from ahvn_tools.builtins.files.file_errors import to_tool_error, tool_errors
from ahvn_tools.builtins.files.folder_lock import locked_folder
from ahvn_tools.builtins.files.root_folder import RootFolder
from ahvn_tools.errors import ToolError
from ahvn_tools.roots import OUTSIDE, resolve_path, to_local_path

_ATTEMPTS: Final = 20
"""How often a path is looked up that another program exchanges meanwhile."""
_NO_FOLDERS: Final = (
    "No folder may be used in this call: those of the call are not in the folders of this tool. Tell the user."
)
_OUTSIDE_CALL: Final = "The path is outside of the folders that this call may use. Pass a path inside of them."
_EXCHANGED: Final = {errno.ELOOP, errno.ENOTDIR, errno.EXDEV, errno.EAGAIN}


@dataclass(frozen=True, slots=True)
class ConfinedPaths:
    """Paths beneath a few folders. Methods raise ToolError for paths that lead elsewhere and for system errors."""

    folders: tuple[RootFolder, ...]
    technique: Technique
    base: Path | None = None
    """Where relative paths begin; None: in the first folder."""

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders as absolute paths without links."""
        return tuple(folder.path for folder in self.folders)

    def narrowed(self, roots: tuple[Path, ...]) -> ConfinedPaths:
        """Return the paths that are beneath one of `roots`, too."""
        inner = [mine if mine.path.is_relative_to(other) else mine.part(other) for other in roots
                 for mine in self.folders
                 if mine.path.is_relative_to(other) or other.is_relative_to(mine.path)]  # fmt: skip
        unique: dict[Path, RootFolder] = {}
        for folder in inner:
            unique.setdefault(folder.path, folder)
        return ConfinedPaths(tuple(unique.values()), self.technique)

    def replaced(self, roots: tuple[Path, ...]) -> ConfinedPaths:
        """Return the paths that are beneath one of `roots`. Relative ones begin where they begin here."""
        everything = ConfinedPaths((RootFolder.named_by_host(Path("/")),), self.technique)
        return replace(everything.narrowed(roots), base=self.first)

    @property
    def first(self) -> Path:
        """The folder in which relative paths begin. Raises ToolError if there is none."""
        if not self.folders:
            raise ToolError(_NO_FOLDERS)
        return self.base or self.folders[0].path

    def locate(self, path: str) -> Path:
        """Return the absolute path without links and `..`. Opens nothing."""
        return self._resolve(to_local_path(path))

    def locate_name(self, path: str) -> Path:
        """Return the absolute path of a name that may be a link itself. ToolError for a root and what contains one."""
        text = to_local_path(path).rstrip("/") or "/"
        parent, name = os.path.split(self._join(text))
        try:
            place = self.locate(path) if name in {"", ".", ".."} else self._resolve(parent) / name
        except ToolError:
            place = self.locate(path)  # a root, whose own folder is outside; ToolError for other paths
        if any(root.is_relative_to(place) for root in self.roots):
            raise ToolError(
                f"{path!r} is one of the folders that this tool may use, or contains one. It stays where it is."
            )
        return place

    def open(self, path: str, flags: int) -> int:
        """Return a descriptor of a file or folder, through links inside of the roots; the caller closes it."""
        if self.technique == "openat2" and (descriptor := self._open_directly(path, flags)) is not None:
            return descriptor
        return self._open_again(path, lambda: self.locate(path), flags)

    @contextmanager
    def opened_parent(self, path: str, *, is_link_followed: bool) -> Iterator[tuple[int, str]]:
        """Yield a descriptor of the folder that a path is in, and its name there."""
        folder, name = self._open_parent(path, is_link_followed=is_link_followed)
        try:
            yield folder, name
        finally:
            os.close(folder)

    @contextmanager
    def locked_parent(
        self, path: str, is_cancelled: Callable[[], bool], *, is_link_followed: bool
    ) -> Iterator[tuple[int, str]]:  # fmt: skip
        """Yield what `opened_parent` does, while no other change in the folder runs."""
        for _ in range(_ATTEMPTS):
            with (
                self.opened_parent(path, is_link_followed=is_link_followed) as (folder, name),
                locked_folder(folder, is_cancelled=is_cancelled) as is_shared,
            ):
                if not self._is_parent(path, folder, name, is_link_followed=is_link_followed):
                    continue  # another folder has its place since this call has waited for the lock
                if is_shared:
                    sweep(folder)
                yield folder, name
                return
        raise to_tool_error(path, OSError(errno.ELOOP, "")) from None

    def make_folders(self, path: str, place: Path) -> None:
        """Make the folder of a path that `locate` returned, part by part from its root; existing ones stay."""
        folder = self._root_of(place)
        with folder.opened(self.technique) as root, tool_errors(path):
            make_parts(root, place.relative_to(folder.path).parts)

    def _open_directly(self, path: str, flags: int) -> int | None:
        """Open a path by one system call. Return None if that fails, for whatever reason: then it is resolved first."""
        text = self._join(to_local_path(path))
        for folder in self.folders:
            prefix = str(folder.path).rstrip("/") + "/"
            if text.startswith(prefix):
                with folder.opened(self.technique) as root:
                    try:
                        return open_following(root, text[len(prefix) :].lstrip("/") or ".", flags)
                    except OSError:
                        return None
        return None

    def _open_parent(self, path: str, *, is_link_followed: bool) -> tuple[int, str]:
        name = ""

        def locate_parent() -> Path:
            nonlocal name
            place = self.locate(path) if is_link_followed else self.locate_name(path)
            if place in self.roots:
                raise ToolError(f"{path!r} is a folder.")
            name = place.name
            return place.parent

        return self._open_again(path, locate_parent, FOLDER), name

    def _is_parent(self, path: str, folder: int, name: str, *, is_link_followed: bool) -> bool:
        """Return whether a path is still the one of this name in the folder of this descriptor."""
        with self.opened_parent(path, is_link_followed=is_link_followed) as (current, current_name):
            return current_name == name and os.path.sameopenfile(current, folder)

    def _open_again(self, path: str, locate: Callable[[], Path], flags: int) -> int:
        """Open what `locate` returns; again, if another program has put a link there meanwhile."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._open_located(locate(), flags)
            except OSError as error:
                if error.errno not in _EXCHANGED:
                    raise to_tool_error(path, error) from None
        with tool_errors(path):
            return self._open_located(locate(), flags)

    def _open_located(self, place: Path, flags: int) -> int:
        """Open a path that was resolved, so that a link in it is an error. Raises OSError."""
        folder = self._root_of(place)
        with folder.opened(self.technique) as root:
            return open_without_links(root, place.relative_to(folder.path).as_posix(), flags, self.technique)

    def _root_of(self, place: Path) -> RootFolder:
        return next(folder for folder in self.folders if place.is_relative_to(folder.path))

    def _resolve(self, text: str) -> Path:
        path = self._join(text)
        return resolve_path(path, self.roots, outside=OUTSIDE if self.base is None else _OUTSIDE_CALL)

    def _join(self, text: str) -> str:
        """Return the absolute path of a text. It keeps `..` and links, whose meaning only the system knows."""
        base = self.first
        return text if text.startswith("/") else f"{base}/{text}"
