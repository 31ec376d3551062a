"""ToolkitBackground: the calls that a toolkit runs in the background, while its caller goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ahvn_tools.json_types import JsonObject
from ahvn_tools.roots import Roots
from ahvn_tools.settings import ToolOptions
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit import calls
from ahvn_tools.toolkit.background_calls import validate_wait
from ahvn_tools.toolkit.visibility import StoreView

if TYPE_CHECKING:
    from ahvn_tools.toolkit.call_status import CallStatus


class ToolkitBackground:
    """Base class of ToolkitCalls: calls that run in the background, each for the session that has started it."""

    __slots__ = ("_view",)

    _view: StoreView

    def start(
        self,
        name: str,
        arguments: JsonObject | None = None,
        /,
        *,
        timeout: float | None = None,
        call_id: str | None = None,
        roots: Roots | None = None,
    ) -> str:
        """Start a call in the background and return its id, at once, from sync and async code.

        It runs as `aexec` would run it, with the context variables of its starter. It belongs to this session and ends
        with it: when nothing refers to the session any more, its calls are cancelled and their results dropped. An id
        that is passed must not be that of a call that runs; the result of a finished one is replaced.

        Raises ToolNotFoundError, ToolNotAvailableError, LimitExceededError while `max_background` calls of this session
        run, and ToolkitError for options that do not fit. Errors of the call itself are in its status.
        """
        return calls.start(self._view, name, arguments, calls.CallOptions.create(timeout, call_id, roots))

    def status(self, call_id: str) -> CallStatus:
        """Return what is known of a background call of this session; of a finished one, with its result.

        A session keeps the results of its last 100 finished calls, each for an hour. Raises ToolLookupError for an id
        that is unknown, of another session, or no longer kept.
        """
        return self._view.background_calls.get(call_id).status()

    def wait(self, call_id: str, timeout: float | None = None) -> CallStatus:
        """Wait for the end of a background call and return its status; after `timeout` seconds, that of a running call.

        Raises ToolLookupError as `status` does.
        """
        from ahvn_tools.execution import background_loop
        from ahvn_tools.execution.runner import capture_outcome

        call, seconds = self._view.background_calls.get(call_id), validate_wait(timeout)
        if call.is_running:
            background_loop.run(capture_outcome, call.wait, seconds).get()
        return call.status()

    async def await_(self, call_id: str, timeout: float | None = None) -> CallStatus:
        """Wait for the end of a background call from async code, as `wait` does.

        Cancelling the task that waits does not cancel the call.
        """
        from ahvn_tools.execution import background_loop

        call, seconds = self._view.background_calls.get(call_id), validate_wait(timeout)
        if call.is_running:
            await background_loop.arun(call.wait, seconds)
        return call.status()

    def background_calls(self) -> list[CallStatus]:
        """Return the status of each background call of this session, in the order in which they were started."""
        return self._view.background_calls.statuses()

    def background_tools(
        self,
        *,
        start_call: ToolOptions | None = None,
        call_status: ToolOptions | None = None,
        wait_for_call: ToolOptions | None = None,
        cancel_call: ToolOptions | None = None,
    ) -> list[ToolSpec]:
        """Return four tools for a model, to be added: `start_call`, `call_status`, `wait_for_call`, `cancel_call`.

        They act for the session that calls them, on the tools that it sees. The options change the name and the texts
        of each, as those of `@tool` do: the texts refer to the other tools by their names.
        """
        from ahvn_tools.toolkit import background_tools

        options = (start_call, call_status, wait_for_call, cancel_call)
        functions = background_tools.BACKGROUND_TOOLS
        return [
            ToolSpec.from_function(function, **(own or {})) for function, own in zip(functions, options, strict=True)
        ]
