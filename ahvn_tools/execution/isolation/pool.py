"""Processes: the worker processes of this process: started, reused, ended with all that they have started."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
from time import monotonic
from typing import IO, Any, cast

import psutil

from ahvn_tools.execution.isolation import process_tree, protocol

MAX_IDLE_PROCESSES = 8
"""Idle workers beyond this number end."""

REAP_SECONDS = 1.0
"""How many seconds to wait for a killed process to be gone; one that waits for a disk may take longer."""


class ReplyUnpicklingError(Exception):
    """A value was pickled in a worker and cannot be made again here; its argument is the kind of what that raised."""


class WorkerProcess:
    """One worker process, as the process sees it that has started it. One thread at a time talks to it."""

    def __init__(self) -> None:
        """Start it. Raises OSError where that is impossible."""
        self._process = subprocess.Popen(  # noqa: S603  # this interpreter and a program of ours
            [sys.executable, "-P", "-c", protocol.WORKER_PROGRAM, json.dumps(protocol.get_sys_path())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for us alone, and its group can be killed
        )
        self._requests = cast("IO[bytes]", self._process.stdin)
        self._replies = cast("IO[bytes]", self._process.stdout)
        self._root = psutil.Process(self._process.pid)
        self._lock = threading.Lock()
        self._is_killed = False

    def wait_readable(self, timeout: float) -> bool:
        """Wait until it tells something or ends, for at most `limit` seconds; tell whether it does."""
        if not hasattr(select, "poll"):  # pragma: no cover  # Windows: it is waited for without a limit
            return True
        poll = select.poll()
        poll.register(self._replies.fileno(), select.POLLIN)
        return bool(poll.poll(max(timeout, 0) * 1000))

    def send_request(self, frame: bytes) -> bool:
        """Hand it a call; tell whether it has taken it. One that has ended has not."""
        return self.send(frame) and self.receive() == ("taken",)

    def send(self, frame: bytes) -> bool:
        """Send a frame and tell whether that went well."""
        try:
            protocol.write_frame(self._requests.fileno(), frame)
        except OSError:
            return False
        return True

    def receive(self) -> tuple[Any, ...] | None:
        """Wait for what it tells; None when it has ended. Raises UnreadableError for what cannot be made again here."""
        frame = protocol.read_frame(self._replies.fileno())
        if frame is None:
            return None
        try:
            told: tuple[Any, ...] = pickle.loads(frame)  # noqa: S301  # from a process of ours
        except Exception as error:  # a foreign __setstate__ may raise anything
            raise ReplyUnpicklingError(type(error).__name__) from error
        return told

    def kill(self) -> None:
        """Kill it with all that it has started. Any thread may do so; it does not close what another one reads."""
        with self._lock:
            if self._is_killed:
                return
            self._is_killed = True
            if self._process.returncode is None:  # else its id may be another's by now
                process_tree.kill_tree(self._root)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(REAP_SECONDS)

    def kill_and_close(self) -> None:
        """Kill it and close what leads to it. Only for the thread that has it."""
        self.kill()
        self._close_pipes()

    def request_exit(self) -> None:
        """Tell an idle one that nobody needs it any more: it ends by itself."""
        self._requests.close()

    def wait_and_close(self, timeout: float) -> None:
        """Wait until it has ended, for at most `limit` seconds; then end it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
        self.kill_and_close()

    def detach_after_fork(self) -> None:  # pragma: no cover  # runs in forked children, which report to nobody
        """In a forked child: let go of what is the parent's."""
        self._process.returncode = 0  # not ours to wait for
        self._close_pipes()

    def describe_exit(self) -> str:
        """Say how a killed or dead one has ended."""
        code = self._process.returncode
        if code is None:  # pragma: no cover  # it could not be reaped in time
            return "it was killed"
        if code >= 0:
            return f"exit code {code}"
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
        return f"signal {-code}"  # pragma: no cover  # a real-time signal

    def _close_pipes(self) -> None:
        self._requests.close()
        self._replies.close()


class ProcessPool:
    """The worker processes of this process. There is no upper limit: whoever wants one counts calls, not workers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._is_closed = False

    def take_idle(self) -> WorkerProcess | None:
        """Return an idle one, the last used; None where there is none. It may have died since."""
        with self._lock:
            return self._idle.pop() if self._idle else None

    def start(self) -> WorkerProcess:
        """Return a new one, which is still starting. Raises OSError, also when the interpreter is ending."""
        self._raise_if_closed()
        slot = WorkerProcess()
        with self._lock:
            self._all.add(slot)
        try:
            self._raise_if_closed()
        except OSError:  # pragma: no cover  # it was closed between the two looks
            self.discard(slot)
            raise
        return slot

    def _raise_if_closed(self) -> None:
        with self._lock:
            if self._is_closed:
                raise OSError("the interpreter is ending")

    def release(self, process: WorkerProcess) -> None:
        """Keep one that has done its work, or end it where enough are idle."""
        with self._lock:
            is_kept = len(self._idle) < MAX_IDLE_PROCESSES and not self._is_closed
            if is_kept:
                self._idle.append(process)
        if not is_kept:
            self.discard(process)

    def discard(self, process: WorkerProcess) -> None:
        """End one."""
        process.kill_and_close()
        with self._lock:
            self._all.discard(process)

    def end_idle(self) -> None:
        """Let the idle ones end, and wait for them a little."""
        with self._lock:
            idle, self._idle = self._idle, []
        for slot in idle:
            slot.request_exit()
        until = monotonic() + protocol.IDLE_EXIT_SECONDS
        for slot in idle:
            slot.wait_and_close(max(until - monotonic(), 0))
            with self._lock:
                self._all.discard(slot)

    def close(self) -> None:
        """End all of them for good: the busy ones are killed."""
        with self._lock:
            self._is_closed = True
            busy = self._all.difference(self._idle)
        for slot in busy:
            slot.kill()
        self.end_idle()

    def detach_after_fork(self) -> None:  # pragma: no cover  # runs in forked children, which report to nobody
        """In a forked child: let go of what is the parent's, so that its end is heard."""
        for slot in list(self._all):
            slot.detach_after_fork()

    def count(self) -> tuple[int, int]:
        """Return how many there are, and how many of them are idle."""
        with self._lock:
            return len(self._all), len(self._idle)


process_pool = ProcessPool()


def end_idle() -> None:
    """End the idle worker processes of this process; the next call starts a fresh one."""
    process_pool.end_idle()


def _close_at_exit() -> None:
    process_pool.close()


def _reset_after_fork() -> None:  # pragma: no cover  # runs in forked children, which report to nobody
    global process_pool  # noqa: PLW0603  # a forked child starts workers of its own
    process_pool.detach_after_fork()
    process_pool = ProcessPool()


atexit.register(_close_at_exit)
if hasattr(os, "register_at_fork"):  # pragma: no branch  # not on Windows
    os.register_at_fork(after_in_child=_reset_after_fork)
