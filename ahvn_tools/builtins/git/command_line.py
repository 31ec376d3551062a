"""CommandLine: the arguments of a git command as a model wrote them, parsed and checked option by option."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from ahvn_tools.command_words import split_command
from ahvn_tools.errors import ToolError, near_misses

Access = Literal["read", "write", "remote"]
"""What a command does: it reads a repository, it changes one of this machine, it talks to another machine."""

Value = Literal["none", "required", "optional"]
"""Whether an option takes a value; an optional one is attached to it."""


@dataclass(frozen=True, kw_only=True)
class SubCommand:
    """One sub-command. What it does not list is refused: git has options that run programs and write anywhere."""

    access: Access
    options: Mapping[str, Value] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    """Options that are always passed."""
    reads_with: frozenset[str] = frozenset()
    """Options that turn a command that writes into one that reads."""
    reads_without_arguments: bool = False
    """Whether it reads unless it has arguments, or one of `writes_with`."""
    writes_with: frozenset[str] = frozenset()
    discards_with: frozenset[str] = frozenset()
    """Options that lose work which git cannot restore. `*`: it always does."""
    takes_numbers: bool = False
    """Whether `-5` is an option."""
    takes_dash: bool = False
    """Whether the argument `-` is the previous branch."""
    takes_paths: bool = True
    """Whether its arguments may be paths."""


def _options(*texts: str) -> dict[str, Value]:
    """Return options: `-a` takes no value, `-n=` a value, `-U?` may have one attached."""
    options: dict[str, Value] = {}
    for word in " ".join(texts).split():
        name, value = (word[:-1], word[-1]) if word[-1] in "=?" else (word, "")
        options[name] = "required" if value == "=" else "optional" if value == "?" else "none"
    return options


def _command(
    access: Access, *options: str, added: tuple[str, ...] = (), reads_with: str = "", writes_with: str = "",
    discards_with: str = "", reads_without_arguments: bool = False, takes_numbers: bool = False,
    takes_dash: bool = False, takes_paths: bool = True,
) -> SubCommand:  # fmt: skip
    """Return a sub-command, with its names and options as words of texts."""
    return SubCommand(
        access=access, options=_options(*options), added=added, takes_numbers=takes_numbers, takes_dash=takes_dash,
        takes_paths=takes_paths, reads_with=frozenset(reads_with.split()), writes_with=frozenset(writes_with.split()),
        discards_with=frozenset(discards_with.split()), reads_without_arguments=reads_without_arguments,
    )  # fmt: skip


_DIFF: Final = """
    -p -u --patch -s --no-patch -U= --unified= --stat? --numstat --shortstat --dirstat? --summary --compact-summary
    --name-only --name-status --raw -z --color? --no-color --word-diff? --word-diff-regex= --color-words? -R -a --text
    -b -w --ignore-all-space --ignore-space-change --ignore-space-at-eol --ignore-blank-lines --ignore-cr-at-eol
    -W --function-context --diff-filter= -M? -C? -B? --find-renames? --find-copies? --find-copies-harder --no-renames
    -D --irreversible-delete -S= -G= --pickaxe-all --pickaxe-regex --minimal --patience --histogram --diff-algorithm=
    --full-index --abbrev? --no-abbrev --binary --exit-code --quiet -q --relative --no-relative --check
    --inter-hunk-context= --no-prefix --src-prefix= --dst-prefix= --indent-heuristic --no-indent-heuristic
"""
_LIMITS: Final = """
    -n= --max-count= --skip= --since= --after= --until= --before= --author= --committer= --grep= --invert-grep
    -i --regexp-ignore-case -E --extended-regexp -F --fixed-strings -P --perl-regexp --all-match
    --all --branches? --tags? --remotes? --not --reverse --merges --no-merges --first-parent --ancestry-path
    --topo-order --date-order --author-date-order --boundary --left-right --cherry-pick --left-only --right-only
    --cherry-mark --simplify-by-decoration --simplify-merges --full-history --sparse --no-walk --parents --children
    --abbrev-commit --no-abbrev-commit --graph --count
"""
_LOG: Final = """
    --oneline --pretty? --format= --date= --relative-date --decorate? --no-decorate --follow --source -L= -m -c --cc
    --diff-merges= --no-notes --notes --use-mailmap --no-mailmap --expand-tabs? --no-expand-tabs --log-size
    -g --walk-reflogs
"""
_LIST: Final = """
    -l --list --contains? --no-contains? --merged? --no-merged? --points-at= --sort= --format= -i --ignore-case
    --color? --no-color
"""
_NO_PROGRAMS: Final = ("--no-ext-diff", "--no-textconv")
_IGNORED_SUBMODULES: Final = ("--ignore-submodules=dirty",)  # else git starts `git status` in each submodule
_SEQUENCE: Final = """
    --continue --abort --skip --quit -n --no-commit -x -s --signoff -m= --mainline= -X= --strategy-option=
    --no-edit --allow-empty --allow-empty-message --keep-redundant-commits --ff
"""

_LOG_COMMAND: Final = _command("read", _DIFF, _LIMITS, _LOG, added=_NO_PROGRAMS, takes_numbers=True)

_STASH_PUSH: Final = _command(
    "write", "-m= --message= -u --include-untracked -a --all -k --keep-index --no-keep-index -q --quiet -S --staged"
)

SUB_COMMANDS: Final[Mapping[str, SubCommand]] = {
    "blame": _command(
        "read",
        "-L= -l -t -s -e -w -f -n -M? -C? -p --porcelain --line-porcelain --show-email --show-name --show-number",
        "--root --since= --abbrev= --date= --first-parent --reverse --ignore-rev=",
        added=("--no-textconv",),
    ),
    "cat-file": _command("read", "-t -s -p -e"),
    "check-ignore": _command("read", "-q -v --verbose -n --non-matching"),
    "cherry": _command("read", "-v --abbrev?"),
    "count-objects": _command("read", "-v -H --verbose --human-readable"),
    "describe": _command(
        "read",
        "--all --tags --contains --abbrev= --candidates= --exact-match --long --match= --exclude= --always",
        "--first-parent",
    ),
    "diff": _command(
        "read",
        _DIFF,
        "--staged --cached --merge-base -1 --base -2 --ours -3 --theirs",
        added=(*_NO_PROGRAMS, *_IGNORED_SUBMODULES),
    ),
    "for-each-ref": _command("read", "--count= --sort= --format= --points-at= --merged? --no-merged? --contains?"),
    "log": _LOG_COMMAND,
    "ls-files": _command(
        "read",
        "-c --cached -d --deleted -m --modified -o --others -i --ignored -s --stage -u --unmerged -t -v -z",
        "--exclude-standard -x= --exclude= --directory --no-empty-directory --error-unmatch --full-name --eol",
        "--abbrev? --deduplicate",
    ),
    "ls-tree": _command("read", "-d -r -t -l -z --long --name-only --name-status --full-name --full-tree --abbrev?"),
    "merge-base": _command("read", "-a --all --octopus --is-ancestor --independent --fork-point"),
    "name-rev": _command("read", "--tags --refs= --exclude= --name-only --always --no-undefined"),
    "reflog": _LOG_COMMAND,
    "rev-list": _command(
        "read",
        _LIMITS,
        "--oneline --pretty? --format= --objects --timestamp --header --date= --quiet",
        takes_numbers=True,
    ),
    "rev-parse": _command(
        "read",
        "--verify -q --quiet --short? --abbrev-ref? --symbolic --symbolic-full-name --all --branches? --tags?",
        "--remotes? --show-toplevel --show-prefix --show-cdup --is-inside-work-tree --is-inside-git-dir",
        "--is-bare-repository --is-shallow-repository --git-dir --absolute-git-dir --show-object-format?",
    ),
    "shortlog": _command(
        "read", _LIMITS, "-n -s -e -c --numbered --summary --email --committer --group= --format=", takes_numbers=True
    ),
    "show": _LOG_COMMAND,
    "show-ref": _command("read", "--head --heads --tags --branches -d --dereference -s --hash? --verify -q --quiet"),
    "status": _command(
        "read",
        "-s --short -b --branch --show-stash --porcelain? --long -z --null -u? --untracked-files? --ignored?",
        "--ahead-behind --no-ahead-behind --renames --no-renames --find-renames?",
        added=_IGNORED_SUBMODULES,
    ),
    "version": _command("read", takes_paths=False),
    # Commands that write.
    "add": _command(
        "write",
        "-A --all -u --update -f --force -n --dry-run -v --verbose -N --intent-to-add --ignore-errors --refresh",
        "--no-all --chmod= --sparse",
    ),
    "branch": _command(
        "write",
        _LIST,
        "-a --all -r --remotes -v -vv --verbose --show-current --abbrev= -q --quiet -d --delete -D -m --move -M -c",
        "--copy -C -f --force -t --track? --no-track -u= --set-upstream-to= --unset-upstream",
        reads_with="-l --list --contains --no-contains --merged --no-merged --points-at --show-current",
        reads_without_arguments=True,
        writes_with="-d --delete -D -m --move -M -c --copy -C -f --force -u --set-upstream-to --unset-upstream",
        discards_with="-D -M -C -f --force",
    ),
    "checkout": _command(
        "write",
        "-b= -B= -f --force -q --quiet -t --track? --no-track --guess --no-guess -d --detach --orphan= --ours",
        "--theirs -m --merge --conflict= -l --no-progress",
        discards_with="-f --force -B",
        takes_dash=True,
    ),
    "cherry-pick": _command("write", _SEQUENCE),
    "clean": _command(
        "write",
        "-d -f --force -n --dry-run -q --quiet -x -X -e= --exclude=",
        reads_with="-n --dry-run",
        discards_with="*",
    ),
    "commit": _command(
        "write",
        "-m= --message= -a --all --amend --no-edit --allow-empty --allow-empty-message -q --quiet --author= --date=",
        "-s --signoff --no-signoff -n --no-verify --fixup= --squash= --reset-author --dry-run --short --branch",
        "--porcelain -o --only -i --include --no-status --cleanup= --no-gpg-sign",
    ),
    "init": _command("write", "-q --quiet --bare -b= --initial-branch= --object-format=", added=("--template=",)),
    "merge": _command(
        "write",
        "--abort --continue --quit --no-commit --commit --no-edit --ff --no-ff --ff-only --squash --no-squash",
        "--stat --no-stat -n --summary -q --quiet -v --verbose -m= --message= -X= --strategy-option= --autostash",
        "--no-autostash --allow-unrelated-histories --signoff --no-verify --no-gpg-sign",
        takes_dash=True,
    ),
    "mv": _command("write", "-f --force -k -n --dry-run -v --verbose", discards_with="-f --force"),
    "rebase": _command(
        "write",
        "--onto= --continue --abort --skip --quit --root --autostash --no-autostash --no-ff --keep-base",
        "--update-refs -q --quiet -v --verbose -f --force-rebase --no-verify -X= --strategy-option= --empty= --stat",
        "--no-stat --show-current-patch -r --rebase-merges? --no-gpg-sign",
        takes_dash=True,
    ),
    "reset": _command(
        "write",
        "-q --quiet --mixed --soft --hard --merge --keep -N --intent-to-add --no-refresh --refresh",
        discards_with="--hard --merge",
    ),
    "restore": _command(
        "write",
        "-s= --source= -S --staged -W --worktree -q --quiet --ours --theirs -m --merge --ignore-unmerged --overlay",
        "--no-overlay --conflict=",
        discards_with="*",
    ),
    "revert": _command("write", _SEQUENCE),
    "rm": _command(
        "write", "-f --force -n --dry-run -r --cached --ignore-unmatch -q --quiet", discards_with="-f --force"
    ),
    "switch": _command(
        "write",
        "-c= --create= -C= --force-create= -d --detach -f --force --discard-changes -m --merge --conflict= -q",
        "--quiet -t --track? --no-track --guess --no-guess --orphan=",
        discards_with="-f --force --discard-changes -C --force-create",
        takes_dash=True,
    ),
    "tag": _command(
        "write",
        _LIST,
        "-n? -a --annotate -m= --message= -d --delete -f --force --cleanup= --create-reflog",
        reads_with="-l --list -n --contains --no-contains --merged --no-merged --points-at",
        reads_without_arguments=True,
        writes_with="-a --annotate -m --message -d --delete -f --force",
        discards_with="-d --delete -f --force",
    ),
    # Sub-commands of sub-commands: these names are two words. Without the second word, the first entry counts.
    "stash": _STASH_PUSH,
    "stash push": _STASH_PUSH,
    "stash list": _LOG_COMMAND,
    "stash show": _command("read", _DIFF, added=_NO_PROGRAMS),
    "stash apply": _command("write", "--index -q --quiet"),
    "stash pop": _command("write", "--index -q --quiet"),
    "stash branch": _command("write"),
    "stash drop": _command("write", "-q --quiet", discards_with="*"),
    "stash clear": _command("write", discards_with="*"),
    "reflog show": _LOG_COMMAND,
    "remote": _command("read", "-v --verbose"),
    "remote get-url": _command("read", "--push --all"),
    "remote add": _command("write", "-t= --track= -m= --tags --no-tags", takes_paths=False),
    "remote remove": _command("write"),
    "remote rm": _command("write"),
    "remote rename": _command("write"),
    "remote set-url": _command("write", "--push --add --delete", takes_paths=False),
    # Commands that need a network.
    "clone": _command(
        "remote",
        "-q --quiet -b= --branch= --depth= --single-branch --no-single-branch --no-tags -o= --origin= -n",
        "--no-checkout --bare --shallow-since=",
        added=("--template=", "--no-recurse-submodules", "--no-local"),
        takes_paths=False,
    ),
    "fetch": _command(
        "remote",
        "-q --quiet -v --verbose --all -p --prune -P --prune-tags -t --tags -n --no-tags -f --force --depth=",
        "--deepen= --unshallow --shallow-since= --dry-run -a --append --set-upstream",
        added=("--no-recurse-submodules",),
        takes_paths=False,
    ),
    "ls-remote": _command(
        "remote", "-h --heads -b --branches -t --tags --refs -q --quiet --symref --sort= --exit-code", takes_paths=False
    ),
    "pull": _command(
        "remote",
        "-q --quiet -v --verbose --ff --no-ff --ff-only -r --rebase? --no-rebase --no-edit --no-commit --squash -t",
        "--tags -p --prune --autostash --no-autostash --depth= --unshallow --stat -n --no-stat -X=",
        "--strategy-option= --allow-unrelated-histories --all --dry-run",
        added=("--no-recurse-submodules",),
        takes_paths=False,
    ),
    "push": _command(
        "remote",
        "-q --quiet -v --verbose -u --set-upstream --all --branches --tags --follow-tags -n --dry-run -f --force",
        "--force-with-lease? --force-if-includes -d --delete --prune --atomic --porcelain --no-verify",
        added=("--no-recurse-submodules",),
        takes_paths=False,
    ),
}

NESTED: Final = frozenset({"stash", "reflog", "remote"})
"""The sub-commands whose first argument may be a sub-command."""

_STASH_OTHERS: Final = frozenset({"create", "store", "save", "export", "import"})
_REFLOG_OTHERS: Final = frozenset({"expire", "delete", "exists", "list", "drop", "write"})
_REMOTE_OTHERS: Final = frozenset({"show", "prune", "update", "set-head", "set-branches"})
UNLISTED_ACTIONS: Final = {"stash": _STASH_OTHERS, "reflog": _REFLOG_OTHERS, "remote": _REMOTE_OTHERS}
"""Second words that git knows and that are refused."""

ADVICE: Final[Mapping[str, str]] = {
    "config": "The configuration cannot be read or changed here. The host of this tool sets the author of commits.",
    "grep": "Use a tool that searches files, or `log -S<text>` for the history.",
    "apply": "Use a tool that edits files.",
    "am": "Use a tool that edits files.",
    "submodule": "Submodules cannot be used here.",
    "worktree": "Use `switch` to work on another branch.",
    "help": "Common ones are status, diff, log, show, add, commit, branch, switch, restore and merge.",
    "gc": "It is not needed.",
}
"""What to do instead of a sub-command that models try."""


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
