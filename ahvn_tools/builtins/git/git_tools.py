"""Git: tools that read git repositories, and run git commands that cannot execute programs of the repository."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, get_args

from ahvn_tools.builtins.approval import Action, ActionKind, Approval, Approve
from ahvn_tools.builtins.files.folders import folders_of
from ahvn_tools.builtins.git.command_line import Access, CommandLine, parse
from ahvn_tools.builtins.git.git_program import (
    Author,
    GitCall,
    GitProgram,
    Repository,
    error_text,
    open_repository,
    refuse_place,
)
from ahvn_tools.builtins.processes.confinement import Confinement, Sandbox, choose_sandbox
from ahvn_tools.builtins.processes.result import ProcessResult
from ahvn_tools.builtins.processes.terminal_text import to_last_states
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import DefinitionError, ToolError, suggests_options
from ahvn_tools.redaction.credentials import mask_credentials
from ahvn_tools.registry import ArgumentKind, ToolRegistry, reg_toolspec
from ahvn_tools.roots import Roots, shown_path

_FIELDS: Final = ("%H", "%P", "%an", "%ae", "%aI", "%D", "%s", "%b")
COMMIT_FORMAT: Final = "--format=tformat:" + "%x00".join(_FIELDS)
"""The option with which `git log -z` writes what `parse_commits` reads."""

_MAX_BODY_CHARS: Final = 4_000


@dataclass(frozen=True, kw_only=True)
class GitCommit:
    """One commit."""

    hash: str
    parents: list[str]
    author: str
    email: str
    date: str
    """When it was written, in ISO 8601 with the author's offset."""
    subject: str
    """The first line of the message."""
    body: str = ""
    """The rest of the message, cut after 4,000 characters."""
    refs: list[str] = field(default_factory=list)
    """The branches and tags that point at it, as in `HEAD -> main` and `tag: v1`."""


@dataclass(frozen=True, kw_only=True)
class GitLog:
    """One page of a history, newest first."""

    commits: list[GitCommit]
    next_skip: int | None = None
    """The `skip` of the next page; None on the last one."""


def parse_commits(output: str) -> list[GitCommit]:
    """Return the commits that `git log -z` has written in COMMIT_FORMAT; one that was cut off is left out."""
    fields = output.split("\0")
    size = len(_FIELDS)
    return [_commit(fields[start : start + size]) for start in range(0, len(fields) - size, size)]


def _commit(fields: list[str]) -> GitCommit:
    commit_hash, parents, author, email, date, refs, subject, body = fields
    body = body.strip("\n")
    return GitCommit(
        hash=commit_hash,
        parents=parents.split(),
        author=author,
        email=email,
        date=date,
        refs=refs.split(", ") if refs else [],
        subject=subject,
        body=body if len(body) <= _MAX_BODY_CHARS else f"{body[:_MAX_BODY_CHARS]}…",
    )


DIFF_FORMAT: Final = ("--raw", "--numstat", "-z", "--find-renames", "--no-ext-diff", "--no-textconv")
"""The options with which git writes what `parse_files` reads."""

MAX_FILES: Final = 300
"""How many files of a diff are listed."""

_MAX_PATCH_CHARS: Final = 50_000
_MAX_LINE_CHARS: Final = 2_000


@dataclass(frozen=True, kw_only=True)
class DifferentFile:
    """A file that differs."""

    path: str
    state: str
    """modified, added, deleted, renamed, copied, type changed or unmerged."""
    added: int | None
    """Lines; None for a binary file."""
    deleted: int | None
    old_path: str | None = None
    """The path before it was renamed or copied."""


@dataclass(frozen=True, kw_only=True)
class GitDiff:
    """The files that differ, and one page of the patch."""

    files: list[DifferentFile]
    """The first 300."""
    omitted_files: int
    """How many more there are."""
    patch: str
    """Lines of the unified diff, from `start_line` on; long lines are cut."""
    next_start_line: int | None = None
    """The `start_line` of the next page; None on the last one."""
    is_cut: bool = False
    """Whether the patch is too large to be read to its end; a file or folder as `uri` narrows it."""


@dataclass(frozen=True, kw_only=True)
class GitShow:
    """A commit, and what it changed compared with its first parent."""

    commit: GitCommit
    diff: GitDiff


def parse_files(output: str, *, show_path: Callable[[str], str]) -> list[DifferentFile]:
    """Return the files that git has written with DIFF_FORMAT."""
    fields = iter(output.split("\0"))
    states: dict[str, str] = {}
    counts: dict[str, tuple[int | None, int | None]] = {}
    old_paths: dict[str, str] = {}
    for entry in fields:
        if entry.startswith(":"):
            state = entry.rsplit(" ", 1)[-1][:1]
            path = next(fields, "")
            if state in "RC":
                old_path, path = path, next(fields, "")
                old_paths[path] = old_path
            states[path] = state
        elif "\t" in entry:
            added, deleted, path = entry.split("\t", 2)
            if not path:
                next(fields, "")
                path = next(fields, "")
            counts[path] = _count(added), _count(deleted)
    return [
        DifferentFile(
            path=show_path(path), state=STATES.get(state, "modified"), added=counts.get(path, (None, None))[0],
            deleted=counts.get(path, (None, None))[1],
            old_path=show_path(old_paths[path]) if path in old_paths else None,
        )
        for path, state in states.items()
    ]  # fmt: skip


def to_page(files: list[DifferentFile], patch: str, *, start_line: int, max_lines: int, is_whole: bool) -> GitDiff:
    """Return the page of a diff that begins in a line of its patch, counted from 1."""
    lines = patch.split("\n")[:-1]  # without the line that is cut off, or the nothing after the last one
    page: list[str] = []
    chars = 0
    for line in lines[start_line - 1 : start_line - 1 + max_lines]:
        shown = line if len(line) <= _MAX_LINE_CHARS else f"{line[:_MAX_LINE_CHARS]}… ({len(line):,} characters)"
        chars += len(shown) + 1
        if page and chars > _MAX_PATCH_CHARS:
            break
        page.append(shown)
    end = start_line + len(page)
    return GitDiff(
        files=files[:MAX_FILES],
        omitted_files=max(len(files) - MAX_FILES, 0),
        patch="".join(f"{line}\n" for line in page),
        next_start_line=end if end <= len(lines) and page else None,
        is_cut=not is_whole and end > len(lines),
    )


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


STATES: Final = {
    "M": "modified", "A": "added", "D": "deleted", "R": "renamed", "C": "copied", "T": "type changed", "U": "unmerged",
}  # fmt: skip
"""What the letters of git say about a file."""

CONFLICTS: Final = {
    "DD": "both deleted", "AU": "added by us", "UD": "deleted by them", "UA": "added by them",
    "DU": "deleted by us", "AA": "both added", "UU": "both modified",
}  # fmt: skip
"""What both sides of a conflict did, in the words of `git status`; `us` is the branch that is checked out."""


@dataclass(frozen=True, kw_only=True)
class ChangedFile:
    """A file that differs from the last commit."""

    path: str
    staged: str | None = None
    """How the index differs from the last commit: modified, added, deleted, renamed, copied, type changed, or unmerged:
    a conflict."""
    unstaged: str | None = None
    """How the file differs from the index: untracked; modified, deleted …; of a conflict what each side did, such as
    both modified or deleted by them; new commits, of a submodule."""
    old_path: str | None = None
    """The path before it was renamed or copied."""


@dataclass(frozen=True, kw_only=True)
class GitStatus:
    """The branch of a repository, and one page of the files that differ from its last commit."""

    branch: str | None
    """None if no branch is checked out (a detached HEAD)."""
    commit: str | None
    """The hash of the last commit; None before the first one."""
    upstream: str | None = None
    ahead: int | None = None
    """Commits that the upstream does not have, as known at the last fetch."""
    behind: int | None = None
    files: list[ChangedFile] = field(default_factory=list)
    next_skip: int | None = None
    """The `skip` of the next page; None on the last one."""


def parse_status(output: str, *, show_path: Callable[[str], str], skip: int, max_count: int) -> GitStatus:
    """Return what `git status --porcelain=v2 --branch -z` has written."""
    headers: dict[str, str] = {}
    records = iter(output.split("\0"))
    files = list(_changed_files(records, headers, show_path))
    ahead, behind = headers.get("branch.ab", "").split() or (None, None)
    branch, commit = headers.get("branch.head"), headers.get("branch.oid")
    return GitStatus(
        branch=None if branch == "(detached)" else branch,
        commit=None if commit == "(initial)" else commit,
        upstream=headers.get("branch.upstream"),
        ahead=None if ahead is None else int(ahead),
        behind=None if behind is None else -int(behind),
        files=files[skip : skip + max_count],
        next_skip=skip + max_count if skip + max_count < len(files) else None,
    )


def _changed_files(
    records: Iterator[str], headers: dict[str, str], show_path: Callable[[str], str]
) -> Iterator[ChangedFile]:
    """Yield the files; the headers, which come first, are put into a dict."""
    for record in records:
        kind, _, rest = record.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            headers[name] = value
        elif kind == "u":
            path = show_path(rest.split(" ", 9)[-1])
            yield ChangedFile(path=path, staged="unmerged", unstaged=CONFLICTS.get(rest[:2], "unmerged"))
        elif kind in {"1", "2"}:
            path = show_path(rest.split(" ", 7 if kind == "1" else 8)[-1])
            old_path = show_path(next(records)) if kind == "2" else None
            is_submodule = rest[3] == "S" and rest[1] == "M"  # `M.` of a submodule: its commit is staged
            unstaged = "new commits" if is_submodule else STATES.get(rest[1])
            yield ChangedFile(path=path, staged=STATES.get(rest[0]), unstaged=unstaged, old_path=old_path)
        elif kind == "?":
            yield ChangedFile(path=show_path(rest), unstaged="untracked")


@dataclass(frozen=True)
class GitPlace:
    """A folder or file of a repository that was checked."""

    git: GitCall
    repository: Repository
    path: str | None
    """The path in the repository, with /; None for the repository itself."""

    @classmethod
    def open(cls, git: GitCall, uri: str) -> GitPlace:
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


def resolve_commit(place: GitPlace, revision: str) -> str:
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


def resolve_range(place: GitPlace, revision: str) -> str:
    """Return a commit, or a range of two such as main..feature, with hashes; an end that is left out is HEAD."""
    dots = _RANGE.search(revision)
    if dots is None:
        return resolve_commit(place, revision)
    ends = (revision[: dots.start()], revision[dots.end() :])
    first, second = (resolve_commit(place, end or "HEAD") for end in ends)
    return f"{first}{dots[0]}{second}"


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


_WORDS: Final = {"read": "reads repositories", "write": "changes repositories", "remote": "talks to other machines"}
_SUCCESS: Final = "Git command executed successfully with no output."
_NO_AUTHOR: Final = (
    "Commits have no author here. The host of this tool can set one (`Git(…, author=(name, address))`), or a person "
    "can set user.name and user.email in git's configuration, of the user or of this repository."
)
_REST: Final = "\n\nThe output is cut. Read the rest with a narrower command: pass a path, -n, --skip or --stat."


@dataclass(frozen=True)
class GitCommands:
    """Runs commands in the folders of one call."""

    git: GitCall
    tools: Git

    def run(self, uri: str, line: CommandLine) -> str:
        """Run a command in a folder, and return its output or its error as a text."""
        if line.access not in self.tools.allow:
            raise ToolError(f"`git {line.name}` is not allowed here: it {_WORDS[line.access]}.")
        if self.git.folders.status(uri).kind != "folder":
            raise ToolError(f"{uri!r} is no folder. Pass the folder to run the command in.")
        folder = self.git.folders.locate(uri)
        if line.name in {"init", "clone"}:
            return self._make_repository(folder, line)
        if line.name == "version":
            return self._text(self.git.run(["version"], None, folder=folder, kept_bytes=self.tools.max_bytes), line)
        repository = self.git.open(folder, access=line.access, merges=line.name in {"merge", "pull"})
        self._check_paths(line, folder)
        addresses = self._addresses(line, repository)
        self._ask(line, folder, addresses)
        result = self.git.run(
            _completed(line), repository, folder=folder, access=line.access, kept_bytes=self.tools.max_bytes
        )
        return self._text(result, line)

    def _make_repository(self, folder: Path, line: CommandLine) -> str:
        """Run `init` or `clone`, in a folder that these make if it does not exist."""
        names = [*line.arguments, *(line.paths or ())]
        addresses = []
        if line.name == "clone":
            if not names:
                raise ToolError("`git clone` needs the address of a repository.")
            addresses = [check_address(names.pop(0), self.git.program.protocols)]
            names = names or [addresses[0].rstrip("/").rpartition("/")[2].rpartition(":")[2].removesuffix(".git")]
        if len(names) > 1:
            raise ToolError(f"`git {line.name}` takes one folder. Leave out the other arguments.")
        target = self._inside(folder, names[0]) if names else folder
        refuse_place(self.git.folders, target)
        if "--bare" in line.options and target.is_dir() and any(target.iterdir()):
            raise ToolError("A bare repository is made in an empty folder only. Pass the name of a new one.")
        if os.path.lexists(target / ".git"):
            self.git.check(open_repository(self.git.folders, target), access=line.access)
        self._ask(line, folder, addresses)
        if line.name == "init":
            self.git.folders.make_folder(str(target))
        options = [word for word in line.tokens if word not in line.arguments]
        words = [line.name, *line.sub_command.added, *options, "--", *addresses, str(target)]
        writable = next(place for place in (target, *target.parents) if place.is_dir())
        result = self.git.run(
            words, None, folder=folder, writable=[writable], access=line.access, kept_bytes=self.tools.max_bytes
        )
        return self._text(result, line)

    def _check_paths(self, line: CommandLine, folder: Path) -> None:
        """Raise ToolError for an argument that, if it is a path, leads out of the folders, also through links."""
        if "no-paths" not in line.sub_command.flags:
            for word in (*line.arguments, *(line.paths or ())):
                self._inside(folder, word)

    def _inside(self, folder: Path, path: str) -> Path:
        """Return a path of an argument. Git follows links in some of them, and compares any two files with `diff`."""
        plain = Path(os.path.normpath(folder / path))
        roots = self.git.folders.roots
        if not any(plain.is_relative_to(named) for root in roots for named in (root, shown_path(root, roots))):
            raise ToolError(f"{path[:200]!r} leads out of the folders that this tool may use. Pass another path.")
        return self.git.folders.locate(str(folder / path))

    def _addresses(self, line: CommandLine, repository: Repository) -> list[str]:
        """Return the addresses that the command talks to, or stores."""
        names = [*line.arguments, *(line.paths or ())]
        if line.name in {"remote add", "remote set-url"}:
            for address in names[1:]:
                check_address(address, self.git.program.protocols)
        if line.access != "remote":
            return []
        keys = self.git.keys(repository)
        return addresses_of(names[0] if names else None, keys, self.git.program.protocols)

    def _ask(self, line: CommandLine, folder: Path, addresses: list[str]) -> None:
        kinds: dict[Access, ActionKind] = {"read": "read", "write": "write", "remote": "network"}
        shown = [mask_credentials(address) for address in addresses]
        command = mask_credentials(line.text)
        text = f"Run `{command}` in {self.git.folders.display(folder)!r}"
        discards = line.discards or self._replaces_files(line, folder)
        self.tools.approval.require(
            self.git.context,
            Action(
                kind="delete" if discards else kinds[line.access],
                text=f"{text}, which talks to {', '.join(shown)}" if shown else text,
                is_risky=line.access == "remote" or discards,
                details={"folder": self.git.folders.display(folder), "command": command, "addresses": shown},
            ),
        )

    def _replaces_files(self, line: CommandLine, folder: Path) -> bool:
        """Return whether `git checkout NAME` may mean a file, whose changes it then discards."""
        return line.name == "checkout" and any((folder / name).exists() for name in line.arguments)

    def _text(self, result: ProcessResult, line: CommandLine) -> str:
        streams = (("STDOUT:\n", result.stdout.text), ("STDERR:\n", to_last_states(result.stderr.text)[0]))
        parts = [
            (label if self.tools.labels_streams else "") + text.strip("\n")
            for label, text in streams
            if text.strip("\n")
        ]
        output = "\n".join(parts)
        if result.stdout.omitted or result.stderr.omitted:
            output += _REST
        if line.access == "remote" or line.name.startswith("remote"):
            output = mask_credentials(output)
        if result.exit_code != 0:
            note = self.git.owner_note(access=line.access)
            output = f"{output}\n{note}".strip("\n")
            if "tell me who you are" in output:
                output = _NO_AUTHOR
            elif self.tools.labels_streams:
                return f"{output}\nERROR CODE: {_plain_code(result.exit_code)}\nMESSAGE: The command has failed."
            return f"ERROR CODE: {_plain_code(result.exit_code)}\nMESSAGE: {output or 'Git gave no reason.'}"
        return output or _SUCCESS


def _completed(line: CommandLine) -> list[str]:
    """Return the arguments of git. Without a revision, `shortlog` would read one from its input."""
    is_short = line.name == "shortlog" and not line.arguments and "--all" not in line.options
    words = line.words
    return [*words[: 1 + len(line.tokens)], "HEAD", *words[1 + len(line.tokens) :]] if is_short else words


def _plain_code(code: int | None) -> int | None:
    """Return an exit code as a shell shows it, also where a sandbox has taken 129 for a signal."""
    return 128 - code if code is not None and code < 0 else code


if TYPE_CHECKING:
    from ahvn_tools.builtins.workspace.folder_tools import FolderTools

_READS = {"readOnlyHint": True, "openWorldHint": False}
_TAGS = {"git", "read"}
_MAX_COUNT = 200
_MAX_LINES = 1_000
_MAX_SKIP = 2**31 - 1
"""git ignores larger numbers."""


def _only_reads(arguments: Mapping[str, Any]) -> bool:
    """Return whether a call of `git_cmd` only reads; False, too, for arguments that it refuses."""
    try:
        return parse(arguments["args"]).access == "read"
    except (ToolError, KeyError, TypeError, AttributeError):
        return False


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

    argument_kinds: ClassVar[Mapping[str, ArgumentKind]] = {"uri": "path", "args": "git"}
    reading_calls: ClassVar[Mapping[str, Callable[[Mapping[str, Any]], bool]]] = {"git_cmd": _only_reads}

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
        """Raise DefinitionError for an option that is wrong.

        - `workspace`: a Workspace, or folders as in `Workspace(roots)`; a read-only one allows "read" only.
        - `allow`: the commands that `git_cmd` runs: "read", "write" (of a repository of this machine), "remote" (fetch,
          pull, push, clone, ls-remote).
        - `approve`: "risky" asks for remote commands, and for those that lose work; "always" for all that change
          something, "never" for none.
        - `timeout`: seconds of one command.
        - `sandbox`: "auto" uses bubblewrap where it works.
        - `author`: the name and address of commits; without it they are those that git itself would use: of
          GIT_AUTHOR_NAME and its like, and of the configuration of the repository, of the user and of the system.
        - `protocols`: those of remote commands, such as "ssh".
        - `environment`: variables of remote commands, such as GIT_ASKPASS.
        - `max_bytes`: of the output of one command.
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
        return GitCommands(self._call(context), self).run(uri, parse(args))

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

    def _open(self, uri: str, context: ToolContext) -> GitPlace:
        """Return the repository of a path, and the path in it."""
        return GitPlace.open(self._call(context), uri)

    def _diff(self, place: GitPlace, words: list[str], start_line: int, max_lines: int) -> GitDiff:
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
