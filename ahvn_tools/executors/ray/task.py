"""What a Ray worker runs: a body, whose replies are streamed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Generator
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from ahvn_tools.errors import CallCancelledError, ToolConnectionError
from ahvn_tools.execution.deadline import CANCEL_GRACE_SECONDS
from ahvn_tools.execution.workers import replies
from ahvn_tools.execution.workers.body_run import run_request
from ahvn_tools.execution.workers.link import Link

END_SECONDS: Final = 0.5
"""How long a cancelled body that streams may take to end by itself before its process does."""

POLL_SECONDS: Final = 0.05
"""How often a wait is interrupted: Ray's cancellation of a task does not end a wait of its thread."""

MAX_WAITING_BYTES: Final = 16_000_000
"""How many bytes of replies may wait for the caller; a body that sends more waits, too."""


def stream_body(request: bytes, seconds: float | None) -> Generator[ReplyBatch, None, None]:
    """Run the body of a pickled CallRequest in another thread; yield this process, and then what the body sends.

    The caller must have taken an item before this generator goes on (Ray's back-pressure). After a chunk comes an
    empty batch: taking it requests the next chunk. When Ray cancels this task, and when the body has used its
    `seconds`, its ToolContext is cancelled; a body that does not end then is ended with this process.
    """
    body = _LinkedBody(request)
    try:
        yield ReplyBatch([], worker=RayProcess.current())  # before the body, which may keep all threads from running
        body.start()
        while (batch := body.link.take(seconds)).replies:
            yield batch
            if replies.is_chunk(batch.replies[-1]):
                yield ReplyBatch([])
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
            self.link.send(run_request(self._request, self.link))
        finally:
            self.link.finish()
            self._has_ended.set()


def end_process() -> None:  # pragma: no cover  # a killed process reports no coverage
    """Kill this process, and all that it started."""
    with contextlib.suppress(Exception):
        from ahvn_tools.execution.workers.process_tree import kill_descendants  # it imports psutil

        kill_descendants()
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


@dataclass(frozen=True)
class ReplyBatch:
    """One item of a stream."""

    replies: list[bytes]
    """What the body has sent. A chunk, or a question, is the last one."""
    mailbox: Any = None
    """The actor that takes the answer to a question."""
    worker: RayProcess | None = None
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


class StreamLink(Link):
    """The link of a body to its caller. The body and its threads send; the thread of the task takes."""

    def __init__(self) -> None:
        super().__init__(self._append)
        self._condition = threading.Condition()
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._is_asking = False
        self._used_seconds = 0.0
        self._mailbox: Any = None
        self._is_finished = False

    def _append(self, reply: bytes) -> None:
        """Let the thread of the task take a reply. Waits until the caller has taken most of what was sent before."""
        with self._condition:
            self._condition.wait_for(lambda: self.is_cancelled or self._unsent_bytes < MAX_WAITING_BYTES)
            if not self.is_cancelled:
                self._unsent.append(reply)
                self._unsent_bytes += len(reply)
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

    def take(self, max_seconds: float | None) -> ReplyBatch:
        """Wait for replies and return them; none when the body has finished, or has run for more than `max_seconds`.

        The time does not count in which the body waits for the caller.
        """
        with self._condition:
            while not self._unsent and not self._is_finished:
                started = monotonic()
                self._condition.wait(POLL_SECONDS)
                if not self._is_asking:
                    self._used_seconds += monotonic() - started
                if max_seconds is not None and self._used_seconds > max_seconds + CANCEL_GRACE_SECONDS:
                    return ReplyBatch([])
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

    def _take_batch(self) -> ReplyBatch:
        """Return the replies up to the first chunk or question."""
        number = next((n for n, reply in enumerate(self._unsent, 1) if _is_last(reply)), len(self._unsent))
        taken, self._unsent = self._unsent[:number], self._unsent[number:]
        self._unsent_bytes -= sum(map(len, taken))
        self._condition.notify_all()
        return ReplyBatch(taken, self._mailbox if taken and replies.is_question(taken[-1]) else None)


def _is_last(reply: bytes) -> bool:
    return replies.is_chunk(reply) or replies.is_question(reply)


@dataclass(frozen=True)
class RayProcess:
    """The process of a worker."""

    node_id: str
    process_id: int
    create_time: float
    """Tells it from a later process with this id."""

    @classmethod
    def current(cls) -> RayProcess:
        """Return this process."""
        import psutil
        import ray

        return cls(ray.get_runtime_context().get_node_id(), os.getpid(), psutil.Process().create_time())


def kill_worker(worker: RayProcess) -> None:
    """On the node of a worker: kill its process, and all that it started."""
    import psutil

    from ahvn_tools.execution.workers.process_tree import kill_descendants

    try:
        process = psutil.Process(worker.process_id)
        if process.create_time() == worker.create_time:
            kill_descendants(process)
            process.kill()
    except psutil.NoSuchProcess:  # it has ended
        return
