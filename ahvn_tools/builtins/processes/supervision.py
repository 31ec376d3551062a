"""Supervision: starts a program below a supervisor, and ends what is left of it."""

from __future__ import annotations

import logging
import marshal
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

from ahvn_tools.builtins.processes.confinement import ProcessLimits
from ahvn_tools.builtins.processes.result import EndReason
from ahvn_tools.builtins.processes.supervisor import all_processes, descendants

MARK = "AHVN_TOOLS_PROCESS"
"""The environment variable that tells the processes of one program from others. A program can remove it."""
_SECONDS = 5.0


def end_survivors(known: Sequence[int], mark: str) -> None:
    """Kill the known processes, and those with the mark until none of them is left or 5 s have passed."""
    for process in known:
        _kill(process)
    deadline = time.monotonic() + _SECONDS
    while (found := _marked_processes(mark)) and time.monotonic() < deadline:
        for process in found:
            _kill(process)
        time.sleep(0.005)  # until they are gone


def _marked_processes(mark: str) -> list[int]:
    return [process for process, _ in all_processes() if _has_mark(process, mark)]


def _has_mark(process: int, mark: str) -> bool:
    try:
        variables = Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return False  # it has ended, or is of another user
    return f"{MARK}={mark}".encode() in variables.split(b"\0")


def _kill(process: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # it has ended, or is of another user
        os.kill(process, signal.SIGKILL)


_log = logging.getLogger(__name__)

_START_SECONDS = 60.0
"""How long a supervisor may take to start on a busy machine."""
_GRACE_SECONDS = 0.5
"""When a supervisor is asked to end a program that should have ended already."""
_NUDGE_SECONDS = 0.25
"""How often a supervisor is continued that does not answer, because the program may have stopped it."""
_LATE_SECONDS = 2.0
"""When a supervisor is killed that does not react: without a sandbox a program can stop it."""
_SWEEP_SECONDS = 8.0
"""When a supervisor is killed that does not finish. It gives up earlier by itself."""
_SUPERVISOR = "import sys; sys.path.append(sys.argv[1]); import supervisor; supervisor.main(*map(int, sys.argv[2:]))"
"""Imported as a module, so that Python compiles it once."""


class Supervision:
    """Starts a program below a new supervisor, and learns from it how the program ends.

    Only the Python process that made it ends the program: in a forked copy of it `request_end` does nothing.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: str,
        environment: Mapping[str, str],
        limits: ProcessLimits,
        stdin: int | IO[bytes],
        descriptors: Sequence[int],
        new_privileges: bool,
    ) -> None:
        """Start it. The program inherits `descriptors`. Raises OSError if the program cannot be started."""
        self.reason: EndReason | None = None
        """Why the program ended; None until nothing of it is left."""
        self.exit_code: int | None = None
        self.has_left_processes = False
        """Whether others that the program had started were running when it had ended by itself."""
        self._mark = secrets.token_hex(16)
        self._owner = os.getpid()
        self._requested: EndReason | None = None
        self._is_ending = False
        self._unread = b""
        self._process, self.control = _start_supervisor(stdin, descriptors)
        try:
            request = {
                "command": [*command], "folder": folder, "limits": limits.for_kernel(), "timeout": limits.timeout,
                "environment": {**environment, MARK: self._mark}, "new_privileges": new_privileges,
                "descriptors": [*descriptors],
            }  # fmt: skip
            self._send_request(request)
            self._await_start(limits.timeout)
        except BaseException:
            self.abandon()
            self.close()
            raise
        self._expected = time.monotonic() + limits.timeout
        """When the supervisor must have said something."""

    @property
    def stdout(self) -> IO[bytes]:
        """The stream that the program writes."""
        return cast("IO[bytes]", self._process.stdout)

    @property
    def stderr(self) -> IO[bytes]:
        """The other stream that the program writes."""
        return cast("IO[bytes]", self._process.stderr)

    @property
    def is_own(self) -> bool:
        """Whether this Python process started the program, and not the one of which it is a forked copy."""
        return os.getpid() == self._owner

    def request_end(self, reason: EndReason) -> None:
        """Ask the supervisor to end everything. Safe to call twice and from any thread."""
        if not self.is_own or self.reason is not None or self._requested is not None:
            return
        self._requested = reason
        self._expected = min(self._expected, time.monotonic())
        try:
            self._process.send_signal(signal.SIGCONT)  # the program may have stopped it
            self.control.send(b"end", socket.MSG_DONTWAIT)
        except OSError:
            pass  # it has just ended: `read_answers` finds out

    def read_answers(self) -> None:
        """Read what the supervisor says. Call it when `control` is readable."""
        try:
            data = self.control.recv(4096)
        except OSError:
            data = b""  # it has ended
        if not data:
            self.abandon()
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._read_answer(*line.decode().split())

    def end_if_late(self) -> None:
        """End a program whose supervisor does not answer in time."""
        late = time.monotonic() - self._expected
        if late > _GRACE_SECONDS and self._requested is None and not self._is_ending:
            self.request_end("timeout")
        elif late > (_SWEEP_SECONDS if self._is_ending else _LATE_SECONDS):
            self.abandon()

    def abandon(self) -> None:
        """Kill the supervisor and what can be found of the program."""
        if self.reason is None:
            below = descendants(self._process.pid) if self._process.poll() is None else []
            self._process.kill()
            end_survivors(below, self._mark)
            self.reason = self._requested or "stopped"

    def close(self) -> None:
        """Wait for the supervisor, which ends after its last answer, and close what connects to it."""
        for stream in (self.control, self.stdout, self.stderr):
            stream.close()
        self._process.wait()

    def _send_request(self, request: dict[str, object]) -> None:
        data = marshal.dumps(request)
        self.control.settimeout(_START_SECONDS)
        self.control.sendall(len(data).to_bytes(4, "big") + data)

    def _await_start(self, timeout: float) -> None:
        """Wait until the program runs, or raise OSError. A program that kills its supervisor at once has run, too."""
        try:
            self._read_line(_START_SECONDS)  # nothing hostile runs until here
            word, number = self._read_start(timeout).split()
        except EOFError:
            self._raise_supervisor_error()
            return
        if word == "failed":
            raise OSError(int(number), os.strerror(int(number)))
        self.control.setblocking(False)

    def _read_start(self, timeout: float) -> str:
        """Return whether the program runs. It may stop its supervisor before the supervisor can say so."""
        latest = time.monotonic() + timeout + _LATE_SECONDS
        while True:
            try:
                return self._read_line(_NUDGE_SECONDS)
            except TimeoutError:
                self._process.send_signal(signal.SIGCONT)
                if time.monotonic() > latest:
                    self._requested = "timeout"
                    self._process.kill()

    def _read_line(self, seconds: float) -> str:
        """Return the next answer. Raises TimeoutError, and EOFError if the supervisor has ended."""
        self.control.settimeout(seconds)
        while b"\n" not in self._unread:
            data = self.control.recv(1)  # no more than the line
            if not data:
                raise EOFError
            self._unread += data
        line, self._unread = self._unread, b""
        return line.decode()

    def _raise_supervisor_error(self) -> None:
        """Raise OSError, unless the program has killed its supervisor, which is the end of both."""
        is_killed = self._process.wait() < 0
        self.abandon()
        if not is_killed:
            os.set_blocking(self.stderr.fileno(), False)
            text = (self.stderr.read() or b"").decode(errors="replace").strip()
            raise OSError(f"The supervisor did not start: {text[-1000:]}")

    def _read_answer(
        self, word: str, reason: str = "", status: str = "0", survivors: str = "0", left: str = "0"
    ) -> None:
        if word == "ending":
            self._is_ending = True
            self._expected = time.monotonic()
            return
        if survivors != "0":
            _log.warning("%s processes of a program could not be killed.", survivors)
        self.has_left_processes = left == "1"
        self.exit_code = os.waitstatus_to_exitcode(int(status)) if reason == "exit" else None
        self.reason = (self._requested or "stopped") if reason == "stopped" else cast("EndReason", reason)


def _start_supervisor(
    stdin: int | IO[bytes], descriptors: Sequence[int]
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a supervisor that has the streams of the program, and return it with the connection to it."""
    control, its_control = socket.socketpair()
    arguments = [str(Path(__file__).parent), str(its_control.fileno()), str(os.getpid())]
    try:
        with its_control:
            process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-I", "-S", "-c", _SUPERVISOR, *arguments],
                stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, cwd="/",
                pass_fds=[its_control.fileno(), *descriptors], env=_supervisor_environment(),
            )  # fmt: skip
    except BaseException:
        control.close()
        raise
    return process, control


def _supervisor_environment() -> dict[str, str]:
    """Return what some builds of Python need to start."""
    return {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
