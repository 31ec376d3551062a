"""ToolkitCalls: the calls of a toolkit: of one tool by its name, and of all that a model's answer asks for."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Never

from ahvn_tools.errors import suggests_options, unknown_options
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolResult
from ahvn_tools.roots import Roots
from ahvn_tools.toolkit import calls
from ahvn_tools.toolkit.toolkit_background import ToolkitBackground

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ahvn_tools.formats import FormatName
    from ahvn_tools.toolkit.answer import ModelAnswer
    from ahvn_tools.toolkit.batch import Batch
    from ahvn_tools.toolkit.mapped_calls import MappedCall
    from ahvn_tools.toolkit.observed_call import CancelWhen, OnOutput
    from ahvn_tools.toolkit.resume import Approved, Reason, Waiting
    from ahvn_tools.toolkit.run import Run

Arguments = JsonObject | None
"""Arguments by parameter; None for no argument."""


_CALL_OPTIONS: Final = ("timeout", "call_id", "roots", "on_output", "cancel_when")


class ToolkitCalls(ToolkitBackground):
    """Base class of ToolkitView: calls run here, through the groups, the state and the middleware of the view."""

    __slots__ = ()

    def call(
        self,
        name: str,
        arguments: Arguments = None,
        /,
        *,
        timeout: float | None = None,
        call_id: str | None = None,
        roots: Roots | None = None,
        **unknown: Never,
    ) -> Any:
        """Call a tool and return the value, or raise as a spec does.

        Also raises ToolNotFoundError, and ToolNotAvailableError for a tool that is not visible here. `timeout`, in
        seconds: the shortest of this, the toolkit's and the tool's own applies. Raises ToolkitError when it cannot
        interrupt the body (`run_in_thread=False`). `call_id` is for `cancel`. `roots` are the folders that a tool finds
        in its ToolContext, in place of those of the session and the toolkit.
        """
        _refuse_arguments(unknown)
        return calls.call(self._view, name, arguments, calls.CallOptions.create(timeout, call_id, roots))

    async def acall(
        self,
        name: str,
        arguments: Arguments = None,
        /,
        *,
        timeout: float | None = None,
        call_id: str | None = None,
        roots: Roots | None = None,
        **unknown: Never,
    ) -> Any:
        """Call a tool from async code and return the value, or raise as `call` does."""
        _refuse_arguments(unknown)
        return await calls.acall(self._view, name, arguments, calls.CallOptions.create(timeout, call_id, roots))

    def exec(
        self,
        name: str,
        arguments: Arguments = None,
        /,
        *,
        timeout: float | None = None,
        call_id: str | None = None,
        roots: Roots | None = None,
        **unknown: Never,
    ) -> ToolResult:
        """Call a tool and return a ToolResult, also for an error of the tool."""
        _refuse_arguments(unknown)
        return calls.execute(self._view, name, arguments, calls.CallOptions.create(timeout, call_id, roots))

    async def aexec(
        self,
        name: str,
        arguments: Arguments = None,
        /,
        *,
        timeout: float | None = None,
        call_id: str | None = None,
        roots: Roots | None = None,
        on_output: OnOutput | None = None,
        cancel_when: CancelWhen | None = None,
        **unknown: Never,
    ) -> ToolResult:
        """Call a tool from async code and return a ToolResult, also for an error of the tool.

        `on_output`, sync or async, takes what the tool passes to `ToolContext.append_output`, in its order; the tool
        waits until it has returned. `cancel_when` is an Event, an object with `aborted`, or a function. It is asked 20
        times a second, and the call is cancelled when it is true. What the two raise ends the call, and is raised.
        """
        _refuse_arguments(unknown)
        options = calls.CallOptions.create(timeout, call_id, roots)
        if on_output is None and cancel_when is None:
            return await calls.aexecute(self._view, name, arguments, options)
        from ahvn_tools.toolkit import observed_call  # few calls need it

        return await observed_call.aexecute(
            self._view, name, arguments, options, on_output=on_output, cancel_when=cancel_when
        )

    def stream(
        self,
        name: str,
        arguments: Arguments = None,
        /,
        *,
        timeout: float | None = None,
        call_id: str | None = None,
        roots: Roots | None = None,
        **unknown: Never,
    ) -> Generator[ToolResult, None, None]:
        """Call a tool and yield one result per item as it is produced, then the whole with `is_last=True`."""
        _refuse_arguments(unknown)
        return calls.stream(self._view, name, arguments, calls.CallOptions.create(timeout, call_id, roots))

    def astream(
        self,
        name: str,
        arguments: Arguments = None,
        /,
        *,
        timeout: float | None = None,
        call_id: str | None = None,
        roots: Roots | None = None,
        **unknown: Never,
    ) -> AsyncGenerator[ToolResult, None]:
        """Call a tool from async code and yield results as `stream` does."""
        _refuse_arguments(unknown)
        return calls.astream(self._view, name, arguments, calls.CallOptions.create(timeout, call_id, roots))

    def cancel(self, call_id: str) -> bool:
        """Cancel the calls of this id, from any thread, and return whether any run; a session cancels its own.

        Their last result is `is_interrupted`, with the items so far as its value and the code `cancelled`; `call`
        raises CallCancelledError. An async body is cancelled. A sync body can read the cancellation in its ToolContext:
        in its caller's thread it ends when it does so, elsewhere its thread is left running. Calls of a `run` have the
        ids of the model's calls; a ToolContext, chunks, logs and results contain the ids of others.
        """
        cancelled = self._view.background_calls.cancel(call_id)
        return self._view.store.active_calls.cancel(call_id, self._view.session_state) or cancelled

    def map(
        self,
        executor: Executor,
        calls: Iterable[MappedCall],
        *,
        timeout: float | None = None,
        buffersize: int = 256,
    ) -> Generator[ToolResult, None, None]:
        """Run many calls, their bodies in the workers of an executor, and yield the results in the order of the calls.

        A call is a ToolCall, or a pair of a tool's name and its arguments. `buffersize` is how many calls are read
        ahead of the result that is yielded, and run. Everything but the body runs here: groups, state, middleware.
        Leaving the loop cancels the calls that have no result yet. `timeout`, in seconds, is that of each call. Raises
        ToolkitError for what is no call and no number, DefinitionError for what is no executor and for a tool that
        cannot run in one, SyncCallError in an async tool of a sync call: use `amap` there.
        """
        from ahvn_tools.toolkit import mapped_calls

        return mapped_calls.map_calls(self._view, executor, calls, timeout, buffersize)

    def amap(
        self,
        executor: Executor,
        calls: Iterable[MappedCall],
        *,
        timeout: float | None = None,
        buffersize: int = 256,
    ) -> AsyncGenerator[ToolResult, None]:
        """Run many calls from async code, their bodies in the workers of an executor, as `map` does."""
        from ahvn_tools.toolkit import mapped_calls

        return mapped_calls.amap_calls(self._view, executor, calls, timeout, buffersize)

    @suggests_options
    def run(self, answer: ModelAnswer, *, format: FormatName | str | None = None, run_in_thread: bool = True) -> Run:  # noqa: A002  # the word for it
        """Run all calls of a model's answer, in parallel, and return the messages that answer them.

        `answer` is what a format's `calls` reads; or a list of ToolCalls, and then messages are returned when `format`
        is set. Without a format, that of an SDK's object or of a dict that fits only one is found out. A call that
        cannot be run is answered with the reason. With `run_in_thread=False` the bodies of sync tools run in the
        caller's thread, one after the other. Works inside a running event loop, too.

        Raises ToolkitError for an answer that is not in the format, and for `run_in_thread=False` with a timeout.
        """
        return self._batch(answer, format, run_in_thread=run_in_thread).run()

    @suggests_options
    async def arun(
        self,
        answer: ModelAnswer,
        *,
        format: FormatName | str | None = None,  # noqa: A002  # as above
        run_in_thread: bool = True,
    ) -> Run:
        """Run all calls of a model's answer from async code, as `run` does.

        With `run_in_thread=False` the bodies of sync tools run in the event loop, and block it.
        """
        return await self._batch(answer, format, run_in_thread=run_in_thread).arun()

    @suggests_options
    def stream_run(
        self,
        answer: ModelAnswer,
        *,
        format: FormatName | str | None = None,  # noqa: A002  # as above
    ) -> Generator[ToolResult | Run, None, None]:
        """Run all calls of a model's answer as `run` does; yield their chunks and progress as they come, then the Run.

        Each chunk has the id of its call. A tool waits until its chunk is read; leaving the loop cancels all calls.
        """
        return self._batch(answer, format).stream()

    @suggests_options
    def astream_run(
        self,
        answer: ModelAnswer,
        *,
        format: FormatName | str | None = None,  # noqa: A002  # as above
    ) -> AsyncGenerator[ToolResult | Run, None]:
        """Run all calls of a model's answer from async code, and yield what `stream_run` yields."""
        return self._batch(answer, format).astream()

    def resume(
        self,
        waiting: Waiting,
        *,
        approved: Approved,
        arguments: Mapping[str, Any] | None = None,
        reason: Reason = None,
    ) -> Run:
        """Run or reject the calls that waited for an approval, and return the Run, which may wait for further ones.

        `waiting` is a Run with pending calls, the status of a background call, or one request (also as its JSON data,
        in another process); for the latter two the Run has results and no messages. `approved` applies to all calls, or
        decides by call id. `arguments` are the approver's edits, of a request or by call id: they are merged into the
        model's arguments, and contain again what a saved request hides as secret. `reason`, a text or by call id, is
        for the model of a rejected call. A tool that has changed since is not run: its call ends with the code
        `changed`.

        Raises ToolkitError for a request that was approved or rejected before, has expired or is of another session,
        and for secret arguments that differ from the requested ones.
        """
        from ahvn_tools.toolkit.resume import resumed_batch

        background_calls = self._view.background_calls
        batch = resumed_batch(self._view, waiting, approved, arguments, reason)
        run = batch.run()
        background_calls.set_resumed_results(batch.resumed_results(run))
        return run

    async def aresume(
        self,
        waiting: Waiting,
        *,
        approved: Approved,
        arguments: Mapping[str, Any] | None = None,
        reason: Reason = None,
    ) -> Run:
        """Run or reject the calls that waited from async code, as `resume` does."""
        from ahvn_tools.toolkit.resume import aresumed_batch

        background_calls = self._view.background_calls
        batch = await aresumed_batch(self._view, waiting, approved, arguments, reason)
        run = await batch.arun()
        background_calls.set_resumed_results(batch.resumed_results(run))
        return run

    def _batch(self, answer: ModelAnswer, format: str | None, *, run_in_thread: bool = True) -> Batch:  # noqa: A002  # as above
        from ahvn_tools.toolkit.answer import parse_answer
        from ahvn_tools.toolkit.batch import Batch

        parsed = parse_answer(self._view, answer, format)
        return Batch(
            view=self._view,
            calls=parsed.calls,
            format=parsed.format,
            continuation=parsed.continuation,
            run_in_thread=run_in_thread,
        )


def _refuse_arguments(unknown: Mapping[str, object]) -> None:
    """Raise TypeError for keyword arguments: the arguments of a tool are one dict."""
    if unknown:
        text = unknown_options(unknown, _CALL_OPTIONS)
        raise TypeError(f"{text} Pass the arguments of a tool as one dict: call('tool', {{'name': value}}).")
