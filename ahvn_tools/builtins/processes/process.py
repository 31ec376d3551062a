"""Runs a program with limits; when it ends, nothing that it started is left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from ahvn_tools.builtins.processes.confinement import Confinement
from ahvn_tools.builtins.processes.limits import ProcessLimits
from ahvn_tools.builtins.processes.memory_file import as_file
from ahvn_tools.builtins.processes.output import Output
from ahvn_tools.builtins.processes.program import Program, StreamName
from ahvn_tools.builtins.processes.result import EndReason, ProcessResult
from ahvn_tools.builtins.processes.running import RunningProcess
from ahvn_tools.execution.threads import run_in_thread

__all__ = [
    "EndReason", "OnOutput", "Output", "ProcessResult", "RunningProcess", "StreamName", "arun_process", "run_process",
]  # fmt: skip

OnOutput = Callable[[StreamName, str], None]

_POLL_SECONDS = 0.05
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
