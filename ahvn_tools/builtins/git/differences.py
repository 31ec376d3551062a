"""GitDiff: the files that differ, and a page of their patch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ahvn_tools.builtins.git.commits import GitCommit
from ahvn_tools.builtins.git.status import STATES

DIFF_FORMAT: Final = ("--raw", "--numstat", "-z", "--find-renames", "--no-ext-diff", "--no-textconv")
"""The options with which git writes what `parse_files` reads."""

MAX_FILES: Final = 300
"""How many files of a diff are listed."""

_MAX_PATCH_CHARS: Final = 50_000
_MAX_LINE_CHARS: Final = 2_000


@dataclass(frozen=True, kw_only=True)
class DifferentFile:
    """A file that differs."""

    path: str
    state: str
    """modified, added, deleted, renamed, copied, type changed or unmerged."""
    added: int | None
    """Lines; None for a binary file."""
    deleted: int | None
    old_path: str | None = None
    """The path before it was renamed or copied."""


@dataclass(frozen=True, kw_only=True)
class GitDiff:
    """The files that differ, and one page of the patch."""

    files: list[DifferentFile]
    """The first 300."""
    omitted_files: int
    """How many more there are."""
    patch: str
    """Lines of the unified diff, from `start_line` on; long lines are cut."""
    next_start_line: int | None = None
    """The `start_line` of the next page; None on the last one."""
    is_cut: bool = False
    """Whether the patch is too large to be read to its end; a file or folder as `uri` narrows it."""


@dataclass(frozen=True, kw_only=True)
class GitShow:
    """A commit, and what it changed compared with its first parent."""

    commit: GitCommit
    diff: GitDiff


def parse_files(output: str, *, show_path: Callable[[str], str]) -> list[DifferentFile]:
    """Return the files that git has written with DIFF_FORMAT."""
    fields = iter(output.split("\0"))
    states: dict[str, str] = {}
    lines: dict[str, tuple[int | None, int | None]] = {}
    old_paths: dict[str, str] = {}
    for entry in fields:
        if entry.startswith(":"):
            state = entry.rsplit(" ", 1)[-1][:1]
            path = next(fields, "")
            if state in "RC":
                old_path, path = path, next(fields, "")
                old_paths[path] = old_path
            states[path] = state
        elif "\t" in entry:
            added, deleted, path = entry.split("\t", 2)
            if not path:
                next(fields, "")
                path = next(fields, "")
            lines[path] = _count(added), _count(deleted)
    return list(_files(states, lines, old_paths, show_path))


def _files(
    states: dict[str, str],
    lines: dict[str, tuple[int | None, int | None]],
    old_paths: dict[str, str],
    show_path: Callable[[str], str],
) -> Iterator[DifferentFile]:
    for path, state in states.items():
        added, deleted = lines.get(path, (None, None))
        old_path = show_path(old_paths[path]) if path in old_paths else None
        yield DifferentFile(
            path=show_path(path), state=STATES.get(state, "modified"), added=added, deleted=deleted, old_path=old_path
        )


def to_page(files: list[DifferentFile], patch: str, *, start_line: int, max_lines: int, is_whole: bool) -> GitDiff:
    """Return the page of a diff that begins in a line of its patch, counted from 1."""
    lines = patch.split("\n")[:-1]  # without the line that is cut off, or the nothing after the last one
    page: list[str] = []
    chars = 0
    for line in lines[start_line - 1 : start_line - 1 + max_lines]:
        shown = line if len(line) <= _MAX_LINE_CHARS else f"{line[:_MAX_LINE_CHARS]}… ({len(line):,} characters)"
        chars += len(shown) + 1
        if page and chars > _MAX_PATCH_CHARS:
            break
        page.append(shown)
    end = start_line + len(page)
    return GitDiff(
        files=files[:MAX_FILES],
        omitted_files=max(len(files) - MAX_FILES, 0),
        patch="".join(f"{line}\n" for line in page),
        next_start_line=end if end <= len(lines) and page else None,
        is_cut=not is_whole and end > len(lines),
    )


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
