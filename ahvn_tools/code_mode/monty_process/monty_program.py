"""MontyProgram: one program in Monty, whose events are JSON data."""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pydantic_monty as monty

from ahvn_tools.code_mode.monty_process.messages import to_readable
from ahvn_tools.code_mode.sandbox import ProgramError
from ahvn_tools.code_mode.values import TooLargeError, convert
from ahvn_tools.json_types import JsonObject

_READ_SECONDS: Final = 5.0
"""How long reading values of the program may take; then this process ends. A tuple of tuples with shared parts, as the
key of a dict, is hashed for ever, and no Python code can run meanwhile."""

_NO_KEY: Final = "An object of a class of the program is a key of a dict or in a set. Use a text or a number there."

_TOO_LARGE: Final = (
    "The program was stopped, because a call needs an approval, and the program has too much data to be stored until "
    "then. Keep less data in the program."
)

_CALL_BYTES: Final = 1000
"""How much the arguments of a call may count here in addition: the host counts exactly."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End this process if the block takes longer, also in C code that holds the interpreter's lock.

    An outer limit goes on after the block.
    """
    outer_seconds, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, outer_seconds)


class MontyProgram:
    """One program in Monty, from event to event."""

    def __init__(self, session: Any, *, value_bytes: int, output_chars: int) -> None:
        """`value_bytes` limits the arguments of a call and the result; `output_chars` what is printed in all."""
        self._session, self._value_bytes = session, value_bytes
        self._state: Any = None
        self._functions: frozenset[str] = frozenset()
        self._printed: list[str] = []
        self._chars_left = output_chars + 1  # one more, so that the host notices
        """How many more characters the host wants to read."""

    def start(self, code: str, functions: Collection[str]) -> JsonObject:
        """Run the program to its first event."""
        self._functions = frozenset(functions)
        return self._run(lambda: self._session.feed_start(code, print_callback=self._print))

    def restore(self, snapshot: bytes, functions: Collection[str]) -> JsonObject:
        """Continue a program where the snapshot was made."""
        self._functions = frozenset(functions)
        return self._run(lambda: self._session.load_snapshot(snapshot, print_callback=self._print))

    def answer(self, answer: JsonObject) -> JsonObject:
        """Answer the call, and run to the next event."""
        return self._run(lambda: _answer(self._state, answer))

    def settle(self, answers: Mapping[str, JsonObject]) -> JsonObject:
        """Answer calls that the program waits for, and run to the next event."""
        return self._run(lambda: self._state.resume({int(key): _to_monty(answer) for key, answer in answers.items()}))

    def snapshot(self) -> bytes:
        """Return the whole state of the program. Raises ProgramError if there is no memory for it."""
        try:
            data: bytes = self._state.dump()
        except monty.MontyRuntimeError:  # the interpreter has ended
            raise ProgramError(_TOO_LARGE) from None
        return data

    def take_printed(self) -> str:
        """Return what the program has printed since the last time."""
        printed, self._printed = "".join(self._printed), []
        return printed

    def _print(self, _: str, text: str) -> None:
        kept = text[: self._chars_left]
        self._chars_left -= len(kept)
        if kept:
            self._printed.append(kept)

    def _run(self, step: Callable[[], Any]) -> JsonObject:
        try:
            self._state = step()
            while not isinstance(event := self._to_event(self._state), dict):
                self._state = event()
        except monty.MontyCrashedError:
            raise
        except monty.MontyError as error:
            text = (
                error.display() if isinstance(error, monty.MontyRuntimeError | monty.MontySyntaxError) else str(error)
            )
            raise ProgramError(to_readable(text)) from None
        return event

    def _to_event(self, state: Any) -> JsonObject | Callable[[], Any]:
        """Return the event of a state as JSON data; for one that the host does not see, what runs to the next."""
        if isinstance(state, monty.NameLookupSnapshot):
            name = state.variable_name
            is_known = state.object_id is None and name in self._functions
            return lambda: state.resume(value=_placeholder(name)) if is_known else state.resume()
        if isinstance(state, monty.FutureSnapshot):
            return {"event": "waiting", "ids": list(state.pending_call_ids)}
        if not isinstance(state, monty.FunctionSnapshot):
            return {"event": "finished", "value": self._read(lambda: state.output)}
        if state.is_os_function:
            return state.resume_not_handled
        if state.object_id is not None:
            return lambda: state.resume({"exc_type": "TypeError", "message": "This object has no methods."})
        return self._to_call(state)

    def _to_call(self, state: Any) -> JsonObject | Callable[[], Any]:
        function = str(state.function_name)
        try:
            args, kwargs = self._read(lambda: [state.args, state.kwargs])
        except ProgramError as error:
            text = f"{function}() was not called. {error}"
            return lambda: _answer(state, {"failure": text})
        return {
            "event": "call",
            "id": state.call_id,
            "function": function,
            "args": args,
            "kwargs": kwargs,
            "is_awaited": state.allow_eager_await,
        }

    def _read(self, read: Callable[[], Any]) -> Any:
        with time_limit(_READ_SECONDS):
            try:
                value = read()
            except TypeError:  # it has no hash
                raise ProgramError(_NO_KEY) from None
            try:
                return convert(value, self._value_bytes + _CALL_BYTES).value
            except TooLargeError:
                raise TooLargeError(self._value_bytes) from None


def _answer(state: Any, answer: JsonObject) -> Any:
    if "later" in answer:
        return state.resume({"future": ...})
    data = _to_monty(answer)
    if state.allow_eager_await:  # an awaited call is answered in two steps
        return state.resume({"future": ...}).resume({state.call_id: data})
    return state.resume(data)


def _to_monty(answer: JsonObject) -> Any:
    if "failure" in answer:
        return {"exc_type": "RuntimeError", "message": answer["failure"]}
    return {"return_value": answer["value"]}


def _placeholder(name: str) -> Callable[..., None]:
    """Return what a program holds when it reads a function without calling it."""

    def function() -> None: ...

    function.__name__ = function.__qualname__ = name
    return function
