"""Cache: which calls are equal, how long results are cached, and that concurrent equal calls run once."""

from __future__ import annotations

import asyncio
import gc
import importlib
import threading
import time
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic import SecretStr

from ahvn_tools import (
    ApprovalRequest,
    ToolCall,
    ToolContext,
    ToolError,
    Toolkit,
    ToolRegistry,
    ToolSpec,
    ToolSpecError,
    reg_toolspec,
)
from ahvn_tools.middleware.cache import cache
from ahvn_tools.middleware.limit import limit
from ahvn_tools.results import ToolResult

READ = {"annotations": {"readOnlyHint": True}}


class Counter:
    """A body that counts its runs."""

    def __init__(self, pause: float = 0) -> None:
        self.pause, self.runs = pause, 0
        self.lock = threading.Lock()

    def look(self, query: str = "", user: str = "guest") -> str:
        """Look something up."""
        with self.lock:
            self.runs += 1
        time.sleep(self.pause)
        return f"{user}:{query}"

    async def alook(self, query: str = "", user: str = "guest") -> str:
        """Look something up in a loop."""
        self.runs += 1
        await asyncio.sleep(self.pause)
        return f"{user}:{query}"


def kit_of(function, spec_options=READ, **options) -> Toolkit:
    kit = Toolkit("kit", middleware=[cache(**options)])
    kit.add(ToolSpec.from_function(function, name="look", **spec_options))
    return kit


def at_once(*functions) -> list:
    """Call functions in threads of their own, all at once."""
    results = [None] * len(functions)

    def run(place, function):
        results[place] = function()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


# what is cached


def test_an_equal_call_is_answered_without_the_body():
    counter = Counter()
    kit = kit_of(counter.look)
    first, second = (kit.exec("look", {"query": "tea"}) for _ in range(2))
    assert counter.runs == 1
    assert first.value == second.value == "guest:tea"
    assert "cached" not in first.meta
    assert second.meta["cached"] is True
    assert first.id != second.id
    assert kit.call("look", {"query": "tea"}) == "guest:tea"


@pytest.mark.parametrize("arguments", [{"query": "milk"}, {"query": "tea", "user": "ann"}, {}])
def test_other_arguments_are_another_call(arguments):
    counter = Counter()
    kit = kit_of(counter.look)
    kit.exec("look", {"query": "tea"})
    kit.exec("look", arguments)
    assert counter.runs == 2


def test_the_order_of_arguments_does_not_matter():
    counter = Counter()
    kit = kit_of(counter.look)
    kit.exec("look", {"query": "tea", "user": "ann"})
    kit.exec("look", {"user": "ann", "query": "tea"})
    assert counter.runs == 1


def test_a_tool_without_an_idempotency_hint_is_not_cached_by_default():
    for options, runs in [({}, 2), ({"all_tools": True}, 1), ({"tools": ["look"]}, 1), ({"tools": ["other"]}, 2)]:
        counter = Counter()
        kit = kit_of(counter.look, {}, **options)
        kit.exec("look"), kit.exec("look")
        assert counter.runs == runs


def test_results_expire_after_their_ttl(monkeypatch):
    now = 100.0
    monkeypatch.setattr(importlib.import_module("ahvn_tools.middleware.cache"), "monotonic", lambda: now)
    counter = Counter()
    kit = kit_of(counter.look, ttl=0.5)
    kit.exec("look"), kit.exec("look")
    now = 100.49
    kit.exec("look")
    assert counter.runs == 1
    now = 100.51
    kit.exec("look")
    assert counter.runs == 2


def test_the_least_recently_used_result_is_dropped_first():
    counter = Counter()
    kit = kit_of(counter.look, size=2)
    for query in ("a", "b", "a", "c", "a"):
        kit.exec("look", {"query": query})
    assert counter.runs == 3
    kit.exec("look", {"query": "b"})
    assert counter.runs == 4


def test_each_caller_gets_a_separate_copy_of_the_result():
    def rows() -> list[list[int]]:
        return [[1]]

    kit = kit_of(rows)
    for _ in range(3):
        result = kit.exec("look")
        assert result.value == [[1]]
        result.value[0].append(2)
        result.meta["mine"] = True
        result.structured_content["result"].append([])
    assert "mine" not in kit.exec("look").meta


def test_errors_and_interrupted_results_are_not_cached():
    runs = []

    def fail() -> str:
        runs.append(1)
        raise ToolError("not now")

    kit = kit_of(fail)
    for _ in range(2):
        with pytest.raises(ToolError, match="not now"):
            kit.call("look")
    assert len(runs) == 2

    async def stop(call, next):
        return replace(await next(call), is_interrupted=True)

    counter = Counter()
    kit = kit_of(counter.look)
    kit.use(stop)
    kit.exec("look"), kit.exec("look")
    assert counter.runs == 2


def test_a_result_that_cannot_be_copied_is_not_cached():
    runs = []

    def lock() -> ToolResult:
        runs.append(1)
        return ToolResult(threading.Lock())

    kit = kit_of(lock)
    kit.exec("look"), kit.exec("look")
    assert len(runs) == 2


def test_an_argument_without_a_reliable_identity_is_not_cached():
    class Opaque:
        pass

    counter = Counter()
    kit = kit_of(counter.look)
    for _ in range(2):
        assert kit.exec("look", {"query": Opaque()}).error.code == "invalid_parameters"


def test_a_tool_that_takes_the_context_runs_each_time():
    runs = []

    def look(context: ToolContext) -> str:
        runs.append(context.call_id)
        return "done"

    kit = kit_of(look)
    kit.exec("look"), kit.exec("look")
    assert len(set(runs)) == 2


def test_a_tool_that_fastmcp_injects_into_runs_each_time():
    from fastmcp.dependencies import Depends

    runs = []

    async def look(number: int = Depends(lambda: 7)) -> int:
        runs.append(1)
        return number

    kit = kit_of(look)
    assert [kit.call("look"), kit.call("look")] == [7, 7]
    assert len(runs) == 2


def test_another_function_under_the_same_definition_is_another_tool():
    one, two = Counter(), Counter()
    kit = kit_of(one.look)
    kit.exec("look")
    kit.remove("look").add(ToolSpec.from_function(two.look, name="look", **READ))
    kit.exec("look")
    assert (one.runs, two.runs) == (1, 1)


def test_two_instances_of_a_registry_are_two_tools():
    class Notes(ToolRegistry):
        def __init__(self, text: str) -> None:
            self.text = text

        @reg_toolspec(annotations={"readOnlyHint": True})
        def read(self) -> str:
            return self.text

    stored = cache()
    kits = [Toolkit("kit", middleware=[stored]).add(Notes(text)) for text in ("a", "b")]
    assert [kit.call("read") for kit in kits for _ in range(2)] == ["a", "a", "b", "b"]


# bound values and sessions


def test_sessions_do_not_share_results_by_default():
    for shared, runs in [(False, 2), (True, 1)]:
        counter = Counter()
        kit = kit_of(counter.look, shared=shared)
        for session in (kit.session(), kit.session()):
            session.exec("look"), session.exec("look")
        assert counter.runs == runs


@pytest.mark.parametrize("value", ["ann", SecretStr("ann-token"), 7, ("a", 1)], ids=lambda value: type(value).__name__)
def test_bound_values_are_part_of_the_key(value):
    others = {"ann": "bob", 7: 8, ("a", 1): ("a", 2)}
    other = SecretStr("bob-token") if isinstance(value, SecretStr) else others[value]

    def look(user: object) -> str:
        return user.get_secret_value() if isinstance(user, SecretStr) else str(user)

    kit = kit_of(look, shared=True)
    kit.bind("user", "current.user")
    ann, bob = kit.session(current={"user": value}), kit.session(current={"user": other})
    answers = [session.call("look") for session in (ann, bob, ann, bob)]
    assert answers[0] == answers[2] != answers[1] == answers[3]
    assert ann.exec("look").meta["cached"]


def test_a_changed_state_is_seen_by_the_next_call():
    counter = Counter()
    kit = kit_of(counter.look)
    kit.bind("user")
    session = kit.session(user="ann")
    session.exec("look")
    session.state["user"] = "bob"
    assert session.call("look") == "bob:"
    kit.unbind("user")
    kit.bind("user", default="eve")
    assert kit.call("look") == "eve:"


def test_a_default_of_a_binding_is_part_of_the_key():
    counter = Counter()
    spec = ToolSpec.from_function(counter.look, name="look", **READ)
    kit = Toolkit("kit", middleware=[cache()]).add(spec)
    for name in ("ann", "bob"):
        spec.bind("user", default=name)
        spec.state = {}
        assert kit.call("look") == f"{name}:"


def test_a_bound_value_without_a_reliable_identity_is_not_cached():
    runs = []

    def look(connection: object) -> int:
        runs.append(connection)
        return len(runs)

    kit = kit_of(look)
    kit.bind("connection")
    session = kit.session(connection=object())
    assert [session.call("look"), session.call("look")] == [1, 2]


def test_the_body_receives_the_value_that_the_key_contains():
    """A resolver with a new value each time is called once per call, and never affects the result of another call."""
    given = iter(["ann", "bob", "ann", "bob"])
    counter = Counter()
    kit = kit_of(counter.look)
    kit.bind("user", resolver=lambda: next(given))
    assert [kit.call("look") for _ in range(4)] == ["ann:", "bob:", "ann:", "bob:"]
    assert counter.runs == 2


def test_values_of_async_resolvers_are_part_of_the_key():
    given = iter(["ann", "bob", "ann"])

    async def who(state) -> str:
        await asyncio.sleep(0)
        return next(given)

    counter = Counter()
    kit = kit_of(counter.look)
    kit.bind("user", resolver=who)
    assert [kit.call("look") for _ in range(3)] == ["ann:", "bob:", "ann:"]
    assert counter.runs == 2


def test_a_result_is_not_cached_if_a_value_changes_during_the_call():
    def look(user: dict[str, str]) -> str:
        user["name"] = "bob"
        return user["name"]

    kit = kit_of(look)
    kit.bind("user")
    session = kit.session(user={"name": "ann"})
    session.exec("look")
    session.state["user"] = {"name": "ann"}
    assert "cached" not in session.exec("look").meta


def test_an_unbound_parameter_is_the_same_error_as_without_a_cache():
    def look(user: str) -> str:
        return user

    kit = kit_of(look)
    kit.bind("user")
    assert kit.exec("look").error.code == "unbound_state"
    kit.bind("user", resolver=lambda: 1 / 0)
    assert kit.exec("look").error.code == "unbound_state"


def test_the_store_contains_no_bound_value_in_plain_text():
    canary = "canary-7f3a9c"

    def look(token: str) -> int:
        return len(token)

    stored = cache()
    kit = Toolkit("kit", middleware=[stored]).add(ToolSpec.from_function(look, name="look", **READ))
    kit.bind("token")
    kit.session(token=canary).exec("look", {})
    gc.collect()
    store = stored._store
    message = repr(list(store._results)) + repr([entry[2] for entry in store._results.values()])
    assert canary not in message


def test_a_refusal_by_inner_middleware_is_not_shared():
    counter = Counter(pause=0.1)
    kit = kit_of(counter.look, shared=True)
    kit.use(limit(per_session=1))
    ann, bob = kit.session(), kit.session()
    ann.exec("look", {"query": "other"})
    results = at_once(lambda: ann.exec("look"), lambda: bob.exec("look"))
    assert results[1].value == "guest:"


def test_an_exception_of_inner_middleware_is_not_cached():
    async def refuse(call, next):
        raise ToolError("not today")

    counter = Counter()
    kit = kit_of(counter.look)
    undo = kit.use(refuse)
    assert kit.exec("look").error.message == "not today"
    undo()
    assert kit.call("look") == "guest:"


# streams


def test_a_cached_stream_is_only_its_last_result():
    runs = []

    def count() -> list[int]:
        runs.append(1)
        yield from range(3)

    kit = kit_of(count)
    assert [result.value for result in kit.stream("look")] == [0, 1, 2, [0, 1, 2]]
    again = list(kit.stream("look"))
    assert [(result.value, result.is_last) for result in again] == [([0, 1, 2], True)]
    assert kit.call("look") == [0, 1, 2]
    assert len(runs) == 1


@pytest.mark.parametrize("options", [{"ttl": 0}, {"ttl": -1}, {"size": 0}])
def test_a_cache_without_room_or_time_is_refused(options):
    with pytest.raises(ToolSpecError):
        cache(**options)


def local_user(name: str):
    """Return a user of a class of its own, which says who it is."""

    @dataclass
    class User:
        group: str = "staff"

        def __str__(self) -> str:
            return name

    return User()


class Badge:
    """A base class whose state is in a slot."""

    __slots__ = ("owner",)


@dataclass
class StaffBadge(Badge):
    group: str = "staff"

    def __str__(self) -> str:
        return self.owner


def badge_of(name: str) -> StaffBadge:
    badge = StaffBadge()
    badge.owner = name
    return badge


@pytest.mark.parametrize("user_of", [local_user, badge_of])
def test_users_whose_visible_fields_are_equal_do_not_share_a_result(user_of):
    runs = []

    def look(user: Any) -> str:
        runs.append(user)
        return f"letters of {user}"

    kit = kit_of(look, shared=True).bind("user")
    ann, bob = kit.session(user=user_of("ann")), kit.session(user=user_of("bob"))
    assert [session.call("look") for session in (ann, bob, ann, bob)] == ["letters of ann", "letters of bob"] * 2
    assert len(runs) == 2


# approval


def asked_kit(*, outside: list[Any], inside: list[Any], **options: Any) -> tuple[Toolkit, Counter, list[Any]]:
    """Return a toolkit with middleware around and inside of the approval, what its tool does, and what was asked."""
    counter, asked = Counter(), []

    def decide(request: ApprovalRequest) -> bool:
        asked.append(request.arguments.get("query"))
        return True

    kit = Toolkit("kit", middleware=outside, approver=decide)
    kit.add(ToolSpec.from_function(counter.look, name="look", **READ), middleware=inside, **options)
    return kit, counter, asked


@pytest.mark.parametrize("rule", [True, lambda arguments: arguments["query"] == "tea"])
def test_outside_of_the_approval_it_answers_no_call_that_needs_one(rule):
    kit, counter, asked = asked_kit(outside=[cache()], inside=[], requires_approval=rule)
    for _ in range(2):
        assert kit.session(session_id="s").exec("look", {"query": "tea"}).meta.get("cached") is None
    assert (counter.runs, asked) == (2, ["tea", "tea"])


def test_inside_of_the_approval_it_answers_what_was_approved():
    kit, counter, asked = asked_kit(outside=[], inside=[cache()], requires_approval=True)
    assert [kit.exec("look", {"query": "tea"}).meta.get("cached") for _ in range(2)] == [None, True]
    assert (counter.runs, asked) == (1, ["tea", "tea"])


@pytest.mark.parametrize("is_outside", [True, False])
def test_calls_that_need_no_approval_are_cached_in_any_order(is_outside):
    order = {"outside": [cache()], "inside": []} if is_outside else {"outside": [], "inside": [cache()]}
    kit, counter, asked = asked_kit(**order, requires_approval=lambda arguments: arguments["query"] != "tea")
    assert [kit.exec("look", {"query": "tea"}).meta.get("cached") for _ in range(2)] == [None, True]
    assert (counter.runs, asked) == (1, [])


def test_an_approval_that_the_validated_arguments_need_is_asked_for():
    def look(*, deep: bool) -> str:
        """Look."""
        return f"{deep}"

    shared = cache()
    free = Toolkit("free", middleware=[shared])
    kit = Toolkit("kit", middleware=[shared])
    spec = ToolSpec.from_function(look, name="look", **READ)
    free.add(spec)
    kit.add(spec, requires_approval=lambda arguments: arguments["deep"] is True)
    assert free.call("look", {"deep": "yes"}) == "True"
    assert kit.exec("look", {"deep": "yes"}).error.code == "approval_required"
    assert kit.exec("look", {"deep": "no"}).value == "False"
    assert kit.exec("look", {"deep": "no"}).meta["cached"]


async def test_equal_calls_at_once_are_each_asked_for_and_an_approved_call_is_answered():
    kit, counter, asked = asked_kit(outside=[cache()], inside=[], requires_approval=True)
    await asyncio.gather(*(kit.aexec("look", {"query": "tea"}) for _ in range(3)))
    assert (counter.runs, len(asked)) == (3, 3)
    waiting = Toolkit("kit", middleware=[cache()])
    waiting.add(ToolSpec.from_function(counter.alook, name="look", **READ), requires_approval=True)
    session = waiting.session()
    for _ in range(2):
        run = await session.arun([ToolCall(id="c1", name="look", arguments={"query": "tea"})])
        assert [request.tool for request in run.pending] == ["look"]
        done = await session.aresume(run, approved=True)
        assert done.results[0][1].value == "guest:tea"
    assert counter.runs == 4


def test_in_the_background_and_for_a_model_that_searches_it_answers_no_call_that_needs_an_approval():
    kit, counter, asked = asked_kit(outside=[cache()], inside=[], requires_approval=True)
    kit.add_search()
    for _ in range(2):
        assert kit.wait(kit.start("look", {"query": "tea"}), 30).result.error is None
        assert kit.exec("call_tool", {"name": "look", "arguments": {"query": "tea"}}).error is None
    assert (counter.runs, len(asked)) == (4, 4)
