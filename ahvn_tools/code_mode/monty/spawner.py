"""Spawner: starts the processes of one sandbox, each in a few milliseconds."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import threading
from array import array
from typing import Final

from ahvn_tools.code_mode.monty.socket_pairs import make_socket_pair
from ahvn_tools.code_mode.monty_process.frames import FORK, NO_SIGNAL, NUMBER, REAP
from ahvn_tools.execution.workers.request import get_import_options, get_sys_path

_PROGRAM: Final = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from ahvn_tools.code_mode.monty_process.spawner import spawn
spawn()
"""
"""It does not import the user's main module, so that needs no `__main__` guard."""

_SECONDS: Final = 30.0
"""How long a request takes at most."""


class Spawner:
    """A process that forks others. It has imported Monty, which takes a tenth of a second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self) -> tuple[int, socket.socket]:
        """Start a process, and return its id and a socket that is connected with it. Raises OSError."""
        with self._lock:
            try:
                return self._fork()
            except (ConnectionError, TimeoutError):  # it was killed, or does not respond
                return self._fork()

    def reap(self, process_id: int) -> int | None:
        """Wait for a process that was killed, and return its return code; None if it is not known."""
        with self._lock:
            try:
                return self._ask(REAP + NUMBER.pack(process_id))
            except OSError:
                return None

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def leave_to_parent(self) -> None:  # pragma: no cover  # runs in child processes, which report no coverage
        """In a forked child process: forget the process, which belongs to the parent."""
        if self._process is not None:
            self._process.returncode = 0  # this process cannot wait for it
        self._lock = threading.Lock()
        self._connection = self._process = None

    def _fork(self) -> tuple[int, socket.socket]:
        if self._connection is None:
            self._start()
        connection, its_connection = make_socket_pair()
        try:
            number = self._ask(FORK, its_connection.fileno())
            if number < 0:
                raise OSError(-number, os.strerror(-number))
        except BaseException:
            connection.close()
            raise
        finally:
            its_connection.close()
        return number, connection

    def _start(self) -> None:
        self._connection, its_connection = make_socket_pair()
        try:
            self._connection.settimeout(_SECONDS)
            self._process = subprocess.Popen(  # noqa: S603  # this interpreter with a fixed program
                [sys.executable, *get_import_options(), "-c", _PROGRAM, json.dumps(get_sys_path())],
                stdin=its_connection.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C does not reach it and its children
            )
        except BaseException:
            self._connection.close()
            self._connection = None
            raise
        finally:
            its_connection.close()

    def _ask(self, request: bytes, *descriptors: int) -> int:
        """Return the reply to a request. Ends the process if there is none: it could come later, for another one."""
        reply = b""
        try:
            if self._connection is not None:
                rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))
                self._connection.sendmsg([request], [rights], NO_SIGNAL)  # `send_fds` of Python 3.11 ignores flags
                reply = self._connection.recv(NUMBER.size)
        finally:
            if len(reply) < NUMBER.size:
                self._end()
        if len(reply) < NUMBER.size:
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        number: int = NUMBER.unpack(reply)[0]
        return number

    def _end(self) -> None:
        connection, process = self._connection, self._process
        self._connection = self._process = None
        if connection is not None and process is not None:
            connection.close()
            process.kill()
            process.wait()
