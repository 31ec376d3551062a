"""Watch: calls as they happen, for a page that shows those of several processes."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import logging
import sys
import threading
import time
import weakref
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Final

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.errors import ToolSpecError, clip, suggests_options
from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.json_types import JsonObject, exceeds_size
from ahvn_tools.middleware import reporting
from ahvn_tools.middleware.observe import run_observed
from ahvn_tools.middleware.watched_calls import MAX_CALLS, WatchedCalls
from ahvn_tools.results import ToolResult

_logger = logging.getLogger(__name__)

MAX_CHARS: Final = 2_000
"""The maximum length of the arguments of a call as JSON text."""

_MAX_NAME_CHARS: Final = 200
_MAX_REDACTED_CHARS: Final = 100_000
"""Larger arguments are not shown: to redact them takes long."""

_CHECK_SECONDS: Final = 0.2
"""How often at most it is checked whether someone looks."""

_WRITE_SECONDS: Final = 0.1
_QUIET_SECONDS: Final = 0.5
"""For how long the thread that writes waits for another call."""

_REPEAT_SECONDS: Final = 5.0
"""How often calls that run are written again, so that they are not dropped as the oldest."""

_SESSION_PURPOSE: Final = "name of a session that is watched"


@suggests_options
def watch(path: str | PathLike[str] | None = None) -> Middleware:
    """Return middleware that writes each call to a file while someone looks, such as the page Watch of `ahvn_tools.ui`.

    While nobody looks, nothing is written and calls do not pass through it: that costs about a microsecond. A call
    is written, by a thread, when it starts, when it has more chunks, and when it ends: its tool, toolkit, session, run,
    arguments, start, duration and outcome. Secret arguments are `***` as in logs, and bound values are never written. A
    session has a name that is made of its id with the toolkit's secret key. The file has the newest 2,000 calls of all
    processes, each of at most some kilobytes. While it cannot be written, the newest 2,000 changes wait for it; others
    are lost, and counted.

    The file is that of this user, `ahvn-tools/calls-1.sqlite` in `$XDG_STATE_HOME` or `~/.local/state`, or at `path`,
    on a local disk. It is SQLite and no socket: it needs no server, keeps what a killed process has written, and only
    its owner can read it. `WatchedCalls` in `ahvn_tools.middleware.watched_calls` reads it.
    """
    calls = WatchedCalls(path)
    return _watches.setdefault(calls.path, _watches.get(calls.path) or _Watch(calls))


class _Watch:
    """The middleware of one file: writes to it in a thread, which ends when there is nothing to write."""

    def __init__(self, calls: WatchedCalls) -> None:
        self._calls = calls
        self._is_idle, self._check_at = True, 0.0
        self.forget()

    def forget(self) -> None:
        """Forget what belongs to the process that this one was forked from."""
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._running: dict[Any, tuple[int, JsonObject]] = {}
        """The calls that run, with their serials."""
        self._changed: dict[int, JsonObject] = {}
        """Calls to be written, by serial: several changes of a call are written as one."""
        self._has_news = False
        """Whether any of them has changed since it was last tried to write them."""
        self._lost = self._written_lost = 0
        """How many changes were lost, also when the file was written for the last time."""
        self._has_warned = False

    @property
    def is_idle(self) -> bool:
        """Whether nobody looks: then calls do not pass through this middleware."""
        now = time.monotonic()
        if now >= self._check_at:
            self._check_at, self._is_idle = now + _CHECK_SECONDS, not self._calls.is_viewed()
        return self._is_idle

    async def __call__(self, call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        """Run a call, and publish it."""
        key, emit = (call.id, call.name, id(call.scope)), call.emit
        if self.is_idle or key in self._running:  # this middleware may be there twice
            return await next(call)
        serial, arguments, started = next_serial(), _copy_arguments(call), time.perf_counter()
        has_resolver = any(bound.binding.resolver is not None for bound in call.plan.bound_parameters)
        watched = {**_names(call), "started": time.time(), "chunks": 0, "duration": None, "outcome": None}
        watched["arguments"] = "" if has_resolver else _redact(call, arguments)
        self._running[key] = serial, watched
        self._publish(serial, watched)

        async def emit_counted(chunk: ToolResult) -> None:
            watched["chunks"] += 1
            self._publish(serial, watched)
            if emit is not None:  # pragma: no branch
                await emit(chunk)

        def end(_duration: float, code: str | None) -> None:
            self._running.pop(key, None)  # a child that was forked meanwhile has none
            if has_resolver and call.scope.bound_values:  # what must not be shown is known now
                watched["arguments"] = _redact(call, arguments)
            watched["duration"] = time.perf_counter() - started  # from the start that is shown
            watched["outcome"] = clip(code or "ok", _MAX_NAME_CHARS)
            self._publish(serial, watched)

        return await run_observed(call if emit is None else replace(call, emit=emit_counted), next, end)

    def _publish(self, serial: int, call: JsonObject) -> None:
        """Let a call be written soon; the oldest change that waits is lost if there are too many."""
        with self._lock:
            self._changed[serial], self._has_news = call, True
            self._drop_oldest()
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="ahvn-tools-watch", daemon=True)
                with contextlib.suppress(RuntimeError):  # at the end of the program, when `write` is called
                    thread.start()
                    self._thread = thread

    def _drop_oldest(self) -> None:
        while len(self._changed) > MAX_CALLS:
            del self._changed[next(iter(self._changed))]
            self._lost += 1

    def _run(self) -> None:
        """Write changes as they come, and calls that run from time to time, until nothing happens for a while."""
        busy_at = repeated_at = time.monotonic()
        while True:
            time.sleep(_WRITE_SECONDS)
            now = time.monotonic()
            with self._lock:
                if self._has_news or (self._running and not self.is_idle):
                    busy_at = now
                elif now > busy_at + _QUIET_SECONDS:  # changes that could not be written wait for the next call
                    self._thread = None
                    return
                if now > repeated_at + _REPEAT_SECONDS:
                    repeated_at = now
                    self._changed = {**dict(list(self._running.values())), **self._changed}
            self.write()

    def write(self) -> None:
        """Write what has changed. After a failure it is kept for the next time, as far as there is room."""
        with self._writing:
            with self._lock:
                changed, self._changed, self._has_news = self._changed, {}, False
                lost = self._lost
            if not changed:
                return
            # after the changes were taken: the end of a call that is missing here is written the next time
            running = None if lost == self._written_lost else dict(list(self._running.values()))
            try:
                self._calls.write(changed, lost, running)
            except ToolSpecError as error:
                if not self._has_warned:
                    self._has_warned = True
                    _logger.warning("Calls cannot be watched. %s", error)
                with self._lock:
                    self._changed = {**changed, **self._changed}
                    self._drop_oldest()
            else:
                self._written_lost = lost


_watches: weakref.WeakValueDictionary[Path, _Watch] = weakref.WeakValueDictionary()
"""One for each file, by its path."""


@atexit.register
def _write_all() -> None:
    for watch in list(_watches.values()):
        watch.write()


@reset_after_fork
def _forget_parent() -> None:
    for watch in list(_watches.values()):
        watch.forget()


def _names(call: Call) -> JsonObject:
    toolkit = "" if call.open_toolkit is None else call.open_toolkit().name
    session = "" if call.session_id is None else call.secret_key.digest(_SESSION_PURPOSE, call.session_id)[:8]
    names = {"tool": call.name, "toolkit": toolkit, "session": session, "run": call.run_id or ""}
    return {key: clip(name, _MAX_NAME_CHARS) for key, name in names.items()} | {"program": Path(*sys.argv[:1]).name}


def _copy_arguments(call: Call) -> Any:
    """Return the arguments as JSON, before the body can change them; only a text for large ones."""
    if exceeds_size(call.arguments, _MAX_REDACTED_CHARS):
        return f"<more than {_MAX_REDACTED_CHARS:,} characters>"
    return reporting.as_json(call.arguments)


def _redact(call: Call, arguments: Any) -> str:
    return reporting.as_text(reporting.redact_json(call, arguments), MAX_CHARS)


next_serial = itertools.count(time.time_ns() // 1_000).__next__
"""Returns the serial of a call of this process, larger than those of the program that it ran before."""
