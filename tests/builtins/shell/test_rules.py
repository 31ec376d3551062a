"""Rules: what a command line may do by its words, and every way to hide a program in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ahvn_tools.builtins.shell.rules import READING_COMMANDS, CommandRules, ProgramFolders
from ahvn_tools.command_line import split_command_line
from ahvn_tools.errors import DefinitionError

RULES = CommandRules(
    (*READING_COMMANDS, "git status *", "git log *", "git *", "pytest *", "python -m pytest *", "make test",
     "sort *", "rg *", "diff *"),
    ("rm *", "git push *", "curl *"),
)  # fmt: skip

ALLOWED = {
    "plain": "ls",
    "options": "ls -la --color=never src",
    "tabs": "ls\t-l",
    "pipe": "cat a.txt | grep -i b | wc -l",
    "pipe without spaces": "cat a|wc",
    "and, or": "cd src && ls || pwd",
    "semicolon": "ls; pwd;",
    "background": "ls & pwd",
    "lines": "ls\n\npwd\n",
    "continued after &&": "ls &&\npwd",
    "comment": "ls # rm -r x\npwd",
    "comment first": "# list it\nls",
    "single quotes": "grep 'a; rm $(x) `y`' f",
    "double quotes": 'grep "a; b | c > d & e" f',
    "escapes in double quotes": r'grep "a\|b\"c\\" f',
    "joined quotes": "grep a'b c'\"d e\" f",
    "empty word": "grep '' f",
    "line feed in quotes": "grep 'a\nrm' f",
    "unicode in quotes": "cat 'Übersicht “neu”.txt'",
    "stderr away": "ls 2>/dev/null",
    "streams joined": "ls 2>&1 | wc -l",
    "input from nowhere": "cat </dev/null",
    "all away": "ls >/dev/null 2>&1; pwd",
    "wildcard with a folder": "ls ./*.py src/[a-z]?.c",
    "home": "ls ~",
    "find by name": "find . -name '*.py' -type f",
    "rule with arguments": "git status --short",
    "revision": "git log HEAD^..HEAD~2 --oneline",
    "module": "python -m pytest -x tests",
    "exact": "make test",
    "equal sign in an argument": "git log --since=2020-01-01",
}

UNKNOWN = {
    "no rule": "touch x",
    "second has no rule": "ls; touch x",
    "piped into no rule": "ls | tee x",
    "in the background": "ls & touch x",
    "on the next line": "ls\ntouch x",
    "after a comment": "ls # a\ntouch x",
    "hidden by a comment sign in a word": "ls a#b; touch x",
    "substitution": "ls $(touch x)",
    "substitution without a space": "ls$(touch x)",
    "backquotes": "ls `touch x`",
    "substitution in double quotes": 'ls "$(touch x)"',
    "backquotes in double quotes": 'ls "`touch x`"',
    "escaped backslash before a substitution": r'ls "\\$(touch x)"',
    "variable": "ls $HOME",
    "separators in a variable": "ls ${IFS}x",
    "variable as program": "$SHELL x",
    "ansi quotes": r"ls $'\x41'",
    "translated quotes": 'ls $"a"',
    "arithmetic": "ls $((1))",
    "quoted program": '"ls"',
    "partly quoted program": '"l"s',
    "escaped program": r"\ls",
    "program in single quotes": "'ls'",
    "escaped line feed": "l\\\ns",
    "escaped space": r"ls a\ b",
    "here-document": "cat <<E\ntouch x\nE",
    "here-string": "cat <<<x",
    "written file": "ls >x",
    "appended file": "ls >> x",
    "forced file": "ls >| x",
    "written and read": "cat <> x",
    "both streams in a file": "ls &>x",
    "both streams away": "ls &>/dev/null",
    "error in a file": "ls 2>x",
    "null in a word": "ls a>/dev/null",
    "below null": "ls >/dev/null/../x",
    "after null": "ls >/dev/nullx",
    "read file": "wc <x",
    "descriptor": "ls >&3",
    "closed descriptor": "ls >&-",
    "only a redirection": ">/dev/null",
    "redirection first": ">/dev/null touch x",
    "process substitution": "cat <(touch x)",
    "group": "(ls)",
    "braces": "{ ls; }",
    "brace list": "ls {a,b}",
    "function": "ls() { touch x; }\nls",
    "function word": "function ls { touch x; }",
    "negation": "! ls",
    "loop": "for f in a; do ls; done",
    "condition": "if ls; then pwd; fi",
    "case": "case a in a) ls;; esac",
    "double semicolon": "ls;;pwd",
    "pipe with errors": "ls |& wc",
    "no command between": "ls ; ; pwd",
    "nothing after and": "ls &&",
    "nothing before": "; ls",
    "assignment": "LD_PRELOAD=./x.so ls",
    "path changed": "PATH=. ls",
    "assignment alone": "PATH=.",
    "appended assignment": "PATH+=:. ls",
    "eval": "eval ls",
    "exec": "exec ls",
    "source": "source x",
    "dot": ". ./x",
    "command": "command ls",
    "builtin": "builtin echo",
    "printf into a variable": "printf -v PATH .; ls",
    "test of an element": "test -v 'a[$(touch x)]'",
    "read": "echo . | read PATH",
    "export": "export PATH=.; ls",
    "alias": "alias ls=touch\nls x",
    "hash": "hash -p /tmp/x ls; ls",
    "trap": "trap ls EXIT",
    "enable": "enable -f x ls",
    "env": "env ls",
    "env with a variable": "env LD_PRELOAD=x ls",
    "xargs": "ls | xargs touch",
    "timeout": "timeout 1 touch x",
    "nice": "nice touch x",
    "sudo": "sudo ls",
    "shell": "sh -c ls",
    "shell from a pipe": "echo ls | sh",
    "shell by its path": "/bin/bash -c ls",
    "busybox": "busybox ls",
    "python code": "python -c 1",
    "python file": "python x.py",
    "python from a pipe": "echo 1 | python",
    "awk": "awk 'BEGIN{system(\"ls\")}'",
    "sed": "sed 1e x",
    "find that executes": "find . -exec touch x ';'",
    "find that executes in folders": "find . -execdir touch x +",
    "find that asks": "find . -ok touch x ';'",
    "find that deletes": "find . -delete",
    "find that writes": "find . -fprint x",
    "quoted option": "find . '-exec' touch x ';'",
    "option in parts": "find . -e'x'ec touch x ';'",
    "option from a wildcard": "find * -name a",
    "option from a bracket": "find [-]exec",
    "option from an empty quote": "find ''*",
    "wildcard in an option": "find . -exe? x",
    "git pager": "git -c core.pager=touch log",
    "git program folder": "git --exec-path=. status",
    "git transport": "git clone 'ext::sh -c touch'",
    "git option cut short": "git log --ext",
    "git pager cut short": "git grep --open-f=touch x",
    "git output cut short": "git log --outp=x",
    "git option first": "git --no-pager log",
    "git external diff": "git log -p --ext-diff",
    "git output": "git log --output=x",
    "git grep pager": "git grep -Otouch x",
    "git sub-module": "git submodule foreach ls",
    "git bisect": "git bisect run ls",
    "sort program": "sort --compress-program=touch f",
    "sort abbreviation": "sort --comp=touch f",
    "sort output": "sort -ro f",
    "ripgrep program": "rg --pre touch x",
    "diff pager": "diff -l a b",
    "other folder": "./ls",
    "absolute path": "/tmp/ls",
    "parent folder": "../ls",
    "other case": "LS",
    "longer name": "lsx",
    "exact rule with more": "make test SHELL=x",
    "other sub-command": "gitstatus",
    "carriage return": "ls\rtouch x",
    "carriage return in quotes": "ls '\r'",
    "vertical tab": "ls\vx",
    "form feed": "ls\fx",
    "next line character": "ls\x85touch x",
    "line separator": "ls\u2028touch x",
    "no-break space": "ls\u00a0x",
    "wide space": "ls\u3000x",
    "zero width space": "l\u200bs",
    "right to left": "ls \u202ex",
    "homoglyph": "lѕ",
    "unicode quotes": "ls “a; touch x”",
    "unicode semicolon": "ls\uff1b touch x",
    "null character": "ls\0touch x",
    "escape sequence": "ls \x1b[8m; touch x",
    "backspace": "touch x\b\b\b",
    "surrogate": "ls \udcff",
    "open single quote": "ls 'a",
    "open double quote": 'ls "a',
    "backslash at the end": "ls \\",
    "backslash at the end in quotes": 'ls "a\\',
    "quote ended by a backslash": 'ls "\\"; touch x',
    "tilde program": "~/ls",
    "wildcard program": "l?",
    "job": "%1",
    "option as a program": "-x",
    "nothing": "",
    "only spaces": " \t\n",
    "only a comment": "# ls",
    "100 kB": "ls " + "a" * 100_000,
    "100 kB of separators": "ls;" * 33_000,
}  # fmt: skip

DENIED = {
    "plain": "rm x",
    "by its path": "/bin/rm x",
    "second": "ls; rm x",
    "sub-command": "git push origin",
    "in a substitution": "ls $(rm x)",
    "escaped": r"\rm x",
    "quoted": '"r"m x',
    "escaped inside": r"r\m x",
    "behind env": "env rm x",
    "behind xargs": "ls | xargs rm",
    "in a loop": "for f in a; do rm $f; done",
    "in a shell": "sh -c 'rm x'",
    "with find": "find . -exec rm {} +",
    "in an assignment": "A=b rm x",
    "in python": "python -c \"import os; os.system('rm x')\"",
    "in perl": "perl -e 'system(\"rm x\")'",
    "in awk": "awk 'BEGIN { system(\"rm x\") }'",
    "behind a carriage return": "ls\rrm x",
    "in a long line": "ls " + "a" * 100_000 + "; rm x",
    "over lines": "r\\\nm x",
}


@pytest.mark.parametrize("line", ALLOWED.values(), ids=ALLOWED)
def test_what_rules_name_is_allowed(line: str) -> None:
    assert RULES.judge(line).decision == "allowed"


@pytest.mark.parametrize("line", UNKNOWN.values(), ids=UNKNOWN)
def test_everything_else_needs_an_approval(line: str) -> None:
    assert RULES.judge(line).decision == "unknown"


@pytest.mark.parametrize("line", DENIED.values(), ids=DENIED)
def test_what_is_denied_is_found_also_where_the_line_is_not_understood(line: str) -> None:
    assert RULES.judge(line).decision == "denied"


def test_deny_beats_allow() -> None:
    assert CommandRules(["git *"], ["git push *"]).judge("git push").decision == "denied"


@pytest.mark.parametrize(
    "line",
    ["lsrm x", "ls rm-x", "ls warm", "ls 'rm x' farm", "cat ./rm.txt", "grep 'rm x' f", "python -m pytest -k rm"],
)
def test_a_denied_name_inside_of_an_argument_is_no_command(line: str) -> None:
    assert RULES.judge(line).decision != "denied"


def test_words_are_those_that_the_program_gets() -> None:
    line = r"""grep a'b c'"d\"e\f" '' # x""" + "\npwd 2>&1 && ls ./*"
    words = [command.words for command in split_command_line(line)]
    assert words == [("grep", 'ab cd"e\\f', ""), ("pwd",), ("ls", "./*")]


@pytest.mark.parametrize(
    "rule",
    ["", "*", " ", "ls * x", "env *", "sudo ls", "sh -c ls", "/bin/bash *", "xargs *", "eval *", "printf *", "if *",
     "./ls", "../ls *", "bin/ls", "python *", "python3.12 *", "/usr/bin/python3 *", "python -c *", "python -m *",
     "perl -e *", "sed *", "awk *", "make *", "npm *", "npm -g *", "vim *", "time *", "."],
)  # fmt: skip
def test_a_rule_that_allows_more_than_it_says_is_an_error(rule: str) -> None:
    with pytest.raises(DefinitionError):
        CommandRules([rule], [])


@pytest.mark.parametrize(
    "rule", ["python -m pytest *", "python tests/run.py *", "npm test *", "make test", "/usr/bin/git *"]
)
def test_a_rule_that_names_what_runs_is_accepted(rule: str) -> None:
    assert CommandRules([rule], []).judge(rule.removesuffix(" *")).decision == "allowed"


def test_rules_are_a_list_and_no_text() -> None:
    with pytest.raises(DefinitionError, match="list of rules"):
        CommandRules("ls *", [])


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_program_that_a_model_put_before_the_real_one_is_not_allowed(tmp_path: Path) -> None:
    work, system = tmp_path / "work", tmp_path / "system"
    for path in (system / "tool", system / "other", work / "bin" / "tool", work / "bin" / "mine", work / "bin" / "nl"):
        program(path)
    (tmp_path / "linked").symlink_to(work / "bin")
    (work / "bin" / "cat").symlink_to("/bin/sh")
    rules = CommandRules(["tool *", "other *", "mine *", "nl *", "cat *"], [])

    def judge(line: str, folder: Path) -> str:
        programs = ProgramFolders(f"{folder}:{system}", (work,))
        return rules.judge(line, programs=programs).decision

    for folder in (work / "bin", tmp_path / "linked"):
        decisions = [judge(line, folder) for line in ("tool", "other", "mine", "nl", "other; tool", "cat")]
        assert decisions == ["unknown", "allowed", "allowed", "unknown", "unknown", "unknown"]
