"""Metrics: OpenTelemetry instruments for the number, duration and outcome of calls, and how many are running."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ahvn_tools.errors import suggests_options
from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.middleware import reporting
from ahvn_tools.middleware.observe import run_observed
from ahvn_tools.results import ToolResult

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

BUCKET_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""The histogram's bucket boundaries, from the GenAI semantic conventions."""

_OUTCOMES = {None: "ok", "cancelled": "cancelled"}
"""The outcomes of error codes; that of any other code is `error`, unless the call waits."""


@suggests_options
def metrics(meter: Meter | None = None) -> Middleware:
    """Return middleware that measures calls. Without `meter` it uses the global provider's.

    - `gen_ai.execute_tool.duration`: a histogram in seconds; it includes the time of a stream's reader and an approver;
    - `ahvn_tools.calls`: a counter, with the attribute `ahvn_tools.outcome`: `ok`, `error`, `cancelled`, or `waiting`
      for an approval, an answer or its result;
    - `ahvn_tools.active_calls`: how many calls are running.

    All have the attributes `gen_ai.tool.name` and `gen_ai.tool.type`; for a failed call the first two have its code as
    `error.type`.
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

    async def measure_call(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        attributes = {"gen_ai.tool.name": call.name, "gen_ai.tool.type": "function"}

        def end(duration: float, code: str | None) -> None:
            active.add(-1, attributes)
            is_waiting = reporting.is_waiting(call, code)
            ended = attributes if code is None or is_waiting else {**attributes, "error.type": code}
            durations.record(duration, ended)
            calls.add(1, {**ended, "ahvn_tools.outcome": "waiting" if is_waiting else _OUTCOMES.get(code, "error")})

        active.add(1, attributes)
        return await run_observed(call, next, end)

    return measure_call
