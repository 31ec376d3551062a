"""Git: tools that read git repositories, and run git commands that cannot execute programs of the repository."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, get_args

from ahvn_tools.builtins.approval import Approval, Approve
from ahvn_tools.builtins.files.folders import folders_of
from ahvn_tools.builtins.git.command_line import Access, parse
from ahvn_tools.builtins.git.commands import GitCommands
from ahvn_tools.builtins.git.git_program import Author, GitCall, GitProgram, error_text
from ahvn_tools.builtins.git.repository import Repository
from ahvn_tools.builtins.git.results import (
    COMMIT_FORMAT,
    DIFF_FORMAT,
    GitDiff,
    GitLog,
    GitShow,
    GitStatus,
    parse_commits,
    parse_files,
    parse_status,
    to_page,
)
from ahvn_tools.builtins.processes.confinement import Confinement, Sandbox, choose_sandbox
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import DefinitionError, ToolError, suggests_options
from ahvn_tools.registry import ToolRegistry, reg_toolspec
from ahvn_tools.roots import Roots


@dataclass(frozen=True)
class Place:
    """A folder or file of a repository that was checked."""

    git: GitCall
    repository: Repository
    path: str | None
    """The path in the repository, with /; None for the repository itself."""

    @classmethod
    def open(cls, git: GitCall, uri: str) -> Place:
        """Return the place of a path, which need not exist. Raises ToolError for a path that is in no repository."""
        located = git.folders.locate(uri)
        folder = next(place for place in (located, *located.parents) if place.is_dir())
        if not any(folder.is_relative_to(root) for root in git.folders.roots):
            raise ToolError(f"{uri!r} does not exist. Pass a folder or file of a repository.")
        repository = git.open(folder)
        inside = located.relative_to(repository.top).as_posix()
        return cls(git, repository, None if inside == "." else inside)

    @property
    def path_words(self) -> list[str]:
        """The arguments of git that limit a command to the path."""
        return ["--"] if self.path is None else ["--", self.path]

    def read(self, words: Sequence[str]) -> tuple[str, bool]:
        """Return what a command that reads has written, and whether that is all. Raises ToolError if it failed.

        Paths among the words are taken as they are, without patterns.
        """
        result = self.git.run(words, self.repository, literal_paths=True)
        if result.exit_code != 0:
            raise ToolError(f"git could not do this: {error_text(result)}")
        return result.stdout.head, not result.stdout.omitted

    def find(self, revision: str) -> str:
        """Return the hash of what a revision names; nothing if there is none of this name."""
        words = ["rev-parse", "--quiet", "--verify", "--end-of-options", revision]
        result = self.git.run(words, self.repository, kept_bytes=1000)
        return result.stdout.head.strip() if result.exit_code == 0 else ""

    def show_path(self, path: str) -> str:
        """Return a path of the repository as other tools take it: relative where those begin, else absolute."""
        shown = self.git.folders.shown(Path(self.repository.top, path))
        return f"{shown}/" if path.endswith("/") else shown


_HASH: Final = re.compile(r"[0-9a-f]{40,64}")
_RANGE: Final = re.compile(r"\.{2,3}")
_ODD: Final = re.compile("[\0\ud800-\udfff]")
_MAX_CHARS: Final = 1_000


def resolve_commit(place: Place, revision: str) -> str:
    """Return the hash of a commit, so that no name is an option. Raises ToolError if there is none of this name."""
    refuse_odd_characters(revision)
    found = place.find(f"{revision}^{{commit}}") if len(revision) <= _MAX_CHARS else ""
    if _HASH.fullmatch(found):
        return found
    raise ToolError(
        f"There is no commit {revision[:100]!r} in this repository. "
        "Pass a branch, tag or hash; `git_log` lists commits."
    )


def refuse_odd_characters(*texts: str | None) -> None:
    """Raise ToolError for a text that cannot be an argument of a program: with NUL, or with a lone surrogate."""
    if any(_ODD.search(text) for text in texts if text):
        raise ToolError("A text has a NUL character, or one that UTF-8 cannot encode. Remove it.")


def resolve_range(place: Place, revision: str) -> str:
    """Return a commit, or a range of two such as main..feature, with hashes; an end that is left out is HEAD."""
    dots = _RANGE.search(revision)
    if dots is None:
        return resolve_commit(place, revision)
    ends = (revision[: dots.start()], revision[dots.end() :])
    first, second = (resolve_commit(place, end or "HEAD") for end in ends)
    return f"{first}{dots[0]}{second}"


if TYPE_CHECKING:
    from ahvn_tools.builtins.workspace.folder_tools import FolderTools

_READS = {"readOnlyHint": True, "openWorldHint": False}
_TAGS = {"git", "read"}
_MAX_COUNT = 200
_MAX_LINES = 1_000
_MAX_SKIP = 2**31 - 1
"""git ignores larger numbers."""


class Git(ToolRegistry):
    """Tools that read git repositories, and run git commands.

    Nothing that a repository contains is executed: no hooks, filters, aliases, editors and helpers.

    >>> import tempfile
    >>> from ahvn_tools import Toolkit
    >>> kit = Toolkit("code").add(Git(tempfile.mkdtemp(), author=("Ann", "ann@example.com")))
    >>> kit.call("git_cmd", {"uri": ".", "args": "init -b main"})  # doctest: +ELLIPSIS
    'Initialized empty Git repository in ...'
    >>> kit.call("git_status", {})["branch"]
    'main'
    """

    labels_streams: ClassVar[bool] = False
    """Whether `git_cmd` returns what git has written as the parts `STDOUT:` and `STDERR:`."""

    @suggests_options
    def __init__(
        self,
        workspace: FolderTools | Roots,
        *,
        allow: Iterable[Access] = ("read", "write"),
        approve: Approve = "risky",
        timeout: float = 60.0,
        sandbox: Sandbox = "auto",
        author: Author | None = None,
        protocols: Iterable[str] = ("https",),
        environment: Mapping[str, str] | None = None,
        max_bytes: int = 30_000,
    ) -> None:
        """`workspace` is a Workspace, or folders as in `Workspace(roots)`; a read-only one allows "read" only.

        `allow` are the commands that `git_cmd` runs: "read", "write" (of a repository of this machine), "remote"
        (fetch, pull, push, clone, ls-remote). `author` is the name and address of commits; without it they are those
        that git itself would use: of GIT_AUTHOR_NAME and its like, and of the configuration of the repository, of the
        user and of the system. `protocols`, such as "ssh", and the variables in `environment`, such as GIT_ASKPASS, are
        for "remote" commands. `timeout` in seconds, `max_bytes` of output, each for one command.
        """
        self.folders, is_read_only = folders_of(workspace)
        self.allow = _checked_access(allow) - ({"write", "remote"} if is_read_only else set())
        self.approval = Approval(approve)
        self.max_bytes = max_bytes
        self._program = GitProgram(
            timeout=timeout,
            sandbox=choose_sandbox(sandbox, untrusted=self.folders.roots),
            protocols=_checked_protocols(protocols),
            author=author,
            untrusted=self.folders.roots,
            environment=dict(environment or {}),
        )
        written = self.folders.roots if "write" in self.allow else ()
        Confinement(writable=written, readable=self.folders.roots, sandbox=self._program.sandbox).warn_of_owners()

    @reg_toolspec(annotations={"destructiveHint": True, "openWorldHint": True}, tags={"git", "write"})
    def git_cmd(self, uri: str, args: str, context: ToolContext) -> str:
        """Run one git command and return its output.

        No shell runs it. Options that execute programs or write files elsewhere are refused.

        Args:
            uri: The folder to run it in.
            args: The arguments of git, as in: commit -m "Fix the parser"
        """
        commands = GitCommands(self._call(context), self.approval, self.allow, self.max_bytes, self.labels_streams)
        return commands.run(uri, parse(args))

    @reg_toolspec(name="git_status", annotations=_READS, tags=_TAGS)
    def status(self, context: ToolContext, uri: str = ".", skip: int = 0, max_count: int = 200) -> GitStatus:
        """Return the branch, and the files that differ from the last commit.

        Args:
            uri: A folder or file of the repository; only files in it are listed.
            skip: How many files to leave out.
            max_count: How many files to list, at most 1000.
        """
        place = self._open(uri, context)
        words = ["status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--ignore-submodules=dirty"]
        output, _ = place.read([*words, *place.path_words])
        return parse_status(
            output, show_path=place.show_path, skip=max(skip, 0), max_count=_between(max_count, 1, _MAX_LINES)
        )

    @reg_toolspec(name="git_diff", annotations=_READS, tags=_TAGS)
    def diff(
        self,
        context: ToolContext,
        uri: str = ".",
        *,
        revision: str | None = None,
        staged: bool = False,
        start_line: int = 1,
        max_lines: int = 500,
    ) -> GitDiff:
        """Return the changes that are not staged, those that are staged, or those between commits.

        Args:
            uri: A folder or file of the repository; only changes in it are returned.
            revision: A commit to compare the files with, or two as in main..feature or main...feature.
            staged: Whether to return the staged changes.
            start_line: The first line of the patch, counted from 1.
            max_lines: How many lines of the patch to return, at most 1000.
        """
        place = self._open(uri, context)
        compared = ["--cached"] if staged else []
        if revision is not None:
            compared.append(resolve_range(place, revision))
        return self._diff(place, ["diff", "--ignore-submodules=dirty", *compared], start_line, max_lines)

    @reg_toolspec(name="git_log", annotations=_READS, tags=_TAGS)
    def log(
        self,
        context: ToolContext,
        uri: str = ".",
        *,
        revision: str = "HEAD",
        author: str | None = None,
        message: str | None = None,
        since: str | None = None,
        skip: int = 0,
        max_count: int = 20,
    ) -> GitLog:
        """Return commits, newest first.

        Args:
            uri: A folder or file of the repository; only commits that changed it are returned.
            revision: A branch, tag or commit where the history begins, or a range as in main..feature.
            author: Only commits whose author contains this text.
            message: Only commits whose message contains this text.
            since: Only commits after this date, as in 2026-01-31 or "2 weeks ago".
            skip: How many commits to leave out.
            max_count: How many commits to return, at most 200.
        """
        place = self._open(uri, context)
        if revision == "HEAD" and not place.find("HEAD"):
            return GitLog(commits=[])
        count, skip = _between(max_count, 1, _MAX_COUNT), _between(skip, 0, _MAX_SKIP)
        filters = {"--author": author, "--grep": message, "--since": since}
        refuse_odd_characters(author, message, since)
        words = [
            "log", "-z", COMMIT_FORMAT, "--no-show-signature", f"--max-count={count + 1}", f"--skip={skip}",
            "--fixed-strings", "--regexp-ignore-case",
            *(f"{option}={value}" for option, value in filters.items() if value),
            resolve_range(place, revision),
        ]  # fmt: skip
        output, is_whole = place.read([*words, *place.path_words])
        commits = parse_commits(output)
        is_last = is_whole and len(commits) <= count
        page = commits[:count]
        return GitLog(commits=page, next_skip=None if is_last else skip + len(page))

    @reg_toolspec(name="git_show", annotations=_READS, tags=_TAGS)
    def show(
        self, context: ToolContext, uri: str = ".", revision: str = "HEAD", start_line: int = 1, max_lines: int = 500
    ) -> GitShow:
        """Return a commit, and what it changed compared with its first parent.

        Args:
            uri: A folder or file of the repository; only changes in it are returned.
            revision: The commit, or a branch or tag.
            start_line: The first line of the patch, counted from 1.
            max_lines: How many lines of the patch to return, at most 1000.
        """
        place = self._open(uri, context)
        commit = resolve_commit(place, revision)
        output, _ = place.read(["log", "-z", COMMIT_FORMAT, "--no-show-signature", "--no-walk", commit, "--"])
        words = ["show", "--format=", "-m", "--first-parent", "--no-show-signature", commit]
        diff = self._diff(place, words, start_line, max_lines)
        return GitShow(commit=parse_commits(output)[0], diff=diff)

    def _call(self, context: ToolContext) -> GitCall:
        return GitCall(self._program, self.folders.for_call(context), context)

    def _open(self, uri: str, context: ToolContext) -> Place:
        """Return the repository of a path, and the path in it."""
        return Place.open(self._call(context), uri)

    def _diff(self, place: Place, words: list[str], start_line: int, max_lines: int) -> GitDiff:
        command, *rest = words
        output, _ = place.read([command, *DIFF_FORMAT, *rest, *place.path_words])
        patch_words = [command, "--patch", "--unified=3", "--find-renames", "--no-ext-diff", "--no-textconv"]
        patch, is_whole = place.read([*patch_words, *rest, *place.path_words])
        return to_page(
            parse_files(output, show_path=place.show_path), patch, is_whole=is_whole,
            start_line=max(start_line, 1), max_lines=_between(max_lines, 1, _MAX_LINES),
        )  # fmt: skip


def _between(number: int, least: int, most: int) -> int:
    return min(max(number, least), most)


def _checked_access(allow: Iterable[Access]) -> frozenset[Access]:
    known = frozenset(get_args(Access))
    chosen = frozenset(allow)
    if not chosen <= known:
        raise DefinitionError(f"`allow` is a list of 'read', 'write' and 'remote', not {allow!r}.")
    return chosen


def _checked_protocols(protocols: Iterable[str]) -> tuple[str, ...]:
    names = (protocols,) if isinstance(protocols, str) else tuple(protocols)
    if not set(names) <= {"https", "http", "ssh"}:
        raise DefinitionError(f"`protocols` is a list of 'https', 'http' and 'ssh', not {protocols!r}.")
    return names
