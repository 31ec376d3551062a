"""GitStatus: the branch of a repository, and the files that differ from its last commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

STATES: Final = {
    "M": "modified", "A": "added", "D": "deleted", "R": "renamed", "C": "copied", "T": "type changed", "U": "unmerged",
}  # fmt: skip
"""What the letters of git say about a file."""


@dataclass(frozen=True, kw_only=True)
class ChangedFile:
    """A file that differs from the last commit. Both states are None for an untracked file."""

    path: str
    staged: str | None = None
    """How the index differs from the last commit: modified, added, deleted, renamed, copied, type changed, unmerged."""
    unstaged: str | None = None
    """How the file differs from the index."""
    old_path: str | None = None
    """The path before it was renamed or copied."""


@dataclass(frozen=True, kw_only=True)
class GitStatus:
    """The branch of a repository, and one page of the files that differ from its last commit."""

    branch: str | None
    """None if no branch is checked out (a detached HEAD)."""
    commit: str | None
    """The hash of the last commit; None before the first one."""
    upstream: str | None = None
    ahead: int | None = None
    """Commits that the upstream does not have, as known at the last fetch."""
    behind: int | None = None
    files: list[ChangedFile] = field(default_factory=list)
    next_skip: int | None = None
    """The `skip` of the next page; None on the last one."""


def parse_status(output: str, *, show_path: Callable[[str], str], skip: int, max_count: int) -> GitStatus:
    """Return what `git status --porcelain=v2 --branch -z` has written."""
    headers: dict[str, str] = {}
    records = iter(output.split("\0"))
    files = list(_files(records, headers, show_path))
    ahead, behind = headers.get("branch.ab", "").split() or (None, None)
    branch, commit = headers.get("branch.head"), headers.get("branch.oid")
    return GitStatus(
        branch=None if branch == "(detached)" else branch,
        commit=None if commit == "(initial)" else commit,
        upstream=headers.get("branch.upstream"),
        ahead=None if ahead is None else int(ahead),
        behind=None if behind is None else -int(behind),
        files=files[skip : skip + max_count],
        next_skip=skip + max_count if skip + max_count < len(files) else None,
    )


def _files(records: Iterator[str], headers: dict[str, str], show_path: Callable[[str], str]) -> Iterator[ChangedFile]:
    """Yield the files; the headers, which come first, are put into a dict."""
    for record in records:
        kind, _, rest = record.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            headers[name] = value
        elif kind in {"1", "u"}:
            path = rest.split(" ", 7 if kind == "1" else 9)[-1]
            yield ChangedFile(path=show_path(path), staged=_state(rest[0]), unstaged=_state(rest[1]))
        elif kind == "2":
            path, old_path = rest.split(" ", 8)[-1], show_path(next(records))
            yield ChangedFile(path=show_path(path), staged=_state(rest[0]), unstaged=_state(rest[1]), old_path=old_path)
        elif kind == "?":
            yield ChangedFile(path=show_path(rest))


def _state(letter: str) -> str | None:
    return STATES.get(letter)
