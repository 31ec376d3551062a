"""Toolkit: many tools as one collection, with labels, selections, sessions and calls.

`toolkit` (what changes it) and `toolkit_view` (what uses it) are the class; `store` is what its sessions and selections
share, with one `entry` per tool. `visibility` decides which tools they show and which state a call reads, `tool` is one
such tool. `calls`, `batch` and `resume` run calls.
"""

from __future__ import annotations

from ahvn_tools.toolkit.batch import Run
from ahvn_tools.toolkit.toolkit import Toolkit

__all__ = ["Run", "Toolkit"]
