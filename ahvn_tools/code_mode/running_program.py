"""RunningProgram: drives a program from event to event, and runs its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ahvn_tools.code_mode.limits import CodeLimits
from ahvn_tools.code_mode.program_state import ProgramCall, ProgramState
from ahvn_tools.code_mode.sandbox import (
    Answer,
    Event,
    Failure,
    Finished,
    FunctionCall,
    Later,
    SandboxSession,
    Value,
    Waiting,
)
from ahvn_tools.code_mode.stubs import ToolStub
from ahvn_tools.code_mode.values import to_json

RunCall = Callable[[ProgramCall], Awaitable[Any]]
"""Runs a call of a tool, and returns an Answer, or anything else for a call that nobody answers now."""


@dataclass(frozen=True)
class Suspended:
    """The program waits for calls that nobody answers now."""

    unanswered: dict[int, Any]
    """What `RunCall` returned, by the id of the call in the sandbox."""


class RunningProgram:
    """One program with the calls that it makes. Its calls run in the task of `run`, and end with it."""

    def __init__(
        self,
        session: SandboxSession,
        state: ProgramState,
        find_stub: Callable[[str], ToolStub | None],
        run_call: RunCall,
        *,
        limits: CodeLimits,
        max_concurrency: int,
    ) -> None:
        self._session, self._state, self._limits = session, state, limits
        self._find_stub, self._run_call = find_stub, run_call
        self._slots = asyncio.Semaphore(max_concurrency)
        self._tasks: dict[int, asyncio.Task[Any]] = {}

    def write(self, text: str) -> None:
        """Keep what the program prints."""
        left = self._limits.output_chars - len(self._state.output)
        self._state.output += text[:left]
        self._state.is_output_cut |= len(text) > left

    async def run(self, event: Event, answers: Mapping[int, Answer]) -> Finished | Suspended:
        """Run from an event to the end, or until only calls are left that nobody answers now.

        `answers` are those of waiting calls that are known already. Raises ProgramError when the program fails.
        """
        known = dict(answers)
        try:
            for key, call in self._state.waiting.items():
                if key not in known:
                    self._start(key, call)
            while not isinstance(event, Finished):
                answer = await (
                    self._answer(event, known) if isinstance(event, FunctionCall) else self._settle(event, known)
                )
                if isinstance(answer, Suspended):
                    return answer
                event = await (
                    self._session.settle(answer) if isinstance(answer, dict) else self._session.answer(answer)
                )
            await self._finish_calls()
            return event
        finally:
            await self._cancel_calls()

    async def _answer(self, event: FunctionCall, known: dict[int, Answer]) -> Answer | Later | Suspended:
        """Start a call; a program that does not await it waits here for its answer."""
        if event.id not in self._state.waiting:  # otherwise a restored program has made it before
            call = self._to_call(event)
            if isinstance(call, Failure):
                return call
            self._state.waiting[event.id] = call
            self._start(event.id, call)
        if self._state.awaits:
            return Later()
        answer = known.pop(event.id) if event.id in known else await self._tasks.pop(event.id)
        if not isinstance(answer, Value | Failure):
            return Suspended({event.id: answer})
        del self._state.waiting[event.id]
        return answer

    async def _settle(self, event: Waiting, known: dict[int, Answer]) -> dict[int, Answer] | Suspended:
        """Wait until a call of those that the program waits for has its answer."""
        while True:
            answers = {key: known.pop(key) for key in event.ids if key in known}
            tasks = {key: self._tasks[key] for key in sorted(event.ids) if key in self._tasks}
            for key, task in tasks.items():
                if task.done() and isinstance(answer := task.result(), Value | Failure):
                    answers[key] = answer
                    del self._tasks[key]
            for key in answers:
                del self._state.waiting[key]
            if answers:
                return answers
            running = [task for task in self._tasks.values() if not task.done()]
            if not running:
                return Suspended({key: task.result() for key, task in tasks.items()})
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)

    def _to_call(self, event: FunctionCall) -> ProgramCall | Failure:
        stub = self._find_stub(event.function)
        if stub is None:
            return Failure(f"There is no function {event.function!r}.")
        if self._state.calls_made >= self._limits.calls:
            return Failure(f"A program makes at most {self._limits.calls} calls.")
        self._state.calls_made += 1
        names = list(stub.parameters)
        if len(event.args) > len(names):
            return Failure(f"{event.function}() takes at most {len(names)} arguments, not {len(event.args)}.")
        positional = dict(zip(names, event.args, strict=False))
        if twice := positional.keys() & event.kwargs.keys():
            return Failure(f"{event.function}() got two values for {min(twice)!r}.")
        given = {**positional, **event.kwargs}
        arguments = {stub.parameters.get(name, name): to_json(value) for name, value in given.items()}
        return ProgramCall(number=self._state.calls_made, tool=stub.tool, arguments=arguments)

    def _start(self, key: int, call: ProgramCall) -> None:
        async def run() -> Any:
            async with self._slots:
                return await self._run_call(call)

        self._tasks[key] = asyncio.create_task(run())

    async def _finish_calls(self) -> None:
        """Wait for calls that the program has made and not awaited."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _cancel_calls(self) -> None:
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
