"""The configuration that git gets from us, and the keys of a repository's configuration that make it refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

OVERRIDES: Final[Mapping[str, str]] = {
    # Programs that single keys name.
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.editor": ":",
    "core.askPass": "",
    "core.sshCommand": "false",
    "sequence.editor": ":",
    "credential.helper": "",
    "diff.external": "",
    "gpg.program": "false",
    "gpg.openpgp.program": "false",
    "gpg.x509.program": "false",
    "gpg.ssh.program": "false",
    "gpg.ssh.defaultKeyCommand": "false",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "tag.forceSignAnnotated": "false",
    "push.gpgSign": "false",
    "log.showSignature": "false",
    "merge.verifySignatures": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    # Files elsewhere that it would read and might show.
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "commit.template": "/dev/null",
    "mailmap.file": "/dev/null",
    "mailmap.blob": "",
    "diff.orderFile": "/dev/null",
    # Other repositories.
    "diff.ignoreSubmodules": "dirty",
    "diff.submodule": "short",
    "fetch.recurseSubmodules": "false",
    "push.recurseSubmodules": "no",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
    # Memory: larger files are not compared, and little of a pack is mapped at once.
    "core.bigFileThreshold": "100m",
    "core.packedGitLimit": "1g",
    "core.packedGitWindowSize": "64m",
    # Names that other systems read as .git.
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    # An author is never made of the names of the user and the host.
    "user.useConfigOnly": "true",
    # What output looks like.
    "advice.detachedHead": "false",
    "color.ui": "false",
    "column.ui": "never",
    "core.quotePath": "false",
    "i18n.logOutputEncoding": "UTF-8",
}
"""Settings of every command, which count more than those of the repository."""

_REFUSED: Final = re.compile(
    r"""
    include\.path | includeif\..*                        # other files with any of these
    | filter\..*\.(clean|smudge|process)                 # run on the files that status, add and checkout compare
    | diff\..*\.(command|textconv) | merge\..*\.driver
    | trailer\..*\.(command|cmd) | tar\..*\.command | hook\..*
    | core\.(alternaterefscommand|gitproxy) | uploadpack\.packobjectshook
    """,
    re.VERBOSE | re.DOTALL,
)
_REFUSED_WITH_NETWORK: Final = re.compile(
    r"""
    url\..*\.(insteadof|pushinsteadof)                   # another host than the one that was approved
    | fetch\.fsck\..*                                     # a file that errors would show
    | remote\..*\.(uploadpack|receivepack|vcs|proxy.*)
    | http\.(.*\.)?(proxy.*|cookiefile|savecookies|ssl.*|delegation|emptyauth|curloptresolve|followredirects)
    """,
    re.VERBOSE | re.DOTALL,
)

_MERGE_OPTIONS: Final = re.compile(r"branch\..*\.mergeoptions", re.DOTALL)
"""Options of `git merge`, such as one that puts any file into the message."""

READ_FILES: Final = frozenset({"blame.ignorerevsfile"})
"""Keys of files that git reads, and shows in its errors. They cannot be overridden: git reads all that are named."""


def override_options() -> list[str]:
    """Return the overrides as options of git."""
    return [word for key, value in OVERRIDES.items() for word in ("-c", f"{key}={value}")]


def parse_keys(listing: str) -> list[tuple[str, str]]:
    """Return keys and values from `git config --list --null`, whose sections and names are in lower case."""
    pairs = (entry.partition("\n") for entry in listing.split("\0") if entry)
    return [(key, value) for key, _, value in pairs]


def find_refused(keys: Iterable[str], *, network: bool = False, merges: bool = False) -> str | None:
    """Return the first key because of which a repository is refused; None if there is none."""
    patterns = [_REFUSED, *([_REFUSED_WITH_NETWORK] if network else []), *([_MERGE_OPTIONS] if merges else [])]
    return next((key for key in keys for pattern in patterns if _matches(pattern, key)), None)


def _matches(pattern: re.Pattern[str], key: str) -> bool:
    """Return whether a key matches; names after the last dot are compared without case."""
    section, _, name = key.rpartition(".")
    return pattern.fullmatch(f"{section.lower()}.{name.lower()}") is not None
