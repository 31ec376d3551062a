"""Toolkit: many tools as one collection, with labels, selections, sessions and calls.

`toolkit` is the class; `store` is what its sessions and selections share, with one `entry` per tool. `visibility`
decides which tools they show and which state a call reads, `tool` is one such tool, and `check` finds what has no
effect. `calls`, `batch` and `resume` run calls; `run` is what they return. `converse` asks a model again and
again; `conversation` is what it returns. `background_calls` are the calls that a
session does not wait for, with their `call_status`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ahvn_tools.toolkit.toolkit import Toolkit

if TYPE_CHECKING:
    from ahvn_tools.toolkit.conversation import Conversation
    from ahvn_tools.toolkit.conversation_loop import TextDelta
    from ahvn_tools.toolkit.run import Run

__all__ = ["Conversation", "Run", "TextDelta", "Toolkit"]

_MODULES = {"Conversation": "conversation", "Run": "run", "TextDelta": "conversation_loop"}


def __getattr__(name: str) -> Any:
    """Import a class at its first use (PEP 562): they are slow, and a toolkit without runs does not need them."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
