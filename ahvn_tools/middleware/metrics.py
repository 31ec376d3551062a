"""Metrics: how many calls, how long they took, how they ended and how many are running, for OpenTelemetry."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from ahvn_tools.execution.call import Call, Middleware, Next, inline
from ahvn_tools.middleware import redaction
from ahvn_tools.results import ToolResult

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

BUCKET_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""The bounds of the histogram, as the GenAI semantic conventions set them."""


def metrics(meter: Meter | None = None) -> Middleware:
    """Return the middleware that measures calls. Without a meter, the global provider's is used.

    - `gen_ai.execute_tool.duration`: a histogram in seconds. In a stream, the time of its reader counts;
    - `ahvn_tools.calls`: a counter, with the attribute `ahvn_tools.outcome`: `ok`, `error` or `cancelled`;
    - `ahvn_tools.active_calls`: how many are running.

    All carry `gen_ai.tool.name`; those about the end carry the code of a call that failed as `error.type`.
    """
    from opentelemetry.metrics import get_meter

    instruments = get_meter("ahvn_tools") if meter is None else meter
    durations = instruments.create_histogram(
        "gen_ai.execute_tool.duration",
        unit="s",
        description="Duration of a tool call.",
        explicit_bucket_boundaries_advisory=BUCKET_SECONDS,
    )
    calls = instruments.create_counter("ahvn_tools.calls", unit="{call}", description="Tool calls that have ended.")
    active = instruments.create_up_down_counter(
        "ahvn_tools.active_calls", unit="{call}", description="Tool calls that are running."
    )

    @inline
    async def measured(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        tool = {"gen_ai.tool.name": call.name, "gen_ai.tool.type": "function"}
        failure: str | None = None
        started = perf_counter()
        active.add(1, tool)
        try:
            result = await next(call)
            failure = redaction.error_code(result)
            return result
        except BaseException as error:
            failure = redaction.exception_code(error)
            raise
        finally:
            active.add(-1, tool)
            ended = tool if failure is None else {**tool, "error.type": failure}
            durations.record(perf_counter() - started, ended)
            calls.add(1, {**ended, "ahvn_tools.outcome": _outcome(failure)})

    return measured


def _outcome(failure: str | None) -> str:
    if failure is None:
        return "ok"
    return "cancelled" if failure == "cancelled" else "error"
