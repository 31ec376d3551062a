"""Programs that call tools: typed stubs for a model, and a sandbox that runs what the model writes."""

from __future__ import annotations

from ahvn_tools.code_mode.limits import CodeLimits
from ahvn_tools.code_mode.sandbox import Sandbox, SandboxSession

__all__ = ["CodeLimits", "Sandbox", "SandboxSession"]
