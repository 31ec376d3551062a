"""CommandPreparation: checks a command of a model, and returns how it is run."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ahvn_tools import invisible
from ahvn_tools.builtins.approval import Action, Approval, Approve
from ahvn_tools.builtins.files.folders import folders_of
from ahvn_tools.builtins.processes.confinement import Confinement, Sandbox, choose_sandbox
from ahvn_tools.builtins.processes.private_folder import clean_environment
from ahvn_tools.builtins.shell.rules import HARMLESS_COMMANDS, READING_COMMANDS, CommandRules, ProgramFolders, Verdict
from ahvn_tools.builtins.workspace.folder_tools import FolderTools
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import DefinitionError, ToolError
from ahvn_tools.roots import Roots

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


MAX_COMMAND_BYTES: Final = 100_000
"""Systems refuse an argument that is much longer."""
MAX_INPUT_BYTES: Final = 100_000
"""How much a job is sent in one call."""


@dataclass(frozen=True, kw_only=True)
class PreparedCommand:
    """An approved command: what `run_process` and `RunningProcess` take."""

    text: str
    arguments: Sequence[str]
    folder: Path
    confinement: Confinement
    environment: Mapping[str, str]
    is_interleaved: bool = False
    """Whether it writes both streams to stdout."""
    is_allowed: bool = False
    """Whether a rule allows it, so that it needs no approval as a risky command."""
    roots: tuple[Path, ...] = ()
    """The folders of the call that started it."""

    @property
    def process_arguments(self) -> dict[str, Any]:
        """The keyword arguments of a process."""
        return {"folder": self.folder, "confinement": self.confinement, "environment": self.environment}


class CommandPreparation:
    """What the host has decided about commands: folders, sandbox, rules, approvals and shells."""

    def __init__(
        self,
        workspace: FolderTools | Roots,
        *,
        sandbox: Sandbox,
        allow: Iterable[str] | None,
        deny: Iterable[str],
        approve: Approve,
        environment: Mapping[str, str] | None,
        network: bool,
        shells: Sequence[str],
    ) -> None:
        """Take the options of `Shell`. Raises DefinitionError."""
        self.folders, self.is_read_only = folders_of(workspace)
        self.sandbox = choose_sandbox(sandbox, untrusted=self.folders.roots)
        self.network = network
        default_rules = READING_COMMANDS if self.sandbox == "bubblewrap" else HARMLESS_COMMANDS
        self._rules = CommandRules(default_rules if allow is None else allow, deny)
        if self.is_read_only and self.sandbox == "none" and approve == "never":
            raise DefinitionError(
                "Without a sandbox nothing protects the files of a read-only workspace, so commands need approvals: "
                "install bubblewrap, or pass another `approve` than 'never'."
            )
        self.approval = Approval(approve)
        self._environment = _shell_environment(environment or {})
        self.shells = ShellPrograms(shells)
        self._confine(self.folders.roots, self.shells.choose(None)).warn_of_owners()

    def prepare(
        self, cmd: str, uri: str, shell_path: str | None, context: ToolContext, *, is_interleaved: bool
    ) -> PreparedCommand:
        """Return the command when it may run. Raises ToolError for one that may not, and asks for an approval."""
        _check_text(cmd)
        folders = self.folders.for_call(context)
        if folders.status(uri).kind != "folder":
            raise ToolError(f"{uri!r} is no folder. Pass the folder in which the command runs.")
        shell = self.shells.choose(shell_path)
        verdict = self._judge(cmd, shell, folders.roots)
        if verdict.decision == "denied":
            raise ToolError(f"This command is not permitted here. {verdict.reason} Use another command.")
        action = self._to_action(cmd, folders.display(uri), shell, verdict)
        is_replaced = self._programs(folders.roots).has_replaced(cmd)  # a rule for calls means the other program
        self.approval.require(context, replace(action, runs_later=is_replaced))
        return PreparedCommand(
            text=cmd, arguments=shell_arguments(shell, cmd, is_interleaved=is_interleaved), folder=folders.locate(uri),
            confinement=self._confine(folders.roots, shell), environment=self._environment,
            is_interleaved=is_interleaved, is_allowed=verdict.decision == "allowed", roots=folders.roots,
        )  # fmt: skip

    def check_input(self, text: str, command: PreparedCommand, context: ToolContext) -> bytes:
        """Return what is written to a command that runs. Raises ToolError, and asks as before the command was started.

        A program such as a shell runs what it reads.
        """
        data = _encode("text", text, limit=MAX_INPUT_BYTES, advice="Send less at once.")
        if not set(command.roots) <= set(self.folders.for_call(context).roots):
            raise ToolError("The job may use folders that this call may not. Start a job of your own.")
        verdict = self._rules.judge(text)
        if verdict.decision == "denied":
            raise ToolError(f"This input is not permitted here. {verdict.reason} Send another input.")
        shown = f"Send `{invisible.escape(text)}` to the command `{invisible.escape(command.text)}`, which runs"
        details = {"input": text, "command": command.text, "sandbox": self.sandbox}
        action = Action(kind="execute", text=shown, is_risky=not command.is_allowed, details=details)
        self.approval.require(context, action)
        return data

    def _programs(self, roots: tuple[Path, ...]) -> ProgramFolders:
        return ProgramFolders(self._environment.get("PATH", ""), (*self.folders.roots, *roots))

    def _judge(self, cmd: str, shell: str, roots: tuple[Path, ...]) -> Verdict:
        verdict = self._rules.judge(cmd, programs=self._programs(roots))
        if verdict.decision != "allowed":
            return verdict
        if not is_understood_shell(shell):
            return Verdict("unknown", f"The rules do not know the language of {shell}.")
        if self.is_read_only and self.sandbox == "none":
            return Verdict("unknown", "The workspace is read-only, and no sandbox enforces it.")
        if roots != self.folders.roots and self.sandbox == "none":
            return Verdict("unknown", "This call may use a part of the workspace only, and no sandbox enforces it.")
        return verdict

    def _to_action(self, cmd: str, folder: str, shell: str, verdict: Verdict) -> Action:
        text = f"Run `{invisible.escape(cmd)}` in {invisible.escape_line(folder)}"
        details = {
            "command": cmd, "folder": folder, "shell": shell, "reason": verdict.reason,
            "sandbox": self.sandbox, "network": self.network or self.sandbox == "none",
        }  # fmt: skip
        return Action(kind="execute", text=text, is_risky=verdict.decision != "allowed", details=details)

    def _confine(self, roots: tuple[Path, ...], shell: str) -> Confinement:
        writable = () if self.is_read_only else roots
        return Confinement(
            writable=writable, readable=(*roots, Path(shell)), network=self.network, sandbox=self.sandbox
        )


def _shell_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of commands: few, without secrets, and such that no program waits for a person."""
    plain = {"NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
    environment = clean_environment(**{**plain, **variables})
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    return {**environment, "PATH": os.pathsep.join(folder for folder in folders if folder.startswith("/"))}


def to_seconds(timeout: float | None, limit: float) -> float:
    """Return the timeout that a model has chosen, at most the host's. Raises ToolError for what is no duration."""
    if timeout is None:
        return limit
    if not math.isfinite(timeout) or timeout <= 0:
        raise ToolError("`timeout` must be a number of seconds greater than 0.")
    return min(timeout, limit)


def _check_text(cmd: str) -> None:
    if not cmd.strip():
        raise ToolError("`cmd` is empty. Pass a command.")
    if "\0" in cmd:
        raise ToolError("`cmd` contains a NUL character. Remove it.")
    _encode("cmd", cmd, limit=MAX_COMMAND_BYTES, advice="Run a script in a file.")


def _encode(name: str, text: str, *, limit: int, advice: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise ToolError(f"`{name}` contains a character that UTF-8 cannot encode. Remove it.") from None
    if len(data) > limit:
        raise ToolError(f"`{name}` has {len(data):,} bytes, and {limit:,} are possible. {advice}")
    return data
