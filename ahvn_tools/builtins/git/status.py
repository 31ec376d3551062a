"""GitStatus: the branch of a repository, and the files that differ from its last commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

STATES: Final = {
    "M": "modified", "A": "added", "D": "deleted", "R": "renamed", "C": "copied", "T": "type changed", "U": "unmerged",
}  # fmt: skip
"""What the letters of git say about a file."""

CONFLICTS: Final = {
    "DD": "both deleted", "AU": "added by us", "UD": "deleted by them", "UA": "added by them",
    "DU": "deleted by us", "AA": "both added", "UU": "both modified",
}  # fmt: skip
"""What both sides of a conflict did, in the words of `git status`; `us` is the branch that is checked out."""


@dataclass(frozen=True, kw_only=True)
class ChangedFile:
    """A file that differs from the last commit."""

    path: str
    staged: str | None = None
    """How the index differs from the last commit: modified, added, deleted, renamed, copied, type changed, or unmerged:
    a conflict."""
    unstaged: str | None = None
    """How the file differs from the index: untracked; modified, deleted …; of a conflict what each side did, such as
    both modified or deleted by them; new commits, of a submodule."""
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
        elif kind == "u":
            path = show_path(rest.split(" ", 9)[-1])
            yield ChangedFile(path=path, staged="unmerged", unstaged=CONFLICTS.get(rest[:2], "unmerged"))
        elif kind in {"1", "2"}:
            path = show_path(rest.split(" ", 7 if kind == "1" else 8)[-1])
            old_path = show_path(next(records)) if kind == "2" else None
            is_submodule = rest[3] == "S" and rest[1] == "M"  # `M.` of a submodule: its commit is staged
            unstaged = "new commits" if is_submodule else STATES.get(rest[1])
            yield ChangedFile(path=path, staged=STATES.get(rest[0]), unstaged=unstaged, old_path=old_path)
        elif kind == "?":
            yield ChangedFile(path=show_path(rest), unstaged="untracked")
