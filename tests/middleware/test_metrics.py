"""Metrics: calls are counted by tool and outcome, timed, and counted while they run."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from ahvn_tools import ToolContext, ToolError, Toolkit
from ahvn_tools.middleware.metrics import BUCKET_SECONDS, metrics

DURATION, CALLS, ACTIVE = "gen_ai.execute_tool.duration", "ahvn_tools.calls", "ahvn_tools.active_calls"


class Meters:
    """A toolkit that is measured, and what was measured."""

    def __init__(self, *tools: Any) -> None:
        self._reader = InMemoryMetricReader()
        self._provider = MeterProvider([self._reader])
        self.kit = Toolkit("k", middleware=[metrics(self._provider.get_meter("tests"))])
        for tool in tools:
            self.kit.add(tool)

    def points(self, name: str) -> dict[tuple[str, ...], Any]:
        """Return the points of a metric by tool, outcome and error, without the type of tool."""
        data = self._reader.get_metrics_data()
        resources = data.resource_metrics if data else []
        found = [m for r in resources for s in r.scope_metrics for m in s.metrics if m.name == name]
        made = {}
        for metric in found:
            for point in metric.data.data_points:
                assert point.attributes["gen_ai.tool.type"] == "function"
                keys = ("gen_ai.tool.name", "ahvn_tools.outcome", "error.type")
                made[tuple(point.attributes[key] for key in keys if key in point.attributes)] = point
        return made

    def calls(self) -> dict[tuple[str, ...], int]:
        return {key: point.value for key, point in self.points(CALLS).items()}

    def active(self) -> dict[tuple[str, ...], int]:
        return {key: point.value for key, point in self.points(ACTIVE).items()}

    def close(self) -> None:
        self._provider.shutdown()


@pytest.fixture
def measured():
    made: list[Meters] = []

    def make(*tools: Any) -> Meters:
        made.append(Meters(*tools))
        return made[-1]

    yield make
    for meters in made:
        meters.close()


def add(a: int, b: int = 1) -> int:
    return a + b


def fail() -> None:
    raise ToolError("no")


async def hang() -> None:
    await asyncio.sleep(30)


def test_calls_are_counted_by_tool_and_outcome(measured):
    meters = measured(add, fail)
    for arguments in [{"a": 1}, {"a": 2}, {"a": "x"}]:
        meters.kit.exec("add", arguments)
    meters.kit.exec("fail")
    assert meters.calls() == {
        ("add", "ok"): 2,
        ("add", "error", "invalid_parameters"): 1,
        ("fail", "error", "tool_error"): 1,
    }


async def test_durations_are_in_seconds_in_the_buckets_of_the_conventions(measured):
    async def nap() -> None:
        await asyncio.sleep(0.05)

    meters = measured(nap)
    await meters.kit.aexec("nap")
    point = meters.points(DURATION)[("nap",)]
    assert point.count == 1
    assert 0.04 < point.sum < 5
    assert tuple(point.explicit_bounds) == BUCKET_SECONDS


async def test_running_calls_are_counted_while_they_run_and_not_after_they_are_cancelled(measured):
    meters = measured(hang)
    tasks = [asyncio.create_task(meters.kit.aexec("hang")) for _ in range(3)]
    await asyncio.sleep(0.01)
    assert meters.active() == {("hang",): 3}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert meters.active() == {("hang",): 0}
    assert meters.calls() == {("hang", "cancelled", "cancelled"): 3}


async def test_a_task_that_is_cancelled_before_it_starts_counts_nothing(measured):
    meters = measured(hang)
    task = asyncio.create_task(meters.kit.aexec("hang"))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not meters.active()
    assert not meters.calls()


def test_calls_of_many_threads_are_all_counted(measured):
    meters = measured(add)

    def work() -> None:
        for _ in range(50):
            meters.kit.exec("add", {"a": 1})

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meters.calls() == {("add", "ok"): 200}
    assert meters.active() == {("add",): 0}


def test_without_a_meter_the_global_provider_is_used():
    kit = Toolkit("k", middleware=[metrics()]).add(add)
    assert kit.call("add", {"a": 1}) == 2


def test_a_call_that_waits_is_no_error(measured):
    meters = measured()
    meters.kit.add(lambda: "paid", name="pay", description="Pay.", requires_approval=True)
    meters.kit.add(lambda: "seen", name="look", description="Look.", external=True)

    @meters.kit.tool
    def delete(context: ToolContext) -> str:
        """Delete."""
        context.ask("delete it")
        return "deleted"

    request = meters.kit.exec("pay").meta["approval"]
    meters.kit.exec("look")
    meters.kit.exec("delete")
    assert meters.calls() == {("pay", "waiting"): 1, ("look", "waiting"): 1, ("delete", "waiting"): 1}
    meters.kit.resume(request, approved=True)
    assert meters.calls()["pay", "ok"] == 1
    assert {key: point.count for key, point in meters.points(DURATION).items()} == {
        ("pay",): 2,
        ("look",): 1,
        ("delete",): 1,
    }
