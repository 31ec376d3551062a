"""Batch: all calls of one answer of a model, run in parallel."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
import uuid
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Generator,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ahvn_tools import formats
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import ToolkitError, quote_name
from ahvn_tools.execution.async_to_sync import read_on_loop
from ahvn_tools.execution.call import CallScope, EmitChunk
from ahvn_tools.execution.channel import ChunkReader
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.pipeline import make_emit
from ahvn_tools.execution.plan import Plan
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.execution.threads import CallerThread
from ahvn_tools.formats import detection
from ahvn_tools.formats.continuation import NO_CONTINUATION, Continuation
from ahvn_tools.formats.parsing.tool_calls import INVALID_RESPONSE
from ahvn_tools.middleware.pending import PendingRequest, without_other_request
from ahvn_tools.results import DIRECT, ToolCall, ToolResult
from ahvn_tools.toolkit import calls, model_tools
from ahvn_tools.toolkit.calls import CallOptions
from ahvn_tools.toolkit.exclusive import ALONE, prepare_exclusive
from ahvn_tools.toolkit.run import Run
from ahvn_tools.toolkit.visibility import StoreView

if TYPE_CHECKING:
    from ahvn_tools.code_mode.saved_program import ResumedProgram
    from ahvn_tools.toolkit.background_calls import BackgroundCalls


_NO_ANSWER = (
    "None is no answer. Pass the response or its message: a message without calls has no `tool_calls`, "
    "and needs none to be run."
)
_ADVICE = "Pass the response, its message or the list of its calls as the provider's SDK returns them."


class SdkObject(Protocol):
    """An object of a provider's SDK, which is a pydantic model."""

    def model_dump(self) -> dict[str, Any]:
        """Return the object as JSON data."""
        ...


class TextMessage(Protocol):
    """A message that is no pydantic model, for `format="prompt"`."""

    @property
    def content(self) -> Any:
        """The text."""


ModelAnswer = SdkObject | TextMessage | ToolCall | Mapping[str, Any] | Iterable[Any] | bytes
"""What `run` reads: an object of an SDK, JSON data or its text, a stream of events, or calls."""


def parse_answer(
    view: StoreView,
    answer: Any,
    format: str | None,  # noqa: A002  # the word for it
    *,
    run_in_thread: bool = True,
) -> Batch:
    """Return the calls of an answer, with the format of their messages; without one for calls that are ToolCalls.

    Raises ToolkitError for an answer that is not in the format or, without one, in no or more than one known format.
    """
    calls, format, continuation = _parse(view, answer, format)  # noqa: A001  # as above
    for call in calls:
        if call.caller != DIRECT:  # a program waits for the results, until then
            continuation = replace(continuation, answer_by=continuation.answer_by_for(call.format, time.time()))
            break
    return Batch(view=view, calls=calls, format=format, continuation=continuation, run_in_thread=run_in_thread)


def _parse(view: StoreView, answer: Any, format: str | None) -> tuple[Sequence[ToolCall], str | None, Continuation]:  # noqa: A002  # as above
    if format is not None:
        formats.get(format)  # an unknown format raises before anything has run
    if isinstance(answer, ToolCall):
        return [answer], format, NO_CONTINUATION
    if isinstance(answer, list | tuple) and all(isinstance(call, ToolCall) for call in answer):
        return answer, format, NO_CONTINUATION
    if answer is None:
        raise ToolkitError(_NO_ANSWER)
    answer = detection.read_events(answer)
    if format is None:
        format = _detect_format(answer)  # noqa: A001  # as above
        if format is None:
            return [], None, NO_CONTINUATION
    # a call of any tool, visible or not, gets the tool's own name
    try:
        calls = formats.get(format).calls(answer, view.known_definitions())
    except TypeError:  # no answer at all, or an SDK's object of another format
        if format in (detection.matching_formats(answer) or [format]):
            raise
        raise ToolkitError(_mismatch(format, answer)) from None
    is_unreadable = len(calls) == 1 and calls[0].error == INVALID_RESPONSE
    if is_unreadable or (not calls and not detection.fits_without_calls(format, answer)):
        raise ToolkitError(_mismatch(format, answer))
    read = getattr(formats.get(format), "continuation", None)
    return calls, format, NO_CONTINUATION if read is None else read(answer)


def _detect_format(answer: Any) -> str | None:
    """Return the one format that an answer looks like; None for an answer without calls that fits several formats."""
    names = detection.matching_formats(answer)
    if not names:
        raise ToolkitError(f'The answer is in no known format. {_ADVICE} For calls in plain text pass format="prompt".')
    if len(names) == 1:
        return names[0]
    if any(formats.get(name).calls(answer) for name in names):
        fitting = ", ".join(map(repr, names))
        choices = " or ".join(f"format={name!r}" for name in names)
        raise ToolkitError(f"The answer fits the formats {fitting}. Say which it is: {choices}.")
    return None


def _mismatch(format: str, answer: Any) -> str:  # noqa: A002  # as above
    names = [name for name in detection.matching_formats(answer) if name != format]
    if not names:
        return f"The answer is not in the format {format!r}. {_ADVICE}"
    return (
        f"The answer is not in the format {format!r}: it looks like {' or '.join(map(repr, names))}. "
        f"Pass format={names[0]!r}."
    )


Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Calls to run, and the results that are known already."""

    view: StoreView
    calls: Sequence[ToolCall]
    format: str | None = None
    continuation: Continuation = NO_CONTINUATION
    """What the answer says about the next request."""
    known_results: Mapping[int, ToolResult] = field(default_factory=dict)
    """Results of calls that are not run (again), by the index of the call."""
    requests: Mapping[int, PendingRequest] = field(default_factory=dict)
    """The requests that were decided, by the index of the call; those of calls to run were approved."""
    supplied: Mapping[int, Outcome] = field(default_factory=dict)
    """What was supplied from outside for external calls, by the index of the call."""
    programs: Mapping[int, ResumedProgram] = field(default_factory=dict)
    """The programs that are continued, by the index of the call that ran them."""
    rejections: Sequence[tuple[PendingRequest, ToolResult]] = ()
    """The requests that were rejected, with the results, for the middleware of the toolkit."""
    background_calls: BackgroundCalls | None = None
    """What takes over the results of calls that have waited in the background."""
    run_in_thread: bool = True
    """Whether sync bodies run in threads, in parallel, or in the caller's thread, one after the other."""
    streams_results: bool = False
    """Whether `stream` and `astream` yield the result of each call, too, as soon as it ends."""
    finished: dict[int, ToolResult] = field(default_factory=dict)
    """The results of the calls that have ended, by the index of the call, also when the others are interrupted."""
    id: str = field(default_factory=lambda: f"run_{uuid.uuid4().hex}")
    """The `run_id` that all calls share, for middleware."""

    def run(self) -> Run:
        """Run the calls from sync code. A single call runs in the caller's own thread."""
        calls_to_run = self._calls_to_run()
        caller = CallerThread()
        if len(calls_to_run) > 1:
            with self._kept():
                run: Run = caller.wait_for(capture_outcome, self.arun, caller).get()
            return run
        if not self.run_in_thread:
            self._refuse_uninterruptible()
        with self._kept():
            if self.rejections:
                caller.wait_for(capture_outcome, self._show_rejections).get()
            results = {
                index: self._exec(index, self._call_options(index, call)) for index, call in calls_to_run.items()
            }
        return self._to_run(results)

    async def arun(self, caller: CallerThread | None = None, emit: EmitChunk | None = None) -> Run:
        """Run the calls from async code; exclusive ones in their order.

        `caller` is the thread that waits for them, `emit` takes their chunks.
        """
        if not self.run_in_thread:
            self._refuse_uninterruptible()
        calls_to_run = self._calls_to_run()
        if self.rejections:
            with self._kept():
                await self._show_rejections()
        if len(calls_to_run) == 1:
            [(index, call)] = calls_to_run.items()
            with self._kept():
                result = await self._aexec(index, self._call_options(index, call, emit), emit)
            return self._to_run({index: result})
        with self._kept(), contextlib.ExitStack() as tracked:
            options = [self._track(tracked, index, call, emit) for index, call in calls_to_run.items()]
            keys = await asyncio.gather(*map(self._lock_key, calls_to_run.values()))
            jobs = [
                self._job(index, call_options, caller, emit)
                for index, call_options in zip(calls_to_run, options, strict=True)
            ]
            outcomes = await run_in_order(jobs, keys, self.view.store.max_concurrency)
            results = {index: outcome.get() for index, outcome in zip(calls_to_run, outcomes, strict=True)}
        return self._to_run(results)

    def stream(self) -> Generator[ToolResult | Run]:
        """Yield the chunks of all calls, then the run, to a sync reader."""
        with self._kept():
            (yield from read_on_loop(self.astream())).get()

    async def astream(self) -> AsyncGenerator[ToolResult | Run]:
        """Yield the chunks of all calls as they are made, then the run. A body waits until its chunk is read."""
        reader = ChunkReader(lambda emit: capture_outcome(self.arun, None, emit))
        with self._kept():
            async with contextlib.aclosing(reader.read()) as chunks:
                async for chunk in chunks:
                    yield chunk
            run: Run = reader.outcome.get()
        yield run

    @contextlib.contextmanager
    def _kept(self) -> Generator[None]:
        """Attach the run to an exception that interrupts its calls, for `Run.from_error`."""
        try:
            yield
        except BaseException as error:
            finished = dict(self.finished)
            lost = {index: _lost(call) for index, call in self._calls_to_run().items() if index not in finished}
            with contextlib.suppress(Exception):  # a format that cannot write the results: the interruption is raised
                self._to_run({**lost, **finished}).attach_to(error)
            raise

    def _job(
        self, index: int, options: CallOptions, caller: CallerThread | None, emit: EmitChunk | None
    ) -> Callable[[], Awaitable[Outcome]]:
        """Return what runs a call, and captures its outcome: a SystemExit must not reach the loop."""
        plan = self._plan(self.calls[index])
        may_move = plan is None or not plan.runs_in_caller_thread or (self.run_in_thread and plan.run_in_thread)
        if caller is not None and not may_move:
            return functools.partial(caller.call, functools.partial(self._exec, index, options))
        return functools.partial(capture_outcome, self._aexec, index, options, emit)

    def _plan(self, call: ToolCall) -> Plan | None:
        """Return the plan of a call; None for a tool that is not there."""
        entry = self.view.store.entries.get(call.name)
        return None if entry is None else self.view.compiled_tool(entry).plan

    def _refuse_uninterruptible(self) -> None:
        """Raise ToolkitError when a timeout cannot interrupt a body in the caller's thread."""
        for call in self._calls_to_run().values():
            plan = self._plan(call)
            if plan is not None and plan.timeout is not None and not (plan.is_async or plan.isolation is not None):
                raise ToolkitError(
                    f"{call.name!r} has a timeout, which cannot interrupt it in the caller's thread: leave out "
                    "run_in_thread=False, or the timeouts of the tool and its toolkit."
                )

    def _calls_to_run(self) -> dict[int, ToolCall]:
        known = self.known_results
        return {index: call for index, call in enumerate(self.calls) if index not in known and call.error is None}

    def _exec(self, index: int, options: CallOptions) -> ToolResult:
        if (changed := self._find_change(index)) is not None:
            return changed
        call = self.calls[index]
        return self._to_answer(index, calls.execute(self.view, call.name, call.arguments, options))

    async def _aexec(self, index: int, options: CallOptions, emit: EmitChunk | None) -> ToolResult:
        if (changed := self._find_change(index)) is not None:
            return changed
        call = self.calls[index]
        result = self._to_answer(index, await calls.aexecute(self.view, call.name, call.arguments, options))
        if emit is not None and self.streams_results:
            await emit(result)
        return result

    async def _show_rejections(self) -> None:
        """Let the middleware of the toolkit see each rejected call; what it returns changes no result."""
        for request, result in self.rejections:
            options = CallOptions(id=request.call_id, run_id=self.id, caller=request.caller, rejection=result)
            await calls.aexecute(self.view, request.tool, request.arguments, options)

    def _find_change(self, index: int) -> ToolResult | None:
        """Return the result of an approved call whose tool was replaced while it waited for its turn, else None."""
        request = None if index in self.programs else self.requests.get(index)
        message = None if request is None else changed_text(self.view, request)
        return None if message is None else changed_result(message, self.calls[index])

    def _to_answer(self, index: int, result: ToolResult) -> ToolResult:
        """Return, and keep, a result as the answer to a call."""
        answer = without_other_request(replace(result, id=self.calls[index].id), self.view.store.secret_key)
        self.finished[index] = answer
        return answer

    def _track(self, stack: contextlib.ExitStack, index: int, call: ToolCall, emit: EmitChunk | None) -> CallOptions:
        """Return the options of a call that can be cancelled from now on, also while it waits."""
        scope = CallScope()
        stack.enter_context(self.view.store.active_calls.track(call.id, self.view.session_states, scope))
        return replace(self._call_options(index, call, emit), scope=scope)

    def _call_options(self, index: int, call: ToolCall, emit: EmitChunk | None = None) -> CallOptions:
        program, request = self.programs.get(index), self.requests.get(index)
        signed = request if program is None else program.program
        caller = call.caller if signed is None else signed.caller
        return CallOptions(
            id=call.id,
            run_id=self.id,
            caller=caller,
            answer_by=None if caller == DIRECT else self.continuation.answer_by,
            resumed_program=program,
            supplied=self.supplied.get(index),
            is_approved=program is not None or (request is not None and request.approves_call),
            approved_questions=() if request is None else request.approved_questions,
            emit=None if emit is None else make_emit(emit, call.id),
            run_in_thread=self.run_in_thread,
        )

    async def _lock_key(self, call: ToolCall) -> Hashable | None:
        """Return the key of an exclusive call, of the inner call for `call_tool`; None if it is not exclusive.

        A call whose key cannot be found within its timeout runs alone, and so does one with invalid arguments.
        """
        entries = self.view.store.entries
        entry = entries.get(call.name)
        if entry is not None and entry.spec.function is model_tools.call_tool:
            call = model_tools.inner_call(call) or call
            entry = entries.get(call.name)
        if entry is None or entry.exclusive is False:
            return None
        plan = self.view.compiled_tool(entry).plan
        outcome = await capture_outcome(prepare_exclusive, entry.exclusive, plan, call.arguments)
        return ALONE if outcome.error is not None else outcome.value[1]

    def _to_run(self, new_results: Mapping[int, ToolResult]) -> Run:
        """Return the run of all calls."""
        results, pairs = {**self.known_results, **new_results}, []
        for index, call in enumerate(self.calls):
            if index not in results and call.error is not None:
                error = ErrorDetail(code="invalid_parameters", message=call.error)
                results[index] = ToolResult(error=error, id=call.id)
            pairs.append((call, results[index]))
        if self.background_calls is not None:
            self.background_calls.set_resumed_results((one, results[index]) for index, one in self.requests.items())
        return Run.create(pairs, self.format, self.continuation)


def changed_text(view: StoreView, request: PendingRequest) -> str | None:
    """Return what the model reads when the tool of a request has changed since, else None."""
    entry = view.store.entries.get(request.tool)
    if entry is None or view.definition(entry).fingerprint == request.fingerprint:
        return None  # the call of a removed tool is answered like any other
    return f"The tool {request.tool!r} has changed since the call was made. Ask for the call again."


def changed_result(message: str, call: ToolCall) -> ToolResult:
    """Return the result of an approved call that does not run."""
    return ToolResult(error=ErrorDetail(code="changed", message=message), id=call.id)


def _lost(call: ToolCall) -> ToolResult:
    """Return the result of a call that was interrupted."""
    message = f"The call of {quote_name(call.name)} was interrupted. It did not finish, and may have had an effect."
    return ToolResult(error=ErrorDetail(code="cancelled", message=message), is_interrupted=True, id=call.id)


async def run_in_order(
    jobs: Sequence[Callable[[], Awaitable[Result]]], keys: Sequence[Hashable | None], max_concurrency: int
) -> list[Result]:
    """Run jobs concurrently, at most `max_concurrency` at once, and return their results in order. Jobs do not raise.

    A job runs after the earlier ones with the same key; one with the key ALONE after all earlier and before all later
    ones. A job waits for those first, and for a slot last, so that no waiting job holds a slot.
    """
    slots = asyncio.Semaphore(max_concurrency)

    async def run(job: Callable[[], Awaitable[Result]], earlier: Collection[asyncio.Task[Result]]) -> Result:
        if earlier:
            await asyncio.wait(earlier)
        async with slots:
            return await job()

    tasks: list[asyncio.Task[Result]] = []
    latest: dict[Hashable, asyncio.Task[Result]] = {}
    async with asyncio.TaskGroup() as group:
        for job, key in zip(jobs, keys, strict=True):
            earlier = latest.values() if key == ALONE else [latest[same] for same in (ALONE, key) if same in latest]
            task = group.create_task(run(job, list(earlier)))
            tasks.append(task)
            if key == ALONE:
                latest = {}
            latest[task if key is None else key] = task
    return [task.result() for task in tasks]
