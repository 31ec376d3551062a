"""Rules: which commands run without an approval, and which never run."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ahvn_tools.builtins.processes.confinement import places_of
from ahvn_tools.command_line import NotUnderstoodError, SimpleCommand, split_command_line
from ahvn_tools.command_programs import explain_open_rule, find_runner, may_run_code, runs_its_arguments
from ahvn_tools.errors import DefinitionError

READING_COMMANDS: Final = (
    "basename *", "cat *", "cd *", "cut *", "date", "df *", "dirname *", "du *", "echo *", "false", "find *", "grep *",
    "head *", "ls *", "nl *", "pwd", "readlink *", "realpath *", "stat *", "tail *", "true", "wc *",
)  # fmt: skip
"""What `Shell` allows in a sandbox by default: commands that only read."""

HARMLESS_COMMANDS: Final = ("date", "false", "pwd", "true")
"""What `Shell` allows without a sandbox by default: commands that do not even read files."""


@dataclass(frozen=True)
class Verdict:
    """What the rules say about one command line."""

    decision: Literal["allowed", "denied", "unknown"]
    """`unknown`: it needs an approval."""
    reason: str
    """Why, for a person or a model."""


@dataclass(frozen=True)
class CommandRule:
    """A pattern of words: each is compared with one word of a command, and a final * stands for any more words."""

    text: str
    words: tuple[str, ...]
    is_open: bool
    """Whether it ends with *."""

    @classmethod
    def parse(cls, text: str) -> CommandRule:
        """Return the rule that a text such as "git status *" describes. Raises DefinitionError."""
        words = tuple(text.split())
        is_open = words[-1:] == ("*",)
        rule = cls(text, words[:-1] if is_open else words, is_open)
        if not rule.words or "*" in rule.words:
            raise DefinitionError(f"A rule is a program and its arguments, such as 'git status *', not {text!r}.")
        return rule

    def matches(self, command: SimpleCommand, *, any_folder: bool = False) -> bool:
        """Return whether the command has the words of the rule; `any_folder`: also a program named by its path."""
        words = command.words
        if any_folder and "/" not in self.words[0]:
            words = (command.program.rpartition("/")[2], *words[1:])
        count = len(self.words)
        return words[:count] == self.words and (self.is_open or len(words) == count)

    def occurs_in(self, text: str) -> bool:
        """Return whether all words of the rule occur as words of the text."""
        return all(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) for word in self.words)


class CommandRules:
    """Decides about command lines. A denied one never runs; what is neither allowed nor denied needs an approval."""

    def __init__(self, allow: Iterable[str], deny: Iterable[str]) -> None:
        """Raise DefinitionError for a rule that would allow more than it says."""
        self.allow = tuple(map(_to_allow_rule, _texts("allow", allow)))
        self.deny = tuple(map(CommandRule.parse, _texts("deny", deny)))

    def judge(self, text: str, *, programs: ProgramFolders | None = None) -> Verdict:
        """Return the verdict about a command line; `programs` are the folders in which the shell looks for programs.

        A line that is not understood is never allowed. It is denied if the words of a deny rule occur in it, quoted or
        not; so is one that runs code. This is a best effort: a command can be written in ways that no rule finds.
        """
        try:
            commands = split_command_line(text)
        except NotUnderstoodError as error:
            return self._find_denied_words(text) or Verdict("unknown", f"The rules do not understand it: {error}.")
        for command in commands:
            if rule := next((rule for rule in self.deny if rule.matches(command, any_folder=True)), None):
                return _denied(rule)
        if not commands:
            return Verdict("unknown", "It contains no command.")
        verdicts = [self._judge_command(command, programs) for command in commands]
        unknown = [index for index, verdict in enumerate(verdicts) if verdict.decision != "allowed"]
        if any(may_run_code(commands[index]) for index in unknown) and (denied := self._find_denied_words(text)):
            return denied
        return verdicts[unknown[0] if unknown else 0]

    def _judge_command(self, command: SimpleCommand, programs: ProgramFolders | None) -> Verdict:
        rule = next((rule for rule in self.allow if rule.matches(command)), None)
        if rule is None:
            return Verdict("unknown", f"No rule allows {' '.join(command.words)[:200]!r}.")
        if rule.is_open and (reason := find_runner(command)):
            return Verdict("unknown", f"The rules do not understand it: {reason}.")
        if programs is not None and programs.is_replaced(command.program, is_own=rule.text not in READING_COMMANDS):
            return Verdict(
                "unknown", f"A file in the workspace has taken the place of the program {command.program!r}."
            )
        return Verdict("allowed", f"The rule {rule.text!r} allows it.")

    def _find_denied_words(self, text: str) -> Verdict | None:
        plain = re.sub(r"\\\n|['\"\\]", "", text)
        found = next((rule for rule in self.deny if rule.occurs_in(text) or rule.occurs_in(plain)), None)
        return None if found is None else _denied(found)


@dataclass(frozen=True)
class ProgramFolders:
    """The folders in which the shell looks for programs, and those that a model can write to."""

    path: str
    """As in the variable PATH."""
    writable: tuple[Path, ...]

    def is_replaced(self, program: str, *, is_own: bool) -> bool:
        """Return whether the shell finds the program in a writable folder although the rule means another one.

        `is_own`: the host has written the rule, so it means a program of the workspace if there is no other.
        """
        found = None if "/" in program else shutil.which(program, path=self.path)
        if found is None or not self._is_writable(found):
            return False
        others = os.pathsep.join(folder for folder in self.path.split(os.pathsep) if not self._is_writable(folder))
        return not is_own or shutil.which(program, path=others) is not None

    def has_replaced(self, text: str) -> bool:
        """Return whether a command line runs a program of a writable folder in the place of another one."""
        try:
            commands = split_command_line(text)
        except NotUnderstoodError:
            return False
        return any(self.is_replaced(command.program, is_own=True) for command in commands)

    def _is_writable(self, path: str) -> bool:
        return any(place.is_relative_to(folder) for place in places_of(path) for folder in self.writable)


def _texts(name: str, rules: Iterable[str]) -> tuple[str, ...]:
    if isinstance(rules, str):
        raise DefinitionError(f"`{name}` is a list of rules: write [{rules!r}].")
    return tuple(rules)


def _to_allow_rule(text: str) -> CommandRule:
    rule = CommandRule.parse(text)
    program = rule.words[0]
    if runs_its_arguments(program):
        raise DefinitionError(
            f"No rule can allow {program!r}: it runs other commands or changes the shell. Allow those commands."
        )
    if "/" in program and not program.startswith("/"):
        raise DefinitionError(f"The program of a rule is a name or an absolute path, not {program!r}.")
    if rule.is_open and (reason := explain_open_rule(rule.words)):
        raise DefinitionError(f"The rule {text!r} would allow any program: {reason}")
    return rule


def _denied(rule: CommandRule) -> Verdict:
    return Verdict("denied", f"The rule {rule.text!r} denies it.")
