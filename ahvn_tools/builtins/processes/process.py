"""Runs programs with limits; when one ends, nothing that it started is left."""

from __future__ import annotations

import importlib.util
import os
import select
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Literal

from ahvn_tools.builtins.processes.confinement import Confinement, ProcessLimits
from ahvn_tools.builtins.processes.private_folder import as_file, clean_environment
from ahvn_tools.builtins.processes.program import Program, StreamName
from ahvn_tools.builtins.processes.result import EndReason, ProcessOutput, ProcessResult
from ahvn_tools.errors import ToolError
from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.roots import without_dots

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


__all__ = [
    "EndReason", "OnOutput", "ProcessOutput", "ProcessResult", "RunningProcess", "StreamName", "arun_process",
    "run_process",
]  # fmt: skip

OnOutput = Callable[[StreamName, str], None]

_REPORT_SECONDS = 0.25
_REPORT_BYTES = 16_000
"""How much of each stream `on_output` gets at most in one call."""


def run_process(
    command: Sequence[str],
    *,
    folder: Path,
    confinement: Confinement,
    limits: ProcessLimits,
    environment: Mapping[str, str] | None = None,
    stdin: bytes | IO[bytes] = b"",
    on_output: OnOutput | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> ProcessResult:
    """Run a program to its end in this thread, and return what it wrote. Blocks; polls `is_cancelled` every 50 ms.

    When it returns or raises, the process and everything that it started are gone. `environment` is all that the
    process gets; None: `clean_environment()`. `on_output` is called in this thread with what was written since its last
    call, about four times a second, and at most 16 kB of it. It must return soon: while it runs, no limit of time
    applies, and no cancellation. Raises ToolError if the program cannot be started.
    """
    with as_file(stdin) as file:
        program = Program(
            command, folder=folder, confinement=confinement, limits=limits, environment=environment, stdin=file,
            news_bytes=_REPORT_BYTES if on_output else 0,
        )  # fmt: skip
    reports = _Reports(program, on_output)

    def wake() -> None:
        if is_cancelled():
            program.request_end("cancelled")
        reports.send_if_due()

    result = program.run(wake, seconds=_POLL_SECONDS)
    program.check_sandbox(result)
    reports.send(is_last=True)
    return result


async def arun_process(
    command: Sequence[str],
    *,
    folder: Path,
    confinement: Confinement,
    limits: ProcessLimits,
    environment: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    on_output: OnOutput | None = None,
) -> ProcessResult:
    """Run a program from async code, as `run_process` does. If the task is cancelled, the program is ended.

    `on_output` is called in a worker thread. It must return soon: while it runs, no limit of time applies, and a
    cancellation does not end the program.
    """
    cancelled = threading.Event()
    outcome = await run_in_thread(
        lambda _: run_process(
            command, folder=folder, confinement=confinement, limits=limits, environment=environment, stdin=stdin,
            on_output=on_output, is_cancelled=cancelled.is_set,
        ),
        stop=cancelled.set,
    )  # fmt: skip
    result: ProcessResult = outcome.get()
    return result


class _Reports:
    """Calls `on_output` from time to time."""

    def __init__(self, program: Program, on_output: OnOutput | None) -> None:
        self._program = program
        self._on_output = on_output
        self._due = time.monotonic() + _REPORT_SECONDS

    def send_if_due(self) -> None:
        if time.monotonic() >= self._due:
            self.send()
            self._due = time.monotonic() + _REPORT_SECONDS

    def send(self, *, is_last: bool = False) -> None:
        if self._on_output is not None:
            for name, stream in self._program.streams.items():
                if text := stream.take_news(is_last=is_last):
                    self._on_output(name, text)


def run_isolated_python(
    arguments: Sequence[str],
    *,
    folder: Path,
    modules: Iterable[str],
    timeout: float,
    memory_bytes: int,
    sandbox: Literal["bubblewrap", "none"],
    stdin: bytes | IO[bytes],
    is_cancelled: Callable[[], bool],
) -> ProcessResult:
    """Run Python with these arguments and, after them, the folders from which the modules are imported.

    It sees the standard library, `folder` and those folders. `sandbox` is what `choose_sandbox` returned for the
    folders of a model.
    """
    folders = sorted({str(without_dots(found)) for module in modules if (found := module_folder(module))})
    # The interpreter itself and not a link in a virtual environment, which may lie in the folder of the model.
    python = os.path.realpath(sys.executable)
    return run_process(
        [python, "-I", "-S", "-B", "-W", "ignore", *arguments, *folders],
        folder=folder,
        confinement=Confinement(readable=(Path(sys.base_prefix), folder, *map(Path, folders)), sandbox=sandbox),
        limits=ProcessLimits(timeout=timeout, memory_bytes=memory_bytes, kept_bytes=100_000_000, spooled_bytes=0),
        environment=clean_environment(),
        stdin=stdin,
        is_cancelled=is_cancelled,
    )


def module_folder(module: str) -> Path | None:
    """Return the folder from which a module is imported; None if it is not installed. Imports nothing."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin).parent.parent if spec and spec.origin else None
