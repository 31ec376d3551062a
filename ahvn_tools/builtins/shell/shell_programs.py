"""The shells that a model may choose."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ahvn_tools.errors import DefinitionError, ToolError

DEFAULT_SHELLS: Final = (
    "/bin/bash",
    "/bin/sh",
    "/usr/bin/bash",
    "/usr/local/bin/bash",
    "/opt/homebrew/bin/bash",
    "/bin/dash",
)
"""The shells that a model may choose by default; the first one that exists is used unless it chooses."""

_UNDERSTOOD: Final = frozenset({"ash", "bash", "busybox", "dash", "sh"})


class ShellPrograms:
    """The shells of a list that exist."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Raise DefinitionError for a relative path, and if no shell exists."""
        for path in paths:
            if not path.startswith("/"):
                raise DefinitionError(f"A shell is an absolute path such as '/bin/bash', not {path!r}.")
        self.paths = tuple(path for path in paths if os.access(path, os.X_OK) and Path(path).is_file())
        if not self.paths:
            raise DefinitionError(
                f"None of these shells exists: {', '.join(paths)}. Pass shells=[…] with one that does."
            )

    def choose(self, path: str | None) -> str:
        """Return the shell that a model has chosen, or the first one. Raises ToolError for any other path."""
        if not path:
            return self.paths[0]
        if path not in self.paths:
            raise ToolError(f"`shell_path` must be one of {', '.join(self.paths)}.")
        return path


def is_understood_shell(path: str) -> bool:
    """Return whether the rules know the language of the shell; /bin/sh may be a link to another one."""
    return Path(os.path.realpath(path)).name in _UNDERSTOOD


def shell_arguments(shell: str, command: str, *, is_interleaved: bool = False) -> list[str]:
    """Return the arguments that make a shell run a command line, without any file of its user.

    `is_interleaved`: its stderr is its stdout, so that the order of what it writes is kept.
    """
    options = ["--noprofile", "--norc"] if shell.endswith("/bash") else []
    joined = ["/bin/sh", "-c", 'exec "$@" 2>&1', "sh"] if is_interleaved else []
    return [*joined, shell, *options, "-c", f" {command}"]  # the space: a command that begins with - is no option
