"""The built-in tools as a source."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

from ahvn_tools.builtins.standard import standard_toolkit
from ahvn_tools.builtins.workspace import Workspace
from ahvn_tools.errors import SourceError
from ahvn_tools.loading.contents import Contents

BuiltinGroup = Literal["files", "text_files", "shell", "python", "git", "system"]
"""A group of built-in tools that needs nothing but folders."""


def read_builtins(
    groups: Collection[BuiltinGroup] | Literal["standard"],
    roots: tuple[Path, ...],
    *,
    read_only: bool = False,
    **options: Any,
) -> Contents:
    """Return the built-in tools of these groups; `standard`: all groups but text_files.

    `options` are `approve`, `sandbox` and `network` of `standard_toolkit`. Raises SourceError without a folder, and for
    a folder that does not exist.
    """
    if not roots:
        raise SourceError("The built-in tools need folders that they may use: roots=[…], or --root FOLDER.")
    if missing := [root for root in roots if not root.is_dir()]:
        raise SourceError(f"There is no folder {str(missing[0])!r} for the built-in tools.")
    chosen = {"files", "shell", "python", "git", "system"} if groups == "standard" else set(groups)
    workspace = Workspace(roots, read_only=read_only, approve=options.get("approve", "risky"))
    kit = standard_toolkit(
        workspace,
        name="builtins",
        text_files="text_files" in chosen,
        shell="shell" in chosen,
        python="python" in chosen,
        git="git" in chosen,
        system="system" in chosen,
        **options,
    )
    if "files" not in chosen:
        kit.remove(*(tool.name for tool in kit.select(groups=["files"])))
    return Contents(name=kit.name, toolkit=kit)
