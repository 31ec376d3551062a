"""Roots: the folders that tools may use, and the paths inside of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path, PosixPath
from typing import Any, Final
from urllib.parse import unquote

from ahvn_tools.errors import ToolError, ToolkitError

MAX_PATH_CHARS: Final = 4096
"""The maximum length of a path: looking up each part of a longer one would take long."""

Roots = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""One folder, or several: paths or `file:` URIs."""

_NO_ROOTS: Final = "This tool cannot use files, because no folder was made available to it."
OUTSIDE: Final = (
    "The path is outside of the folders that this tool may use. Pass a path inside of them; a relative path begins in "
    "the first of them."
)
_UNUSABLE: Final = "The path cannot be used. Pass another one."
_URI_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_DRIVE_OR_SHARE: Final = re.compile(r"[A-Za-z]:([\\/]|$)|\\\\")


class LinkedRoot(PosixPath):
    """A root that the host named by a path with symbolic links. It is the path without them."""

    link: Path | None = None
    """The path that the host used, absolute and without `..`. None for what pathlib derives from a root."""

    @classmethod
    def create(cls, path: Path, link: Path | None) -> LinkedRoot:
        """Return the root at a path that `link` leads to."""
        root = cls(path)
        root.link = link
        return root

    def __reduce__(self) -> tuple[Any, ...]:
        return LinkedRoot.create, (Path(self), self.link)


class _UnusablePathError(ValueError):
    """A text is no path that can be used; the message is for a model."""


def to_roots(roots: Roots) -> tuple[Path, ...]:
    """Return folders as absolute paths without symbolic links. Raises ToolkitError for what is no path.

    A folder that was named by a path with links is a LinkedRoot.
    """
    folders = [roots] if isinstance(roots, str | os.PathLike) else roots
    if not isinstance(folders, Iterable):
        raise ToolkitError(f"`roots` is a folder or a list of folders, not a {type(roots).__name__}.")
    return tuple(_to_root(folder) for folder in folders)


def resolve_path(path: str | os.PathLike[str], roots: tuple[Path, ...], *, outside: str = OUTSIDE) -> Path:
    """Return the path without symbolic links and `..`, which is in one of the roots.

    Raises ToolError for any other path, with the text `outside` for one that leads elsewhere. No message contains a
    path.
    """
    if not roots:
        fix = "Pass roots=… to the Toolkit, to the session or to the call."
        raise ToolError(_NO_ROOTS, explanation=f"`ToolContext.check_path` was called without roots. {fix}")
    try:
        resolved = _resolve(Path(roots[0]) / _to_local(path))
    except _UnusablePathError as error:
        raise ToolError(str(error)) from None
    except (OSError, ValueError, RuntimeError):  # a loop of symbolic links, a text that is no file name
        raise ToolError(_UNUSABLE) from None
    if not any(resolved.is_relative_to(root) for root in roots):
        raise ToolError(outside)
    return resolved


def to_local_path(path: str | os.PathLike[str]) -> str:
    """Return a path or a `file:` URI as a path of this system, relative or absolute. Raises ToolError."""
    try:
        text = _to_local(path)
        text.encode()
    except _UnusablePathError as error:
        raise ToolError(str(error)) from None
    except ValueError:  # an escape in a URI or a character that is no Unicode
        raise ToolError(_UNUSABLE) from None
    return text


def without_dots(path: str | os.PathLike[str]) -> Path:
    """Return an absolute path without `..`. Links stay, except those before a `..`, whose meaning they decide."""
    parts = Path(path).absolute().parts
    if ".." not in parts:
        return Path(*parts)
    end = len(parts) - parts[::-1].index("..")
    return Path(*parts[:end]).resolve().joinpath(*parts[end:])


def _to_root(folder: str | os.PathLike[str]) -> Path:
    try:
        if isinstance(folder, LinkedRoot) and folder.link is not None:
            return folder
        named = Path(_to_local(folder))
        root, link = _resolve(named), without_dots(named)
    except (TypeError, OSError, ValueError, RuntimeError) as error:
        reason = f": {error}" if isinstance(error, _UnusablePathError | TypeError) else "."
        raise ToolkitError(f"A root is the path of a folder or a file: URI, not {folder!r}{reason}") from None
    is_same = root == link or link.is_relative_to("/proc") or link.is_relative_to("/dev")  # each process has its own
    return root if is_same or os.name != "posix" else LinkedRoot.create(root, link)


def shown_path(path: Path, roots: Iterable[Path]) -> Path:
    """Return an absolute path without links as the host named it: beneath the link of its root."""
    linked = (root for root in roots if isinstance(root, LinkedRoot) and path.is_relative_to(root))
    found = next((root.link / path.relative_to(root) for root in linked if root.link is not None), path)
    return Path(found)


def _resolve(path: Path) -> Path:
    """Return the path without symbolic links. Raises ValueError where a loop of links hides others from Python."""
    resolved = path.resolve()
    if resolved.resolve() != resolved:
        raise ValueError
    return resolved


def _to_local(path: str | os.PathLike[str]) -> str:
    """Return a path or a `file:` URI as a path of this system. Raises _UnusablePathError, and TypeError for bytes."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"A path is a text, not {type(text).__name__}.")
    if len(text) > MAX_PATH_CHARS:
        raise _UnusablePathError(f"The path has more than {MAX_PATH_CHARS} characters.")
    if text[:5].lower() == "file:":
        text = _uri_to_path(text[5:])
    elif _URI_SCHEME.match(text):
        raise _UnusablePathError("Only paths and file: URIs can be used, and no other URIs.")
    if not text:
        raise _UnusablePathError("The path is empty. Use . for the folder itself.")
    if "\0" in text:
        raise _UnusablePathError("The path contains a NUL character.")
    if re.match(r"~([\\/]|$)", text):
        raise _UnusablePathError("~ does not mean a home folder here. Pass a path without it.")
    if os.name != "nt" and _DRIVE_OR_SHARE.match(text):
        raise _UnusablePathError("There are no drives and network shares here. Pass a path with / between its parts.")
    return text


def _uri_to_path(rest: str) -> str:
    """Return the path of a `file:` URI, from what follows the scheme."""
    if "?" in rest or "#" in rest:
        raise _UnusablePathError("A file: URI has no query and no fragment. Write ? as %3F and # as %23.")
    host = ""
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        rest = slash + path
    if host.lower() not in {"", "localhost"}:
        raise _UnusablePathError("A file: URI of another host cannot be used.")
    if not rest.startswith("/"):
        raise _UnusablePathError("A file: URI has an absolute path, as in file:///folder/file.")
    decoded = unquote(rest, errors="strict")
    return decoded[1:] if os.name == "nt" and _DRIVE_OR_SHARE.match(decoded[1:]) else decoded
