"""Spawner: starts the processes of one sandbox, each in a few milliseconds."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from typing import Final

from ahvn_tools.code_mode.monty_process.frames import FORK, NUMBER, REAP
from ahvn_tools.execution.isolation.protocol import get_sys_path

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

    def fork(self, requests: int, replies: int) -> int:
        """Start a process that reads requests and writes replies, and return its id. Raises OSError."""
        with self._lock:
            if self._connection is None:
                self._start()
            try:
                number = self._ask(FORK, requests, replies)
            except OSError:  # it was killed
                self._end()
                self._start()
                number = self._ask(FORK, requests, replies)
            if number < 0:
                raise OSError(-number, os.strerror(-number))
            return number

    def reap(self, process_id: int) -> int | None:
        """Wait for a process that was killed, and return its return code; None if it is not known."""
        with self._lock:
            try:
                return self._ask(REAP + NUMBER.pack(process_id))
            except OSError:
                self._end()
                return None

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def leave_to_parent(self) -> None:  # pragma: no cover  # runs in child processes, which report no coverage
        """In a forked child process: release the process, which belongs to the parent."""
        if self._process is not None and self._connection is not None:
            self._process.returncode = 0  # this process cannot wait for it
            self._connection.close()
        self._lock = threading.Lock()
        self._connection = self._process = None

    def _start(self) -> None:
        self._connection, its_connection = socket.socketpair()
        try:
            self._connection.settimeout(_SECONDS)
            self._process = subprocess.Popen(  # noqa: S603  # this interpreter with a fixed program
                [sys.executable, "-P", "-c", _PROGRAM, json.dumps(get_sys_path())],
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
        if self._connection is None:
            raise ConnectionError
        socket.send_fds(self._connection, [request], list(descriptors))
        reply = self._connection.recv(NUMBER.size)
        if len(reply) < NUMBER.size:
            raise ConnectionError
        number: int = NUMBER.unpack(reply)[0]
        return number

    def _end(self) -> None:
        connection, process = self._connection, self._process
        self._connection = self._process = None
        if connection is not None and process is not None:
            connection.close()
            process.kill()
            process.wait()
