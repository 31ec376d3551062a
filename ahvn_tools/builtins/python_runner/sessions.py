"""PythonSessions: the interpreters of all sessions of one PythonRunner."""

from __future__ import annotations

import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from ahvn_tools.builtins.python_runner.code_run import CodeRun
from ahvn_tools.builtins.python_runner.execution import Execution, Folders
from ahvn_tools.builtins.python_runner.session import PythonSession
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError

SessionKey = tuple[str | None, Folders]
"""The id of the session, and the folders that its code may use: with fewer folders it gets another interpreter."""

_POLL_SECONDS: Final = 0.05
_MAX_REMEMBERED: Final = 1000
_NEW_SESSION: Final = "This is a new Python session: the earlier one has ended, and its variables are lost."
_NO_SESSION: Final = (
    "Variables of this code are lost: the client that called cannot be distinguished from others, so it has no session."
)
_TOO_MANY: Final = "Too many Python sessions run code at the moment. Try again later."


class PythonSessions:
    """The interpreters of all sessions: at most `max_sessions`, and only those that ran code within `idle_seconds`."""

    def __init__(self, execution: Execution, max_sessions: int, idle_seconds: float) -> None:
        self._execution = execution
        self._max_sessions = max_sessions
        self._idle_seconds = idle_seconds
        self._sessions: OrderedDict[SessionKey, PythonSession] = OrderedDict()
        self._lost: OrderedDict[SessionKey, None] = OrderedDict()
        self._lock = threading.Lock()
        self._timers: list[threading.Timer] = []
        weakref.finalize(self, _end_all, self._sessions, self._timers)

    def run(self, code: str, folders: Folders, timeout: float, context: ToolContext) -> CodeRun:
        """Run code in the interpreter of the session, and start it if there is none."""
        if context.is_anonymous:
            run = self._execution.run(code, folders, timeout, context)
            return replace(run, notes=(*run.notes, _NO_SESSION))
        with self._session((context.session_id, folders), context) as (session, notes):
            run = session.run(code, timeout, context)
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
            _end_all(self._sessions, self._timers)

    def end_idle(self) -> None:
        """End the interpreters that ran no code for `idle_seconds`."""
        last_use = time.monotonic() - self._idle_seconds
        with self._lock:
            idle = [key for key, session in self._sessions.items() if session.last_used <= last_use]
            ended = [session for key in idle if (session := self._take_free(key)) is not None]
            self._timers.clear()
            self._schedule()
        for session in ended:
            session.end()

    @contextmanager
    def _session(self, key: SessionKey, context: ToolContext) -> Iterator[tuple[PythonSession, tuple[str, ...]]]:
        """Lock the session, started if there is none, with notes about its start."""
        session, notes = self._acquire(key, context)
        try:
            yield session, notes
        finally:
            is_running = session.is_running
            if not is_running:
                session.end()
            session.lock.release()
            with self._lock:
                if not is_running:
                    self._discard(key, session)
                self._schedule()

    def _acquire(self, key: SessionKey, context: ToolContext) -> tuple[PythonSession, tuple[str, ...]]:
        notes: tuple[str, ...] = ()
        while True:
            context.check_cancelled()
            with self._lock:
                if key not in self._sessions:
                    notes = (_NEW_SESSION,) if key in self._lost else ()
                    self._start(key)
                session = self._sessions[key]
                self._sessions.move_to_end(key)
            if not session.lock.acquire(timeout=_POLL_SECONDS):
                continue
            if session.is_running:
                return session, notes
            session.end()
            session.lock.release()
            with self._lock:
                self._discard(key, session)

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
        if self._sessions and not self._timers:
            first_use = min(session.last_used for session in self._sessions.values())
            seconds = max(first_use + self._idle_seconds - time.monotonic(), _POLL_SECONDS)
            timer = threading.Timer(seconds, _end_idle, [weakref.ref(self)])
            timer.daemon = True
            timer.start()
            self._timers.append(timer)


def _end_idle(find_sessions: Callable[[], PythonSessions | None]) -> None:
    if (sessions := find_sessions()) is not None:
        sessions.end_idle()


def _end_all(sessions: OrderedDict[SessionKey, PythonSession], timers: list[threading.Timer]) -> None:
    while timers:
        timers.pop().cancel()
    while sessions:
        sessions.popitem()[1].end()
