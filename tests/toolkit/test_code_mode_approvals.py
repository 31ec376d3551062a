"""Programs that wait for several approvals, for answers and in the background, and how much of them is saved."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from ahvn_tools import ToolCall, ToolContext, ToolResult
from ahvn_tools.code_mode import CodeLimits
from ahvn_tools.errors import ToolkitError
from ahvn_tools.middleware import Call, Next
from ahvn_tools.secret_key import SecretKey
from ahvn_tools.toolkit.run import Run

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from ahvn_tools.code_mode import MontySandbox  # as above
from tests.toolkit.program_desk import MANY, THEN_NOTE, Desk, restored, value

MORE = ", ".join(f"close_and_note({number})" for number in range(3, 7))


@pytest.fixture
def desk(sandbox: MontySandbox) -> Desk:
    return Desk(sandbox)


def test_ten_calls_are_asked_for_at_once_and_their_program_is_stored_once(desk: Desk) -> None:
    run = desk.answer(MANY)
    assert [request.arguments["issue"] for request in run.pending] == list(range(10))
    assert len({request.id for request in run.pending}) == 10
    saved, single = json.dumps(run.to_json()), json.dumps(desk.answer("await close(0)").to_json())
    assert saved.count('"snapshot"') == 1
    assert len(saved) < 5 * len(single)
    assert value(desk.kit.resume(restored(run), approved=True)) == [f"closed {n}" for n in range(10)]
    assert sorted(desk.calls) == [("close", n) for n in range(10)]


def test_the_program_of_many_requests_is_not_signed_and_checked_for_each_of_them(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program may have megabytes, and the event loop would stand still."""
    purposes: list[str] = []
    digest = SecretKey.digest

    def remember(key: SecretKey, purpose: str, data: Any) -> str:
        purposes.append(purpose)
        return digest(key, purpose, data)

    monkeypatch.setattr(SecretKey, "digest", remember)
    run = desk.answer(MANY)
    run = desk.kit.resume(run, approved={run.pending[0].call_id: True})
    assert len(run.pending) == 9
    assert 0 < purposes.count("program of an approval request") < 9


def test_undecided_calls_go_on_waiting_with_their_requests(desk: Desk) -> None:
    run = desk.answer(THEN_NOTE)
    first, second, third = run.pending
    partly = desk.kit.resume(restored(run), approved={first.call_id: True, third.call_id: False}, reason="no")
    assert [(request.id, request.call_id, request.expires_at) for request in partly.pending] == [
        (second.id, second.call_id, second.expires_at)
    ]
    assert desk.calls[0] == ("note", "start")
    rejection = "The call of 'close' was rejected: no"
    assert sorted(desk.calls[1:]) == [("close", 1), ("note", rejection), ("note", "closed 1")]
    done = desk.kit.resume(restored(partly), approved=True)
    assert value(done) == ["noted closed 1", "noted closed 2", f"noted {rejection}"]
    assert len(desk.calls) == 6


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.booleans()), max_size=6))
def test_in_whatever_order_calls_are_decided_each_is_made_once_at_most(
    sandbox: MontySandbox, rounds: list[tuple[int, bool, bool]]
) -> None:
    """Each round decides on one call, and may save the run; the last one approves what is left."""
    desk = Desk(sandbox)
    run, rejected = desk.answer(THEN_NOTE.replace("close_and_note(3)", "close_and_note(3), close_and_note(4)")), set()
    for index, is_approved, is_saved in rounds:
        if not run.pending:
            break
        request = run.pending[index % len(run.pending)]
        rejected |= set() if is_approved else {request.arguments["issue"]}
        run = desk.kit.resume(restored(run) if is_saved else run, approved={request.call_id: is_approved})
    run = desk.kit.resume(restored(run), approved=True) if run.pending else run
    assert sorted(call for call in desk.calls if call[0] == "close") == [
        ("close", number) for number in (1, 2, 3, 4) if number not in rejected
    ]
    assert len([call for call in desk.calls if call[0] == "note"]) == 5
    assert ["rejected" in text for text in value(run)] == [number in rejected for number in (1, 2, 3, 4)]


def test_each_of_several_calls_has_its_own_decision(desk: Desk) -> None:
    run = desk.answer(THEN_NOTE)
    first, second, third = [request.call_id for request in run.pending]
    done = desk.kit.resume(
        run,
        approved={first: False, second: True, third: True},
        arguments={third: {"issue": 30}},
        reason={first: "keep it"},
    )
    assert value(done) == ["noted The call of 'close' was rejected: keep it", "noted closed 2", "noted closed 30"]


def test_middleware_sees_each_rejected_call_of_a_program_once(desk: Desk) -> None:
    seen: list[tuple[str, str | None]] = []

    async def audit(call: Call, next: Next) -> ToolResult:
        result = await next(call)
        if result.error is not None and result.error.code == "rejected":
            seen.append((call.id, call.caller))
        return result

    desk.kit.use(audit)
    run = desk.answer(THEN_NOTE)
    first, second, third = [request.call_id for request in run.pending]
    desk.kit.resume(restored(run), approved={first: False, second: True, third: False})
    assert seen == [(first, "programmatic"), (third, "programmatic")]


def test_arguments_for_a_call_that_is_not_approved_are_refused(desk: Desk) -> None:
    run = desk.answer(THEN_NOTE)
    first, second, _ = [request.call_id for request in run.pending]
    for approved in ({first: True}, {first: True, second: False}, False):
        with pytest.raises(ToolkitError, match=f"Arguments are for approved calls, unlike '{second}'"):
            desk.kit.resume(run, approved=approved, arguments={second: {"issue": 20}})
    done = desk.kit.resume(run, approved=True, arguments={second: {"issue": 20}})
    assert value(done) == ["noted closed 1", "noted closed 20", "noted closed 3"]


def test_a_program_continues_from_one_point_once_whichever_of_its_requests_is_used(desk: Desk) -> None:
    run = desk.answer(THEN_NOTE)
    first, second, third = [json.loads(json.dumps(request.to_json())) for request in run.pending]
    partly = desk.kit.resume(first, approved=True)
    before = list(desk.calls)
    for request in (first, second):
        with pytest.raises(ToolkitError, match=r"used before.*or its program has continued.*pass approved=False\."):
            desk.kit.resume(request, approved=True)
    for request in (first, second, third):
        answered = desk.kit.resume(request, approved=False)
        assert answered.results[0][1].text.startswith(
            "The call of 'run_code' may have run already; its result was lost"
        )
        assert answered.pending == []
    with pytest.raises(ToolkitError, match="used before"):
        desk.kit.resume(run, approved=True)
    assert desk.calls == before
    assert value(desk.kit.resume(partly, approved=True)) == [f"noted closed {n}" for n in (1, 2, 3)]
    assert len(desk.calls) == 7


def test_of_processes_that_resume_a_program_at_once_one_continues_it(sandbox: MontySandbox, tmp_path: Path) -> None:
    """Each has its own toolkit and another request of the program; the first one waits in the background."""
    desks = [Desk(sandbox, approval_store=tmp_path / "approvals.db") for _ in range(6)]
    call_id = desks[0].kit.start("run_code", {"code": THEN_NOTE.replace("close_and_note(3)", MORE)})
    requests = desks[0].kit.wait(call_id, timeout=60).requests
    barrier = threading.Barrier(len(desks))

    def resume(index: int) -> Run | str:
        kit, request = desks[index].kit, requests[index]
        barrier.wait(timeout=60)
        try:
            if index == 0:
                return kit.resume(kit.status(call_id), approved={request.call_id: True})
            return kit.resume(json.loads(json.dumps(request.to_json())), approved=index % 2 == 0)
        except ToolkitError as error:
            return str(error)

    with ThreadPoolExecutor(len(desks)) as threads:
        outcomes = list(threads.map(resume, range(len(desks))))
    runs = [(index, outcome) for index, outcome in enumerate(outcomes) if isinstance(outcome, Run)]
    [(winner, run)] = [(index, run) for index, run in runs if run.pending]
    assert all("may have run already" in run.results[0][1].text for index, run in runs if index != winner)
    assert all("used before" in outcome for outcome in outcomes if isinstance(outcome, str))
    assert [request.id for request in run.pending] == [r.id for r in requests if r is not requests[winner]]
    value(desks[0].kit.resume(restored(run), approved=True))
    calls = sorted(call for desk in desks for call in desk.calls if call[0] == "close")
    is_rejected = winner % 2 == 1
    assert calls == [("close", number) for number in range(1, 7) if not (is_rejected and number == winner + 1)]


def test_the_edits_of_a_call_that_waits_again_are_json(sandbox: MontySandbox) -> None:
    desk = Desk(sandbox)

    @desk.kit.tool(requires_approval=True)
    async def pay(amount: Any, context: ToolContext) -> str:
        """Pay."""
        await context.aask("pay")
        return f"paid {amount!r}"

    run = desk.answer("await pay(1)")
    for wrong in (object(), [SecretStr("canary")]):
        with pytest.raises(ToolkitError, match="The arguments of 'pay' are not JSON data without secrets"):
            desk.kit.resume(run, approved=True, arguments={"c1.1": {"amount": wrong}})
    run = desk.kit.resume(run, approved=True, arguments={"c1.1": {"amount": Decimal("1.5")}})
    assert value(desk.kit.resume(restored(run), approved=True)) == "paid '1.5'"


def test_the_id_of_a_models_call_does_not_let_a_decision_apply_to_a_call_of_a_program(desk: Desk) -> None:
    calls = [ToolCall(id="c1", name="run_code", arguments={"code": "await close(1)"})]
    run = desk.kit.run([*calls, ToolCall(id="c1.1", name="close", arguments={"issue": 2})])
    assert [request.call_id for request in run.pending] == ["c1.1", "c1.1"]
    with pytest.raises(ToolkitError, match=r"2 calls with the id 'c1\.1' wait"):
        desk.kit.resume(run, approved={"c1.1": True})
    desk.kit.resume(run.pending[1], approved=True)
    assert desk.calls == [("close", 2)]


def test_one_request_alone_continues_the_program_and_the_others_stay(desk: Desk, sandbox: MontySandbox) -> None:
    requests = [json.dumps(request.to_json()) for request in desk.answer(MANY).pending]
    other = Desk(sandbox)
    run = other.kit.resume(json.loads(requests[4]), approved=True)
    assert other.calls == [("close", 4)]
    assert [request.arguments["issue"] for request in run.pending] == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert value(other.kit.resume(run, approved=True)) == [f"closed {n}" for n in range(10)]


def test_two_programs_of_one_answer_are_decided_call_by_call(desk: Desk) -> None:
    run = desk.answer("[await close(1), await note('a')]", "[await close(2), await note('b')]")
    assert [request.call_id for request in run.pending] == ["c1.1", "c2.1"]
    run = desk.kit.resume(restored(run), approved={"c2.1": True})
    assert [result.value for _, result in run.results] == [None, ["closed 2", "noted b"]]
    run = desk.kit.resume(restored(run), approved=False)
    assert [result.is_error for _, result in run.results] == [True, False]
    assert desk.calls == [("close", 2), ("note", "b")]


def test_a_call_that_the_program_does_not_await_is_not_made_without_approval(desk: Desk) -> None:
    run = desk.answer("x = close(1)\nawait note('a')")
    [(_, result)] = run.results
    assert result.structured_content["note"] == "The call of 'close' was not made: it has to wait. Await it."
    assert desk.calls == [("note", "a")]


def test_questions_of_several_calls_are_asked_at_once_and_answered_one_by_one(desk: Desk) -> None:
    run = desk.answer("import asyncio\nawait asyncio.gather(delete('a'), delete('b'), note('c'))")
    assert [(request.action, request.details) for request in run.pending] == [
        ("delete a file", {"path": "a"}),
        ("delete a file", {"path": "b"}),
    ]
    run = desk.kit.resume(restored(run), approved={run.pending[0].call_id: True})
    assert [(request.action, request.details) for request in run.pending] == [
        ("delete its copy", {"path": "a"}),
        ("delete a file", {"path": "b"}),
    ]
    assert desk.calls.count(("delete", "b")) == 1  # it waits, and has not run again
    while run.pending:
        run = desk.kit.resume(restored(run), approved=True)
    assert value(run) == ["deleted a", "deleted b", "noted c"]
    assert [call for call in desk.calls if call[0] in {"deleted", "note"}].count(("note", "c")) == 1


def test_the_answer_to_a_question_does_not_approve_the_whole_call(desk: Desk) -> None:
    @desk.kit.tool
    async def pay(context: ToolContext) -> bool:
        """Ask, and return whether the call is approved."""
        await context.aask("look")
        return context.is_approved

    assert value(desk.kit.resume(desk.answer("await pay()"), approved=True)) is False


@pytest.mark.parametrize("is_restored", [False, True], ids=["same process", "restart"])
def test_a_program_in_the_background_waits_and_is_continued(
    desk: Desk, sandbox: MontySandbox, is_restored: bool
) -> None:
    call_id = desk.kit.start("run_code", {"code": MANY})
    status = desk.kit.wait(call_id, timeout=60)
    assert (status.state, len(status.requests), status.pending) == (
        "waiting_for_approval",
        10,
        status.requests[0],
    )
    if is_restored:
        request = json.loads(json.dumps(status.pending.to_json()))
        run = Desk(sandbox).kit.resume(request, approved=True)
        assert len(run.pending) == 9
        return
    run = desk.kit.resume(status, approved={status.requests[3].call_id: True})
    status = desk.kit.status(call_id)
    assert len(run.pending) == len(status.requests) == 9
    assert value(desk.kit.resume(status, approved=True)) == desk.kit.status(call_id).result.value
    assert (desk.kit.status(call_id).state, len(desk.calls)) == ("done", 10)
    with pytest.raises(ToolkitError, match="does not wait for anything: it is done"):
        desk.kit.resume(desk.kit.status(call_id), approved=True)


def test_a_model_runs_a_program_in_the_background(desk: Desk) -> None:
    desk.kit.add(*desk.kit.background_tools())
    started = desk.kit.call("start_call", {"name": "run_code", "arguments": {"code": "await close(1)"}})
    finished = desk.kit.call("wait_for_call", {"id": started["id"], "seconds": 60})
    assert finished["state"] == "waiting_for_approval"
    desk.kit.resume(desk.kit.status(started["id"]), approved=True)
    assert desk.kit.call("call_status", {"id": started["id"]})["result"] == {"result": "closed 1"}


def test_a_tool_in_a_program_starts_a_call_in_the_background_that_outlives_the_program(desk: Desk) -> None:
    @desk.kit.tool
    def begin(text: str, context: ToolContext) -> str:
        """Begin a note."""
        call_id: str = context.toolkit.start("note", {"text": text})
        return call_id

    desk.kit.add(*desk.kit.background_tools())
    run = desk.answer("id = await begin('a')\nawait close(1)\n(await wait_for_call(id=id, seconds=60))['result']")
    assert value(desk.kit.resume(restored(run), approved=True)) == "noted a"
    assert desk.calls.count(("note", "a")) == 1


def test_a_program_cannot_start_programs_in_the_background(desk: Desk) -> None:
    desk.kit.add(*desk.kit.background_tools())
    [(_, result)] = desk.answer("await start_call(name='run_code', arguments={'code': '1'})").results
    assert "used when not defined" in result.text


async def test_programs_wait_and_continue_in_async_code(desk: Desk) -> None:
    call_id = desk.kit.start("run_code", {"code": MANY})
    status = await desk.kit.await_(call_id, 60)
    run = await desk.kit.aresume(status, approved=True)
    assert value(run) == desk.kit.status(call_id).result.value == [f"closed {n}" for n in range(10)]


def test_a_program_with_little_data_is_a_few_kilobytes(desk: Desk) -> None:
    run = desk.answer("a = await note('a')\nb = await close(1)\n[a, b]")
    assert len(json.dumps(run.to_json())) < 6_000


def test_a_continued_program_has_printed_what_it_had_printed_before(sandbox: MontySandbox) -> None:
    desk = Desk(sandbox, limits=CodeLimits(output_chars=5))
    run = desk.kit.resume(restored(desk.answer("print('123456')\nawait close(1)")), approved=True)
    assert run.results[0][1].structured_content == {
        "result": "closed 1",
        "printed": "12345",
        "note": "The program has printed more than this. Print less.",
    }


def test_a_program_that_is_too_large_to_be_stored_gets_an_error_and_goes_on(
    sandbox: MontySandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(sandbox, limits=CodeLimits(saved_bytes=20_000))
    code = """
data = [str(number * number) for number in range({count})]
try:
    text = await close(1)
except RuntimeError as error:
    text = str(error)
text
"""
    assert len(desk.answer(code.format(count=500)).pending) == 1
    text = value(desk.answer(code.format(count=50_000)))
    assert text.startswith("This call has to wait, and the program cannot: it would be stored with ")
    assert text.endswith(" bytes, and 20,000 are allowed. Keep less data in the program.")
    monkeypatch.setattr("ahvn_tools.toolkit.program_run.MAX_SNAPSHOT_BYTES", 500)  # of the state before it is packed
    assert "and 500 are allowed" in value(desk.answer(code.format(count=1)))
    assert desk.calls == []


def test_a_program_without_memory_to_be_stored_ends_with_the_reason(
    sandbox: MontySandbox, capfd: pytest.CaptureFixture[str]
) -> None:
    desk = Desk(sandbox, limits=CodeLimits(memory_bytes=50_000_000))
    run = desk.answer("kept = 'x' * 30_000_000\nawait close(1)")
    assert run.is_done
    assert "has too much data to be stored" in run.results[0][1].text
    assert "spawner.py" not in capfd.readouterr().err
    assert desk.calls == []


def test_images_of_a_program_are_limited(sandbox: MontySandbox) -> None:
    from fastmcp.utilities.types import Image

    desk = Desk(sandbox, limits=CodeLimits(content_bytes=10_000))

    @desk.kit.tool
    def draw(size: int) -> Any:
        """Draw."""
        return Image(data=b"x" * size, format="png")

    code = """
try:
    [await draw(3000) for _ in range(5)]
    text = "drawn"
except RuntimeError as error:
    text = str(error)
text
"""
    text = value(desk.answer(code))
    assert text == "The images and files of this program would have more than 10,000 bytes."
    run = desk.answer("a = await draw(3000)\nawait close(1)\nb = await draw(3000)\n[a, b, await draw(3000)]")
    [(_, result)] = desk.kit.resume(restored(run), approved=True).results
    assert text in result.text
