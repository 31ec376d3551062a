"""Remotes: the addresses that a command talks to, which must use a protocol that the host allows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ahvn_tools.errors import ToolError

_SCHEME: Final = re.compile(r"(https?|ssh)://[^\s/]")
_SCP: Final = re.compile(r"[\w.-]+@[\w.-]+:(?!:)")
_NAME: Final = re.compile(r"\w[\w.-]*")
_DEFAULT: Final = re.compile(r"branch\..*\.(remote|pushremote)|remote\.pushdefault", re.DOTALL)
"""Keys of the remote of a branch: a name, or an address."""


def check_address(address: str, protocols: Iterable[str]) -> str:
    """Return an address whose protocol is allowed; else raise ToolError, also for paths and for helpers as in ext::."""
    scheme = _SCHEME.match(address)
    protocol = scheme[1] if scheme else "ssh" if _SCP.match(address) else None
    if protocol is None or protocol not in protocols:
        allowed = ", ".join(protocols) or "none"
        raise ToolError(f"This address of a repository cannot be used. The protocols that are allowed here: {allowed}.")
    return address


def addresses_of(remote: str | None, keys: list[tuple[str, str]], protocols: Iterable[str]) -> list[str]:
    """Return the addresses that a command with this remote may talk to; None: any that the repository names.

    Raises ToolError for an unknown remote, and for an address whose protocol is not allowed.
    """
    protocols = tuple(protocols)
    if remote is not None and not _NAME.fullmatch(remote):
        return [check_address(remote, protocols)]
    found = [value for key, value in keys if (name := _remote_of(key)) and remote in {None, name}]
    if not found:
        raise ToolError("The repository has no such remote. `remote -v` lists them, `remote add NAME URL` makes one.")
    if remote is None:
        names = {_remote_of(key) for key, _ in keys} | {"."}
        found += [value for key, value in keys if _DEFAULT.fullmatch(key) and value not in names]
    return [check_address(address, protocols) for address in dict.fromkeys(found)]


def _remote_of(key: str) -> str | None:
    """Return the name of the remote whose address a key of the configuration has."""
    if key.startswith("remote.") and key.rpartition(".")[2] in {"url", "pushurl"}:
        return key.removeprefix("remote.").rpartition(".")[0]
    return None
