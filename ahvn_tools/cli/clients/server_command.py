"""The command with which a client starts a server of some sources: it works in any folder, with almost no variables."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ahvn_tools.cli.errors import UsageError
from ahvn_tools.cli.sources import SourceOptions
from ahvn_tools.roots import without_dots

_PREFIXES = ("openapi:", "mcp:")
_OPTIONS = ("profile", "audience", "trust", "root", "group", "tag", "include", "exclude")


@dataclass(frozen=True, kw_only=True)
class ServerCommand:
    """A program with its arguments, and the variables that it needs."""

    program: str
    arguments: list[str]
    env: dict[str, str]


def build_command(
    sources: Sequence[str],
    options: SourceOptions,
    *,
    python: str | None = None,
    uvx: bool = False,
    packages: Sequence[str] = (),
) -> ServerCommand:
    """Return the command that serves sources: with this interpreter, with `python`, or with `uvx` and these packages.

    Paths are absolute. Raises UsageError for a source that is code.
    """
    arguments = ["serve", *(to_absolute(source) for source in sources), *_to_arguments(options)]
    env = {"PYTHONPATH": str(Path.cwd())} if any(map(_is_module_here, sources)) else {}
    if uvx:
        extra = [part for package in packages for part in ("--with", package)]
        return ServerCommand(
            program="uvx", arguments=["--from", "ahvn-tools", *extra, "ahvn-tools", *arguments], env=env
        )
    if packages:
        raise UsageError("--with is for --uvx: another interpreter has its packages installed.")
    # -P: the client may start it in a repository of others, whose files must not take the place of modules
    program = str(without_dots(sys.executable)) if python is None else _find_program(python)
    return ServerCommand(program=program, arguments=["-P", "-m", "ahvn_tools", *arguments], env=env)


def to_absolute(source: str) -> str:
    """Return a source that means the same in any folder. Raises UsageError for code."""
    if "\n" in source:
        raise UsageError("Code cannot be installed: write it to a file.")
    for prefix in _PREFIXES:
        if source.startswith(prefix):
            return prefix + to_absolute(source.removeprefix(prefix))
    if source == "builtins":
        return source
    file, colon, name = source.rpartition(":")
    if Path(source).expanduser().exists():
        return _resolve(source)
    return f"{_resolve(file)}:{name}" if colon and file and Path(file).expanduser().exists() else source


def _resolve(path: str) -> str:
    return str(without_dots(Path(path).expanduser()))


def _is_module_here(source: str) -> bool:
    """Return whether a source is a module that is imported from the current folder."""
    first = source.partition(":")[0].partition(".")[0]
    is_file = to_absolute(source) != source or not first.isidentifier()
    return not is_file and (Path(first).is_dir() or Path(f"{first}.py").is_file())


def _find_program(program: str) -> str:
    """Return the absolute path of an interpreter. Raises UsageError if there is none, or if it lacks this package."""
    found = shutil.which(program)
    if found is None:
        raise UsageError(f"There is no program {program!r}.")
    check = [found, "-c", "import ahvn_tools"]
    if subprocess.run(check, capture_output=True, check=False, stdin=subprocess.DEVNULL).returncode:  # noqa: S603  # the program that the user names
        raise UsageError(f"{program!r} cannot import ahvn_tools: install ahvn-tools for it, or use --uvx.")
    return str(without_dots(found))


def _to_arguments(options: SourceOptions) -> list[str]:
    arguments = []
    for name in _OPTIONS:
        value = getattr(options, name)
        for item in [value] if isinstance(value, str) else value or ():
            arguments += [f"--{name}", _LASTING.get(name, str)(item)]
    return arguments


def _to_lasting_trust(pattern: str) -> str:
    """Return a pattern of trust that means the same in any folder, and in which a client replaces nothing."""
    from ahvn_tools.trust import is_path  # as above: not for completion

    if pattern.startswith("${") and pattern.endswith("}"):
        return f"env:{pattern[2:-1]}"
    return pattern if "://" in pattern or not is_path(pattern) else _resolve(pattern)


_LASTING = {"trust": _to_lasting_trust, "root": _resolve}
"""The options with paths, and what makes them absolute."""
