"""CallerLinks of a body in a worker of an executor: one through a channel, and one that keeps all for the end."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Final

from ahvn_tools.errors import CallCancelledError, ToolConnectionError
from ahvn_tools.execution.executors.channel import ANSWER, CANCEL, END, NEXT

MAX_KEPT_BYTES: Final = 100_000_000
"""How many bytes of replies are kept for a caller that cannot be reached before the end; more are dropped."""


class KeepingLink:
    """The link to a caller that cannot be reached while the body runs: what it sends is kept for the end."""

    def __init__(self) -> None:
        self.replies: list[bytes] = []
        self._lock = threading.Lock()
        self._bytes = 0

    def on_cancel(self, cancel: Callable[[], None]) -> None:
        """Do nothing: the caller cannot say so."""

    def send(self, reply: bytes) -> None:
        """Keep a reply."""
        with self._lock:
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


class ChannelLink:
    """The link to a caller at the other end of a channel."""

    def __init__(self, connection: Connection) -> None:
        """Use a connection. The caller closes it after `close`, and this end then, too."""
        self.sent = 0
        """How many replies were sent."""
        self._connection = connection
        self._lock = threading.Lock()
        self._ask_lock = threading.Lock()
        self._requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._cancel: Callable[[], None] | None = None
        self._is_closed = False
        self.is_cancelled = False
        threading.Thread(target=self._listen, name="ahvn-tools-channel", daemon=True).start()

    def on_cancel(self, cancel: Callable[[], None]) -> None:
        """Call `cancel` when the caller no longer needs the result, or has ended."""
        self._cancel = cancel
        if self.is_cancelled:
            cancel()

    def send(self, reply: bytes) -> None:
        """Send a reply, unless the call or the caller has ended."""
        with self._lock:
            if self._is_closed:
                return
            try:
                self._connection.send_bytes(reply)
            except OSError:  # the caller has ended
                self._set_cancelled()
                return
            self.sent += 1

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

    def close(self) -> None:
        """Send no more; threads that the body has left behind get no answer."""
        with self._lock, contextlib.suppress(OSError):  # the caller has ended
            self._is_closed = True
            self._connection.send_bytes(END)

    def _listen(self) -> None:
        """Take what the caller sends until it closes the connection, and close this end."""
        with contextlib.suppress(EOFError, OSError):
            while (content := self._connection.recv_bytes()) != CANCEL:
                if content == NEXT:
                    self._requests.put(True)
                else:
                    self._answers.put(content.removeprefix(ANSWER))
        self._set_cancelled()
        with self._lock:
            self._is_closed = True
            self._connection.close()

    def _set_cancelled(self) -> None:
        self.is_cancelled = True
        self._requests.put(False)
        self._answers.put(None)
        if self._cancel is not None:
            self._cancel()
