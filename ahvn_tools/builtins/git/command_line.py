"""CommandLine: the arguments of a git command as a model wrote them, parsed and checked option by option."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast

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
    options: Mapping[str, Value]
    added: tuple[str, ...]
    """Options that are always passed."""
    flags: frozenset[str]
    """`numbers`: `-5` is an option. `dash`: the argument `-` is the previous branch. `no-paths`: no argument is a path.
    `reads-alone`: it reads unless it has arguments, or an option that writes. `discards`: it always loses work."""
    reads_with: frozenset[str]
    """Options that turn a command that writes into one that reads."""
    writes_with: frozenset[str]
    discards_with: frozenset[str]
    """Options that lose work which git cannot restore."""


_TABLE: Final = """
$diff
    -p -u --patch -s --no-patch -U= --unified= --stat? --numstat --shortstat --dirstat? --summary --compact-summary
    --name-only --name-status --raw -z --color? --no-color --word-diff? --word-diff-regex= --color-words? -R -a
    --text -b -w --ignore-all-space --ignore-space-change --ignore-space-at-eol --ignore-blank-lines
    --ignore-cr-at-eol -W --function-context --diff-filter= -M? -C? -B? --find-renames? --find-copies?
    --find-copies-harder --no-renames -D --irreversible-delete -S= -G= --pickaxe-all --pickaxe-regex --minimal
    --patience --histogram --diff-algorithm= --full-index --abbrev? --no-abbrev --binary --exit-code --quiet -q
    --relative --no-relative --check --inter-hunk-context= --no-prefix --src-prefix= --dst-prefix=
    --indent-heuristic --no-indent-heuristic
$limits
    -n= --max-count= --skip= --since= --after= --until= --before= --author= --committer= --grep= --invert-grep -i
    --regexp-ignore-case -E --extended-regexp -F --fixed-strings -P --perl-regexp --all-match --all --branches?
    --tags? --remotes? --not --reverse --merges --no-merges --first-parent --ancestry-path --topo-order --date-order
    --author-date-order --boundary --left-right --cherry-pick --left-only --right-only --cherry-mark
    --simplify-by-decoration --simplify-merges --full-history --sparse --no-walk --parents --children
    --abbrev-commit --no-abbrev-commit --graph --count
$log
    --oneline --pretty? --format= --date= --relative-date --decorate? --no-decorate --follow --source -L= -m -c --cc
    --diff-merges= --no-notes --notes --use-mailmap --no-mailmap --expand-tabs? --no-expand-tabs --log-size -g
    --walk-reflogs
$list
    -l~ --list~ --contains?~ --no-contains?~ --merged?~ --no-merged?~ --points-at=~ --sort= --format= -i
    --ignore-case --color? --no-color
$sequence
    --continue --abort --skip --quit -n --no-commit -x -s --signoff -m= --mainline= -X= --strategy-option= --no-edit
    --allow-empty --allow-empty-message --keep-redundant-commits --ff
blame: read +--no-textconv
    -L= -l -t -s -e -w -f -n -M? -C? -p --porcelain --line-porcelain --show-email --show-name --show-number --root
    --since= --abbrev= --date= --first-parent --reverse --ignore-rev=
cat-file: read
    -t -s -p -e
check-ignore: read
    -q -v --verbose -n --non-matching
cherry: read
    -v --abbrev?
count-objects: read
    -v -H --verbose --human-readable
describe: read
    --all --tags --contains --abbrev= --candidates= --exact-match --long --match= --exclude= --always --first-parent
diff: read +--no-ext-diff +--no-textconv +--ignore-submodules=dirty
    $diff --staged --cached --merge-base -1 --base -2 --ours -3 --theirs
for-each-ref: read
    --count= --sort= --format= --points-at= --merged? --no-merged? --contains?
log, reflog, show, stash list, reflog show: read numbers +--no-ext-diff +--no-textconv
    $diff $limits $log
ls-files: read
    -c --cached -d --deleted -m --modified -o --others -i --ignored -s --stage -u --unmerged -t -v -z
    --exclude-standard -x= --exclude= --directory --no-empty-directory --error-unmatch --full-name --eol --abbrev?
    --deduplicate
ls-tree: read
    -d -r -t -l -z --long --name-only --name-status --full-name --full-tree --abbrev?
merge-base: read
    -a --all --octopus --is-ancestor --independent --fork-point
name-rev: read
    --tags --refs= --exclude= --name-only --always --no-undefined
rev-list: read numbers
    $limits --oneline --pretty? --format= --objects --timestamp --header --date= --quiet
rev-parse: read
    --verify -q --quiet --short? --abbrev-ref? --symbolic --symbolic-full-name --all --branches? --tags? --remotes?
    --show-toplevel --show-prefix --show-cdup --is-inside-work-tree --is-inside-git-dir --is-bare-repository
    --is-shallow-repository --git-dir --absolute-git-dir --show-object-format?
shortlog: read numbers
    $limits --committer -n -s -e -c --numbered --summary --email --group= --format=
show-ref: read
    --head --heads --tags --branches -d --dereference -s --hash? --verify -q --quiet
status: read +--ignore-submodules=dirty
    -s --short -b --branch --show-stash --porcelain? --long -z --null -u? --untracked-files? --ignored?
    --ahead-behind --no-ahead-behind --renames --no-renames --find-renames?
version: read no-paths
add: write
    -A --all -u --update -f --force -n --dry-run -v --verbose -N --intent-to-add --ignore-errors --refresh --no-all
    --chmod= --sparse
branch: write reads-alone
    $list -a --all -r --remotes -v -vv --verbose --show-current~ --abbrev= -q --quiet -d> --delete> -D>! -m> --move>
    -M>! -c> --copy> -C>! -f>! --force>! -t --track? --no-track -u=> --set-upstream-to=> --unset-upstream>
checkout: write dash
    -b= -B=! -f! --force! -q --quiet -t --track? --no-track --guess --no-guess -d --detach --orphan= --ours --theirs
    -m --merge --conflict= -l --no-progress
cherry-pick, revert: write
    $sequence
clean: write discards
    -d -f --force -n~ --dry-run~ -q --quiet -x -X -e= --exclude=
commit: write
    -m= --message= -a --all --amend --no-edit --allow-empty --allow-empty-message -q --quiet --author= --date= -s
    --signoff --no-signoff -n --no-verify --fixup= --squash= --reset-author --dry-run --short --branch --porcelain
    -o --only -i --include --no-status --cleanup= --no-gpg-sign
init: write +--template=
    -q --quiet --bare -b= --initial-branch= --object-format=
merge: write dash
    --abort --continue --quit --no-commit --commit --no-edit --ff --no-ff --ff-only --squash --no-squash --stat
    --no-stat -n --summary -q --quiet -v --verbose -m= --message= -X= --strategy-option= --autostash --no-autostash
    --allow-unrelated-histories --signoff --no-verify --no-gpg-sign
mv: write
    -f! --force! -k -n --dry-run -v --verbose
rebase: write dash
    --onto= --continue --abort --skip --quit --root --autostash --no-autostash --no-ff --keep-base --update-refs -q
    --quiet -v --verbose -f --force-rebase --no-verify -X= --strategy-option= --empty= --stat --no-stat
    --show-current-patch -r --rebase-merges? --no-gpg-sign
reset: write
    -q --quiet --mixed --soft --hard! --merge! --keep -N --intent-to-add --no-refresh --refresh
restore: write discards
    -s= --source= -S --staged -W --worktree -q --quiet --ours --theirs -m --merge --ignore-unmerged --overlay
    --no-overlay --conflict=
rm: write
    -f! --force! -n --dry-run -r --cached --ignore-unmatch -q --quiet
switch: write dash
    -c= --create= -C=! --force-create=! -d --detach -f! --force! --discard-changes! -m --merge --conflict= -q
    --quiet -t --track? --no-track --guess --no-guess --orphan=
tag: write reads-alone
    $list -n?~ -a> --annotate> -m=> --message=> -d>! --delete>! -f>! --force>! --cleanup= --create-reflog
stash, stash push: write
    -m= --message= -u --include-untracked -a --all -k --keep-index --no-keep-index -q --quiet -S --staged
stash show: read +--no-ext-diff +--no-textconv
    $diff
stash apply, stash pop: write
    --index -q --quiet
stash branch, remote remove, remote rm, remote rename: write
stash drop: write discards
    -q --quiet
stash clear: write discards
remote: read
    -v --verbose
remote get-url: read
    --push --all
remote add: write no-paths
    -t= --track= -m= --tags --no-tags
remote set-url: write no-paths
    --push --add --delete
clone: remote no-paths +--template= +--no-recurse-submodules +--no-local
    -q --quiet -b= --branch= --depth= --single-branch --no-single-branch --no-tags -o= --origin= -n --no-checkout
    --bare --shallow-since=
fetch: remote no-paths +--no-recurse-submodules
    -q --quiet -v --verbose --all -p --prune -P --prune-tags -t --tags -n --no-tags -f --force --depth= --deepen=
    --unshallow --shallow-since= --dry-run -a --append --set-upstream
ls-remote: remote no-paths
    -h --heads -b --branches -t --tags --refs -q --quiet --symref --sort= --exit-code
pull: remote no-paths +--no-recurse-submodules
    -q --quiet -v --verbose --ff --no-ff --ff-only -r --rebase? --no-rebase --no-edit --no-commit --squash -t --tags
    -p --prune --autostash --no-autostash --depth= --unshallow --stat -n --no-stat -X= --strategy-option=
    --allow-unrelated-histories --all --dry-run
push: remote no-paths +--no-recurse-submodules
    -q --quiet -v --verbose -u --set-upstream --all --branches --tags --follow-tags -n --dry-run -f --force
    --force-with-lease? --force-if-includes -d --delete --prune --atomic --porcelain --no-verify
"""
"""Names of sub-commands: what they do, their flags, `+` what is always passed; below it their options, or `$` a list.

After an option stand `=` if it takes a value, or `?` if one may be attached, and what it does to the command: `~` it
reads, `>` it writes, `!` it discards work. A name of two words is a sub-command of a sub-command.
"""
_OPTION: Final = re.compile(r"(?P<name>-[^=?~>!]+)(?P<value>[=?]?)(?P<effects>[~>!]*)")
_VALUES: Final[Mapping[str, Value]] = {"": "none", "=": "required", "?": "optional"}


def _read_table() -> dict[str, SubCommand]:
    lists: dict[str, str] = {}
    commands: dict[str, SubCommand] = {}
    for entry in re.split(r"\n(?=\S)", _TABLE.strip()):
        header, _, text = entry.partition("\n")
        if header.startswith("$"):
            lists[header] = text
            continue
        names, _, facts = header.partition(": ")
        access, *flags = facts.split()
        words = " ".join(lists.get(word, word) for word in text.split()).split()
        options = [found for word in words if (found := _OPTION.fullmatch(word))]
        reads, writes, discards = (
            frozenset(option["name"] for option in options if mark in option["effects"]) for mark in "~>!"
        )
        command = SubCommand(
            access=cast("Access", access), options={option["name"]: _VALUES[option["value"]] for option in options},
            added=tuple(flag[1:] for flag in flags if flag[0] == "+"), flags=frozenset(flags), reads_with=reads,
            writes_with=writes, discards_with=discards,
        )  # fmt: skip
        commands.update(dict.fromkeys(names.split(", "), command))
    return commands


SUB_COMMANDS: Final[Mapping[str, SubCommand]] = _read_table()

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
            if "reads-alone" in command.flags and not (self.arguments or self.paths):
                return "read"
        return command.access

    @property
    def discards(self) -> bool:
        """Whether the command loses work that git cannot restore."""
        if self.access != "write":
            return False
        if self.name == "restore":
            return not {"-S", "--staged"}.intersection(self.options) or bool(
                {"-W", "--worktree"}.intersection(self.options)
            )
        if self.name == "checkout" and (self.paths or len(self.arguments) > 1):
            return True
        return "discards" in self.sub_command.flags or bool(self.sub_command.discards_with.intersection(self.options))


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
        elif word.startswith("-") and (word != "-" or "dash" not in line.sub_command.flags):
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
    elif "numbers" in line.sub_command.flags and _NUMBER.fullmatch(word):
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
