"""PythonSessions: interpreters that run code after code, so that variables stay; one for each session."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections import OrderedDict
from contextlib import suppress
from dataclasses import replace
from typing import Final

from ahvn_tools.builtins.processes.process import RunningProcess
from ahvn_tools.builtins.python_runner.code_run import Answer, CodeRun
from ahvn_tools.builtins.python_runner.execution import CodeFolder, Execution, Folders
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError

_LONGEST_SESSION: Final = 1_000_000.0
"""Seconds that an interpreter runs at most, whatever the time limit of its calls is."""
_POLL_SECONDS: Final = 0.01
_SECONDS_FOR_OUTPUT: Final = 1.0
"""How long to wait for the end of the output after the answer: code can close stdout, so it may never come."""
LOST: Final = "The Python session has ended, so its variables are lost. The next code starts a new session."

SessionKey = tuple[str | None, Folders]
"""The id of the session, and the folders that its code may use: with fewer folders it gets another interpreter."""

_LOCK_POLL_SECONDS: Final = 0.05
_MAX_REMEMBERED: Final = 1000
_NEW_SESSION: Final = "This is a new Python session: the earlier one has ended, and its variables are lost."
_NO_SESSION: Final = (
    "Variables of this code are lost: the client that called cannot be distinguished from others, so it has no session."
)
_TOO_MANY: Final = "Too many Python sessions run code at the moment. Try again later."


class PythonSession:
    """One interpreter that runs code after code. One thread at a time may run code in it; `lock` is for that."""

    def __init__(self, execution: Execution, folders: Folders) -> None:
        """Start the interpreter. Raises ToolError if that is impossible."""
        self.lock = threading.Lock()
        self.last_used = time.monotonic()
        self._execution = execution
        self._folder = CodeFolder()
        self._calls = 0
        try:
            confinement = execution.confinement(folders, self._folder)
            self._notes = tuple(filter(None, [confinement.statement]))
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
        return self._process.is_running

    def run(self, code: str, timeout: float, context: ToolContext) -> CodeRun:
        """Run code, and return what became of it. A timeout and a cancellation end the session."""
        started = time.monotonic()
        self._calls += 1
        mark = f"\n{uuid.uuid4().hex}\n"
        name = f"call_{self._calls}.py"
        request = self._execution.request(code, self._folder, file_name=name, end_mark=mark)
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
        """End the interpreter and everything that it started."""
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


class PythonSessions:
    """The interpreters of all sessions: at most `max_sessions`, and only those that ran code within `idle_seconds`."""

    def __init__(self, execution: Execution, max_sessions: int, idle_seconds: float) -> None:
        self._execution = execution
        self._max_sessions = max_sessions
        self._idle_seconds = idle_seconds
        self._sessions: OrderedDict[SessionKey, PythonSession] = OrderedDict()
        self._lost: OrderedDict[SessionKey, None] = OrderedDict()
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def run(self, code: str, folders: Folders, timeout: float, context: ToolContext) -> CodeRun:
        """Run code in the interpreter of the session, and start it if there is none."""
        if context.is_anonymous:
            run = self._execution.run(code, folders, timeout, context)
            return replace(run, notes=(*run.notes, _NO_SESSION))
        key = context.session_id, folders
        session, notes = self._acquire(key, context)
        try:
            run = session.run(code, timeout, context)
        finally:
            self._release(key, session)
        return replace(run, notes=(*notes, *run.notes))

    def reset(self, context: ToolContext) -> bool:
        """End the interpreters of the session of a call. Return whether there was one."""
        with self._lock:
            keys = [key for key in self._sessions if key[0] == context.session_id]
            ended = [self._sessions.pop(key) for key in keys]
        for session in ended:
            session.end()
        return bool(ended)

    def close(self) -> None:
        """End all interpreters."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
            while self._sessions:
                self._sessions.popitem()[1].end()

    def end_idle(self) -> None:
        """End the interpreters that ran no code for `idle_seconds`."""
        last_use = time.monotonic() - self._idle_seconds
        with self._lock:
            idle = [key for key, session in self._sessions.items() if session.last_used <= last_use]
            ended = [session for key in idle if (session := self._take_free(key)) is not None]
            self._timer = None
            self._schedule()
        for session in ended:
            session.end()

    def _acquire(self, key: SessionKey, context: ToolContext) -> tuple[PythonSession, tuple[str, ...]]:
        """Return the session, locked, started if there is none, with notes about its start."""
        notes: tuple[str, ...] = ()
        while True:
            context.check_cancelled()
            with self._lock:
                if key not in self._sessions:
                    notes = (_NEW_SESSION,) if key in self._lost else ()
                    self._start(key)
                session = self._sessions[key]
                self._sessions.move_to_end(key)
            if not session.lock.acquire(timeout=_LOCK_POLL_SECONDS):
                continue
            if session.is_running:
                return session, notes
            self._release(key, session)

    def _release(self, key: SessionKey, session: PythonSession) -> None:
        """Let others run code in the session, unless it has ended."""
        is_running = session.is_running
        if not is_running:
            session.end()
        session.lock.release()
        with self._lock:
            if not is_running:
                self._discard(key, session)
            self._schedule()

    def _start(self, key: SessionKey) -> None:
        """Start a session; end the one that was unused for the longest time if there are too many."""
        if len(self._sessions) >= self._max_sessions:
            ended = next((session for old in list(self._sessions) if (session := self._take_free(old))), None)
            if ended is None:
                raise ToolError(_TOO_MANY)
            ended.end()
        self._sessions[key] = PythonSession(self._execution, key[1])
        self._lost.pop(key, None)

    def _take_free(self, key: SessionKey) -> PythonSession | None:
        """Remove a session that runs no code, and leave it locked, so that no one gets it; None if it runs code."""
        session = self._sessions[key]
        if not session.lock.acquire(blocking=False):
            return None
        self._discard(key, session)
        return session

    def _discard(self, key: SessionKey, session: PythonSession) -> None:
        """Remove a session that has ended or will end, and remember that its variables are lost."""
        if self._sessions.get(key) is session:
            del self._sessions[key]
            self._lost[key] = None
            while len(self._lost) > _MAX_REMEMBERED:
                self._lost.popitem(last=False)

    def _schedule(self) -> None:
        """Look for idle sessions when the first of them can be idle."""
        if self._sessions and self._timer is None:
            first_use = min(session.last_used for session in self._sessions.values())
            seconds = max(first_use + self._idle_seconds - time.monotonic(), _LOCK_POLL_SECONDS)
            self._timer = threading.Timer(seconds, self.end_idle)
            self._timer.daemon = True
            self._timer.start()
