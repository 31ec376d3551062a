"""GitCommands: runs the commands that models write, after all checks and approvals."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ahvn_tools.builtins.approval import Action, ActionKind, Approval
from ahvn_tools.builtins.git.command_line import Access, CommandLine
from ahvn_tools.builtins.git.git_program import GitCall
from ahvn_tools.builtins.git.repository import Repository, open_repository, refuse_place
from ahvn_tools.builtins.processes.result import ProcessResult
from ahvn_tools.builtins.processes.terminal_text import to_last_states
from ahvn_tools.errors import ToolError
from ahvn_tools.redaction import mask_credentials
from ahvn_tools.roots import shown_path

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
    approval: Approval
    allow: AbstractSet[Access]
    max_bytes: int
    labels_streams: bool

    def run(self, uri: str, line: CommandLine) -> str:
        """Run a command in a folder, and return its output or its error as a text."""
        if line.access not in self.allow:
            raise ToolError(f"`git {line.name}` is not allowed here: it {_WORDS[line.access]}.")
        if self.git.folders.status(uri).kind != "folder":
            raise ToolError(f"{uri!r} is no folder. Pass the folder to run the command in.")
        folder = self.git.folders.locate(uri)
        if line.name in {"init", "clone"}:
            return self._make_repository(folder, line)
        if line.name == "version":
            return self._text(self.git.run(["version"], None, folder=folder, kept_bytes=self.max_bytes), line)
        repository = self.git.open(folder, access=line.access, merges=line.name in {"merge", "pull"})
        self._check_paths(line, folder)
        addresses = self._addresses(line, repository)
        self._ask(line, folder, addresses)
        result = self.git.run(
            _completed(line), repository, folder=folder, access=line.access, kept_bytes=self.max_bytes
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
            words, None, folder=folder, writable=[writable], access=line.access, kept_bytes=self.max_bytes
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
        self.approval.require(
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
            (label if self.labels_streams else "") + text.strip("\n") for label, text in streams if text.strip("\n")
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
            elif self.labels_streams:
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
