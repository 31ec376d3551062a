"""The environment variables of git: no configuration of the user or the system, no questions, no programs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ahvn_tools.builtins.processes.private_folder import clean_environment

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


_OF_USER: Final = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
"""The variables by which git finds the configuration of the user and the system."""

IDENTITY_KEYS: Final = r"^(user|author|committer)\.(name|email)$"
"""The keys that `user_identity` takes, for `git config --get-regexp`."""


def git_environment(
    *, protocols: Sequence[str] = (), identity: Mapping[str, str] | None = None, git_dir: Path | None = None,
    work_tree: Path | None = None, literal_paths: bool = False, host: Mapping[str, str] | None = None,
) -> dict[str, str]:  # fmt: skip
    """Return all variables of one git process.

    `protocols` are those that it may talk, `identity` has the variables of who commits, `host` counts most.
    """
    variables = {**_FIXED, "GIT_ALLOW_PROTOCOL": ":".join(protocols) or "none", **(identity or {})}
    if git_dir is not None:
        # Without a search, git and the checks before it see the same repository, and `core.worktree` does not count.
        variables["GIT_DIR"] = str(git_dir)
    if work_tree is not None:
        variables["GIT_WORK_TREE"] = str(work_tree)
    if literal_paths:
        variables["GIT_LITERAL_PATHSPECS"] = "1"
    return clean_environment(**{**variables, **(host or {})})


def user_environment(git_dir: Path) -> dict[str, str]:
    """Return the variables of a git that reads the configuration of the user for a repository, and does nothing else.

    Conditional includes, such as another address in some folders, need the repository.
    """
    variables = {name: value for name, value in git_environment(git_dir=git_dir).items() if name not in _OF_USER}
    return {**variables, **{name: os.environ[name] for name in _OF_USER if name in os.environ}}


def author_identity(author: Author) -> dict[str, str]:
    """Return the variables of an author who is the committer, too."""
    return user_identity({"user.name": author[0], "user.email": author[1]}, {})


def user_identity(keys: Mapping[str, str], host: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of who commits, as git finds them: those of the host, else those of the configuration."""
    identity = {}
    for role in ("author", "committer"):
        for part in ("name", "email"):
            variable = f"GIT_{role}_{part}".upper()
            if value := host.get(variable) or keys.get(f"{role}.{part}") or keys.get(f"user.{part}"):
                identity[variable] = value
    return identity
