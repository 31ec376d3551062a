"""A channel between a caller and the worker that runs its call, where both are processes of one user on one computer.

It is a connection of `multiprocessing.connection`, authenticated by a key that is made for this process.
"""

from __future__ import annotations

import contextlib
import functools
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

START: Final = b"s"
"""The first message to a worker: the call has not been cancelled meanwhile."""
NEXT: Final = b"n"
CANCEL: Final = b"c"
ANSWER: Final = b"a"
"""The beginning of an answer."""


@dataclass(frozen=True)
class ChannelAddress:
    """Where a worker reaches the caller of one call."""

    address: Any
    key: bytes = field(repr=False)
    token: bytes = field(repr=False)
    """Names the call."""


class ChannelListener:
    """Accepts the connections of the workers of all calls of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listener: Listener | None = None
        self._key = secrets.token_bytes(32)
        self._waiting: dict[bytes, Callable[[Connection], None]] = {}
        """What serves the connection of each call whose worker has not connected yet, by its token."""
        self._connections: set[Connection] = set()

    def open(self, serve: Callable[[Connection], None]) -> ChannelAddress:
        """Return where a worker can connect, until that is closed; `serve` gets the connection. Raises OSError."""
        with self._lock:
            if self._listener is None:
                self._listener = Listener(backlog=128, authkey=self._key)
                threading.Thread(
                    target=self._accept, args=(self._listener,), name="ahvn-tools-channels", daemon=True
                ).start()
            address = ChannelAddress(self._listener.address, self._key, secrets.token_bytes(16))
            self._waiting[address.token] = serve
        return address

    def close(self, address: ChannelAddress) -> None:
        """Let no worker connect any more."""
        with self._lock:
            self._waiting.pop(address.token, None)

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
        """Serve the call that a new connection names."""
        self._connections.add(connection)
        try:
            with contextlib.suppress(EOFError, OSError):
                if connection.poll(CONNECT_SECONDS):
                    token = connection.recv_bytes(64)
                    with self._lock:
                        serve = self._waiting.pop(token, None)
                    if serve is not None:
                        serve(connection)
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
        """Use a connection. The caller closes it after the last reply, and this end then, too."""
        super().__init__(self._send)
        self._connection = connection
        self._lock = threading.Lock()
        self._is_closed = False
        threading.Thread(target=self._listen, name="ahvn-tools-channel", daemon=True).start()

    def _send(self, reply: bytes) -> None:
        with self._lock, contextlib.suppress(OSError):  # the caller has ended, which `_listen` notices
            if not self._is_closed:
                self._connection.send_bytes(reply)

    def _listen(self) -> None:
        """Take what the caller sends until it closes the connection, and close this end."""
        with contextlib.suppress(EOFError, OSError):
            while (content := self._connection.recv_bytes()) != CANCEL:
                self.answer(b"" if content == NEXT else content.removeprefix(ANSWER))
        self.cancel()
        with self._lock:
            self._is_closed = True
            self._connection.close()
