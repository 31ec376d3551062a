"""A repository in the folders that tools may use, and git, which executes nothing of it."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.git.command_line import Access
from ahvn_tools.builtins.processes.confinement import Confinement, ProcessLimits, find_trusted_program
from ahvn_tools.builtins.processes.private_folder import clean_environment
from ahvn_tools.builtins.processes.process import run_process
from ahvn_tools.builtins.processes.result import ProcessResult
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError

_MAX_FILE_BYTES: Final = 1_000_000
"""The maximum size of a file of git that is read here: the configuration, and files that name other folders."""

_MAX_ALTERNATES: Final = 20


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A repository whose parts lie in the folders that tools may use."""

    git_dir: Path
    common_dir: Path
    """What the work trees of a repository share; `git_dir` if there is one only."""
    work_tree: Path | None
    """None for a bare repository."""
    alternates: tuple[Path, ...] = ()
    """The object folders of other repositories that it uses."""

    @property
    def top(self) -> Path:
        """The folder that a person calls the repository."""
        return self.work_tree or self.git_dir


def find_repository(folders: ConfinedFolders, folder: Path) -> Repository:
    """Return the repository that a folder belongs to. Raises ToolError without one inside of the folders."""
    if any(part.casefold() == ".git" for part in folder.parts):
        raise ToolError("The path is inside of .git. Pass a folder of the work tree.")
    for place in _inside(folders, folder):
        if os.path.lexists(place / ".git"):
            return open_repository(folders, place)
        if _is_bare(place):
            return _checked(folders, place, work_tree=None)
    raise ToolError(
        f"{folders.display(folder)!r} is in no git repository that lies in the folders that this tool may use. "
        "Pass a folder of a repository, or make one with `init`."
    )


def refuse_place(folders: ConfinedFolders, folder: Path) -> None:
    """Raise ToolError for a new repository inside of the files of git: what is in `hooks` is executed by others."""
    is_inside = any(part.casefold() == ".git" for part in folder.parts)
    if is_inside or any(map(_is_bare, _inside(folders, folder.parent))):
        raise ToolError("A repository cannot be made inside of .git or of a bare repository. Pass another folder.")


def open_repository(folders: ConfinedFolders, work_tree: Path) -> Repository:
    """Return the repository of a folder with .git, which is a folder or a file that names one."""
    entry = work_tree / ".git"
    git_dir = _locate(folders, str(entry))
    if not git_dir.is_dir():
        named = _read(folders, git_dir).removeprefix("gitdir:").strip()
        git_dir = _locate(folders, os.path.join(work_tree, named))  # noqa: PTH118  # a text of the file, unchanged
    return _checked(folders, git_dir, work_tree=work_tree)


def find_nested(
    folders: ConfinedFolders, repository: Repository, *, check_cancelled: Callable[[], None]
) -> Iterator[Repository]:
    """Yield the repositories in the work tree of another: git looks into them when they are submodules."""
    if repository.work_tree is None:
        return
    for place, names, files in os.walk(repository.work_tree):
        check_cancelled()
        if place != str(repository.work_tree) and (".git" in names or ".git" in files):
            yield open_repository(folders, Path(place))
        names[:] = [name for name in names if name != ".git"]


def refuse_shared_files(repository: Repository) -> None:
    """Raise ToolError if a file that git may write in place has another name elsewhere, as a hard link."""
    for entry in _entries(repository.git_dir, with_objects=False):
        if entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_nlink > 1:
            raise ToolError(f"{entry.name!r} in .git has several names (hard links), so git does not write here.")


def refuse_old_remotes(repository: Repository) -> None:
    """Raise ToolError for addresses in the files that git read before its configuration had remotes."""
    for name in ("remotes", "branches"):
        folder = repository.common_dir / name
        if folder.is_dir() and any(folder.iterdir()):
            raise ToolError(f"The repository has remotes in '.git/{name}', which cannot be used. Use `remote add`.")


def refuse_programs_in_todo(repository: Repository) -> None:
    """Raise ToolError if an unfinished rebase would run a program when it goes on."""
    for name in ("rebase-merge/git-rebase-todo", "sequencer/todo"):
        path = repository.git_dir / name
        lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
        if any(line.split()[:1] in (["exec"], ["x"]) for line in lines):
            raise ToolError(
                "The rebase that is not finished would run programs (`exec`). End it with `rebase --abort`."
            )


def refuse_outside(folders: ConfinedFolders, repository: Repository, path: str) -> None:
    """Raise ToolError for the path of a file, in a configuration, that leads out of the folders."""
    if path.startswith(("~", ":")):  # a home folder, and `:(optional)`
        path = "/"
    _locate(folders, os.path.join(repository.top, path))  # noqa: PTH118


def _inside(folders: ConfinedFolders, folder: Path) -> list[Path]:
    """Return a folder and those above it, up to the last one that tools may use."""
    places = (folder, *folder.parents)
    return [place for place in places if any(place.is_relative_to(root) for root in folders.roots)]


def _is_bare(folder: Path) -> bool:
    return all((folder / name).exists() for name in ("HEAD", "objects", "refs"))


def _checked(folders: ConfinedFolders, git_dir: Path, *, work_tree: Path | None) -> Repository:
    if not git_dir.is_dir():
        raise ToolError(
            f"The .git entry of {folders.display(work_tree or git_dir)!r} leads to no folder, so this is no "
            "repository. Remove the entry, or use another repository."
        )
    common_dir = git_dir
    if (named := _read(folders, git_dir / "commondir").strip()) != "":
        common_dir = _locate(folders, os.path.join(git_dir, named))  # noqa: PTH118
    alternates = tuple(_alternates(folders, common_dir / "objects"))
    for place in dict.fromkeys((git_dir, common_dir, *alternates)):
        for entry in _entries(place):
            if entry.is_symlink():
                _locate(folders, entry.path)
    return Repository(git_dir=git_dir, common_dir=common_dir, work_tree=work_tree, alternates=alternates)


def _alternates(folders: ConfinedFolders, objects: Path) -> Iterator[Path]:
    pending, seen = [objects], {objects}
    while pending:
        here = pending.pop()
        for line in _read(folders, here / "info/alternates").split("\n"):
            if not line or line.startswith("#"):
                continue
            other = _locate(folders, os.path.join(here, line))  # noqa: PTH118
            if other not in seen:
                seen.add(other)
                pending.append(other)
                yield other
            if len(seen) > _MAX_ALTERNATES:
                raise ToolError("The repository uses the objects of too many others. Pass another repository.")


def _entries(folder: Path, *, with_objects: bool = True) -> Iterator[os.DirEntry[str]]:
    """Yield what is in a folder of git, at any depth; links are not followed."""
    pending = [folder]
    while pending:
        with (
            contextlib.suppress(FileNotFoundError),
            os.scandir(pending.pop()) as entries,
        ):  # git deletes files meanwhile
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False) and (with_objects or entry.name != "objects"):
                    pending.append(Path(entry.path))


def _locate(folders: ConfinedFolders, path: str) -> Path:
    try:
        return folders.locate(path)
    except ToolError:
        raise ToolError(
            "A part of this repository leads out of the folders that this tool may use (a link, a .git file, shared "
            "objects or a setting). Pass another repository."
        ) from None


def _read(folders: ConfinedFolders, path: Path) -> str:
    """Return the text of a small file of git, and none if it does not exist."""
    if not os.path.lexists(path):
        return ""
    content, _ = folders.read(str(path), max_bytes=_MAX_FILE_BYTES)
    return content.decode(errors="surrogateescape")


def read_configuration(folders: ConfinedFolders, repository: Repository) -> list[bytes]:
    """Return the content of each configuration file of the repository."""
    places = dict.fromkeys([repository.common_dir / "config", repository.git_dir / "config.worktree"])
    places[repository.common_dir / "config.worktree"] = None
    return [folders.read(str(path), max_bytes=_MAX_FILE_BYTES)[0] for path in places if os.path.lexists(path)]


OVERRIDES: Final[Mapping[str, str]] = {
    # Programs that single keys name.
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.editor": ":",
    "core.askPass": "",
    "core.sshCommand": "false",
    "sequence.editor": ":",
    "credential.helper": "",
    "diff.external": "",
    "gpg.program": "false",
    "gpg.openpgp.program": "false",
    "gpg.x509.program": "false",
    "gpg.ssh.program": "false",
    "gpg.ssh.defaultKeyCommand": "false",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "tag.forceSignAnnotated": "false",
    "push.gpgSign": "false",
    "log.showSignature": "false",
    "merge.verifySignatures": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    # Files elsewhere that it would read and might show.
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "commit.template": "/dev/null",
    "mailmap.file": "/dev/null",
    "mailmap.blob": "",
    "diff.orderFile": "/dev/null",
    # Other repositories.
    "diff.ignoreSubmodules": "dirty",
    "diff.submodule": "short",
    "fetch.recurseSubmodules": "false",
    "push.recurseSubmodules": "no",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
    # Memory: larger files are not compared, and little of a pack is mapped at once.
    "core.bigFileThreshold": "100m",
    "core.packedGitLimit": "1g",
    "core.packedGitWindowSize": "64m",
    # Names that other systems read as .git.
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    # An author is never made of the names of the user and the host.
    "user.useConfigOnly": "true",
    # What output looks like.
    "advice.detachedHead": "false",
    "color.ui": "false",
    "column.ui": "never",
    "core.quotePath": "false",
    "i18n.logOutputEncoding": "UTF-8",
}
"""Settings of every command, which count more than those of the repository."""

_REFUSED: Final = re.compile(
    r"""
    include\.path | includeif\..*                        # other files with any of these
    | filter\..*\.(clean|smudge|process)                 # run on the files that status, add and checkout compare
    | diff\..*\.(command|textconv) | merge\..*\.driver
    | trailer\..*\.(command|cmd) | tar\..*\.command | hook\..*
    | core\.(alternaterefscommand|gitproxy) | uploadpack\.packobjectshook
    """,
    re.VERBOSE | re.DOTALL,
)
_REFUSED_WITH_NETWORK: Final = re.compile(
    r"""
    url\..*\.(insteadof|pushinsteadof)                   # another host than the one that was approved
    | fetch\.fsck\..*                                     # a file that errors would show
    | remote\..*\.(uploadpack|receivepack|vcs|proxy.*)
    | http\.(.*\.)?(proxy.*|cookiefile|savecookies|ssl.*|delegation|emptyauth|curloptresolve|followredirects)
    """,
    re.VERBOSE | re.DOTALL,
)

_MERGE_OPTIONS: Final = re.compile(r"branch\..*\.mergeoptions", re.DOTALL)
"""Options of `git merge`, such as one that puts any file into the message."""

READ_FILES: Final = frozenset({"blame.ignorerevsfile"})
"""Keys of files that git reads, and shows in its errors. They cannot be overridden: git reads all that are named."""


def override_options() -> list[str]:
    """Return the overrides as options of git."""
    return [word for key, value in OVERRIDES.items() for word in ("-c", f"{key}={value}")]


def parse_keys(listing: str) -> list[tuple[str, str]]:
    """Return keys and values from `git config --list --null`, whose sections and names are in lower case."""
    pairs = (entry.partition("\n") for entry in listing.split("\0") if entry)
    return [(key, value) for key, _, value in pairs]


def find_refused(keys: Iterable[str], *, network: bool = False, merges: bool = False) -> str | None:
    """Return the first key because of which a repository is refused; None if there is none."""
    patterns = [_REFUSED, *([_REFUSED_WITH_NETWORK] if network else []), *([_MERGE_OPTIONS] if merges else [])]
    return next((key for key in keys for pattern in patterns if _matches(pattern, key)), None)


def _matches(pattern: re.Pattern[str], key: str) -> bool:
    """Return whether a key matches; names after the last dot are compared without case."""
    section, _, name = key.rpartition(".")
    return pattern.fullmatch(f"{section.lower()}.{name.lower()}") is not None


Author = tuple[str, str]
"""The name and the e-mail address of commits."""

_FIXED: Final[Mapping[str, str]] = {
    "HOME": "/nonexistent",  # where neither .gitconfig nor .netrc is
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o ClearAllForwardings=yes",
    "GIT_EDITOR": ":",
    "GIT_SEQUENCE_EDITOR": ":",
    "GIT_MERGE_AUTOEDIT": "no",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ADVICE": "0",
    "LC_ALL": "C.UTF-8",
    "TERM": "dumb",
}


_OF_USER: Final = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
"""The variables by which git finds the configuration of the user and the system."""

IDENTITY_KEYS: Final = r"^(user|author|committer)\.(name|email)$"
"""The keys that `user_identity` takes, for `git config --get-regexp`."""


def user_environment(git_dir: Path) -> dict[str, str]:
    """Return the variables of a git that reads the configuration of the user for a repository, and does nothing else.

    Conditional includes, such as another address in some folders, need the repository.
    """
    fixed = {name: value for name, value in _FIXED.items() if name not in _OF_USER}
    variables = clean_environment(**{**fixed, "GIT_ALLOW_PROTOCOL": "none", "GIT_DIR": str(git_dir)})
    variables = {name: value for name, value in variables.items() if name not in _OF_USER}
    return {**variables, **{name: os.environ[name] for name in _OF_USER if name in os.environ}}


def user_identity(keys: Mapping[str, str], host: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of who commits, as git finds them: those of the host, else those of the configuration."""
    identity = {}
    for role in ("author", "committer"):
        for part in ("name", "email"):
            variable = f"GIT_{role}_{part}".upper()
            if value := host.get(variable) or keys.get(f"{role}.{part}") or keys.get(f"user.{part}"):
                identity[variable] = value
    return identity


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


@dataclass(frozen=True)
class GitCall:
    """The git of one call: runs it on repositories that were checked."""

    program: GitProgram
    folders: ConfinedFolders
    """Those of the call."""
    context: ToolContext

    def open(self, folder: Path, *, access: Access = "read", merges: bool = False) -> Repository:
        """Return the repository of a folder. Raises ToolError if git could execute or reach something through it."""
        repository = find_repository(self.folders, folder)
        self.check(repository, access=access, merges=merges)
        return repository

    def check(self, repository: Repository, *, access: Access, merges: bool = False) -> None:
        """Raise ToolError if git could execute or reach something through the repository, or one in its work tree."""
        self._check_configuration(repository, network=access == "remote", merges=merges)
        if access == "read":
            return
        if access == "remote":
            refuse_old_remotes(repository)
        refuse_shared_files(repository)
        refuse_programs_in_todo(repository)
        for nested in find_nested(self.folders, repository, check_cancelled=self.context.check_cancelled):
            self._check_configuration(nested)

    def keys(self, repository: Repository) -> list[tuple[str, str]]:
        """Return the configuration of a repository: keys, with sections and names in lower case, and values."""
        git = self._find_git()
        return [pair for content in read_configuration(self.folders, repository) for pair in _parse(git, content)]

    def run(
        self, words: Sequence[str], repository: Repository | None, *, folder: Path | None = None,
        writable: Sequence[Path] = (), access: Access = "read", literal_paths: bool = False,
        kept_bytes: int = 4_000_000,
    ) -> ProcessResult:  # fmt: skip
        """Run git to its end. `words` are a sub-command and its arguments, which were checked.

        Without a repository, git writes in the folders `writable`. Raises ToolError after the timeout, and
        CallCancelledError.
        """
        program, network = self.program, access == "remote"
        options = ["--no-pager", *override_options()]
        variables = {"GIT_ALLOW_PROTOCOL": (":".join(program.protocols) if network else "") or "none"}
        if access != "read":
            variables.update(self._identity(repository))
        if literal_paths:
            variables["GIT_LITERAL_PATHSPECS"] = "1"
        if repository is not None:
            # Without a search, git and the checks before it see one repository, and `core.worktree` does not count.
            variables["GIT_DIR"] = str(repository.git_dir)
            if repository.work_tree is None:
                options += ["-c", "core.bare=true"]
            else:
                variables["GIT_WORK_TREE"] = str(repository.work_tree)
            if access != "read":
                writable = (repository.top, repository.git_dir, repository.common_dir)
            folder = folder or repository.top
        result = run_process(
            [self._find_git(), *options, *words],
            folder=folder or Path("/"),
            confinement=Confinement(
                writable=tuple(dict.fromkeys(writable)), writes_git_settings=True, readable=self.folders.roots,
                network=network, sandbox=program.sandbox,
            ),
            limits=ProcessLimits(
                timeout=program.timeout, memory_bytes=_MEMORY_BYTES, kept_bytes=kept_bytes, spooled_bytes=0
            ),
            environment=clean_environment(**{**_FIXED, **variables, **(program.environment if network else {})}),
            is_cancelled=lambda: self.context.cancelled,
        )  # fmt: skip
        if result.ended_by == "cancelled":
            self.context.check_cancelled()
        if result.ended_by != "exit":
            narrow = "Narrow it, such as by a path or fewer commits."
            raise ToolError(f"`git {words[0]}` was stopped after {program.timeout:g} s. {narrow}")
        return result

    def owner_note(self, *, access: Access) -> str:
        """Return a sentence about a folder that the sandbox of root cannot use; none if it can use all of them."""
        if self.program.sandbox == "none":
            return ""
        writable = () if access == "read" else self.folders.roots
        confined = Confinement(writable=writable, readable=self.folders.roots, sandbox=self.program.sandbox)
        return confined.statement or ""

    def _identity(self, repository: Repository | None) -> dict[str, str]:
        """Return the variables of who commits; without `author` as plain git finds them, and nothing else of the user.

        No sandbox hides the configuration of the user from this git. It only reads configurations, and that of the
        repository was checked: it names no other files.
        """
        if self.program.author is not None:
            name, address = self.program.author
            return user_identity({"user.name": name, "user.email": address}, {})
        if repository is None:
            return {}
        result = run_process(
            [self._find_git(), "config", "--null", "--get-regexp", IDENTITY_KEYS],
            folder=Path("/"),
            confinement=Confinement(sandbox="none"),
            limits=ProcessLimits(timeout=10, spooled_bytes=0),
            environment=user_environment(repository.git_dir),
        )
        return user_identity(dict(parse_keys(result.stdout.head)) if result.exit_code == 0 else {}, os.environ)

    def _find_git(self) -> str:
        path = find_trusted_program("git", (*self.program.untrusted, *self.folders.roots))
        if path is None:
            raise ToolError(
                "git is not installed on this machine, so git tools cannot be used.",
                explanation="There is no git on PATH outside of the folders that these tools may write.",
            )
        return path

    def _check_configuration(self, repository: Repository, *, network: bool = False, merges: bool = False) -> None:
        keys = self.keys(repository)
        for name, value in keys:
            if name in READ_FILES and value:
                refuse_outside(self.folders, repository, value)
        key = find_refused((key for key, _ in keys), network=network, merges=merges)
        if key is not None:
            raise ToolError(
                f"The configuration of the repository {self.folders.display(repository.top)!r} has {key!r}, with which "
                "git could run other programs or reach other places. Git tools work when a person has removed it."
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
        environment=clean_environment(**_FIXED, GIT_ALLOW_PROTOCOL="none"),
        stdin=content,
    )
    if result.exit_code != 0 or result.stdout.omitted:
        raise ToolError("The configuration of the repository cannot be read. Pass another repository.")
    return tuple(parse_keys(result.stdout.head))
