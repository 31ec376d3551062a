"""The program of a worker process: it runs one body at a time, as requested by the process that started it."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
import pickle
import queue
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import CallCancelledError, ToolError, exception_text
from ahvn_tools.execution.consume import aconsume, consume
from ahvn_tools.execution.isolation import leftovers
from ahvn_tools.execution.isolation.protocol import (
    ACCEPTED,
    ANSWER,
    IDLE_EXIT_SECONDS,
    LEFTOVERS,
    NEXT_CHUNK,
    NO_CALL,
    READY,
    REUSABLE,
    CallRequest,
    ContextSnapshot,
    Frame,
    read_frame,
    write_frames,
)
from ahvn_tools.execution.outcome import Outcome, is_consumable, is_iterator
from ahvn_tools.execution.pickling import ImportPath, dumps

_FALLBACK_BASES = (ToolError, Exception, SystemExit, KeyboardInterrupt, BaseException)
"""An exception that cannot be unpickled is replaced by one of the first of these types that it is an instance of."""

_MAX_DESCRIPTOR = 8192


def main(*, keeps_children: bool) -> None:
    """Serve the process that started this one, until it closes its end of the pipe.

    `keeps_children` says whether processes that a body has started may run on after its call.
    """
    _adopt_orphans()
    requests, replies = _to_private_descriptor(0), _to_private_descriptor(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)  # what a body prints must not mix with the frames
    except OSError:  # there is no standard error
        os.dup2(null, 1)
    os.close(null)
    with contextlib.suppress(Exception):
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a text file unless it was replaced
    Worker(requests, replies, keeps_children=keeps_children).serve()
    if leftovers.has_children():
        from ahvn_tools.execution.isolation.worker_process import kill_descendants  # it imports psutil

        kill_descendants()


def _to_private_descriptor(descriptor: int) -> int:
    """Return a copy under a high and random number, which a body does not reach by trying the low ones."""
    try:
        import fcntl
        import resource
    except ImportError:  # pragma: no cover  # Windows
        return os.dup(descriptor)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    half = (min(limit, _MAX_DESCRIPTOR) if limit > 0 else _MAX_DESCRIPTOR) // 2
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, half + random.SystemRandom().randrange(half // 2))


def _adopt_orphans() -> None:
    """On Linux, become the parent of descendants whose own parent has ended."""
    if sys.platform == "linux":
        import ctypes

        set_child_subreaper = 36
        libc: Any = ctypes.CDLL(None)
        libc.prctl(set_child_subreaper, 1, 0, 0, 0)


class Worker:
    """A worker process: a thread that reads requests, and the main thread that runs one body at a time."""

    def __init__(self, requests: int, replies: int, *, keeps_children: bool) -> None:
        """Take the descriptors of the two pipes. A child that a body forks closes its copies of them."""
        self._keeps_children = keeps_children
        self._requests, self._replies = requests, replies
        self._process_id = os.getpid()
        self._inbox: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._ask_lock = threading.Lock()
        self._lock = threading.Lock()
        self._is_busy = False
        self._call_id = NO_CALL
        """The id of the call that runs. What a thread of an earlier call sends is dropped."""
        reset_after_fork(self._close_pipes)

    def serve(self) -> None:
        """Run requests until there are no more."""
        threading.Thread(target=self._listen, name="ahvn-tools-listener", daemon=True).start()
        self._write_frames(NO_CALL, READY)
        while (request := self._inbox.get()) is not None:
            self._handle_request(request)

    def _handle_request(self, request: Frame) -> None:
        call_id = self._call_id = request.call_id
        self._write_frames(call_id, ACCEPTED)
        run = self._load_request(request)
        threads = leftovers.running_threads()  # also those that an import has started
        settings, descriptors = leftovers.process_settings(), leftovers.open_descriptors()
        reply = contextvars.Context().run(run)  # empty, so that no later call sees what a body sets in it
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        if os.getpid() != self._process_id:  # pragma: no cover  # the body forked, and this is the child process
            os._exit(0)
        with self._lock:
            self._call_id = NO_CALL
        is_clean = (
            leftovers.process_settings() == settings
            and not leftovers.has_new_descriptors(descriptors)
            and not leftovers.has_new_threads(threads)
        )
        if not self._keeps_children:
            is_clean = not leftovers.has_children() and is_clean  # always called, because it reaps children
        self._is_busy = False
        self._write_frames(call_id, reply, REUSABLE if is_clean else LEFTOVERS)

    def _close_pipes(self) -> None:  # pragma: no cover  # runs in child processes, which report no coverage
        self._lock, self._call_id = threading.Lock(), NO_CALL
        os.close(self._requests)
        os.close(self._replies)

    def _listen(self) -> None:
        """Read frames. When the calling process has ended, an idle worker exits, and a busy one kills itself.

        This thread cannot run while a body is in C code that holds the GIL: the worker ends when it releases the GIL.
        """
        while (frame := read_frame(self._requests)) is not None:
            if frame.content.startswith(ANSWER):
                self._answers.put(frame.content.removeprefix(ANSWER))
                continue
            if frame.content != NEXT_CHUNK:
                self._is_busy = True
            self._inbox.put(frame)
        if not self._is_busy:
            self._inbox.put(None)
            time.sleep(IDLE_EXIT_SECONDS)  # a thread that a body started may keep the interpreter from exiting
        from ahvn_tools.execution.isolation.worker_process import kill_own_tree  # it imports psutil

        kill_own_tree()

    def send(self, call_id: bytes, *reply: Any) -> None:
        """Send a reply of a call to the calling process, unless the call has ended."""
        self._send_pickled(call_id, dumps(reply))

    def emit(self, call_id: bytes, item: Any) -> None:
        """Send a chunk and wait until the next one is requested. Raises ChunkPickleError."""
        try:
            pickled = dumps(("chunk", item))
        except Exception as error:  # a user's __reduce__ may raise anything
            raise ChunkPickleError(type(item).__name__, type(error).__name__) from error
        self._send_pickled(call_id, pickled)
        self._inbox.get()

    def ask(self, call_id: bytes, action: str, details: Any) -> None:
        """Ask in the calling process, and raise what is raised there."""
        question = dumps(("ask", action, dict(details) if isinstance(details, Mapping) else details))
        with self._ask_lock:
            if not self._send_pickled(call_id, question):
                raise CallCancelledError("The call that asks for an approval has ended.")
            error = pickle.loads(self._answers.get())  # noqa: S301  # from the process that started this one
        if error is not None:
            raise error

    def _send_pickled(self, call_id: bytes, reply: bytes) -> bool:
        """Send a reply, and return whether its call still runs."""
        with self._lock:
            is_running = call_id == self._call_id
            if is_running:
                write_frames(self._replies, call_id, reply)
        return is_running

    def _write_frames(self, call_id: bytes, *contents: bytes) -> None:
        with self._lock:
            write_frames(self._replies, call_id, *contents)

    def _load_request(self, frame: Frame) -> Callable[[], bytes]:
        """Return a function that runs the body and returns the reply that ends the call."""
        try:
            environment, pickled = pickle.loads(frame.content)  # noqa: S301  # from the process that started this one
            environment.apply()
            request: CallRequest = pickle.loads(pickled)  # noqa: S301  # as above
            body = request.body.load() if isinstance(request.body, ImportPath) else request.body
        except BaseException as error:  # noqa: BLE001  # a user's __setstate__ or module may raise anything
            reply = dumps(("load_failed", False, type(error).__name__, exception_text(error)))
            return lambda: reply
        self.send(frame.call_id, "started")
        return _BodyRun(self, frame.call_id, request, body).run


class _BodyRun:
    """One run of a body."""

    def __init__(self, worker: Worker, call_id: bytes, request: CallRequest, body: Callable[..., Any]) -> None:
        self._send = functools.partial(worker.send, call_id)
        self._asker = _RemoteAsker(functools.partial(worker.ask, call_id))
        self._is_async = request.is_async
        self._limits = request.limits
        self._emit = functools.partial(worker.emit, call_id) if request.has_reader else None
        self._contexts: list[ToolContext] = []
        positional = [self._restore_argument(value) for value in request.positional]
        named = {name: self._restore_argument(value) for name, value in request.named.items()}
        self._start: Callable[[], Any] = lambda: body(*positional, **named)

    def _restore_argument(self, value: Any) -> Any:
        if not isinstance(value, ContextSnapshot):
            return value
        context = value.restore(self._send, self._asker)
        self._contexts.append(context)
        return context

    def run(self) -> bytes:
        """Run the body to its end and return the frame of its outcome."""
        outcome = Outcome.capture(self._run_body)
        ends_session = any(context.ends_session for context in self._contexts)
        if isinstance(outcome.error, ChunkPickleError):
            return dumps(("unpicklable", ends_session, *outcome.error.args))
        if outcome.error is not None:
            return dumps(("error", ends_session, *_pickle_error(outcome.error)))
        try:
            return dumps(("value", ends_session, outcome.value))
        except Exception as error:  # noqa: BLE001  # a user's __reduce__ may raise anything
            return dumps(("unpicklable", ends_session, type(outcome.value).__name__, type(error).__name__))

    def _run_body(self) -> Any:
        if self._is_async:
            return self._run_async(self._start)
        returned = self._start()
        if is_iterator(returned):
            return consume(returned, self._limits, self._emit)
        return self._run_async(lambda: returned) if is_consumable(returned) else returned

    def _run_async(self, start: Callable[[], Any]) -> Any:
        """Await or iterate the return value of `start` in an event loop."""
        import asyncio

        from ahvn_tools.execution.threads import run_in_thread

        send_chunk = self._emit

        async def emit(item: Any) -> None:
            (await run_in_thread(lambda _: send_chunk and send_chunk(item))).get()

        async def start_and_consume() -> Any:
            return await aconsume(start(), self._limits, emit if send_chunk else None)

        return asyncio.run(start_and_consume())


class _RemoteAsker:
    """Asks in the calling process."""

    def __init__(self, ask: Callable[[str, Any], None]) -> None:
        self.ask_sync = ask

    async def ask(self, action: str, details: Any) -> None:
        from ahvn_tools.execution.threads import run_in_thread

        (await run_in_thread(lambda _: self.ask_sync(action, details))).get()

    def cancel(self) -> None:
        """Do nothing: the process of a cancelled call is killed."""


class ChunkPickleError(Exception):
    """A chunk cannot be pickled. Its arguments are the type names of the chunk and of the exception."""


def _pickle_error(error: BaseException) -> tuple[bytes, bytes, str]:
    """Return an exception, one of the same name and text for callers that cannot unpickle it, and its traceback."""
    base = next(kind for kind in _FALLBACK_BASES if isinstance(error, kind))
    fallback = type(type(error).__name__, (base,), {})(exception_text(error))
    try:
        pickled = dumps(error)
    except Exception:  # noqa: BLE001  # a user's __reduce__ may raise anything
        pickled = b""
    return pickled, dumps(fallback), "".join(traceback.format_exception(error))
