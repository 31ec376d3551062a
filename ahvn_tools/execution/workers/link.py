"""Link: how a body in a worker reaches its caller, over any transport."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from time import monotonic
from typing import Final

from ahvn_tools.errors import CallCancelledError, ToolConnectionError
from ahvn_tools.execution.workers import replies

MAX_KEPT_BYTES: Final = 100_000_000
"""How many bytes of replies are kept for a caller that cannot be reached before the end; more are dropped."""


class Link:
    """The link of one body to its caller. Any thread may use it. A transport sends replies, and passes answers on."""

    def __init__(
        self,
        deliver: Callable[[bytes], object],
        while_waiting: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        """`deliver` sends a reply. `while_waiting` is held while the reader or a person takes their time."""
        self.is_cancelled = False
        """Whether the caller no longer needs the result."""
        self._deliver = deliver
        self._while_waiting = while_waiting
        self._cancel: Callable[[], None] | None = None
        self._cancel_lock = threading.Lock()
        self._ask_lock = threading.Lock()
        self._requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._clock: _Clock | None = None

    def on_cancel(self, cancel: Callable[[], None]) -> None:
        """Call `cancel` when the caller no longer needs the result; at once, if that is so already."""
        with self._cancel_lock:
            self._cancel = cancel
            is_cancelled = self.is_cancelled
        if is_cancelled:
            cancel()

    def cancel(self) -> None:
        """Take the message that the result is no longer needed. What waits for an answer raises."""
        with self._cancel_lock:
            self.is_cancelled = True
            cancel = self._cancel
        self._requests.put(False)
        self._answers.put(None)
        if cancel is not None:
            cancel()

    def answer(self, answer: bytes) -> None:
        """Take an answer: b"" requests the next chunk, anything else answers a question."""
        if answer:
            self._answers.put(answer)
        else:
            self._requests.put(True)

    def send(self, reply: bytes) -> None:
        """Send a reply, unless the call has ended."""
        if not self.is_cancelled:
            self._deliver(reply)

    def send_chunk(self, reply: bytes) -> None:
        """Send a chunk, and wait until the next one is requested. Raises CallCancelledError."""
        with self._waiting():
            self.send(reply)
            if self.is_cancelled or not self._requests.get():
                raise CallCancelledError("The call was cancelled.")

    def ask(self, question: bytes) -> bytes:
        """Send a question and return the answer: the pickled exception to raise, or a pickled None.

        Raises CallCancelledError, and ToolConnectionError if the caller cannot be reached.
        """
        with self._waiting(), self._ask_lock:
            self.send(question)
            answer = None if self.is_cancelled else self._answers.get()
        if answer is None:
            raise CallCancelledError("The call that asks for an approval has ended.")
        return answer

    @contextlib.contextmanager
    def limited(self, seconds: float | None, expire: Callable[[], None]) -> Iterator[None]:
        """Call `expire`, in another thread, when the block has taken so many seconds; None: never.

        The time in which the body waits for its caller does not count.
        """
        if seconds is None:
            yield
            return
        self._clock = _Clock(seconds, expire)
        try:
            yield
        finally:
            self._clock.pause()

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        clock = self._clock
        if clock is not None:
            clock.pause()
        try:
            with self._while_waiting():
                yield
        finally:
            if clock is not None:
                clock.resume()


class _Clock:
    """Calls a function after some seconds, without those in which it is paused."""

    def __init__(self, seconds: float, expire: Callable[[], None]) -> None:
        self._remaining = seconds
        self._expire = expire
        self._lock = threading.Lock()
        self._pauses = 1
        self.resume()

    def pause(self) -> None:
        with self._lock:
            self._pauses += 1
            if self._pauses == 1:
                self._timer.cancel()
                self._remaining -= monotonic() - self._resumed_at

    def resume(self) -> None:
        with self._lock:
            self._pauses -= 1
            if self._pauses == 0:
                self._resumed_at = monotonic()
                self._timer = threading.Timer(max(self._remaining, 0), self._expire)
                self._timer.daemon = True
                self._timer.start()


class KeepingLink(Link):
    """The link to a caller that cannot be reached while the body runs: what it sends is kept for the end."""

    def __init__(self) -> None:
        super().__init__(self._keep)
        self.replies: list[bytes] = []
        self._keep_lock = threading.Lock()
        self._bytes = 0

    def _keep(self, reply: bytes) -> None:
        """Keep a reply. Progress takes the place of progress."""
        with self._keep_lock:
            if replies.is_progress(reply) and self.replies and replies.is_progress(self.replies[-1]):
                self._bytes -= len(self.replies.pop())
            self._bytes += len(reply)
            if self._bytes <= MAX_KEPT_BYTES:
                self.replies.append(reply)

    def send_chunk(self, reply: bytes) -> None:
        """Keep a chunk."""
        self.send(reply)

    def ask(self, question: bytes) -> bytes:
        """Raise ToolConnectionError."""
        del question
        raise ToolConnectionError(
            "This tool must ask for an approval, and nobody can be asked here.",
            explanation="The worker of this executor cannot reach the caller, so `ToolContext.ask` cannot work there: "
            "require the approval of the whole call, or use an executor of ahvn_tools.executors.",
        )
