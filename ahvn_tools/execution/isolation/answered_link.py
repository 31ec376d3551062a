"""AnsweredLink: what the links have in common whose callers request chunks, answer questions and cancel calls."""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from ahvn_tools.errors import CallCancelledError


class AnsweredLink(ABC):
    """A CallerLink whose caller can be reached while the body runs. A subclass sends."""

    def __init__(self) -> None:
        self.is_cancelled = False
        """Whether the caller no longer needs the result."""
        self._cancel: Callable[[], None] | None = None
        self._cancel_lock = threading.Lock()
        self._ask_lock = threading.Lock()
        self._requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

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

    @abstractmethod
    def send(self, reply: bytes) -> None:
        """Send a reply, unless the call has ended."""

    def send_chunk(self, reply: bytes) -> None:
        """Send a chunk, and wait until the next one is requested. Raises CallCancelledError."""
        self.send(reply)
        if self.is_cancelled or not self._requests.get():
            raise CallCancelledError("The call was cancelled.")

    def ask(self, question: bytes) -> bytes:
        """Send a question, and return the answer. Raises CallCancelledError."""
        with self._ask_lock:
            self.send(question)
            answer = None if self.is_cancelled else self._answers.get()
        if answer is None:
            raise CallCancelledError("The call that asks for an approval has ended.")
        return answer
