"""What a plain executor runs in its worker: the body of one call, linked to its caller."""

from __future__ import annotations

from dataclasses import dataclass, field

from ahvn_tools.execution.executors.channel import ChannelAddress, connect
from ahvn_tools.execution.executors.links import ChannelLink, KeepingLink
from ahvn_tools.execution.isolation.body_run import CallerLink, load_body_run
from ahvn_tools.execution.isolation.timed_link import TimedLink


@dataclass(frozen=True, kw_only=True)
class PlainTask:
    """One call, as it is sent to a worker. Its repr shows no value: executors write their arguments into messages."""

    request: bytes = field(repr=False)
    """A pickled CallRequest."""
    address: ChannelAddress | None = field(repr=False)
    """Where the caller can be reached while the body runs, if it needs that."""
    seconds: float | None
    """After how many seconds the ToolContext of a body is cancelled whose caller cannot say so; None: never."""


@dataclass(frozen=True)
class TaskResult:
    """What a task returns."""

    sent: int
    """How many replies were sent while the body ran."""
    replies: list[bytes] = field(repr=False)
    """The other ones; the last of them ends the call. None if the call had ended before the body could start."""


def run_task(task: PlainTask) -> TaskResult:
    """Run the body of a call in this thread, linked to its caller."""
    try:
        connection = None if task.address is None else connect(task.address)
    except ConnectionAbortedError:
        return TaskResult(0, [])
    if connection is None:
        kept = KeepingLink()
        last = run_here(task.request, kept, task.seconds)
        return TaskResult(0, [*kept.replies, last])
    link = ChannelLink(connection)
    try:
        last = run_here(task.request, link, None)  # its caller cancels it, or has ended, which cancels it, too
    finally:
        link.close()
    return TaskResult(link.sent, [last])


def run_here(request: bytes, link: CallerLink, seconds: float | None) -> bytes:
    """Run the body of a pickled CallRequest in this thread, and return the reply that ends the call.

    After `seconds`, without those in which it waits for its caller, the ToolContext of the body is cancelled; a body
    that does not look at it runs on.
    """
    if seconds is None:
        return load_body_run(request, link).run()
    with TimedLink(link, seconds, lambda: body_run.cancel()) as timed:  # noqa: PLW0108  # it is made below
        body_run = load_body_run(request, timed)
        return body_run.run()
