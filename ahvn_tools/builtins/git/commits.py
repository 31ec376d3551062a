"""GitLog: commits, newest first, one page of them."""

from __future__ import annotations

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
