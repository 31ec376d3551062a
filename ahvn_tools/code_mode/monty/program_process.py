"""ProgramProcess: a process that runs one program at a time, for the host."""

from __future__ import annotations

import contextlib
import os
import signal
import threading

from ahvn_tools.code_mode.monty.spawner import Spawner
from ahvn_tools.code_mode.monty_process.frames import read_frame, write_frame
from ahvn_tools.json_types import JsonObject


class ProgramProcess:
    """A process with an interpreter. One thread at a time sends requests; any thread may kill it."""

    def __init__(self, spawner: Spawner) -> None:
        """Start the process. Raises OSError when that is impossible."""
        self._spawner = spawner
        self._process_id, self._connection = spawner.fork()
        self._kill_lock = threading.Lock()
        self._wait_lock = threading.Lock()
        self._is_reaped = False
        self._return_code: int | None = None
        self.is_new = True
        """Whether it has not run a program yet."""

    def request(self, what: str, seconds: float, arguments: JsonObject) -> JsonObject | None:
        """Send a request, and wait for the reply. Return None when the process has ended."""
        try:
            write_frame(self._connection, {"do": what, "seconds": seconds, "arguments": arguments})
            return read_frame(self._connection)
        except OSError:
            return None

    def kill(self) -> None:
        """Kill the process and its interpreter, without waiting for their end. Any thread may do so."""
        with self._kill_lock:
            if not self._is_reaped:  # no other process has its id yet
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process_id, signal.SIGKILL)

    def kill_and_wait(self) -> None:
        """Kill the process, and wait for its end. Any thread may do so."""
        self.kill()
        with self._wait_lock:
            with self._kill_lock:
                was_reaped, self._is_reaped = self._is_reaped, True
            if not was_reaped:
                self._return_code = self._spawner.reap(self._process_id)

    def was_too_slow(self) -> bool:
        """Whether the process has ended itself at a time limit. Only after it has ended."""
        self.kill_and_wait()
        return self._return_code == -signal.SIGALRM

    def end(self) -> None:
        """Kill the process, wait for its end, and close the socket. Only for the thread that sends requests."""
        self.kill_and_wait()
        self._connection.close()

    def abandon_connection(self) -> None:
        """Leave the socket open, which a thread may still use."""
        self._connection.detach()

    def leave_to_parent(self) -> None:  # pragma: no cover  # runs in child processes, which report no coverage
        """In a forked child process: never kill the process, which belongs to the parent."""
        self._is_reaped = True
