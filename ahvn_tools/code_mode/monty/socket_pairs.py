"""Sockets between this process and others. A forked child process closes them, so that their ends are noticed."""

from __future__ import annotations

import os
import socket
import threading
import weakref

from ahvn_tools.after_fork import reset_after_fork

_lock = threading.RLock()
"""A fork waits until both sockets of a pair are known."""

_sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def make_socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return two sockets that are connected with each other. Raises OSError."""
    with _lock:
        pair = socket.socketpair()
        _sockets.update(pair)
    return pair


@reset_after_fork
def _close_in_child() -> None:  # pragma: no cover  # runs in child processes, which report no coverage
    for connection in list(_sockets):
        connection.close()
    _lock.release()


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release)
