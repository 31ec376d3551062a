"""Sessions: own state, own groups, and a thousand of them at once."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

import pytest

from ahvn_tools import ToolContext, Toolkit
from ahvn_tools.errors import ToolkitError, ToolLookupError
from ahvn_tools.execution.call import CallScope
from ahvn_tools.middleware import keep_large
from ahvn_tools.results import ToolResult
from ahvn_tools.toolkit import sessions as session_module
from ahvn_tools.toolkit.background_calls import BackgroundCall
from ahvn_tools.toolkit.sessions import ClientState, ClientStates, SessionState
from tests.toolkit.subjects import acount, add, asearch, count, in_threads, search

SESSIONS = 1000


@pytest.fixture
def kit() -> Toolkit:
    return Toolkit("k", state={"user": "host"}).add(search).add(asearch).add(count).add(acount).bind("user")


def names(kit: Toolkit) -> list[str]:
    return [spec.name for spec in kit]


# states


def test_a_session_has_its_own_state(kit):
    ann, bob = kit.session(user="ann"), kit.session(user="bob")
    assert [toolkit.call("search", {"query": "q"}) for toolkit in (ann, bob, kit)] == [
        "ann:q:3",
        "bob:q:3",
        "host:q:3",
    ]
    ann.state["user"] = "amy"
    bob.state = {}
    assert [toolkit.call("search", {"query": "q"}) for toolkit in (ann, bob, kit)] == [
        "amy:q:3",
        "host:q:3",
        "host:q:3",
    ]
    assert kit.state == {"user": "host"}


def test_values_may_have_the_names_of_parameters_and_attributes():
    kit = Toolkit("k").add(search).bind("user", "self")
    assert kit.session(self="ann", name="x", values="y").call("search", {"query": "q"}) == "ann:q:3"


@pytest.mark.parametrize("is_named", [False, True])
def test_a_passed_state_is_used_itself_and_values_are_put_into_it(kit, is_named):
    state = {"other": 1}
    session = kit.session(state=state, user="ann") if is_named else kit.session(state, user="ann")
    assert (session.state is state, state) == (True, {"other": 1, "user": "ann"})
    state["user"] = "amy"
    assert session.call("search", {"query": "q"}) == "amy:q:3"


def test_id_is_refused_as_a_mistake_for_session_id_and_accepted_in_a_state(kit):
    with pytest.raises(ToolkitError, match=r"Did you mean session_id=…\? Pass a value named 'id' in the state"):
        kit.session(id="s-1")
    kit.bind("user", "id")
    assert kit.session({"id": "ann"}).call("search", {"query": "q"}) == "ann:q:3"


def test_groups_are_refused_as_a_value_and_accepted_in_a_state(kit):
    with pytest.raises(ToolkitError, match=r"no option 'groups'. Activate groups in the session: session\(\).activate"):
        kit.session(groups=["wiki"])
    assert kit.session({"groups": ["wiki"]}).state == {"groups": ["wiki"]}


def test_a_value_that_no_binding_asks_for_is_kept(kit):
    assert kit.session(locale="it").state == {"locale": "it"}


def test_sessions_nest(kit):
    outer = kit.session(user="outer", limit=1)
    inner = outer.session(user="inner")
    kit.bind("limit")
    assert inner.call("search", {"query": "q"}) == "inner:q:1"
    outer.state["limit"] = 2
    assert inner.call("search", {"query": "q"}) == "inner:q:2"
    assert outer.call("search", {"query": "q"}) == "outer:q:2"


def test_a_resolver_sees_the_session():
    kit = Toolkit("k", state={"a": 1, "b": 1}).add(add).bind("a", resolver=lambda state: state["a"] + state["b"])
    assert (kit.session(a=10).call("add"), kit.call("add")) == (12, 3)


def test_a_later_binding_applies_to_existing_sessions(kit):
    session = kit.session(limit=9)
    kit.bind("limit")
    assert session.call("search", {"query": "q"}) == "host:q:9"


def test_tools_are_added_and_removed_in_every_session_at_once(kit):
    sessions = [kit.session() for _ in range(3)]
    views = [session.select(names=["add", "search"]) for session in sessions]
    kit.add(add).remove("search")
    assert [names(view) for view in views] == [["add"]] * 3
    assert [session.exec("search").error.code for session in sessions] == ["not_found"] * 3


# ids


def test_a_session_has_an_id_and_the_toolkit_has_none(kit):
    first, second = kit.session(), kit.session()
    assert first.session_id == first.session_id != second.session_id
    assert kit.session(session_id="s1").session_id == kit.session(session_id="s1").select().session_id == "s1"
    assert (kit.session_id, kit.select().session_id) == (None, None)


# groups


def test_groups_are_switched_in_one_session_alone(kit):
    kit.add_group("math").add(add, group="math")
    first, second = kit.session(), kit.session()
    first.activate("math")
    assert [toolkit.groups["math"] for toolkit in (first, second, kit)] == [True, False, False]
    kit.activate("math")
    first.deactivate("math")
    assert [toolkit.groups["math"] for toolkit in (first, second, kit)] == [False, True, True]
    assert first.exec("add", {"a": 1}).error.code == "not_available"
    assert second.exec("add", {"a": 1}).value == 2


def test_an_inner_session_follows_the_outer_one_until_it_switches_itself(kit):
    kit.add_group("math").add(add, group="math")
    outer = kit.session()
    inner = outer.session()
    outer.activate("math")
    assert inner.groups["math"]
    inner.deactivate("math")
    assert (outer.groups["math"], inner.groups["math"]) == (True, False)


# at once


async def calls_of(session: Toolkit, user: str) -> list[str]:
    """Call every tool from a loop and return the values."""
    outputs: list[str] = [
        await session.acall("search", {"query": "q"}),
        await session.acall("asearch", {"query": "q"}),
        session.call("search", {"query": "q"}),
        session["search"]("q"),
        (await session.aexec("asearch", {"query": user})).value,
    ]
    outputs += [chunk.value async for chunk in session.astream("acount", {"until": 2}) if not chunk.is_last]
    outputs += [chunk.value for chunk in session.stream("count", {"until": 2}) if not chunk.is_last]
    return outputs


def expected(user: str) -> list[str]:
    once = [f"{user}:q:3", f"{user}:q", f"{user}:q:3", f"{user}:q:3", f"{user}:{user}"]
    return [*once, f"{user}0", f"{user}1", f"{user}0", f"{user}1"]


@pytest.mark.exhaustive
async def test_a_thousand_sessions_in_one_loop_never_see_each_others_values(kit):
    users = [f"user-{number}" for number in range(SESSIONS)]
    results = await asyncio.gather(*[calls_of(kit.session(user=user), user) for user in users])
    assert results == [expected(user) for user in users]


@pytest.mark.exhaustive
def test_a_thousand_sessions_in_threads_never_see_each_others_values(kit):
    barrier = threading.Barrier(16)

    def calls(numbers: range) -> list[str]:
        barrier.wait()
        sessions = [(number, kit.session(user=f"user-{number}")) for number in numbers]
        outputs = []
        for number, session in sessions:
            values = {
                session.call("search", {"query": "q"}).partition(":")[0],
                session.exec("asearch", {"query": "q"}).value.partition(":")[0],
                session["search"].exec("q").value.partition(":")[0],
                *[text[:-1] for text in session.call("count", {"until": 3})],
            }
            outputs.append(f"{number}:{sorted(values)}")
        return outputs

    with ThreadPoolExecutor(16) as pool:
        results = [
            line for lines in pool.map(calls, [range(start, SESSIONS, 16) for start in range(16)]) for line in lines
        ]
    assert sorted(results) == sorted(f"{number}:['user-{number}']" for number in range(SESSIONS))


def test_a_session_without_references_is_garbage_collected(kit):
    class Value:
        """An object with weak references."""

    value = Value()
    watched = weakref.ref(value)
    session = kit.session(thing=value)
    session.call("search", {"query": "q"})
    del value, session
    gc.collect()
    assert watched() is None


def test_threads_that_read_a_session_id_at_once_get_the_same_id():
    for _ in range(200):
        session = Toolkit("kit").session()
        gate = threading.Barrier(4)
        ids: set[str | None] = set()

        def ask(session: Toolkit = session, gate: threading.Barrier = gate, ids: set[str | None] = ids) -> None:
            gate.wait(10)
            ids.add(session.session_id)

        in_threads([ask] * 4)
        assert len(ids) == 1


# clients of a server


def test_clients_that_have_not_called_for_longest_are_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session_module, "MAX_CLIENTS", 2)
    clients = ClientStates()
    first, second = clients.get("a"), clients.get("b")
    assert clients.get("a") is first
    clients.get("c")
    assert clients.get("a") is first
    assert clients.get("b") is not second


def test_nothing_is_remembered_of_an_anonymous_client():
    clients = ClientStates()
    assert clients.get(None) is not clients.get(None)


def test_switches_of_a_request_belong_to_its_client_and_its_state_does_not():
    client = ClientState()
    one, two = SessionState({}, "a", client), SessionState({}, "a", client)
    one.switches.group_overrides = {1: True}
    one.state["x"] = 1
    assert (two.switches.group_overrides, two.state) == ({1: True}, {})
    clients = ClientStates()
    assert (clients.get("a").is_anonymous, clients.get(None).is_anonymous) == (False, True)


def test_the_background_calls_of_a_client_that_is_forgotten_are_cancelled(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session_module, "MAX_CLIENTS", 1)
    clients = ClientStates()
    clients.get("a")
    calls = weakref.ref(clients.background_calls("a", lambda _: None))
    assert clients.background_calls("a", lambda _: None) is calls()
    clients.get("b")
    gc.collect()
    assert calls() is None


def test_other_clients_do_not_end_the_background_calls_of_a_client(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session_module, "MAX_CLIENTS", 1)
    clients = ClientStates()
    state, calls = clients.get("a"), clients.background_calls("a", lambda _: None)
    call = BackgroundCall("c", "who", CallScope(), lambda emit: asyncio.sleep(0, ToolResult("done")), dict)
    calls.start(call, 1)
    for number in range(20):
        clients.get(f"b{number}")
        clients.background_calls(f"b{number}", lambda _: None)
    assert clients.get("a") is state
    assert clients.background_calls("a", lambda _: None) is calls


def test_a_client_that_leaves_starts_no_background_calls_any_more():
    left = []
    clients = ClientStates()
    clients.get("a")
    calls = clients.background_calls("a", left.append)
    left[0]()
    with pytest.raises(ToolkitError, match="has ended"):
        calls.start(BackgroundCall("c", "tool", CallScope(), lambda emit: None, dict), 1)
    assert clients.background_calls("a", left.append) is not calls


def who(context: ToolContext) -> str:
    """Return who calls."""
    return str(context.state.get("user"))


@pytest.fixture
def few_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a toolkit hold few sessions."""
    monkeypatch.setattr(session_module, "MAX_SESSIONS", 3)
    monkeypatch.setattr(session_module, "MAX_NEW_SESSIONS", 2)


class TestSessionsWithAnId:
    def test_an_id_names_one_session_with_one_state_and_one_set_of_groups(self):
        kit = Toolkit("k").add_group("math").add(add, group="math").add(who)
        first = kit.session(session_id="u1", user="ann")
        second = kit.session(session_id="u1")
        assert second.call("who") == "ann"
        first.activate("math")
        assert second.groups["math"]
        assert second.state is first.state
        assert kit.session(session_id="u2").state == {}
        assert not kit.session(session_id="u2").groups["math"]

    def test_a_request_after_the_first_finds_the_session_and_its_values_take_effect(self):
        kit = Toolkit("k").add(who)
        kit.session(session_id="u1", user="ann", theme="dark")
        gc.collect()
        again = kit.session(session_id="u1", user="Ann")
        assert (again.call("who"), again.state) == ("Ann", {"user": "Ann", "theme": "dark"})

    def test_a_state_replaces_that_of_the_session_for_all_that_use_it(self):
        kit = Toolkit("k")
        first = kit.session(session_id="u1", user="ann")
        mapping = {"user": "bob"}
        second = kit.session(mapping, session_id="u1", more=1)
        assert first.state is second.state is mapping
        assert mapping == {"user": "bob", "more": 1}

    def test_selections_and_sessions_inside_have_their_own_tools_and_one_session(self):
        kit = Toolkit("k").add(who).add(add, tags={"math"})
        first, second = kit.select(tags=["math"]).session(session_id="u1"), kit.session(session_id="u1")
        assert ([tool.name for tool in first], len(second)) == (["add"], 2)
        assert first.state is second.state
        inner = second.session(session_id="u1")
        assert inner.state is not second.state
        assert second.session(session_id="u1").state is inner.state

    def test_background_calls_belong_to_the_id(self):
        kit = Toolkit("k").add(who)
        call_id = kit.session(session_id="u1", user="ann").start("who")
        gc.collect()
        assert kit.session(session_id="u1").wait(call_id, timeout=30).result.value == "ann"
        with pytest.raises(ToolLookupError):
            kit.session(session_id="u2").status(call_id)

    def test_a_session_that_nothing_uses_is_forgotten_at_the_limit_and_after_its_age(self, monkeypatch):
        monkeypatch.setattr(session_module, "MAX_SESSIONS", 2)
        monkeypatch.setattr(session_module, "MAX_NEW_SESSIONS", 0)
        kit = Toolkit("k")
        used = kit.session(session_id="used", user="ann")
        for number in range(3):
            kit.session(session_id=str(number), user="bob")
        gc.collect()
        assert kit.session(session_id="used").state is used.state
        assert kit.session(session_id="0").state == {}
        kit.session(session_id="old", user="ann")
        clock = time.monotonic
        monkeypatch.setattr(session_module.time, "monotonic", lambda: clock() + session_module.MAX_SESSION_AGE + 1)
        kit.session(session_id="new")
        gc.collect()
        assert kit.session(session_id="old").state == {}

    def test_sessions_with_a_state_or_nothing_end_no_calls_and_no_results_of_others(self, few_sessions):
        kit = Toolkit("k", middleware=[keep_large(1_000)]).add_group("math").add(add, group="math").add(who)
        release = threading.Event()
        kit.add(lambda: "ended" if release.wait(60) else "", name="work", description="Work.")
        kit.add(lambda: "x" * 5_000, name="read", description="Read.")
        running = kit.session(session_id="running").start("work")
        handle = kit.session(session_id="kept").exec("read").meta["kept"]["handle"]
        kit.session(session_id="groups").activate("math")
        kit.session(session_id="state", user="ann")
        unread = kit.session(session_id="unread", user="cem").start("who")
        inner = kit.session(session_id="outer").session(session_id="inner").start("work")
        for number in range(20):
            kit.session(session_id=f"bob/{number}", user="bob")
            kit.session(session_id=f"empty/{number}").cancel("c")
        gc.collect()
        assert kit.session(session_id="state").state == {}
        assert kit.session(session_id="groups").groups["math"]
        assert kit.session(session_id="kept").exec("read_result", {"handle": handle}).error is None
        release.set()
        assert kit.session(session_id="running").wait(running, 60).result.value == "ended"
        assert kit.session(session_id="outer").session(session_id="inner").wait(inner, 60).result.value == "ended"
        assert kit.session(session_id="unread").wait(unread, 60).result.value == "cem"

    def test_a_session_whose_results_were_read_is_forgotten_at_the_limit(self, few_sessions):
        kit = Toolkit("k").add(who)
        for number in range(20):
            session = kit.session(session_id=f"{number}", user="bob")
            session.wait(session.start("who"), 60)
        del session
        gc.collect()
        assert [bool(kit.session(session_id=f"{number}").state) for number in (0, 19)] == [False, True]

    def test_sessions_with_nothing_push_out_none_with_a_state(self, few_sessions):
        kit = Toolkit("k")
        kit.session(session_id="ann", user="ann")
        for number in range(20):
            kit.session(session_id=f"empty/{number}").background_calls()
        gc.collect()
        assert kit.session(session_id="ann").state == {"user": "ann"}

    @pytest.mark.parametrize("session_id", ["", 1, b"u1"])
    def test_an_id_that_is_no_text_or_empty_is_refused(self, session_id):
        with pytest.raises(ToolkitError, match="id of a session"):
            Toolkit("k").session(session_id=session_id)

    def test_a_state_that_does_not_fit_changes_nothing(self):
        kit = Toolkit("k")
        session = kit.session(session_id="u1", user="ann")
        for state, error in ((7, TypeError), (MappingProxyType({}), ToolkitError)):
            with pytest.raises(error):
                kit.session(state, session_id="u1", user="bob")
        assert session.state == {"user": "ann"}

    def test_threads_that_open_an_id_at_once_have_one_session(self):
        kit = Toolkit("k")
        with ThreadPoolExecutor(8) as pool:
            opened = list(pool.map(lambda number: kit.session(session_id="u1", **{f"n{number}": 1}), range(64)))
        assert len({id(session.state) for session in opened}) == 1
        assert len(opened[0].state) == 64


def test_the_error_about_a_missing_key_names_a_similar_key_of_the_session_and_no_value():
    kit = Toolkit("k")

    @kit.tool
    def read(user_id: str) -> str:
        """Read."""
        return user_id

    kit.bind("user_id")
    error = kit.session(userid="a-secret-value").exec("read").exception
    assert "no state has that key (did you mean 'userid'?)" in error.explanation
    assert "a-secret-value" not in error.explanation
    assert "did you mean" not in kit.session(other="x").exec("read").exception.explanation
