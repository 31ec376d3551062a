"""One tool object for LLM agents: define it once, bind session context, run it anywhere, show it to any model."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ahvn_tools.context import ToolContext
    from ahvn_tools.definition import ToolDefinition
    from ahvn_tools.errors import ToolCallError, ToolError, ToolSpecError
    from ahvn_tools.redaction import Secret
    from ahvn_tools.registry import ToolRegistry, reg_toolspec, tool
    from ahvn_tools.results import ToolCall, ToolResult
    from ahvn_tools.spec import ToolSpec
    from ahvn_tools.toolkit import Toolkit
    from ahvn_tools.toolkit.serve import aserve, serve

__version__ = "0.1.0"

__all__ = [
    "Secret",
    "ToolCall",
    "ToolCallError",
    "ToolContext",
    "ToolDefinition",
    "ToolError",
    "ToolRegistry",
    "ToolResult",
    "ToolSpec",
    "ToolSpecError",
    "Toolkit",
    "aserve",
    "reg_toolspec",
    "serve",
    "tool",
]

_PUBLIC_MODULES = {
    "Secret": "redaction",
    "ToolCall": "results",
    "ToolCallError": "errors",
    "ToolContext": "context",
    "ToolDefinition": "definition",
    "ToolError": "errors",
    "ToolRegistry": "registry",
    "ToolResult": "results",
    "ToolSpec": "spec",
    "ToolSpecError": "errors",
    "Toolkit": "toolkit",
    "aserve": "toolkit.serve",
    "reg_toolspec": "registry",
    "serve": "toolkit.serve",
    "tool": "registry",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562)."""
    if name not in _PUBLIC_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_PUBLIC_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
