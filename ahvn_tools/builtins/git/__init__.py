"""Git: tools that read git repositories, and run git commands that cannot execute programs of the repository."""

from __future__ import annotations

from ahvn_tools.builtins.git.git_tools import Git

__all__ = ["Git"]
