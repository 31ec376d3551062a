"""Skills in folders and in installed packages."""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ahvn_tools.errors import SourceError, ToolError, near_misses
from ahvn_tools.execution.threads import call_in_thread
from ahvn_tools.regular_file import open_below
from ahvn_tools.roots import resolve_path, without_dots
from ahvn_tools.skills import SKILL_FILE
from ahvn_tools.skills.skill import (
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_SKILLS,
    FoundSkills,
    Skill,
    check_file_name,
    decode,
    find_missing_files,
    read_skill_text,
)

_MAX_DEPTH: Final = 4
"""How many folders deep skills are looked for."""
_MAX_FOLDERS: Final = 20_000
"""How many folders are looked at."""
_MAX_FILE_DEPTH: Final = 8
_SKIPPED_NAMES: Final = frozenset({"node_modules", "__pycache__"})
_OUTSIDE: Final = "The file leads out of the folder of the skill, and is not read."


@dataclass(frozen=True)
class FolderFiles:
    """The files of a skill in a folder. Those outside of it are not read, whatever links lead there."""

    root: Path
    """The folder, without symbolic links."""
    location: str

    async def names(self) -> list[str]:
        """Return the paths of the regular files in the folder, without hidden ones; links are left out."""
        return await call_in_thread(self.list)

    async def read(self, file: str, _state: Mapping[str, Any]) -> bytes:
        """Return the content of a file, which is not hidden. Raises ToolError."""
        return await call_in_thread(self.read_now, file)

    def list(self) -> list[str]:
        """Return the paths as `names` does."""
        return sorted(itertools.islice(_iter_files(self.root, "", _MAX_FILE_DEPTH), MAX_FILES))

    def read_now(self, file: str) -> bytes:
        """Return the content of a file as `read` does."""
        path = check_file_name(file)
        if any(map(_is_hidden, path.split("/"))):
            raise ToolError(f"The skill has no file {file!r}. {near_misses(file, self.list())}")
        place = resolve_path(path, (self.root,), outside=_OUTSIDE)
        try:
            with os.fdopen(open_below(self.root, place), "rb") as stream:
                content: bytes = stream.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            raise ToolError(f"The skill has no file {file!r}. {near_misses(file, self.list())}") from None
        except OSError as error:
            raise ToolError(f"{file!r} cannot be read: {error.strerror}.") from None
        return content


def _is_hidden(name: str) -> bool:
    """Return whether a file or folder is no part of a skill: a folder may have `.git` or `.env`, with secrets."""
    return name.startswith(".") or name in _SKIPPED_NAMES


def _iter_files(folder: Path, prefix: str, depth: int) -> Iterator[str]:
    try:
        with os.scandir(folder) as members:
            entries = sorted(itertools.islice(members, MAX_FILES), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if _is_hidden(entry.name):
            continue
        if entry.is_file(follow_symlinks=False):
            yield prefix + entry.name
        elif depth and entry.is_dir(follow_symlinks=False):
            yield from _iter_files(folder / entry.name, f"{prefix}{entry.name}/", depth - 1)


def find_skill_folders(folder: Path, *, follows_links: bool = True) -> list[Path]:
    """Return the folder if it has a `SKILL.md`, otherwise all such folders in it, in the order of their paths.

    Hidden folders are left out, and what is in a skill. Raises SourceError for too many folders.
    """
    found: list[Path] = []
    entered: set[tuple[int, int]] = set()
    waiting = [(folder, 0)]
    while waiting:
        current, depth = waiting.pop()
        status = current.stat()
        if (status.st_dev, status.st_ino) in entered:  # a link that leads back
            continue
        entered.add((status.st_dev, status.st_ino))
        if os.path.lexists(current / SKILL_FILE):
            found.append(current)
        elif depth < _MAX_DEPTH:
            waiting += [(inner, depth + 1) for inner in reversed(_inner_folders(current, follows_links=follows_links))]
        if len(found) > MAX_SKILLS or len(entered) + len(waiting) > _MAX_FOLDERS:
            limit = f"{MAX_SKILLS:,} skills, or {_MAX_FOLDERS:,} folders: name a folder in it"
            raise SourceError(f"The folder {str(folder)!r} has more than {limit}.", file=str(folder))
    return found


def _inner_folders(folder: Path, *, follows_links: bool) -> list[Path]:
    try:
        inner = sorted(folder.iterdir())
    except OSError:  # one of many that cannot be read
        return []
    shown = [path for path in inner if not _is_hidden(path.name)]
    return [path for path in shown if path.is_dir() and (follows_links or not path.is_symlink())]


def read_folder(folder: Path, shown: str, *, is_trusted: bool = True) -> Skill:
    """Return the skill in a folder; `shown` is how messages name the folder. Raises SourceError."""
    place = os.path.join(shown, SKILL_FILE)  # noqa: PTH118  # a path that begins with `./` keeps it
    if not os.path.lexists(folder / SKILL_FILE):
        raise SourceError(f"The folder {shown!r} has no SKILL.md file: a skill is a folder with one.", file=shown)
    root = folder.resolve()
    files = FolderFiles(root, str(root))
    try:
        text = decode(files.read_now(SKILL_FILE), SKILL_FILE)
    except ToolError as error:
        raise SourceError(f"{place}: {error}", file=place) from None
    skill, body = read_skill_text(text, place, without_dots(folder).name, is_trusted=is_trusted)
    missing = find_missing_files(body, place, files.list())
    return replace(skill, location=files.location, files=files, problems=(*skill.problems, *missing))


def read_folders(source: str | os.PathLike[str], trust: bool | None) -> FoundSkills:
    """Return the skills in a folder or of a package; `trust` is by default that of the kind. Raises SourceError."""
    shown = os.fspath(source)
    is_package = isinstance(source, str) and find_package(source, Path()) is not None
    folder = find_package_folder(shown) if is_package else Path(shown).expanduser()
    is_trusted = not is_package if trust is None else trust
    if not folder.is_dir():
        hint = " Name the folder of the file." if folder.is_file() else ""
        raise SourceError(f"There is no folder {shown!r} with skills.{hint}", file=shown)
    found = FoundSkills()
    for inner in find_skill_folders(folder, follows_links=is_trusted):
        place = os.path.normpath(shown / inner.relative_to(folder))
        try:
            found.skills.append(read_folder(inner, place, is_trusted=is_trusted))
        except SourceError as error:
            found.errors.append(error)
        except (OSError, RuntimeError) as error:  # a loop of links
            found.errors.append(SourceError(f"{place}: {error}", file=place))
    return found


def find_package(source: str, folder: Path) -> str | None:
    """Return the package that a `package:folder` names; None for a path, which may be relative to `folder`."""
    package, colon, _ = source.partition(":")
    is_name = all(part.isidentifier() for part in package.split("."))
    return package if colon and is_name and not (folder / source).exists() else None


def find_package_folder(source: str) -> Path:
    """Return the folder that a `package:folder` names. The package is not imported.

    Raises SourceError for a package that is not installed as a folder.
    """
    package, _, inner = source.partition(":")
    top, *rest = package.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None:
        raise SourceError(f"There is no package {top!r} for the skills {source!r}: install it.", file=source)
    parts = [*rest, *(part for part in inner.split("/") if part)]
    if ".." in parts:
        raise SourceError(f"{source!r} leads out of the package: name a folder in it.", file=source)
    for place in spec.submodule_search_locations or ():
        if (folder := Path(place, *parts)).is_dir():
            return folder
    raise SourceError(f"The package {package!r} has no folder {inner!r} with skills.", file=source)
