"""A channel between a caller and the worker that runs its call, where both are processes of one user on one computer.

It is a connection of `multiprocessing.connection`, authenticated by a key that is made for this process.
"""

from __future__ import annotations

import contextlib
import functools
import math
import multiprocessing
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, Final

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.execution.threads import thread_pool
from ahvn_tools.execution.workers.link import Link

CONNECT_SECONDS: Final = 5.0
"""How long a worker tries to reach its caller, and how long a caller waits for what a new connection sends."""

POLL_SECONDS: Final = 0.5
"""How soon a connection whose worker does not end is closed after its call."""

EXIT_SECONDS: Final = 3.0
"""How long a worker may wait for a reader or a person while the interpreter ends, which waits for the worker."""

START: Final = b"s"
"""The first message to a worker: the call has not been cancelled meanwhile."""
NEXT: Final = b"n"
CANCEL: Final = b"c"
ANSWER: Final = b"a"
"""The beginning of an answer."""
END: Final = b""
"""The last message of a worker. A process that it has forked may keep the connection open."""


@dataclass(frozen=True)
class ChannelAddress:
    """Where a worker reaches the caller of one call."""

    address: Any
    key: bytes = field(repr=False)
    token: bytes = field(repr=False)
    """Names the call."""


class Channel:
    """The caller's end of one channel."""

    def __init__(
        self, address: ChannelAddress, deliver: Callable[[bytes], None], on_end: Callable[[], None] = lambda: None
    ) -> None:
        """`deliver` takes what the worker sends, and `on_end` is called when it sends no more, in another thread."""
        self.address = address
        self._deliver = deliver
        self._on_end = on_end
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._waiting: list[bytes] = []
        self._is_closed = False
        self._ends_at = math.inf
        """When to end at the latest, as time.monotonic() has it: the worker has ended."""
        self.awaits_answer = False
        """Whether the worker waits for a reader or a person."""

    def send(self, content: bytes) -> None:
        """Send to the worker, now or when it connects; nothing if the channel is closed."""
        self.awaits_answer = False
        with self._lock:
            if self._is_closed:
                return
            if self._connection is None:
                self._waiting.append(content)
            else:
                self._send(self._connection, content)

    def finish(self) -> bool:
        """Deliver what has arrived, and end: the worker has ended. Return False if it has sent nothing."""
        with self._lock:
            self._ends_at = time.monotonic() + CONNECT_SECONDS
            return self._connection is not None and not self._is_closed

    def close(self) -> None:
        """Send and deliver no more. The connection, if there is one, is closed within POLL_SECONDS."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()

    def serve(self, connection: Connection) -> None:
        """Deliver what the worker sends, until one of the two ends the channel."""
        try:
            with self._lock:
                if self._is_closed:
                    return
                self._connection = connection
                for content in (START, *self._waiting):
                    self._send(connection, content)
                self._waiting.clear()
            self._receive_all(connection)
        finally:
            self.close()
        self._on_end()

    def _receive_all(self, connection: Connection) -> None:
        exit_seconds = EXIT_SECONDS
        with contextlib.suppress(EOFError, OSError):  # the worker has ended
            while not self._is_closed and exit_seconds > 0 and time.monotonic() < self._ends_at:
                has_worker_ended = self._ends_at < math.inf
                if connection.poll(POLL_SECONDS):
                    if (content := connection.recv_bytes()) == END:
                        return
                    self._deliver(content)
                elif has_worker_ended:  # a process that it has forked keeps the connection open
                    return
                elif self.awaits_answer and getattr(threading, "_SHUTTING_DOWN", False):  # it has no public name
                    exit_seconds -= POLL_SECONDS

    @staticmethod
    def _send(connection: Connection, content: bytes) -> None:
        with contextlib.suppress(OSError):  # the worker has ended
            connection.send_bytes(content)


class ChannelListener:
    """Accepts the connections of the workers of all calls of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listener: Listener | None = None
        self._key = secrets.token_bytes(32)
        self._channels: dict[bytes, Channel] = {}
        self._connections: set[Connection] = set()

    def open(self, deliver: Callable[[bytes], None], on_end: Callable[[], None] = lambda: None) -> Channel:
        """Return a new channel, to which a worker can connect until it is closed. Raises OSError."""
        with self._lock:
            if self._listener is None:
                self._listener = Listener(backlog=128, authkey=self._key)
                threading.Thread(
                    target=self._accept, args=(self._listener,), name="ahvn-tools-channels", daemon=True
                ).start()
            address = ChannelAddress(self._listener.address, self._key, secrets.token_bytes(16))
            channel = self._channels[address.token] = Channel(address, deliver, on_end)
        return channel

    def close(self, channel: Channel) -> None:
        """Close a channel. No worker can connect to it any more."""
        with self._lock:
            self._channels.pop(channel.address.token, None)
        channel.close()

    def close_copies(self) -> None:
        """In a forked child: close its copies of the parent's connections, which would keep them open."""
        for connection in self._connections:
            connection.close()

    def _accept(self, listener: Listener) -> None:
        while True:
            try:
                connection = listener.accept()
            except (OSError, EOFError, multiprocessing.AuthenticationError):  # this one failed; others may not
                time.sleep(0.05)
                continue
            thread_pool.run(functools.partial(self._serve, connection))

    def _serve(self, connection: Connection) -> None:
        """Serve the channel that a new connection names."""
        self._connections.add(connection)
        try:
            with contextlib.suppress(EOFError, OSError):
                if connection.poll(CONNECT_SECONDS):
                    token = connection.recv_bytes(64)
                    with self._lock:
                        channel = self._channels.pop(token, None)
                    if channel is not None:
                        channel.serve(connection)
        finally:
            self._connections.discard(connection)  # first: a forked child closes those that are open
            connection.close()


channel_listener = ChannelListener()


@reset_after_fork
def _replace_listener() -> None:  # pragma: no cover  # runs in child processes, which report no coverage
    global channel_listener  # noqa: PLW0603
    channel_listener.close_copies()
    channel_listener = ChannelListener()


def connect(address: ChannelAddress) -> Connection | None:
    """In a worker: connect to the caller. Return None if it cannot be reached, as from another computer.

    Raises ConnectionAbortedError if it is there, and has no such call any more.
    """
    try:
        connection = Client(address.address, authkey=address.key)
    except (OSError, EOFError, multiprocessing.AuthenticationError):
        return None
    try:
        connection.send_bytes(address.token)
        if not connection.poll(CONNECT_SECONDS):
            connection.close()
            return None
        connection.recv_bytes()
    except (OSError, EOFError):
        connection.close()
        raise ConnectionAbortedError from None
    return connection


class ChannelLink(Link):
    """The worker's end of a channel, as the link of a body to its caller."""

    def __init__(self, connection: Connection) -> None:
        """Use a connection. The caller closes it after `close`, and this end then, too."""
        super().__init__(self._send)
        self.sent = 0
        """How many replies were sent."""
        self._connection = connection
        self._lock = threading.Lock()
        self._is_closed = False
        threading.Thread(target=self._listen, name="ahvn-tools-channel", daemon=True).start()

    def close(self) -> None:
        """Send no more; threads that the body has left behind get no answer."""
        with self._lock, contextlib.suppress(OSError):  # the caller has ended
            self._is_closed = True
            self._connection.send_bytes(END)

    def _send(self, reply: bytes) -> None:
        with self._lock, contextlib.suppress(OSError):  # the caller has ended, which `_listen` notices
            if not self._is_closed:
                self._connection.send_bytes(reply)
                self.sent += 1

    def _listen(self) -> None:
        """Take what the caller sends until it closes the connection, and close this end."""
        with contextlib.suppress(EOFError, OSError):
            while (content := self._connection.recv_bytes()) != CANCEL:
                self.answer(b"" if content == NEXT else content.removeprefix(ANSWER))
        self.cancel()
        with self._lock:
            self._is_closed = True
            self._connection.close()
