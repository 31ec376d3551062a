"""Targets: the files that one call checks, and copies of them and of what they import."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.files.walk import walk
from ahvn_tools.builtins.workspace.diagnostics.project_copy import ProjectCopy
from ahvn_tools.builtins.workspace.diagnostics.syntax import checked_language
from ahvn_tools.builtins.workspace.source_parser.languages import language_of
from ahvn_tools.builtins.workspace.source_parser.parsing import MAX_FILE_BYTES
from ahvn_tools.errors import ToolError

MAX_FILES: Final = 500
MAX_COPIED_FILES: Final = 3_000
MAX_COPIED_BYTES: Final = 50_000_000

_C_FAMILY: Final = frozenset({"C", "C++"})
_SETTINGS: Final = re.compile(r"(^|/)(setup\.cfg|tsconfig[^/]*\.json|jsconfig\.json|pyrightconfig\.json|\.?mypy\.ini)$")
"""Settings of checkers. They are JSON with comments, too."""


@dataclass(kw_only=True)
class Targets:
    """The files that one call checks."""

    prefix: str
    """What precedes the paths so that models can pass them to other tools."""
    paths: list[str] = field(default_factory=list)
    """Relative to the folder that is copied."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why other files are not checked."""
    has_more: bool = False
    """Whether there are more files than are checked."""


def find_targets(
    folders: ConfinedFolders, uri: str, copy: ProjectCopy, *, is_cancelled: Callable[[], bool]
) -> Targets:  # fmt: skip
    """Copy the files to check, and the other files of their languages in the same root, which they may import."""
    place = folders.locate(uri)
    is_folder = folders.status(uri).kind == "folder"
    root = max((root for root in folders.roots if place.is_relative_to(root)), key=lambda root: len(root.parts))
    shown_root = folders.display(root)
    targets = Targets(prefix="" if shown_root == "." else f"{shown_root.rstrip('/')}/")
    copying = _Copying(folders, root, copy)
    inner = place.relative_to(root).as_posix()
    for path in _walked(folders, place, inner, is_cancelled) if is_folder else iter([inner]):
        if checked_language(path) is None:
            continue
        if len(targets.paths) == MAX_FILES or copying.is_full:
            targets.has_more = True
            break
        reason = copying.add(path)
        if reason is None:
            targets.paths.append(path)
        else:
            targets.reasons[path] = reason
    _copy_imported(copying, targets.paths, _walked(folders, root, ".", is_cancelled))
    return targets


class _Copying:
    """Copies files of a root, up to a number of files and bytes."""

    def __init__(self, folders: ConfinedFolders, root: Path, copy: ProjectCopy) -> None:
        self._folders, self._root, self._copy = folders, root, copy
        self._files_left, self._bytes_left = MAX_COPIED_FILES, MAX_COPIED_BYTES
        self._known: set[str] = set()

    @property
    def is_full(self) -> bool:
        """Whether no more may be copied."""
        return self._files_left <= 0 or self._bytes_left <= 0

    def add(self, path: str) -> str | None:
        """Copy a file, once, and return why it could not be copied."""
        if path in self._known:
            return None
        self._known.add(path)
        try:
            content, status = self._folders.read(self._folders.display(self._root / path), max_bytes=MAX_FILE_BYTES)
            self._copy.add(path, content)
        except ToolError as error:
            return str(error)
        except OSError:  # a name that the temporary folder does not allow
            return "it could not be copied to check it."
        self._files_left -= 1
        self._bytes_left -= status.size
        return None


def _walked(folders: ConfinedFolders, folder: Path, inner: str, is_cancelled: Callable[[], bool]) -> Iterator[str]:
    base = "" if inner == "." else f"{inner}/"
    for file in walk(folders, str(folder), is_cancelled=is_cancelled):
        if not _SETTINGS.search(base + file.path):
            yield base + file.path


def _copy_imported(copying: _Copying, paths: list[str], others: Iterator[str]) -> None:
    """Copy the files that the type checker or the compiler looks up."""
    languages = {language for path in paths if (language := language_of(path)) in ("Python", *_C_FAMILY)}
    wanted = languages | (_C_FAMILY if languages & _C_FAMILY else set())
    for path in others if wanted else iter(()):
        if copying.is_full:
            return
        if language_of(path) in wanted:
            copying.add(path)
