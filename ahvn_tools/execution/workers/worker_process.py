"""WorkerProcess: a process of this computer that runs bodies, one at a time; and the pools of them."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import math
import select
import signal
import subprocess
import sys
import threading
from typing import IO, cast

import psutil

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.execution.workers.frames import read_frame, write_frame
from ahvn_tools.execution.workers.pool import ProcessPool
from ahvn_tools.execution.workers.process_tree import kill_tree
from ahvn_tools.execution.workers.worker_request import get_import_options, get_sys_path

MAX_CALLS = 1000
"""A worker ends after so many calls, with what their bodies have left in it."""

REAP_SECONDS = 1.0
"""How many seconds to wait for a killed process to be gone; one that waits for a disk may take longer."""

_WORKER_PROGRAM = """
import json, sys
sys.path[:], keeps_children = json.loads(sys.argv[1])
from ahvn_tools.execution.workers import worker
worker.main(keeps_children=keeps_children)
"""
"""The program of a worker process. It does not import the user's main module, so that needs no `__main__` guard."""


class WorkerProcess:
    """A running worker process. One thread at a time exchanges frames with it; any thread may kill it."""

    def __init__(self, *, keeps_children: bool = False) -> None:
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
        self._requests.close()
        self._replies.close()

    def detach(self) -> None:  # pragma: no cover  # runs in child processes, which report no coverage
        """In a forked child process: release the process, which belongs to the parent."""
        self._process.returncode = 0  # this process cannot wait for it
        self.close()

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


process_pool = ProcessPool(WorkerProcess)
"""The workers of isolated tools and of ProcessExecutor."""

keeping_pool = ProcessPool(functools.partial(WorkerProcess, keeps_children=True), max_idle=math.inf)
"""The workers of tools that keep their children, which stay until Python ends."""


def all_pools() -> tuple[ProcessPool[WorkerProcess], ...]:
    """Return both pools."""
    return process_pool, keeping_pool


@atexit.register
def _close_pools() -> None:
    for pool in all_pools():
        pool.close()


@reset_after_fork
def _detach_pools() -> None:  # pragma: no cover  # runs in child processes, which report no coverage
    for pool in all_pools():
        pool.detach()
