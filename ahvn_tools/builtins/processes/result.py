"""ProcessResult: how a process ended, and what it wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ahvn_tools.builtins.processes.output import Output

EndReason = Literal["exit", "timeout", "cancelled", "stopped"]


@dataclass(frozen=True, kw_only=True)
class ProcessResult:
    """How a process ended, and what it wrote."""

    exit_code: int | None
    """None if it was killed because of its timeout, a cancellation or `stop`; negative: the signal that ended it. In a
    sandbox an exit code above 128 counts as a signal, as a shell reports it."""
    ended_by: EndReason
    """`stopped`: by `RunningProcess.stop`, or because the process killed its supervisor."""
    stdout: Output
    stderr: Output
    duration: float
    """Seconds."""
    has_left_processes: bool = False
    """Whether others that it had started were still running when it had ended by itself: they were ended with it."""
