"""Measure rows in rounds: the first round of all packages, the second of all, so that noise hits all alike."""

from __future__ import annotations

from collections.abc import Mapping

from tests.benchmarks.peers.packages import OURS
from tests.benchmarks.peers.results import Costs, Facts
from tests.benchmarks.peers.rows import Row
from tests.benchmarks.peers.worker_process import WorkerProcess

CHUNK = 0.05
"""Seconds that the runs for one cost should take."""
MOST_RUNS = 50_000

Workers = Mapping[str, WorkerProcess]


async def facts(name: str, worker: WorkerProcess) -> Facts:
    """Ask a package for its version, and probe what it does."""
    answer = await worker.ask(package=name)
    if "error" in answer:
        raise RuntimeError(f"{name} cannot be probed:\n{answer['error']}")
    return Facts(version=answer["version"], export_form=answer["export_form"], features=answer["features"])


async def measure(row: Row, workers: Workers, rounds: int) -> Costs:
    """Measure one row of all packages."""
    costs, numbers = Costs(), {}
    for name, worker in workers.items():
        number = await _number(row, name, worker, costs)
        if number is not None:
            numbers[name] = number
    for index in range(len(costs.by_package.get(OURS, ())), min(rounds, row.rounds or rounds)):
        for name in list(numbers)[:: -1 if index % 2 else 1]:
            answer = await workers[name].ask(row=row.name, number=numbers[name])
            if "error" in answer:
                del numbers[name]
                _fail(name, answer["error"], costs)
            else:
                costs.by_package.setdefault(name, []).append(answer["cost"])
    return costs


async def _number(row: Row, name: str, worker: WorkerProcess, costs: Costs) -> int | None:
    """Find how many runs fill a chunk, which warms up, too; None if the package cannot be measured."""
    number = row.number or 1
    for _ in range(3):
        answer = await worker.ask(row=row.name, number=number)
        if "not_offered" in answer:
            costs.missing[name] = answer["not_offered"]
            return None
        if "error" in answer:
            _fail(name, answer["error"], costs)
            return None
        if row.unit == "bytes":  # memory does not warm up, so this is the first round
            costs.by_package[name] = [answer["cost"]]
        if row.number or answer["cost"] >= CHUNK:
            break
        number = max(1, min(MOST_RUNS, round(CHUNK / answer["cost"])))
    return number


def _fail(name: str, error: str, costs: Costs) -> None:
    """Keep the error of a package, which then has no costs in this row. Without ours there is nothing to compare."""
    costs.failed[name] = error
    costs.by_package.pop(name, None)
    if name == OURS:
        raise RuntimeError(f"{OURS} cannot be measured:\n{error}")
