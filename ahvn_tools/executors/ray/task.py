"""What a Ray worker runs: a body whose replies are returned, or one whose replies are streamed."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Generator, Iterator
from typing import Final

from ahvn_tools.execution.deadline import CANCEL_GRACE_SECONDS
from ahvn_tools.execution.executors.links import KeepingLink
from ahvn_tools.execution.isolation import replies
from ahvn_tools.execution.isolation.body_run import load_body_run
from ahvn_tools.executors.ray.interrupts import get_interrupts
from ahvn_tools.executors.ray.stream_link import Batch, StreamLink
from ahvn_tools.executors.ray.worker_process import WorkerProcess

END_SECONDS: Final = 0.5
"""How long a cancelled body that streams may take to end by itself before its process does."""


def run_body(request: bytes, seconds: float | None) -> list[bytes]:
    """Run the body of a pickled CallRequest in this thread, and return its replies; the last one ends the call.

    After `seconds` the process ends itself: the caller, who cancels the task then, may be gone.
    """
    link = KeepingLink()
    with _limit(seconds), _ending_when_terminated():
        last = load_body_run(request, link).run()
    return [*link.replies, last]


def stream_body(request: bytes, seconds: float | None) -> Generator[Batch, None, None]:
    """Run the body of a pickled CallRequest in another thread; yield this process, and then what the body sends.

    The caller must have taken an item before this generator goes on (Ray's back-pressure). After a chunk comes an
    empty batch: taking it requests the next chunk. When Ray cancels this task, and when the body has used its
    `seconds`, its ToolContext is cancelled; a body that does not end then is ended with this process.
    """
    body = _LinkedBody(request)
    try:
        with get_interrupts().calling(body.end):
            yield Batch([], worker=WorkerProcess.current())  # before the body, which may keep all threads from running
            body.start()
            while (batch := body.link.take(seconds)).replies:
                yield batch
                if replies.is_chunk(batch.replies[-1]):
                    yield Batch([])
                    body.link.answer(b"")
    finally:
        body.end()


class _LinkedBody:
    """A body in a thread of its own."""

    def __init__(self, request: bytes) -> None:
        self.link = StreamLink()
        self._request = request
        self._has_ended = threading.Event()
        self._has_ended.set()

    def start(self) -> None:
        self._has_ended.clear()
        threading.Thread(target=self._run, name="ahvn-tools-body", daemon=True).start()

    def end(self) -> None:
        """Cancel the ToolContext of the body, if it runs; if it does not end then, end this process."""
        self.link.end()
        if not self._has_ended.wait(END_SECONDS):
            end_process()

    def _run(self) -> None:
        try:
            self.link.send(load_body_run(self._request, self.link).run())
        finally:
            self.link.finish()
            self._has_ended.set()


def end_process() -> None:  # pragma: no cover  # a killed process reports no coverage
    """Kill this process, and all that it started."""
    with contextlib.suppress(Exception):
        from ahvn_tools.execution.isolation.worker_process import kill_descendants  # it imports psutil

        kill_descendants()
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


@contextlib.contextmanager
def _limit(seconds: float | None) -> Iterator[None]:
    """End this process if the block takes longer."""
    if seconds is None:
        yield
        return
    timer = threading.Timer(max(seconds, 0) + CANCEL_GRACE_SECONDS, end_process)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextlib.contextmanager
def _ending_when_terminated() -> Iterator[None]:
    """End this process at a SIGTERM, which Ray would turn into a SystemExit of the body."""
    handler = signal.signal(signal.SIGTERM, lambda *_: end_process())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)
