"""What makes a call exclusive: the key of a call, from the arguments as the tool receives them."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, SecretStr

from ahvn_tools import ToolCall, Toolkit, ToolResult
from ahvn_tools.toolkit.exclusive import ALONE, ParameterKey, find_key

METHODS: dict[str, Callable[..., Any]] = {
    "exec": lambda kit, arguments: kit.exec("write", arguments),
    "aexec": lambda kit, arguments: asyncio.run(kit.aexec("write", arguments)),
    "stream": lambda kit, arguments: list(kit.stream("write", arguments))[-1],
    "astream": lambda kit, arguments: asyncio.run(last_of(kit, arguments)),
    "arun": lambda kit, arguments: asyncio.run(kit.arun(calls_of(arguments, arguments))).results[-1][1],
}


async def last_of(kit: Toolkit, arguments: dict[str, Any]) -> ToolResult:
    return [result async for result in kit.astream("write", arguments)][-1]


def calls_of(*arguments: dict[str, Any]) -> list[ToolCall]:
    return [ToolCall(id=str(i), name="write", arguments=each) for i, each in enumerate(arguments)]


def lower(path: str) -> str:
    return path.lower()


def kit_of(exclusive: Any, *, timeout: float | None = None) -> Toolkit:
    kit = Toolkit("files")

    def write(path: Annotated[str, AfterValidator(lower)] = "a", count: int = 1, key: SecretStr | None = None) -> str:
        return path

    options: Any = {} if timeout is None else {"timeout": timeout}
    return kit.add(write, exclusive=exclusive, **options)


@pytest.mark.parametrize(
    ("exclusive", "arguments", "key"),
    [
        (True, {}, ALONE),
        (False, {}, None),
        (ParameterKey("path"), {"path": "a"}, ("by function", ("path", "a"))),
        (ParameterKey("path"), {"path": {"b": 1, "a": [2]}}, ("by function", ("path", '{"a": [2], "b": 1}'))),
        (ParameterKey("path"), {}, ("by function", ("path", None))),
        (lambda arguments: arguments["n"] % 2, {"n": 3}, ("by function", 1)),
        (lambda arguments: None, {}, None),
        (lambda arguments: arguments["n"], {}, ALONE),
        (lambda arguments: [], {}, ALONE),
        (lambda arguments: sys.exit(), {}, ALONE),
    ],
)
async def test_the_key_is_computed_from_the_arguments(exclusive, arguments, key):
    assert await find_key(exclusive, arguments) == key


@pytest.mark.parametrize(
    ("one", "other", "are_one"),
    [
        (1, 1.0, True),
        (1, "1", True),
        (["a"], '["a"]', True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        (1, 2, False),
        (1, True, False),
        (1.5, 1, False),
        ("a", "A", False),
    ],
    ids=str,
)
def test_values_that_a_tool_may_treat_as_equal_have_one_key(one, other, are_one):
    find = ParameterKey("n")
    assert (find({"n": one}) == find({"n": other})) is are_one


@pytest.mark.parametrize("method", METHODS)
def test_a_function_sees_the_arguments_as_the_tool_receives_them(method):
    seen: list[dict[str, Any]] = []
    kit = kit_of(seen.append)
    assert METHODS[method](kit, {"path": "A", "count": "2", "key": "s"}).error is None
    assert METHODS[method](kit, {}).value == "a"
    assert all(one == {"path": "a", "count": 2, "key": "s"} for one in seen[: len(seen) // 2])
    assert all(one == {"path": "a", "count": 1, "key": None} for one in seen[len(seen) // 2 :])


async def test_values_reach_the_function_as_json_by_the_names_in_the_schema():
    class Place(BaseModel):
        path: Path

    kit, seen = Toolkit("files"), []

    @kit.tool(exclusive=seen.append)
    def write(place: Place, names: set[str]) -> str:
        return place.path.name

    assert await kit.acall("write", {"place": {"path": "/a/b"}, "names": ["n"]}) == "b"
    assert seen == [{"place": {"path": "/a/b"}, "names": ["n"]}]


@pytest.mark.parametrize("second", [{"path": "A"}, {"path": "a"}, {}], ids=["converted", "passed", "left out"])
@pytest.mark.parametrize("first", [{"path": "a"}, {}], ids=["passed", "left out"])
async def test_arguments_that_the_tool_receives_as_equal_never_run_at_once(first, second):
    watch: list[str] = []
    kit = Toolkit("files")

    @kit.tool(exclusive="path")
    async def write(path: Annotated[str, AfterValidator(lower)] = "a") -> None:
        watch.append(f"+{path}")
        await asyncio.sleep(0.01)
        watch.append(f"-{path}")

    await asyncio.gather(kit.acall("write", first), kit.acall("write", second))
    assert watch == ["+a", "-a"] * 2


@pytest.mark.parametrize("exclusive", ["path", lambda arguments: arguments["path"]], ids=["name", "function"])
@pytest.mark.parametrize("method", METHODS)
def test_arguments_that_the_tool_refuses_are_refused_before_the_call_waits(exclusive, method):
    result = METHODS[method](kit_of(exclusive), {"path": "a", "count": "two"})
    assert (result.error.code, "'count'" in result.text) == ("invalid_parameters", True)


@pytest.mark.parametrize("method", METHODS)
def test_a_sync_function_never_runs_in_an_event_loop(method):
    has_loop: list[bool] = []

    def key(arguments: dict[str, Any]) -> str:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            has_loop.append(False)
        else:
            has_loop.append(True)
        return "one"

    assert METHODS[method](kit_of(key), {}).value == "a"
    assert set(has_loop) == {False}


@pytest.mark.parametrize("method", METHODS)
def test_an_async_function_is_awaited(method):
    seen: list[Any] = []

    async def key(arguments: dict[str, Any]) -> str:
        await asyncio.sleep(0)
        seen.append(arguments["path"])
        return "one"

    assert METHODS[method](kit_of(key), {}).value == "a"
    assert set(seen) == {"a"}


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("method", METHODS)
def test_a_function_that_hangs_ends_with_the_timeout_of_the_call(method, is_async):
    release = threading.Event()

    async def ahang(arguments: dict[str, Any]) -> None:
        await asyncio.sleep(60)

    def hang(arguments: dict[str, Any]) -> None:
        release.wait(60)

    started = time.monotonic()
    try:
        result = METHODS[method](kit_of(ahang if is_async else hang, timeout=0.05), {})
    finally:
        release.set()
    assert result.error.code == "timeout"
    assert "exclusive" in result.text
    assert time.monotonic() - started < 30


async def test_the_time_of_the_function_counts_towards_the_timeout():
    kit = Toolkit("files")

    async def slow(arguments: dict[str, Any]) -> str:
        await asyncio.sleep(0.2)
        return "one"

    @kit.tool(exclusive=slow, timeout=0.3)
    async def write() -> str:
        await asyncio.sleep(0.2)
        return "written"

    result = await kit.aexec("write")
    assert (result.error.code, "within 0.3 seconds" in result.text) == ("timeout", True)


async def test_calls_of_one_answer_keep_their_order_whatever_time_their_keys_take():
    ran: list[int] = []
    kit = Toolkit("files")

    async def key(arguments: dict[str, Any]) -> str:
        await asyncio.sleep(0.02 if arguments["n"] == 0 else 0)
        return "one"

    @kit.tool(exclusive=key)
    def write(n: int) -> None:
        ran.append(n)

    await kit.arun([ToolCall(id=str(n), name="write", arguments={"n": n}) for n in range(5)])
    assert ran == list(range(5))


async def test_a_function_that_fails_lets_the_call_run_alone():
    def fail(arguments: dict[str, Any]) -> Any:
        raise ValueError("no")

    kit = kit_of(fail)
    run = await kit.arun(calls_of({}, {"path": "b"}))
    assert [result.value for _, result in run.results] == ["a", "b"]


async def test_an_exclusive_call_that_needs_an_approval_still_asks_for_it():
    kit = Toolkit("files")

    @kit.tool(exclusive="path", requires_approval=lambda arguments: arguments["count"] == 2)
    def write(path: str, count: int) -> str:
        return path

    result = await kit.aexec("write", {"path": "a", "count": "2"})
    assert result.error.code == "approval_required"
    assert result.meta["approval"]["tool"] == "write"
    assert (await kit.aexec("write", {"path": "a", "count": "1"})).value == "a"
