"""All calls of an answer: order, duplicates, errors, formats, limits, cancellation."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools import ToolCall, Toolkit, ToolResult, formats
from ahvn_tools.errors import SyncCallError, ToolLookupError
from ahvn_tools.toolkit import Run
from ahvn_tools.toolkit.batch import run_in_order
from ahvn_tools.toolkit.exclusive import ALONE
from tests.formats.providers import provider
from tests.toolkit.subjects import Gauge, Notes, add, asearch, fail, search


async def by_run(kit: Toolkit, answer: Any, **options: Any) -> Run:
    return kit.run(answer, **options)


async def by_run_in_a_thread(kit: Toolkit, answer: Any, **options: Any) -> Run:
    return await asyncio.to_thread(kit.run, answer, **options)


async def by_arun(kit: Toolkit, answer: Any, **options: Any) -> Run:
    return await kit.arun(answer, **options)


async def by_stream_run(kit: Toolkit, answer: Any, **options: Any) -> Run:
    return await asyncio.to_thread(lambda: list(kit.stream_run(answer, **options))[-1])


async def by_astream_run(kit: Toolkit, answer: Any, **options: Any) -> Run:
    return [item async for item in kit.astream_run(answer, **options)][-1]


EntryPoint = Callable[..., Awaitable[Run]]

MORE = [by_stream_run, by_astream_run]


@pytest.fixture(
    params=[by_run, by_run_in_a_thread, by_arun, *[pytest.param(way, marks=pytest.mark.exhaustive) for way in MORE]]
)
def entry_point(request) -> EntryPoint:
    """Each way of running an answer: inside a running loop, in a thread without one, awaited, and as a stream."""
    return request.param


@pytest.fixture
def kit() -> Toolkit:
    kit = Toolkit("k", state={"user": "ann"})
    for function in (search, asearch, add, fail):
        kit.add(function)
    return kit.bind("user")


def call(number: int, name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"c{number}", name=name, arguments=arguments)


def answers(run: Run) -> list[tuple[str, str]]:
    """Return id and value, or code, of each result."""
    return [(result.id, result.error.code if result.error else result.value) for _, result in run.results]


async def test_every_call_is_answered_in_order(kit, entry_point):
    run = await entry_point(
        kit,
        [
            call(1, "search", query="q"),
            call(2, "nothing"),
            call(3, "asearch", query="q"),
            call(4, "fail"),
            ToolCall(id="c5", name="add", error="The arguments are no JSON."),
            call(6, "add", a="x"),
            call(7, "search", query="q"),
        ],
    )
    assert answers(run) == [
        ("c1", "ann:q:3"),
        ("c2", "not_found"),
        ("c3", "ann:q"),
        ("c4", "tool_error"),
        ("c5", "invalid_parameters"),
        ("c6", "invalid_parameters"),
        ("c7", "ann:q:3"),
    ]
    assert [outcomes.name for outcomes, _ in run.results] == [
        "search",
        "nothing",
        "asearch",
        "fail",
        "add",
        "add",
        "search",
    ]
    assert run.results[4][1].text == "The arguments are no JSON."


async def test_one_call_is_answered_like_several(kit, entry_point):
    assert answers(await entry_point(kit, call(1, "search", query="q"))) == [("c1", "ann:q:3")]
    assert answers(await entry_point(kit, (call(1, "asearch", query="q"),))) == [("c1", "ann:q")]
    assert answers(await entry_point(kit, [ToolCall(id="c1", name="add", error="No.")])) == [
        ("c1", "invalid_parameters")
    ]


async def test_an_answer_without_calls_has_no_messages(kit, entry_point):
    assert (list(await entry_point(kit, [])), list(await entry_point(kit, [], format="openai"))) == ([], [])
    assert list(await entry_point(kit, {"role": "assistant", "content": "Hello."}, format="openai")) == []


async def test_calls_with_the_same_tool_and_id_stay_separate(kit, entry_point):
    run = await entry_point(kit, [call(1, "add", a=number) for number in range(5)])
    assert answers(run) == [("c1", number + 1) for number in range(5)]


async def test_a_session_runs_with_its_state_and_a_selection_refuses_other_tools(kit, entry_point):
    calls = [call(1, "search", query="q"), call(2, "asearch", query="q"), call(3, "add", a=1)]
    view = kit.session(user="bob").select(names=["search", "asearch"])
    assert answers(await entry_point(view, calls)) == [
        ("c1", "bob:q:3"),
        ("c2", "bob:q"),
        ("c3", "not_available"),
    ]


# formats


def openai(name: str, number: int, arguments: str) -> dict[str, Any]:
    return {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def response(name: str, *numbers: int) -> Any:
    """Return an answer with calls of `add` as this provider sends it."""
    return provider(name).response([(f"c{number}aaaaaaa", "add", json.dumps({"a": number})) for number in numbers])


@pytest.mark.parametrize("name", formats.BUILT_IN)
async def test_an_answer_in_any_format_becomes_its_messages(kit, entry_point, name):
    run = await entry_point(kit, response(name, 1, 2), format=name)
    assert [result.value for _, result in run.results] == [2, 3]
    listed = json.dumps(list(run))
    assert listed.index("2") < listed.rindex("3")
    assert len(run) >= 1


async def test_a_broken_call_and_an_unknown_tool_are_answered_too(kit, entry_point):
    answer = {"tool_calls": [openai("add", 1, '{"a": '), openai("ad", 2, "{}"), openai("add", 3, '{"a": 1}')]}
    run = await entry_point(kit, answer, format="openai")
    assert [message["tool_call_id"] for message in run] == ["c1", "c2", "c3"]
    assert answers(run)[1:] == [("c2", "not_found"), ("c3", 2)]
    assert run.results[0][1].error.code == "invalid_parameters"
    assert "Did you mean 'add'?" in run[1]["content"]


async def test_a_wire_name_is_translated_to_the_tools_name(entry_point):
    kit = Toolkit("k").add(add, rename="sums: add two")
    wire = kit.to("openai")[0]["function"]["name"]
    assert wire != "sums: add two"
    run = await entry_point(kit, {"tool_calls": [openai(wire, 1, '{"a": 1}')]}, format="openai")
    assert run.messages[0]["content"] == "2"


async def test_the_wire_name_of_an_invisible_tool_is_translated_too(entry_point):
    kit = Toolkit("k").add(add, rename="sums: add two", audience="sub")
    answer = {"tool_calls": [openai(kit.to("openai")[0]["function"]["name"], 1, '{"a": 1}')]}
    assert answers(await entry_point(kit.select(audience="main"), answer, format="openai")) == [("c1", "not_available")]


async def test_tool_calls_are_answered_in_the_format_that_is_passed(kit, entry_point):
    calls = [call(1, "add", a=1), call(2, "add", a=2)]
    run = await entry_point(kit, calls, format="openai")
    assert [(message["tool_call_id"], message["content"]) for message in run] == [("c1", "2"), ("c2", "3")]
    assert list(await entry_point(kit, calls)) == []


async def test_an_unknown_format_is_refused_before_anything_runs(entry_point):
    notes = Notes()
    kit = Toolkit("k").add(notes)
    for answer in (response("openai", 1), [call(1, "put", text="x")], call(1, "put", text="x")):
        with pytest.raises(ToolLookupError, match="'opnai'"):
            await entry_point(kit, answer, format="opnai")
    assert notes.texts == []


# at once


@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("body", ["work", "awork"])
async def test_at_most_max_concurrency_calls_run_at_once(entry_point, limit, body):
    gauge = Gauge()
    kit = Toolkit("k", max_concurrency=limit).add(getattr(gauge, body))
    await entry_point(kit, [call(number, body) for number in range(12)])
    assert (gauge.most, gauge.entered, gauge.now) == (limit, 12, 0)


async def test_calls_of_one_answer_run_in_parallel(entry_point):
    meeting = threading.Barrier(4)

    def meet() -> str:
        meeting.wait(10)
        return "met"

    kit = Toolkit("k").add(meet)
    assert answers(await entry_point(kit, [call(number, "meet") for number in range(4)])) == [
        (f"c{number}", "met") for number in range(4)
    ]


async def test_a_timeout_of_one_call_does_not_affect_the_others(entry_point):
    gauge = Gauge()
    kit = Toolkit("k").add(gauge.awork, timeout=0.05)
    run = await entry_point(kit, [call(1, "awork", seconds=5), call(2, "awork", seconds=0.001)])
    assert answers(run) == [("c1", "timeout"), ("c2", "worked")]


async def test_context_variables_of_the_caller_reach_the_tools(entry_point):
    user = contextvars.ContextVar("user", default="guest")

    def read() -> str:
        return user.get()

    async def aread() -> str:
        return user.get()

    kit = Toolkit("k").add(read).add(aread)
    user.set("ann")
    assert answers(await entry_point(kit, [call(1, "read"), call(2, "aread")])) == [("c1", "ann"), ("c2", "ann")]


async def test_a_cancelled_answer_leaves_nothing_running():
    gauge, both = Gauge(), asyncio.Barrier(3)

    async def wait() -> None:
        with gauge():
            await both.wait()
            await asyncio.sleep(60)

    kit = Toolkit("k", max_concurrency=2).add(wait)
    task = asyncio.create_task(kit.arun([call(number, "wait") for number in range(5)]))
    await both.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (gauge.now, gauge.entered) == (0, 2)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_exception_of_an_interrupted_answer_has_the_results_of_the_calls_that_had_ended():
    tasks: list[asyncio.Task[Any]] = []

    async def note(a: int) -> int:
        return a

    async def wait() -> None:
        for _ in range(100):  # the other call ends
            await asyncio.sleep(0)
        tasks[-1].cancel()
        await asyncio.sleep(60)

    kit = Toolkit("k").add(note).add(wait)

    async def read(answer: Any) -> None:
        async for _ in kit.astream_run(answer):
            pass

    for run in (kit.arun, read):
        task = asyncio.create_task(run([call(1, "note", a=1), call(2, "wait")]))
        tasks.append(task)
        with pytest.raises(asyncio.CancelledError) as raised:
            await task
        assert answers(Run.from_error(raised.value)) == [("c1", 1), ("c2", "cancelled")]
    assert Run.from_error(ValueError()) is None


@pytest.mark.parametrize("count", [1, 2])
def test_an_exit_of_a_tool_has_the_results_of_the_other_calls(count):
    def end() -> None:
        raise SystemExit(3)

    kit = Toolkit("k").add(end).add(add)
    answer = [call(1, "end"), call(2, "add", a=1)][:count]
    with pytest.raises(SystemExit) as raised:
        kit.run(answer)
    assert answers(Run.from_error(raised.value)) == [("c1", "cancelled"), ("c2", 2)][:count]


async def test_a_tool_that_cancels_itself_gets_an_error_result(entry_point):
    async def give_up() -> None:
        raise asyncio.CancelledError

    kit = Toolkit("k").add(give_up).add(add)
    assert answers(await entry_point(kit, [call(1, "give_up"), call(2, "add", a=1)])) == [
        ("c1", "cancelled"),
        ("c2", 2),
    ]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["SystemExit", "KeyboardInterrupt"])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("here", [by_run, by_arun])
async def test_a_system_exit_is_raised_in_the_caller_and_never_in_a_loop(here, error, count, caplog):
    async def end() -> None:
        await asyncio.sleep(0)
        raise error

    kit = Toolkit("k").add(end).add(add)
    with caplog.at_level(logging.WARNING), pytest.raises(type(error)):
        await here(kit, [call(1, "add", a=1), *[call(number, "end") for number in range(count)]])
    assert caplog.records == []


async def test_a_sync_run_on_the_background_loop_is_refused_with_advice():
    inner = Toolkit("inner").add(add)

    async def nested() -> int:
        return len(inner.run([call(1, "add", a=1), call(2, "add", a=2)]).results)

    kit = Toolkit("k").add(nested)
    with pytest.raises(SyncCallError, match="await"):
        kit.call("nested")


async def test_a_tool_may_run_an_answer_itself(entry_point):
    kit = Toolkit("k", max_concurrency=1)

    async def nested(depth: int) -> int:
        if depth == 0:
            return 0
        run = await kit.arun([call(number, "nested", depth=depth - 1) for number in range(2)])
        return 1 + max(result.value for _, result in run.results)

    kit.add(nested)
    assert answers(await entry_point(kit, [call(1, "nested", depth=3), call(2, "nested", depth=2)])) == [
        ("c1", 3),
        ("c2", 2),
    ]


async def test_a_result_object_that_a_tool_returns_is_not_changed(entry_point):
    original = ToolResult(value=1)

    def reply() -> ToolResult:
        return original

    kit = Toolkit("k").add(reply)
    run = await entry_point(kit, [call(1, "reply"), call(2, "reply")])
    assert ([result.id for _, result in run.results], original.id, original.meta) == (["c1", "c2"], None, {})


@pytest.mark.parametrize("arguments", [{"key": "a"}, '{"key": "a"}'])
def test_calls_through_call_tool_use_the_key_of_the_called_tool(arguments):
    """The calls start in the order of the answer, one after the other."""
    kit, log = Toolkit("k"), []

    @kit.tool(exclusive="key")
    async def slow(key: str, number: int = 0) -> None:
        log.append(f"{number} begins")
        await asyncio.sleep(0.05 / (1 + number))
        log.append(f"{number} ends")

    kit.add_search()
    response = [
        json.dumps({**json.loads(arguments), "number": n}) if isinstance(arguments, str) else {**arguments, "number": n}
        for n in range(3)
    ]
    calls = [
        ToolCall(id=f"c{n}", name="call_tool", arguments={"name": "slow", "arguments": one})
        for n, one in enumerate(response)
    ]
    run = kit.run(calls)
    assert [result.error for _, result in run.results] == [None] * 3
    assert log == [f"{n} {what}" for n in range(3) for what in ("begins", "ends")]


@pytest.mark.parametrize(
    "arguments", [{}, {"name": 1}, {"name": "slow", "arguments": "{"}, {"name": "slow", "arguments": [1]}]
)
def test_a_call_of_call_tool_with_invalid_arguments_is_answered(arguments):
    kit = Toolkit("k").add_search()
    run = kit.run([ToolCall(id=f"c{n}", name="call_tool", arguments=arguments) for n in range(2)])
    assert [result.is_error for _, result in run.results] == [True, True]


class Watch:
    """Records which jobs run at once."""

    def __init__(self) -> None:
        self.running: list[Any] = []
        self.started: list[Any] = []
        self.overlaps: list[tuple[Any, Any]] = []
        self.most = 0

    async def run(self, key: Any, name: Any, turns: int = 1) -> Any:
        self.overlaps += [(other, key) for other in self.running if ALONE in (other, key) or (key and other == key)]
        self.running.append(key)
        self.started.append(name)
        self.most = max(self.most, len(self.running))
        for _ in range(turns):
            await asyncio.sleep(0)
        self.running.remove(key)
        return name


BATCHES = st.lists(st.tuples(st.sampled_from([None, "a", "b", ALONE]), st.integers(0, 3)), max_size=12)


@given(batch=BATCHES, limit=st.integers(1, 4))
def test_calls_of_one_key_run_one_at_a_time_and_in_order(batch, limit):
    watch = Watch()
    keys = [None if key is None else (key if key == ALONE else (key,)) for key, _ in batch]
    jobs = [
        lambda key=key, number=number, turns=turns: watch.run(key, number, turns)
        for number, (key, (_, turns)) in enumerate(zip(keys, batch, strict=True))
    ]
    assert asyncio.run(run_in_order(jobs, keys, limit)) == list(range(len(batch)))
    assert watch.overlaps == []
    assert watch.most <= limit
    for key in set(keys) - {None}:
        order = [number for number in watch.started if keys[number] == key]
        assert order == sorted(order)
    for place, key in enumerate(keys):
        if key == ALONE:
            before = set(watch.started[: watch.started.index(place)])
            assert before == set(range(place))


@given(batch=BATCHES.filter(bool), steps=st.integers(0, 12))
def test_a_batch_that_is_cancelled_leaves_nothing_running(batch, steps):
    async def whole() -> None:
        watch = Watch()
        keys = [None if key is None else (key if key == ALONE else (key,)) for key, _ in batch]
        jobs = [lambda key=key: watch.run(key, 0, 5) for key in keys]
        task = asyncio.create_task(run_in_order(jobs, keys, 2))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(whole())
