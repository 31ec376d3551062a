"""Revisions: names of commits that a model passes, resolved to hashes, so that none of them can be an option."""

from __future__ import annotations

import re
from typing import Final

from ahvn_tools.builtins.git.place import Place
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError

_HASH: Final = re.compile(r"[0-9a-f]{40,64}")
_RANGE: Final = re.compile(r"\.{2,3}")
_ODD: Final = re.compile("[\0\ud800-\udfff]")
_MAX_CHARS: Final = 1_000


def resolve_commit(place: Place, revision: str, context: ToolContext) -> str:
    """Return the hash of a commit. Raises ToolError if there is none of this name."""
    refuse_odd_characters(revision)
    if len(revision) <= _MAX_CHARS:
        words = ["rev-parse", "--quiet", "--verify", "--end-of-options", f"{revision}^{{commit}}"]
        result = place.program.run(place.folders, place.repository, words, context, kept_bytes=1000)
        found = result.stdout.head.strip()
        if result.exit_code == 0 and _HASH.fullmatch(found):
            return found
    raise ToolError(
        f"There is no commit {revision[:100]!r} in this repository. "
        "Pass a branch, tag or hash; `git_log` lists commits."
    )


def refuse_odd_characters(*texts: str | None) -> None:
    """Raise ToolError for a text that cannot be an argument of a program: with NUL, or with a lone surrogate."""
    if any(_ODD.search(text) for text in texts if text):
        raise ToolError("A text has a NUL character, or one that UTF-8 cannot encode. Remove it.")


def resolve_range(place: Place, revision: str, context: ToolContext) -> str:
    """Return a commit, or a range of two such as main..feature, with hashes; an end that is left out is HEAD."""
    dots = _RANGE.search(revision)
    if dots is None:
        return resolve_commit(place, revision, context)
    ends = (revision[: dots.start()], revision[dots.end() :])
    first, second = (resolve_commit(place, end or "HEAD", context) for end in ends)
    return f"{first}{dots[0]}{second}"
