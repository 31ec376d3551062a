"""StreamLink: how a body in a thread of a Ray worker reaches its caller, through a stream of batches of replies."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from ahvn_tools.errors import CallCancelledError, ToolConnectionError
from ahvn_tools.execution.deadline import CANCEL_GRACE_SECONDS
from ahvn_tools.execution.isolation import replies
from ahvn_tools.execution.isolation.answered_link import AnsweredLink
from ahvn_tools.executors.ray.worker_process import WorkerProcess

POLL_SECONDS: Final = 0.05
"""How often a wait is interrupted: Ray's cancellation of a task does not end a wait of its thread."""

MAX_WAITING_BYTES: Final = 16_000_000
"""How many bytes of replies may wait for the caller; a body that sends more waits, too."""


@dataclass(frozen=True)
class Batch:
    """One item of a stream."""

    replies: list[bytes]
    """What the body has sent. A chunk, or a question, is the last one."""
    mailbox: Any = None
    """The actor that takes the answer to a question."""
    worker: WorkerProcess | None = None
    """The process of the body; only in the first item."""


class Mailbox:
    """An actor that passes answers from the caller to the body."""

    def __init__(self) -> None:
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()

    async def put(self, answer: bytes) -> None:
        """Pass an answer."""
        await self._answers.put(answer)

    async def take(self) -> bytes:
        """Return the next answer."""
        return await self._answers.get()


class StreamLink(AnsweredLink):
    """The link of a body to its caller. The body and its threads send; the thread of the task takes."""

    def __init__(self) -> None:
        super().__init__()
        self._condition = threading.Condition()
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._is_asking = False
        self._used_seconds = 0.0
        self._mailbox: Any = None
        self._is_finished = False

    def send(self, reply: bytes) -> None:
        """Send a reply, unless the call has ended. Waits until the caller has taken most of what was sent before."""
        with self._condition:
            self._condition.wait_for(lambda: self.is_cancelled or self._waiting_bytes < MAX_WAITING_BYTES)
            if not self.is_cancelled:
                self._waiting.append(reply)
                self._waiting_bytes += len(reply)
                self._condition.notify_all()

    def ask(self, question: bytes) -> bytes:
        """Send a question, and return the answer. Raises CallCancelledError, and ToolConnectionError."""
        import ray

        with self._ask_lock:
            try:
                self._mailbox = self._mailbox or ray.remote(num_cpus=0)(Mailbox).remote()
                answer = self._mailbox.take.remote()
                self._is_asking = True
                self.send(question)
                while not ray.wait([answer], timeout=POLL_SECONDS)[0]:
                    if self.is_cancelled:
                        raise CallCancelledError("The call that asks for an approval has ended.")
                received: bytes = ray.get(answer)
            except ray.exceptions.RayError as error:
                raise ToolConnectionError(f"The question got no answer: {type(error).__name__}.") from error
            finally:
                self._is_asking = False
        return received

    def take(self, max_seconds: float | None) -> Batch:
        """Wait for replies and return them; none when the body has finished, or has run for more than `max_seconds`.

        The time does not count in which the body waits for the caller.
        """
        with self._condition:
            while not self._waiting and not self._is_finished:
                started = monotonic()
                self._condition.wait(POLL_SECONDS)
                if not self._is_asking:
                    self._used_seconds += monotonic() - started
                if max_seconds is not None and self._used_seconds > max_seconds + CANCEL_GRACE_SECONDS:
                    return Batch([])
            return self._take_batch()

    def finish(self) -> None:
        """The body has sent its last reply."""
        with self._condition:
            self._is_finished = True
            self._condition.notify_all()
        self.on_cancel(lambda: None)

    def end(self) -> None:
        """The caller needs nothing more: cancel the body, if it runs, and remove the actor."""
        self.cancel()
        with self._condition:
            self._condition.notify_all()
        if self._mailbox is not None:
            import ray

            ray.kill(self._mailbox)

    def _take_batch(self) -> Batch:
        """Return the replies up to the first chunk or question."""
        number = next((n for n, reply in enumerate(self._waiting, 1) if _is_last(reply)), len(self._waiting))
        taken, self._waiting = self._waiting[:number], self._waiting[number:]
        self._waiting_bytes -= sum(map(len, taken))
        self._condition.notify_all()
        return Batch(taken, self._mailbox if taken and replies.is_question(taken[-1]) else None)


def _is_last(reply: bytes) -> bool:
    return replies.is_chunk(reply) or replies.is_question(reply)
