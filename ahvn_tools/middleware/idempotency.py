"""Repeatable: which calls may be made again, or not at all, without a difference. Retry and cache ask it."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ahvn_tools.execution.call import Call


def idempotency_check(tools: str | Collection[str], *, all_tools: bool) -> Callable[[Call], bool]:
    """Return what tells whether a call is repeatable: by its tool's annotations, or because somebody says so.

    One text names one tool.
    """
    names = frozenset([tools] if isinstance(tools, str) else tools)

    def is_repeatable(call: Call) -> bool:
        return all_tools or call.name in names or call.has_hint("readOnlyHint", "idempotentHint")

    return is_repeatable
