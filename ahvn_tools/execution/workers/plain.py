"""PlainCall: a call in any `concurrent.futures.Executor`, which can only run a function and return its result."""

from __future__ import annotations

import concurrent.futures
import uuid
from concurrent.futures import Executor
from typing import Final

from ahvn_tools.execution.workers import replies
from ahvn_tools.execution.workers.body_run import run_request
from ahvn_tools.execution.workers.call_executor import CallExecutor, CallObserver, CallTask, RunningCall
from ahvn_tools.execution.workers.link import KeepingLink, Link

_links: Final[dict[str, Link]] = {}
"""Those of the calls that run in threads of this process."""


def run_task(task: CallTask, key: str) -> list[bytes]:
    """Run the body of a call in this thread of a worker, and return its replies; the last of them ends the call."""
    kept = _links[key] = KeepingLink()
    try:
        last = run_here(task.request, kept, task.seconds if task.is_connected else None)
    finally:
        del _links[key]
    return [*kept.replies, last]


def run_here(request: bytes, link: Link, seconds: float | None) -> bytes:
    """Run the body of a pickled CallRequest in this thread, and return the reply that ends the call.

    After `seconds`, without those in which it waits for its caller, the ToolContext of the body is cancelled; a body
    that does not look at it runs on.
    """
    with link.limited(seconds, link.cancel):
        return run_request(request, link)


def start_call(executor: Executor, task: CallTask, observer: CallObserver) -> RunningCall:
    """Run a task in any executor. Raises what the executor raises if it takes no more work."""
    if isinstance(executor, CallExecutor):
        return executor.start_call(task, observer)
    return PlainCall(executor, task, observer)


class PlainCall:
    """A call in any executor. All that its body sends comes when it has ended.

    A body that runs cannot be ended: nothing waits for it, and its ToolContext is cancelled after its seconds, and in a
    thread of this process when the call is cancelled.
    """

    def __init__(self, executor: Executor, task: CallTask, observer: CallObserver) -> None:
        self._observer = observer
        self._is_cancelled = False
        self._key = uuid.uuid4().hex
        self._future: concurrent.futures.Future[list[bytes]] = executor.submit(run_task, task, self._key)
        if not hasattr(self._future, "add_done_callback"):
            raise TypeError(f"its `submit` returned a {type(self._future).__name__}, and no Future")
        self._future.add_done_callback(self._take_result)

    def send(self, answer: bytes) -> None:
        """Do nothing: the body waits for no answer."""

    def cancel(self) -> None:
        """Remove the call from the queue of the executor, or cancel the ToolContext of its body, if it is here."""
        self._is_cancelled = True
        if not self._future.cancel() and (link := _links.get(self._key)) is not None:
            link.cancel()

    def _take_result(self, future: concurrent.futures.Future[list[bytes]]) -> None:
        if self._is_cancelled:
            return
        try:
            kept: object = future.result()
        except BaseException as error:  # noqa: BLE001  # an executor may raise anything
            text = f"{type(error).__name__}: {error}".removesuffix(": ")
            self._observer.fail(f"ended ({text}) before it returned a result")
            return
        for reply in kept if isinstance(kept, list) else ():
            self._observer.deliver(reply)
        if not (isinstance(kept, list) and kept and replies.is_final(kept[-1])):
            self._observer.fail(f"returned a {type(kept).__name__} in place of its result")
