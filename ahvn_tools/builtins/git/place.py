"""Place: a path of a repository, as the tools that read it use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.git.program import GitProgram
from ahvn_tools.builtins.git.repository import Repository
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError


@dataclass(frozen=True, kw_only=True)
class Place:
    """A folder or file of a repository that was checked."""

    program: GitProgram
    folders: ConfinedFolders
    repository: Repository
    path: str | None
    """The path in the repository, with /; None for the repository itself."""

    @classmethod
    def open(cls, program: GitProgram, folders: ConfinedFolders, uri: str, context: ToolContext) -> Place:
        """Return the place of a path, which need not exist. Raises ToolError for a path that is in no repository."""
        located = folders.locate(uri)
        folder = next(place for place in (located, *located.parents) if place.is_dir())
        if not any(folder.is_relative_to(root) for root in folders.roots):
            raise ToolError(f"{uri!r} does not exist. Pass a folder or file of a repository.")
        repository = program.open(folders, folder, context, access="read")
        inside = located.relative_to(repository.top).as_posix()
        return cls(program=program, folders=folders, repository=repository, path=None if inside == "." else inside)

    @property
    def path_words(self) -> list[str]:
        """The arguments of git that limit a command to the path."""
        return ["--"] if self.path is None else ["--", self.path]

    def read(self, words: Sequence[str], context: ToolContext) -> tuple[str, bool]:
        """Return what a command that reads has written, and whether that is all."""
        return self.program.read(self.folders, self.repository, words, context)

    def is_empty(self, context: ToolContext) -> bool:
        """Return whether the branch that is checked out has no commits yet."""
        result = self.program.run(
            self.folders, self.repository, ["rev-parse", "--quiet", "--verify", "HEAD"], context, kept_bytes=1000
        )
        return result.exit_code != 0

    def show_path(self, path: str) -> str:
        """Return a path of the repository as other tools take it: relative where those begin, else absolute."""
        shown = self.folders.shown(Path(self.repository.top, path))
        return f"{shown}/" if path.endswith("/") else shown
