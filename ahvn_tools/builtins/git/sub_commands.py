"""The git sub-commands that models may run, each with the only options that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

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


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


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

_LOG_COMMAND: Final = SubCommand(
    access="read", options=_options(_DIFF, _LIMITS, _LOG), added=_NO_PROGRAMS, takes_numbers=True
)

_STASH_PUSH: Final = SubCommand(
    access="write",
    options=_options(
        "-m= --message= -u --include-untracked -a --all -k --keep-index --no-keep-index -q --quiet -S --staged"
    ),
)

SUB_COMMANDS: Final[Mapping[str, SubCommand]] = {
    "blame": SubCommand(
        access="read",
        added=("--no-textconv",),
        options=_options(
            "-L= -l -t -s -e -w -f -n -M? -C? -p --porcelain --line-porcelain --show-email --show-name --show-number",
            "--root --since= --abbrev= --date= --first-parent --reverse --ignore-rev=",
        ),
    ),
    "cat-file": SubCommand(access="read", options=_options("-t -s -p -e")),
    "check-ignore": SubCommand(access="read", options=_options("-q -v --verbose -n --non-matching")),
    "cherry": SubCommand(access="read", options=_options("-v --abbrev?")),
    "count-objects": SubCommand(access="read", options=_options("-v -H --verbose --human-readable")),
    "describe": SubCommand(
        access="read",
        options=_options(
            "--all --tags --contains --abbrev= --candidates= --exact-match --long --match= --exclude= --always",
            "--first-parent",
        ),
    ),
    "diff": SubCommand(
        access="read",
        options=_options(_DIFF, "--staged --cached --merge-base -1 --base -2 --ours -3 --theirs"),
        added=(*_NO_PROGRAMS, *_IGNORED_SUBMODULES),
    ),
    "for-each-ref": SubCommand(
        access="read", options=_options("--count= --sort= --format= --points-at= --merged? --no-merged? --contains?")
    ),
    "log": _LOG_COMMAND,
    "ls-files": SubCommand(
        access="read",
        options=_options(
            "-c --cached -d --deleted -m --modified -o --others -i --ignored -s --stage -u --unmerged -t -v -z",
            "--exclude-standard -x= --exclude= --directory --no-empty-directory --error-unmatch --full-name --eol",
            "--abbrev? --deduplicate",
        ),
    ),
    "ls-tree": SubCommand(
        access="read",
        options=_options("-d -r -t -l -z", "--long --name-only --name-status --full-name --full-tree --abbrev?"),
    ),
    "merge-base": SubCommand(
        access="read", options=_options("-a --all --octopus", "--is-ancestor --independent --fork-point")
    ),
    "name-rev": SubCommand(
        access="read", options=_options("--tags --refs= --exclude=", "--name-only --always --no-undefined")
    ),
    "reflog": SubCommand(access="read", options=_options(_DIFF, _LIMITS, _LOG), added=_NO_PROGRAMS, takes_numbers=True),
    "rev-list": SubCommand(
        access="read",
        options=_options(_LIMITS, "--oneline --pretty? --format= --objects --timestamp --header --date= --quiet"),
        takes_numbers=True,
    ),
    "rev-parse": SubCommand(
        access="read",
        options=_options(
            "--verify -q --quiet --short? --abbrev-ref? --symbolic --symbolic-full-name --all --branches? --tags?",
            "--remotes? --show-toplevel --show-prefix --show-cdup --is-inside-work-tree --is-inside-git-dir",
            "--is-bare-repository --is-shallow-repository --git-dir --absolute-git-dir --show-object-format?",
        ),
    ),
    "shortlog": SubCommand(
        access="read",
        options=_options(_LIMITS, "-n -s -e -c --numbered --summary --email --committer --group= --format="),
        takes_numbers=True,
    ),
    "show": _LOG_COMMAND,
    "show-ref": SubCommand(
        access="read",
        options=_options("--head --heads --tags --branches -d", "--dereference -s --hash? --verify -q --quiet"),
    ),
    "status": SubCommand(
        access="read",
        options=_options(
            "-s --short -b --branch --show-stash --porcelain? --long -z --null -u? --untracked-files? --ignored?",
            "--ahead-behind --no-ahead-behind --renames --no-renames --find-renames?",
        ),
        added=_IGNORED_SUBMODULES,
    ),
    "version": SubCommand(access="read", takes_paths=False),
    # Commands that write.
    "add": SubCommand(
        access="write",
        options=_options(
            "-A --all -u --update -f --force -n --dry-run -v --verbose -N --intent-to-add --ignore-errors --refresh",
            "--no-all --chmod= --sparse",
        ),
    ),
    "branch": SubCommand(
        access="write",
        options=_options(
            _LIST,
            "-a --all -r --remotes -v -vv --verbose --show-current --abbrev= -q --quiet -d --delete -D -m --move -M -c",
            "--copy -C -f --force -t --track? --no-track -u= --set-upstream-to= --unset-upstream",
        ),
        reads_with=_names("-l --list --contains --no-contains --merged --no-merged --points-at --show-current"),
        reads_without_arguments=True,
        writes_with=_names("-d --delete -D -m --move -M -c --copy -C -f --force -u --set-upstream-to --unset-upstream"),
        discards_with=_names("-D -M -C -f --force"),
    ),
    "checkout": SubCommand(
        access="write",
        options=_options(
            "-b= -B= -f --force -q --quiet -t --track?",
            "--no-track --guess --no-guess -d --detach --orphan= --ours --theirs",
            "-m --merge --conflict= -l --no-progress",
        ),
        discards_with=_names("-f --force -B"),
        takes_dash=True,
    ),
    "cherry-pick": SubCommand(access="write", options=_options(_SEQUENCE)),
    "clean": SubCommand(
        access="write",
        options=_options("-d -f --force -n --dry-run -q --quiet -x -X -e= --exclude="),
        reads_with=_names("-n --dry-run"),
        discards_with=_names("*"),
    ),
    "commit": SubCommand(
        access="write",
        options=_options(
            "-m= --message= -a --all --amend --no-edit",
            "--allow-empty --allow-empty-message -q --quiet --author= --date=",
            "-s --signoff --no-signoff -n --no-verify --fixup= --squash= --reset-author --dry-run --short --branch",
            "--porcelain -o --only -i --include --no-status --cleanup= --no-gpg-sign",
        ),
    ),
    "init": SubCommand(
        access="write",
        options=_options("-q --quiet --bare -b= --initial-branch= --object-format="),
        added=("--template=",),
    ),
    "merge": SubCommand(
        access="write",
        options=_options(
            "--abort --continue --quit --no-commit --commit --no-edit --ff --no-ff --ff-only --squash --no-squash",
            "--stat --no-stat -n --summary -q --quiet -v --verbose -m= --message= -X= --strategy-option= --autostash",
            "--no-autostash --allow-unrelated-histories --signoff --no-verify --no-gpg-sign",
        ),
        takes_dash=True,
    ),
    "mv": SubCommand(
        access="write",
        options=_options("-f --force -k -n --dry-run -v --verbose"),
        discards_with=_names("-f --force"),
    ),
    "rebase": SubCommand(
        access="write",
        options=_options(
            "--onto= --continue --abort --skip --quit",
            "--root --autostash --no-autostash --no-ff --keep-base --update-refs",
            "-q --quiet -v --verbose -f --force-rebase --no-verify -X= --strategy-option= --empty= --stat --no-stat",
            "--show-current-patch -r --rebase-merges? --no-gpg-sign",
        ),
        takes_dash=True,
    ),
    "reset": SubCommand(
        access="write",
        options=_options("-q --quiet --mixed --soft --hard --merge --keep -N --intent-to-add --no-refresh --refresh"),
        discards_with=_names("--hard --merge"),
    ),
    "restore": SubCommand(
        access="write",
        options=_options(
            "-s= --source= -S --staged -W --worktree -q --quiet --ours --theirs -m --merge --ignore-unmerged --overlay",
            "--no-overlay --conflict=",
        ),
        discards_with=_names("*"),
    ),
    "revert": SubCommand(access="write", options=_options(_SEQUENCE)),
    "rm": SubCommand(
        access="write",
        options=_options("-f --force -n --dry-run -r --cached --ignore-unmatch -q --quiet"),
        discards_with=_names("-f --force"),
    ),
    "switch": SubCommand(
        access="write",
        options=_options(
            "-c= --create= -C= --force-create= -d --detach -f",
            "--force --discard-changes -m --merge --conflict= -q --quiet",
            "-t --track? --no-track --guess --no-guess --orphan=",
        ),
        discards_with=_names("-f --force --discard-changes -C --force-create"),
        takes_dash=True,
    ),
    "tag": SubCommand(
        access="write",
        options=_options(_LIST, "-n? -a --annotate -m= --message= -d --delete -f --force --cleanup= --create-reflog"),
        reads_with=_names("-l --list -n --contains --no-contains --merged --no-merged --points-at"),
        reads_without_arguments=True,
        writes_with=_names("-a --annotate -m --message -d --delete -f --force"),
        discards_with=_names("-d --delete -f --force"),
    ),
    # Sub-commands of sub-commands: these names are two words. Without the second word, the first entry counts.
    "stash": _STASH_PUSH,
    "stash push": _STASH_PUSH,
    "stash list": _LOG_COMMAND,
    "stash show": SubCommand(access="read", options=_options(_DIFF), added=_NO_PROGRAMS),
    "stash apply": SubCommand(access="write", options=_options("--index -q --quiet")),
    "stash pop": SubCommand(access="write", options=_options("--index -q --quiet")),
    "stash branch": SubCommand(access="write"),
    "stash drop": SubCommand(access="write", options=_options("-q --quiet"), discards_with=_names("*")),
    "stash clear": SubCommand(access="write", discards_with=_names("*")),
    "reflog show": SubCommand(
        access="read", options=_options(_DIFF, _LIMITS, _LOG), added=_NO_PROGRAMS, takes_numbers=True
    ),
    "remote": SubCommand(access="read", options=_options("-v --verbose")),
    "remote get-url": SubCommand(access="read", options=_options("--push --all")),
    "remote add": SubCommand(
        access="write", options=_options("-t= --track=", "-m= --tags --no-tags"), takes_paths=False
    ),
    "remote remove": SubCommand(access="write"),
    "remote rm": SubCommand(access="write"),
    "remote rename": SubCommand(access="write"),
    "remote set-url": SubCommand(access="write", options=_options("--push --add --delete"), takes_paths=False),
    # Commands that need a network.
    "clone": SubCommand(
        access="remote",
        options=_options(
            "-q --quiet -b= --branch= --depth= --single-branch",
            "--no-single-branch --no-tags -o= --origin= -n --no-checkout",
            "--bare --shallow-since=",
        ),
        added=("--template=", "--no-recurse-submodules", "--no-local"),
        takes_paths=False,
    ),
    "fetch": SubCommand(
        access="remote",
        options=_options(
            "-q --quiet -v --verbose --all -p --prune -P",
            "--prune-tags -t --tags -n --no-tags -f --force --depth= --deepen=",
            "--unshallow --shallow-since= --dry-run -a --append --set-upstream",
        ),
        added=("--no-recurse-submodules",),
        takes_paths=False,
    ),
    "ls-remote": SubCommand(
        access="remote",
        options=_options("-h --heads -b --branches -t --tags --refs -q --quiet --symref --sort= --exit-code"),
        takes_paths=False,
    ),
    "pull": SubCommand(
        access="remote",
        options=_options(
            "-q --quiet -v --verbose --ff --no-ff --ff-only -r --rebase? --no-rebase --no-edit --no-commit --squash -t",
            "--tags -p --prune --autostash --no-autostash --depth=",
            "--unshallow --stat -n --no-stat -X= --strategy-option=",
            "--allow-unrelated-histories --all --dry-run",
        ),
        added=("--no-recurse-submodules",),
        takes_paths=False,
    ),
    "push": SubCommand(
        access="remote",
        options=_options(
            "-q --quiet -v --verbose -u --set-upstream --all --branches --tags --follow-tags -n --dry-run -f --force",
            "--force-with-lease? --force-if-includes -d --delete --prune --atomic --porcelain --no-verify",
        ),
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
