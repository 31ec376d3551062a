"""Programs that call tools: typed stubs for a model, and a sandbox that runs what the model writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ahvn_tools.code_mode.code_limits import CodeLimits
from ahvn_tools.code_mode.sandbox import Sandbox, SandboxSession

if TYPE_CHECKING:
    from ahvn_tools.code_mode.monty import MontySandbox

__all__ = ["CodeLimits", "MontySandbox", "Sandbox", "SandboxSession"]


def __getattr__(name: str) -> Any:
    """Import MontySandbox when it is used: its package may be missing."""
    if name == "MontySandbox":
        from ahvn_tools.code_mode import monty

        return monty.MontySandbox
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
