"""One worker process, for the process that started it; and how a process is killed with all that it started."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
from typing import IO, cast

import psutil

from ahvn_tools.execution.isolation import protocol

REAP_SECONDS = 1.0
"""How many seconds to wait for a killed process to be gone; one that waits for a disk may take longer."""

_MAX_ROUNDS = 10
"""How often to look for new children: a fork bomb may start them faster than they are suspended."""


class WorkerProcess:
    """A running worker process. One thread at a time exchanges frames with it; any thread may kill it."""

    def __init__(self, *, keeps_children: bool) -> None:
        """Start the process. Raises OSError when that is impossible."""
        self.keeps_children = keeps_children
        """Whether processes that a body has started may run on after its call."""
        settings = json.dumps([protocol.get_sys_path(), keeps_children])
        self._process = subprocess.Popen(  # noqa: S603  # this interpreter with a fixed program
            [sys.executable, *protocol.get_import_options(), "-c", protocol.WORKER_PROGRAM, settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C does not reach it, and its process group can be killed
        )
        self._requests = cast("IO[bytes]", self._process.stdin)
        self._replies = cast("IO[bytes]", self._process.stdout)
        self._root = psutil.Process(self._process.pid)
        self._lock = threading.Lock()
        self._has_sent_foreign_frame = False
        self.is_new = True
        """Whether it has not completed a call yet."""

    def wait_readable(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until there is a reply to read or the process has ended; return whether so."""
        if not hasattr(select, "poll"):  # pragma: no cover  # on Windows, reading waits without a limit
            return True
        poll = select.poll()
        poll.register(self._replies.fileno(), select.POLLIN)
        return bool(poll.poll(max(timeout, 0) * 1000))

    @property
    def process_id(self) -> int:
        """The id of the process."""
        return self._process.pid

    def send(self, call_id: bytes, content: bytes) -> bool:
        """Send a frame of a call. Return False when the process has ended."""
        try:
            protocol.write_frames(self._requests.fileno(), call_id, content)
        except OSError:
            return False
        return True

    def receive(self, call_id: bytes) -> bytes | None:
        """Wait for the next frame of a call and return its content.

        Return None when the process has ended, or has sent anything else: a body may have written to the pipe.
        """
        try:
            frame = protocol.read_frame(self._replies.fileno(), call_id)
        except protocol.ForeignFrameError:
            self._has_sent_foreign_frame = True
            return None
        return None if frame is None else frame.content

    def kill(self) -> None:
        """Kill the process and all processes that it started. Any thread may do so: the pipes stay open."""
        with self._lock:
            if self._process.returncode is not None:  # it has ended, and another process may have its id by now
                return
            kill_tree(self._root)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(REAP_SECONDS)

    def kill_and_close(self) -> None:
        """Kill the process and close the pipes. Only for the thread that exchanges frames with it."""
        self.kill()
        self._close_pipes()

    def request_exit(self) -> None:
        """Let an idle process exit."""
        self._requests.close()

    def wait_and_close(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for the process to exit, then kill it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
        self.kill_and_close()

    def detach(self) -> None:  # pragma: no cover  # runs in child processes, which report no coverage
        """In a forked child process: release the process, which belongs to the parent."""
        self._process.returncode = 0  # this process cannot wait for it
        self._close_pipes()

    def describe_exit(self) -> str:
        """Return the exit code, the signal that ended the process, or why it was killed."""
        if self._has_sent_foreign_frame:
            return "killed, as it sent data that is not part of the call"
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


def kill_tree(root: psutil.Process) -> None:
    """Kill a process that leads a process group, and all processes that it started.

    On Linux a worker adopts the orphans among its descendants, so that none escapes by `setsid` or a double fork. On
    other platforms a double fork with `setsid` escapes. On all platforms, a process that left the group escapes when
    the root process has already died.
    """
    with contextlib.suppress(psutil.Error):
        root.suspend()  # a suspended process starts no new ones
    kill_descendants(root)
    with contextlib.suppress(psutil.Error, OSError):
        if root.is_running() and hasattr(os, "killpg"):  # also true of a zombie, whose id is not reused yet
            os.killpg(root.pid, signal.SIGKILL)
        else:  # pragma: no cover  # it was reaped elsewhere, or this is Windows
            root.kill()


def kill_own_tree() -> None:  # pragma: no cover  # a killed process reports no coverage
    """Kill this process, which leads a process group, and all processes that it started."""
    with contextlib.suppress(Exception):
        kill_descendants()
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def kill_descendants(root: psutil.Process | None = None) -> None:
    """Suspend all processes that `root`, by default this process, started, until there are no new ones; kill them."""
    root = root or psutil.Process()
    descendants: set[psutil.Process] = set()
    for _ in range(_MAX_ROUNDS):
        with contextlib.suppress(psutil.Error):
            fresh = set(root.children(recursive=True)) - descendants
            if not fresh:
                break
            descendants |= fresh
            for child in fresh:
                with contextlib.suppress(psutil.Error):
                    child.suspend()
    for child in descendants:
        with contextlib.suppress(psutil.Error):
            child.kill()
