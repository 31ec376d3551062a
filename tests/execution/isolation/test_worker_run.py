"""A run of a request in a worker process that is stopped."""

from __future__ import annotations

import concurrent.futures
from pathlib import Path

import pytest

from ahvn_tools.execution.isolation.slots import ProcessSlots
from ahvn_tools.execution.isolation.worker_run import WorkerRun
from ahvn_tools.executors.function_future import encode_function


def test_what_was_stopped_before_it_begins_runs_no_body(tmp_path: Path) -> None:
    path, slots = tmp_path / "ran", ProcessSlots(1)
    for _ in range(2):  # the slot is free again
        run: WorkerRun[bytes] = WorkerRun(slots, keeps_children=False)
        run.stop()
        with pytest.raises(concurrent.futures.CancelledError):
            run.run(encode_function(Path.touch, (path,), {}), lambda reply, _: reply)
    assert not path.exists()
