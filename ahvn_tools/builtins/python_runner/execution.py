"""Execution: how the interpreters of one PythonRunner are started, and what their code may use."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

from ahvn_tools.builtins.processes.confinement import Confinement, ProcessLimits
from ahvn_tools.builtins.processes.private_folder import clean_environment, delete_folder, private_folder
from ahvn_tools.builtins.processes.process import OnOutput, run_process
from ahvn_tools.builtins.python_runner.code_run import Answer, AnswerLimits, CodeRun
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import DefinitionError
from ahvn_tools.roots import shown_path, without_dots


class CodeFolder:
    """A temporary folder that only its owner can enter. Leaving the context deletes it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="python-", dir=private_folder.path))
        for name in ("work", "home", "temporary"):
            (self.path / name).mkdir()

    @property
    def work(self) -> Path:
        """The folder in which code runs that has no workspace."""
        return self.path / "work"

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that make programs write here instead of the home and /tmp."""
        home = str(self.path / "home")
        return {"HOME": home, "MPLCONFIGDIR": home, "TMPDIR": str(self.path / "temporary")}

    def delete(self) -> None:
        """Delete it, once no process writes there."""
        delete_folder(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self.delete()


_PROGRAM: Final = without_dots(__file__).with_name("program.py")
_QUESTION: Final = """
import json, sys
print(json.dumps([sys.executable, sys.version_info[:2], sys.prefix, sys.base_prefix, sys.exec_prefix]))
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
    def find(cls, python: str | PathLike[str]) -> Self:
        """Start it once to learn where its files are. Raises DefinitionError if it does not start, or is too old."""
        path = shutil.which(python)
        if path is None:
            raise DefinitionError(f"`python` is the path of a Python interpreter; {python!r} is no program.")
        executable, version, *prefixes = _own_facts() if path == sys.executable else _facts(path)
        if tuple(version) < _OLDEST:
            raise DefinitionError(f"`python` must be Python 3.9 or newer; {python!r} is {version[0]}.{version[1]}.")
        named = [Path(prefix) for prefix in prefixes] + [_PROGRAM.parent]
        folders = dict.fromkeys(path for folder in named for path in (folder, folder.resolve()))
        return cls(path=executable, folders=tuple(folders))

    def command(self, *arguments: str) -> list[str]:
        """Return the command that starts the program: isolated from the environment, unbuffered and in UTF-8.

        It writes no bytecode into the workspace: that of a module is used again after an edit within the same second.
        """
        return [self.path, "-I", "-B", "-u", "-X", "utf8", str(_PROGRAM), *arguments]


def _own_facts() -> list[Any]:
    return [sys.executable, sys.version_info[:2], sys.prefix, sys.base_prefix, sys.exec_prefix]


def _facts(python: str) -> list[Any]:
    command = [python, "-I", "-c", _QUESTION]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=_SECONDS_TO_START, env={})  # noqa: S603
        facts: list[Any] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise DefinitionError(f"`python` is the path of a Python interpreter; {python!r} cannot be started.") from error
    return facts


MAX_CODE_CHARS: Final = 1_000_000
_ANSWER: Final = "answer.json"


@dataclass(frozen=True, kw_only=True)
class Folders:
    """The folders that code may use in addition to its own."""

    paths: tuple[Path, ...] = ()
    is_read_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How interpreters are started, and what their code may use."""

    interpreter: Interpreter
    sandbox: Literal["bubblewrap", "none"]
    network: bool
    memory_bytes: int | None
    cpu_seconds: int | None
    max_output_bytes: int
    answer_limits: AnswerLimits

    @property
    def statement(self) -> str | None:
        """One sentence for a result when nothing confines the code; None otherwise."""
        return Confinement(sandbox=self.sandbox).statement

    def run(self, code: str, folders: Folders, timeout: float, context: ToolContext) -> CodeRun:
        """Run code in an interpreter of its own, to its end or until the call is cancelled."""
        with CodeFolder() as folder:
            confinement = self.confinement(folders, folder)
            done = run_process(
                self.command(folders, folder),
                folder=self.working_folder(folders, folder),
                confinement=confinement,
                limits=self.limits(timeout, cpu_seconds=self.cpu_seconds),
                environment=self.environment(folder),
                stdin=self.request(code, folder),
                on_output=_stream(context, self.max_output_bytes),
                is_cancelled=lambda: context.cancelled,
            )
            context.check_cancelled()
            return CodeRun.of_process(done, self.read_answer(folder), confinement.statement)

    def command(self, folders: Folders, folder: CodeFolder, mode: Literal["once", "session"] = "once") -> list[str]:
        """Return the command of an interpreter, whose code can import modules of the workspace, else of its folder."""
        paths = folders.paths
        return self.interpreter.command(mode, *(str(shown_path(path, paths)) for path in paths or [folder.work]))

    def working_folder(self, folders: Folders, folder: CodeFolder) -> Path:
        """Return where code runs: in the first folder of the workspace, else in its own."""
        return folders.paths[0] if folders.paths else folder.work

    def confinement(self, folders: Folders, folder: CodeFolder) -> Confinement:
        """Return what the interpreter may read, write and reach."""
        readable, writable = (folders.paths, ()) if folders.is_read_only else ((), folders.paths)
        return Confinement(
            writable=(folder.path, *writable),
            readable=(*self.interpreter.folders, *readable),
            network=self.network,
            sandbox=self.sandbox,
        )

    def limits(self, timeout: float, *, cpu_seconds: int | None) -> ProcessLimits:
        """Return the limits of a process that ends within `timeout` seconds."""
        return ProcessLimits(
            timeout=timeout, memory_bytes=self.memory_bytes, cpu_seconds=cpu_seconds,
            kept_bytes=self.max_output_bytes, spooled_bytes=0,
        )  # fmt: skip

    def environment(self, folder: CodeFolder) -> dict[str, str]:
        """Return all environment variables of the interpreter; matplotlib draws without a screen."""
        return clean_environment(MPLBACKEND="Agg", **folder.variables)

    def request(self, code: str, folder: CodeFolder, *, file_name: str = "code.py", end_mark: str = "") -> bytes:
        """Return what the program in the interpreter reads."""
        content: dict[str, Any] = {
            "code": code, "file_name": file_name, "end_mark": end_mark, "answer": str(folder.path / _ANSWER),
            "max_value_chars": self.answer_limits.max_value_chars, "max_images": self.answer_limits.max_images,
            "max_image_bytes": self.answer_limits.max_image_bytes,
        }  # fmt: skip
        return json.dumps(content).encode() + b"\n"

    def answer_path(self, folder: CodeFolder) -> Path:
        """Return the file that the program writes when the code has ended."""
        return folder.path / _ANSWER

    def read_answer(self, folder: CodeFolder) -> Answer:
        """Return the answer; an empty one if the code ended the program before it wrote one."""
        return Answer.read(self.answer_path(folder), self.answer_limits)


def _stream(context: ToolContext, max_chars: int) -> OnOutput:
    """Return a callback that sends output to the reader of a stream, up to a limit."""
    sent = 0

    def send(_stream: str, text: str) -> None:
        nonlocal sent
        if sent < max_chars:
            context.append_output(text[: max_chars - sent])
            sent += len(text)

    return send
