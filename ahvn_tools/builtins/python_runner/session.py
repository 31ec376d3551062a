"""PythonSession: one interpreter that runs code after code, so that variables stay."""

from __future__ import annotations

import os
import threading
import time
import uuid
from contextlib import suppress
from typing import Final

from ahvn_tools.builtins.processes.process import RunningProcess
from ahvn_tools.builtins.python_runner.answer import Answer
from ahvn_tools.builtins.python_runner.code_folder import CodeFolder
from ahvn_tools.builtins.python_runner.code_run import CodeRun
from ahvn_tools.builtins.python_runner.execution import Execution, Folders
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError

_LONGEST_SESSION: Final = 1_000_000.0
"""Seconds that an interpreter runs at most, whatever the time limit of its calls is."""
_POLL_SECONDS: Final = 0.01
_SECONDS_FOR_OUTPUT: Final = 1.0
"""How long to wait for the end of the output after the answer: code can close stdout, so it may never come."""
LOST: Final = "The Python session has ended, so its variables are lost. The next code starts a new session."


class PythonSession:
    """One interpreter that runs code after code. One thread at a time may run code in it; `lock` is for that."""

    def __init__(self, execution: Execution, folders: Folders) -> None:
        """Start the interpreter. Raises ToolError if that is impossible."""
        self.lock = threading.Lock()
        self.last_used = time.monotonic()
        self._execution = execution
        self._folder = CodeFolder()
        self._calls = 0
        self._owner = os.getpid()
        try:
            confinement = execution.confinement(folders, self._folder)
            self._notes = execution.notes(confinement)
            self._process = RunningProcess(
                execution.command(folders, self._folder, "session"),
                folder=execution.working_folder(folders, self._folder),
                confinement=confinement,
                limits=execution.limits(_LONGEST_SESSION, cpu_seconds=None),
                environment=execution.environment(self._folder),
            )
        except BaseException:
            self._folder.delete()
            raise

    @property
    def is_running(self) -> bool:
        """Whether it can run more code."""
        return self._owner == os.getpid() and self._process.is_running

    def run(self, code: str, timeout: float, context: ToolContext) -> CodeRun:
        """Run code, and return what became of it. A timeout and a cancellation end the session."""
        started = time.monotonic()
        self._calls += 1
        mark = f"\n{uuid.uuid4().hex}\n"
        name = f"call_{self._calls}.py"
        request = self._execution.request(code, self._folder, timeout=timeout, file_name=name, end_mark=mark)
        try:
            has_answer = self._wait_for_answer(request, started + timeout, context)
            context.check_cancelled()
        except BaseException:
            self.end()  # the code may still run
            raise
        run = self._run_with_answer(mark, started) if has_answer else self._run_that_ended(started)
        self.last_used = time.monotonic()
        return run

    def end(self) -> None:
        """End the interpreter and everything that it started. In a forked process it does nothing."""
        if self._owner == os.getpid():
            self._process.stop()
            self._folder.delete()

    def _wait_for_answer(self, request: bytes, deadline: float, context: ToolContext) -> bool:
        """Send the request, and return whether there is an answer before the deadline."""
        try:
            self._process.write(request, is_cancelled=lambda: context.cancelled or time.monotonic() > deadline)
        except ToolError:  # earlier code has closed what requests are read from
            self._process.stop()
            return False
        answer = self._execution.answer_path(self._folder)
        while not os.path.lexists(answer):
            left = deadline - time.monotonic()
            if left <= 0 or context.cancelled:
                return False
            if self._process.wait(min(left, _POLL_SECONDS), is_cancelled=lambda: context.cancelled) is not None:
                return os.path.lexists(answer)
        return True

    def _run_with_answer(self, mark: str, started: float) -> CodeRun:
        answer = self._execution.read_answer(self._folder)
        if answer.exit_code is None:  # no answer that our program would write: it may never write one again
            output = self._process.read_new()
            self.end()
            return self._code_run(answer, "exit", output, started)
        with suppress(OSError):  # the code can have put a folder there; then the next call ends the session
            self._execution.answer_path(self._folder).unlink()
        return self._code_run(answer, "exit", self._read_until(mark), started, mark=mark)

    def _run_that_ended(self, started: float) -> CodeRun:
        """Return what became of code that ran too long, or has ended its interpreter."""
        ended_by = "timeout" if self._process.is_running else "exit"
        output = self._process.read_new()
        done = self._process.stop()
        self.end()
        return self._code_run(Answer(exit_code=done.exit_code), ended_by, output, started)

    def _code_run(
        self, answer: Answer, ended_by: str, output: tuple[str, str], started: float, *, mark: str = ""
    ) -> CodeRun:
        limit = self._execution.max_output_bytes
        stdout, stderr = (text.replace(mark, "", 1) for text in output)
        return CodeRun(
            exit_code=answer.exit_code, ended_by=ended_by, stdout=stdout, stderr=stderr, answer=answer,
            is_output_cut=any(len(text.encode()) > limit for text in output),
            notes=self._notes if self.is_running else (*self._notes, LOST),
            duration=time.monotonic() - started,
        )  # fmt: skip

    def _read_until(self, mark: str) -> tuple[str, str]:
        """Return the output up to the marks that the program writes after the code, and what came after them."""
        parts = self._process.read_new()
        deadline = time.monotonic() + _SECONDS_FOR_OUTPUT
        while not all(mark in part for part in parts) and time.monotonic() < deadline:
            self._process.wait_for_output(_POLL_SECONDS)
            more = self._process.read_new()
            parts = parts[0] + more[0], parts[1] + more[1]
        return parts
