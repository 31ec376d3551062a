"""Approval: calls that wait, and resuming them; a request is bound to the tool, the arguments and the session."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from typing import Annotated, Any

import pytest

from ahvn_tools import Secret, ToolCall, ToolContext, Toolkit, ToolResult, formats
from ahvn_tools.errors import RequestUsedError, ToolkitError, ToolSpecError
from ahvn_tools.middleware import Call, Next, cache, log
from ahvn_tools.middleware.pending import ApprovalRequest
from ahvn_tools.toolkit.run import Run

KEY = "a key that both processes have"

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


def test_approved_calls_run_with_the_exact_arguments_and_every_call_is_answered_in_order():
    kit, removed = kit_of()
    run = kit.resume(kit.run(ANSWER, format="openai"), approved=True)
    assert sorted(removed) == ["/x", "/y"]
    assert [(message["tool_call_id"], message["content"]) for message in run] == [
        ("c1", "3"), ("c2", "removed /x"), ("c3", "removed /y"),
    ]  # fmt: skip
    assert run.pending == []


async def test_approvals_work_the_same_from_async_code():
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


def test_a_request_alone_is_resumed_elsewhere_with_the_same_key():
    kit, _ = kit_of(secret_key=KEY)
    request = json.loads(json.dumps(kit.run(ANSWER, format="openai").pending[1].to_json()))
    other, removed = kit_of(secret_key=KEY.encode())
    ((call, result),) = other.resume(request, approved=True).results
    assert (call.id, result.value, removed) == ("c3", "removed /y", ["/y"])


def test_a_request_alone_is_rejected_elsewhere_with_a_reason_for_the_model():
    kit, _ = kit_of(secret_key=KEY)
    request = json.loads(json.dumps(kit.run(ANSWER, format="openai").pending[1].to_json()))
    other, removed = kit_of(secret_key=KEY)
    ((_, result),) = other.resume(request, approved=False, reason="not on a Friday").results
    assert (result.error.code, result.id, removed) == ("rejected", "c3", [])
    assert result.text == "The call of 'remove' was rejected: not on a Friday"


def test_a_request_alone_needs_its_secrets_again():
    kit, removed = kit_of()
    request = kit.run(ANSWER, format="openai").pending[0]
    with pytest.raises(ToolkitError, match=r"does not hold its secret arguments \['token'\]"):
        kit.resume(request, approved=True)
    assert kit.resume(request, approved=True, arguments={"token": "hunter2-hunter2"}).results[0][1].error is None
    assert removed == ["/x"]


@pytest.mark.parametrize("options", [{}, {"secret_key": KEY + "?"}], ids=["random", "another"])
def test_a_request_made_with_another_key_is_refused_with_the_fix(options):
    kit, _ = kit_of(secret_key=KEY)
    run = kit.run(ANSWER, format="openai")
    other, removed = kit_of(**options)
    for waiting in (run, run.pending[1], run.pending[1].to_json()):
        with pytest.raises(ToolkitError, match=r"made with another secret_key: pass the same one .*secret_key=…"):
            other.resume(waiting, approved=True)
    assert removed == []
    assert other.resume(run.pending[1], approved=False).results[0][1].error.code == "rejected"


@pytest.mark.parametrize("key", ["", "short", b"fifteen bytes..", 123456789012345678, bytearray(32)], ids=repr)
def test_a_key_that_could_be_guessed_is_refused_and_not_shown(key):
    with pytest.raises(ToolkitError, match="at least 16 bytes") as raised:
        Toolkit("files", secret_key=key)
    assert not key or str(key) not in str(raised.value)


def test_no_repr_shows_the_key():
    kit, _ = kit_of(secret_key=KEY)
    request = kit.run(ANSWER, format="openai").pending[0]
    assert KEY not in repr([kit, vars(kit._view.store), request])


def test_neither_a_request_nor_its_digest_reveals_a_short_secret():
    """A digest that anybody could compute would be compared with those of all 10,000 PINs."""
    _, run, _ = asking(pin="4071")
    _, again, _ = asking(pin="4071")
    first, second = run.pending[0], again.pending[0]
    assert first.arguments == second.arguments
    assert first.digest != second.digest


CHANGES: dict[str, Any] = {
    "arguments": {"path": "/etc"},
    "tool": "add",
    "call_id": "c9",
    "session_id": None,
    "secrets": ["path"],
    "fingerprint": "0" * 64,
    "digest": "0" * 64,
    "id": "0" * 32,
    "signature": "",
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("arguments", [None, {"path": "/edited"}], ids=["as it is", "edited"])
def test_a_changed_request_does_not_run(name, arguments):
    kit, removed = kit_of()
    session = kit.session(session_id="ann")
    request = session.run(ANSWER, format="openai").pending[1].to_json()
    request[name] = CHANGES[name]
    with pytest.raises(ToolkitError, match="The request has been changed"):
        session.resume(request, approved=True, arguments=arguments)
    assert removed == []


def test_a_request_with_a_digest_of_other_arguments_does_not_run():
    """Whoever can write the stored request can compute every digest that needs no key."""
    kit, removed = kit_of()
    request = kit.run(ANSWER, format="openai").pending[1].to_json()
    request["arguments"]["path"] = "/etc"
    text = json.dumps(request["arguments"], sort_keys=True, separators=(",", ":"))
    request["digest"] = hashlib.sha256(text.encode()).hexdigest()
    with pytest.raises(ToolkitError, match="has been changed"):
        kit.resume(request, approved=True)
    assert removed == []


def test_an_approval_is_used_once():
    kit, removed = kit_of()
    run = kit.run(ANSWER, format="openai")
    kit.resume(run, approved={"c3": True})
    for waiting in (run, run.pending[1], run.pending[1].to_json()):
        with pytest.raises(RequestUsedError, match="used before"):
            kit.resume(waiting, approved=True)
    assert removed == ["/y"]
    kit.resume(run, approved={"c2": True})
    assert removed == ["/y", "/x"]


@pytest.mark.parametrize("decisions", [[False, True], [False, False], [True, False]])
def test_a_request_is_decided_once_whatever_the_decision_was(decisions):
    """A rejected request must not run because somebody approves it later."""
    kit, removed = kit_of()
    run = kit.run(ANSWER, format="openai")
    kit.resume(run.pending[1], approved=decisions[0])
    for waiting in (run, Run.from_json(run.to_json()), run.pending[1], run.pending[1].to_json()):
        decision: Any = {"c3": decisions[1]} if isinstance(waiting, Run) else decisions[1]
        if decisions[1]:
            with pytest.raises(RequestUsedError, match="used before: its call was rejected, or has been started"):
                kit.resume(waiting, approved=decision)
        else:
            answered = kit.resume(waiting, approved=decision).results[-1][1]
            assert (answered.error.code, "may have run already" in answered.text) == ("rejected", True)
    assert removed == ["/y"] * decisions[0]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_whose_process_was_killed_after_the_approval_can_be_rejected_while_others_run(is_async):
    kit, removed = kit_of()
    calls = [
        ToolCall(id=f"c{number}", name="remove", arguments={"path": path}) for number, path in ((2, "/x"), (3, "/y"))
    ]
    saved = kit.run(calls, format="openai").to_json()
    kit.resume(Run.from_json(saved), approved={"c3": True})

    def resume(waiting: Any, **decisions: Any) -> Run:
        return asyncio.run(kit.aresume(waiting, **decisions)) if is_async else kit.resume(waiting, **decisions)

    for approved in (True, {"c2": False, "c3": True}):
        with pytest.raises(RequestUsedError, match=r"used before.* pass approved={.*'c3': False}\."):
            resume(Run.from_json(saved), approved=approved)
    with pytest.raises(RequestUsedError, match=r"used before.* pass approved=False\."):
        resume(Run.from_json(saved).pending[1], approved=True)
    assert removed == ["/y"]
    mixed = resume(Run.from_json(saved), approved={"c2": True, "c3": False}, reason={"c3": "Look first."})
    assert removed == ["/y", "/x"]
    assert mixed.is_done
    assert mixed.results[-1][1].text == "The call of 'remove' may have run already; its result was lost: Look first."
    both = resume(Run.from_json(saved), approved=False)
    assert ["may have run already" in result.text for call, result in both.results if call.id in {"c2", "c3"}] == [
        True,
        True,
    ]
    assert removed == ["/y", "/x"]


async def test_a_resume_that_was_cancelled_while_the_tool_ran_can_be_rejected():
    kit, started = Toolkit("k"), asyncio.Event()

    async def hang(path: str) -> None:
        started.set()
        await asyncio.Event().wait()

    kit.add(hang, rename="remove", requires_approval=True)
    run = kit.run([ToolCall(id="c1", name="remove", arguments={"path": "/x"})], format="openai")
    task = asyncio.create_task(kit.aresume(run, approved=True))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ToolkitError, match=r"pass approved={'c1': False}"):
        await kit.aresume(run, approved=True)
    assert "may have run already" in (await kit.aresume(run, approved=False))[0]["content"]


def test_rejecting_a_used_request_trusts_no_other_request():
    """A forged one, and one of another session, are what they were: nothing says that their call may have run."""
    kit, removed = kit_of()
    request = kit.run(ANSWER, format="openai").pending[1]
    kit.resume(request, approved=True)
    forged = {**request.to_json(), "expires_at": None}
    with pytest.raises(ToolkitError, match="has been changed"):
        kit.resume(forged, approved=True)
    assert "was rejected" in kit.resume(forged, approved=False).results[0][1].text
    for approved in (True, False):
        with pytest.raises(ToolkitError, match="in another session"):
            kit.session().resume(request, approved=approved)
    assert removed == ["/y"]


def test_an_expired_request_that_was_used_may_have_run(monkeypatch):
    kit, removed = kit_of()
    run = kit.run(ANSWER, format="openai")
    kit.resume(run, approved=True)
    monkeypatch.setattr(time, "time", lambda: 1e11)
    with pytest.raises(ToolkitError, match=r"has expired\. Reject it"):
        kit.resume(run, approved=True)
    assert kit.resume(run, approved=False).results[1][1].text.startswith("The call of 'remove' may have run already")
    assert sorted(removed) == ["/x", "/y"]


def test_a_request_that_was_answered_with_changed_is_decided():
    kit, removed = kit_of()
    run = kit.run(ANSWER, format="openai")
    spec = kit["remove"].clone()
    kit.remove("remove")
    kit.add(lambda path: path, rename="remove", requires_approval=True)
    assert kit.resume(run, approved=True).results[1][1].error.code == "changed"
    kit.remove("remove").add(spec, requires_approval=True)
    with pytest.raises(RequestUsedError, match="used before"):
        kit.resume(run, approved=True)
    assert removed == []


def test_an_approved_call_does_not_run_a_tool_that_was_replaced_while_it_waited_for_its_turn():
    kit, removed = kit_of(max_concurrency=1)

    @kit.tool(requires_approval=True)
    def replace() -> str:
        kit.add(lambda path: f"deleted {path}", rename="remove", on_duplicate="replace", requires_approval=True)
        return "replaced"

    calls = [
        ToolCall(id="c1", name="replace", arguments={}),
        ToolCall(id="c2", name="remove", arguments={"path": "/x"}),
    ]
    done = kit.resume(kit.run(calls), approved=True)
    assert [result.error and result.error.code for _, result in done.results] == [None, "changed"]
    assert removed == []


@pytest.mark.parametrize("other", ["arguments", "reason"])
def test_a_decision_by_an_id_that_two_waiting_calls_have_is_refused(other):
    """It would apply to both of them."""
    kit, removed = kit_of()
    run = kit.run([ToolCall(id="c1", name="remove", arguments={"path": path}) for path in ("/x", "/y")])
    options: Any = {"arguments": {"approved": True, "arguments": {"c1": {"path": "/z"}}}}
    options["reason"] = {"approved": False, "reason": {"c1": "Keep it."}}
    for decision in ({"approved": {"c1": True}}, options[other]):
        with pytest.raises(ToolkitError, match="2 calls with the id 'c1' wait"):
            kit.resume(run, **decision)
    kit.resume(run.pending[1], approved=True)
    assert removed == ["/y"]


@pytest.mark.parametrize("name", ["arguments", "details", "program"])
def test_a_request_that_is_nested_too_deep_is_refused(name):
    kit, removed = kit_of()
    request = kit.run(ANSWER, format="openai").pending[1].to_json()
    deep = json.loads('{"a":' * 700 + "1" + "}" * 700)
    changed = {**request, name: {"call_id": "c3", "tool": "remove", "code": "", **deep}}
    saved = kit.run(ANSWER, format="openai").to_json()
    saved["calls"][2]["request"] = changed
    for approved in (True, False):
        with pytest.raises(ToolkitError, match="This request is nested too deep"):
            kit.resume(changed, approved=approved)
        with pytest.raises(ToolSpecError, match="This is not a saved run"):
            Run.from_json(saved)
    assert removed == []


def test_a_changed_request_can_be_rejected_and_the_real_one_is_still_open():
    """The signature does not hold, so this is not a decision on the request that has this id."""
    kit, removed = kit_of()
    request = kit.run(ANSWER, format="openai").pending[1].to_json()
    changed = {**request, "arguments": {"path": "/etc"}}
    assert kit.resume(changed, approved=False).results[0][1].error.code == "rejected"
    kit.resume(request, approved=True)
    assert removed == ["/y"]


def test_a_reason_reaches_the_model_of_each_rejected_call():
    kit, removed = kit_of()
    run = kit.run(ANSWER, format="openai")
    done = kit.resume(run, approved={"c2": False, "c3": False}, reason={"c2": "keep it"})
    assert [message["content"] for message in done][1:] == [
        "Error: The call of 'remove' was rejected: keep it",
        "Error: The call of 'remove' was rejected. Do not try it again unless you are asked to.",
    ]
    assert removed == []


@pytest.mark.parametrize(
    ("approved", "reason", "message"),
    [
        (True, "fine", "A reason is for rejected calls"),
        ({"c2": True, "c3": False}, {"c2": "fine"}, "A reason is for rejected calls"),
        (False, {"c9": "no"}, "No call 'c9' waits"),
        (False, 5, "A reason is a text"),
        (False, {"c2": 5}, "A reason is a text"),
    ],
)
def test_a_reason_that_no_model_would_read_is_refused(approved, reason, message):
    kit, removed = kit_of()
    run = kit.run(ANSWER, format="openai")
    with pytest.raises(ToolkitError, match=message):
        kit.resume(run, approved=approved, reason=reason)
    assert removed == []
    assert kit.resume(run, approved=True).is_done


def test_a_request_expires(monkeypatch):
    kit, removed = kit_of(approval_expiry=60)
    run, forever = kit.run(ANSWER, format="openai"), kit_of(approval_expiry=None)[0].run(ANSWER, format="openai")
    now = time.time()
    assert now + 58 < run.pending[0].expires_at <= now + 62
    assert forever.pending[0].expires_at is None
    monkeypatch.setattr(time, "time", lambda: now + 62)
    for waiting in (run, run.pending[1].to_json()):
        with pytest.raises(ToolkitError, match="has expired"):
            kit.resume(waiting, approved=True)
    assert removed == []
    assert kit.resume(run, approved=False, reason="too late").is_done


@pytest.mark.parametrize("seconds", [0, -1, True, "60", float("nan")])
def test_an_expiry_is_a_positive_number_of_seconds(seconds):
    with pytest.raises(ToolkitError, match="approval_expiry must be a number of seconds greater than 0, or None"):
        kit_of(approval_expiry=seconds)


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


def test_a_call_of_a_removed_tool_is_answered_like_any_other():
    kit, _ = kit_of()
    run = kit.run(ANSWER, format="openai")
    kit.remove("remove")
    assert kit.resume(run, approved=True).results[1][1].error.code == "not_found"


@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.parametrize("is_whole", [True, False], ids=["run", "request"])
def test_a_request_of_one_session_is_not_resumed_in_another_and_stays_open(approved, is_whole):
    kit, removed = kit_of()
    run = kit.session(session_id="ann").run(ANSWER, format="openai")
    waiting = run if is_whole else run.pending[1]
    for other in (kit, kit.session(session_id="bob")):
        with pytest.raises(ToolkitError, match="another session"):
            other.resume(waiting, approved=approved)
    assert removed == []
    assert kit.session(session_id="ann").resume(waiting, approved=True).is_done
    assert "/y" in removed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"approved": {"c1": True}}, r"No call 'c1' waits for an approval. Waiting: approved={…}: \['c2', 'c3'\]"),
        ({"approved": True, "arguments": {"cx": {}}}, "No call 'cx' waits"),
    ],
)
def test_a_decision_about_a_call_that_does_not_wait_is_refused(arguments, message):
    kit, removed = kit_of()
    with pytest.raises(ToolkitError, match=message):
        kit.resume(kit.run(ANSWER, format="openai"), **arguments)
    assert removed == []


def test_an_invalid_request_is_refused():
    kit, _ = kit_of()
    with pytest.raises(ToolSpecError, match="not an approval request"):
        kit.resume({"tool": "remove"}, approved=True)
    request = kit.run(ANSWER, format="openai").pending[1].to_json()
    for wrong in ({"arguments": "x"}, {"tool": None}, {"secrets": 5}, {"session_id": 1}, {"more": 1}):
        with pytest.raises(ToolSpecError, match="not an approval request"):
            kit.resume({**request, **wrong}, approved=True)
    with pytest.raises(ToolSpecError, match="not an approval request"):
        ApprovalRequest.from_json([])
    with pytest.raises(ToolkitError, match="approved=True or False"):
        kit.resume(kit.run(ANSWER, format="openai").pending[1], approved={"c3": True})


# approvers


@pytest.mark.parametrize(
    ("answer", "text"),
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
def test_an_approver_decides_at_once(answer, text, is_async):
    approvals: list[ApprovalRequest] = []

    def approver(request: ApprovalRequest) -> Any:
        approvals.append(request)
        return answer

    async def later(request: ApprovalRequest) -> Any:
        return approver(request)

    kit, _ = kit_of(approver=later if is_async else approver)
    result = kit.exec("remove", {"path": "/x"})
    assert result.text == text
    assert approvals[0].arguments == {"path": "/x"}


def test_a_masked_value_that_the_approver_leaves_is_the_models_value():
    got: list[Any] = []

    def pay(to: str, pin: Annotated[str, Secret], options: dict[str, Any], codes: list[Any]) -> None:
        got.append((to, pin, options, codes))

    def approver(request: ApprovalRequest) -> Any:
        assert request.arguments["codes"] == [{"token": "***"}]
        return {**request.arguments, "to": "ann", "more": 1}

    kit = Toolkit("bank", approver=approver).add(pay, requires_approval=True)
    edits = {"to": "bob", "pin": "1234", "options": {"password": "hush", "a": 1}, "codes": [{"token": "t"}]}
    assert "which the tool refuses" in kit.exec("pay", edits).text  # `more` is checked as any argument is
    kit = Toolkit("bank", approver=lambda request: {**request.arguments, "to": "ann"}).add(pay, requires_approval=True)
    kit.call("pay", edits)
    assert got == [("ann", "1234", {"password": "hush", "a": 1}, [{"token": "t"}])]


def test_an_edit_next_to_a_masked_value_is_applied():
    def put(options: dict[str, Any], logins: list[dict[str, Any]], rows: list[int]) -> list[Any]:
        return [options, logins, rows]

    def approver(request: ApprovalRequest) -> Any:
        return {"options": {"password": "***", "a": 2}, "logins": [{"token": "***", "n": 2}], "rows": [1, 2]}

    kit = Toolkit("k", approver=approver).add(put, requires_approval=True)
    edits = {"options": {"password": "hush", "a": 1}, "logins": [{"token": "t", "n": 1}], "rows": [1]}
    assert kit.call("put", edits) == [{"password": "hush", "a": 2}, [{"token": "t", "n": 2}], [1, 2]]


@pytest.mark.parametrize("name", ["here", "later"])
def test_a_slow_approver_does_not_delay_other_calls(name):
    thinks, decided = threading.Event(), threading.Event()

    def approver(request: ApprovalRequest) -> bool:
        thinks.set()
        return decided.wait(10)

    async def quick() -> str:
        await asyncio.sleep(0)
        return "quick"

    async def later() -> str:
        return "allowed"

    def here() -> str:
        return "allowed"

    kit = Toolkit("k", approver=approver).add(quick)
    kit.add(here, requires_approval=True).add(later, requires_approval=True)
    results: list[str] = []
    caller = threading.Thread(target=lambda: results.append(kit.call(name)))
    caller.start()
    assert thinks.wait(10)
    assert kit.call("quick") == "quick"
    decided.set()
    caller.join()
    assert results == ["allowed"]


async def test_a_slow_approver_does_not_block_the_callers_loop():
    decided = threading.Event()
    kit, removed = kit_of(approver=lambda request: decided.wait(10))
    waiting = asyncio.create_task(kit.aexec("remove", {"path": "/x"}))
    await asyncio.sleep(0.05)
    assert removed == []
    decided.set()
    assert (await waiting).value == "removed /x"


def test_arguments_without_a_json_form_are_refused_before_the_approver_decides():
    circle: list[Any] = []
    circle.append(circle)
    kit, removed = kit_of(approver=lambda request: True)
    assert kit.exec("remove", {"path": circle}).error.code == "invalid_parameters"
    assert removed == []


def test_a_function_of_the_arguments_decides_what_needs_an_approval():
    kit = Toolkit("files")

    def remove(path: str) -> str:
        return path

    kit.add(remove, requires_approval=lambda arguments: arguments["path"].startswith("/etc"))
    assert kit.exec("remove", {"path": "/tmp/x"}).value == "/tmp/x"
    assert kit.exec("remove", {"path": "/etc/x"}).error.code == "approval_required"
    kit.add(remove, rename="move", requires_approval=lambda arguments: arguments["missing"])
    assert kit.exec("move", {"path": "/tmp/x"}).error.code == "approval_required"  # a function that raises


def test_a_failing_approver_approves_nothing():
    def approver(request: ApprovalRequest) -> bool:
        raise ConnectionError("hunter2-hunter2")

    kit, removed = kit_of(approver=approver)
    result = kit.exec("remove", {"path": "/x"})
    assert (result.error.code, removed) == ("tool_error", [])
    assert result.text == "The approver of tool 'remove' failed, so nothing was approved."
    assert str(result.exception).startswith("The approver of tool 'remove' raised ConnectionError (test_approval.py")


def test_an_approval_does_not_count_against_the_timeout():
    async def slow(request: ApprovalRequest) -> bool:
        await asyncio.sleep(0.3)
        return True

    kit, removed = kit_of(approver=slow, timeout=0.2)
    assert kit.exec("remove", {"path": "/x"}).error is None
    assert removed == ["/x"]


def test_a_stream_of_a_call_that_waits_is_its_request_alone():
    kit, _ = kit_of()
    (last,) = kit.stream("remove", {"path": "/x"})
    assert isinstance(last, ToolResult)
    assert (last.is_last, last.error.code) == (True, "approval_required")


def asking(approval_store: Any = None, **edits: Any) -> tuple[Toolkit, Any, list[Any]]:
    paid: list[Any] = []
    kit = Toolkit("bank", approval_store=approval_store)

    @kit.tool(requires_approval=True)
    def pay(to: str, amount: int, pin: Annotated[str, Secret] = "", options: dict[str, Any] | None = None) -> None:
        paid.append((to, amount, pin, options))

    arguments = {"to": "ann", "amount": 500, "pin": "1234", **edits}
    return kit, kit.run([ToolCall(id="c1", name="pay", arguments=arguments)]), paid


def test_a_masked_value_that_the_approver_of_a_run_leaves_is_the_models_value():
    kit, run, paid = asking(options={"password": "hush", "a": 1})
    kit.resume(run, approved=True, arguments={"c1": {**run.pending[0].arguments, "amount": 5}})
    assert paid == [("ann", 5, "1234", {"password": "hush", "a": 1})]


@pytest.mark.parametrize(
    ("changed", "pin"), [({"to": "mallory"}, "1234"), ({}, "9999")], ids=["another argument", "another secret"]
)
def test_a_request_with_only_its_secrets_passed_again_is_the_original_call(changed, pin):
    kit, run, paid = asking()
    request = run.pending[0].to_json()
    request["arguments"] |= changed
    with pytest.raises(ToolkitError, match="has been changed" if changed else "not those that were asked for"):
        kit.resume(request, approved=True, arguments={"pin": pin})
    assert paid == []


@pytest.mark.parametrize("edits", [{"pin": "1234", "amount": 5}, {"amount": 5}], ids=["request", "run"])
def test_edits_are_merged_into_the_arguments_of_a_request_and_of_a_run(edits):
    kit, run, paid = asking()
    if "pin" in edits:
        kit.resume(run.pending[0].to_json(), approved=True, arguments=edits)
    else:
        kit.resume(run, approved=True, arguments={"c1": edits})
    assert paid == [("ann", 5, "1234", None)]


def test_an_approver_of_a_toolkit_edits_single_arguments():
    paid: list[Any] = []
    kit = Toolkit("bank", approver=lambda request: {"amount": 5})
    kit.add(lambda to, amount: paid.append((to, amount)), rename="pay", requires_approval=True)
    kit.call("pay", {"to": "ann", "amount": 500})
    assert paid == [("ann", 5)]


@pytest.mark.parametrize("stored", [False, True])
def test_a_saved_request_does_not_answer_guesses_of_its_secret(stored, tmp_path):
    kit, run, paid = asking(approval_store=tmp_path / "approvals.db" if stored else None)
    request = run.pending[0].to_json()
    for pin in range(5):
        with pytest.raises(ToolkitError, match="are not those that were asked for"):
            kit.resume(request, approved=True, arguments={"pin": str(pin)})
    for pin in ("5", "1234"):
        with pytest.raises(ToolkitError, match="were passed wrongly 5 times"):
            kit.resume(request, approved=True, arguments={"pin": pin})
    assert paid == []
    assert kit.resume(run, approved=True).is_done  # the process that has the secret needs no attempt
    assert paid == [("ann", 500, "1234", None)]


def test_rejecting_a_request_needs_no_secrets():
    kit, run, _ = asking()
    assert kit.resume(run.pending[0], approved=False).results[0][1].error.code == "rejected"


@pytest.mark.parametrize(
    ("is_whole", "decision", "message"),
    [
        *[(is_whole, {"approved": wrong}, "approved=True") for wrong in ("no", 1, None) for is_whole in (True, False)],
        (True, {"approved": {"c1": "no"}}, "approved=True"),
        (False, {"approved": {"c1": "no"}}, "approved=True"),
        (True, {"arguments": {"c1": 5}}, "not a int"),
        (False, {"arguments": [1]}, "not a list"),
        (
            False,
            {"arguments": {"pin": "9999", "amount": 5}},
            r"secret arguments \['pin'\] are not those that were asked",
        ),
        (False, {"arguments": {"pin": "***", "amount": 5}}, r"does not hold its secret arguments \['pin'\]"),
    ],
)
def test_a_decision_that_does_not_fit_runs_nothing(is_whole, decision, message):
    """A model may pass stars as a value, and they are no secret."""
    kit, run, paid = asking()
    secret = {} if is_whole else {"arguments": {"pin": "1234"}}
    with pytest.raises(ToolkitError, match=message):
        kit.resume(run if is_whole else run.pending[0], **{"approved": True, **secret, **decision})
    assert paid == []


def test_two_calls_with_one_id_are_each_checked_against_their_own_request():
    kit, removed = kit_of()

    @kit.tool(requires_approval=True)
    def pay(amount: int) -> str:
        return "paid"

    calls = [
        ToolCall(id="c", name="remove", arguments={"path": "/x"}),
        ToolCall(id="c", name="pay", arguments={"amount": 1}),
    ]
    run = kit.run(calls)
    kit.remove("remove")

    @kit.tool(requires_approval=True)
    def remove(path: str, recursive: bool = True) -> None:
        removed.append(path)

    done = kit.resume(run, approved=True)
    assert [result.error and result.error.code for _, result in done.results] == ["changed", None]
    assert removed == []


@pytest.mark.parametrize("method", ["acall", "aexec"])
def test_the_approval_that_a_nested_call_needs_is_not_requested_for_the_outer_tool(method):
    """An approval of the outer tool would approve nothing: the nested call would wait again."""
    kit, _ = kit_of()

    async def around(context: ToolContext) -> Any:
        return await getattr(context.toolkit, method)("remove", {"path": "/x"})

    run = kit.add(around).run([ToolCall(id="c1", name="around")], format="openai")
    assert run.pending == []
    assert "needs an approval" in run[0]["content"]


REQUEST = {"tool": "say", "fingerprint": "", "arguments": {}, "digest": "", "id": "", "signature": ""}


@pytest.mark.parametrize("request_", ["please", {"call_id": "c1"}, {**REQUEST, "call_id": "c1"}], ids=str)
def test_a_result_that_imitates_a_request_is_no_request(request_):
    def say() -> ToolResult:
        return ToolResult("said", meta={"approval": request_})

    (message,) = Toolkit("k").add(say).run([ToolCall(id="c1", name="say")], format="openai")
    assert message["content"] == "said"


@pytest.mark.parametrize("state", [{}, {"account": 7}, {"account": None}], ids=["missing", "ill-typed", "None"])
@pytest.mark.parametrize("has_approver", [False, True], ids=["waiting", "approver"])
def test_nobody_is_asked_about_a_call_that_lacks_the_value_of_a_binding(state, has_approver):
    asked = []
    kit = Toolkit("k", approver=(lambda request: asked.append(request) is None) if has_approver else None)
    kit.bind("account", required=True)

    @kit.tool(requires_approval=True)
    def pay(amount: int, account: str = "") -> str:
        """Pay."""
        return f"{amount} from {account}"

    for arguments in ({"amount": 1}, {}):
        result = kit.session(state).exec("pay", arguments)
        assert result.error.code == ("unbound_state" if arguments else "invalid_parameters")
        assert "approval" not in result.meta
    assert asked == []


@pytest.mark.parametrize("call_id", ["c2", "c3"])  # one with a secret argument, and one without
def test_arguments_of_one_request_under_the_id_of_its_call_are_refused_by_name(call_id: str):
    kit, removed = kit_of(secret_key=KEY)
    run = kit.run(ANSWER, format="openai")
    request = next(one for one in run.pending if one.call_id == call_id)
    edits = {"path": "/z", **({"token": "hunter2-hunter2"} if call_id == "c2" else {})}
    for waiting in (request, request.to_json()):
        with pytest.raises(ToolkitError, match=r"without the id of its call: arguments=\{'path': …\}. .* still open"):
            kit.resume(waiting, approved=True, arguments={call_id: edits})
    assert removed == []
    kit.resume(request.to_json(), approved=True, arguments=edits)
    assert removed == ["/z"]


WAYS = ["resume", "aresume", "one request", "saved", "converse", "aconverse", "stream", "background"]


def reject(session: Toolkit, way: str) -> list[str]:
    """Let calls wait, approve one of them and reject the other with a reason; return the texts of the results."""
    calls = [ToolCall(id=f"c{n}", name="remove", arguments={"path": f"/{n}"}) for n in (1, 2)]
    if way == "background":
        call_id = session.start("remove", {"path": "/2"}, call_id="c2")
        while session.status(call_id).state != "waiting_for_approval":
            time.sleep(0.01)
        return [session.resume(session.status(call_id), approved=False, reason="no").results[0][1].text]
    if way in {"converse", "aconverse", "stream"}:
        answers = iter([formats.get("openai").message(calls)[0], {"role": "assistant", "content": "Done."}])
        model = lambda messages, tools: next(answers)
        waiting, decisions = session.converse(model, "go"), {"approved": {"c1": True, "c2": False}, "reason": "no"}
        if way == "stream":
            [*_, conversation] = session.stream_converse(model, waiting, **decisions)
        elif way == "converse":
            conversation = session.converse(model, waiting, **decisions)
        else:
            conversation = asyncio.run(session.aconverse(model, waiting, **decisions))
        return [message["content"] for message in conversation.messages if message["role"] == "tool"]
    run: Any = session.run(calls)
    if way == "one request":
        first, second = run.pending
        session.resume(first, approved=True)
        return [session.resume(second.to_json(), approved=False, reason="no").results[0][1].text]
    run = Run.from_json(run.to_json()) if way == "saved" else run
    decisions = {"approved": {"c1": True, "c2": False}, "reason": "no"}
    done = asyncio.run(session.aresume(run, **decisions)) if way == "aresume" else session.resume(run, **decisions)
    return [result.text for _, result in done.results]


@pytest.mark.parametrize("way", WAYS)
def test_middleware_sees_a_call_that_is_rejected_while_it_waits(way: str):
    lines: list[tuple[Any, ...]] = []

    async def audit(call: Call, next: Next) -> ToolResult:
        result = await next(call)
        lines.append((call.id, call.session_id, call.arguments["path"], result.error and result.error.code))
        return ToolResult("replaced") if result.error and result.error.code == "rejected" else result

    kit, removed = kit_of(secret_key=KEY, middleware=[log(print), audit])
    texts = reject(kit.session(session_id="ann"), way)
    assert texts[-1].endswith("The call of 'remove' was rejected: no")  # no middleware changes that
    assert removed == ([] if way == "background" else ["/1"])
    assert [line for line in lines if line[3] == "rejected"] == [("c2", "ann", "/2", "rejected")]


def test_the_log_has_a_rejected_call_without_its_secrets_and_none_of_a_removed_tool():
    lines: list[str] = []
    kit, _ = kit_of(secret_key=KEY, middleware=[log(lines.append)])
    run = kit.run(ANSWER, format="openai")
    lines.clear()
    kit.resume(run, approved=False)
    assert [line.partition(" -> ")[0] for line in lines] == [
        'remove {"path": "/x", "token": "***"}', 'remove {"path": "/y"}',
    ]  # fmt: skip
    assert all("-> rejected in " in line for line in lines)
    run = kit.run(ANSWER, format="openai")
    lines.clear()
    kit.remove("remove")
    assert kit.resume(run, approved=False).results[1][1].error.code == "rejected"
    assert lines == []


def test_a_cache_answers_no_call_that_was_rejected():
    kit, removed = kit_of(secret_key=KEY, middleware=[cache(ttl=60)])
    for is_approved in (True, False):
        run = kit.run([ToolCall(id="c1", name="remove", arguments={"path": "/x"})])
        result = kit.resume(run, approved=is_approved).results[0][1]
    assert (removed, result.error.code) == (["/x"], "rejected")
