"""Middleware around unreliable tools: a log, retries, a cache, a quota, a short result, and one of our own."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

from ahvn_tools import ToolError, Toolkit, ToolResult
from ahvn_tools.middleware import Call, Next, cache, limit, log, retry, truncate

lines: list[str] = []
runs: list[str] = []
READ_ONLY = {"readOnlyHint": True, "idempotentHint": True}


async def stopwatch(call: Call, next: Next) -> ToolResult:
    """Measure what the model waits for."""
    start, result = perf_counter(), await next(call)
    return replace(result, meta={**result.meta, "waited": perf_counter() - start})


layers = [stopwatch, log(lines.append), truncate(max_chars=200), cache(ttl=60), retry(initial_delay=0.01)]
kit = Toolkit("weather", middleware=layers, state={"token": "token-4711"}).bind("token", secret=True)


@kit.tool(annotations=READ_ONLY)
def forecast(city: str, token: str) -> str:
    """Ask a service that fails at first."""
    runs.append(city)
    if runs.count(city) < 3:
        raise ConnectionError(f"{token} was refused")
    return f"{city}: sun"


@kit.tool(annotations=READ_ONLY)
def report(city: str) -> str:
    """Return too much text."""
    return f"{city} " * 1_000


@kit.tool(middleware=[limit(per_minute=2)])
def pay(amount: int) -> int:
    """Pay; nothing repeats it."""
    runs.append("pay")
    raise ToolError("The bank is closed.")


assert kit.call("forecast", {"city": "Oslo"}) == kit.call("forecast", {"city": "Oslo"}) == "Oslo: sun"
assert runs == ["Oslo"] * 3
assert len(kit.exec("report", {"city": "Rome"}).content[0].text) < 300
errors = [kit.exec("pay", {"amount": 1}).error for _ in range(3)]
assert [error and error.code for error in errors] == ["tool_error", "tool_error", "limit_exceeded"], errors
assert runs.count("pay") == 2
assert kit.exec("report", {"city": "Bonn"}).meta["waited"] > 0
assert len(lines) == 7, lines
assert "token-4711" not in str(lines)
