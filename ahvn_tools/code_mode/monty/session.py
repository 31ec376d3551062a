"""MontySession: one program in a worker process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pydantic_monty as monty

from ahvn_tools.code_mode.monty.messages import to_readable
from ahvn_tools.code_mode.monty.worker import MontyWorker
from ahvn_tools.code_mode.sandbox import (
    Answer,
    Event,
    Finished,
    FunctionCall,
    Later,
    Program,
    ProgramError,
    Value,
    Waiting,
)


class MontySession:
    """One program in a worker process."""

    def __init__(self, worker: MontyWorker, seconds: float) -> None:
        """`seconds`: how long the program itself runs at most."""
        self._worker, self._seconds = worker, seconds
        self._state: Any = None
        self._functions: frozenset[str] = frozenset()

    async def start(self, program: Program, write: Callable[[str], None]) -> Event:
        """Run the program to its first event."""
        self._functions = frozenset(program.functions)
        return await self._run(
            lambda session: session.feed_start(program.code, print_callback=lambda _, text: write(text))
        )

    async def restore(self, snapshot: bytes, functions: Collection[str], write: Callable[[str], None]) -> Event:
        """Continue a program where the snapshot was made."""
        self._functions = frozenset(functions)
        return await self._run(
            lambda session: session.load_snapshot(snapshot, print_callback=lambda _, text: write(text))
        )

    async def answer(self, answer: Answer | Later) -> Event:
        """Answer the call, and run to the next event."""
        state, data = self._state, {"future": ...} if isinstance(answer, Later) else _to_monty(answer)
        if state.allow_eager_await and not isinstance(answer, Later):  # an awaited call is answered in two steps
            return await self._run(lambda _: state.resume({"future": ...}).resume({state.call_id: data}))
        return await self._run(lambda _: state.resume(data))

    async def settle(self, answers: Mapping[int, Answer]) -> Event:
        """Answer calls that the program waits for, and run to the next event."""
        state, data = self._state, {key: _to_monty(answer) for key, answer in answers.items()}
        return await self._run(lambda _: state.resume(data))

    async def snapshot(self) -> bytes:
        """Return the whole state of the program."""
        state = self._state
        data: bytes = await self._worker.run(lambda _: state.dump())
        return data

    async def _run(self, step: Callable[[Any], Any]) -> Event:
        try:
            state = await self._worker.run(lambda session: self._to_next_call(step(session)), self._seconds)
        except monty.MontyError as error:
            text = (
                error.display() if isinstance(error, monty.MontyRuntimeError | monty.MontySyntaxError) else str(error)
            )
            raise ProgramError(to_readable(text)) from None
        self._state = state
        return _to_event(state)

    def _to_next_call(self, state: Any) -> Any:
        """Answer what is no call of a function of the host: lookups of names, and calls of the operating system."""
        while True:
            if isinstance(state, monty.NameLookupSnapshot):
                name = state.variable_name
                is_known = state.object_id is None and name in self._functions
                state = state.resume(value=_placeholder(name)) if is_known else state.resume()
            elif isinstance(state, monty.FunctionSnapshot) and state.is_os_function:
                state = state.resume_not_handled()
            elif isinstance(state, monty.FunctionSnapshot) and state.object_id is not None:
                state = state.resume({"exc_type": "TypeError", "message": "This object has no methods."})
            else:
                return state


def _to_event(state: Any) -> Event:
    if isinstance(state, monty.FunctionSnapshot):
        return FunctionCall(
            id=state.call_id,
            function=str(state.function_name),
            args=state.args,
            kwargs=state.kwargs,
            is_awaited=state.allow_eager_await,
        )
    if isinstance(state, monty.FutureSnapshot):
        return Waiting(ids=tuple(state.pending_call_ids))
    return Finished(value=state.output)


def _to_monty(answer: Answer) -> Any:
    if isinstance(answer, Value):
        return {"return_value": answer.value}
    return {"exc_type": "RuntimeError", "message": answer.message}


def _placeholder(name: str) -> Callable[..., None]:
    """Return what a program holds when it reads a function without calling it."""

    def function() -> None: ...

    function.__name__ = function.__qualname__ = name
    return function
