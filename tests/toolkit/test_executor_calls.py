"""What a toolkit does for calls whose bodies run in an executor: everything that it does for others."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import sqlite3
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.tools import Tool

from ahvn_tools import ToolCall, ToolContext, ToolError, Toolkit, ToolSpec, tool
from ahvn_tools.builtins import Database
from ahvn_tools.errors import DefinitionError, ToolkitError, ToolNotAvailableError
from ahvn_tools.executors import ProcessExecutor
from ahvn_tools.middleware.cache import cache
from ahvn_tools.middleware.limit import limit
from ahvn_tools.middleware.retry import retry
from ahvn_tools.middleware.truncate import truncate
from tests.execution.entry_points import until
from tests.execution.executors import bodies
from tests.toolkit.subjects import noting


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(4) as opened:
        yield opened


@pytest.fixture
def kit(executor: Executor) -> Toolkit:
    kit = Toolkit("k", executor=executor, mask_errors=False)
    return kit.add(bodies.add, bodies.greet, bodies.count, bodies.report, isolation="executor").bind("user")


def calls(*pairs: tuple[str, dict[str, Any]]) -> list[ToolCall]:
    return [ToolCall(id=f"c{index}", name=name, arguments=arguments) for index, (name, arguments) in enumerate(pairs)]


async def test_the_calls_of_an_answer_run_there(kit):
    answer = calls(("add", {"a": 1}), ("greet", {"name": "x"}), ("count", {"n": 2}), ("add", {"a": "x"}))
    session = kit.session(user="ann")
    for run in (session.run(answer), await session.arun(answer)):
        assert [result.value for _, result in run.results] == [2, "ann greets x", [0, 1], None]
        assert run.results[3][1].error.code == "invalid_parameters"


def test_a_stream_of_an_answer_has_the_chunks_of_each_call(kit):
    *chunks, run = kit.stream_run(calls(("count", {"n": 3}), ("report", {"n": 2})))
    assert [chunk.value for chunk in chunks if chunk.id == "c0" and not chunk.is_last] == [0, 1, 2]
    assert any(chunk.meta.get("output") for chunk in chunks if chunk.id == "c1")
    assert [result.value for _, result in run.results] == [[0, 1, 2], {}]


def test_each_session_sends_its_own_state(kit):
    sessions = [kit.session(user=f"user {number}") for number in range(20)]
    with ThreadPoolExecutor(8) as callers:
        found = list(callers.map(lambda session: session.call("greet", {"name": "x"}), sessions))
    assert found == [f"user {number} greets x" for number in range(20)]


def test_middleware_wraps_the_call_and_not_the_body(executor, tmp_path):
    path = tmp_path / "runs"
    kit = Toolkit("k", executor=executor, middleware=[cache(), truncate(1_000)])
    kit.add(ToolSpec.from_function(bodies.append, annotations={"readOnlyHint": True}), isolation="executor")
    assert kit.call("append", {"path": str(path)}) == kit.call("append", {"path": str(path)})
    assert path.read_text() == "x"


def test_a_failed_call_is_retried(executor, tmp_path):
    path = tmp_path / "runs"

    def fail_twice(path: str) -> int:
        with Path(path).open("a") as file:
            file.write("x")
        if Path(path).stat().st_size < 3:
            raise ConnectionError("again")
        return Path(path).stat().st_size

    spec = ToolSpec.from_function(fail_twice, annotations={"idempotentHint": True})
    kit = Toolkit("k", executor=executor, middleware=[retry(attempts=3, initial_delay=0.001)])
    assert kit.add(spec, isolation="executor").call("fail_twice", {"path": str(path)}) == 3


def test_a_limit_counts_the_calls(executor):
    kit = Toolkit("k", executor=executor, middleware=[limit(per_session=2)]).add(bodies.add, isolation="executor")
    assert [kit.exec("add", {"a": 1}).error is None for _ in range(3)] == [True, True, False]


def test_exclusive_calls_never_run_at_once(executor, tmp_path):
    path = tmp_path / "log"

    def log(path: str) -> None:
        import time

        for word in ("begin ", "end "):
            with Path(path).open("a") as file:
                file.write(word)
            time.sleep(0.01)

    kit = Toolkit("k", executor=executor).add(log, isolation="executor", exclusive="path")
    kit.run(calls(*[("log", {"path": str(path)})] * 5))
    assert path.read_text() == "begin end " * 5


def test_a_background_call_runs_there_and_can_be_cancelled(executor, tmp_path):
    path = tmp_path / "state"
    kit = Toolkit("k", executor=executor).add(bodies.add, bodies.wait_until_cancelled, isolation="executor")
    assert kit.wait(kit.start("add", {"a": 2})).result.value == 3
    waiting = kit.start("wait_until_cancelled", {"path": str(path)})
    assert until(path.exists)
    assert kit.cancel(waiting)
    assert until(lambda: path.read_text() == "cancelled")


def test_a_call_that_waits_runs_there_when_it_is_approved(executor):
    kit = Toolkit("k", executor=executor).add(bodies.add, isolation="executor", requires_approval=True)
    run = kit.run(calls(("add", {"a": 1})))
    assert run.pending
    assert [result.value for _, result in kit.resume(run, approved=True).results] == [2]


def test_a_body_that_asks_runs_in_a_process_when_it_is_approved():
    with ProcessExecutor(1) as processes:
        kit = Toolkit("k", executor=processes).add(bodies.ask, isolation="executor")
        run = kit.run(calls(("ask", {"what": "delete"})))
        assert run.pending
        assert [result.value for _, result in kit.resume(run, approved=True).results] == ["did delete"]


def test_a_body_ends_its_session_there(executor):
    kit = Toolkit("k", executor=executor).add(bodies.leave, isolation="executor")
    run = kit.run(calls(("leave", {})))
    assert run.ends_session


async def test_a_served_tool_runs_there_and_reports_progress_to_its_client(executor):
    def is_served(context: ToolContext) -> list[bool]:
        return [context.is_served, context._masks_errors]

    kit = Toolkit("k", executor=executor).add(bodies.report, bodies.raise_error, is_served, isolation="executor")
    assert kit.call("is_served") == [False, True]
    reported: list[Any] = []

    async def on_progress(*progress: Any) -> None:
        reported.append(progress)

    async with Client(kit.to_fastmcp_server()) as client:
        result = await client.call_tool("report", {"n": 3}, progress_handler=on_progress)
        seen = await client.call_tool("is_served")
        failed = await client.call_tool("raise_error", {"kind": "exit"}, raise_on_error=False)
    assert result.structured_content == {}
    assert any(message == "step 2" for *_, message in reported)
    assert seen.data == [True, True]
    assert failed.is_error


def test_a_tool_of_a_toolkit_is_submitted_through_its_middleware_and_its_groups(executor):
    seen = []

    kit = Toolkit("k", middleware=[noting(seen)]).add_group("g").add(bodies.greet, group="g")
    kit.bind("user", default="ann")
    kit.activate("g")
    assert kit["greet"].submit(executor, "x").result(10).value == "ann greets x"
    assert seen == ["greet"]
    found = kit["greet"]
    kit.deactivate("g")
    assert found.submit(executor, name="x").result(10).error.code == "not_available"
    with pytest.raises(ToolNotAvailableError):
        kit.call("greet", {"name": "x"})


def test_map_yields_results_in_the_order_of_the_calls(kit, executor):
    pairs = [("add", {"a": number}) for number in range(30)] + [("nope", {}), ("add", {})]
    results = list(kit.map(executor, pairs, buffersize=4))
    assert [result.value for result in results[:30]] == list(range(1, 31))
    assert [result.error.code for result in results[30:]] == ["not_found", "invalid_parameters"]
    assert [result.id for result in kit.map(executor, [ToolCall(id="x", name="add", arguments={"a": 1})])] == ["x"]


async def test_amap_yields_what_map_yields(kit, executor):
    pairs = [("add", {"a": number}) for number in range(10)]
    assert [result.value async for result in kit.amap(executor, pairs, buffersize=3)] == list(range(1, 11))


async def test_an_async_tool_may_use_amap_and_submit_and_not_map(kit, executor, caplog):
    async def add_all(how: str) -> list[int]:
        pairs = [("add", {"a": 1}), ("add", {"a": 2})]
        if how == "map":
            return [result.value for result in kit.map(executor, pairs)]
        if how == "amap":
            return [result.value async for result in kit.amap(executor, pairs)]
        return [(await asyncio.wrap_future(kit["add"].submit(executor, a=number))).value for number in (1, 2)]

    outer = Toolkit("outer", mask_errors=False).add(add_all)
    found = {how: await asyncio.to_thread(outer.exec, "add_all", {"how": how}) for how in ("map", "amap", "submit")}
    assert found["map"].error.code == "tool_error"
    assert "would wait for itself" in caplog.text
    assert found["amap"].value == found["submit"].value == [2, 3]


def test_a_session_and_a_selection_map_their_own_tools_and_state(kit, executor):
    pairs = [("greet", {"name": "x"}), ("add", {"a": 1})]
    session = kit.session(user="ann").select(names=["greet"])
    greeted, refused = session.map(executor, pairs)
    assert (greeted.value, refused.error.code) == ("ann greets x", "not_available")


def test_each_mapped_call_has_its_own_timeout_and_can_be_cancelled_by_its_id(executor, tmp_path):
    kit = Toolkit("k").add(bodies.add, bodies.wait_until_cancelled)
    slow = ("wait_until_cancelled", {"path": str(tmp_path / "slow")})
    assert [
        result.error and result.error.code for result in kit.map(executor, [slow, ("add", {"a": 1})], timeout=0.1)
    ] == ["timeout", None]
    path = tmp_path / "named"
    results = kit.map(
        executor, [("add", {"a": 1}), ToolCall(id="mine", name="wait_until_cancelled", arguments={"path": str(path)})]
    )
    assert next(results).value == 2
    assert until(path.exists)
    assert kit.cancel("mine")
    assert next(results).error.code == "cancelled"


def test_an_error_of_the_calls_themselves_ends_a_map_and_cancels_what_runs(executor, tmp_path):
    def make() -> Iterator[tuple[str, dict[str, Any]]]:
        yield "wait_until_cancelled", {"path": str(tmp_path / "state")}
        assert until((tmp_path / "state").exists)
        raise LookupError("no more calls")

    kit = Toolkit("k").add(bodies.wait_until_cancelled)
    with pytest.raises(LookupError):
        next(kit.map(executor, make()))
    assert until(lambda: (tmp_path / "state").read_text() == "cancelled")


def test_map_reads_no_more_calls_ahead_than_its_buffer_has(kit, executor):
    read = []

    def make() -> Iterator[tuple[str, dict[str, Any]]]:
        for number in range(100):
            read.append(number)
            yield "add", {"a": number}

    results = kit.map(executor, make(), buffersize=5)
    assert next(results).value == 1
    assert len(read) <= 6
    results.close()
    assert len(read) <= 6


def test_leaving_a_map_cancels_the_other_calls(executor, tmp_path):
    kit = Toolkit("k").add(bodies.add, bodies.wait_until_cancelled)
    path = tmp_path / "state"
    results = kit.map(executor, [("add", {"a": 1}), ("wait_until_cancelled", {"path": str(path)})])
    assert next(results).value == 2
    assert until(path.exists)
    results.close()
    assert until(lambda: path.read_text() == "cancelled")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda kit: kit.map("dask", []), DefinitionError, "An executor is a concurrent.futures.Executor"),
        (
            lambda kit: kit.map(ThreadPoolExecutor(1), [], buffersize=0),
            ToolkitError,
            "buffersize must be a whole number",
        ),
        (lambda kit: list(kit.map(ThreadPoolExecutor(1), ["add"])), ToolkitError, "A call is a ToolCall, or a pair"),
        (lambda kit: list(kit.map(ThreadPoolExecutor(1), [("add",)])), ToolkitError, "A call is a ToolCall, or a pair"),
        (
            lambda kit: kit.map(ThreadPoolExecutor(1), [], timeout=-1),
            ToolkitError,
            "timeout must be a number of seconds",
        ),
    ],
    ids=["executor", "buffersize", "text", "short", "timeout"],
)
def test_map_refuses_what_does_not_fit(kit, make, error, message):
    with pytest.raises(error, match=message):
        make(kit)


@tool
async def stay(a: int) -> int:
    return a


def test_tools_that_run_only_here_are_refused(executor):
    remote = Tool.from_function(lambda a: a, name="remote")
    inline = ToolSpec.from_function(bodies.add, run_in_thread=False)
    for thing, message in ((remote, "runs in MCP or FastMCP"), (inline, "run_in_thread=False")):
        with pytest.raises(ToolkitError, match=message):
            Toolkit("k", executor=executor).add(thing, isolation="executor")
    with pytest.raises(DefinitionError, match="cannot run in an executor: it runs in MCP, in FastMCP or in its event"):
        ToolSpec.from_mcp(remote).submit(executor, a=1)
    with pytest.raises(DefinitionError, match="submit a function that connects and calls it in the worker"):
        list(Toolkit("k").add(remote).map(executor, [("remote", {"a": 1})]))
    with pytest.raises(DefinitionError, match="is an option for Python functions"):
        ToolSpec.from_mcp(remote, isolation="executor")


def test_a_tool_for_an_executor_in_a_toolkit_without_one_is_a_finding():
    kit = Toolkit("k").add(ToolSpec.from_function(bodies.add, isolation="executor", description="Add."))
    [finding] = [found for found in kit.check() if found.rule == "no-executor"]
    assert (finding.tool, finding.severity) == ("add", "error")
    assert "load(…, executor=…)" in finding.fix
    with pytest.raises(ToolkitError, match="no executor"):
        Toolkit("k", strict=True).add(kit["add"].clone()).to("openai")


def test_a_toolkit_in_another_one_runs_in_its_own_executor_or_in_that_of_the_other(executor):
    inner = Toolkit("inner", executor=executor).add(bodies.add, isolation="executor")
    outer = Toolkit("outer").add(inner)
    assert outer.call("add", {"a": 1}) == 2
    assert [found.rule for found in outer.check() if found.rule == "no-executor"] == []
    without = Toolkit("inner").add(bodies.add, isolation="executor")
    assert Toolkit("outer", executor=executor).add(without).call("add", {"a": 1}) == 2


def test_ship_of_several_tools_is_for_those_that_take_a_context(executor):
    kit = Toolkit("k", executor=executor, state={"x": 1}).add(
        bodies.add, bodies.report, ship=["x"], isolation="executor"
    )
    assert kit.call("report", {"n": 0}) == {"x": 1}
    assert kit["report"].clone().compiled.template.options["ship"] == ["x"]


def test_the_options_survive_a_transform_a_clone_and_a_pickle(executor):
    import pickle

    spec = ToolSpec.from_function(bodies.report, isolation="executor", ship=["x"], ship_secrets=True)
    for made in (spec.clone(), spec.transform(name="other"), pickle.loads(pickle.dumps(spec))):
        settings = made.compiled.template.settings
        assert (settings.isolation, [key.text for key in settings.ship], settings.ship_secrets) == (
            "executor",
            ["x"],
            True,
        )
        made.state["x"] = 5
        assert made.submit(executor, n=0).result(10).value == {"x": 5}


def test_functions_of_other_sources_run_there(executor):
    code = ToolSpec.from_code("def double(n: int) -> int:\n    return n * 2", isolation="executor")
    parameters = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    schema = ToolSpec.from_schema("add", parameters, bodies.add, isolation="executor")
    kit = Toolkit("k", executor=executor).add(code, schema)
    assert (kit.call("double", {"n": 4}), kit.call("add", {"a": 4})) == (8, 5)


def test_tool_and_reg_toolspec_take_the_options(executor):
    from ahvn_tools import ToolRegistry, reg_toolspec

    class Desk(ToolRegistry):
        def __init__(self, base: int) -> None:
            self.base = base

        @reg_toolspec(isolation="executor")
        def plus(self, n: int) -> int:
            return self.base + n

    @tool(isolation="executor")
    def fail() -> int:
        raise ToolError("tell the model")

    kit = Toolkit("k", executor=executor).add(Desk(10), fail)
    assert kit.call("plus", {"n": 1}) == 11
    assert kit.exec("fail").text == "tell the model"


def test_a_database_is_opened_again_there_unless_its_url_has_a_password(tmp_path):
    path = tmp_path / "stock.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript("create table stock (n int); insert into stock values (3)")
    query = {"query": "select n from stock"}
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as executor:
        kit = Toolkit("k", executor=executor).add(Database(f"sqlite:///{path}"), isolation="executor")
        assert kit.exec("exec_sql", query).structured_content["rows"] == [[3]]
        sealed = Toolkit("k", executor=executor)
        sealed.add(Database("postgresql://ann:hunter2hunter2@localhost/stock"), isolation="executor")
        with pytest.raises(ToolError) as raised:
            sealed.call("exec_sql", query)
    assert "Pass a function that returns the URL" in raised.value.explanation
    assert "hunter2" not in repr(raised.value)


async def test_calls_from_many_tasks_run_at_once(kit):
    results = await asyncio.gather(*[kit.acall("add", {"a": number}) for number in range(50)])
    assert results == list(range(1, 51))
