"""Idempotency: which calls have the same effect if made twice, or from a cache not at all. Used by retry and cache."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ahvn_tools.execution.call import Call


def idempotency_check(tools: str | Collection[str], *, all_tools: bool) -> Callable[[Call], bool]:
    """Return a test for calls that may be made twice: by name (`tools` may be a single one) or by annotations."""
    names = frozenset([tools] if isinstance(tools, str) else tools)

    def is_repeatable(call: Call) -> bool:
        return all_tools or call.name in names or call.has_hint("readOnlyHint", "idempotentHint")

    return is_repeatable
