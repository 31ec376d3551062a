"""Middleware wraps a call: `async (call, next) -> ToolResult`. Each function in `__all__` makes one kind.

Middleware may read the call and its result, replace either, call `next` again or not at all, and wrap `call.emit` to
see the chunks of a stream. Timeouts and the masking of bound values are not middleware: they always apply.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ahvn_tools.execution.call import Call, Middleware, Next

if TYPE_CHECKING:
    from ahvn_tools.middleware.cache import cache
    from ahvn_tools.middleware.keep_large import keep_large
    from ahvn_tools.middleware.limit import limit
    from ahvn_tools.middleware.log import log
    from ahvn_tools.middleware.metrics import metrics
    from ahvn_tools.middleware.observe import observe
    from ahvn_tools.middleware.record import record, replay
    from ahvn_tools.middleware.retry import retry
    from ahvn_tools.middleware.trace import trace
    from ahvn_tools.middleware.truncate import truncate
    from ahvn_tools.middleware.watch import watch

__all__ = [
    "Call", "Middleware", "Next", "cache", "keep_large", "limit", "log", "metrics", "observe", "record",
    "replay", "retry", "trace", "truncate", "watch",
]  # fmt: skip

_FUNCTIONS = {name: name for name in __all__ if name.islower()} | {"replay": "record"}
"""The module of each function that makes a middleware."""


def __getattr__(name: str) -> Any:
    """Import a function at its first use (PEP 562): some modules need an extra."""
    if name not in _FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_FUNCTIONS[name]}"), name)


class _Package(ModuleType):
    """This package: a function and its module have one name, which is that of the function here."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute. Python sets a module that it has imported; its function takes the place."""
        is_module = name in _FUNCTIONS and isinstance(value, ModuleType)
        super().__setattr__(name, getattr(value, name) if is_module else value)


sys.modules[__name__].__class__ = _Package
