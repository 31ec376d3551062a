"""The environment variables of git: no configuration of the user or the system, no questions, no programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ahvn_tools.builtins.processes.environment import clean_environment

Author = tuple[str, str]
"""The name and the e-mail address of commits."""

_FIXED: Final[Mapping[str, str]] = {
    "HOME": "/nonexistent",  # where neither .gitconfig nor .netrc is
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o ClearAllForwardings=yes",
    "GIT_EDITOR": ":",
    "GIT_SEQUENCE_EDITOR": ":",
    "GIT_MERGE_AUTOEDIT": "no",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ADVICE": "0",
    "LC_ALL": "C.UTF-8",
    "TERM": "dumb",
}


def git_environment(
    *, protocols: Sequence[str] = (), author: Author | None = None, git_dir: Path | None = None,
    work_tree: Path | None = None, literal_paths: bool = False, host: Mapping[str, str] | None = None,
) -> dict[str, str]:  # fmt: skip
    """Return all variables of one git process. `protocols` are those that it may talk; `host` counts most."""
    variables = {**_FIXED, "GIT_ALLOW_PROTOCOL": ":".join(protocols) or "none"}
    if git_dir is not None:
        # Without a search, git and the checks before it see the same repository, and `core.worktree` does not count.
        variables["GIT_DIR"] = str(git_dir)
    if work_tree is not None:
        variables["GIT_WORK_TREE"] = str(work_tree)
    if literal_paths:
        variables["GIT_LITERAL_PATHSPECS"] = "1"
    if author is not None:
        for role in ("AUTHOR", "COMMITTER"):
            variables[f"GIT_{role}_NAME"], variables[f"GIT_{role}_EMAIL"] = author
    return clean_environment(**{**variables, **(host or {})})
