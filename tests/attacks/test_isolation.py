"""Attacks on isolation: what a body leaves in its worker or sends back, and workers that end at a bad moment."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import decimal
import functools
import gc
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from ahvn_tools import ToolContext, Toolkit, ToolResult, execution
from ahvn_tools.execution.workers import worker_process
from tests.attacks.attack import CANARY, Attack, all_of, ends_with, equals, rows, shows_nothing
from tests.execution.entry_points import until
from tests.execution.workers.conftest import no_worker_is_left

__all__ = ["no_worker_is_left"]

WAIT = 10.0
"""Seconds that an attack waits at most for something that should happen at once."""


def isolated(*bodies: Callable[..., Any], **options: Any) -> Toolkit:
    """Return a toolkit of isolated tools."""
    kit = Toolkit("attacked")
    for body in bodies:
        kit.add(body, isolation="process", **options)
    return kit


def still_works(act: Callable[[], Any]) -> Callable[[], Any]:
    """Return what an attack brought, and whether the next call in any worker works."""

    def acted() -> Any:
        value = act()

        def double(number: int) -> int:
            return 2 * number

        kit = isolated(double)
        return [value, [kit.call("double", {"number": number}) for number in (1, 2)]]

    return acted


WORKS = [2, 4]

# What a body leaves for the next call


@functools.cache
def states_of_a_worker() -> list[dict[str, str]]:
    """Look at a worker, change all that can be changed there, and look again in the next call."""

    def change() -> None:
        for changes, _ in CHANGES.values():
            changes()

    def look() -> dict[str, str]:
        return {what: repr(looks()) for what, (_, looks) in CHANGES.items()}

    kit = isolated(change, look)
    before = kit.call("look")
    try:
        kit.call("change")
        return [before, kit.call("look")]
    finally:
        worker_process.process_pool.end_idle()


def left_alone(what: str) -> Callable[[], bool]:
    """Say whether the next call in a worker sees what it saw before."""

    def act() -> bool:
        before, after = states_of_a_worker()
        return before[what] == after[what]

    return act


CHANGES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "another directory": (lambda: os.chdir("/"), os.getcwd),
    "an environment variable": (lambda: os.environ.update(LEFT="x"), lambda: os.environ.get("LEFT")),
    "another import path": (lambda: sys.path.insert(0, "/tmp"), lambda: sys.path[0]),
    "a context variable": (lambda: setattr(decimal.getcontext(), "prec", 5), lambda: decimal.getcontext().prec),
}
"""What a body may change in its worker: what changes it, and what shows it."""


def values_of_the_last_call(*, fails: bool) -> Callable[[], list[Any]]:
    """Search the memory of a worker for what the call before it received."""

    def act() -> list[Any]:
        def keep(token: str, text: str) -> str:
            if fails:
                raise ValueError(text)
            return text

        def search(turned: str) -> list[str]:
            token = turned[::-1]
            found = []
            for one in gc.get_objects():
                parts = one.values() if isinstance(one, dict) else one if isinstance(one, list | tuple) else ()
                found += [type(one).__name__ for part in list(parts) if type(part) is str and part == token]
            return found

        kit = isolated(keep, search)
        token = secrets.token_hex()
        kit.exec("keep", {"token": token, "text": "hello"})
        return list(kit.call("search", {"turned": token[::-1]}))

    return act


def context_of_the_last_call() -> list[Any]:
    """Keep a ToolContext in the worker, and use it in the call of another session."""

    def body(user: str, context: ToolContext) -> str:
        kept = builtins.__dict__.setdefault("kept", [])
        for other in kept:
            other.append_output("of ann")
            other.report_progress(1, 2, "of ann")
            other.end_session()
        kept.append(context)
        return user

    kit = isolated(body)
    return [
        [(result.value, result.is_interrupted) for result in kit.stream("body", {"user": user})]
        for user in ("ann", "bob")
    ]


# What a body sends back


class Unpickled:
    """A value that calls a function when it is unpickled."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.reduced = (function, arguments)

    def __reduce__(self) -> Any:
        return self.reduced


class Exploding(Exception):
    """An exception that calls a function when it is unpickled."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        super().__init__("exploding")
        self.reduced = (function, arguments)

    def __reduce__(self) -> Any:
        return self.reduced


def leave(kind: type[BaseException]) -> Any:
    raise kind("in the caller")


may_end = threading.Event()
"""Set in the calling process only."""


def wait_in_the_caller(parent: int) -> Any:
    if os.getpid() == parent:
        may_end.wait(WAIT)
    return ValueError("late")


def returned(*reduced: Any) -> Callable[[], list[ToolResult]]:
    """Return and raise what calls a function when the caller unpickles it."""

    def act() -> list[ToolResult]:
        def returns() -> Any:
            return Unpickled(*reduced)

        def raises() -> Any:
            raise Exploding(*reduced)

        kit = isolated(returns, raises)
        results: list[Any] = []
        for name in ("returns", "raises"):
            try:
                results.append(kit.exec(name))
            except BaseException as error:
                results.append(type(error).__name__)
        return results

    return still_works(act)


def all_are_errors(outcome: Any) -> bool:
    """Each way is an error result, and the workers work."""
    return (
        outcome.error is None
        and len(outcome.value[0]) == 2
        and all(isinstance(result, ToolResult) and result.is_error for result in outcome.value[0])
        and outcome.value[1] == WORKS
    )


def unpickled_slowly(kind: type[Any]) -> Callable[[], list[Any]]:
    """Send what hangs in the caller when it is unpickled."""

    def act() -> list[Any]:
        parent = os.getpid()

        def body() -> Any:
            if kind is Exploding:
                raise Exploding(wait_in_the_caller, parent)
            return Unpickled(wait_in_the_caller, parent)

        may_end.clear()
        try:
            result = isolated(body, timeout=1.0).exec("body")
            return [result.error and result.error.code, may_end.is_set()]
        finally:
            may_end.set()
            until(lambda: execution.abandoned() == 0)

    return act


def raised(make: Callable[[], BaseException]) -> Callable[[], Any]:
    """Raise an exception in a worker, by a function and by a generator after its first item."""

    def act() -> list[ToolResult]:
        def at_once() -> None:
            raise make()

        def later() -> Iterator[int]:
            yield 1
            raise make()

        kit = isolated(at_once, later)
        return [kit.exec("at_once"), *kit.stream("later")]

    return still_works(act)


def codes(outcome: Any) -> list[str | None]:
    return [result.error.code if result.error else None for result in outcome.value[0]]


def in_a_circle() -> BaseException:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    return one


def nested_groups() -> BaseException:
    group: Exception = ValueError("inner")
    for _ in range(50):
        group = ExceptionGroup("g", [group])
    return group


def bound_value_in_traceback() -> list[ToolResult]:
    """Raise with a bound value, through every way that brings an exception back."""

    def body(token: str) -> str:
        error = ValueError(f"cannot use {token}")
        error.add_note(token)
        raise error from KeyError(token)

    kit = isolated(body).bind("token", secret=True)
    session = kit.session(token=CANARY)
    return [session.exec("body"), *session.stream("body"), asyncio.run(session.aexec("body"))]


# Workers that end at a bad moment


class KilledWhenPickled:
    def __reduce__(self) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def killed(body: Callable[..., Any]) -> Callable[[], Any]:
    return still_works(lambda: list(isolated(body).stream("body")))


def in_the_body() -> Any:
    def body() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    return body


def between_items() -> Any:
    def body() -> Iterator[int]:
        yield 1
        os.kill(os.getpid(), signal.SIGKILL)
        yield 2

    return body


def with_the_result() -> Any:
    def body() -> Any:
        return KilledWhenPickled()

    return body


def by_a_child() -> Any:
    def body() -> None:
        pid = os.getpid()
        if os.fork() == 0:
            os.kill(pid, signal.SIGKILL)
            os._exit(0)
        time.sleep(WAIT)

    return body


def by_a_thread() -> Any:
    def body() -> None:
        threading.Thread(target=os._exit, args=(0,)).start()
        time.sleep(WAIT)

    return body


def last_is(code: str) -> Callable[[Any], bool]:
    return lambda outcome: (
        outcome.error is None
        and outcome.value[0][-1].is_last
        and outcome.value[0][-1].error is not None
        and outcome.value[0][-1].error.code == code
        and outcome.value[1] == WORKS
    )


def killed_while_idle() -> Any:
    """Kill all idle workers, and call at once."""

    def act() -> int:
        def one() -> int:
            return 1

        kit = isolated(one)
        kit.call("one")
        for pid in [idle.process_id for idle in worker_process.process_pool.idle]:
            os.kill(pid, signal.SIGKILL)
        return int(kit.call("one"))

    return still_works(act)()


def killed_in_a_nested_call() -> Any:
    """Kill the worker of a worker."""

    def outer() -> str:
        from ahvn_tools import Toolkit

        def inner() -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        result = Toolkit("inner").add(inner, isolation="process").exec("inner")
        return str(result.error and result.error.code)

    return isolated(outer).call("outer")


# Streams and cancellation


def left_stream() -> Any:
    """Leave the stream of a generator that ignores its end."""

    def act() -> bool:
        def body() -> Iterator[int]:
            yield os.getpid()
            while True:
                with contextlib.suppress(GeneratorExit):
                    yield 1

        stream = isolated(body).stream("body")
        pid = next(stream).value
        stream.close()
        return until(lambda: not psutil.pid_exists(pid))

    return still_works(act)()


def cancelled(phase: str) -> Callable[[], Any]:
    """Cancel a call in one of its phases."""

    async def cancel() -> list[ToolResult]:
        def body() -> Iterator[int]:
            yield 1
            yield 2
            yield 3

        kit = isolated(body)
        results = []
        if phase == "before it starts":
            task = asyncio.create_task(kit.aexec("body", call_id="c1"))
            await asyncio.sleep(0)
            kit.cancel("c1")
            return [await task]
        async for result in kit.astream("body", call_id="c1"):
            results.append(result)
            if result.value == {"at the first item": 1, "at the last item": 3}[phase]:
                kit.cancel("c1")
        return results

    return still_works(lambda: asyncio.run(cancel()))


def cancelled_in_a_row() -> Any:
    """Cancel the task of a call in each of many moments: none leaves a worker busy."""

    async def cancel() -> int:
        def body() -> int:
            return 1

        kit = isolated(body)
        await kit.acall("body")
        for number in range(20):
            task = asyncio.create_task(kit.acall("body"))
            for _ in range(number):
                await asyncio.sleep(0.0005)
            task.cancel()
            await asyncio.wait({task})
        return int(await kit.acall("body"))

    return still_works(lambda: asyncio.run(cancel()))()


def large_items() -> Any:
    """Yield items much larger than a pipe holds, to a reader that reads one and waits."""

    def body() -> Iterator[str]:
        yield from (letter * 3_000_000 for letter in "abc")

    return [(len(result.value), result.value[0][0]) for result in isolated(body).stream("body")]


def abandoned_streams() -> Any:
    """Open more streams than there are slots, and drop them unread or after one item."""

    def act() -> bool:
        def body() -> Iterator[int]:
            yield 1
            yield 2

        kit = isolated(body)
        streams = [kit.stream("body") for _ in range(12)]
        for stream in streams[:3]:
            next(stream)
        del streams, stream
        gc.collect()
        return bool(kit.call("body") == [1, 2])

    return still_works(act)()


ATTACKS = [
    # What a body leaves for the next call
    *[Attack(f"left: {what}", left_alone(what), equals(True)) for what in CHANGES],
    Attack("the arguments of a call, in memory", values_of_the_last_call(fails=False), equals([])),
    Attack("the arguments of a call that failed, in memory", values_of_the_last_call(fails=True), equals([])),
    Attack("a context that is used later", context_of_the_last_call, equals([[("ann", False)], [("bob", False)]])),
    # What a body sends back
    Attack("SystemExit when it is unpickled", returned(leave, SystemExit), all_are_errors),
    Attack("KeyboardInterrupt when it is unpickled", returned(leave, KeyboardInterrupt), all_are_errors),
    Attack("CancelledError when it is unpickled", returned(leave, asyncio.CancelledError), all_are_errors),
    Attack("a text in place of an exception", returned(str, "no exception"), lambda o: o.value[0][1].is_error),
    Attack("a result that hangs when it is unpickled", unpickled_slowly(Unpickled), equals(["timeout", False])),
    Attack("an exception that hangs when it is unpickled", unpickled_slowly(Exploding), equals(["timeout", False])),
    *[
        Attack(
            f"an exception: {what}",
            raised(make),
            lambda outcome, code=code: outcome.value[1] == WORKS and codes(outcome) == [code, None, code],
        )
        for what, make, code in (
            ("CancelledError", lambda: asyncio.CancelledError("x"), "cancelled"),
            ("StopIteration", lambda: StopIteration("x"), "tool_error"),
            ("its own cause", in_a_circle, "tool_error"),
            ("fifty groups in groups", nested_groups, "tool_error"),
        )
    ],
    Attack("a bound value in an exception", bound_value_in_traceback, all_of(ends_with("tool_error"), shows_nothing)),
    # Workers that end at a bad moment
    *[
        Attack(f"a worker killed {what}", killed(make()), last_is("connection"))
        for what, make in {
            "in the body": in_the_body,
            "between items": between_items,
            "with the result": with_the_result,
            "by its child": by_a_child,
            "by its thread": by_a_thread,
        }.items()
    ],
    Attack("workers killed while idle", killed_while_idle, equals([1, WORKS])),
    Attack("a worker of a worker killed", killed_in_a_nested_call, equals("connection")),
    # Streams and cancellation
    Attack("a stream left whose generator ignores it", left_stream, equals([True, WORKS])),
    *[
        Attack(f"cancelled {phase}", cancelled(phase), last_is("cancelled"))
        for phase in ("before it starts", "at the first item", "at the last item")
    ],
    Attack("cancelled in many moments", cancelled_in_a_row, equals([1, WORKS])),
    Attack(
        "items larger than a pipe",
        large_items,
        equals([(3_000_000, "a"), (3_000_000, "b"), (3_000_000, "c"), (3, "a")]),
    ),
    Attack("streams that nobody reads to their end", abandoned_streams, equals([True, WORKS])),
]


EXHAUSTIVE = ("a worker killed", "when it is unpickled", "in many moments", "to their end")
"""Parts of the names of attacks that start many workers."""


def marked_rows() -> list[Any]:
    """Return the rows, of which those that start many workers are exhaustive."""
    return [
        pytest.param(*row.values, id=row.id, marks=[*row.marks, pytest.mark.exhaustive])
        if any(part in str(row.id) for part in EXHAUSTIVE)
        else row
        for row in rows(ATTACKS)
    ]


@pytest.mark.parametrize("attack", marked_rows())
def test_what_must_hold_holds(attack, carry_out):
    outcome = carry_out(attack)
    assert attack.holds(outcome), outcome
