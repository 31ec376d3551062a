"""`to_sync` and `to_async` change who can call a function, and nothing else."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
from typing import Any

import pytest

from ahvn_tools import execution, tool
from ahvn_tools.errors import DefinitionError, SyncCallError

user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="no one")


async def greet(name: str, *, tone: str = "plain") -> str:
    """Greet."""
    await asyncio.sleep(0)
    return f"{tone}: {name} for {user.get()}"


def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


class Adder:
    async def aadd(self, a: int) -> int:
        return a + 1

    async def __call__(self, a: int) -> int:
        return a + 2


class TestToSync:
    def test_runs_an_async_function(self) -> None:
        assert execution.to_sync(greet)("Ann", tone="warm") == "warm: Ann for no one"

    def test_runs_inside_a_running_loop(self) -> None:
        async def main() -> str:
            return execution.to_sync(greet)("Ann")

        assert asyncio.run(main()) == "plain: Ann for no one"

    def test_the_context_variables_are_those_of_the_caller(self) -> None:
        context = contextvars.copy_context()
        context.run(user.set, "bob")
        assert context.run(execution.to_sync(greet), "Ann") == "plain: Ann for bob"

    def test_a_sync_function_is_returned_as_it_is(self) -> None:
        assert execution.to_sync(add) is add
        assert execution.to_sync(len) is len

    @pytest.mark.parametrize(
        ("function", "expected"),
        [
            (Adder().aadd, 2),
            (Adder(), 3),
            (functools.partial(Adder().aadd, 4), 5),
            (functools.partial(functools.partial(Adder()), 4), 6),
        ],
        ids=["method", "instance", "partial", "partial-instance"],
    )
    def test_other_async_callables_run_too(self, function: Any, expected: int) -> None:
        run = execution.to_sync(function)
        assert (run() if isinstance(function, functools.partial) else run(1)) == expected

    def test_the_exception_of_the_function_is_raised(self) -> None:
        async def fail() -> None:
            raise LookupError("nothing here")

        with pytest.raises(LookupError, match="nothing here"):
            execution.to_sync(fail)()

    def test_a_cancellation_by_the_function_is_raised(self) -> None:
        async def cancel() -> None:
            raise asyncio.CancelledError

        with pytest.raises(asyncio.CancelledError):
            execution.to_sync(cancel)()

    def test_it_refuses_to_wait_on_the_background_loop(self) -> None:
        @tool
        async def outer() -> str:
            return execution.to_sync(greet)("Ann")

        with pytest.raises(SyncCallError):
            outer()

    def test_name_and_docstring_are_kept(self) -> None:
        shifted = execution.to_sync(greet)
        assert (shifted.__name__, shifted.__doc__) == ("greet", "Greet.")
        assert not inspect.iscoroutinefunction(shifted)


@pytest.mark.parametrize("convert", [execution.to_sync, execution.to_async], ids=["to_sync", "to_async"])
class TestBoth:
    async def test_a_class_is_called_as_a_sync_function_whatever_its_instances_are(self, convert: Any) -> None:
        made = convert(Adder)()
        assert isinstance(await made if convert is execution.to_async else made, Adder)

    @pytest.mark.parametrize("wrong", [None, "greet"])
    def test_what_cannot_be_called_is_refused(self, convert: Any, wrong: Any) -> None:
        with pytest.raises(DefinitionError, match="is no function: pass one, or another object that can be called"):
            convert(wrong)


class TestToAsync:
    async def test_runs_a_sync_function_in_a_thread(self) -> None:
        threads = []

        def note(value: int, *, more: int) -> int:
            threads.append(threading.current_thread())
            return value + more

        assert await execution.to_async(note)(1, more=2) == 3
        assert threads != [threading.current_thread()]

    async def test_the_context_variables_are_those_of_the_caller(self) -> None:
        token = user.set("bob")
        try:
            assert await execution.to_async(user.get)() == "bob"
        finally:
            user.reset(token)

    async def test_a_stop_iteration_ends_the_wait(self) -> None:
        with pytest.raises(RuntimeError, match="StopIteration"):
            await asyncio.wait_for(execution.to_async(next)(iter([])), 5)

    async def test_a_function_whose_caller_left_is_counted_until_it_ends(self) -> None:
        started, may_end, ended = threading.Event(), threading.Event(), threading.Event()

        def wait() -> None:
            started.set()
            may_end.wait(5)
            ended.set()

        before = execution.abandoned()
        task = asyncio.create_task(execution.to_async(wait)())
        await asyncio.to_thread(started.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert execution.abandoned() == before + 1
        may_end.set()
        assert await asyncio.to_thread(ended.wait, 5)

    async def test_an_async_function_is_returned_as_it_is(self) -> None:
        instance = Adder()
        assert execution.to_async(greet) is greet
        assert execution.to_async(instance) is instance

    async def test_builtins_and_partials_work(self) -> None:
        assert await execution.to_async(len)("tea") == 3
        assert await execution.to_async(functools.partial(add, 2))(3) == 5

    async def test_name_and_docstring_are_kept(self) -> None:
        shifted = execution.to_async(add)
        assert (shifted.__name__, shifted.__doc__) == ("add", "Add.")
        assert inspect.iscoroutinefunction(shifted)
