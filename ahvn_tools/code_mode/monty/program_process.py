"""The processes of one sandbox: one that forks others, in a few milliseconds, and those in which programs run."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Final

from ahvn_tools.code_mode.monty_process import FORK, NUMBER, REAP
from ahvn_tools.execution.workers.frames import read_frame, write_frame
from ahvn_tools.execution.workers.worker_request import get_import_options, get_sys_path
from ahvn_tools.json_types import JsonObject

_PROGRAM: Final = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from ahvn_tools.code_mode.monty_process.main import spawn
spawn()
"""
"""It does not import the user's main module, so that needs no `__main__` guard."""

_SECONDS: Final = 30.0
"""How long a request to the spawner takes at most."""


class Spawner:
    """A process that forks others. It has imported Monty, which takes a tenth of a second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self) -> tuple[int, int]:
        """Start a process, and return its id and the descriptor of a socket to it. Raises OSError."""
        with self._lock:
            try:
                return self._fork()
            except (ConnectionError, TimeoutError):  # it was killed, or does not respond
                return self._fork()

    def reap(self, process_id: int) -> int | None:
        """Wait for a process that was killed, and return its return code; None if it is not known."""
        with self._lock, suppress(OSError):
            return self._ask(REAP + NUMBER.pack(process_id))
        return None

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def detach(self) -> None:  # pragma: no cover  # runs in child processes, which report no coverage
        """In a forked child process: forget the process, which belongs to the parent."""
        if self._process is not None and self._connection is not None:
            self._process.returncode = 0  # this process cannot wait for it
            self._connection.close()

    def _fork(self) -> tuple[int, int]:
        if self._connection is None:
            self._start()
        connection, its_connection = socket.socketpair()
        with its_connection:
            try:
                number = self._ask(FORK, its_connection.fileno())
                if number < 0:
                    raise OSError(-number, os.strerror(-number))
            except BaseException:
                connection.close()
                raise
        return number, connection.detach()

    def _start(self) -> None:
        connection, its_connection = socket.socketpair()
        with its_connection:
            try:
                self._process = subprocess.Popen(  # noqa: S603  # this interpreter with a fixed program
                    [sys.executable, *get_import_options(), "-c", _PROGRAM, json.dumps(get_sys_path())],
                    stdin=its_connection.fileno(),
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C does not reach it and its children
                )
            except BaseException:
                connection.close()
                raise
        connection.settimeout(_SECONDS)
        self._connection = connection

    def _ask(self, request: bytes, *descriptors: int) -> int:
        """Return the reply to a request. Ends the process if there is none: it could come later, for another one."""
        reply = b""
        try:
            if self._connection is not None:
                socket.send_fds(self._connection, [request], descriptors)
                reply = self._connection.recv(NUMBER.size)
        finally:
            if len(reply) < NUMBER.size:
                self._end()
        if len(reply) < NUMBER.size:
            raise ConnectionResetError("the process that starts others has ended")
        number: int = NUMBER.unpack(reply)[0]
        return number

    def _end(self) -> None:
        connection, process = self._connection, self._process
        self._connection = self._process = None
        if connection is not None and process is not None:
            connection.close()
            process.kill()
            process.wait()


class ProgramProcess:
    """A process with an interpreter. One thread at a time sends requests; any thread may kill it."""

    def __init__(self, spawner: Spawner) -> None:
        """Start the process. Raises OSError when that is impossible."""
        self._spawner = spawner
        self._process_id, self._connection = spawner.fork()
        self._lock = threading.Lock()
        self._is_reaped = False
        self._return_code: int | None = None
        self.is_new = True
        """Whether it has not run a program yet."""

    def request(self, what: str, seconds: float, arguments: JsonObject) -> JsonObject | None:
        """Send a request, and wait for the reply. Return None when the process has ended."""
        try:
            request = {"do": what, "seconds": seconds, "arguments": arguments}
            write_frame(self._connection, json.dumps(request).encode())
            content = read_frame(self._connection)
        except OSError:
            return None
        reply: JsonObject | None = None if content is None else json.loads(content)
        return reply

    def request_exit(self) -> None:
        """Kill the process and its interpreter, without waiting for their end. Any thread may do so."""
        if self._lock.acquire(blocking=False):  # else another thread kills it
            try:
                self._kill()
            finally:
                self._lock.release()

    def kill(self) -> None:
        """Kill the process, and wait for its end. Any thread may do so."""
        with self._lock:
            if not self._is_reaped:
                self._kill()
                self._return_code = self._spawner.reap(self._process_id)
                self._is_reaped = True

    def was_too_slow(self) -> bool:
        """Whether the process has ended itself at a time limit. Only after it has ended."""
        self.kill()
        return self._return_code == -signal.SIGALRM

    def close(self, timeout: float = 0) -> None:
        """Kill the process, wait for its end, and close the socket. Only for the thread that sends requests."""
        del timeout  # it keeps nothing that it could lose
        self.kill()
        os.close(self._connection)

    def detach(self) -> None:  # pragma: no cover  # runs in child processes, which report no coverage
        """In a forked child process: never kill the process, which belongs to the parent."""
        self._is_reaped = True
        os.close(self._connection)

    def _kill(self) -> None:
        if not self._is_reaped:  # no other process has its id yet
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process_id, signal.SIGKILL)
