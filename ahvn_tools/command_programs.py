"""What programs do with their arguments: which ones run other programs, or code, that their arguments contain."""

from __future__ import annotations

import re
from typing import Final

from ahvn_tools.command_line import SimpleCommand


def _names_of(program: str) -> set[str]:
    """Return a program's name without its folder, also without its version: `python` for /usr/bin/python3.12."""
    name = program.rpartition("/")[2].casefold().removesuffix(".exe")
    return {name, re.sub(r"[-.]?[0-9][0-9.]*$", "", name)}


def runs_its_arguments(program: str) -> bool:
    """Return whether a program, a builtin or a word of the shell runs whatever its arguments or its input say."""
    return program in _SHELL_WORDS or not _WRAPPERS.isdisjoint(_names_of(program))


def find_runner(command: SimpleCommand) -> str | None:
    """Return why a command may run other programs than its first word says, or None."""
    program = command.program
    if runs_its_arguments(program):
        return f"{program!r} runs other commands or changes the shell"
    pattern = next((_RUNNING_ARGUMENTS[name] for name in _names_of(program) if name in _RUNNING_ARGUMENTS), _NOTHING)
    for argument in command.words[1:]:
        if pattern.fullmatch(argument):
            return f"{program!r} may run programs or change files with {argument[:40]!r}"
    if "git" in _names_of(program) and command.words[1:2] and command.words[1].startswith("-"):
        return "'git' may run programs with an option before its sub-command"
    return None


def may_run_code(command: SimpleCommand) -> bool:
    """Return whether a command runs code, so that what it does may be written in its arguments."""
    names = _names_of(command.program)
    return find_runner(command) is not None or not (_INTERPRETERS | _COMMAND_LANGUAGES).isdisjoint(names)


def takes_plain_arguments(command: SimpleCommand) -> bool:
    """Return whether a command is known to take its arguments as texts and names of files, and to run none of them."""
    program, *arguments = command.words
    if find_runner(command) is not None:
        return False
    return program in _PLAIN or (program == "git" and arguments[:1] != [] and arguments[0] in _PLAIN_OF_GIT)


def explain_open_rule(words: tuple[str, ...]) -> str | None:
    """Return why a rule with these words and a final * allows more than it says, or None."""
    names = _names_of(words[0])
    if not _COMMAND_LANGUAGES.isdisjoint(names):
        return f"{words[0]!r} runs programs that its arguments name. Write the whole command, without *."
    if not _INTERPRETERS.isdisjoint(names) and not _names_a_script(words):
        return f"{words[0]!r} runs what its first argument names. Write it, as in 'python -m pytest *' or 'npm test *'."
    return None


def _names_a_script(words: tuple[str, ...]) -> bool:
    """Return whether a script, a sub-command or `-m MODULE` follows: interpreters read their own options before it."""
    return len(words) > 1 and (not words[1].startswith("-") or (words[1] == "-m" and len(words) > 2))  # noqa: PLR2004


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SHELL_WORDS: Final = _names(
    "! . : [ [[ { } alias bg bind break builtin caller case command compgen complete compopt continue coproc declare "
    "dirs disown do done elif else enable esac eval exec exit export fc fg fi for function getopts hash help history "
    "if in jobs let local logout mapfile popd printf pushd read readarray readonly return select set shift shopt "
    "source suspend test then time times trap type typeset ulimit umask unalias unset until wait while"
)
"""Reserved words, and builtins that evaluate their arguments or change what later commands mean."""

_WRAPPERS: Final = _names(
    "ash at bash batch busybox bwrap chroot chrt cmd crontab csh dash dbus-run-session doas elvish entr env expect "
    "fakeroot firejail fish flock gdb gosu ionice ksh linux lldb ltrace mksh nice nohup nsenter nu numactl parallel "
    "pkexec powershell prlimit proot pwsh rbash rc runuser rush screen script scriptreplay setarch setpriv setsid sg "
    "sh ssh start-stop-daemon stdbuf strace su sudo systemd-run taskset tclsh tcsh time timeout tini tmux toybox "
    "unbuffer unshare valgrind watch xargs xonsh xvfb-run zsh"
)
"""Programs that run the command in their arguments or in their input."""

_INTERPRETERS: Final = _names(
    "ansible bun cargo deno docker go gradle guile ipython java julia kubectl lua luajit mvn nerdctl node nodejs npm "
    "npx ocaml perl php pip pipx pnpm podman pypy python pythonw r rscript ruby rustup task tox ts-node tsx uv uvx yarn"
)
"""Programs that run what their first argument names: a file, a module or a sub-command."""

_COMMAND_LANGUAGES: Final = _names(
    "awk cmake cpio ed emacs ex gawk less m4 make man mawk more mysql nano nawk ninja nvim psql rsync scp sed sftp "
    "sqlite tar vi view vim zip"
)
"""Programs with arguments in a language of their own that can run commands, at any position."""

_RUNNING_ARGUMENTS: Final = {
    "find": re.compile(r"-(?:exec|ok|fprint|fls|delete).*"),
    "fd": re.compile(r"-[^-]*[xX].*|--exec.*"),
    "git": re.compile(  # Git also accepts the beginning of a long option
        r"--(?:conf|e|o(?!neline$)|rec|te|up).*|-[cOxu].*|(?:ext|fd)::.*"
        r"|bisect|submodule|filter-branch|difftool|mergetool|rebase|config|hook|daemon|maintenance|alias"
    ),
    "rg": re.compile(r"--(?:pre|hostname-bin|search-zip)\b.*|-[^-]*z.*"),
    "sort": re.compile(r"--(?:o|co|T|te).*|-[^-]*[oT].*"),
    "diff": re.compile(r"--pag.*|-[^-]*l.*"),
    "tree": re.compile(r"-[^-]*[oR].*|--output.*"),
    "date": re.compile(r"--s.*|-[^-]*s.*"),
    "file": re.compile(r"--co.*|--uncom.*|-[^-]*[CzZm].*"),
}
"""Arguments, by program, that make it run other programs or write files."""

_PLAIN: Final = _names(
    "basename cat cd cp cut date diff dirname du echo egrep fd fgrep file find grep head ls mkdir pwd realpath rg "
    "sort stat tail touch tr tree uniq wc"
)
"""Programs that run no argument, except those in _RUNNING_ARGUMENTS."""

_PLAIN_OF_GIT: Final = _names(
    "add blame branch checkout cherry-pick clean commit describe diff grep log ls-files merge mv notes reflog reset "
    "restore revert rev-list rev-parse rm shortlog show stash status switch tag"
)
"""Sub-commands of git that run no argument. No alias can have such a name."""

_NOTHING: Final = re.compile(r"(?!)")
