"""Limit: how many calls there may be in a time, in a run and in a session."""

from __future__ import annotations

import asyncio
import importlib
import threading
import time
from types import SimpleNamespace

import pytest
from fastmcp import Client

from ahvn_tools import ToolCall, ToolContext, ToolError, Toolkit, ToolSpecError
from ahvn_tools.errors import LimitExceededError, StateKeyError
from ahvn_tools.middleware import retry
from ahvn_tools.middleware.limit import limit
from ahvn_tools.toolkit import Run


def kit_of(**options) -> tuple[Toolkit, list[float]]:
    began: list[float] = []

    def note(word: str = "") -> int:
        began.append(time.monotonic())
        return len(began)

    kit = Toolkit("kit", middleware=[limit(**options)])
    kit.add(note)
    return kit, began


SPEED = 5
"""How much faster the clock of `fast` is."""


@pytest.fixture
def fast(monkeypatch):
    """Let the clock of `limit` and its waits be faster."""
    module = importlib.import_module("ahvn_tools.middleware.limit")
    monkeypatch.setattr(module, "monotonic", lambda: time.monotonic() * SPEED)
    monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=lambda seconds: asyncio.sleep(seconds / SPEED)))


def codes(results) -> list[str]:
    return [result.error.code if result.error else "ok" for result in results]


def test_more_calls_than_the_rate_are_refused():
    kit, began = kit_of(per_minute=3)
    results = [kit.exec("note") for _ in range(5)]
    assert codes(results) == ["ok", "ok", "ok", "limit_exceeded", "limit_exceeded"]
    assert "the limit is 3 per minute" in results[-1].error.message
    assert len(began) == 3


def test_call_raises_with_the_seconds_to_wait():
    kit, _ = kit_of(per_minute=1)
    kit.call("note")
    with pytest.raises(LimitExceededError) as caught:
        kit.call("note")
    assert caught.value.tool == "note"
    assert 50 < caught.value.retry_after <= 60


@pytest.mark.usefixtures("fast")
def test_a_call_waits_for_its_start_time_within_wait():
    kit, began = kit_of(per_second=2, wait=5)
    started = time.monotonic()
    assert codes(kit.exec("note") for _ in range(5)) == ["ok"] * 5
    assert [int((at - started) * SPEED + 0.01) >= turn // 2 for turn, at in enumerate(began)] == [True] * 5


@pytest.mark.usefixtures("fast")
def test_a_call_that_would_wait_too_long_is_refused_at_once_and_not_counted():
    kit, _ = kit_of(per_second=1, per_minute=2, wait=1.5)
    started = time.monotonic()
    assert codes(kit.exec("note") for _ in range(4)) == ["ok", "ok", "limit_exceeded", "limit_exceeded"]
    assert time.monotonic() - started < 50  # and not a minute


def test_a_call_that_would_wait_a_little_too_long_is_refused():
    kit, _ = kit_of(per_second=1, wait=0.1)
    assert codes(kit.exec("note") for _ in range(2)) == ["ok", "limit_exceeded"]


@pytest.mark.exhaustive
def test_no_second_has_more_calls_than_allowed_over_threads_and_loops():
    kit, began = kit_of(per_second=10, wait=10)

    def in_a_loop():
        async def four():
            await asyncio.gather(*(kit.aexec("note") for _ in range(4)))

        asyncio.run(four())

    def in_sync():
        for _ in range(4):
            kit.exec("note")

    threads = [threading.Thread(target=target) for target in (in_a_loop, in_sync) * 3]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    began.sort()
    assert len(began) == 24
    assert all(at - started > turn // 10 - 0.01 for turn, at in enumerate(began))


def test_a_session_has_a_limit_and_refused_calls_do_not_count():
    kit, _ = kit_of(per_session=2)
    ann, bob = kit.session(user="ann"), kit.session(user="bob")
    assert codes(ann.exec("note") for _ in range(3)) == ["ok", "ok", "limit_exceeded"]
    assert codes(bob.exec("note") for _ in range(3)) == ["ok", "ok", "limit_exceeded"]
    assert codes(kit.exec("note") for _ in range(3)) == ["ok", "ok", "limit_exceeded"]


def test_a_session_is_counted_exactly_over_threads():
    kit, began = kit_of(per_session=50)
    session = kit.session()
    threads = [threading.Thread(target=lambda: [session.exec("note") for _ in range(20)]) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(began) == 50


def several(count: int) -> list[ToolCall]:
    return [ToolCall(id=f"c{number}", name="note") for number in range(count)]


def codes_of(run: Run) -> list[str]:
    return codes(result for _, result in run.results)


def test_each_run_has_the_same_limit():
    kit, began = kit_of(per_run=2)
    for _ in range(2):
        run = kit.run(several(4))
        assert sorted(codes_of(run)) == ["limit_exceeded", "limit_exceeded", "ok", "ok"]
    message = next(result.text for _, result in run.results if result.is_error)
    assert message == "Too many calls in one answer: the limit is 2. Call 'note' again in your next answer."
    assert len(began) == 4


async def test_concurrent_runs_are_counted_separately():
    kit, _ = kit_of(per_run=2)
    runs = await asyncio.gather(*(kit.session().arun(several(2)) for _ in range(20)))
    assert [codes_of(run) for run in runs] == [["ok", "ok"]] * 20


def test_calls_outside_of_a_run_are_not_counted_as_one():
    kit, _ = kit_of(per_run=1)
    assert codes(kit.exec("note") for _ in range(3)) == ["ok"] * 3


def test_a_run_of_one_call_is_a_run():
    kit, _ = kit_of(per_run=1)
    assert codes_of(kit.run(several(1))) == ["ok"]
    assert codes_of(kit.run(several(1))) == ["ok"]


def test_the_sessions_that_are_counted_are_bounded(monkeypatch):
    module = importlib.import_module("ahvn_tools.middleware.limit")
    monkeypatch.setattr(module, "MAX_COUNTED_KEYS", 2)
    kit, _ = kit_of(per_session=1)
    first, *others = [kit.session() for _ in range(3)]
    for session in (first, *others):
        session.exec("note")
    assert codes([others[1].exec("note"), first.exec("note")]) == ["limit_exceeded", "ok"]


def test_on_a_tool_it_counts_only_the_calls_of_that_tool():
    def free() -> int:
        return 1

    def scarce() -> int:
        return 2

    kit = Toolkit("kit").add(free).add(scarce, middleware=[limit(per_minute=1)])
    results = [kit.exec(name) for name in ("free", "free", "scarce", "scarce")]
    assert codes(results) == ["ok", "ok", "ok", "limit_exceeded"]


@pytest.mark.usefixtures("fast")
async def test_a_call_cancelled_while_it_waits_does_not_run_or_delay_others():
    kit, began = kit_of(per_second=1, wait=5)
    await kit.aexec("note")
    waiting = asyncio.create_task(kit.aexec("note"))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(began) == 1
    assert (await kit.aexec("note")).value == 2


NONSENSE = [
    {},
    {"per_second": 0},
    {"per_session": -1},
    {"per_run": 0},
    {"per_second": 1, "wait": -1},
    {"per_second": 1, "wait": float("inf")},
]


@pytest.mark.parametrize("options", NONSENSE)
def test_invalid_limits_are_refused(options):
    with pytest.raises(ToolSpecError):
        limit(**options)


BY = [
    pytest.param(lambda call: call.session_id, id="session"),
    pytest.param("user.id", id="state key"),
    pytest.param(lambda call: (call.session_id, call.name), id="session and tool"),
]


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("is_async", [False, True])
def test_each_key_has_a_rate_of_its_own(by, is_async):
    kit, _ = kit_of(per_minute=2, by=by)
    ann, bob = (kit.session({"user": {"id": name}}, session_id=name) for name in ("ann", "bob"))

    def execute(session):
        return asyncio.run(session.aexec("note")) if is_async else session.exec("note")

    found = codes(execute(session) for session in (ann, ann, ann, bob, bob, bob, ann))
    assert found == ["ok", "ok", "limit_exceeded", "ok", "ok", "limit_exceeded", "limit_exceeded"]


def test_each_key_has_a_window_that_ends(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(importlib.import_module("ahvn_tools.middleware.limit"), "monotonic", lambda: now[0])
    kit, _ = kit_of(per_minute=1, by="user")
    ann, bob = kit.session(user="ann-secret"), kit.session(user="bob")
    assert codes([ann.exec("note")]) == ["ok"]
    now[0] = 30
    assert codes([bob.exec("note"), ann.exec("note")]) == ["ok", "limit_exceeded"]
    now[0] = 60
    assert codes([ann.exec("note"), bob.exec("note")]) == ["ok", "limit_exceeded"]


@pytest.mark.parametrize("by", ["usr", "user.id"])
def test_a_call_without_a_value_under_the_key_does_not_run(by, caplog):
    kit, began = kit_of(per_minute=1, by=by)
    session = kit.session(user={"name": "ann-secret"})
    for result in (session.exec("note"), asyncio.run(session.aexec("note")), kit.exec("note")):
        assert result.error.code == "unbound_state"
        assert by not in result.text
    assert began == []
    assert f"`by` of `limit` has no key for the call of 'note': no state has the key '{by}'" in caplog.text
    assert "ann-secret" not in caplog.text


def test_calls_with_the_key_none_count_as_one():
    kit, _ = kit_of(per_minute=1, by="user")
    assert codes(kit.session(user=None).exec("note") for _ in range(2)) == ["ok", "limit_exceeded"]


@pytest.mark.parametrize("by", ["user", lambda call: ["ann-secret"]], ids=["state key", "function"])
def test_a_key_that_cannot_be_hashed_is_an_error_that_names_by(by, caplog):
    kit, _ = kit_of(per_minute=1, by=by)
    session = kit.session(user=["ann-secret"])
    assert session.exec("note").error.code == "unbound_state"
    assert "`by` of `limit` has no key for the call of 'note': it found a list" in caplog.text
    assert "ann-secret" not in caplog.text


def test_no_key_is_shown(caplog):
    kit, _ = kit_of(per_minute=1, by="user")
    ann = kit.session(user="ann-secret")
    ann.exec("note")
    result = ann.exec("note")
    assert "ann-secret" not in f"{result} {result.error} {result.exception!r} {caplog.text}"
    assert "the limit is 1 per minute" in result.text


async def test_each_user_of_a_served_toolkit_has_a_rate_of_its_own():
    kit, _ = kit_of(per_minute=1, by="user")
    server = kit.to_fastmcp_server(state=lambda request: {"user": request.meta["user"]})
    failed = []
    async with Client(server) as client:
        for user in ("ann", "ann", "bob"):
            result = await client.call_tool("note", {}, meta={"user": user}, raise_on_error=False)
            failed.append(result.is_error)
    assert failed == [False, True, False]


def test_the_memory_for_keys_is_limited(monkeypatch):
    module, now = importlib.import_module("ahvn_tools.middleware.limit"), [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    monkeypatch.setattr(module, "MAX_COUNTED_KEYS", 3)
    rates: list = []
    made = module._Rate
    monkeypatch.setattr(module, "_Rate", lambda *numbers: rates.append(made(*numbers)) or rates[-1])
    kit, _ = kit_of(per_minute=2, by="user")
    for name in "abcde":
        kit.session(user=name).exec("note")
    assert list(rates[0]._start_times) == ["c", "d", "e"]
    now[0] = 61
    kit.session(user="f").exec("note")
    assert list(rates[0]._start_times) == ["f"]


def test_by_needs_a_rate_and_a_key():
    with pytest.raises(ToolSpecError, match="`by` is for a rate"):
        limit(per_session=3, by="user")
    with pytest.raises(StateKeyError):
        limit(per_minute=3, by="user..id")


# calls that wait


def pay() -> str:
    """Pay."""
    return "paid"


def place_limit(place: str, **approval) -> Toolkit:
    """Return a toolkit whose tool `pay` may run once a minute; its limit is outside or inside of the approval."""
    limits = {"shared" if place == "outside" else "own": [limit(per_minute=1)]}
    return Toolkit("kit", middleware=limits.get("shared", []), **approval).add(
        pay, requires_approval=True, middleware=limits.get("own", [])
    )


@pytest.mark.parametrize("place", ["outside", "inside"])
def test_an_approved_call_is_counted_once(place):
    kit = place_limit(place)
    request = kit.exec("pay").meta["approval"]
    assert kit.exec("pay").error.code == "limit_exceeded"
    assert kit.resume(request, approved=True).results[0][1].text == "paid"
    assert kit.exec("pay").error.code == "limit_exceeded"


@pytest.mark.parametrize("place", ["outside", "inside"])
def test_a_call_that_an_approver_approves_is_counted_once_and_asked_about_only_within_the_limit(place):
    asked = []
    kit = place_limit(place, approver=lambda request: asked.append(request.tool) is None)
    assert codes(kit.exec("pay") for _ in range(3)) == ["ok", "limit_exceeded", "limit_exceeded"]
    assert asked == ["pay"]


@pytest.mark.parametrize("place", ["outside", "inside"])
def test_a_call_that_needs_approval_for_its_arguments_is_counted_once(place):
    layers = [limit(per_minute=1)]
    kit = Toolkit("kit", middleware=layers if place == "outside" else [])
    kit.add(
        lambda amount: f"paid {amount}",
        name="pay",
        description="Pay.",
        requires_approval=lambda arguments: arguments["amount"] > 1,
        middleware=layers if place == "inside" else [],
    )
    request = kit.exec("pay", {"amount": 2}).meta["approval"]
    assert kit.resume(request, approved=True).results[0][1].text == "paid 2"
    assert kit.exec("pay", {"amount": 1}).error.code == "limit_exceeded"


@pytest.mark.parametrize("place", ["shared", "own"])
def test_a_call_that_asks_a_question_is_counted_once(place):
    layers = [limit(per_minute=1)]
    kit = Toolkit("kit", middleware=layers if place == "shared" else [])

    @kit.tool(middleware=layers if place == "own" else [])
    def delete(context: ToolContext) -> str:
        """Delete twice."""
        context.ask("delete one")
        context.ask("delete two")
        return "deleted"

    request = kit.exec("delete").meta["approval"]
    again = kit.resume(request, approved=True).results[0][1]
    assert kit.resume(again.meta["approval"], approved=True).results[0][1].text == "deleted"
    assert kit.exec("delete").error.code == "limit_exceeded"


@pytest.mark.parametrize("place", ["shared", "own"])
def test_an_external_call_is_counted_once(place):
    layers = [limit(per_minute=1)]
    kit = Toolkit("kit", middleware=layers if place == "shared" else [])
    kit.add(pay, name="look", external=True, middleware=layers if place == "own" else [])
    run = kit.run([ToolCall(id="c", name="look", arguments={})])
    assert kit.resume(run, results={"c": "seen"}).results[0][1].text == "seen"
    assert kit.exec("look").error.code == "limit_exceeded"


def test_the_retries_of_an_approved_call_are_counted():
    kit, began = Toolkit("kit"), []

    def fail() -> str:
        began.append(1)
        raise ToolError("Try again.")

    kit.add(
        fail,
        requires_approval=True,
        annotations={"idempotentHint": True},
        middleware=[retry(attempts=5, codes=["tool_error"], initial_delay=0), limit(per_minute=2)],
    )
    kit.resume(kit.exec("fail").meta["approval"], approved=True)
    assert len(began) == 2
