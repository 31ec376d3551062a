"""Interpreter: the Python that runs code, and what of the file system it needs to start."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, Self

from ahvn_tools.errors import DefinitionError
from ahvn_tools.roots import without_dots

Engine = Literal["process", "monty"]
"""`process`: a real Python. `monty`: calculations without files, network and packages; needs the extra `code`."""

_PROGRAM: Final = without_dots(__file__).with_name("program.py")
_QUESTION: Final = """
import importlib.util, json, sys
has_monty = importlib.util.find_spec("pydantic_monty") is not None
print(json.dumps([sys.executable, sys.version_info[:2], has_monty, sys.prefix, sys.base_prefix, sys.exec_prefix]))
"""
_OLDEST: Final = (3, 9)
_SECONDS_TO_START: Final = 30


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    """A Python of any version and environment from 3.9 on."""

    path: str
    folders: tuple[Path, ...]
    """The folders of its standard library and packages, and of the program that it runs."""

    @classmethod
    def find(cls, python: str | PathLike[str], engine: Engine) -> Self:
        """Start it once to learn where its files are. Raises DefinitionError if it does not start, or is too old."""
        if engine not in ("process", "monty"):
            raise DefinitionError(f"`engine` is 'process' or 'monty', not {engine!r}.")
        path = shutil.which(python)
        if path is None:
            raise DefinitionError(f"`python` is the path of a Python interpreter; {python!r} is no program.")
        executable, version, has_monty, *prefixes = _own_facts() if path == sys.executable else _facts(path)
        if tuple(version) < _OLDEST:
            raise DefinitionError(f"`python` must be Python 3.9 or newer; {python!r} is {version[0]}.{version[1]}.")
        if engine == "monty" and not has_monty:
            raise DefinitionError('engine="monty" needs pydantic-monty: pip install "ahvn-tools[code]"')
        named = [Path(prefix) for prefix in prefixes] + [_PROGRAM.parent]
        folders = dict.fromkeys(path for folder in named for path in (folder, folder.resolve()))
        return cls(path=executable, folders=tuple(folders))

    def command(self, *arguments: str) -> list[str]:
        """Return the command that starts the program: isolated from the environment, unbuffered and in UTF-8.

        It writes no bytecode into the workspace: that of a module is used again after an edit within the same second.
        """
        return [self.path, "-I", "-B", "-u", "-X", "utf8", str(_PROGRAM), *arguments]


def _own_facts() -> list[Any]:
    has_monty = importlib.util.find_spec("pydantic_monty") is not None
    return [sys.executable, sys.version_info[:2], has_monty, sys.prefix, sys.base_prefix, sys.exec_prefix]


def _facts(python: str) -> list[Any]:
    command = [python, "-I", "-c", _QUESTION]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=_SECONDS_TO_START, env={})  # noqa: S603
        facts: list[Any] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise DefinitionError(f"`python` is the path of a Python interpreter; {python!r} cannot be started.") from error
    return facts
