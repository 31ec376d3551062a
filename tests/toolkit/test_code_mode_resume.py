"""Programs that wait for approvals: saved, continued once in any process, and refused when something does not fit."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from ahvn_tools import Secret, ToolCall, ToolContext, Toolkit, ToolResult
from ahvn_tools.code_mode import CodeLimits
from ahvn_tools.errors import ToolkitError
from ahvn_tools.toolkit.run import Run
from tests.execution.entry_points import until

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from ahvn_tools.code_mode import MontySandbox  # as above

KEY = "a key that all processes have"


class Desk:
    """A toolkit for programs, and the calls that its tools received."""

    def __init__(self, sandbox: Any, limits: CodeLimits | None = None, **options: Any) -> None:
        self.calls: list[Any] = []
        self.kit = Toolkit("desk", state={"user": "canary-ann"}, **{"secret_key": KEY, **options})
        self.kit.add(self.note).add(self.close, self.send, requires_approval=True).add(self.delete)
        self.kit.bind("user").add_code_mode(sandbox=sandbox, limits=limits)

    def note(self, text: str, user: str) -> str:
        """Write a note."""
        self.calls.append(("note", text))
        return f"noted {text}"

    def close(self, issue: int) -> str:
        """Close an issue."""
        self.calls.append(("close", issue))
        return f"closed {issue}"

    def send(self, to: str, user: str) -> str:
        """Send a message."""
        self.calls.append(("send", to, user))
        return f"sent to {to}"

    async def delete(self, path: str, context: ToolContext) -> str:
        """Delete a file, and then its copy."""
        self.calls.append(("delete", path))
        await context.ask("delete a file", {"path": path})
        await context.ask("delete its copy", {"path": path})
        self.calls.append(("deleted", path))
        return f"deleted {path}"

    def answer(self, *programs: str, kit: Any = None) -> Run:
        calls = [ToolCall(id=f"c{n}", name="run_code", arguments={"code": code}) for n, code in enumerate(programs, 1)]
        run: Run = (self.kit if kit is None else kit).run(calls)
        return run


@pytest.fixture
def desk(sandbox: MontySandbox) -> Desk:
    return Desk(sandbox)


def restored(run: Run) -> Run:
    """Return a run as another process reads it."""
    return Run.from_json(json.loads(json.dumps(run.to_json())))


def value(run: Run) -> Any:
    [(_, result)] = run.results
    assert result.error is None, result.text
    return result.value


MANY = "import asyncio\nawait asyncio.gather(*[close(n) for n in range(10)])"
THEN_NOTE = """
import asyncio

async def close_and_note(n):
    try:
        text = await close(n)
    except RuntimeError as error:
        text = str(error)
    return await note(text)

await note("start")
await asyncio.gather(close_and_note(1), close_and_note(2), close_and_note(3))
"""

MORE = ", ".join(f"close_and_note({number})" for number in range(3, 7))

# --- A host that is killed ------------------------------------------------------------------------------------------

HOST = """
import json, os, signal, sys, time
from pathlib import Path
from ahvn_tools import ToolCall, ToolContext, Toolkit
from ahvn_tools.errors import ToolkitError
from ahvn_tools.toolkit.run import Run

folder, how, key = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
kit = Toolkit("host", secret_key=key, approval_store=folder / "approvals.db")


def log(text):
    with (folder / "calls").open("a") as file:
        file.write(text + "\\n")


@kit.tool
def step(name: str) -> str:
    "Make a step."
    log(name)
    if how == "slow" and name == "after":
        (folder / "is_in_step").touch()
        time.sleep(60)
    return name


@kit.tool(requires_approval=True)
def pay(amount: int) -> str:
    "Pay."
    log(f"pay {amount}")
    return f"paid {amount}"


kit.add_code_mode()
CODE = '''
first = await step("first")
second = await step("second")
try:
    paid = await pay(5)
except RuntimeError as error:
    paid = str(error)
[first, second, paid, await step("after")]
'''

if how == "spin":
    code = "step('first')\\nwhile True:\\n    pass"
    kit.exec("run_code", {"code": code})
if how == "start":
    run = kit.run([ToolCall(id="c1", name="run_code", arguments={"code": CODE})])
    temporary = folder / "run.new"
    temporary.write_text(json.dumps(run.to_json()))
    temporary.rename(folder / "run.json")
    time.sleep(60)
else:
    run = Run.from_json(json.loads((folder / "run.json").read_text()))
    decision = json.loads(sys.argv[4])
    arguments = {run.pending[0].call_id: decision.pop("arguments")} if "arguments" in decision else None
    try:
        [(_, result)] = kit.resume(run, arguments=arguments, **decision).results
        print(json.dumps(result.value if result.error is None else result.text))
    except ToolkitError as error:
        print(json.dumps(str(error)))
"""


def start_host(folder: Path, how: str, decision: Any = None, key: str = KEY) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOST, str(folder), how, key, json.dumps(decision)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def kill_host(process: subprocess.Popen[str], *, has_started: Callable[[], bool]) -> None:
    """Kill a host when it has started something, and check that its worker processes end, too."""
    workers: list[psutil.Process] = []
    try:
        assert until(has_started)
        workers = psutil.Process(process.pid).children(recursive=True)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    assert workers
    assert until(lambda: not any(map(_is_alive, workers)))


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def resume_host(folder: Path, decision: Any, key: str = KEY) -> Any:
    return json.loads(start_host(folder, "resume", decision, key).communicate(timeout=60)[0])


def calls_of(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def test_a_program_whose_host_was_killed_is_continued_by_another_process_once(tmp_path: Path) -> None:
    kill_host(start_host(tmp_path, "start"), has_started=(tmp_path / "run.json").exists)
    assert calls_of(tmp_path) == ["first", "second"]
    value = resume_host(tmp_path, {"approved": True, "arguments": {"amount": 7}})
    assert value == ["first", "second", "paid 7", "after"]
    assert "used before" in resume_host(tmp_path, {"approved": True})
    assert calls_of(tmp_path) == ["first", "second", "pay 7", "after"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("decision", "paid", "calls"),
    [
        ({"approved": True}, "paid 5", ["pay 5"]),
        ({"approved": False, "reason": "too much"}, "The call of 'pay' was rejected: too much", []),
    ],
    ids=["approved", "rejected"],
)
def test_a_decision_reaches_a_program_whose_host_was_killed(
    tmp_path: Path, decision: Any, paid: str, calls: Any
) -> None:
    kill_host(start_host(tmp_path, "start"), has_started=(tmp_path / "run.json").exists)
    assert "another secret_key" in resume_host(tmp_path, {"approved": True}, key="another key of 16 characters")
    assert resume_host(tmp_path, decision) == ["first", "second", paid, "after"]
    assert "used before" in resume_host(tmp_path, decision)
    assert calls_of(tmp_path) == ["first", "second", *calls, "after"]


@pytest.mark.exhaustive
def test_a_host_that_is_killed_while_a_program_continues_makes_no_call_twice(tmp_path: Path) -> None:
    kill_host(start_host(tmp_path, "start"), has_started=(tmp_path / "run.json").exists)
    kill_host(start_host(tmp_path, "slow", {"approved": True}), has_started=(tmp_path / "is_in_step").exists)
    assert "used before" in resume_host(tmp_path, {"approved": True})
    assert calls_of(tmp_path) == ["first", "second", "pay 5", "after"]


@pytest.mark.exhaustive
def test_a_worker_that_runs_an_endless_program_ends_with_its_killed_host(tmp_path: Path) -> None:
    kill_host(start_host(tmp_path, "spin"), has_started=(tmp_path / "calls").exists)


# --- Several requests of one program --------------------------------------------------------------------------------


def test_ten_calls_are_asked_for_at_once_and_their_program_is_stored_once(desk: Desk) -> None:
    run = desk.answer(MANY)
    assert [request.arguments["issue"] for request in run.pending] == list(range(10))
    assert len({request.id for request in run.pending}) == 10
    saved, single = json.dumps(run.to_json()), json.dumps(desk.answer("await close(0)").to_json())
    assert saved.count('"snapshot"') == 1
    assert len(saved) < 5 * len(single)
    assert value(desk.kit.resume(restored(run), approved=True)) == [f"closed {n}" for n in range(10)]
    assert sorted(desk.calls) == [("close", n) for n in range(10)]


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


def test_a_program_continues_from_one_point_once_whichever_of_its_requests_is_used(desk: Desk) -> None:
    run = desk.answer(THEN_NOTE)
    first, second, third = [json.loads(json.dumps(request.to_json())) for request in run.pending]
    partly = desk.kit.resume(first, approved=True)
    before = list(desk.calls)
    for request, approved in [(first, True), (second, True), (second, False), (third, False)]:
        with pytest.raises(ToolkitError, match=r"used before.*or its program has continued"):
            desk.kit.resume(request, approved=approved)
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
    [(winner, run)] = [(index, outcome) for index, outcome in enumerate(outcomes) if isinstance(outcome, Run)]
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
        await context.ask("pay")
        return f"paid {amount!r}"

    run = desk.answer("await pay(1)")
    for wrong in (object(), [SecretStr("canary")]):
        with pytest.raises(ToolkitError, match="The arguments of 'pay' are not JSON data without secrets"):
            desk.kit.resume(run, approved=True, arguments={"c1.1": {"amount": wrong}})
    run = desk.kit.resume(run, approved=True, arguments={"c1.1": {"amount": Decimal("1.5")}})
    assert value(desk.kit.resume(restored(run), approved=True)) == "paid '1.5'"


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
    assert result.structured_content["note"] == "The call of 'close' was not made: it needs an approval. Await it."
    assert desk.calls == [("note", "a")]


# --- What is refused ------------------------------------------------------------------------------------------------


def _snapshot(data: Any) -> None:
    text = data["program"]["snapshot"]
    data["program"]["snapshot"] = text[:40] + ("A" if text[40] != "A" else "B") + text[41:]


def _other_request(data: Any) -> None:
    [key] = data["program"]["requests"]
    data["program"]["requests"][key]["tool"] = "note"


CHANGES: dict[str, Callable[[Any], Any]] = {
    "snapshot": _snapshot,
    "code": lambda data: data["program"].update(code="await close(2)"),
    "calls made": lambda data: data["program"].update(calls_made=0),
    "arguments of a waiting call": lambda data: data["program"]["waiting"]["0"]["arguments"].update(issue=2),
    "tool of a waiting call": lambda data: data["program"]["waiting"]["0"].update(tool="send"),
    "functions": lambda data: data["program"]["functions"].update(note=["send", "x"]),
    "id": lambda data: data["program"].update(id="0" * 32),
    "request in the program": _other_request,
    "output": lambda data: data["program"].update(output="all is well"),
    "contents": lambda data: data["program"].update(contents={"[image 1]": {"type": "text", "text": "x"}}),
    "sandbox": lambda data: data["program"].update(sandbox="monty 0"),
    "version": lambda data: data["program"].update(version=0),
    "no program": lambda data: data.update(program=None),
    "another call": lambda data: data["program"].update(call_id="c2"),
    "another tool that runs it": lambda data: data["program"].update(tool="note"),
    "later expiry": lambda data: data.update(expires_at=data["expires_at"] + 1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_program_is_refused_and_nothing_runs(desk: Desk, change: Callable[[Any], Any]) -> None:
    request = desk.answer("await close(1)\nawait note('a')").pending[0].to_json()
    changed = json.loads(json.dumps(request))
    change(changed)
    with pytest.raises(ToolkitError, match="has been changed"):
        desk.kit.resume(changed, approved=True)
    assert desk.kit.resume(changed, approved=False).results[0][1].error.code == "rejected"
    assert desk.calls == []
    assert value(desk.kit.resume(request, approved=True)) == "noted a"


def test_programs_that_were_swapped_between_requests_are_refused(desk: Desk) -> None:
    run = desk.answer("await close(1)", "await close(2)")
    first, second = [request.to_json() for request in run.pending]
    for request in ({**first, "program": second["program"]}, {**second, "program": first["program"]}):
        with pytest.raises(ToolkitError, match="has been changed"):
            desk.kit.resume(request, approved=True)
    assert desk.calls == []


def test_with_a_changed_request_no_other_call_of_the_program_is_approved(desk: Desk) -> None:
    run = desk.answer(MANY)
    data = json.loads(json.dumps(run.to_json()))
    data["calls"][0]["further"][0]["arguments"] = {"issue": 70}
    first, second = [request.call_id for request in run.pending[:2]]
    with pytest.raises(ToolkitError, match="The request has been changed"):
        desk.kit.resume(Run.from_json(data), approved={first: True, second: False})
    [(_, result)] = desk.kit.resume(Run.from_json(data), approved={second: False}).results
    assert result.text.startswith("The call of 'run_code' was rejected")
    assert desk.calls == []
    assert len(value(desk.kit.resume(run, approved=True))) == 10


def test_a_request_of_another_session_is_refused(desk: Desk) -> None:
    ann, bob = desk.kit.session(session_id="ann"), desk.kit.session(session_id="bob")
    run = restored(desk.answer("await close(1)", kit=ann))
    for kit in (bob, desk.kit):
        for approved in (True, False):
            with pytest.raises(ToolkitError, match="in another session"):
                kit.resume(run, approved=approved)
    assert desk.calls == []
    assert value(desk.kit.session(session_id="ann").resume(run, approved=True)) == "closed 1"


def test_an_expired_program_runs_neither_approved_nor_rejected(
    sandbox: MontySandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(sandbox, approval_expiry=60)
    code = "try:\n    await close(1)\nexcept RuntimeError:\n    pass\nawait note('a')"
    run, now = desk.answer(code), time.time()
    monkeypatch.setattr(time, "time", lambda: now + 61)
    with pytest.raises(ToolkitError, match="has expired"):
        desk.kit.resume(run, approved=True)
    [(_, result)] = desk.kit.resume(run, approved=False).results
    assert result.error.code == "rejected"
    assert desk.calls == []


def test_a_program_waits_until_the_last_of_its_requests_expires(
    sandbox: MontySandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(sandbox, approval_expiry=60)
    run = desk.answer(THEN_NOTE.replace("close_and_note(3)", "delete('a')").replace("close_and_note(2), ", ""))
    now, requests = time.time(), {request.tool: request for request in run.pending}
    old, asking = requests["close"], requests["delete"]
    monkeypatch.setattr(time, "time", lambda: now + 50)
    run = desk.kit.resume(restored(run), approved={asking.call_id: True})
    new = next(request for request in run.pending if request.id != old.id)
    monkeypatch.setattr(time, "time", lambda: now + 70)
    with pytest.raises(ToolkitError, match="has expired"):
        desk.kit.resume(run, approved=True)
    done = desk.kit.resume(restored(run), approved={new.call_id: True, old.call_id: False}, reason="late")
    assert value(done) == ["noted The call of 'close' was rejected: late", "deleted a"]
    assert ("close", 1) not in desk.calls


def test_a_program_that_has_continued_cannot_be_rejected_when_its_store_has_forgotten_it(
    sandbox: MontySandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    desk = Desk(sandbox, approval_expiry=60, approval_store=tmp_path / "approvals.db")
    run, now = desk.answer(THEN_NOTE), time.time()
    desk.kit.resume(run.pending[0], approved=True)
    before = list(desk.calls)
    monkeypatch.setattr(time, "time", lambda: now + 48 * 3600)
    assert desk.kit.resume(run.pending[1], approved=False).results[0][1].error.code == "rejected"
    assert desk.calls == before


def test_a_request_is_decided_once_in_toolkits_with_one_store(sandbox: MontySandbox, tmp_path: Path) -> None:
    first, second = [Desk(sandbox, approval_store=tmp_path / "approvals.db") for _ in range(2)]
    run = restored(first.answer("await close(1)"))
    assert value(second.kit.resume(run, approved=True)) == "closed 1"
    for approved in (True, False):
        with pytest.raises(ToolkitError, match="used before"):
            first.kit.resume(run, approved=approved)
    assert first.calls == []


class OtherVersion:
    """A sandbox of another version."""

    version = "monty 0.0"

    def __init__(self, sandbox: MontySandbox) -> None:
        self.check, self.open = sandbox.check, sandbox.open


@pytest.mark.parametrize("approved", [True, False])
def test_a_program_of_another_sandbox_version_does_not_continue(
    desk: Desk, sandbox: MontySandbox, approved: bool
) -> None:
    run = restored(desk.answer("await close(1)"))
    other = Desk(OtherVersion(sandbox))
    [(_, result)] = other.kit.resume(run, approved=approved).results
    assert result.error.code == "changed"
    assert f"{sandbox.version!r} and cannot continue in 'monty 0.0'. Run it again." in result.text
    assert other.calls == []


@pytest.mark.parametrize("approved", [True, False])
def test_a_program_of_another_version_of_the_package_does_not_continue(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, approved: bool
) -> None:
    monkeypatch.setattr("ahvn_tools.code_mode.saved_program.VERSION", 0)
    run = restored(desk.answer("await close(1)"))
    monkeypatch.undo()
    [(_, result)] = desk.kit.resume(run, approved=approved).results
    assert (result.error.code, result.error.message) == (
        "changed",
        "The program was stopped by another version of ahvn_tools. Run it again.",
    )
    assert desk.calls == []


def test_a_request_that_a_tool_makes_up_is_an_error_in_the_program(sandbox: MontySandbox) -> None:
    desk = Desk(sandbox)
    real = desk.kit.exec("close", {"issue": 1}).meta["approval"]

    @desk.kit.tool
    def forge() -> ToolResult:
        """Return a request of another call."""
        return replace(desk.kit.exec("close", {"issue": 2}), meta={"approval": {**real, "call_id": "c1.1"}})

    run = desk.answer("await forge()")
    assert run.is_done
    assert run.results[0][1].is_error


# --- What has changed while a program waits -------------------------------------------------------------------------


CATCHING = """
try:
    closed = await close(1)
except RuntimeError as error:
    closed = str(error)
try:
    noted = await note("a")
except RuntimeError as error:
    noted = str(error)
[closed, noted]
"""


def test_a_tool_that_has_disappeared_is_an_error_in_the_program(desk: Desk) -> None:
    run = desk.answer(CATCHING)
    desk.kit.remove("close")
    closed, noted = value(desk.kit.resume(run, approved=True))
    assert closed.startswith("There is no tool 'close'.")
    assert noted == "noted a"
    assert desk.calls == [("note", "a")]


def test_a_later_tool_that_has_disappeared_is_an_error_in_the_program(desk: Desk) -> None:
    run = desk.answer(CATCHING)
    desk.kit.remove("note")
    assert value(desk.kit.resume(run, approved=True)) == ["closed 1", "There is no function 'note'."]


def test_a_tool_that_the_caller_may_not_see_any_more_is_an_error_in_the_program(sandbox: MontySandbox) -> None:
    desk = Desk(sandbox)
    run = desk.answer(CATCHING, kit=desk.kit.select(audience="clerk"))
    desk.kit.add(desk.close, requires_approval=True, audience="boss", on_duplicate="replace")
    closed, noted = value(desk.kit.select(audience="clerk").resume(restored(run), approved=True))
    assert closed == "The tool 'close' is not available to the audience 'clerk'."
    assert noted == "noted a"
    assert desk.calls == [("note", "a")]


def test_a_tool_with_other_parameters_is_an_error_in_the_program(desk: Desk) -> None:
    run = desk.answer(CATCHING)

    def close(other: int, issue: int) -> str:
        """Close an issue."""
        return "changed"

    def note(user: str, kind: str, text: str = "") -> str:
        """Write a note."""
        return "changed"

    desk.kit.add(close, requires_approval=True, on_duplicate="replace").add(note, on_duplicate="replace")
    assert value(desk.kit.resume(run, approved=True)) == [
        "The tool 'close' has changed since the call was made. Ask for the call again.",
        "The tool 'note' has changed since the program was started. Run a new program.",
    ]
    assert desk.calls == []


def test_a_name_means_the_tool_that_it_meant_when_the_program_was_started(sandbox: MontySandbox) -> None:
    """A tool whose name is no identifier could otherwise take the name of a removed one."""
    kit, calls = Toolkit("k", secret_key=KEY), []

    @kit.tool(requires_approval=True)
    def wait() -> str:
        """Wait."""
        return "waited"

    kit.add(lambda: calls.append("old"), name="read_all").add_code_mode(sandbox=sandbox)
    code = "await wait()\ntry:\n    read = await read_all()\nexcept RuntimeError as error:\n    read = str(error)\nread"
    run = kit.run([ToolCall(id="c1", name="run_code", arguments={"code": code})])
    kit.remove("read_all")
    kit.add(lambda: calls.append("new"), name="read-all")
    assert value(kit.resume(run, approved=True)) == "There is no function 'read_all'."
    assert calls == []


def test_a_continued_program_uses_the_bindings_of_its_host(desk: Desk, sandbox: MontySandbox) -> None:
    run = desk.answer("await send('bob')")
    other = Desk(sandbox)
    other.kit.state["user"] = "eve"
    assert value(other.kit.resume(restored(run), approved=True)) == "sent to bob"
    assert other.calls == [("send", "bob", "eve")]


def test_a_tool_that_has_taken_the_name_of_run_code_does_not_get_the_program(desk: Desk) -> None:
    run = desk.answer("await close(1)")
    received: list[str] = []
    desk.kit.remove("run_code")

    @desk.kit.tool
    def run_code(code: str) -> None:
        """Run code."""
        received.append(code)

    [(_, result)] = desk.kit.resume(run, approved=True).results
    assert result.error.code == "changed"
    assert (received, desk.calls) == ([], [])


def test_without_run_code_a_program_does_not_continue(desk: Desk) -> None:
    run = desk.answer("await close(1)")
    desk.kit.remove("run_code")
    [(_, result)] = desk.kit.resume(run, approved=True).results
    assert result.error.code == "not_found"
    assert desk.calls == []


# --- Questions, and calls in the background -------------------------------------------------------------------------


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
    async def pay(context: ToolContext) -> str:
        """Ask, and then request an approval."""
        await context.ask("look")
        context.require_approval()
        return "paid"

    run = desk.kit.resume(desk.answer("await pay()"), approved=True)
    assert [(request.tool, request.action) for request in run.pending] == [("pay", None)]


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
    with pytest.raises(ToolkitError, match="does not wait for an approval: it is done"):
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


# --- Size and secrets -----------------------------------------------------------------------------------------------


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
    assert text.startswith("This call needs an approval, and the program cannot wait for one: it would be stored with ")
    assert text.endswith(" bytes, and 20,000 are allowed. Keep less data in the program.")
    monkeypatch.setattr("ahvn_tools.toolkit.program_run.MAX_SNAPSHOT_BYTES", 500)  # of the state before it is packed
    assert "and 500 are allowed" in value(desk.answer(code.format(count=1)))
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


def test_bound_values_and_secrets_are_in_no_part_of_a_saved_run(
    sandbox: MontySandbox, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    desk = Desk(sandbox)

    @desk.kit.tool
    def login(password: Annotated[str, Secret]) -> str:
        """Log in."""
        raise RuntimeError(f"wrong: {password}")

    @desk.kit.tool
    def fail(user: str) -> str:
        """Fail with a bound value."""
        from ahvn_tools.errors import ToolError

        raise ToolError(f"no account of {user}")

    desk.kit.bind("user")
    programs = [
        "try:\n    await fail()\nexcept RuntimeError as error:\n    text = str(error)\nawait send(text)",
        "await close(1)\nawait login('canary-1')",
        "try:\n    await login('canary-2')\nexcept RuntimeError as error:\n    print(error)\nawait close(1)",
        "name = 'canary-3'\nawait close(1)\nf\"{await login(name)}\"",
    ]
    for code in programs:
        run = desk.answer(code)
        texts = [json.dumps(run.to_json()), repr(run), repr(run.pending), *[repr(result) for _, result in run.results]]
        texts += [caplog.text, *[result.text for _, result in run.results]]
        assert not [text for text in texts if "canary" in text], code
        assert b"canary" not in everything(run), code
    assert len(desk.answer(programs[0]).pending) == 1
    for code in programs[1:]:
        [(_, result)] = desk.answer(code).results
        assert "because it names a tool with a secret argument" in result.text


@pytest.mark.parametrize(
    "code",
    [
        "await fetch(headers={'password': 'canary'})\nawait close(1)",
        "import asyncio\nawait asyncio.gather(close(1), fetch({'a': [{'token': 'canary'}]}))",
        "headers = {}\nheaders['api_key'] = 'canary'\nawait close(1)\nawait fetch(headers)",
        "name = 'pass' + 'word'\nawait fetch({name: 'canary'})\nawait close(1)",
        "import asyncio\nname = 'pass' + 'word'\nawait asyncio.gather(close(1), note('a'), pay({name: 'canary'}))",
    ],
    ids=["made", "beside", "set", "computed name", "waits itself"],
)
def test_a_program_with_a_secret_deep_in_an_argument_is_not_stored(sandbox: MontySandbox, code: str) -> None:
    desk = Desk(sandbox)

    @desk.kit.tool
    def fetch(headers: dict[str, Any]) -> str:
        """Fetch a page."""
        return "page"

    @desk.kit.tool(requires_approval=True)
    def pay(headers: dict[str, Any]) -> str:
        """Pay."""
        return "paid"

    run = desk.answer(code)
    assert run.is_done
    assert "and the program cannot wait for one, because it" in run.results[0][1].text
    assert ("close", 1) not in desk.calls


def everything(run: Run) -> bytes:
    """Return a saved run with its programs unpacked."""
    programs = [request.program for request in run.pending if request.program is not None]
    snapshots = [zlib.decompress(base64.b64decode(program["snapshot"])) for program in programs]
    return b" ".join([json.dumps(run.to_json()).encode(), *snapshots])


@pytest.mark.parametrize(
    "code",
    [
        "token = await leak()\nawait close(1)",
        "print(await leak())\nawait close(1)",
        "tokens = {'a': [await leak()]}\nawait close(1)",
        "import asyncio\nawait asyncio.gather(close(1), note_later(await leak()))",
        "text = ''\ntry:\n    await leak(True)\nexcept RuntimeError as error:\n    text = str(error)\nawait close(1)",
    ],
    ids=["kept", "printed", "nested", "only in a waiting call", "in an error"],
)
def test_a_secret_that_a_tool_returns_is_not_stored(sandbox: MontySandbox, code: str) -> None:
    desk = Desk(sandbox)

    @desk.kit.tool
    def leak(token: Annotated[str, Secret], fails: bool = False) -> str:
        """Return the token."""
        from ahvn_tools.errors import ToolError

        if fails:
            raise ToolError(f"wrong: {token}")
        return token

    @desk.kit.tool(requires_approval=True)
    def note_later(text: str) -> None:
        """Write a note."""

    desk.kit.bind("token")
    desk.kit.state["token"] = 'canary-"token"'
    run = desk.answer(code)
    assert b"canary" not in everything(run)
    is_masked = "leak(True)" in code
    assert len(run.pending) == is_masked
    assert is_masked or "because it contains a secret that a call has received" in run.results[0][1].text


def test_a_bound_secret_does_not_keep_a_program_from_waiting(sandbox: MontySandbox) -> None:
    desk = Desk(sandbox)

    @desk.kit.tool(requires_approval=True)
    def pay(amount: int, token: Annotated[str, Secret]) -> str:
        """Pay."""
        return f"paid {amount}"

    desk.kit.bind("token")
    desk.kit.state["token"] = "canary-token"
    run = desk.answer("await pay(5)")
    assert b"canary" not in everything(run)
    assert value(desk.kit.resume(restored(run), approved=True)) == "paid 5"
