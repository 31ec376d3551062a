"""Walks through confined folders, without what .gitignore names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ahvn_tools.builtins.files.atomic_write import is_temporary_name, never_cancelled
from ahvn_tools.builtins.files.beneath import FOLDER, REGULAR_FILE, closing, open_part, open_without_links
from ahvn_tools.builtins.files.file_status import FileStatus, readable_name
from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.files.gitignore import MAX_RULES_BYTES, IgnoreRules
from ahvn_tools.errors import CallCancelledError, ToolError

_CHECK_EVERY: Final = 10  # entries of a folder between two looks at `is_cancelled`: hostile rules need 10 ms for each


@dataclass(frozen=True, slots=True)
class WalkedFile:
    """A regular file that a walk has found."""

    path: str
    """Relative to the folder of the walk, with /."""
    size: int


def walk(
    folders: ConfinedFolders, folder: str, *, respect_gitignore: bool = True, hidden: bool = False,
    is_cancelled: Callable[[], bool] = never_cancelled,
) -> Iterator[WalkedFile]:  # fmt: skip
    """Yield the regular files beneath a folder, sorted by path; links are never followed.

    `.git` is always left out; with `respect_gitignore` also what the .gitignore files from the root of the repository
    to each folder name, and without `hidden` names that begin with a dot. Folders that cannot be read are skipped, and
    files that no path can name: their names are no UTF-8. Raises ToolError for what is no folder, and
    CallCancelledError.
    """
    with closing(folders.open_folder(folder)) as top:
        rules, offset = _outer_rules(folders, folder) if respect_gitignore else (IgnoreRules(), "")
        walker = _Walk(folders, top, offset, respect_gitignore, hidden, is_cancelled)
        yield from walker.run(rules)


_Found = tuple[str, int | None]
"""The path and the size of a member of a folder; None for a folder."""


def _order(member: _Found) -> str:
    """Return what sorts the paths of files as texts: a folder is sorted as what is in it."""
    path, size = member
    return f"{path}/" if size is None else path


@dataclass(frozen=True, slots=True)
class _Walk:
    folders: ConfinedFolders
    top: int
    """A descriptor of the folder of the walk. Others are opened beneath it when their turn comes."""
    offset: str
    """The path of the folder of the walk, with a / at the end, relative to that of the first rules."""
    respect_gitignore: bool
    hidden: bool
    is_cancelled: Callable[[], bool]

    def run(self, rules: IgnoreRules) -> Iterator[WalkedFile]:
        waiting: list[tuple[_Found, IgnoreRules]] = [(("", None), rules)]
        while waiting:
            (path, size), rules = waiting.pop()
            if size is not None:
                yield WalkedFile(path, size)
                continue
            self._check_cancelled()
            inner, members = self._read(path, rules)
            waiting += [(member, inner) for member in sorted(members, key=_order, reverse=True)]

    def _read(self, path: str, rules: IgnoreRules) -> tuple[IgnoreRules, list[_Found]]:
        """Return the rules in a folder and its members that are wanted; none if it cannot be read."""
        try:
            with closing(open_without_links(self.top, path or ".", FOLDER)) as folder:
                if self.respect_gitignore and path:
                    rules = _extend(rules, self.offset + path, folder)
                return rules, list(self._members(folder, f"{path}/" if path else "", rules))
        except OSError:  # it cannot be read, or was deleted meanwhile
            return rules, []

    def _members(self, folder: int, prefix: str, rules: IgnoreRules) -> Iterator[_Found]:
        with os.scandir(folder) as members:
            for number, member in enumerate(members, 1):
                if number % _CHECK_EVERY == 0:
                    self._check_cancelled()
                if self._is_wanted(member.name) and (found := self._find(member, prefix, rules)) is not None:
                    yield found

    def _is_wanted(self, name: str) -> bool:
        if name.startswith("."):
            return self.hidden and name != ".git" and not is_temporary_name(name)
        return name.isascii() or readable_name(name) == name

    def _find(self, member: os.DirEntry[str], prefix: str, rules: IgnoreRules) -> _Found | None:
        """Return a folder or regular file that is not ignored."""
        path = prefix + member.name
        try:
            is_folder = member.is_dir(follow_symlinks=False)
            if not is_folder and not member.is_file(follow_symlinks=False):
                return None
            if rules.files and rules.ignores(self.offset + path, is_folder=is_folder):
                return None
            if is_folder:
                return path, None
            status = member.stat(follow_symlinks=False)
        except OSError:  # it was deleted meanwhile
            return None
        return None if self.folders.hard_links == "refuse" and status.st_nlink > 1 else (path, status.st_size)

    def _check_cancelled(self) -> None:
        if self.is_cancelled():
            raise CallCancelledError("The call was cancelled.")


def _outer_rules(folders: ConfinedFolders, folder: str) -> tuple[IgnoreRules, str]:
    """Return the rules that apply in a folder, and its path from the folder of the first rules, with a / at the end.

    The first rules are those of the repository that the folder is in or, without one, of the root. A folder that they
    leave out is walked all the same when it is the one that was asked for, and then without these rules.
    """
    place = folders.locate(folder)
    root = max((root for root in folders.roots if place.is_relative_to(root)), key=lambda root: len(root.parts))
    ancestors = [place, *(parent for parent in place.parents if parent.is_relative_to(root))]
    first = next((ancestor for ancestor in ancestors if folders.exists(str(ancestor / ".git"))), root)
    rules = IgnoreRules().extended("", _read_rules(folders, first / ".git" / "info" / "exclude"))
    path = ""
    rules = rules.extended("", _read_rules(folders, first / ".gitignore"))
    for name in place.relative_to(first).parts:
        path = f"{path}/{name}" if path else name
        if rules.ignores(path, is_folder=True):
            rules = IgnoreRules()
        rules = rules.extended(path, _read_rules(folders, first / path / ".gitignore"))
    return rules, f"{path}/" if path else ""


def _read_rules(folders: ConfinedFolders, path: Path) -> bytes:
    """Return the content of a .gitignore file; nothing if it cannot be used."""
    try:
        return folders.read(str(path), max_bytes=MAX_RULES_BYTES)[0]
    except ToolError:
        return b""


def _extend(rules: IgnoreRules, path: str, folder: int) -> IgnoreRules:
    """Return the rules with those of the .gitignore file in a folder, which is no link."""
    try:
        descriptor = open_part(folder, ".gitignore", REGULAR_FILE)
    except OSError:
        return rules
    with closing(descriptor):
        status = FileStatus.from_stat(os.fstat(descriptor))
        is_usable = status.kind == "file" and status.size <= MAX_RULES_BYTES
        return rules.extended(path, os.read(descriptor, MAX_RULES_BYTES)) if is_usable else rules
