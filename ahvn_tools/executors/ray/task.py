"""What a Ray worker runs: a function, a body whose replies are returned, or one whose replies are streamed."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
from collections.abc import Generator, Iterator
from typing import Any, Final

from ahvn_tools.execution.deadline import CANCEL_GRACE_SECONDS
from ahvn_tools.execution.executors.links import KeepingLink
from ahvn_tools.execution.isolation import replies
from ahvn_tools.execution.isolation.body_run import load_body_run
from ahvn_tools.executors.ray.stream_link import Batch, StreamLink
from ahvn_tools.executors.ray.worker_process import WorkerProcess

END_SECONDS: Final = 2.0
"""How long a body that streams may run on when it was cancelled; then its process ends itself."""


def run_function(pickled: bytes) -> Any:
    """Run a pickled function with its arguments."""
    function, positional, named = pickle.loads(pickled)  # noqa: S301  # from the process that submitted it
    return function(*positional, **named)


def run_body(request: bytes, seconds: float | None) -> list[bytes]:
    """Run the body of a pickled CallRequest in this thread, and return its replies; the last one ends the call.

    After `seconds` the process ends itself: the caller, who cancels the task then, may be gone.
    """
    link = KeepingLink()
    with _limit(seconds):
        last = load_body_run(request, link).run()
    return [*link.replies, last]


def stream_body(request: bytes, seconds: float | None) -> Generator[Batch | WorkerProcess, None, None]:
    """Run the body of a pickled CallRequest in another thread; yield this process, and then what the body sends.

    The caller must have taken an item before this generator goes on (Ray's back-pressure). After a chunk comes an
    empty batch: taking it requests the next chunk. When this generator is closed or interrupted, and when the body has
    used its `seconds`, its ToolContext is cancelled; a body that does not end then is ended with this process.
    """
    link = StreamLink()
    thread = threading.Thread(target=_run_linked, args=(request, link), name="ahvn-tools-body", daemon=True)
    try:
        thread.start()
        yield WorkerProcess.current()
        while (batch := link.take(seconds)).replies:
            yield batch
            if replies.is_chunk(batch.replies[-1]):
                yield Batch([])
                link.request_chunk()
    finally:
        link.end()
        thread.join(END_SECONDS)
        if thread.is_alive():
            end_process()


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


def _run_linked(request: bytes, link: StreamLink) -> None:
    try:
        link.send(load_body_run(request, link).run())
    finally:
        link.finish()
