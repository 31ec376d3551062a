"""Toolkit: many tools as one collection, with labels, selections, sessions and calls.

`toolkit` (what changes it) and `toolkit_view` (what uses it) are the class; `store` is what its sessions and selections
share, with one `entry` per tool. `visibility` decides which tools they show and which state a call reads, `tool` is one
such tool, and `check` finds what has no effect. `calls`, `batch` and `resume` run calls; `run` is what they return.
`background_calls` are the calls that a session does not wait for, with their `call_status`.
"""

from __future__ import annotations

from ahvn_tools.toolkit.run import Run
from ahvn_tools.toolkit.toolkit import Toolkit

__all__ = ["Run", "Toolkit"]
