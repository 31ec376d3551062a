"""The built-in tools as a source."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from ahvn_tools.builtins.processes.confinement import Sandbox
from ahvn_tools.builtins.standard import standard_toolkit
from ahvn_tools.builtins.workspace import Workspace
from ahvn_tools.errors import SourceError
from ahvn_tools.loading.contents import Contents
from ahvn_tools.trust import Trust

BuiltinGroup = Literal["files", "text_files", "shell", "python", "git", "system"]
"""A group of built-in tools that needs nothing but folders."""


def read_builtins(
    groups: Collection[BuiltinGroup] | Literal["standard"],
    roots: tuple[Path, ...],
    trust: Trust,
    *,
    read_only: bool = False,
    approve: Literal["always", "risky", "never"] = "risky",
    sandbox: Sandbox = "auto",
    network: bool = False,
) -> Contents:
    """Return the built-in tools of these groups; `standard`: all groups but text_files.

    `approve`, `sandbox` and `network` are as of `standard_toolkit`. Raises SourceError without a folder, for a folder
    that does not exist, and for what is not trusted.
    """
    chosen = {"files", "shell", "python", "git", "system"} if groups == "standard" else set(groups)
    trust.require_builtins(chosen, approve=approve, sandbox=sandbox, network=network)
    if not roots:
        raise SourceError("The built-in tools need folders that they may use: roots=[…], or --root FOLDER.")
    if missing := [root for root in roots if not root.is_dir()]:
        raise SourceError(f"There is no folder {str(missing[0])!r} for the built-in tools.")
    workspace = Workspace(roots, read_only=read_only, approve=approve)
    kit = standard_toolkit(
        workspace,
        name="builtins",
        text_files="text_files" in chosen,
        shell="shell" in chosen,
        python="python" in chosen,
        git="git" in chosen,
        system="system" in chosen,
        approve=approve,
        sandbox=sandbox,
        network=network,
    )
    if "files" not in chosen:
        kit.remove(*(tool.name for tool in kit.select(groups=["files"])))
    return Contents(name=kit.name, toolkit=kit)
