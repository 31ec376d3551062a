"""ToolContext: tools ask for it by annotation; it never shows, and always exists."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from pathlib import Path
from typing import Annotated, Any, Optional

import pytest

from ahvn_tools import ToolContext, Toolkit, ToolRegistry, ToolSpec, reg_toolspec
from ahvn_tools.builtins import Workspace
from ahvn_tools.errors import BindError, CallCancelledError


def first(context: ToolContext, n: int) -> str:
    return f"{context.tool} {n}"


def middle(a: int, ctx: Optional[ToolContext], n: int = 2) -> str:
    return f"{ctx.tool} {a} {n}"


def last(n: int, *, ctx: Annotated[ToolContext, "of this call"]) -> str:
    return f"{ctx.tool} {n}"


async def later(n: int, ctx: ToolContext | None = None) -> str:
    return f"{ctx.tool} {n}"


class Desk(ToolRegistry):
    @reg_toolspec
    def method(self, ctx: ToolContext, n: int) -> str:
        return f"{ctx.tool} {n}"


@pytest.mark.parametrize(
    "function", [first, middle, last, later, Desk().method], ids=lambda function: function.__name__
)
def test_it_is_passed_in_any_position_and_hidden_from_the_model(function):
    spec = ToolSpec.from_function(function)
    assert not {"context", "ctx"} & spec.params.keys()
    arguments = dict.fromkeys(spec.params, 1)
    assert spec.call(**arguments).startswith("None ")
    kit = Toolkit("kit").add(function)
    assert kit.call(function.__name__, arguments).startswith(f"{function.__name__} ")
    assert kit.exec(function.__name__, {**arguments, "ctx": 1}).error.code == "invalid_parameters"


def test_it_cannot_be_unbound():
    with pytest.raises(BindError, match="was fixed when the tool was made"):
        ToolSpec.from_function(first).unbind("context")


def test_a_tool_that_takes_it_can_be_pickled():
    assert pickle.loads(pickle.dumps(ToolSpec.from_function(first)))(n=1) == "None 1"


def test_without_a_toolkit_its_methods_do_nothing():
    def tool(ctx: ToolContext) -> list[Any]:
        ctx.report_progress(1, 2, "half")
        ctx.append_output("x")
        ctx.end_session()
        ctx.check_cancelled()
        return [ctx.call_id, ctx.session_id, list(ctx.roots), ctx.cancelled, dict(ctx.state), ctx.toolkit]

    spec = ToolSpec.from_function(tool)
    spec.state = {"user": "ann"}
    assert spec() == [None, None, [], False, {"user": "ann"}, None]
    assert [result.is_last for result in spec.stream()] == [True]


def test_state_is_read_nearest_first_and_cannot_be_written():
    kit = Toolkit("kit", state={"user": "host", "team": "a"})

    @kit.tool
    def who(ctx: ToolContext) -> list[str]:
        with pytest.raises(TypeError):
            ctx.state["user"] = "eve"  # type: ignore[index]
        return [ctx.state["user"], ctx.state["team"], ctx.session_id or "none"]

    assert kit.call("who") == ["host", "a", "none"]
    assert kit.session(session_id="s1", user="ann").call("who") == ["ann", "a", "s1"]
    assert kit.state == {"user": "host", "team": "a"}


def test_only_the_host_sets_roots(tmp_path):
    kit = Toolkit("kit", roots=[tmp_path, str(tmp_path / "sub")])

    @kit.tool
    def roots(ctx: ToolContext) -> list[str]:
        return [str(root) for root in ctx.roots]

    assert kit.call("roots") == [str(Path(tmp_path).resolve()), str((tmp_path / "sub").resolve())]


@pytest.mark.parametrize("place", ["toolkit", "session", "call"])
def test_an_empty_list_of_roots_forbids_files(tmp_path, place):
    (tmp_path / "a.txt").write_text("secret")
    toolkit = Toolkit("kit", roots=[]) if place == "toolkit" else Toolkit("kit", roots=tmp_path)
    kit = toolkit.add(Workspace(tmp_path))

    @kit.tool
    def forbids(ctx: ToolContext) -> bool:
        return ctx.forbids_files

    view = kit.session(roots=[]) if place == "session" else kit
    options = {"roots": []} if place == "call" else {}
    assert view.call("forbids", **options) is True
    result = view.exec("read_file", {"uri": "a.txt"}, **options)
    assert "No folder may be used" in result.text
    assert kit.session(roots=tmp_path).call("read_file", {"uri": "a.txt"}) == "secret"


def test_without_roots_a_tool_uses_its_own_folders(tmp_path):
    (tmp_path / "a.txt").write_text("tea")
    kit = Toolkit("kit").add(Workspace(tmp_path))
    assert kit.session().call("read_file", {"uri": "a.txt"}) == "tea"


def test_a_background_call_of_a_model_has_the_roots_of_its_own_call(tmp_path):
    (tmp_path / "a.txt").write_text("secret")
    kit = Toolkit("kit").add(Workspace(tmp_path))
    kit.add(*kit.background_tools())
    session = kit.session()
    for roots, expected in (([], "failed"), (None, "done"), (tmp_path, "done")):
        started = session.call("start_call", {"name": "read_file", "arguments": {"uri": "a.txt"}}, roots=roots)
        assert session.call("wait_for_call", {"id": started["id"], "seconds": 20})["state"] == expected


def test_what_sends_something_can_be_awaited():
    kit = Toolkit("kit")

    @kit.tool
    async def send(ctx: ToolContext) -> str:
        await ctx.append_output("one")
        await ctx.report_progress(1, 2)
        return "done"

    assert [result.value for result in kit.stream("send")] == ["one", None, "done"]
    assert kit.call("send") == "done"


def test_a_tool_sees_the_toolkit_as_its_caller_does():
    kit = Toolkit("kit")

    @kit.tool
    def names(ctx: ToolContext) -> list[str]:
        return [tool.name for tool in ctx.toolkit]

    kit.add(first, audience="sub")
    assert kit.call("names") == ["names", "first"]
    assert kit.select(audience="main").session().call("names") == ["names"]


def test_end_session_marks_the_result_and_the_run():
    kit = Toolkit("kit")

    @kit.tool
    def finish(ctx: ToolContext) -> str:
        ctx.end_session()
        return "bye"

    assert kit.exec("finish").meta["ends_session"] is True
    answer = {"tool_calls": [{"id": "c1", "function": {"name": "finish", "arguments": "{}"}}]}
    assert kit.run(answer, format="openai").ends_session is True
    kit.add(later)
    answer["tool_calls"][0]["function"] = {"name": "later", "arguments": '{"n": 1}'}
    assert kit.run(answer, format="openai").ends_session is False


def fields(results: Any) -> list[tuple[Any, bool, bool]]:
    return [(result.value, result.is_last, result.meta.get("output", False)) for result in results]


def count_sync(ctx: ToolContext, n: int = 2) -> Any:
    for number in range(n):
        ctx.append_output(f"before {number}")
        yield number
    ctx.append_output("after")


async def count_async(ctx: ToolContext, n: int = 2) -> Any:
    for number in range(n):
        ctx.append_output(f"before {number}")
        yield number
    ctx.append_output("after")


@pytest.mark.parametrize("function", [count_sync, count_async])
async def test_appended_output_arrives_in_order_before_the_result(function):
    kit = Toolkit("kit").add(function)
    expected = [
        ("before 0", False, True), (0, False, False), ("before 1", False, True), (1, False, False),
        ("after", False, True), ([0, 1], True, False),
    ]  # fmt: skip
    assert fields([result async for result in kit.astream(function.__name__)]) == expected
    assert fields(await asyncio.to_thread(lambda: list(kit.stream(function.__name__)))) == expected
    assert (await kit.aexec(function.__name__)).value == [0, 1]


@pytest.mark.parametrize("entry_point", ["exec", "aexec", "cancel"])
async def test_a_sync_tool_can_check_for_cancellation(entry_point):
    seen: list[str] = []
    kit = Toolkit("kit")

    @kit.tool
    def slow(ctx: ToolContext) -> None:
        try:
            for _ in range(1_000):
                time.sleep(0.005)
                ctx.check_cancelled()
        except CallCancelledError:
            seen.append("cancelled")
            raise

    if entry_point == "exec":
        result = await asyncio.to_thread(kit.exec, "slow", {}, timeout=0.1)
        assert result.error.code == "timeout"
    elif entry_point == "aexec":
        assert (await kit.aexec("slow", {}, timeout=0.1)).error.code == "timeout"
    else:
        task = asyncio.create_task(kit.aexec("slow"))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait({task})
    for _ in range(200):
        if seen:
            break
        await asyncio.sleep(0.01)
    assert seen == ["cancelled"]


def test_progress_reaches_the_callback_of_a_middleware():
    import dataclasses

    heard: list[tuple[float, float | None, str | None]] = []

    async def listen(call, next):
        return await next(dataclasses.replace(call, report=lambda *progress: heard.append(progress)))

    kit = Toolkit("kit", middleware=[listen])

    @kit.tool
    def work(ctx: ToolContext) -> None:
        ctx.report_progress(1, 2, "half")
        ctx.report_progress(2)

    kit.call("work")
    assert heard == [(1, 2, "half"), (2, None, None)]


def test_new_progress_replaces_old_progress_for_a_slow_reader():
    kit = Toolkit("kit")
    reported = threading.Event()

    @kit.tool
    def work(ctx: ToolContext) -> None:
        for number in range(10_000):
            ctx.report_progress(number)
        reported.set()
        ctx.append_output("nearly")
        ctx.report_progress(10_000)

    reading = kit.stream("work")
    chunks = [next(reading)]
    assert reported.wait(30)
    chunks += [chunk for chunk in reading if not chunk.is_last]
    told = [chunk.meta["progress"]["progress"] if "progress" in chunk.meta else chunk.value for chunk in chunks]
    assert told[0] == 0
    assert told[-3:] == [9_999, "nearly", 10_000]
    assert len(told) <= 200
    assert told[:-3] == sorted(told[:-3])


def test_its_repr_names_the_tool():
    assert repr(ToolContext(tool="add")) == "<ToolContext of 'add'>"
