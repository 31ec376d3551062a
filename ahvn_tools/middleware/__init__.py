"""Middleware wraps a call: `async (call, next) -> ToolResult`. Each module here makes one kind.

Middleware may read the call and its result, replace either, call `next` again or not at all, and wrap `call.emit` to
see the chunks of a stream. Timeouts and the masking of bound values are not middleware: they always apply.
"""

from __future__ import annotations

from ahvn_tools.execution.call import Call, Middleware, Next, inline

__all__ = ["Call", "Middleware", "Next", "inline"]
