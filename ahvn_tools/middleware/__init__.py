"""Middleware: what stands around a call. Siblings of one shape, `async (call, next) -> ToolResult`.

Each module makes one kind. A middleware may look at the call and at its result, replace either, call `next` again or
not at all; it wraps `call.emit` to see the chunks of a stream. Timeouts and masking are not middleware: they always
hold.
"""

from __future__ import annotations

from ahvn_tools.execution.call import Call, Middleware, Next, inline

__all__ = ["Call", "Middleware", "Next", "inline"]
