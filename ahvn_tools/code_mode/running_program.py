"""RunningProgram: drives a program from event to event, and runs its calls; ProgramState: what the host knows of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ahvn_tools.code_mode.code_limits import CodeLimits
from ahvn_tools.code_mode.sandbox import (
    Answer,
    Event,
    Failure,
    Finished,
    FunctionCall,
    Later,
    ProgramError,
    SandboxSession,
    Value,
    Waiting,
)
from ahvn_tools.code_mode.stubs import ToolStub
from ahvn_tools.code_mode.values import require_finite, to_json
from ahvn_tools.json_types import JsonObject


@dataclass(frozen=True, kw_only=True)
class ProgramCall:
    """A call of a tool that a program makes."""

    number: int
    """Counted from 1, in the order of the calls."""
    tool: str
    arguments: JsonObject


@dataclass(kw_only=True)
class ProgramState:
    """What the host knows of a program, apart from what the sandbox knows."""

    awaits: bool
    calls_made: int = 0
    output: str = ""
    is_output_cut: bool = False
    contents: dict[str, JsonObject] = field(default_factory=dict)
    """The images and files that calls have returned, as MCP content blocks, by the names that the program holds."""
    run_id: str | None = None
    """The `run_id` of its calls, which stays when the program has waited; None: it has not begun."""
    ends_session: bool = False
    """Whether a call has requested the end of the session."""
    finish_call: ProgramCall | None = None
    """The last call with the fields of `finish_with`."""
    waiting: dict[int, ProgramCall] = field(default_factory=dict)
    """The calls that have no answer yet, by their id in the sandbox."""


RunCall = Callable[[ProgramCall], Awaitable[Any]]
"""Runs a call of a tool, and returns an Answer, or anything else for a call that nobody answers now."""


@dataclass(frozen=True)
class Suspended:
    """The program waits for calls that nobody answers now."""

    unanswered: dict[int, Any]
    """What `RunCall` returned, by the id of the call in the sandbox."""
    event: Event
    """Where the program stands."""


class RunningProgram:
    """One program with the calls that it makes. Its calls run in the task of `run`, and end with it."""

    def __init__(
        self,
        session: SandboxSession,
        state: ProgramState,
        find_stub: Callable[[str], ToolStub | Failure],
        run_call: RunCall,
        *,
        limits: CodeLimits,
    ) -> None:
        self._session, self._state, self._limits = session, state, limits
        self._find_stub, self._run_call = find_stub, run_call
        self._tasks: dict[int, asyncio.Future[Any]] = {}
        self._sizes: Counter[int] = Counter()
        """What the arguments and results of unanswered calls count, by the ids of the calls."""
        self.lost_calls: list[ProgramCall] = []
        """The calls that nobody answers now, of a program that has ended without awaiting them."""

    def write(self, text: str) -> None:
        """Keep what the program prints."""
        left = self._limits.output_chars - len(self._state.output)
        self._state.output += text[:left]
        self._state.is_output_cut |= len(text) > left

    async def run(self, event: Event, known: Mapping[int, Any]) -> Finished | Suspended:
        """Run from an event to the end, or until only calls are left that nobody answers now.

        `known` is what `RunCall` has returned already for some of the waiting calls; the others are run. Raises
        ProgramError when the program fails.
        """
        try:
            for key, call in self._state.waiting.items():
                if key in known:
                    self._tasks[key] = asyncio.get_running_loop().create_future()
                    self._tasks[key].set_result(known[key])
                else:
                    self._start(key, call)
            while not isinstance(event, Finished):
                answer = await (self._answer(event) if isinstance(event, FunctionCall) else self._settle(event))
                if isinstance(answer, Suspended):
                    return answer
                event = await (
                    self._session.settle(answer) if isinstance(answer, dict) else self._session.answer(answer)
                )
            await self._finish_calls()
            result = (await to_json(event.value, self._limits.value_bytes)).value
            require_finite(result)
            return Finished(value=result)
        finally:
            await self._cancel_calls()

    async def _answer(self, event: FunctionCall) -> Answer | Later | Suspended:
        """Start a call; a program that does not await it waits here for its answer."""
        if event.id not in self._state.waiting:  # otherwise a restored program has made it before
            call = await self._to_call(event)
            if isinstance(call, Failure):
                return call
            self._state.waiting[event.id] = call
            self._start(event.id, call)
        if self._state.awaits and not event.is_awaited:
            return Later()
        task = self._tasks[event.id]
        await asyncio.wait([task])  # a tool that ignores its cancellation must not end that of the program, too
        del self._tasks[event.id]
        answer = task.result()
        if not isinstance(answer, Value | Failure):
            return Suspended({event.id: answer}, event)
        self._forget(event.id)
        return answer

    async def _settle(self, event: Waiting) -> dict[int, Answer] | Suspended:
        """Wait until a call of those that the program waits for has its answer."""
        while True:
            answers: dict[int, Answer] = {}
            tasks = {key: self._tasks[key] for key in sorted(event.ids) if key in self._tasks}
            for key, task in tasks.items():
                if task.done() and isinstance(answer := task.result(), Value | Failure):
                    answers[key] = answer
                    del self._tasks[key]
            for key in answers:
                self._forget(key)
            if answers:
                return answers
            running = [task for task in self._tasks.values() if not task.done()]
            if not running:
                return Suspended({key: task.result() for key, task in tasks.items()}, event)
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)

    async def _to_call(self, event: FunctionCall) -> ProgramCall | Failure:
        stub = self._find_stub(event.function)
        if isinstance(stub, Failure):
            return stub
        if self._state.calls_made >= self._limits.calls:
            return Failure(f"A program makes at most {self._limits.calls} calls.")
        self._state.calls_made += 1
        names = list(stub.parameters)
        if len(event.args) > len(names):
            return Failure(f"{event.function}() takes at most {len(names)} arguments, not {len(event.args)}.")
        positional = dict(zip(names, event.args, strict=False))
        if twice := positional.keys() & event.kwargs.keys():
            return Failure(f"{event.function}() got two values for {min(twice)!r}.")
        given = {stub.parameters.get(name, name): value for name, value in {**positional, **event.kwargs}.items()}
        if len(given) < len(positional) + len(event.kwargs):
            return Failure(f"{event.function}() got two values for one parameter.")
        try:
            arguments = await to_json(given, self._limits.value_bytes)
            self._hold(event.id, arguments.size)
        except ProgramError as error:
            return Failure(f"{event.function}() was not called. {error}")
        return ProgramCall(number=self._state.calls_made, tool=stub.tool, arguments=arguments.value)

    def _start(self, key: int, call: ProgramCall) -> None:
        async def run() -> Any:
            answer = await self._run_call(call)
            return await self._to_program(key, answer) if isinstance(answer, Value) else answer

        self._tasks[key] = asyncio.create_task(run())

    async def _to_program(self, key: int, answer: Value) -> Answer:
        try:
            result = await to_json(answer.value, self._limits.memory_bytes, is_from_program=False)
            self._hold(key, result.size)
        except ProgramError as error:
            return Failure(f"The call was made, and the program cannot receive its result. {error}")
        return Value(result.value)

    def _hold(self, key: int, size: int) -> None:
        """Count what the host keeps for a call until it is answered. Raises ProgramError for too much in all."""
        limit = self._limits.memory_bytes
        if self._sizes.total() + size > limit:
            raise ProgramError(f"Unanswered calls have more than {limit:,} bytes. Await calls before you make others.")
        self._sizes[key] += size

    def _forget(self, key: int) -> None:
        """Forget a call that is answered."""
        del self._state.waiting[key]
        del self._sizes[key]

    async def _finish_calls(self) -> None:
        """Wait for calls that the program has made and not awaited."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        for key, task in self._tasks.items():
            if not isinstance(task.result(), Value | Failure):
                self.lost_calls.append(self._state.waiting[key])

    async def _cancel_calls(self) -> None:
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
