"""Run a CallRequest in a killable worker process of this computer, for a caller in another process or thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager

from ahvn_tools.execution.isolation import replies
from ahvn_tools.execution.isolation.answered_link import AnsweredLink
from ahvn_tools.execution.isolation.body_run import CallerLink
from ahvn_tools.execution.isolation.slots import ProcessSlots
from ahvn_tools.execution.isolation.timed_link import TimedLink
from ahvn_tools.execution.isolation.worker_run import Send, WorkerRun


def run_killable(request: bytes, link: CallerLink, slots: ProcessSlots, seconds: float | None) -> bytes:
    """Wait for a slot, run a pickled CallRequest, pass its replies to `link`, and return the one that ends the call.

    The worker is killed, with all that it started, when the caller cancels the call and after `seconds`, without those
    in which it waits for its caller. Raises WorkerLostError, and CancelledError when it was killed.
    """
    run: WorkerRun[bytes] = WorkerRun(slots, keeps_children=False)

    def handle(reply: bytes, send: Send) -> bytes | None:
        if replies.is_final(reply):
            return reply
        if replies.is_chunk(reply):
            timed.send_chunk(reply)
            send(b"")
        elif replies.is_question(reply):
            send(timed.ask(reply))
        else:
            timed.send(reply)
        return None

    link.on_cancel(run.stop)
    with TimedLink(link, seconds, run.stop) as timed:
        return run.run(request, handle)


class LocalLink(AnsweredLink):
    """The link to a caller in another thread of this process."""

    def __init__(
        self,
        deliver: Callable[[bytes], None],
        while_waiting: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        """`while_waiting` is held while the reader or a person takes their time."""
        super().__init__()
        self._deliver = deliver
        self._while_waiting = while_waiting

    def send(self, reply: bytes) -> None:
        """Deliver a reply."""
        if not self.is_cancelled:
            self._deliver(reply)

    def send_chunk(self, reply: bytes) -> None:
        """Deliver a chunk, and wait until the next one is requested. Raises CallCancelledError."""
        with self._while_waiting():
            super().send_chunk(reply)

    def ask(self, question: bytes) -> bytes:
        """Deliver a question and return the answer. Raises CallCancelledError."""
        with self._while_waiting():
            return super().ask(question)
