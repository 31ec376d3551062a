"""External tools: calls that wait for their result from outside, and the results that `resume` takes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ahvn_tools import ExternalCall, Run, ToolCall, ToolError, Toolkit, ToolSpec, tool
from ahvn_tools.errors import ResultRequiredError, ToolkitError

KEY = "a key that both processes have"

PLACE = {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]}


@tool(external=True)
def choose(options: list[str]) -> str:
    """Let the user choose."""
    raise AssertionError("never called")


def make_kit(**options: Any) -> Toolkit:
    kit = Toolkit("form", secret_key=KEY, **options)
    schema: dict[str, Any] = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
    locate = ToolSpec.from_schema("locate", schema, external=True, output_schema=PLACE)
    kit.add(choose)
    kit.add(locate, requires_approval=True)

    @kit.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    return kit


def calls(*named: tuple[str, dict[str, Any]]) -> list[ToolCall]:
    return [ToolCall(id=f"c{n}", name=name, arguments=arguments) for n, (name, arguments) in enumerate(named, 1)]


CHOOSE = ("choose", {"options": ["a", "b"]})
LOCATE = ("locate", {"what": "me"})
ADD = ("add", {"a": 1, "b": 2})


def restart(run: Run) -> Run:
    return Run.from_json(json.loads(json.dumps(run.to_json())))


def contents(run: Run) -> dict[str, Any]:
    return {message["tool_call_id"]: message["content"] for message in run}


@pytest.mark.parametrize("is_saved", [False, True])
def test_a_call_waits_and_its_value_is_the_result(is_saved):
    kit = make_kit()
    run = kit.run(calls(CHOOSE, ADD), format="openai")
    [call] = run.pending
    assert (call.call_id, call.tool, call.arguments) == ("c1", "choose", {"options": ["a", "b"]})
    assert (list(run), run.results[0][1].error.code, run.is_done) == ([], "result_required", False)
    run = make_kit().resume(restart(run), results={"c1": "b"}) if is_saved else kit.resume(run, results={"c1": "b"})
    assert contents(run) == {"c1": "b", "c2": "3"}
    assert run.is_done


def test_an_approval_comes_first_and_calls_may_be_answered_one_by_one():
    run = make_kit().run(calls(CHOOSE, LOCATE), format="openai")
    run = make_kit().resume(restart(run), approved=True)
    assert [(call.call_id, type(call)) for call in run.pending] == [("c1", ExternalCall), ("c2", ExternalCall)]
    run = make_kit().resume(restart(run), results={"c2": {"lat": 1.5}})
    assert [call.call_id for call in run.pending] == ["c1"]
    run = make_kit().resume(restart(run), results={"c1": "a"})
    assert contents(run) == {"c1": "a", "c2": '{"lat": 1.5}'}


def test_without_a_run_a_call_says_what_to_do():
    kit = make_kit()
    for call in (lambda: choose(options=[]), lambda: kit.call("choose", {"options": []})):
        with pytest.raises(ResultRequiredError):
            call()
    assert choose.exec(options=[]).error.code == "result_required"
    result = kit.exec("choose", {"options": []}, call_id="c1")
    [(_, resumed)] = kit.resume(result.meta["external_call"], results={"c1": "a"}).results
    assert resumed.value == "a"


async def test_async_code_does_the_same():
    kit = make_kit()
    run = await kit.arun(calls(CHOOSE), format="openai")
    with pytest.raises(ToolkitError, match="refused"):
        await kit.aresume(run, results={"c1": 1})
    assert contents(await kit.aresume(run, results={"c1": "b"})) == {"c1": "b"}
    with pytest.raises(ResultRequiredError):
        await choose.acall(options=[])
    assert asyncio.get_running_loop() is not None


def test_an_error_from_outside_is_the_result():
    kit = make_kit()
    run = kit.resume(kit.run(calls(CHOOSE), format="openai"), results={"c1": ToolError("Nobody is there.")})
    assert contents(run) == {"c1": "Error: Nobody is there."}
