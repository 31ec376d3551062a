"""The worker processes of this process, and the pool that starts them, reuses them and ends them."""

from __future__ import annotations

import atexit
import contextlib
import json
import select
import signal
import subprocess
import sys
import threading
from time import monotonic
from typing import IO, cast

import psutil

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.execution.workers.frames import read_frame, write_frame
from ahvn_tools.execution.workers.process_tree import kill_tree
from ahvn_tools.execution.workers.request import get_import_options, get_sys_path

MAX_IDLE_PROCESSES = 8
"""Idle workers beyond this number end, except those of tools that keep their children."""

MAX_CALLS = 1000
"""A worker ends after so many calls, with what their bodies have left in it."""

REAP_SECONDS = 1.0
"""How many seconds to wait for a killed process to be gone; one that waits for a disk may take longer."""

IDLE_EXIT_SECONDS = 1.0
"""How many seconds an idle worker has to exit when it is no longer needed."""

_WORKER_PROGRAM = """
import json, sys
sys.path[:], keeps_children = json.loads(sys.argv[1])
from ahvn_tools.execution.workers import worker
worker.main(keeps_children=keeps_children)
"""
"""The program of a worker process. It does not import the user's main module, so that needs no `__main__` guard."""


class WorkerProcess:
    """A running worker process. One thread at a time exchanges frames with it; any thread may kill it."""

    def __init__(self, *, keeps_children: bool) -> None:
        """Start the process. Raises OSError when that is impossible."""
        self.keeps_children = keeps_children
        """Whether processes that a body has started may run on after its call."""
        self.calls = 0
        """How many calls it has completed."""
        settings = json.dumps([get_sys_path(), keeps_children])
        self._process = subprocess.Popen(  # noqa: S603  # this interpreter with a fixed program
            [sys.executable, *get_import_options(), "-c", _WORKER_PROGRAM, settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C does not reach it, and its process group can be killed
        )
        self._requests = cast("IO[bytes]", self._process.stdin)
        self._replies = cast("IO[bytes]", self._process.stdout)
        self._root = psutil.Process(self._process.pid)
        self._lock = threading.Lock()

    @property
    def process_id(self) -> int:
        """The id of the process."""
        return self._process.pid

    def send(self, content: bytes) -> bool:
        """Send a frame. Return False when the process has ended."""
        try:
            write_frame(self._requests.fileno(), content)
        except OSError:
            return False
        return True

    def wait_readable(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until there is a reply to read or the process has ended; return whether so."""
        if not hasattr(select, "poll"):  # pragma: no cover  # on Windows, reading waits without a limit
            return True
        poll = select.poll()
        poll.register(self._replies.fileno(), select.POLLIN)
        return bool(poll.poll(max(timeout, 0) * 1000))

    def receive(self) -> bytes | None:
        """Wait for the next frame and return it; None when the process has ended."""
        return read_frame(self._replies.fileno())

    def kill(self) -> None:
        """Kill the process and all processes that it started. Any thread may do so: the pipes stay open."""
        with self._lock:
            if self._process.returncode is not None:  # it has ended, and another process may have its id by now
                return
            kill_tree(self._root)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(REAP_SECONDS)

    def request_exit(self) -> None:
        """Let an idle process exit."""
        self._requests.close()

    def close(self, timeout: float = 0) -> None:
        """Wait up to `timeout` seconds for the process to exit, kill it, and close the pipes.

        Only for the thread that exchanges frames with it.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
        self.kill()
        self.close_pipes()

    def close_pipes(self) -> None:
        """Close the pipes; an idle process exits then."""
        self._requests.close()
        self._replies.close()

    def detach(self) -> None:  # pragma: no cover  # runs in child processes, which report no coverage
        """In a forked child process: release the process, which belongs to the parent."""
        self._process.returncode = 0  # this process cannot wait for it
        self.close_pipes()

    def describe_exit(self) -> str:
        """Return the exit code, the signal that ended the process, or why it was killed."""
        code = self._process.returncode
        if code is None:  # pragma: no cover  # it could not be reaped in time
            return "it was killed"
        if code >= 0:
            return f"exit code {code}"
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
        return f"signal {-code}"  # pragma: no cover  # a real-time signal


class ProcessPool:
    """Worker processes, busy and idle. `ProcessSlots` limits how many are busy.

    Tools that keep their children have workers of their own, which stay until the pool is closed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[bool, list[WorkerProcess]] = {False: [], True: []}
        self._all: set[WorkerProcess] = set()
        self._is_closed = False

    def acquire(self, *, keeps_children: bool) -> WorkerProcess:
        """Return the idle process that was used last, which may have died since, or a new one, which is still starting.

        Raises OSError when no process can be started, also because the interpreter is exiting.
        """
        with self._lock:
            if idle := self._idle[keeps_children]:
                return idle.pop()
            if self._is_closed:
                raise OSError("the interpreter is exiting")
            process = WorkerProcess(keeps_children=keeps_children)
            self._all.add(process)
            return process

    def release(self, process: WorkerProcess, *, is_reusable: bool) -> None:
        """Make a process idle. End it when it is not reusable, when it is old, or when enough are idle."""
        with self._lock:
            process.calls += 1
            idle = self._idle[process.keeps_children]
            has_room = process.keeps_children or (len(idle) < MAX_IDLE_PROCESSES and process.calls < MAX_CALLS)
            if is_reusable and has_room and not self._is_closed:
                idle.append(process)
                return
        process.close()
        with self._lock:
            self._all.discard(process)

    def end_idle(self, *, also_keeping_children: bool = True) -> None:
        """End the idle processes; the next call starts a new one."""
        with self._lock:
            idle = self._pop_idle(keeps_children=False)
            if also_keeping_children:
                idle += self._pop_idle(keeps_children=True)
        for process in idle:
            process.request_exit()
        deadline = monotonic() + IDLE_EXIT_SECONDS
        for process in idle:
            process.close(max(deadline - monotonic(), 0))
        with self._lock:
            self._all.difference_update(idle)

    def close(self) -> None:
        """End all processes for good: kill the busy ones."""
        with self._lock:
            self._is_closed = True
            busy = self._all.difference(*self._idle.values())
        for process in busy:
            process.kill()
        self.end_idle()

    def detach(self) -> None:  # pragma: no cover  # runs in child processes, which report no coverage
        """In a forked child process: close its copies of the pipes, so that workers notice when the parent ends."""
        for process in self._all:
            process.detach()

    def count(self) -> tuple[int, int]:
        """Return how many processes there are, and how many of them are idle."""
        with self._lock:
            return len(self._all), sum(map(len, self._idle.values()))

    def idle_process_ids(self) -> set[int]:
        """Return the ids of the idle processes."""
        with self._lock:
            return {process.process_id for idle in self._idle.values() for process in idle}

    def _pop_idle(self, *, keeps_children: bool) -> list[WorkerProcess]:
        idle, self._idle[keeps_children] = self._idle[keeps_children], []
        return idle


process_pool = ProcessPool()


@atexit.register
def _close_pool() -> None:
    process_pool.close()


@reset_after_fork
def _replace_pool() -> None:  # pragma: no cover  # runs in child processes, which report no coverage
    global process_pool  # noqa: PLW0603
    process_pool.detach()
    process_pool = ProcessPool()
