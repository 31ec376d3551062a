"""Middleware that acts only on calls of tools that may run twice for one call, or not at all."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from ahvn_tools.execution.call import Call


class ForRepeatableCalls:
    """The choice of these tools: by name, by their annotations, or all of them."""

    kind: ClassVar[str]
    """The function that makes the middleware."""

    def __init__(self, tools: str | Collection[str], *, all_tools: bool) -> None:
        """`tools` may be a single name."""
        self.names = frozenset([tools] if isinstance(tools, str) else tools)
        self.all_tools = all_tools

    def acts_on(self, call: Call) -> bool:
        """Return whether a call may be made twice."""
        return self.all_tools or call.name in self.names or call.plan.may_repeat
