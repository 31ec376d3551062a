"""CallExecutor: an executor that can do more for a call than return its result: chunks, progress, questions, an end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class CallTask:
    """One call of a body, for an executor."""

    tool: str
    """The name of the tool, for dashboards."""
    request: bytes = field(repr=False)
    """A pickled CallRequest."""
    is_connected: bool
    """Whether the body may send chunks, output, progress and questions while it runs."""
    is_repeatable: bool
    """Whether the body may run again after its worker was lost."""
    seconds: float | None
    """How many seconds the body may take from now on; None: no limit. The time in which it waits for the caller, who
    reads a chunk or answers a question, does not count."""


class RunningCall(Protocol):
    """A call that an executor has accepted. Its methods may block, and any thread may call them."""

    def send(self, answer: bytes) -> None:
        """Answer the body: b"" requests the next chunk, anything else is the answer to a question."""

    def cancel(self) -> None:
        """End the call, queued or running. Nothing is delivered any more."""


class CallObserver:
    """Takes what a running call delivers, from any thread. Replies come in order; one that `is_final` ends the call."""

    def __init__(self, deliver: Callable[[bytes], None], fail: Callable[[str], None]) -> None:
        """`fail` takes what happened to the worker when there will be no final reply."""
        self.deliver = deliver
        self.fail = fail


class CallExecutor(Executor):
    """An executor for calls of tools. Each shipped one is a subclass; any other Executor works with less."""

    @abstractmethod
    def start_call(self, task: CallTask, observer: CallObserver) -> RunningCall:
        """Run the body of a task in a worker, and return at once.

        The body must not run again after its worker was lost, unless the task is repeatable. Raises what the engine
        raises if it takes no more work.
        """
