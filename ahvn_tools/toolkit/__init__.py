"""Toolkit: many tools as one collection, with labels, selections, sessions and calls.

`toolkit` is the class; `store` is what its sessions and selections share, with one `entry` per tool. `visibility`
decides which tools they show and which state a call reads, `tool` is one such tool, and `check` finds what has no
effect. `calls`, `batch` and `resume` run calls; `run` is what they return. `background_calls` are the calls that a
session does not wait for, with their `call_status`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ahvn_tools.toolkit.toolkit import Toolkit

if TYPE_CHECKING:
    from ahvn_tools.toolkit.run import Run

__all__ = ["Run", "Toolkit"]


def __getattr__(name: str) -> Any:
    """Import `Run` at its first use (PEP 562): it is slow, and a toolkit without runs does not need it."""
    if name != "Run":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ahvn_tools.toolkit.run import Run

    return Run
