"""The cost of a call, compared with pydantic's validation, FastMCP's run, and a call without bindings."""

from __future__ import annotations

import statistics
import time
from typing import Any

from fastmcp.tools import Tool
from pydantic import TypeAdapter, validate_call

from ahvn_tools import ToolSpec
from tests.benchmarks.measure import Timing, awaited, plain, side_by_side
from tests.benchmarks.rows import Row, at_most, faster
from tests.benchmarks.subjects import add, add_for, add_later


def bound_spec() -> ToolSpec:
    """Make a spec with two visible parameters and two that are filled from dotted keys."""
    spec = ToolSpec.from_function(add_for, binds={"tenant": "session.tenant", "user": "session.user"})
    spec.state = {"session": {"tenant": "north", "user": "ann"}}
    return spec


def sync_call() -> Row:
    """A sync call and pydantic's own decorator around the same function."""
    timing = side_by_side(
        plain("call(left=1, right=2)", call=ToolSpec.from_function(add).call),
        plain("call(left=1, right=2)", call=validate_call(add)),
        number=5_000,
    )
    return at_most(0.7, "sync call, two arguments, validated", "pydantic.validate_call", timing)


def bound_call() -> Row:
    """A sync call with two bound dotted keys and one without."""
    timing = side_by_side(
        plain("call(left=1, right=2)", call=bound_spec().call),
        plain("call(left=1, right=2)", call=ToolSpec.from_function(add).call),
        number=5_000,
    )
    return at_most(2.5, "… with two bound dotted keys", "the unbound call", timing)


def async_call() -> Row:
    """An async call, compared with awaiting the result of pydantic's validator for the same function."""
    adapter: TypeAdapter[Any] = TypeAdapter(add_later)  # type: ignore[arg-type]  # pydantic takes functions, too
    timing = side_by_side(
        awaited("await acall(left=1, right=2)", acall=ToolSpec.from_function(add_later).acall),
        awaited("await validate({'left': 1, 'right': 2})", validate=adapter.validator.validate_python),
        number=5_000,
    )
    return at_most(1.6, "acall of an async function", "awaiting pydantic's validator", timing)


def full_result() -> Row:
    """An async execution to a full result, here and in FastMCP."""
    timing = side_by_side(
        awaited("await aexec(left=1, right=2)", aexec=ToolSpec.from_function(add_later).aexec),
        awaited("await run({'left': 1, 'right': 2})", run=Tool.from_function(add_later).run),
        number=300,
    )
    return faster(8, "aexec to a full ToolResult: how much faster", "fastmcp Tool.run", timing)


def changed_state(pairs: int = 30_000) -> Row:
    """The call after a change of a bound value and the call before it."""
    spec = bound_spec()
    before, after = [], []
    for number in range(pairs):
        before.append(_one_call(spec))
        spec.state["session"]["user"] = f"user {number}"
        after.append(_one_call(spec))
    ours, baseline = statistics.median(after) / 1e9, statistics.median(before) / 1e9
    timing = Timing(ours=ours, baseline=baseline, ratio=ours / baseline)
    return at_most(1.1, "the call after a changed state value", "the call before", timing)


def _one_call(spec: ToolSpec) -> int:
    start = time.perf_counter_ns()
    spec.call(left=1, right=2)
    return time.perf_counter_ns() - start
