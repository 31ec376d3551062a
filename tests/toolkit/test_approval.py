"""Approval: calls that wait are data, bound to the tool, the exact arguments and the session; resuming checks again."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest

from ahvn_tools import Secret, ToolCall, ToolContext, Toolkit, ToolResult, ToolSpec
from ahvn_tools.errors import ApprovalRequiredError, ToolkitError, ToolSpecError
from ahvn_tools.middleware.approve import ApprovalRequest, approve

ANSWER = {
    "tool_calls": [
        {"id": "c1", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}},
        {"id": "c2", "function": {"name": "remove", "arguments": '{"path": "/x", "token": "hunter2-hunter2"}'}},
        {"id": "c3", "function": {"name": "remove", "arguments": '{"path": "/y"}'}},
    ]
}


def kit_of(**options: Any) -> tuple[Toolkit, list[str]]:
    removed: list[str] = []
    kit = Toolkit("files", **options)

    @kit.tool(requires_approval=True)
    def remove(path: str, token: Annotated[str, Secret] = "") -> str:
        removed.append(path)
        return f"removed {path}"

    @kit.tool
    def add(a: int, b: int) -> int:
        return a + b

    return kit, removed


def test_calls_that_need_an_approval_wait_and_the_others_run():
    kit, removed = kit_of()
    run = kit.run(ANSWER, format="openai")
    assert removed == []
    assert list(run) == []
    assert [request.call_id for request in run.pending] == ["c2", "c3"]
    assert [result.error and result.error.code for _, result in run.results] == [
        None, "approval_required", "approval_required",
    ]  # fmt: skip


def test_a_request_is_json_and_shows_no_secret():
    kit, _ = kit_of()
    request, plain = kit.run(ANSWER, format="openai").pending
    text = json.dumps(request.to_json())
    assert "hunter2" not in text
    assert request.arguments == {"path": "/x", "token": "***"}
    assert (request.secrets, plain.secrets) == (("token",), ())
    assert ApprovalRequest.from_json(json.loads(text)) == request
    assert request.fingerprint == kit["remove"].definition.fingerprint


def test_what_is_approved_runs_with_the_exact_arguments_and_every_call_is_answered_in_order():
    kit, removed = kit_of()
    run = kit.resume(kit.run(ANSWER, format="openai"), approved=True)
    assert sorted(removed) == ["/x", "/y"]
    assert [(message["tool_call_id"], message["content"]) for message in run] == [
        ("c1", "3"), ("c2", "removed /x"), ("c3", "removed /y"),
    ]  # fmt: skip
    assert run.pending == []


async def test_it_is_the_same_from_async_code():
    kit, removed = kit_of()
    run = await kit.aresume(await kit.arun(ANSWER, format="openai"), approved={"c2": False, "c3": True})
    assert removed == ["/y"]
    assert [result.error and result.error.code for _, result in run.results] == [None, "rejected", None]
    assert len(run) == 3


def test_calls_may_be_decided_one_by_one():
    kit, removed = kit_of()
    half = kit.resume(kit.run(ANSWER, format="openai"), approved={"c3": True})
    assert (removed, list(half), [request.call_id for request in half.pending]) == (["/y"], [], ["c2"])
    whole = kit.resume(half, approved=False)
    assert removed == ["/y"]
    assert len(whole) == 3


def test_the_approver_may_edit_the_arguments():
    kit, removed = kit_of()
    run = kit.run(ANSWER, format="openai")
    done = kit.resume(run, approved=True, arguments={"c2": {"path": "/safe"}})
    assert sorted(removed) == ["/safe", "/y"]
    assert [call.arguments.get("path") for call, _ in done.results] == [None, "/safe", "/y"]
    assert run.results[1][0].arguments["path"] == "/x"


def test_a_request_alone_is_resumed_elsewhere():
    kit, _ = kit_of()
    request = json.loads(json.dumps(kit.run(ANSWER, format="openai").pending[1].to_json()))
    other, removed = kit_of()
    ((call, result),) = other.resume(request, approved=True).results
    assert (call.id, result.value, removed) == ("c3", "removed /y", ["/y"])
    ((_, refused),) = other.resume(request, approved=False).results
    assert (refused.error.code, refused.id) == ("rejected", "c3")


def test_a_request_alone_needs_its_secrets_again():
    kit, removed = kit_of()
    request = kit.run(ANSWER, format="openai").pending[0]
    with pytest.raises(ToolkitError, match=r"does not hold its secret arguments \['token'\]"):
        kit.resume(request, approved=True)
    assert kit.resume(request, approved=True, arguments={"token": "hunter2-hunter2"}).results[0][1].error is None
    assert removed == ["/x"]


def test_arguments_that_were_changed_on_the_way_do_not_run():
    kit, removed = kit_of()
    request = kit.run(ANSWER, format="openai").pending[1].to_json()
    request["arguments"]["path"] = "/etc"
    with pytest.raises(ToolkitError, match="not those that were asked for"):
        kit.resume(request, approved=True)
    assert removed == []


def test_a_tool_that_has_changed_since_does_not_run():
    kit, removed = kit_of()
    run = kit.run(ANSWER, format="openai")
    kit.remove("remove")

    @kit.tool(requires_approval=True)
    def remove(path: str, token: str = "", recursive: bool = True) -> str:
        removed.append(path)
        return path

    done = kit.resume(run, approved=True)
    assert [result.error and result.error.code for _, result in done.results] == [None, "changed", "changed"]
    assert removed == []


def test_a_tool_that_is_gone_is_answered_as_any_other():
    kit, _ = kit_of()
    run = kit.run(ANSWER, format="openai")
    kit.remove("remove")
    assert kit.resume(run, approved=True).results[1][1].error.code == "not_found"


def test_a_request_of_one_session_is_not_resumed_in_another():
    kit, removed = kit_of()
    ann = kit.session(session_id="ann")
    run = ann.run(ANSWER, format="openai")
    for other in (kit, kit.session(session_id="bob")):
        with pytest.raises(ToolkitError, match="another session"):
            other.resume(run, approved=True)
    assert removed == []
    assert len(kit.session(session_id="ann").resume(run, approved=True)) == 3


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"approved": {"c1": True}}, r"No call 'c1' waits for approval\. Waiting: \['c2', 'c3'\]"),
        ({"approved": True, "arguments": {"cx": {}}}, "No call 'cx' waits"),
    ],
)
def test_a_decision_about_a_call_that_does_not_wait_is_refused(arguments, told):
    kit, removed = kit_of()
    with pytest.raises(ToolkitError, match=told):
        kit.resume(kit.run(ANSWER, format="openai"), **arguments)
    assert removed == []


def test_what_is_no_request_is_refused():
    kit, _ = kit_of()
    with pytest.raises(ToolSpecError, match="no approval request"):
        kit.resume({"tool": "remove"}, approved=True)
    with pytest.raises(ToolkitError, match="approved=True or False"):
        kit.resume(kit.run(ANSWER, format="openai").pending[1], approved={"c3": True})


# approvers


@pytest.mark.parametrize(
    ("answer", "came"),
    [
        (True, "removed /x"),
        (False, "The call of 'remove' was rejected. Do not try it again unless you are asked to."),
        ("too late", "The call of 'remove' was rejected: too late"),
        ({"path": "/z"}, "removed /z"),
        (None, "The call of 'remove' was rejected. Do not try it again unless you are asked to."),
        (1, "The call of 'remove' was rejected. Do not try it again unless you are asked to."),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_an_approver_decides_at_once(answer, came, is_async):
    asked: list[ApprovalRequest] = []

    def approver(request: ApprovalRequest) -> Any:
        asked.append(request)
        return answer

    async def later(request: ApprovalRequest) -> Any:
        return approver(request)

    kit, _ = kit_of(approver=later if is_async else approver)
    result = kit.exec("remove", {"path": "/x"})
    assert result.text == came
    assert asked[0].arguments == {"path": "/x"}


def test_a_function_of_the_arguments_says_what_needs_an_approval():
    kit = Toolkit("files")

    def remove(path: str) -> str:
        return path

    kit.add(remove, requires_approval=lambda arguments: arguments["path"].startswith("/etc"))
    assert kit.exec("remove", {"path": "/tmp/x"}).value == "/tmp/x"
    assert kit.exec("remove", {"path": "/etc/x"}).error.code == "approval_required"
    assert kit.exec("remove", {"wrong": 1}).error.code == "approval_required"


def test_an_approver_that_fails_lets_nothing_through():
    def approver(request: ApprovalRequest) -> bool:
        raise ConnectionError("hunter2-hunter2")

    kit, removed = kit_of(approver=approver)
    result = kit.exec("remove", {"path": "/x"})
    assert (result.error.code, removed) == ("tool_error", [])
    assert "hunter2" not in result.text


def test_an_approval_does_not_count_against_the_timeout():
    async def slow(request: ApprovalRequest) -> bool:
        import asyncio

        await asyncio.sleep(0.3)
        return True

    kit, removed = kit_of(approver=slow, timeout=0.2)
    assert kit.exec("remove", {"path": "/x"}).error is None
    assert removed == ["/x"]


def test_as_a_middleware_it_stands_around_what_it_is_told_to():
    kit = Toolkit("files", middleware=[approve(when=lambda call: not call.is_marked("readOnlyHint"))])

    @kit.tool
    def write(path: str) -> str:
        return path

    assert kit.exec("write", {"path": "a"}).error.code == "approval_required"
    calls = [ToolCall(id="c1", name="write", arguments={"path": "a"})]
    run = kit.resume(kit.run(calls), approved=True)
    assert [result.value for _, result in run.results] == ["a"]


def test_a_stream_of_a_call_that_waits_is_its_request_alone():
    kit, _ = kit_of()
    (last,) = kit.stream("remove", {"path": "/x"})
    assert isinstance(last, ToolResult)
    assert (last.is_last, last.error.code) == (True, "approval_required")


def careful_kit(**options: Any) -> tuple[Toolkit, list[str]]:
    """Return a toolkit with a tool that sees in its body whether it has to be allowed."""
    removed: list[str] = []
    kit = Toolkit("files", **options)

    @kit.tool
    def remove(path: str, context: ToolContext) -> str:
        if path.startswith("/etc"):
            context.require_approval()
        removed.append(path)
        return f"removed {path}"

    return kit, removed


def test_a_tool_may_ask_in_its_body_and_runs_again_when_it_is_allowed():
    kit, removed = careful_kit()
    calls = [ToolCall(id=f"c{n}", name="remove", arguments={"path": path}) for n, path in enumerate(("/tmp/x", "/etc"))]
    run = kit.run(calls, format="openai")
    assert removed == ["/tmp/x"]
    assert [request.arguments for request in run.pending] == [{"path": "/etc"}]
    assert [message["content"] for message in kit.resume(run, approved=True)] == ["removed /tmp/x", "removed /etc"]
    assert removed == ["/tmp/x", "/etc"]


@pytest.mark.parametrize(("answer", "code"), [(True, None), (False, "rejected"), ({"path": "/etc/y"}, None)])
async def test_the_approver_decides_on_what_a_tool_asks_in_its_body(answer, code):
    kit, removed = careful_kit(approver=lambda request: answer)
    result = await kit.aexec("remove", {"path": "/etc/x"})
    assert (result.error and result.error.code) == code
    assert removed == ([] if code else ["/etc/y" if isinstance(answer, dict) else "/etc/x"])


def test_without_a_toolkit_a_tool_that_asks_is_not_allowed():
    def remove(path: str, context: ToolContext) -> str:
        context.require_approval()
        return path

    spec = ToolSpec.from_function(remove)
    assert spec.exec(path="/x").error.code == "approval_required"
    with pytest.raises(ApprovalRequiredError, match="needs an approval"):
        spec.call(path="/x")
