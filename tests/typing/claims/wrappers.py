"""Middleware: the protocol, the ones that come with the package, and those that a user writes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, assert_type

from ahvn_tools import ToolDefinition, Toolkit, ToolResult
from ahvn_tools.middleware import Call, Middleware, Next
from ahvn_tools.middleware.cache import cache
from ahvn_tools.middleware.limit import limit
from ahvn_tools.middleware.log import log
from ahvn_tools.middleware.metrics import metrics
from ahvn_tools.middleware.record import record, replay
from ahvn_tools.middleware.retry import retry
from ahvn_tools.middleware.trace import trace
from ahvn_tools.middleware.truncate import truncate


async def counted(call: Call, next: Next) -> ToolResult:
    """A marked middleware is still a function."""
    assert_type(call.id, str)
    assert_type(call.arguments, dict[str, Any])
    assert_type(call.session_id, str | None)
    assert_type(call.definition, ToolDefinition)
    assert_type(call.secrets, frozenset[str])
    assert_type(call.has_hint("readOnlyHint", "idempotentHint"), bool)
    result = await next(replace(call, arguments={**call.arguments, "limit": 1}))
    assert_type(result, ToolResult)
    if call.emit is not None:
        assert_type(await call.emit(result), None)
    return replace(result, meta={**result.meta, "count": 1})


class Counter:
    """An object with `__call__` is a middleware, too."""

    async def __call__(self, call: Call, next: Next, /) -> ToolResult:
        """Pass."""
        return await next(call)


def loud(call: Call, result: ToolResult) -> ToolResult | None:
    """A postprocess function may be sync, and may leave a result unchanged."""
    return replace(result, value=f"{result.value}!") if call.name == "shout" else None


async def loud_later(call: Call, result: ToolResult) -> ToolResult:
    """It may be async."""
    return loud(call, result) or result


def shout(word: str) -> str:
    """Return a word in capitals."""
    return word.upper()


stack: list[Middleware] = [
    log("calls", max_chars=100),
    trace(content=True),
    metrics(),
    truncate(max_chars=1_000, head_ratio=0.5),
    limit(per_minute=60, wait=2.5),
    cache(ttl=60),
    retry(attempts=2, initial_delay=0.1, max_delay=1, max_elapsed=5),
    record("calls.jsonl"),
    replay("calls.jsonl", allow_changed=True),
    counted,
    Counter(),
]
kit = Toolkit("words", middleware=stack)
undo = kit.use(counted)
assert_type(undo(), None)
kit.add(shout, middleware=[counted], postprocess=loud)
kit.add(shout, rename="shout_later", postprocess=loud_later)
