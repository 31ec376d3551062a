"""Ends the processes of a program whose supervisor cannot: without a sandbox a program can kill its supervisor."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ahvn_tools.builtins.processes.supervisor import all_processes

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
