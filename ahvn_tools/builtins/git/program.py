"""GitProgram: runs git on a repository that was checked, so that nothing of the repository is executed."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.git.configuration import READ_FILES, find_refused, override_options, parse_keys
from ahvn_tools.builtins.git.environment import (
    IDENTITY_KEYS,
    Author,
    author_identity,
    git_environment,
    user_environment,
    user_identity,
)
from ahvn_tools.builtins.git.repository import (
    Repository,
    find_nested,
    find_repository,
    read_configuration,
    refuse_old_remotes,
    refuse_outside,
    refuse_programs_in_todo,
    refuse_shared_files,
)
from ahvn_tools.builtins.git.sub_commands import Access
from ahvn_tools.builtins.processes.confinement import Confinement, ProcessLimits, find_trusted_program
from ahvn_tools.builtins.processes.process import run_process
from ahvn_tools.builtins.processes.result import ProcessResult
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError

_LIST_KEYS: Final = ("config", "--file", "-", "--list", "--null", "--no-includes")
_MAX_ERROR_CHARS: Final = 2_000
_MEMORY_BYTES: Final = 4_000_000_000
"""What a file that unpacks to more than this can take, at most."""


@dataclass(frozen=True, kw_only=True)
class GitProgram:
    """How git is run: what the host decided."""

    timeout: float
    """Seconds."""
    sandbox: Literal["bubblewrap", "none"]
    protocols: tuple[str, ...]
    """The protocols of commands that talk to other machines."""
    author: Author | None
    """None: the one that git knows of the user."""
    untrusted: tuple[Path, ...] = ()
    """The folders that models may write, here or in other sessions: a git in one of them is not run."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that only commands with a network get."""

    def open(
        self, folders: ConfinedFolders, folder: Path, context: ToolContext, *, access: Access, merges: bool = False
    ) -> Repository:
        """Return the repository of a folder. Raises ToolError if git could execute or reach something through it."""
        repository = find_repository(folders, folder)
        self.check(folders, repository, context, access=access, merges=merges)
        return repository

    def check(
        self, folders: ConfinedFolders, repository: Repository, context: ToolContext, *, access: Access,
        merges: bool = False,
    ) -> None:  # fmt: skip
        """Raise ToolError if git could execute or reach something through the repository, or one in its work tree."""
        self._check_configuration(folders, repository, network=access == "remote", merges=merges)
        if access == "read":
            return
        if access == "remote":
            refuse_old_remotes(repository)
        refuse_shared_files(repository)
        refuse_programs_in_todo(repository)
        for nested in find_nested(folders, repository, check_cancelled=context.check_cancelled):
            self._check_configuration(folders, nested)

    def keys(self, folders: ConfinedFolders, repository: Repository) -> list[tuple[str, str]]:
        """Return the configuration of a repository: keys, with sections and names in lower case, and values."""
        git = self._find_git(folders)
        return [pair for content in read_configuration(folders, repository) for pair in _parse(git, content)]

    def run(
        self, folders: ConfinedFolders, repository: Repository, words: Sequence[str], context: ToolContext, *,
        folder: Path | None = None, access: Access = "read", literal_paths: bool = False, kept_bytes: int = 4_000_000,
    ) -> ProcessResult:  # fmt: skip
        """Run git to its end. `words` are a sub-command and its arguments, which were checked.

        Raises ToolError after the timeout, and CallCancelledError.
        """
        environment = git_environment(
            protocols=self.protocols if access == "remote" else (),
            identity=None if access == "read" else self._identity(folders, repository),
            git_dir=repository.git_dir,
            work_tree=repository.work_tree,
            literal_paths=literal_paths,
            host=self.environment if access == "remote" else None,
        )
        writable = () if access == "read" else (repository.top, repository.git_dir, repository.common_dir)
        return self.start(
            folders, words, context, folder=folder or repository.top, writable=writable, environment=environment,
            network=access == "remote", kept_bytes=kept_bytes,
        )  # fmt: skip

    def start(
        self, folders: ConfinedFolders, words: Sequence[str], context: ToolContext, *, folder: Path,
        writable: Sequence[Path], environment: Mapping[str, str], network: bool, kept_bytes: int,
    ) -> ProcessResult:  # fmt: skip
        """Run git in a folder, with the hardened configuration."""
        bare = [] if "GIT_WORK_TREE" in environment or "GIT_DIR" not in environment else ["-c", "core.bare=true"]
        confinement = Confinement(
            writable=tuple(dict.fromkeys(writable)), writes_git_settings=True, readable=folders.roots, network=network,
            sandbox=self.sandbox,
        )  # fmt: skip
        result = run_process(
            [self._find_git(folders), "--no-pager", *override_options(), *bare, *words],
            folder=folder,
            confinement=confinement,
            limits=ProcessLimits(
                timeout=self.timeout, memory_bytes=_MEMORY_BYTES, kept_bytes=kept_bytes, spooled_bytes=0
            ),
            environment=environment,
            is_cancelled=lambda: context.cancelled,
        )
        if result.ended_by == "cancelled":
            context.check_cancelled()
        if result.ended_by != "exit":
            raise ToolError(
                f"`git {words[0]}` was stopped after {self.timeout:g} s. Narrow it, such as by a path or fewer commits."
            )
        return result

    def read(
        self, folders: ConfinedFolders, repository: Repository, words: Sequence[str], context: ToolContext,
        *, kept_bytes: int = 4_000_000,
    ) -> tuple[str, bool]:  # fmt: skip
        """Return what a command that reads has written, and whether that is all. Raises ToolError if it failed.

        Paths among the words are taken as they are, without patterns.
        """
        result = self.run(folders, repository, words, context, literal_paths=True, kept_bytes=kept_bytes)
        if result.exit_code != 0:
            raise ToolError(f"git could not do this: {error_text(result)}")
        return result.stdout.head, not result.stdout.omitted

    def owner_note(self, folders: ConfinedFolders, *, access: Access) -> str:
        """Return a sentence about a folder that the sandbox of root cannot use; none if it can use all of them."""
        if self.sandbox == "none":
            return ""
        writable = () if access == "read" else folders.roots
        return Confinement(writable=writable, readable=folders.roots, sandbox=self.sandbox).statement or ""

    def _identity(self, folders: ConfinedFolders, repository: Repository) -> dict[str, str]:
        """Return the variables of who commits; without `author` as plain git finds them, and nothing else of the user.

        No sandbox hides the configuration of the user from this git. It only reads configurations, and that of the
        repository was checked: it names no other files.
        """
        if self.author is not None:
            return author_identity(self.author)
        result = run_process(
            [self._find_git(folders), "config", "--null", "--get-regexp", IDENTITY_KEYS],
            folder=Path("/"),
            confinement=Confinement(sandbox="none"),
            limits=ProcessLimits(timeout=10, spooled_bytes=0),
            environment=user_environment(repository.git_dir),
        )
        return user_identity(dict(parse_keys(result.stdout.head)) if result.exit_code == 0 else {}, os.environ)

    def _find_git(self, folders: ConfinedFolders) -> str:
        path = find_trusted_program("git", (*self.untrusted, *folders.roots))
        if path is None:
            raise ToolError(
                "git is not installed on this machine, so git tools cannot be used.",
                explanation="There is no git on PATH outside of the folders that these tools may write.",
            )
        return path

    def _check_configuration(
        self, folders: ConfinedFolders, repository: Repository, *, network: bool = False, merges: bool = False
    ) -> None:
        keys = self.keys(folders, repository)
        for name, value in keys:
            if name in READ_FILES and value:
                refuse_outside(folders, repository, value)
        key = find_refused((key for key, _ in keys), network=network, merges=merges)
        if key is not None:
            raise ToolError(
                f"The configuration of the repository {folders.display(repository.top)!r} has {key!r}, with which git "
                "could run other programs or reach other places. Git tools work when a person has removed it."
            )


def error_text(result: ProcessResult) -> str:
    """Return what git says about its failure, shortened."""
    text = result.stderr.text.strip() or result.stdout.text.strip() or f"it ended with exit code {result.exit_code}."
    return text if len(text) <= _MAX_ERROR_CHARS else f"{text[:_MAX_ERROR_CHARS]}…"


@functools.lru_cache(maxsize=64)
def _parse(git: str, content: bytes) -> tuple[tuple[str, str], ...]:
    """Return keys and values of a configuration, as git itself reads them. Nothing is opened or executed."""
    result = run_process(
        [git, *_LIST_KEYS],
        folder=Path("/"),
        confinement=Confinement(sandbox="none"),
        limits=ProcessLimits(timeout=10, kept_bytes=8_000_000, spooled_bytes=0),
        environment=git_environment(),
        stdin=content,
    )
    if result.exit_code != 0 or result.stdout.omitted:
        raise ToolError("The configuration of the repository cannot be read. Pass another repository.")
    return tuple(parse_keys(result.stdout.head))
