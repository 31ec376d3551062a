"""What the reading git tools return, and how it is read from the output of git."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

_FIELDS: Final = ("%H", "%P", "%an", "%ae", "%aI", "%D", "%s", "%b")
COMMIT_FORMAT: Final = "--format=tformat:" + "%x00".join(_FIELDS)
"""The option with which `git log -z` writes what `parse_commits` reads."""

_MAX_BODY_CHARS: Final = 4_000


@dataclass(frozen=True, kw_only=True)
class GitCommit:
    """One commit."""

    hash: str
    parents: list[str]
    author: str
    email: str
    date: str
    """When it was written, in ISO 8601 with the author's offset."""
    subject: str
    """The first line of the message."""
    body: str = ""
    """The rest of the message, cut after 4,000 characters."""
    refs: list[str] = field(default_factory=list)
    """The branches and tags that point at it, as in `HEAD -> main` and `tag: v1`."""


@dataclass(frozen=True, kw_only=True)
class GitLog:
    """One page of a history, newest first."""

    commits: list[GitCommit]
    next_skip: int | None = None
    """The `skip` of the next page; None on the last one."""


def parse_commits(output: str) -> list[GitCommit]:
    """Return the commits that `git log -z` has written in COMMIT_FORMAT; one that was cut off is left out."""
    fields = output.split("\0")
    size = len(_FIELDS)
    return [_commit(fields[start : start + size]) for start in range(0, len(fields) - size, size)]


def _commit(fields: list[str]) -> GitCommit:
    commit_hash, parents, author, email, date, refs, subject, body = fields
    body = body.strip("\n")
    return GitCommit(
        hash=commit_hash,
        parents=parents.split(),
        author=author,
        email=email,
        date=date,
        refs=refs.split(", ") if refs else [],
        subject=subject,
        body=body if len(body) <= _MAX_BODY_CHARS else f"{body[:_MAX_BODY_CHARS]}…",
    )


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
    counts: dict[str, tuple[int | None, int | None]] = {}
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
            counts[path] = _count(added), _count(deleted)
    return [
        DifferentFile(
            path=show_path(path), state=STATES.get(state, "modified"), added=counts.get(path, (None, None))[0],
            deleted=counts.get(path, (None, None))[1],
            old_path=show_path(old_paths[path]) if path in old_paths else None,
        )
        for path, state in states.items()
    ]  # fmt: skip


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
    files = list(_changed_files(records, headers, show_path))
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


def _changed_files(
    records: Iterator[str], headers: dict[str, str], show_path: Callable[[str], str]
) -> Iterator[ChangedFile]:
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
