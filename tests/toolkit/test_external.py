"""External tools: calls that wait for their result from outside, and the results that `resume` takes."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import jsonschema_rs
import pytest
from fastmcp import Client
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import ImageContent
from pydantic import BaseModel

from ahvn_tools import (
    ApprovalRequest,
    ApprovalRules,
    ExternalCall,
    Run,
    Secret,
    ToolCall,
    ToolContext,
    ToolError,
    Toolkit,
    ToolRegistry,
    ToolResult,
    ToolSpec,
    dumps,
    load,
    loads,
    reg_toolspec,
    tool,
)
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import DefinitionError, RequestUsedError, ResultRequiredError, ToolkitError, ToolSpecError
from ahvn_tools.middleware import cache, record, replay, retry
from tests.imported_modules import forgotten

KEY = "a key that both processes have"

WHAT: dict[str, Any] = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
PLACE = {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]}


@tool(external=True)
def choose(options: list[str]) -> str:
    """Let the user choose."""
    raise AssertionError("never called")


def make_kit(**options: Any) -> Toolkit:
    kit = Toolkit("form", **{"secret_key": KEY, **options})
    kit.add(choose)
    kit.add(ToolSpec.from_schema("locate", WHAT, external=True, output_schema=PLACE), requires_approval=True)

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


def waiting(kit: Toolkit, *named: tuple[str, dict[str, Any]]) -> Run:
    return kit.run(calls(*(named or (CHOOSE,))), format="openai")


def only_result(run: Run) -> ToolResult:
    [(_, result)] = run.results
    return result


@pytest.mark.parametrize("is_saved", [False, True])
def test_a_call_waits_and_its_value_is_the_result(is_saved):
    kit = make_kit()
    run = waiting(kit, CHOOSE, ADD)
    [call] = run.pending
    assert (call.call_id, call.tool, call.arguments) == ("c1", "choose", {"options": ["a", "b"]})
    assert (list(run), run.results[0][1].error.code, run.is_done) == ([], "result_required", False)
    run = make_kit().resume(restart(run), results={"c1": "b"}) if is_saved else kit.resume(run, results={"c1": "b"})
    assert contents(run) == {"c1": "b", "c2": "3"}
    assert run.is_done


def test_an_approval_comes_first_and_calls_may_be_answered_one_by_one():
    run = waiting(make_kit(), CHOOSE, LOCATE)
    assert [type(request) for request in run.pending] == [ExternalCall, ApprovalRequest]
    run = make_kit().resume(restart(run), approved=True)
    assert [(call.call_id, type(call)) for call in run.pending] == [("c1", ExternalCall), ("c2", ExternalCall)]
    run = make_kit().resume(restart(run), results={"c2": {"lat": 1.5}})
    assert [call.call_id for call in run.pending] == ["c1"]
    run = make_kit().resume(restart(run), results={"c1": "a"})
    assert contents(run) == {"c1": "a", "c2": '{"lat": 1.5}'}


def test_one_answer_decides_on_approvals_and_results():
    run = make_kit().resume(waiting(make_kit(), CHOOSE, LOCATE, ADD), approved={"c2": False}, results={"c1": "a"})
    assert run.is_done
    assert [result.error and result.error.code for _, result in run.results] == [None, "rejected", None]


@given(st.lists(st.sampled_from(["choose", "locate", "add"]), min_size=1, max_size=4), st.data())
def test_no_order_of_decisions_and_restarts_changes_the_messages(names, data):
    """Each step answers some of the calls that wait; a step that was done before is refused."""
    made = {"choose": CHOOSE, "locate": LOCATE, "add": ADD}
    kit = make_kit()
    run = waiting(kit, *(made[name] for name in names))
    values = {f"c{n}": {"choose": f"v{n}", "locate": {"lat": n}, "add": None}[name] for n, name in enumerate(names, 1)}
    while run.pending:
        some = data.draw(st.lists(st.sampled_from(run.pending), min_size=1, unique_by=lambda request: request.call_id))
        approved = {request.call_id: True for request in some if isinstance(request, ApprovalRequest)}
        results = {request.call_id: values[request.call_id] for request in some if isinstance(request, ExternalCall)}
        before, run = run, restart(run) if data.draw(st.booleans()) else run
        assert list(run) == []
        run = kit.resume(run, approved=approved, results=results)
        with pytest.raises(RequestUsedError, match="was used before"):
            kit.resume(before, approved=approved, results=results)
    expected = {"choose": lambda n: f"v{n}", "locate": lambda n: json.dumps({"lat": n}), "add": lambda n: "3"}
    assert contents(run) == {f"c{n}": expected[name](n) for n, name in enumerate(names, 1)}


def test_the_arguments_that_an_approver_has_edited_are_those_of_the_external_call():
    kit = make_kit()
    run = kit.resume(waiting(kit, LOCATE), approved=True, arguments={"c1": {"what": "you"}})
    assert run.pending[0].arguments == {"what": "you"}
    assert only_result(make_kit().resume(restart(run), results={"c1": {"lat": 1}})).structured_content == {"lat": 1}


def test_an_approver_decides_before_the_call_waits():
    kit = make_kit(approver=lambda request: request.arguments == {"what": "me"})
    run = waiting(kit, LOCATE, ("locate", {"what": "you"}))
    assert [call.call_id for call in run.pending] == ["c1"]
    assert run.results[1][1].error.code == "rejected"


def test_without_a_run_a_call_says_what_to_do(caplog: pytest.LogCaptureFixture):
    kit = make_kit()
    ways = [
        lambda: choose(options=[]),
        lambda: asyncio.run(choose.acall(options=[])),
        lambda: kit.call("choose", {"options": []}),
        lambda: asyncio.run(kit.acall("choose", {"options": []})),
    ]
    for way in ways:
        with pytest.raises(ResultRequiredError, match=r"kit\.resume\(run, results="):
            way()
    assert choose.exec(options=[]).error.code == "result_required"
    assert [result.error.code for result in choose.stream(options=[])] == ["result_required"]
    assert choose.exec(options=3).error.code == "invalid_parameters"
    caplog.clear()
    result = kit.exec("choose", {"options": []}, call_id="c1")
    assert only_result(kit.resume(result.meta["external_call"], results={"c1": "a"})).value == "a"
    assert caplog.records == []  # a call that waits is no failure


async def test_async_code_does_the_same():
    kit = make_kit()
    run = await kit.arun(calls(CHOOSE), format="openai")
    with pytest.raises(ToolkitError, match="is refused"):
        await kit.aresume(run, results={"c1": 1})
    assert contents(await kit.aresume(run, results={"c1": "b"})) == {"c1": "b"}


def test_the_reader_of_a_stream_gets_the_run_that_waits():
    *_, run = make_kit().stream_run(calls(CHOOSE, ADD), format="openai")
    assert isinstance(run, Run)
    assert contents(make_kit().resume(run, results={"c1": "a"})) == {"c1": "a", "c2": "3"}


def test_arguments_that_the_tool_refuses_do_not_wait():
    run = waiting(make_kit(), ("choose", {"options": 3}))
    assert (run.is_done, run.results[0][1].error.code) == (True, "invalid_parameters")


class Point(BaseModel):
    x: int
    y: int = 0


def returning(annotation: Any, **options: Any) -> Toolkit:
    def fetch() -> Any: ...

    fetch.__annotations__ = {"return": annotation}
    return Toolkit("any").add(ToolSpec.from_function(fetch, external=True, **options))


IMAGE = ImageContent(type="image", data=base64.b64encode(b"x").decode(), mime_type="image/png")


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (int, 3, 3),
        (Point, {"x": 1, "y": 2}, {"x": 1, "y": 2}),
        (Point, Point(x=1), {"x": 1, "y": 0}),
        (list[Point], [{"x": 1, "y": 2}], [{"x": 1, "y": 2}]),
        (Any, {"a": [1, None]}, {"a": [1, None]}),
        (None, None, None),
        (Iterator[int], [1, 2], [1, 2]),
        (str, ToolResult("said"), "said"),
    ],
)
def test_a_value_is_what_the_function_would_return(annotation, value, expected):
    kit = returning(annotation)
    run = kit.run(calls(("fetch", {})), format="openai")
    result = only_result(kit.resume(run, results={"c1": value}))
    assert (result.value, result.error, "duration" in result.meta) == (expected, None, True)


def test_images_and_raw_values_are_results_as_those_of_any_tool():
    kit = returning(Any)
    result = only_result(kit.resume(kit.run(calls(("fetch", {}))), results={"c1": ["see", IMAGE]}))
    assert [block.type for block in result.blocks or ()] == ["text", "image"]
    kit, thing = returning(Any, output="raw", render=lambda value: f"<{len(value)}>"), {1, 2}
    run = kit.run(calls(("fetch", {})), format="openai")
    run = kit.resume(run, results={"c1": thing})
    assert (only_result(run).value, contents(run)) == (thing, {"c1": "<2>"})


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=6,
)
SCHEMAS = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from([
        {"type": "string"}, {"type": "integer"}, {"type": "array", "items": {"type": "boolean"}}, {},
    ]))},
    optional={"required": st.lists(st.sampled_from(["a", "b"]), unique=True), "additionalProperties": st.booleans()},
)  # fmt: skip


@given(SCHEMAS, JSON)
def test_a_value_is_taken_if_it_fits_the_output_schema_and_decides_nothing_else(schema, value):
    kit = Toolkit("any").add(ToolSpec.from_schema("fetch", WHAT, external=True, output_schema=schema))
    run = kit.run(calls(("fetch", {"what": "x"})))
    for _ in range(2):
        if isinstance(value, dict) and jsonschema_rs.is_valid(schema, value):
            assert only_result(kit.resume(run, results={"c1": value})).structured_content == value
            break
        with pytest.raises(ToolkitError, match="is refused"):
            kit.resume(run, results={"c1": value})
    else:
        assert only_result(kit.resume(run, results={"c1": ToolError("no")})).is_error


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, "3"), (int, True), (str, None), (Point, {"x": "one"}), (Point, [1]), (Any, object()),
        (Any, nested(100_000)),
    ],
)  # fmt: skip
def test_a_value_that_breaks_the_output_schema_decides_nothing(annotation, value):
    kit = returning(annotation)
    run = kit.run(calls(("fetch", {})))
    for _ in range(3):
        with pytest.raises(ToolkitError, match=r"The value for the call 'c1' of 'fetch' is refused: .* still waits\."):
            kit.resume(run, results={"c1": value})
    assert only_result(kit.resume(run, results={"c1": ToolError("no")})).error.message == "no"


def test_one_wrong_value_of_several_continues_no_call():
    ran: list[int] = []
    kit = make_kit()

    @kit.tool(requires_approval=True)
    def write(number: int) -> None:
        """Write."""
        ran.append(number)

    run = waiting(kit, CHOOSE, CHOOSE, ("write", {"number": 3}))
    with pytest.raises(ToolkitError, match="'c2' of 'choose' is refused"):
        kit.resume(run, approved=True, results={"c1": "a", "c2": 2})
    assert ran == []
    run = kit.resume(run, approved=True, results={"c1": "a", "c2": "b"})
    assert (contents(run), ran) == ({"c1": "a", "c2": "b", "c3": "null"}, [3])


def test_a_refused_value_is_in_no_message():
    kit = make_kit()
    run = kit.resume(waiting(kit, LOCATE), approved=True)
    with pytest.raises(ToolkitError) as raised:
        kit.resume(run, results={"c1": {"lat": "hunter2"}})
    assert "hunter2" not in str(raised.value)
    assert "'properties/lat/type' in the output schema" in str(raised.value)


def test_a_huge_value_is_a_result():
    text = "x" * 20_000_000
    kit = make_kit()
    assert only_result(kit.resume(waiting(kit), results={"c1": text})).value == text


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [
        (ToolError("Nobody is there."), "tool_error", "Nobody is there."),
        (ValueError("secret"), "tool_error", "Error calling tool 'choose'"),
        (ToolResult(error=ErrorDetail(code="timeout", message="Too late.")), "timeout", "Too late."),
    ],
)
def test_an_error_from_outside_is_the_result(value, code, message):
    kit = make_kit()
    run = kit.resume(waiting(kit), results={"c1": value})
    error = only_result(run).error
    assert error is not None
    assert (error.code, error.message) == (code, message)
    assert contents(run)["c1"].endswith(message)


def test_an_error_brings_no_request_of_another_call():
    kit = make_kit()
    other = waiting(kit).pending[0].to_json()
    failed = ToolResult(error=ErrorDetail(code="tool_error", message="x"), meta={"external_call": other})
    assert only_result(kit.resume(waiting(kit), results={"c1": failed})).meta.keys() == {"duration"}


def test_middleware_sees_the_result_as_that_of_the_body():
    seen: list[Any] = []

    async def watch(call: Any, next: Any) -> ToolResult:  # the word for it
        result = await next(call)
        seen.append(result.error.code if result.is_error else result.value)
        return result

    kit = make_kit(middleware=[watch, retry(all_tools=True), cache(all_tools=True)])
    runs = [waiting(kit), waiting(kit)]
    values = [only_result(kit.resume(run, results={"c1": value})).value for run, value in zip(runs, "ab", strict=True)]
    assert values == ["a", "b"]  # no cached one
    assert seen == ["result_required", "result_required", "a", "b"]
    kit.resume(waiting(kit), results={"c1": ToolError("x")})
    assert seen[4:] == ["result_required", "tool_error"]


def test_a_recorded_call_waits_and_is_answered_again(tmp_path: Path):
    file = tmp_path / "calls.jsonl"
    kit = make_kit(middleware=[record(file)])
    kit.resume(waiting(kit), results={"c1": "a"})
    kit = make_kit(middleware=[replay(file)])
    run = waiting(kit)
    assert [call.call_id for call in run.pending] == ["c1"]
    assert only_result(kit.resume(run, results={"c1": "b"})).value == "a"


# signed, and used once


def test_a_request_is_json_and_of_one_kind():
    external, approval = waiting(make_kit(), CHOOSE, LOCATE).pending
    data = json.loads(json.dumps(external.to_json()))
    assert ExternalCall.from_json(data) == external
    assert repr(external) == "<ExternalCall 'choose' call_id='c1'>"
    for kind, other in ((ApprovalRequest, data), (ExternalCall, approval.to_json()), (ExternalCall, {})):
        with pytest.raises(ToolSpecError, match="Pass the result of"):
            kind.from_json(other)
    for name in data:
        with pytest.raises(ToolSpecError, match="This is not an external call"):
            ExternalCall.from_json({**data, name: 3.5})


def as_approval(call: ExternalCall) -> Any:
    own = {"action": None, "details": None, "questions": [], "is_call_approved": False}
    return {**{name: value for name, value in call.to_json().items() if name != "kind"}, **own}


def test_neither_kind_can_be_used_as_the_other():
    kit = make_kit()
    external, approval = waiting(kit, CHOOSE, LOCATE).pending
    with pytest.raises(ToolkitError, match="has been changed"):
        kit.resume(as_approval(external), approved=True)
    forged = {**{k: v for k, v in approval.to_json().items() if k in external.to_json()}, "kind": "external_call"}
    with pytest.raises(ToolkitError, match="has been changed"):
        kit.resume(forged, results={"c2": {"lat": 1}})
    run = waiting(kit, CHOOSE, LOCATE)
    with pytest.raises(ToolkitError, match="No call 'c2' waits for a result"):
        kit.resume(run, results={"c2": {"lat": 1}})
    with pytest.raises(ToolkitError, match=r"No call 'c1' waits for an approval.*results={…}: .*\['c1'\]"):
        kit.resume(run, approved={"c1": True})
    assert [call.call_id for call in kit.resume(run, approved=True).pending] == ["c1", "c2"]


CHANGES = {
    "tool": "locate", "call_id": "c9", "arguments": {"options": ["z"]}, "fingerprint": "x", "session_id": "ann",
    "caller": "programmatic", "expires_at": None, "digest": "0" * 64, "secrets": ["options"], "id": "1" * 32,
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_call_takes_no_value_and_an_error_is_no_decision_on_the_real_one(name):
    kit = make_kit()
    run = waiting(kit)
    changed = replace(run.pending[0], **{name: CHANGES[name]})
    with pytest.raises(ToolkitError, match="has been changed"):
        kit.resume(changed, results={changed.call_id: "a"})
    only_result(kit.resume(changed, results={changed.call_id: ToolError("x")}))
    assert only_result(kit.resume(run, results={"c1": "a"})).value == "a"


def test_a_call_of_a_toolkit_with_another_key_takes_no_value():
    with pytest.raises(ToolkitError, match="another secret_key"):
        make_kit(secret_key="another key of enough length").resume(waiting(make_kit()), results={"c1": "a"})


def test_a_call_takes_one_result(tmp_path: Path):
    store = tmp_path / "approvals.db"
    kit = make_kit(approval_store=store)
    run = waiting(kit)
    kit.resume(restart(run), results={"c1": "a"})
    for again in (kit, make_kit(approval_store=store)):
        for value in ("a", "b"):
            with pytest.raises(RequestUsedError, match=r"was used before.*pass results={'c1': ToolError\(…\)}\."):
                again.resume(restart(run), results={"c1": value})
        assert contents(again.resume(restart(run), results={"c1": ToolError("It was lost.")})) == {
            "c1": "Error: It was lost."
        }


def test_a_result_is_for_its_session_alone():
    kit = make_kit()
    ann, bob = kit.session(session_id="ann"), kit.session(session_id="bob")
    run = waiting(ann)
    for other in (bob, kit):
        for value in ("a", ToolError("x")):
            with pytest.raises(ToolkitError, match="another session"):
                other.resume(run, results={"c1": value})
    assert only_result(make_kit().session(session_id="ann").resume(restart(run), results={"c1": "a"})).value == "a"


def test_an_expired_call_takes_only_an_error(monkeypatch: pytest.MonkeyPatch):
    kit = make_kit(approval_expiry=60)
    run, now = waiting(kit), time.time()
    monkeypatch.setattr(time, "time", lambda: now + 100)
    with pytest.raises(ToolkitError, match="'c1' has expired"):
        kit.resume(run, results={"c1": "a"})
    assert contents(kit.resume(run, results={"c1": ToolError("late")})) == {"c1": "Error: late"}


def test_a_tool_that_has_changed_takes_no_result():
    run = waiting(make_kit())
    called: list[Any] = []

    def other(options: list[str], more: int = 0) -> str:
        """Let the user choose."""
        called.append(options)
        return "x"

    def same(options: list[str]) -> str:
        """Let the user choose."""
        called.append(options)
        return "x"

    for function in (other, same):  # the second has the definition, and a body
        kit = Toolkit("form", secret_key=KEY).add(ToolSpec.from_function(function, name="choose"))
        assert only_result(kit.resume(restart(run), results={"c1": "a"})).error.code == "changed"
    gone = Toolkit("form", secret_key=KEY)
    assert only_result(gone.resume(restart(run), results={"c1": "a"})).error.code == "not_found"
    assert called == []


def test_a_call_of_a_group_that_is_not_active_still_waits():
    kit = Toolkit("form").add_group("later").add(choose, group="later")
    kit.set_groups({"later": True})
    run = waiting(kit)
    kit.set_groups({"later": False})
    with pytest.raises(ToolkitError, match="still open"):
        kit.resume(run, results={"c1": "a"})
    kit.set_groups({"later": True})
    assert only_result(kit.resume(run, results={"c1": "a"})).value == "a"


def login_kit() -> Toolkit:
    kit = Toolkit("login", secret_key=KEY)

    @kit.tool(external=True, exclusive="name")
    def login(name: str, pin: Annotated[int, Secret]) -> bool:
        """Log in."""
        raise AssertionError

    return kit


def test_secret_arguments_are_masked_and_not_needed_again():
    run = waiting(login_kit(), ("login", {"name": "ann", "pin": 4711}))
    assert run.pending[0].arguments == {"name": "ann", "pin": "***"}
    assert "4711" not in json.dumps(run.to_json())
    assert only_result(login_kit().resume(restart(run), results={"c1": True})).value is True


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "Pass approved=True or False, or results="),
        ({"results": "a"}, "are a dict by call id"),
        ({"results": {"c9": "a"}}, "No call 'c9' waits for a result"),
        ({"results": {3: "a"}}, "No call 3 waits for a result"),
        ({"approved": {"c1": True}}, "No call 'c1' waits for an approval"),
    ],
)
def test_what_does_not_fit_continues_nothing(options, problem):
    kit = make_kit()
    run = waiting(kit)
    with pytest.raises(ToolkitError, match=problem):
        kit.resume(run, **options)
    assert only_result(kit.resume(run, results={"c1": "a"})).value == "a"


def test_two_calls_with_one_id_are_answered_one_by_one():
    kit = make_kit()
    run = kit.run([ToolCall(id="c1", name="choose", arguments={"options": [text]}) for text in "ab"])
    with pytest.raises(ToolkitError, match="2 calls with the id 'c1' wait"):
        kit.resume(run, results={"c1": "a"})
    assert [only_result(kit.resume(call, results={"c1": "x"})).value for call in run.pending] == ["x", "x"]


# other ways to call


def test_a_tool_that_calls_an_external_one_fails_and_does_not_wait():
    kit = make_kit()

    @kit.tool
    def outer(context: ToolContext) -> str:
        """Call another tool."""
        value: str = context.toolkit.call("choose", {"options": []})
        return value

    run = waiting(kit, ("outer", {}))
    assert (run.pending, run.results[0][1].error.code) == ([], "result_required")


def test_a_call_through_call_tool_waits_under_the_id_of_the_models_call():
    def kit() -> Toolkit:
        return make_kit().add_search()

    run = kit().run(calls(("call_tool", {"name": "choose", "arguments": {"options": ["a"]}})), format="openai")
    [call] = run.pending
    assert (call.call_id, call.tool) == ("c1", "choose")
    assert contents(kit().resume(restart(run), results={"c1": "a"})) == {"c1": "a"}


def test_a_background_call_waits_for_its_result():
    kit = make_kit()
    call_id = kit.start(*CHOOSE)
    status = kit.wait(call_id, 60)
    assert (status.state, [type(one) for one in status.requests]) == ("waiting_for_result", [ExternalCall])
    with pytest.raises(ToolkitError, match="is refused"):
        kit.resume(status, results={call_id: 1})
    kit.resume(status, results={call_id: "b"})
    done = kit.status(call_id)
    assert (done.state, done.result and done.result.value) == ("done", "b")
    with pytest.raises(ToolkitError, match="does not wait for anything"):
        kit.resume(done, results={call_id: "b"})


def test_bound_values_must_be_there_and_rules_hold():
    kit = Toolkit("form", rules=ApprovalRules(mode="allow", deny=['choose(options: "*secret*")']))
    kit.add(choose).bind("user")

    @kit.tool(external=True)
    def confirm(text: str, user: str) -> bool:
        """Let the user confirm."""
        raise AssertionError

    assert list(kit["confirm"].params) == ["text"]
    confirming = ("confirm", {"text": "x"})
    assert waiting(kit, confirming).results[0][1].error.code == "unbound_state"
    ann = kit.session(user="ann", session_id="ann")
    run = waiting(ann, confirming)
    assert run.pending[0].arguments == {"text": "x"}
    assert only_result(kit.session(session_id="ann").resume(restart(run), results={"c1": True})).value is True


class Verdict(BaseModel):
    is_good: bool


@pytest.mark.parametrize("is_saved", [False, True])
def test_the_fields_of_a_structured_output_are_kept(is_saved):
    kit = make_kit().finish_with("choose", Verdict)
    run = waiting(kit, ("choose", {"options": ["a"], "is_good": True}))
    assert run.pending[0].arguments == {"options": ["a"], "is_good": True}
    result = only_result(kit.resume(restart(run) if is_saved else run, results={"c1": "a"}))
    assert (result.value, result.meta["structured"]) == ("a", Verdict(is_good=True))


def test_a_conversation_goes_on_with_a_result():
    def model(messages: list[Any], tools: Any) -> Any:
        if messages[-1]["role"] == "tool":
            return {"role": "assistant", "content": f"You chose {messages[-1]['content']}."}
        function = {"name": "choose", "arguments": '{"options": ["a", "b"]}'}
        return {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}

    kit = make_kit()
    conversation = kit.converse(model, "Choose.", format="openai")
    assert [call.call_id for call in conversation.pending] == ["c1"]
    saved = type(conversation).from_json(json.loads(json.dumps(conversation.to_json())))
    with pytest.raises(ToolkitError, match=r"results=…"):
        kit.converse(model, saved)
    assert make_kit().converse(model, saved, results={"c1": "b"}).text == "You chose b."


# programs


@pytest.fixture(scope="module")
def program_kit() -> Iterator[Callable[[], Toolkit]]:
    pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")
    from ahvn_tools.code_mode import MontySandbox

    sandbox = MontySandbox(max_processes=2)
    yield lambda: make_kit().add_code_mode(sandbox=sandbox)
    sandbox.close()


PROGRAM = """
import asyncio
one, two, place = await asyncio.gather(choose(options=["a"]), choose(options=["b"]), locate(what="me"))
[one, two, place, await add(1, 2)]
"""


def test_a_program_waits_for_results_and_approvals_and_goes_on(program_kit: Callable[[], Toolkit]):
    run = program_kit().run(calls(("run_code", {"code": PROGRAM})), format="openai")
    assert [(call.call_id, type(call)) for call in run.pending] == [
        ("c1.3", ApprovalRequest), ("c1.1", ExternalCall), ("c1.2", ExternalCall),
    ]  # fmt: skip
    assert run.results[0][1].error.code == "approval_required"
    run = program_kit().resume(restart(run), approved=True, results={"c1.2": "two"})
    assert sorted((call.call_id, type(call)) for call in run.pending) == [
        ("c1.1", ExternalCall), ("c1.3", ExternalCall),
    ]  # fmt: skip
    with pytest.raises(ToolkitError, match=r"'c1\.3' of 'locate' is refused"):
        program_kit().resume(restart(run), results={"c1.1": "one", "c1.3": {}})
    last = program_kit().resume(restart(run), results={"c1.1": "one", "c1.3": {"lat": 7}})
    assert json.loads(contents(last)["c1"]) == {"result": ["one", "two", 7, 3]}


def test_a_program_reads_an_error_from_outside(program_kit: Callable[[], Toolkit]):
    code = "try:\n    await choose(options=[])\nexcept Exception as error:\n    print(error)"
    kit = program_kit()
    run = kit.run(calls(("run_code", {"code": code})), format="openai")
    assert "Nobody." in contents(kit.resume(run, results={"c1.1": ToolError("Nobody.")}))["c1"]


def test_a_program_whose_call_is_forged_or_used_does_not_continue(program_kit: Callable[[], Toolkit]):
    kit = program_kit()
    run = kit.run(calls(("run_code", {"code": 'await choose(options=["a"])'})), format="openai")
    [call] = run.pending
    program = {**call.program, "code": "await add(1, 1)"}
    with pytest.raises(ToolkitError, match="has been changed"):
        kit.resume(replace(call, program=program), results={"c1.1": "a"})
    kit.resume(run, results={"c1.1": "a"})
    with pytest.raises(RequestUsedError, match="was used before"):
        kit.resume(run, results={"c1.1": "b"})


# definitions


class Form(ToolRegistry):
    @reg_toolspec(external=True)
    async def confirm(self, text: str) -> bool:
        """Let the user confirm."""
        raise AssertionError


def schema_tool() -> ToolSpec:
    return ToolSpec.from_schema("locate", WHAT, external=True, output_schema=PLACE)


OPENAI = {"type": "function", "function": {"name": "locate", "parameters": WHAT}}


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        (choose, "a"),
        (schema_tool(), {"lat": 1}),
        (ToolSpec.from_openai(OPENAI, external=True), "anything"),
        (Form().to_toolspecs()["confirm"], True),
        (choose.clone(), "a"),
        (choose.transform(name="pick"), "a"),
        (ToolSpec.from_code("def f(x: int) -> int:\n    raise SystemExit", external=True), 3),
        (loads(dumps(schema_tool(), key=KEY), key=KEY), {"lat": 1}),
        (loads(dumps(choose, key=KEY), key=KEY), "a"),
        (ToolSpec.from_dict(json.loads(json.dumps(schema_tool().to_dict())), trust=[]), {"lat": 1}),
        (ToolSpec.from_dict(choose.to_dict(), trust=["tests.*"]), "a"),
    ],
)
def test_each_way_to_define_an_external_tool(spec, value):
    arguments = {"what": "x", "options": [], "text": "x", "x": 1}
    own = {name: arguments[name] for name in spec.params}
    assert spec.exec(**own).error.code == "result_required"
    kit = Toolkit("all").add(spec)
    run = kit.run([ToolCall(id="c1", name=spec.name, arguments=own)])
    assert only_result(kit.resume(run, results={"c1": value})).error is None


def test_add_and_the_decorator_of_a_toolkit_take_the_option():
    called: list[int] = []

    def count(number: int) -> int:
        """Count."""
        called.append(number)
        return number

    for kit in (
        Toolkit("a").add(count, external=True),
        Toolkit("b").add(ToolSpec.from_function(count), external=True),
        Toolkit("c").add(Toolkit("d").add(count, external=True)),
    ):
        run = kit.run(calls(("count", {"number": 1})))
        assert only_result(kit.resume(run, results={"c1": 5})).value == 5
    assert called == []


class Searching:
    """A tool as LangChain has it."""

    name, description, args_schema, tags, metadata = "search", "Search.", WHAT, None, None
    response_format, return_direct = "content", False

    def run(self, *_: Any, **__: Any) -> str:
        return "ran"


def test_a_tool_that_has_another_body_cannot_be_external():
    wire = choose.to_mcp()
    for make in (
        lambda: ToolSpec.from_mcp(wire, external=True),
        lambda: ToolSpec.from_http("user", "https://api.example/{user_id}", external=True),
        lambda: ToolSpec.from_langchain(Searching(), external=True),  # type: ignore[arg-type]  # enough of one
    ):
        with pytest.raises(DefinitionError, match="external"):
            make()


def test_one_of_several_results_for_a_call_is_taken():
    kit = make_kit()
    run, values = waiting(kit), [f"value {number}" for number in range(8)]

    def supply(value: str) -> Any:
        try:
            return only_result(kit.resume(run, results={"c1": value})).value
        except ToolkitError:
            return None

    with ThreadPoolExecutor(8) as threads:
        taken = [value for value in threads.map(supply, values) if value is not None]
    assert len(taken) == 1


def test_a_tool_without_a_function_must_be_external():
    with pytest.raises(DefinitionError, match="external=True"):
        ToolSpec.from_schema("locate", WHAT)
    with pytest.raises(DefinitionError, match="external must be True or False"):
        ToolSpec.from_schema("locate", WHAT, external="yes")  # type: ignore[arg-type]  # on purpose


def test_files_and_manifests_have_external_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "asking.py").write_text(
        "from ahvn_tools import tool\n\n@tool(external=True)\ndef ask(text: str) -> bool:\n    '''Ask.'''\n"
    )
    (tmp_path / "kit.yaml").write_text(
        "sources:\n"
        "  - asking.py\n"
        "  - external: {name: locate, description: Locate., output_schema: {type: object, required: [lat]}}\n"
        "    requires_approval: true\n"
    )
    with forgotten(tmp_path):
        kits = load("asking.py"), load("kit.yaml")
    for kit in kits:
        run = waiting(kit, ("ask", {"text": "x"}))
        assert only_result(kit.resume(run, results={"c1": True})).value is True
    run = kit.resume(waiting(kit, ("locate", {})), approved=True)
    with pytest.raises(ToolkitError, match="is refused"):
        kit.resume(run, results={"c1": {}})
    assert only_result(kit.resume(run, results={"c1": {"lat": 1}})).value == {"lat": 1}


async def test_a_client_gets_the_call_that_its_host_resumes():
    kit = make_kit()
    async with Client(kit.to_fastmcp_server()) as client:
        result = await client.call_tool("choose", {"options": ["a"]}, raise_on_error=False)
    assert (result.is_error, result.content[0].text) == (
        True, "The call of 'choose' needs a result from outside, which has been requested.",
    )  # fmt: skip
    call = ExternalCall.from_json(result.meta["external_call"])
    session = kit.session(session_id=call.session_id)
    assert only_result(await session.aresume(call, results={call.call_id: "a"})).value == "a"


def test_serving_warns_of_external_tools(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        make_kit().to_fastmcp_server()
    assert any("'choose', 'locate'" in record.message and "external" in record.message for record in caplog.records)


SCRIPT = """
import json, sys
from tests.toolkit.test_external import KEY, make_kit, Run, ToolkitError

data = json.load(sys.stdin)
kit = make_kit(approval_store=data["store"])
answers = []
for results in data["results"]:
    try:
        run = kit.resume(Run.from_json(data["run"]), approved=True, results=results)
    except ToolkitError as error:
        answers.append({"error": str(error)})
    else:
        answers.append({"run": run.to_json(), "messages": list(run)})
print(json.dumps(answers))
"""


def test_another_process_goes_on(tmp_path: Path):
    def resume(run: Any, *results: Any) -> Any:
        data = {"run": run, "results": results, "store": str(tmp_path / "approvals.db")}
        ran = subprocess.run(  # our own script
            [sys.executable, "-c", SCRIPT], input=json.dumps(data), capture_output=True, text=True, check=True
        )
        return json.loads(ran.stdout)

    run = waiting(make_kit(), CHOOSE, LOCATE).to_json()
    [second] = resume(run, {"c1": "a"})
    assert second["messages"] == []
    refused, last = resume(second["run"], {"c2": {"lat": "x"}}, {"c2": {"lat": 2}})
    assert "is refused" in refused["error"]
    assert [message["content"] for message in last["messages"]] == ["a", '{"lat": 2}']
    [again] = resume(second["run"], {"c2": {"lat": 2}})
    assert "was used before" in again["error"]
