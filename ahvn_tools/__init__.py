"""One tool object for LLM agents: define a tool once, bind what models must not see, call and export it anywhere."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ahvn_tools.binding import WorkerResolver
    from ahvn_tools.context import ToolContext
    from ahvn_tools.definition import ToolDefinition
    from ahvn_tools.encoders import register_encoder
    from ahvn_tools.error_detail import ArgumentProblem, ErrorDetail
    from ahvn_tools.errors import RequestUsedError, ToolCallError, ToolError, ToolSpecError
    from ahvn_tools.manifest.loader import aload, load
    from ahvn_tools.mcp.trust.changes import Changes
    from ahvn_tools.mcp.trust.limits import Budgets, Limits
    from ahvn_tools.middleware import Call, Middleware, Next
    from ahvn_tools.middleware.inbox import ApprovalAnswer, Inbox, InboxItem
    from ahvn_tools.middleware.pending import ApprovalRequest, ExternalCall
    from ahvn_tools.redaction.names import Secret
    from ahvn_tools.registry import ToolRegistry, reg_toolspec
    from ahvn_tools.results import ToolCall, ToolResult
    from ahvn_tools.settings import ToolOptions
    from ahvn_tools.signed_pickle import dumps, loads
    from ahvn_tools.sources.openapi.options import OpenAPIOptions
    from ahvn_tools.spec import ToolSpec
    from ahvn_tools.tool_decorator import tool
    from ahvn_tools.toolkit import Conversation, Run, TextDelta, Toolkit
    from ahvn_tools.toolkit.approval_rules import ApprovalRules
    from ahvn_tools.toolkit.entry_options import AddOptions
    from ahvn_tools.toolkit.serve import aserve, serve


__version__: str

__all__ = [
    "AddOptions", "ApprovalAnswer", "ApprovalRequest", "ApprovalRules", "ArgumentProblem", "Budgets", "Call", "Changes",
    "Conversation", "ErrorDetail", "ExternalCall", "Inbox", "InboxItem", "Limits", "Middleware", "Next",
    "OpenAPIOptions", "RequestUsedError", "Run", "Secret", "TextDelta", "ToolCall", "ToolCallError", "ToolContext",
    "ToolDefinition", "ToolError", "ToolOptions", "ToolRegistry", "ToolResult", "ToolSpec", "ToolSpecError", "Toolkit",
    "WorkerResolver", "aload", "aserve", "dumps", "load", "loads", "reg_toolspec", "register_encoder", "serve", "tool",
]  # fmt: skip

_PUBLIC_NAMES = {
    "binding": ["WorkerResolver"],
    "context": ["ToolContext"],
    "definition": ["ToolDefinition"],
    "encoders": ["register_encoder"],
    "error_detail": ["ArgumentProblem", "ErrorDetail"],
    "errors": ["RequestUsedError", "ToolCallError", "ToolError", "ToolSpecError"],
    "manifest.loader": ["aload", "load"],
    "mcp.trust.changes": ["Changes"],
    "mcp.trust.limits": ["Budgets", "Limits"],
    "middleware": ["Call", "Middleware", "Next"],
    "middleware.inbox": ["ApprovalAnswer", "Inbox", "InboxItem"],
    "middleware.pending": ["ApprovalRequest", "ExternalCall"],
    "redaction.names": ["Secret"],
    "registry": ["ToolRegistry", "reg_toolspec"],
    "results": ["ToolCall", "ToolResult"],
    "settings": ["ToolOptions"],
    "signed_pickle": ["dumps", "loads"],
    "sources.openapi.options": ["OpenAPIOptions"],
    "spec": ["ToolSpec"],
    "tool_decorator": ["tool"],
    "toolkit": ["Conversation", "Run", "TextDelta", "Toolkit"],
    "toolkit.approval_rules": ["ApprovalRules"],
    "toolkit.entry_options": ["AddOptions"],
    "toolkit.serve": ["aserve", "serve"],
    "version": ["__version__"],
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use (PEP 562)."""
    for module, names in _PUBLIC_NAMES.items():
        if name in names:
            value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
            return value
    if name.endswith("Error") and hasattr(importlib.import_module(f"{__name__}.errors"), name):
        # `from … import …` replaces an AttributeError by an error without its text
        raise ImportError(f"cannot import name {name!r} from {__name__!r}: from {__name__}.errors import {name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
