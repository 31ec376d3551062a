"""Worker: what runs in a worker process: one body at a time, asked for and answered in frames."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from ahvn_tools.context import ToolContext
from ahvn_tools.execution.isolation.protocol import (
    FALLBACK_EXCEPTION_TYPES,
    IDLE_EXIT_SECONDS,
    NEXT_CHUNK,
    CallRequest,
    ContextSnapshot,
    read_frame,
    write_frame,
)
from ahvn_tools.execution.outcome import Outcome, is_consumable, is_iterator
from ahvn_tools.execution.pickling import ImportPath, dumps


def main() -> None:
    """Serve the process that has started this one, until it closes its end."""
    _adopt_orphans()
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)  # what a body prints must not come between the frames
    except OSError:  # there is no standard error
        os.dup2(null, 1)
    os.close(null)
    with contextlib.suppress(Exception):
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a text file unless somebody replaced it
    Worker(requests, replies).serve()


def _adopt_orphans() -> None:
    """On Linux, become the parent of what children leave behind; elsewhere a double fork leaves the tree."""
    if sys.platform == "linux":
        import ctypes

        set_child_subreaper = 36
        libc: Any = ctypes.CDLL(None)
        libc.prctl(set_child_subreaper, 1, 0, 0, 0)


class Worker:
    """One worker process: a thread that listens, and the main thread that runs one body at a time."""

    def __init__(self, requests: int, replies: int) -> None:
        """Take the two pipe ends. A child that a body forks lets go of them: only our own end is to be heard of."""
        self._requests, self._replies = requests, replies
        self._inbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_busy = False
        if hasattr(os, "register_at_fork"):  # pragma: no branch  # not on Windows
            os.register_at_fork(after_in_child=self._close_pipes_after_fork)

    def serve(self) -> None:
        """Run what is asked for until there is no more."""
        threading.Thread(target=self._listen, name="ahvn-tools-listener", daemon=True).start()
        self.send("ready")
        while (frame := self._inbox.get()) is not None:
            self.send("taken")
            answer = self._handle_request(frame)
            with contextlib.suppress(Exception):
                sys.stdout.flush()
            self._is_busy = False
            self._write_frame(answer)

    def _close_pipes_after_fork(self) -> None:  # pragma: no cover  # runs in forked children
        os.close(self._requests)
        os.close(self._replies)

    def _listen(self) -> None:
        """Take frames in. When the other side is gone, an idle worker ends, and a busy one is killed with its tree.

        No thread runs while a body is in C code that keeps the interpreter's lock: then its end is waited for.
        """
        while (frame := read_frame(self._requests)) is not None:
            if frame != NEXT_CHUNK:
                self._is_busy = True
            self._inbox.put(frame)
        if not self._is_busy:
            self._inbox.put(None)
            time.sleep(IDLE_EXIT_SECONDS)  # a thread that a body left behind may keep the interpreter from ending
        from ahvn_tools.execution.isolation import process_tree

        process_tree.kill_own_tree()

    def send(self, *parts: Any) -> None:
        """Tell the other side something."""
        self._write_frame(dumps(parts))

    def _write_frame(self, frame: bytes) -> None:
        with self._lock:
            write_frame(self._replies, frame)

    def _handle_request(self, frame: bytes) -> bytes:
        try:
            surroundings, inner = pickle.loads(frame)  # noqa: S301  # from the process that has started this one
            surroundings.apply()
            job: CallRequest = pickle.loads(inner)  # noqa: S301  # as above
            body = job.body.load() if isinstance(job.body, ImportPath) else job.body
        except BaseException as error:  # noqa: BLE001  # a foreign __setstate__, or an imported module, may raise anything
            return dumps(("unread", type(error).__name__, _safe_str(error)))
        run = _BodyRun(self, job, body)
        self.send("begun")
        return run.run()

    def emit(self, item: Any) -> None:
        """Give a chunk and wait until the next one is asked for. Raises UnsentError for one that cannot go over."""
        try:
            frame = dumps(("chunk", item))
        except Exception as error:  # a foreign __reduce__ may raise anything
            raise ChunkPickleError(type(item).__name__, type(error).__name__) from error
        self._write_frame(frame)
        self._inbox.get()


class _BodyRun:
    """One run of a body."""

    def __init__(self, worker: Worker, request: CallRequest, body: Callable[..., Any]) -> None:
        self._worker = worker
        self._request = request
        self._contexts: list[ToolContext] = []
        positional = [self._restore_argument(value) for value in request.positional]
        named = {name: self._restore_argument(value) for name, value in request.named.items()}
        self._start: Callable[[], Any] = lambda: body(*positional, **named)

    def run(self) -> bytes:
        """Run the body to its end and return the frame that tells what came of it."""
        outcome = Outcome.capture(self._run_body)
        ends_session = any(context.ends_session for context in self._contexts)
        if isinstance(outcome.error, ChunkPickleError):
            return dumps(("unsent", ends_session, *outcome.error.args))
        if outcome.error is not None:
            return dumps(("error", ends_session, *_pack_error(outcome.error)))
        try:
            return dumps(("value", ends_session, outcome.value))
        except Exception as error:  # noqa: BLE001  # a foreign __reduce__ may raise anything
            return dumps(("unsent", ends_session, type(outcome.value).__name__, type(error).__name__))

    def _run_body(self) -> Any:
        if self._request.is_async:
            return self._run_async(self._start)
        returned = self._start()
        if not is_consumable(returned):
            return returned
        if not is_iterator(returned):
            return self._run_async(lambda: returned)
        from ahvn_tools.execution.sync_call import consume

        return consume(returned, self._worker.emit if self._request.has_reader else None)

    def _run_async(self, start: Callable[[], Any]) -> Any:
        """Bring what `start` gives to its end, in an event loop."""
        import asyncio

        from ahvn_tools.execution.runner import aconsume
        from ahvn_tools.execution.threads import run_in_thread

        async def emit(item: Any) -> None:
            (await run_in_thread(lambda _: self._worker.emit(item))).get()

        async def whole() -> Any:
            return await aconsume(start(), emit if self._request.has_reader else None)

        return asyncio.run(whole())

    def _restore_argument(self, value: Any) -> Any:
        """Return what the body gets for a value: for a context, one that tells the other side."""
        if not isinstance(value, ContextSnapshot):
            return value
        context = ToolContext(
            call_id=value.call_id,
            tool=value.tool,
            run_id=value.run_id,
            session_id=value.session_id,
            roots=value.roots,
            is_approved=value.is_approved,
            emit=lambda chunk: self._worker.send("output", chunk.value),
            report=lambda *told: self._worker.send("progress", *told),
        )
        self._contexts.append(context)
        return context


class ChunkPickleError(Exception):
    """A chunk cannot be pickled: its kind, and the kind of the exception that came of it."""


def _pack_error(error: BaseException) -> tuple[Any, ...]:
    """Return an exception as it goes over: pickled where that works both ways, and in words."""
    words = (
        next(index for index, kind in enumerate(FALLBACK_EXCEPTION_TYPES) if isinstance(error, kind)),
        type(error).__name__,
        _safe_str(error),
        "".join(traceback.format_exception(error)),
    )
    try:
        packed = dumps(error)
        pickle.loads(packed)  # noqa: S301  # our own: an __init__ of another signature fails here
    except Exception:  # noqa: BLE001  # a foreign __reduce__ may raise anything
        return (None, *words)
    return (packed, *words)


def _safe_str(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # an exception's own __str__ may raise anything
        return "its text cannot be read"
