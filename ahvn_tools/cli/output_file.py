"""Files that a command writes: whole, and never through a link; also those in the results of tools."""

from __future__ import annotations

import base64
import binascii
import contextlib
import itertools
import os
import re
import stat
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any, Final, Self

from ahvn_tools import atomic_file
from ahvn_tools.builtins.files import beneath
from ahvn_tools.builtins.files.atomic_write import LOCK_SECONDS, locked_folder, sweep, write_file
from ahvn_tools.cli.output import CommandError
from ahvn_tools.errors import ToolError
from ahvn_tools.regular_file import read_regular, require_regular


class OutputFile:
    """A file in its opened folder. No other command changes files of the folder meanwhile."""

    def __init__(self, path: Path, folder: int | None) -> None:
        """Take a path without links, and a descriptor of its folder, if the system has these: Windows has none."""
        self.path = path
        self._folder = folder

    @classmethod
    @contextlib.contextmanager
    def open(
        cls, path: Path, *, is_confined: bool = True, follows_link: bool = False, makes_folders: bool = False
    ) -> Generator[Self]:
        """Open and lock the folder of a file.

        With `is_confined`, a path in the current folder must not lead out of it through links, and a relative one not
        out of the folder that contains both. With `follows_link`, the file is what a link at the path leads to. Raises
        CommandError.
        """
        root, place = _locate(path, is_confined=is_confined, follows_link=follows_link)
        with contextlib.ExitStack() as stack:
            with _errors(path):
                folder = _open_folder(root, place.parent, makes_folders=makes_folders)
                if folder is not None:
                    stack.callback(os.close, folder)
                _lock(stack, folder, place.parent)
            yield cls(place, folder)

    def read(self) -> bytes | None:
        """Return the content; None if there is no file. Raises OSError, also for what is no regular file."""
        try:
            return read_regular(self._at(self.path.name), folder=self._folder)
        except FileNotFoundError:
            return None

    def write(self, content: bytes, *, replaces: bool, new_mode: int = 0o666) -> None:
        """Write the file. Raises CommandError, also if there is one and it must not be replaced."""
        with _errors(self.path):
            old = require_regular(self._at(self.path.name), folder=self._folder)
            if old is not None and not replaces:
                raise CommandError(
                    f"{str(self.path)!r} exists: it was not changed. Add --force to replace it, or choose another file."
                )
            if self._folder is not None:
                write_file(self._folder, self.path.name, content, old=old, new_mode=new_mode)
            elif old is not None:
                atomic_file.write_bytes(self.path, content)
            else:
                _create(self.path, content)

    def copy(self) -> Path | None:
        """Copy the file to the first free name of `mcp.json.bak`, `mcp.json.bak2` and so on; None if there is none.

        Only its owner can read the copy: the file may be private to a group that the copy does not have.
        """
        with _errors(self.path):
            content = self.read()
            old = require_regular(self._at(self.path.name), folder=self._folder)
        if content is None or old is None:
            return None
        return self.write_beside(content, _number(f"{self.path.name}.bak"), mode=stat.S_IMODE(old.st_mode) & 0o700)

    def write_beside(self, content: bytes, names: Iterable[str], *, mode: int = 0o666) -> Path:
        """Write a new file in the folder, under the first name that is free, and return its path."""
        for name in names:
            with _errors(self.path.with_name(name)), contextlib.suppress(FileExistsError):  # also a link to nowhere
                if self._exists(name):
                    continue
                if self._folder is None:
                    _create(self.path.with_name(name), content)
                else:
                    write_file(self._folder, name, content, old=None, new_mode=mode)
                return self.path.with_name(name)
        raise AssertionError  # pragma: no cover  # the names do not end

    def _exists(self, name: str) -> bool:
        try:
            os.stat(self._at(name), dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def _at(self, name: str) -> str:
        """Return what names a file of the folder to the system."""
        return str(self.path.with_name(name)) if self._folder is None else name


def write_text(path: Path, text: str, *, replaces: bool = False) -> None:
    """Write a file. Raises CommandError, also for a link, and for a file that must not be replaced."""
    with OutputFile.open(path) as file:
        file.write(text.encode(), replaces=replaces)


def _locate(path: Path, *, is_confined: bool, follows_link: bool) -> tuple[Path | None, Path]:
    """Return the folder that the file must be in, if there is one, and the path of the file without links."""
    named = Path(os.path.abspath(path))  # noqa: PTH100  # `absolute` keeps `..`
    try:
        place = named.resolve() if follows_link else named.parent.resolve() / named.name
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, until Python 3.13
        raise CommandError(f"{path} cannot be written: its links lead nowhere. Use another path.") from error
    root = _find_root(path, named) if is_confined else None
    if root is not None and not place.is_relative_to(root):
        raise CommandError(
            f"{str(path)!r} was not written: a link leads out of {str(root)!r}, to {str(place)!r}. If that is "
            "intended, use that path itself."
        )
    return root, place


def _find_root(path: Path, named: Path) -> Path | None:
    """Return the folder that a path must not leave; None for an absolute path elsewhere, which its user has chosen."""
    current = Path.cwd()
    if named.is_relative_to(current):
        return current.resolve()
    if path.is_absolute() or path.drive:
        return None
    return Path(os.path.commonpath([current, named])).resolve()


def _open_folder(root: Path | None, folder: Path, *, makes_folders: bool) -> int | None:
    """Open a folder; beneath `root` without following links, which may have been exchanged meanwhile."""
    if os.open not in os.supports_dir_fd:
        if makes_folders:
            folder.mkdir(parents=True, exist_ok=True)
        return None
    if root is None:
        if makes_folders:
            folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder, beneath.FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC)
    top = os.open(root, beneath.FOLDER_PART | os.O_CLOEXEC)
    try:
        names = folder.relative_to(root).parts
        if makes_folders:
            beneath.make_parts(top, names)
        return beneath.open_without_links(top, "/".join(names) or ".", beneath.FOLDER)
    finally:
        os.close(top)


def _lock(stack: contextlib.ExitStack, folder: int | None, path: Path) -> None:
    """Wait for other commands, and keep them out until the stack ends. The system unlocks after a crash."""
    if folder is None:
        stack.enter_context(_lock_by_path(path))
        return
    try:
        if stack.enter_context(locked_folder(folder)):
            sweep(folder)
    except ToolError as error:
        raise CommandError(f"{path}: {error}") from None


def _lock_by_path(folder: Path) -> contextlib.AbstractContextManager[object]:
    import hashlib
    import tempfile

    from filelock import FileLock

    name = hashlib.sha256(os.fsencode(folder)).hexdigest()
    return FileLock(Path(tempfile.gettempdir()) / f"ahvn-tools-{name[:32]}.lock", timeout=LOCK_SECONDS).acquire()


def _create(path: Path, content: bytes) -> None:
    """Write a new file where the system has no descriptors of folders."""
    with path.open("xb") as file:
        try:
            file.write(content)
            file.flush()
        except BaseException:
            file.close()
            path.unlink()
            raise


def _number(name: str) -> Iterable[str]:
    return (f"{name}{number if number > 1 else ''}" for number in itertools.count(1))


@contextlib.contextmanager
def _errors(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror or error}.") from error


EXTENSIONS: Final = {
    "application/gzip": ".gz",
    "application/json": ".json",
    "application/pdf": ".pdf",
    "application/zip": ".zip",
    "audio/aac": ".aac",
    "audio/flac": ".flac",
    "audio/mp3": ".mp3",
    "audio/mp4": ".m4a",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "audio/wav": ".wav",
    "audio/webm": ".weba",
    "audio/x-wav": ".wav",
    "image/avif": ".avif",
    "image/bmp": ".bmp",
    "image/gif": ".gif",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/svg+xml": ".svg",
    "image/tiff": ".tiff",
    "image/webp": ".webp",
    "text/csv": ".csv",
    "text/markdown": ".md",
    "text/plain": ".txt",
    "video/mp4": ".mp4",
    "video/webm": ".webm",
}
"""Media types that no program runs. A file of any other type ends with `.bin`."""

_MAX_NAME_CHARS = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def has_file(block: Any) -> bool:
    """Return whether a content block of MCP contains a file."""
    return _encoded(block) is not None


def write_media_file(block: Any, folder: Path, tool: str) -> Path:
    """Write the file of a content block under a new name, and return its path. Raises CommandError."""
    try:
        data = base64.b64decode(_encoded(block) or "", validate=True)
    except binascii.Error:
        raise CommandError(f"The tool returned a {block.type} that is no base64 text: it was not written.") from None
    media_type = getattr(block, "mime_type", None) or getattr(getattr(block, "resource", None), "mime_type", None)
    extension = EXTENSIONS.get((media_type or "").partition(";")[0].strip().lower(), ".bin")
    stem = f"result-{_UNSAFE.sub('_', tool)[:_MAX_NAME_CHARS]}"
    names = (f"{stem}{'' if number == 1 else f'-{number}'}{extension}" for number in itertools.count(1))
    with OutputFile.open(folder / f"{stem}{extension}") as file:
        return folder / file.write_beside(data, names).name


def _encoded(block: Any) -> str | None:
    """Return the base64 text of an image, of audio or of an embedded file."""
    if block.type in {"image", "audio"}:
        return str(block.data)
    return getattr(block.resource, "blob", None) if block.type == "resource" else None
