"""CommandLine: the arguments of a git command as a model wrote them, parsed and checked option by option."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ahvn_tools.builtins.git.sub_commands import (
    ADVICE,
    NESTED,
    SUB_COMMANDS,
    UNLISTED_ACTIONS,
    Access,
    SubCommand,
    Value,
)
from ahvn_tools.command_words import split_command
from ahvn_tools.errors import ToolError, near_misses

MAX_CHARS: Final = 20_000
"""The maximum length of a command line."""

_SHELL_SYNTAX: Final = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>", "2>&1", "2>/dev/null"})
_NUMBER: Final = re.compile(r"-\d+")


@dataclass
class CommandLine:
    """A command that was checked: each option is one that its sub-command may have, with its value attached."""

    name: str
    """The sub-command; of two words, such as `stash pop`, both."""
    sub_command: SubCommand
    tokens: list[str] = field(default_factory=list)
    """Options and arguments in their order, up to `--`."""
    options: list[str] = field(default_factory=list)
    """The names of the options."""
    arguments: list[str] = field(default_factory=list)
    """Revisions, names and paths before `--`."""
    paths: list[str] | None = None
    """What follows `--`; None without it."""

    @property
    def words(self) -> list[str]:
        """The arguments of git: the sub-command, the options that are always passed, and the rest."""
        separated = [] if self.paths is None else ["--", *self.paths]
        return [*self.name.split(), *self.sub_command.added, *self.tokens, *separated]

    @property
    def text(self) -> str:
        """The command as a person reads it."""
        return shlex.join(["git", *self.name.split(), *self.tokens, *(["--", *self.paths] if self.paths else [])])

    @property
    def access(self) -> Access:
        """What the command does with these options."""
        command = self.sub_command
        if command.access == "write" and not command.writes_with.intersection(self.options):
            if command.reads_with.intersection(self.options):
                return "read"
            if command.reads_without_arguments and not (self.arguments or self.paths):
                return "read"
        return command.access

    @property
    def discards(self) -> bool:
        """Whether the command loses work that git cannot restore."""
        losing = self.sub_command.discards_with
        if self.access != "write":
            return False
        if self.name == "restore":
            return not {"-S", "--staged"}.intersection(self.options) or bool(
                {"-W", "--worktree"}.intersection(self.options)
            )
        if self.name == "checkout" and (self.paths or len(self.arguments) > 1):
            return True
        return "*" in losing or bool(losing.intersection(self.options))


def parse(text: str) -> CommandLine:
    """Return the command that a model wrote, with or without `git` before it.

    Raises ToolError for sub-commands and options that are not listed, and for what only a shell understands.
    """
    words = _split(text)
    name, rest = _sub_command(words)
    line = CommandLine(name=name, sub_command=SUB_COMMANDS[name])
    remaining = iter(rest)
    for word in remaining:
        if word == "--":
            line.paths = list(remaining)
        elif word.startswith("-") and (word != "-" or not line.sub_command.takes_dash):
            _add_option(line, word, remaining)
        elif word in _SHELL_SYNTAX:
            raise ToolError(f"{word!r} is for shells, and no shell runs this command. Run one git command per call.")
        else:
            line.arguments.append(word)
            line.tokens.append(word)
    return line


def _split(text: str) -> list[str]:
    if len(text) > MAX_CHARS or "\0" in text:
        raise ToolError(f"The arguments have a NUL character or more than {MAX_CHARS:,} characters. Shorten them.")
    try:
        words = split_command(text)
    except ValueError:
        raise ToolError(
            "A quotation mark or a backslash at the end is not closed. Quote each argument fully."
        ) from None
    if words[:1] == ["git"]:
        del words[0]
    if words[:1] == ["--no-pager"]:  # it is always passed
        del words[0]
    if not words:
        raise ToolError("There is no command. Pass the arguments of git, such as `status --short`.")
    return words


def _sub_command(words: list[str]) -> tuple[str, list[str]]:
    """Return the name of the sub-command, and the words after it."""
    first, rest = words[0], words[1:]
    if first == "--version":
        return "version", rest
    if first.startswith("-"):
        raise ToolError(
            f"{_name(first)!r} cannot be used: options of git itself are set by the host. Begin with a sub-command."
        )
    if first not in SUB_COMMANDS or " " in first:
        raise ToolError(
            f"The sub-command {first!r} cannot be used. {ADVICE.get(first) or near_misses(first, _plain_names())}"
        )
    if first in NESTED and rest:
        if f"{first} {rest[0]}" in SUB_COMMANDS:
            return f"{first} {rest[0]}", rest[1:]
        if rest[0] in UNLISTED_ACTIONS[first] or (first != "reflog" and not rest[0].startswith("-")):
            listed = ", ".join(name.split()[1] for name in SUB_COMMANDS if name.startswith(f"{first} "))
            raise ToolError(f"`git {first} {rest[0]}` cannot be used. These can: {listed}.")
    return first, rest


def _add_option(line: CommandLine, word: str, remaining: Iterator[str]) -> None:
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        takes = _value_of(line, name)
        if takes == "required" and not equals:
            value, equals = _next_value(name, remaining), "="
        if takes == "none" and equals:
            raise ToolError(f"The option {name} of `git {line.name}` takes no value. Leave it out.")
        line.options.append(name)
        line.tokens.append(f"{name}{equals}{value}")
    elif line.sub_command.takes_numbers and _NUMBER.fullmatch(word):
        line.tokens.append(word)
    elif word in line.sub_command.options and line.sub_command.options[word] == "none":
        line.options.append(word)
        line.tokens.append(word)
    else:
        line.tokens.append(_short_options(line, word, remaining))


def _short_options(line: CommandLine, word: str, remaining: Iterator[str]) -> str:
    """Check a word such as `-am`, and return it with the value of its last option attached."""
    for position, letter in enumerate(word[1:], start=1):
        name, value = f"-{letter}", word[position + 1 :]
        takes = _value_of(line, name)
        line.options.append(name)
        if takes == "required" and not value:
            return word + (_next_value(name, remaining) or _refuse_empty(name))
        if takes != "none":
            return word
    return word


def _value_of(line: CommandLine, name: str) -> Value:
    """Return whether an option takes a value. Raises ToolError for one that is not listed."""
    options = line.sub_command.options
    if name not in options:
        raise ToolError(
            f"The option {_name(name)!r} of `git {line.name}` cannot be used. "
            + (f"These can: {' '.join(options)}." if options else "It has no options here.")
        )
    return options[name]


def _next_value(name: str, remaining: Iterator[str]) -> str:
    value = next(remaining, None)
    if value is None:
        raise ToolError(f"The option {name} needs a value. Write it after the option.")
    return value


def _refuse_empty(name: str) -> str:
    raise ToolError(f"The value of the option {name} is empty. Pass a text.")


def _name(option: str) -> str:
    """Return an option without its value, which may be long."""
    return option.partition("=")[0][:60]


def _plain_names() -> list[str]:
    return [name for name in SUB_COMMANDS if " " not in name]
