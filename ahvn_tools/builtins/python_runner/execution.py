"""Execution: how the interpreters of one PythonRunner are started, and what their code may use."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ahvn_tools.builtins.processes.confinement import Confinement, ProcessLimits
from ahvn_tools.builtins.processes.private_folder import clean_environment
from ahvn_tools.builtins.processes.process import OnOutput, run_process
from ahvn_tools.builtins.python_runner.answer import Answer, AnswerLimits
from ahvn_tools.builtins.python_runner.code_folder import CodeFolder
from ahvn_tools.builtins.python_runner.code_run import CodeRun
from ahvn_tools.builtins.python_runner.interpreter import Engine, Interpreter
from ahvn_tools.context import ToolContext
from ahvn_tools.roots import shown_path

MAX_CODE_CHARS: Final = 1_000_000
_MONTY_MEMORY: Final = 100_000_000
"""Bytes of all objects that Monty's code may have at a time."""
_ANSWER: Final = "answer.json"


@dataclass(frozen=True, kw_only=True)
class Folders:
    """The folders that code may use in addition to its own."""

    paths: tuple[Path, ...] = ()
    is_read_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How interpreters are started, and what their code may use."""

    engine: Engine
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
        return None if self.engine == "monty" else Confinement(sandbox=self.sandbox).statement

    def notes(self, confinement: Confinement) -> tuple[str, ...]:
        """Return the sentences for every result of an interpreter."""
        statement = None if self.engine == "monty" else confinement.statement
        return () if statement is None else (statement,)

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
                stdin=self.request(code, folder, timeout=timeout),
                on_output=_stream(context, self.max_output_bytes),
                is_cancelled=lambda: context.cancelled,
            )
            context.check_cancelled()
            return CodeRun.of_process(done, self.read_answer(folder), self.notes(confinement))

    def command(self, folders: Folders, folder: CodeFolder, mode: Literal["once", "session"] = "once") -> list[str]:
        """Return the command of an interpreter, whose code can import modules of the workspace, else of its folder."""
        paths = folders.paths if self.engine == "process" else ()
        return self.interpreter.command(mode, *(str(shown_path(path, paths)) for path in paths or [folder.work]))

    def working_folder(self, folders: Folders, folder: CodeFolder) -> Path:
        """Return where code runs: in the first folder of the workspace, else in its own."""
        return folders.paths[0] if folders.paths and self.engine == "process" else folder.work

    def confinement(self, folders: Folders, folder: CodeFolder) -> Confinement:
        """Return what the interpreter may read, write and reach."""
        shared = folders.paths if self.engine == "process" else ()
        readable, writable = (shared, ()) if folders.is_read_only else ((), shared)
        return Confinement(
            writable=(folder.path, *writable),
            readable=(*self.interpreter.folders, *readable),
            network=self.network and self.engine == "process",
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

    def request(
        self, code: str, folder: CodeFolder, *, timeout: float, file_name: str = "code.py", end_mark: str = ""
    ) -> bytes:
        """Return what the program in the interpreter reads."""
        content: dict[str, Any] = {
            "engine": self.engine, "code": code, "file_name": file_name, "end_mark": end_mark, "timeout": timeout,
            "answer": str(folder.path / _ANSWER), "max_memory": _MONTY_MEMORY,
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
