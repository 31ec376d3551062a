"""The Dask task of one call: it runs the body in the worker, or in a killable process of the worker's computer."""

from __future__ import annotations

import concurrent.futures
import sys
from dataclasses import dataclass, field
from typing import Final

from distributed import get_worker

from ahvn_tools.execution.executors.task import run_here
from ahvn_tools.execution.isolation.body_call import WorkerLostError
from ahvn_tools.execution.isolation.relay import run_killable
from ahvn_tools.execution.isolation.slots import ProcessSlots
from ahvn_tools.executors.dask.running_tasks import TaskLink, call_scheduler, find_running_tasks
from ahvn_tools.executors.dask.scheduler_calls import LOST_WORKER, START_OPERATION

MAX_MESSAGE_BYTES: Final = 1_000_000
"""A larger request or result travels as Dask's data, a smaller one in a message."""

_slots = ProcessSlots(sys.maxsize)
"""Dask limits how many tasks run at once."""


@dataclass(frozen=True, kw_only=True)
class DaskTask:
    """One call, as it is sent to a worker. Its repr shows no value: Dask writes arguments into messages."""

    request: bytes = field(repr=False)
    """A pickled CallRequest."""
    key: str
    """The key of the task."""
    is_connected: bool
    """Whether the caller gets what the body sends while it runs."""
    starts_once: bool
    """Whether the body must not start again when its worker was lost."""
    seconds: float | None
    """How many seconds the body may take."""
    is_killable: bool
    """Whether it runs in a process that can be killed."""


@dataclass(frozen=True, kw_only=True)
class TaskResult:
    """What a task returns. It raises nothing, because Dask would log the arguments."""

    reply: bytes | None = field(default=None, repr=False)
    """The reply that ends the call; None if it was sent in a message."""
    lost: str = ""
    """What happened to the worker, if there is no such reply."""


def run_task(task: DaskTask) -> TaskResult:
    """Run the body of a call."""
    worker = get_worker()
    try:
        running = find_running_tasks(worker)
        if task.starts_once and not call_scheduler(worker, START_OPERATION, key=task.key):
            return TaskResult(lost=f"ended ({LOST_WORKER}) before it returned a result")
    except Exception as error:  # noqa: BLE001  # Dask raises many types when the scheduler is gone
        return TaskResult(lost=f"cannot reach the scheduler of Dask ({type(error).__name__})")
    link = TaskLink(worker, task.key, is_connected=task.is_connected)
    with running.added(worker, task.key, link):
        try:
            if task.is_killable:
                reply = run_killable(task.request, link, _slots, task.seconds)
            else:
                reply = run_here(task.request, link, task.seconds)
        except WorkerLostError as error:
            return TaskResult(lost=str(error))
        except (Exception, concurrent.futures.CancelledError) as error:  # noqa: BLE001  # see TaskResult
            return TaskResult(lost=f"was ended ({type(error).__name__}) before it returned a result")
        if len(reply) > MAX_MESSAGE_BYTES:
            return TaskResult(reply=reply)
        link.send_last(reply)
        return TaskResult()
