"""The built-in tools as a source."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from ahvn_tools.builtins.standard import standard_toolkit
from ahvn_tools.builtins.workspace import Workspace
from ahvn_tools.errors import SourceError
from ahvn_tools.loading.contents import Contents
from ahvn_tools.loading.options import ReadOptions

_STANDARD = ("files", "shell", "python", "git", "system")


def read(location: Literal["standard", "builtins"] | Collection[str], options: ReadOptions) -> Contents:
    """Return the built-in tools of these groups; a text means all groups but text_files.

    They use the folders of `options.roots`; `options.choices` are options of `standard_toolkit`. Raises SourceError
    without a folder, for a folder that does not exist, and for what is not trusted.
    """
    chosen = set(_STANDARD if isinstance(location, str) else location)
    own: dict[str, Any] = {"approve": "risky", "sandbox": "auto", "network": False, **options.choices}
    read_only = bool(own.pop("read_only", False))
    options.trust.require_builtins(chosen, **own)
    if not options.roots:
        raise SourceError("The built-in tools need folders that they may use: roots=[…], or --root FOLDER.")
    if missing := [root for root in options.roots if not root.is_dir()]:
        raise SourceError(f"There is no folder {str(missing[0])!r} for the built-in tools.")
    workspace = Workspace(options.roots, read_only=read_only, approve=own["approve"])
    groups: dict[str, Any] = {name: name in chosen for name in ("text_files", "shell", "python", "git", "system")}
    kit = standard_toolkit(workspace, name="builtins", **groups, **own)
    if "files" not in chosen:
        kit.remove(*(tool.name for tool in kit.select(groups=["files"])))
    return Contents(name=kit.name, toolkit=kit)
