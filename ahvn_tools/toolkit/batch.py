"""Batch: all calls of one answer of a model, run in parallel; and Run, their results in the order of the calls."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import uuid
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, overload

from ahvn_tools import formats
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.execution import background_loop
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.execution.scope import CallScope
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware.approve import ApprovalRequest
from ahvn_tools.results import ErrorDetail, ToolCall, ToolResult
from ahvn_tools.secret_key import SecretKey
from ahvn_tools.toolkit import calls, model_tools
from ahvn_tools.toolkit.calls import CallOptions
from ahvn_tools.toolkit.locks import ALONE, lock_key
from ahvn_tools.toolkit.visibility import StoreView

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Run(Sequence[JsonObject]):
    """The provider's messages that answer every call, in order; as a sequence, a Run is these messages.

    >>> from ahvn_tools import Toolkit
    >>> kit = Toolkit("math")
    >>> @kit.tool
    ... def add(a: int, b: int) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> answer = {"tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}]}
    >>> list(kit.run(answer, format="openai"))
    [{'role': 'tool', 'tool_call_id': 'c1', 'content': '3'}]
    """

    messages: list[JsonObject] = field(default_factory=list)
    results: list[tuple[ToolCall, ToolResult]] = field(default_factory=list)
    """Each call with its result, in the order of the answer."""
    pending: list[ApprovalRequest] = field(default_factory=list)
    """The calls that wait for an approval, for `Toolkit.resume`. While there are any, there are no messages: providers
    accept one answer per call, and all answers at once."""
    format: str | None = field(default=None, repr=False)
    """The format of the messages."""

    @property
    def ends_session(self) -> bool:
        """Whether a tool has asked to end the session."""
        return any(result.meta.get("ends_session") is True for _, result in self.results)

    @overload
    def __getitem__(self, index: int) -> JsonObject: ...
    @overload
    def __getitem__(self, index: slice) -> list[JsonObject]: ...
    def __getitem__(self, index: int | slice) -> JsonObject | list[JsonObject]:
        """Return one message, or several."""
        return self.messages[index]

    def __len__(self) -> int:
        return len(self.messages)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Calls to run, and the results that are known already."""

    view: StoreView
    calls: Sequence[ToolCall]
    format: str | None = None
    known_results: Mapping[int, ToolResult] = field(default_factory=dict)
    """Results of calls that are not run (again), by the index of the call."""
    is_approved: bool = False
    """Whether the calls to run have been approved."""
    id: str = field(default_factory=lambda: f"run_{uuid.uuid4().hex}")
    """The `run_id` that all calls share, for middleware."""

    def run(self) -> Run:
        """Run the calls from sync code. A single call runs in the caller's own thread."""
        calls_to_run = self._calls_to_run()
        if len(calls_to_run) > 1:
            run: Run = background_loop.run(capture_outcome, self.arun).get()
            return run
        results = {}
        for index, call in calls_to_run.items():
            result = calls.execute(self.view, call.name, call.arguments, self._call_options(call))
            results[index] = self._to_answer(call, result)
        return self._to_run(results)

    async def arun(self) -> Run:
        """Run the calls from async code; exclusive ones in their order."""
        calls_to_run = self._calls_to_run()
        if len(calls_to_run) == 1:
            [(index, call)] = calls_to_run.items()
            return self._to_run({index: await self._aexec(call, self._call_options(call))})
        keys = [self._lock_key(call) for call in calls_to_run.values()]
        with contextlib.ExitStack() as tracked:
            # `capture_outcome`, because a SystemExit must not reach the loop
            jobs = [
                functools.partial(capture_outcome, self._aexec, call, self._track(tracked, call))
                for call in calls_to_run.values()
            ]
            outcomes = await run_in_order(jobs, keys, self.view.store.max_concurrency)
        return self._to_run({index: outcome.get() for index, outcome in zip(calls_to_run, outcomes, strict=True)})

    def _calls_to_run(self) -> dict[int, ToolCall]:
        known = self.known_results
        return {index: call for index, call in enumerate(self.calls) if index not in known and call.error is None}

    async def _aexec(self, call: ToolCall, options: CallOptions) -> ToolResult:
        return self._to_answer(call, await calls.aexecute(self.view, call.name, call.arguments, options))

    def _to_answer(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Return a result as the answer to a call, without an approval request that cannot be resumed.

        That is one of an inner call, and one that a tool has made itself.
        """
        meta, request = result.meta, result.meta.get("approval")
        if request is not None and not _is_request(request, call, self.view.store.secret_key):
            meta = {key: value for key, value in meta.items() if key != "approval"}
        return replace(result, id=call.id, meta=meta)

    def _track(self, stack: contextlib.ExitStack, call: ToolCall) -> CallOptions:
        """Return the options of a call that can be cancelled from now on, also while it waits."""
        scope = CallScope()
        stack.enter_context(self.view.store.active_calls.track(call.id, self.view.session_states, scope))
        return replace(self._call_options(call), scope=scope)

    def _call_options(self, call: ToolCall) -> CallOptions:
        return CallOptions(id=call.id, run_id=self.id, is_approved=self.is_approved)

    def _lock_key(self, call: ToolCall) -> Hashable | None:
        """Return the key of an exclusive call, of the inner call for `call_tool`; None if it is not exclusive."""
        entries = self.view.store.entries
        entry = entries.get(call.name)
        if entry is not None and entry.spec.function is model_tools.call_tool:
            call = model_tools.inner_call(call) or call
            entry = entries.get(call.name)
        return None if entry is None else lock_key(entry.exclusive, call.arguments)

    def _to_run(self, new_results: Mapping[int, ToolResult]) -> Run:
        """Return the run of all calls, with its messages unless some calls wait."""
        unreadable = {
            index: ToolResult(error=ErrorDetail(code="invalid_parameters", message=call.error), id=call.id)
            for index, call in enumerate(self.calls)
            if call.error is not None
        }
        results = {**unreadable, **self.known_results, **new_results}
        pairs = [(call, results[index]) for index, call in enumerate(self.calls)]
        requests = [result.meta["approval"] for _, result in pairs if "approval" in result.meta]
        pending = [ApprovalRequest.from_json(request) for request in requests]
        messages = [] if self.format is None or pending else formats.get(self.format).results(pairs)
        return Run(messages=messages, results=pairs, pending=pending, format=self.format)


def _is_request(data: Any, call: ToolCall, key: SecretKey) -> bool:
    """Return whether this is a request for a call, signed with the toolkit's key."""
    try:
        request = ApprovalRequest.from_json(data)
    except ToolSpecError:
        return False
    return request.call_id == call.id and request.is_signed_by(key)


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
