"""The program of a worker process: it runs one body at a time, as requested by the process that started it."""

from __future__ import annotations

import contextlib
import contextvars
import os
import pickle
import queue
import sys
import threading
import time
from typing import Any

from ahvn_tools.execution.workers.body_run import run_request
from ahvn_tools.execution.workers.frames import read_frame, write_frame
from ahvn_tools.execution.workers.link import Link
from ahvn_tools.execution.workers.process_tree import adopt_orphans, kill_descendants, kill_own_tree
from ahvn_tools.execution.workers.replies import encode_load_failure

_IDLE_EXIT_SECONDS = 1.0
"""How long a thread that a body started may keep an idle worker from exiting."""
_STANDARD_ERROR = 2
_POOL_MODULE = "ahvn_tools.execution.workers.worker_process"


def main(*, keeps_children: bool) -> None:
    """Serve the process that started this one, until it closes its end of the pipe.

    `keeps_children` says whether processes that a body has started may run on after its call.
    """
    adopt_orphans()
    null = os.open(os.devnull, os.O_RDWR)  # first: it is the standard error where there is none
    requests, replies = os.dup(0), os.dup(1)
    os.dup2(null, 0)
    os.dup2(_STANDARD_ERROR, 1)  # what a body prints must not mix with the frames
    if null != _STANDARD_ERROR:
        os.close(null)
    with contextlib.suppress(Exception):
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a text file unless it was replaced
    with contextlib.suppress(BrokenPipeError):  # the process that started this one has ended
        Worker(requests, replies, keeps_children=keeps_children).serve()
    _end_children()


def _end_children() -> None:
    """Kill the processes that this one has started or adopted, but not idle workers of this one."""
    if hasattr(os, "waitid"):
        try:
            while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG) is not None:
                pass  # one that has ended is reaped
        except ChildProcessError:  # there are no children
            return
    import psutil

    pools: tuple[Any, ...] = getattr(sys.modules.get(_POOL_MODULE), "all_pools", tuple)()
    idle = [process.process_id for pool in pools for process in pool.idle]
    if any(child.pid not in idle for child in psutil.Process().children()):
        kill_descendants()


class Worker:
    """A worker process: a thread that reads frames, and the main thread that runs one body at a time."""

    def __init__(self, requests: int, replies: int, *, keeps_children: bool) -> None:
        """Take the descriptors of the two pipes. A child that a body forks closes its copies of them."""
        self._keeps_children = keeps_children
        self._requests, self._replies = requests, replies
        self._inbox: queue.SimpleQueue[tuple[bytes, Link] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._link: Link | None = None
        """That of the call that runs. What a thread of an earlier call sends is dropped."""
        if hasattr(os, "register_at_fork"):  # pragma: no branch  # Windows does not fork
            os.register_at_fork(after_in_child=self._close_pipes)

    def serve(self) -> None:
        """Run requests until there are no more."""
        threading.Thread(target=self._listen, name="ahvn-tools-listener", daemon=True).start()
        while (received := self._inbox.get()) is not None:
            self._run(*received)

    def _run(self, request: bytes, link: Link) -> None:
        reply = contextvars.Context().run(_run_body, request, link)  # no later call sees what a body sets in it
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        if not self._keeps_children:
            _end_children()
        with self._lock:
            self._link = None
            link.cancel()
            write_frame(self._replies, reply)

    def _make_link(self) -> Link:
        link = Link(lambda reply: self._send(link, reply))
        return link

    def _send(self, link: Link, reply: bytes) -> None:
        with self._lock:
            if not link.is_cancelled:
                write_frame(self._replies, reply)

    def _listen(self) -> None:
        """Read frames. When the calling process has ended, an idle worker exits, and a busy one kills itself.

        This thread cannot run while a body is in C code that holds the GIL: the worker ends when it releases the GIL.
        """
        while (frame := read_frame(self._requests)) is not None:
            if self._link is not None:
                self._link.answer(frame)
                continue
            self._link = self._make_link()
            self._inbox.put((frame, self._link))
        if self._link is None:
            self._inbox.put(None)
            time.sleep(_IDLE_EXIT_SECONDS)
        kill_own_tree()

    def _close_pipes(self) -> None:  # pragma: no cover  # runs in child processes, which report no coverage
        os.close(self._requests)
        os.close(self._replies)


def _run_body(request: bytes, link: Link) -> bytes:
    """Run the body of a request and return the reply that ends the call."""
    try:
        environment, pickled = pickle.loads(request)  # noqa: S301  # from the process that started this one
        environment.apply()
    except BaseException as error:  # noqa: BLE001  # a user's module may raise anything
        return encode_load_failure(error)
    return run_request(pickled, link)
