"""RunningProcess: a process that runs while others work."""

from __future__ import annotations

import os
import select
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from ahvn_tools.builtins.processes.confinement import Confinement
from ahvn_tools.builtins.processes.limits import ProcessLimits
from ahvn_tools.builtins.processes.program import Program
from ahvn_tools.builtins.processes.result import ProcessResult
from ahvn_tools.errors import ToolError

_POLL_SECONDS = 0.05
_WATCH_SECONDS = 0.5
"""How often a supervisor is watched that says nothing."""
_PIPE_BYTES = 65_536


class RunningProcess:
    """A process that runs while others work: background jobs and interpreter sessions.

    It ends when `stop` is called, when this object is not referenced any more, at its timeout, and with this Python
    process. All methods are safe to call from any thread.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        confinement: Confinement,
        limits: ProcessLimits,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it. Raises ToolError if the program cannot be started."""
        its_stdin, stdin = os.pipe()
        self._stdin = os.fdopen(stdin, "wb", buffering=0)
        try:
            self._program = Program(
                command, folder=folder, confinement=confinement, limits=limits, environment=environment,
                stdin=its_stdin, news_bytes=limits.kept_bytes,
            )  # fmt: skip
        except BaseException:
            self._stdin.close()
            raise
        finally:
            os.close(its_stdin)
        os.set_blocking(stdin, False)
        self._writing = threading.Lock()
        weakref.finalize(self, _release, self._program, self._stdin)
        self._reader = threading.Thread(target=_read, args=(self._program,), name="process reader", daemon=True)
        self._reader.start()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._program.is_own and self._program.result is None

    def write(self, data: bytes, *, is_cancelled: Callable[[], bool] = lambda: False) -> int:
        """Write to its stdin, wait until all of it is accepted or `is_cancelled`, and return how many bytes were.

        Raises ToolError if it has ended or its stdin is closed.
        """
        rest = memoryview(data)
        with self._writing:
            while rest and not is_cancelled():
                if not self.is_running:
                    raise ToolError("The process has ended, so nothing can be written to it.")
                if self._stdin.closed:
                    raise ToolError("The input of the process was ended before, so nothing can be written to it.")
                select.select([], [self._stdin], [], _POLL_SECONDS)
                rest = rest[self._write_some(rest) :]
        return len(data) - len(rest)

    def end_input(self) -> None:
        """Close its stdin, so that it reads the end of the file after what was written."""
        with self._writing:
            self._stdin.close()

    def _write_some(self, data: memoryview) -> int:
        try:
            return self._stdin.write(data[:_PIPE_BYTES]) or 0
        except BrokenPipeError:
            raise ToolError("The process does not read its input any more.") from None

    def read_new(self) -> tuple[str, str]:
        """Return what it wrote to stdout and stderr since the last call; head and tail of more than `kept_bytes`."""
        program = self._program
        with program.changed:
            is_last = program.result is not None
            stdout, stderr = (stream.take_news(is_last=is_last) for stream in program.streams.values())
            return stdout, stderr

    @property
    def unread_bytes(self) -> int:
        """How many bytes it wrote since the last call of `read_new`."""
        return sum(stream.news_size for stream in self._program.streams.values())

    def wait_for_output(
        self, timeout: float, *, more_than: int = 0, is_cancelled: Callable[[], bool] = lambda: False
    ) -> bool:
        """Wait until there are more unread bytes than that, at most `timeout` seconds, and return whether there are.

        Also returns when the process has ended, and when `is_cancelled`.
        """
        self._wait_until(lambda: self.unread_bytes > more_than, timeout, is_cancelled)
        return self.unread_bytes > more_than

    def wait(self, timeout: float, *, is_cancelled: Callable[[], bool] = lambda: False) -> ProcessResult | None:
        """Return how it ended; None if it still runs after `timeout` seconds, or when `is_cancelled`."""
        self._wait_until(lambda: False, timeout, is_cancelled)
        return self._result()

    def stop(self) -> ProcessResult:
        """Kill it and everything that it started, and return how it ended."""
        self._program.request_end("stopped")
        if self._program.is_own:
            self._reader.join()
        result = self._result()
        if result is None:
            raise ToolError("The process belongs to the Python process that started it.")
        return result

    def _wait_until(self, is_enough: Callable[[], bool], timeout: float, is_cancelled: Callable[[], bool]) -> None:
        """Wait until the process has ended, or for one of the three."""
        deadline = time.monotonic() + timeout
        with self._program.changed:
            while self.is_running and not is_enough() and not is_cancelled():
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                self._program.changed.wait(min(left, _POLL_SECONDS))

    def _result(self) -> ProcessResult | None:
        """Return how it ended, if it has; the input is not needed any more then."""
        if self._program.result is not None:
            self._reader.join()
            with self._writing:
                self._stdin.close()
        return self._program.result


def _release(program: Program, stdin: IO[bytes]) -> None:
    program.request_end("stopped")
    stdin.close()


def _read(program: Program) -> None:
    """Read what the program writes. The thread must not refer to the RunningProcess, which could never be released."""
    program.run(lambda: None, seconds=_WATCH_SECONDS)
