"""One call in a worker process. A timeout or a cancellation kills the worker and all processes that it started."""

from __future__ import annotations

from collections.abc import Callable

from ahvn_tools.errors import ToolConnectionError
from ahvn_tools.execution.isolation import slots
from ahvn_tools.execution.isolation.body_call import BodyCall, WorkerLostError
from ahvn_tools.execution.isolation.worker_run import Send, WorkerRun
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.execution.threads import EmitItemSync


class ProcessCall(BodyCall):
    """One call in a worker process of this computer. One thread runs it, and any other thread may stop it."""

    def __init__(
        self, plan: Plan, body: Body, values: Arguments, *, has_reader: bool, set_starting: Callable[[bool], None]
    ) -> None:
        """Prepare the call; see BodyCall and WorkerRun."""
        super().__init__(plan, body, values, has_reader=has_reader)
        self._slots = slots.process_slots
        self._run: WorkerRun[Outcome] = WorkerRun(
            self._slots, keeps_children=plan.settings.keep_children, set_starting=set_starting
        )

    def run(self, emit: EmitItemSync) -> Outcome:
        """Wait for a slot, run the body in a worker, pass its chunks to `emit`, and return its outcome.

        Raises PickleError when the function or an argument cannot be pickled, InvalidResultError when a result cannot
        be unpickled, ToolConnectionError when the worker does not start or ends early, CancelledError after `stop`.
        """

        def handle(reply: bytes, send: Send) -> Outcome | None:
            return self.handle_reply(reply, emit, send, while_waiting=self._slots.lend)

        request = self.encode_request({})
        try:
            return self._run.run(request, handle)
        except WorkerLostError as error:
            message = f"The worker process of tool {self.plan.name!r} {error}"
            explanation = f"{message}; its standard error may say why." if str(error).startswith("ended") else None
            raise ToolConnectionError(f"{message}.", tool=self.plan.name, explanation=explanation) from error.__cause__

    def stop(self) -> None:
        """Kill the worker, whatever it is doing, or leave the queue."""
        self._run.stop()
