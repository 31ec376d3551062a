"""The program of a worker process: it runs one body at a time, as requested by the process that started it."""

from __future__ import annotations

import contextlib
import contextvars
import os
import pickle
import queue
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.errors import CallCancelledError
from ahvn_tools.execution.isolation import leftovers
from ahvn_tools.execution.isolation.body_run import FailedLoad, load_body_run
from ahvn_tools.execution.isolation.protocol import (
    ACCEPTED,
    ANSWER,
    IDLE_EXIT_SECONDS,
    LEFTOVERS,
    NEXT_CHUNK,
    NO_CALL,
    READY,
    REUSABLE,
    Frame,
    read_frame,
    write_frames,
)

_MAX_DESCRIPTOR = 8192
_STANDARD_ERROR = 2


def main(*, keeps_children: bool) -> None:
    """Serve the process that started this one, until it closes its end of the pipe.

    `keeps_children` says whether processes that a body has started may run on after its call.
    """
    _adopt_orphans()
    requests, replies = _to_private_descriptor(0), _to_private_descriptor(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(_STANDARD_ERROR, 1)  # what a body prints must not mix with the frames
    if null != _STANDARD_ERROR:  # else there was no standard error
        os.close(null)
    with contextlib.suppress(Exception):
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a text file unless it was replaced
    with contextlib.suppress(BrokenPipeError):  # the process that started this one has ended
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

    def send(self, call_id: bytes, reply: bytes) -> bool:
        """Send a reply of a call to the calling process, and return whether the call still runs."""
        with self._lock:
            is_running = call_id == self._call_id
            if is_running:
                write_frames(self._replies, call_id, reply)
        return is_running

    def wait_for_next(self) -> None:
        """Wait until the calling process requests the next chunk."""
        self._inbox.get()

    def ask(self, call_id: bytes, question: bytes) -> bytes:
        """Send a question, and return the answer. Raises CallCancelledError when the call has ended."""
        with self._ask_lock:
            if not self.send(call_id, question):
                raise CallCancelledError("The call that asks for an approval has ended.")
            return self._answers.get()

    def _write_frames(self, call_id: bytes, *contents: bytes) -> None:
        with self._lock:
            write_frames(self._replies, call_id, *contents)

    def _load_request(self, frame: Frame) -> Callable[[], bytes]:
        """Return a function that runs the body and returns the reply that ends the call."""
        try:
            environment, pickled = pickle.loads(frame.content)  # noqa: S301  # from the process that started this one
            environment.apply()
        except BaseException as error:  # noqa: BLE001  # a user's module may raise anything
            return FailedLoad(error).run
        return load_body_run(pickled, _PipeLink(self, frame.call_id)).run


class _PipeLink:
    """The link of one call to the calling process, through the pipes of the worker."""

    def __init__(self, worker: Worker, call_id: bytes) -> None:
        self._worker = worker
        self._call_id = call_id

    def on_cancel(self, cancel: Callable[[], None]) -> None:
        """Do nothing: the process of a cancelled call is killed."""

    def send(self, reply: bytes) -> None:
        """Send a reply, unless the call has ended."""
        self._worker.send(self._call_id, reply)

    def send_chunk(self, reply: bytes) -> None:
        """Send a chunk, and wait until the next one is requested."""
        self._worker.send(self._call_id, reply)
        self._worker.wait_for_next()

    def ask(self, question: bytes) -> bytes:
        """Send a question, and return the answer."""
        return self._worker.ask(self._call_id, question)
