"""WorkerProcess: the process of a Ray worker, for a caller who must kill it without Ray."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class WorkerProcess:
    """The process of a worker."""

    node_id: str
    process_id: int
    create_time: float
    """Tells it from a later process with this id."""

    @classmethod
    def current(cls) -> WorkerProcess:
        """Return this process."""
        import psutil
        import ray

        return cls(ray.get_runtime_context().get_node_id(), os.getpid(), psutil.Process().create_time())


def kill_worker(worker: WorkerProcess) -> None:
    """On the node of a worker: kill its process, and all that it started."""
    import psutil

    from ahvn_tools.execution.isolation.worker_process import kill_descendants

    try:
        process = psutil.Process(worker.process_id)
        if process.create_time() == worker.create_time:
            kill_descendants(process)
            process.kill()
    except psutil.NoSuchProcess:  # it has ended
        return
