"""GitCommands: runs the commands that models write, after all checks and approvals."""

from __future__ import annotations

import os
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ahvn_tools.builtins.approval import Action, ActionKind, Approval
from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.git.command_line import CommandLine
from ahvn_tools.builtins.git.environment import author_identity, git_environment
from ahvn_tools.builtins.git.program import GitProgram
from ahvn_tools.builtins.git.remotes import addresses_of, check_address
from ahvn_tools.builtins.git.repository import Repository, open_repository, refuse_place
from ahvn_tools.builtins.git.sub_commands import Access
from ahvn_tools.builtins.processes.result import ProcessResult
from ahvn_tools.builtins.processes.terminal_text import to_last_states
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.redaction import mask_credentials
from ahvn_tools.roots import shown_path

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

    program: GitProgram
    folders: ConfinedFolders
    approval: Approval
    allow: AbstractSet[Access]
    max_bytes: int
    labels_streams: bool = False

    def run(self, uri: str, line: CommandLine, context: ToolContext) -> str:
        """Run a command in a folder, and return its output or its error as a text."""
        if line.access not in self.allow:
            raise ToolError(f"`git {line.name}` is not allowed here: it {_WORDS[line.access]}.")
        if self.folders.status(uri).kind != "folder":
            raise ToolError(f"{uri!r} is no folder. Pass the folder to run the command in.")
        folder = self.folders.locate(uri)
        if line.name in {"init", "clone"}:
            return self._make_repository(folder, line, context)
        if line.name == "version":
            return self._text(self._start(["version"], folder, (), context), line)
        merges = line.name in {"merge", "pull"}
        repository = self.program.open(self.folders, folder, context, access=line.access, merges=merges)
        self._check_paths(line, folder)
        addresses = self._addresses(line, repository)
        self._ask(line, folder, addresses, context)
        result = self.program.run(
            self.folders,
            repository,
            _completed(line),
            context,
            folder=folder,
            access=line.access,
            kept_bytes=self.max_bytes,
        )
        return self._text(result, line)

    def _make_repository(self, folder: Path, line: CommandLine, context: ToolContext) -> str:
        """Run `init` or `clone`, in a folder that these make if it does not exist."""
        names = [*line.arguments, *(line.paths or ())]
        addresses = []
        if line.name == "clone":
            if not names:
                raise ToolError("`git clone` needs the address of a repository.")
            addresses = [check_address(names.pop(0), self.program.protocols)]
            names = names or [addresses[0].rstrip("/").rpartition("/")[2].rpartition(":")[2].removesuffix(".git")]
        if len(names) > 1:
            raise ToolError(f"`git {line.name}` takes one folder. Leave out the other arguments.")
        target = self._inside(folder, names[0]) if names else folder
        refuse_place(self.folders, target)
        if "--bare" in line.options and target.is_dir() and any(target.iterdir()):
            raise ToolError("A bare repository is made in an empty folder only. Pass the name of a new one.")
        if os.path.lexists(target / ".git"):
            self.program.check(self.folders, open_repository(self.folders, target), context, access=line.access)
        self._ask(line, folder, addresses, context)
        if line.name == "init":
            self.folders.make_folder(str(target))
        options = [word for word in line.tokens if word not in line.arguments]
        words = [line.name, *line.sub_command.added, *options, "--", *addresses, str(target)]
        writable = target if target.is_dir() else self._existing(target.parent)
        return self._text(self._start(words, folder, (writable,), context, access=line.access), line)

    def _start(
        self,
        words: Sequence[str],
        folder: Path,
        writable: Sequence[Path],
        context: ToolContext,
        *,
        access: Access = "read",
    ) -> ProcessResult:
        """Run git without a repository."""
        is_remote = access == "remote"
        environment = git_environment(
            protocols=self.program.protocols if is_remote else (),
            identity=self.program.author and author_identity(self.program.author),
            host=self.program.environment if is_remote else None,
        )
        return self.program.start(
            self.folders, words, context, folder=folder, writable=writable, environment=environment,
            network=is_remote, kept_bytes=self.max_bytes,
        )  # fmt: skip

    def _existing(self, folder: Path) -> Path:
        return next(place for place in (folder, *folder.parents) if place.is_dir())

    def _check_paths(self, line: CommandLine, folder: Path) -> None:
        """Raise ToolError for an argument that, if it is a path, leads out of the folders, also through links."""
        if line.sub_command.takes_paths:
            for word in (*line.arguments, *(line.paths or ())):
                self._inside(folder, word)

    def _inside(self, folder: Path, path: str) -> Path:
        """Return a path of an argument. Git follows links in some of them, and compares any two files with `diff`."""
        plain = Path(os.path.normpath(folder / path))
        roots = self.folders.roots
        if not any(plain.is_relative_to(named) for root in roots for named in (root, shown_path(root, roots))):
            raise ToolError(f"{path[:200]!r} leads out of the folders that this tool may use. Pass another path.")
        return self.folders.locate(str(folder / path))

    def _addresses(self, line: CommandLine, repository: Repository) -> list[str]:
        """Return the addresses that the command talks to, or stores."""
        names = [*line.arguments, *(line.paths or ())]
        if line.name in {"remote add", "remote set-url"}:
            for address in names[1:]:
                check_address(address, self.program.protocols)
        if line.access != "remote":
            return []
        keys = self.program.keys(self.folders, repository)
        return addresses_of(names[0] if names else None, keys, self.program.protocols)

    def _ask(self, line: CommandLine, folder: Path, addresses: list[str], context: ToolContext) -> None:
        kinds: dict[Access, ActionKind] = {"read": "read", "write": "write", "remote": "network"}
        shown = [mask_credentials(address) for address in addresses]
        command = mask_credentials(line.text)
        text = f"Run `{command}` in {self.folders.display(folder)!r}"
        discards = line.discards or self._replaces_files(line, folder)
        self.approval.require(
            context,
            Action(
                kind="delete" if discards else kinds[line.access],
                text=f"{text}, which talks to {', '.join(shown)}" if shown else text,
                is_risky=line.access == "remote" or discards,
                details={"folder": self.folders.display(folder), "command": command, "addresses": shown},
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
            note = self.program.owner_note(self.folders, access=line.access)
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
