"""CallerLinks of a body in a worker of an executor: one through a channel, and one that keeps all for the end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Final

from ahvn_tools.errors import ToolConnectionError
from ahvn_tools.execution.executors.channel import ANSWER, CANCEL, END, NEXT
from ahvn_tools.execution.isolation import replies
from ahvn_tools.execution.isolation.answered_link import AnsweredLink

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
        """Keep a reply. Progress takes the place of progress."""
        with self._lock:
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


class ChannelLink(AnsweredLink):
    """The link to a caller at the other end of a channel."""

    def __init__(self, connection: Connection) -> None:
        """Use a connection. The caller closes it after `close`, and this end then, too."""
        super().__init__()
        self.sent = 0
        """How many replies were sent."""
        self._connection = connection
        self._lock = threading.Lock()
        self._is_closed = False
        threading.Thread(target=self._listen, name="ahvn-tools-channel", daemon=True).start()

    def send(self, reply: bytes) -> None:
        """Send a reply, unless the call or the caller has ended."""
        with self._lock, contextlib.suppress(OSError):  # the caller has ended, which `_listen` notices
            if not self._is_closed:
                self._connection.send_bytes(reply)
                self.sent += 1

    def close(self) -> None:
        """Send no more; threads that the body has left behind get no answer."""
        with self._lock, contextlib.suppress(OSError):  # the caller has ended
            self._is_closed = True
            self._connection.send_bytes(END)

    def _listen(self) -> None:
        """Take what the caller sends until it closes the connection, and close this end."""
        with contextlib.suppress(EOFError, OSError):
            while (content := self._connection.recv_bytes()) != CANCEL:
                self.answer(b"" if content == NEXT else content.removeprefix(ANSWER))
        self.cancel()
        with self._lock:
            self._is_closed = True
            self._connection.close()
