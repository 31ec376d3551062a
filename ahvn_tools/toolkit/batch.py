"""Batch: all calls of one answer of a model, run in parallel, with their results in the order of the calls."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import uuid
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ahvn_tools.execution import background_loop
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.execution.scope import CallScope
from ahvn_tools.results import ErrorDetail, ToolCall, ToolResult
from ahvn_tools.toolkit import calls, search_tools
from ahvn_tools.toolkit.calls import CallOptions
from ahvn_tools.toolkit.locks import ALONE, lock_key
from ahvn_tools.toolkit.run_result import Run
from ahvn_tools.toolkit.visibility import StoreView

Result = TypeVar("Result")


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
        indexes = self._indexes_to_run()
        if len(indexes) > 1:
            run: Run = background_loop.run(capture_outcome, self.arun).get()
            return run
        return self._to_run({index: self._exec(self.calls[index]) for index in indexes})

    async def arun(self) -> Run:
        """Run the calls from async code; exclusive ones in their order."""
        indexes = self._indexes_to_run()
        selected = [self.calls[index] for index in indexes]
        if len(selected) == 1:
            return self._to_run({indexes[0]: await self._aexec(selected[0], self._call_options(selected[0]))})
        keys = [self._lock_key(call) for call in selected]
        with contextlib.ExitStack() as tracked:
            options = [self._track(tracked, call) for call in selected]
            # `capture_outcome`, because a SystemExit must not reach the loop
            jobs = [
                functools.partial(capture_outcome, self._aexec, *job) for job in zip(selected, options, strict=True)
            ]
            outcomes = await run_in_order(jobs, keys, self.view.store.max_concurrency)
        return self._to_run({index: outcome.get() for index, outcome in zip(indexes, outcomes, strict=True)})

    def _indexes_to_run(self) -> list[int]:
        return [index for index in range(len(self.calls)) if index not in self.known_results]

    def _exec(self, call: ToolCall) -> ToolResult:
        return _result_if_unreadable(call) or _to_answer(
            call, calls.execute(self.view, call.name, call.arguments, self._call_options(call))
        )

    async def _aexec(self, call: ToolCall, options: CallOptions) -> ToolResult:
        return _result_if_unreadable(call) or _to_answer(
            call, await calls.aexecute(self.view, call.name, call.arguments, options)
        )

    def _track(self, stack: contextlib.ExitStack, call: ToolCall) -> CallOptions:
        """Return the options of a call that can be cancelled from now on, also while it waits."""
        scope = CallScope()
        stack.enter_context(self.view.store.active_calls.track(call.id, self.view.session_states, scope))
        return replace(self._call_options(call), scope=scope)

    def _call_options(self, call: ToolCall) -> CallOptions:
        return CallOptions(id=call.id, run_id=self.id, is_approved=self.is_approved)

    def _lock_key(self, call: ToolCall) -> Hashable | None:
        """Return the key of an exclusive call, of the inner call for `call_tool`; None if it is not exclusive."""
        if call.error is not None:
            return None
        entries = self.view.store.entries
        entry = entries.get(call.name)
        if entry is not None and entry.spec.function is search_tools.call_tool:
            call = search_tools.inner_call(call) or call
            entry = entries.get(call.name)
        return None if entry is None else lock_key(entry.exclusive, call.arguments)

    def _to_run(self, new_results: Mapping[int, ToolResult]) -> Run:
        results = {**self.known_results, **new_results}
        return Run.from_results([(call, results[index]) for index, call in enumerate(self.calls)], self.format)


def _to_answer(call: ToolCall, result: ToolResult) -> ToolResult:
    """Return a result as the answer to a call, without the approval request of an inner call: it cannot be resumed."""
    meta, request = result.meta, result.meta.get("approval")
    if request is not None and not (isinstance(request, Mapping) and request.get("call_id") == call.id):
        meta = {key: value for key, value in meta.items() if key != "approval"}
    return replace(result, id=call.id, meta=meta)


def _result_if_unreadable(call: ToolCall) -> ToolResult | None:
    """Return the error result of a call that could not be parsed; None for one that can run."""
    if call.error is None:
        return None
    return ToolResult(error=ErrorDetail(code="invalid_parameters", message=call.error), id=call.id)


async def run_in_order(
    jobs: Sequence[Callable[[], Awaitable[Result]]], keys: Sequence[Hashable | None], max_concurrency: int
) -> list[Result]:
    """Run jobs concurrently, at most `max_concurrency` at once, and return their results in order. Jobs do not raise.

    A job runs after the earlier ones with the same key; one with the key ALONE after all earlier and before all later
    ones. A job waits for those first, and for a slot last, so that no waiting job holds a slot.
    """
    slots = asyncio.Semaphore(max_concurrency)
    last_alone: list[asyncio.Event] = []
    since_alone: list[asyncio.Event] = []
    last_of_key: dict[Hashable, asyncio.Event] = {}

    async def run(job: Callable[[], Awaitable[Result]], before: list[asyncio.Event], done: asyncio.Event) -> Result:
        try:
            for event in before:
                await event.wait()
            async with slots:
                return await job()
        finally:
            done.set()

    async with asyncio.TaskGroup() as group:
        tasks = []
        for job, key in zip(jobs, keys, strict=True):
            done = asyncio.Event()
            if key == ALONE:
                before = [*last_alone, *since_alone]
                last_alone, since_alone, last_of_key = [done], [], {}
            else:
                before = [*last_alone, *([last_of_key[key]] if key in last_of_key else [])]
                since_alone.append(done)
                if key is not None:
                    last_of_key[key] = done
            tasks.append(group.create_task(run(job, before, done)))
    return [task.result() for task in tasks]
