"""CodeFolder: a temporary folder of one interpreter, deleted whatever is in it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from ahvn_tools.builtins.processes.private_folder import delete_folder, private_folder


class CodeFolder:
    """A temporary folder that only its owner can enter. Leaving the context deletes it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="python-", dir=private_folder.path))
        for name in ("work", "home", "temporary"):
            (self.path / name).mkdir()

    @property
    def work(self) -> Path:
        """The folder in which code runs that has no workspace."""
        return self.path / "work"

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that make programs write here instead of the home and /tmp."""
        home = str(self.path / "home")
        return {"HOME": home, "MPLCONFIGDIR": home, "TMPDIR": str(self.path / "temporary")}

    def delete(self) -> None:
        """Delete it, once no process writes there."""
        delete_folder(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self.delete()
