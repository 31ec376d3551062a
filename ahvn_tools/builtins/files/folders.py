"""ConfinedFolders: reads and writes files beneath its roots only, by descriptors that were checked."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

from ahvn_tools.builtins.files import beneath
from ahvn_tools.builtins.files.atomic_write import (
    is_temporary_name,
    locked_folder,
    never_cancelled,
    rename_exclusive,
    status_of,
    sweep,
    write_file,
)
from ahvn_tools.builtins.files.beneath import FOLDER, FOLDER_PART, closing, make_parts, open_without_links
from ahvn_tools.builtins.files.file_status import (
    REPLACED_ROOT,
    FileKind,
    FileStatus,
    readable_name,
    to_tool_error,
    tool_errors,
)
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import DefinitionError, ToolError
from ahvn_tools.roots import OUTSIDE, LinkedRoot, Roots, resolve_path, shown_path, to_local_path, to_roots

__all__ = ["CallRoots", "ConfinedFolders", "FileKind", "FileStatus", "HardLinks"]


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
    def opened(self) -> Iterator[int]:
        """Open the folder and yield its descriptor. Raises ToolError if another one has its place."""
        with closing(self._open()) as descriptor:
            yield descriptor

    def _open(self) -> int:
        try:
            if self.container is not None:
                with self.container.opened() as outer:
                    relative = self.path.relative_to(self.container.path).as_posix()
                    return open_without_links(outer, relative, FOLDER_PART)
            descriptor = os.open(self.path, FOLDER_PART | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise _to_error(error) from None
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) == self.identity:
            return descriptor
        os.close(descriptor)
        raise ToolError(REPLACED_ROOT)


def _to_error(error: OSError) -> ToolError:
    if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
        return ToolError(REPLACED_ROOT)
    return ToolError(f"The folder that this tool may use cannot be opened: {error.strerror}. Try again later.")


_ATTEMPTS: Final = 20
"""How often a path is looked up that another program exchanges meanwhile."""
_NO_FOLDERS: Final = (
    "No folder may be used in this call: those of the call are not in the folders of this tool. Tell the user."
)
_OUTSIDE_CALL: Final = "The path is outside of the folders that this call may use. Pass a path inside of them."
_EXCHANGED: Final = {errno.ELOOP, errno.ENOTDIR, errno.EXDEV, errno.EAGAIN}


HardLinks = Literal["allow", "read", "refuse"]
"""What is done with a file of more than one name: it is used, it is read but not written, or it is not used.

A write replaces one name; the others keep the old content.
"""

CallRoots = Literal["narrow", "replace"]
"""What the roots of a session or call do with the folders of a tool."""


class ConfinedFolders:
    """Folders, and the one way in which built-in tools reach files.

    Paths are texts of a model: relative ones begin in the first root, `file:` URIs are paths. Every method raises
    ToolError, for the model, for a path that leads out of the roots (also through links, also while somebody exchanges
    them), for what is no regular file or folder, and for errors of the system. No message names a place outside.

    A file system that is mounted in a root is a part of the root.
    """

    def __init__(self, roots: Roots, *, hard_links: HardLinks = "read", call_roots: CallRoots = "narrow") -> None:
        """`roots` are folders that exist.

        With `call_roots="replace"` the roots of a call are used instead of these; relative paths still begin in the
        first of these.

        Raises DefinitionError for a root that is no folder, and on Windows, which has no descriptors of folders.
        """
        if hard_links not in ("allow", "read", "refuse"):
            raise DefinitionError(f"`hard_links` is 'allow', 'read' or 'refuse', not {hard_links!r}.")
        if call_roots not in ("narrow", "replace"):
            raise DefinitionError(f"`call_roots` is 'narrow' or 'replace', not {call_roots!r}.")
        if os.open not in os.supports_dir_fd:
            raise DefinitionError("The built-in file tools need Linux or macOS: this system cannot confine paths.")
        folders = tuple(RootFolder.named_by_host(root) for root in to_roots(roots))
        if not folders:
            raise DefinitionError("Without a root there is no file to use. Pass the folders that the tools may use.")
        self.hard_links: HardLinks = hard_links
        self.call_roots: CallRoots = call_roots
        self._folders = folders
        self._base: Path | None = None
        """Where relative paths begin; None: in the first folder."""

    def __repr__(self) -> str:
        return f"<ConfinedFolders {[str(root) for root in self.roots]} hard_links={self.hard_links!r}>"

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders as absolute paths without links; a LinkedRoot also has the path that the host used."""
        return tuple(folder.path for folder in self._folders)

    @property
    def base(self) -> Path:
        """The folder in which relative paths begin. Raises ToolError if there are no folders."""
        if not self._folders:
            raise ToolError(_NO_FOLDERS)
        return self._base or self._folders[0].path

    def for_call(self, context: ToolContext) -> ConfinedFolders:
        """Return the folders that one call may use: those of its roots, if its host has set any."""
        return self.for_roots(context.roots) if context.roots or context.forbids_files else self

    def for_roots(self, roots: tuple[Path, ...]) -> ConfinedFolders:
        """Return the folders that a call with these roots may use."""
        outer = self._folders
        base: Path | None = None
        if self.call_roots == "replace":
            outer, base = (RootFolder.named_by_host(Path("/")),), self.base
        unique: dict[Path, RootFolder] = {}
        for root in roots:
            for folder in outer:
                if folder.path.is_relative_to(root):
                    unique.setdefault(folder.path, folder)
                elif root.is_relative_to(folder.path):
                    unique.setdefault(root, folder.part(root))
        folders = copy(self)
        vars(folders).update(_folders=tuple(unique.values()), _base=base)
        return folders

    def locate(self, path: str) -> Path:
        """Return the absolute path, for messages and the arguments of processes. Opens nothing."""
        return self._resolve(to_local_path(path))

    def display(self, path: str | Path) -> str:
        """Return a path as models read and pass it: relative to the base, absolute elsewhere; with /."""
        return self.shown(self.locate(str(path)))

    def shown(self, absolute: Path) -> str:
        """Return an absolute path without links as `display` does."""
        base = self.base
        inside = absolute.is_relative_to(base)
        return (absolute.relative_to(base) if inside else shown_path(absolute, self.roots)).as_posix()

    def prefix(self, folder: str | Path) -> str:
        """Return what precedes the paths of a walk through a folder, so that models can pass them to other tools."""
        name = self.display(folder)
        return "" if name == "." else f"{name.rstrip('/')}/"

    def status(self, path: str) -> FileStatus:
        """Return the status of a file or folder; of what a link leads to."""
        with closing(self._open(path, beneath.PATH_ONLY)) as descriptor:
            return FileStatus.from_stat(os.fstat(descriptor))

    def exists(self, path: str) -> bool:
        """Return whether there is a file or folder; False also for a path that cannot be used."""
        try:
            self.status(path)
        except ToolError:
            return False
        return True

    @contextmanager
    def open(self, path: str) -> Iterator[tuple[BinaryIO, FileStatus]]:
        """Open a regular file to read it."""
        descriptor, status = self._open_file(path)
        with os.fdopen(descriptor, "rb") as file:
            yield file, FileStatus.from_stat(status)

    def read(self, path: str, *, max_bytes: int) -> tuple[bytes, FileStatus]:
        """Return the whole content; ToolError with the size for a larger file."""
        descriptor, status = self._open_file(path)
        with closing(descriptor):
            return _read_all(path, descriptor, status.st_size, max_bytes), FileStatus.from_stat(status)

    def check_update(self, path: str) -> None:
        """Raise ToolError for a file that `update` would refuse: read-only, or with other names."""
        with self._opened_parent(path, is_link_followed=True) as (folder, name), tool_errors(path):
            self._check_replaced(path, folder, name, os.stat(name, dir_fd=folder, follow_symlinks=False))

    def status_of_name(self, path: str) -> FileStatus:
        """Return the status of a file, folder or link, not of what a link leads to."""
        with self._opened_parent(path, is_link_followed=False) as (folder, name), tool_errors(path):
            return FileStatus.from_stat(os.stat(name, dir_fd=folder, follow_symlinks=False))

    def is_read_only(self, path: str) -> bool:
        """Return whether a path is a file that its permissions protect from changes; False for a link and a folder."""
        with self._opened_parent(path, is_link_followed=False) as (folder, name), tool_errors(path):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            return stat.S_ISREG(status.st_mode) and _is_read_only(folder, name, status)

    def scan(self, path: str) -> dict[str, FileKind]:
        """Return the kinds of the members of a folder by name, in any order; links are not followed.

        Bytes in a name that are no UTF-8 are escaped: backslash, x, ff. A path cannot name such a file.
        """
        with closing(self.open_folder(path)) as descriptor, tool_errors(path), os.scandir(descriptor) as members:
            return {
                readable_name(member.name): _kind(member) for member in members if not is_temporary_name(member.name)
            }

    def open_folder(self, path: str) -> int:
        """Return a descriptor of a folder, to list it; the caller closes it."""
        return self._open(path, beneath.FOLDER)

    def create(
        self, path: str, content: bytes, *, overwrite: bool = False,
        is_cancelled: Callable[[], bool] = never_cancelled,
    ) -> FileStatus:  # fmt: skip
        """Write a new file atomically, with its folders; ToolError if it exists, unless it may be overwritten."""
        if (place := self.locate(path)) not in self.roots:
            self._make_folders(path, place.parent)
        parent = self._locked_parent(path, is_cancelled, is_link_followed=True)
        with parent as (folder, name), tool_errors(path):
            old = status_of(folder, name)
            if old is not None:
                if not overwrite:
                    raise ToolError(f"{path!r} exists already. Nothing was written.")
                self._check_replaced(path, folder, name, old)
            return write_file(folder, name, content, old=old)

    def update(
        self, path: str, change: Callable[[bytes, FileStatus], bytes], *, max_bytes: int,
        is_cancelled: Callable[[], bool] = never_cancelled,
    ) -> FileStatus:  # fmt: skip
        """Replace the content by what `change` returns for it, atomically, and return the new status.

        Updates of one file, also by other processes that use this method, run one after the other. Mode and links stay.
        A read-only file, and one whose owner could not stay, is a ToolError.
        What `change` raises leaves the file as it is. So does a change by another program meanwhile: it is a ToolError.
        """
        with self._locked_parent(path, is_cancelled, is_link_followed=True) as (folder, name):
            with tool_errors(path):
                content, old = self._read_to_change(path, folder, name, max_bytes)
            status = FileStatus.from_stat(old)
            changed = change(content, status)
            with tool_errors(path):
                now = status_of(folder, name)
                if now is None or FileStatus.from_stat(now).version != status.version:
                    raise ToolError(f"{path!r} was changed by another program at this moment. Read it again.")
                return write_file(folder, name, changed, old=old)

    def make_folder(self, path: str) -> None:
        """Make a folder and its parents; nothing if it exists."""
        self._make_folders(path, self.locate(path))

    def delete(
        self, path: str, *, approved: FileStatus | None = None, is_cancelled: Callable[[], bool] = never_cancelled
    ) -> None:
        """Delete a file, a link (not what it leads to) or an empty folder.

        Raises ToolError for what is no longer as in its status when the deletion was `approved`.
        """
        parent = self._locked_parent(path, is_cancelled, is_link_followed=False)
        with parent as (folder, name), tool_errors(path):
            status = FileStatus.from_stat(os.stat(name, dir_fd=folder, follow_symlinks=False))
            if approved is not None and (status.version, status.mode) != (approved.version, approved.mode):
                raise ToolError(f"{path!r} has changed since its deletion was approved. Read it again.")
            if status.kind == "folder":
                os.rmdir(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)

    def move(self, source: str, target: str, *, is_cancelled: Callable[[], bool] = never_cancelled) -> None:
        """Rename a file, a folder or a link; ToolError if the target exists."""
        old, new = self._locate_name(source), self._locate_name(target)
        if new != old and new.is_relative_to(old):
            raise ToolError(f"{source!r} cannot be moved into itself. Pass a target outside of it.")
        parent = self._locked_parent(source, is_cancelled, is_link_followed=False)
        with parent as (folder, name), tool_errors(source):
            os.stat(name, dir_fd=folder, follow_symlinks=False)
            self._make_folders(target, new.parent)
            with self._opened_parent(target, is_link_followed=False) as (target_folder, target_name):
                _rename(target, folder, name, target_folder, target_name)

    def _locate_name(self, path: str) -> Path:
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

    def _open(self, path: str, flags: int) -> int:
        """Return a descriptor of a file or folder, through links inside of the roots; the caller closes it."""
        descriptor = self._open_directly(path, flags)
        return self._open_again(path, lambda: self.locate(path), flags) if descriptor is None else descriptor

    @contextmanager
    def _opened_parent(self, path: str, *, is_link_followed: bool) -> Iterator[tuple[int, str]]:
        """Yield a descriptor of the folder that a path is in, and its name there."""
        folder, name = self._open_parent(path, is_link_followed=is_link_followed)
        with closing(folder):
            yield folder, name

    @contextmanager
    def _locked_parent(
        self, path: str, is_cancelled: Callable[[], bool], *, is_link_followed: bool
    ) -> Iterator[tuple[int, str]]:  # fmt: skip
        """Yield what `_opened_parent` does, while no other change in the folder runs."""
        for _ in range(_ATTEMPTS):
            with (
                self._opened_parent(path, is_link_followed=is_link_followed) as (folder, name),
                locked_folder(folder, is_cancelled=is_cancelled) as is_shared,
            ):
                if not self._is_parent(path, folder, name, is_link_followed=is_link_followed):
                    continue  # another folder has its place since this call has waited for the lock
                if is_shared:
                    sweep(folder)
                yield folder, name
                return
        raise to_tool_error(path, OSError(errno.ELOOP, "")) from None

    def _make_folders(self, path: str, place: Path) -> None:
        """Make the folder of a path that `locate` returned, part by part from its root; existing ones stay."""
        folder = self._root_of(place)
        with folder.opened() as root, tool_errors(path):
            make_parts(root, place.relative_to(folder.path).parts)

    def _open_directly(self, path: str, flags: int) -> int | None:
        """Open a path that has no links. Return None if that fails, for whatever reason: then it is resolved first."""
        text = self._join(to_local_path(path))
        for folder in self._folders:
            prefix = str(folder.path).rstrip("/") + "/"
            inner = text.removeprefix(prefix).split("/")
            if text.startswith(prefix) and not {"", ".", ".."}.intersection(inner):
                with folder.opened() as root:
                    try:
                        return open_without_links(root, "/".join(inner), flags)
                    except OSError:
                        return None
        return None

    def _open_parent(self, path: str, *, is_link_followed: bool) -> tuple[int, str]:
        name = ""

        def locate_parent() -> Path:
            nonlocal name
            place = self.locate(path) if is_link_followed else self._locate_name(path)
            if place in self.roots:
                raise ToolError(f"{path!r} is a folder.")
            name = place.name
            return place.parent

        return self._open_again(path, locate_parent, FOLDER), name

    def _is_parent(self, path: str, folder: int, name: str, *, is_link_followed: bool) -> bool:
        """Return whether a path is still the one of this name in the folder of this descriptor."""
        with self._opened_parent(path, is_link_followed=is_link_followed) as (current, current_name):
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
        with folder.opened() as root:
            return open_without_links(root, place.relative_to(folder.path).as_posix(), flags)

    def _root_of(self, place: Path) -> RootFolder:
        return next(folder for folder in self._folders if place.is_relative_to(folder.path))

    def _resolve(self, text: str) -> Path:
        path = self._join(text)
        return resolve_path(path, self.roots, outside=OUTSIDE if self._base is None else _OUTSIDE_CALL)

    def _join(self, text: str) -> str:
        """Return the absolute path of a text. It keeps `..` and links, whose meaning only the system knows."""
        base = self.base
        return text if text.startswith("/") else f"{base}/{text}"

    def _open_file(self, path: str) -> tuple[int, os.stat_result]:
        """Return a descriptor and the status of a regular file."""
        descriptor = self._open(path, beneath.REGULAR_FILE)
        try:
            return descriptor, self._check_file(path, os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise

    def _read_to_change(self, path: str, folder: int, name: str, max_bytes: int) -> tuple[bytes, os.stat_result]:
        with closing(beneath.open_part(folder, name, beneath.REGULAR_FILE)) as descriptor:
            status = self._check_replaced(path, folder, name, os.fstat(descriptor))
            return _read_all(path, descriptor, status.st_size, max_bytes), status

    def _check_replaced(self, path: str, folder: int, name: str, status: os.stat_result) -> os.stat_result:
        """Return the status of a file that may be replaced. Raises ToolError."""
        self._check_file(path, status, is_written=True)
        if _is_read_only(folder, name, status):
            raise ToolError(f"{path!r} is read-only, so it was not changed. Ask the user to make it writable.")
        return status

    def _check_file(self, path: str, status: os.stat_result, *, is_written: bool = False) -> os.stat_result:
        """Return the status of a regular file whose number of names is accepted. Raises ToolError."""
        if stat.S_ISDIR(status.st_mode):
            raise ToolError(f"{path!r} is a folder.")
        if not stat.S_ISREG(status.st_mode):
            raise ToolError(f"{path!r} is no regular file, but a device, pipe, socket or link. It cannot be used.")
        if status.st_nlink > 1 and (self.hard_links == "refuse" or (is_written and self.hard_links == "read")):
            use = "changed" if is_written else "read"
            raise ToolError(f"{path!r} has other names that may be outside (hard links), so it cannot be {use}.")
        return status


def folders_of(workspace: Any) -> tuple[ConfinedFolders, bool]:
    """Return the folders of a Workspace, or of roots, and whether they are read-only."""
    folders = getattr(workspace, "folders", None)
    if isinstance(folders, ConfinedFolders):
        return folders, workspace.read_only
    return ConfinedFolders(workspace), False


def _is_read_only(folder: int, name: str, status: os.stat_result) -> bool:
    """Return whether this process may not write a regular file; root may not, either, if nobody may."""
    return not status.st_mode & 0o222 or not os.access(name, os.W_OK, dir_fd=folder)


def _rename(target: str, folder: int, name: str, target_folder: int, target_name: str) -> None:
    try:
        rename_exclusive(folder, name, target_folder, target_name)
    except FileExistsError as error:
        raise to_tool_error(target, error) from None


def _read_all(path: str, descriptor: int, size: int, max_bytes: int) -> bytes:
    """Return the content of at most `max_bytes`, also if the file grows meanwhile."""
    if size <= max_bytes:
        with tool_errors(path):
            content = _read_up_to(descriptor, size + 1, max_bytes + 1)
        if len(content) <= max_bytes:
            return content
        size = max(os.fstat(descriptor).st_size, len(content))
    raise ToolError(f"{path!r} has {size:,} bytes, more than {max_bytes:,}. Larger files can only be read by parts.")


def _read_up_to(descriptor: int, expected: int, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while size < limit and (chunk := os.read(descriptor, min(max(expected - size, 65_536), limit - size))):
        chunks.append(chunk)
        size += len(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _kind(member: os.DirEntry[str]) -> FileKind:
    if member.is_file(follow_symlinks=False):
        return "file"
    if member.is_dir(follow_symlinks=False):
        return "folder"
    return "link" if member.is_symlink() else "other"
