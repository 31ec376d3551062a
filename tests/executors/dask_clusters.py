"""Dask clusters of this computer for tests, and what is left in them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from multiprocessing import resource_tracker
from typing import Any

import cloudpickle
import dask
import distributed
import psutil

from tests.execution.entry_points import until

# A killed worker starts again. After this time, 15 seconds by default, the cluster gives it up for ever.
dask.config.set({"distributed.deploy.lost-worker-timeout": "300s"})


def local_cluster(workers: int) -> Any:
    """Return a cluster of worker processes with one thread each."""
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs="CRITICAL"
    )


@contextlib.contextmanager
def no_process_is_left() -> Iterator[None]:
    """Check in the end that all processes that were started in the block have ended."""
    before = set(psutil.Process().children(recursive=True))
    yield
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]  # multiprocessing leaves this process for the next ones
    assert until(lambda: set(psutil.Process().children(recursive=True)) <= before)


def left_in_scheduler(dask_scheduler: Any) -> list[Any]:
    """Return what the scheduler has of calls."""
    plugin = dask_scheduler.plugins.get("ahvn-tools")
    return [*dask_scheduler.tasks, *dask_scheduler.task_groups, *(plugin._started if plugin else ())]


def is_clean(client: Any) -> bool:
    """Wait until nothing of the calls is left in the scheduler."""
    return until(lambda: client.run_on_scheduler(left_in_scheduler) == [])


def find_in_scheduler_messages(texts: list[bytes], dask_scheduler: Any) -> list[bool]:
    """Return for each text whether the scheduler has it in what Dask records of messages and events."""
    streams = [*dask_scheduler.client_comms.values(), *dask_scheduler.stream_comms.values()]
    logs = [list(stream.recent_message_log) for stream in streams], dask_scheduler.get_events()
    return find_texts(texts, logs)


def find_in_worker_messages(texts: list[bytes], dask_worker: Any) -> list[bool]:
    """Return for each text whether a worker has it in what Dask records of messages and events."""
    state = dask_worker.state
    return find_texts(texts, [*dask_worker.batched_stream.recent_message_log, *state.stimulus_log, *state.log])


def find_texts(texts: list[bytes], value: Any) -> list[bool]:
    """Return for each text whether a value contains it."""
    pickled = cloudpickle.dumps(value)
    return [text in pickled for text in texts]
