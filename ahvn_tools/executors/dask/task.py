"""The Dask task of one call: it runs the body in the worker, or in a killable process of the worker's computer."""

from __future__ import annotations

import concurrent.futures
import sys
from dataclasses import dataclass, field

from distributed import Worker, get_worker

from ahvn_tools.execution.executors.task import run_here
from ahvn_tools.execution.isolation.body_call import WorkerLostError
from ahvn_tools.execution.isolation.relay import run_killable
from ahvn_tools.execution.isolation.slots import ProcessSlots
from ahvn_tools.executors.dask.running_tasks import TaskLink, call_scheduler, find_running_tasks

_slots = ProcessSlots(sys.maxsize)
"""Dask limits how many tasks run at once."""


@dataclass(frozen=True, kw_only=True)
class DaskTask:
    """One call, as it is sent to a worker. Its repr shows no value: Dask writes arguments into messages."""

    request: bytes = field(repr=False)
    """A pickled CallRequest."""
    key: str
    """The key of the task."""
    claim: str | None
    """The queue that has one item until the body starts; None: the body may run again when its worker was lost."""
    replies: str | None
    """The queue for what the body sends while it runs; None: nothing."""
    seconds: float | None
    """How many seconds the body may take."""
    is_killable: bool
    """Whether it runs in a process that can be killed."""


@dataclass(frozen=True, kw_only=True)
class TaskResult:
    """What a task returns. It raises nothing, because Dask would log the arguments."""

    reply: bytes | None = field(default=None, repr=False)
    """The reply that ends the call; None if there is none."""
    lost: str = ""
    """What happened to the worker, if there is no reply."""
    sent: int = 0
    """How many replies were sent before."""


def run_task(task: DaskTask) -> TaskResult:
    """Run the body of a call."""
    worker = get_worker()
    try:
        running = find_running_tasks(worker)
        if task.claim is not None and not _take_claim(worker, task.claim):
            return TaskResult(lost="ended (its Dask worker was lost) before it returned a result")
    except Exception as error:  # noqa: BLE001  # Dask raises many types when the scheduler is gone
        return TaskResult(lost=f"cannot reach the scheduler of Dask ({type(error).__name__})")
    link = TaskLink(worker, task.key, task.replies)
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
        return TaskResult(reply=reply, sent=link.sent)


def _take_claim(worker: Worker, claim: str) -> bool:
    """Take the one item of a queue, and return whether it was there."""
    return bool(call_scheduler(worker, "queue_get", name=claim, batch=True))
