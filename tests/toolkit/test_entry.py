"""Presets, bindings and timeouts that a toolkit adds to a spec, and their precedence."""

from __future__ import annotations

import pickle
from typing import Annotated, Any

import pytest
from pydantic import SecretStr

from ahvn_tools import Secret, Toolkit, ToolSpec
from ahvn_tools.errors import BindError, StateKeyError, ToolkitError, UnboundStateError
from tests.toolkit.subjects import Notes, add, asearch, search


def who(user: str = "default", query: str = "q") -> str:
    """Return who it is."""
    return user


def what(value: Any = "default") -> Any:
    """Return the class."""
    return value


# which binding holds


def spec_of(function: Any = who) -> ToolSpec:
    return ToolSpec.from_function(function)


def test_a_preset_beats_a_binding_of_the_tool_which_beats_the_toolkits_which_beats_the_specs():
    spec = spec_of().bind("user", default="spec")
    kit = Toolkit("k").add(spec)
    assert kit.call("who") == "spec"
    kit.bind("user", "of_toolkit", "toolkit")
    assert kit.call("who") == "toolkit"
    kit["who"].bind("user", "of_tool", "tool")
    assert kit.call("who") == "tool"
    kit.add(spec, rename="preset", preset={"user": "preset"})
    assert kit.call("preset") == "preset"
    assert (kit.call("who"), spec()) == ("tool", "spec")


def test_unbinding_uncovers_the_next_binding():
    spec = spec_of().bind("user", default="spec")
    kit = Toolkit("k").add(spec).bind("user", "of_toolkit", "toolkit")
    tool = kit["who"].bind("user", "of_tool", "tool")
    assert tool.unbind("user")() == "toolkit"
    assert kit.unbind("user").call("who") == "spec"
    spec.unbind("user")
    assert kit.call("who", {"user": "caller"}) == "caller"


def test_unbinding_an_unbound_parameter_changes_nothing():
    kit = Toolkit("k").add(spec_of()).unbind("user").unbind("nothing")
    kit["who"].unbind("user")
    assert kit.call("who", {"user": "caller"}) == "caller"


def test_a_binding_of_the_toolkit_reaches_every_tool_that_has_the_parameter_now_and_later():
    kit = Toolkit("k", state={"user": "ann"}).add(who).add(add).bind("user").add(search)
    assert [dict(tool.binds) for tool in kit] == [{"user": "user"}, {}, {"user": "user"}]
    assert (kit.call("who"), kit.call("search", {"query": "q"})) == ("ann", "ann:q:3")
    assert kit.call("add", {"a": 1}) == 2


def test_one_spec_is_in_two_toolkits_under_two_names_with_two_bindings():
    spec = spec_of()
    first = Toolkit("first", state={"user": "ann"}).add(spec, rename="one").bind("user")
    second = Toolkit("second").add(spec, rename="two", preset={"user": "bob"})
    assert (first.call("one"), second.call("two"), spec("cy")) == ("ann", "bob", "cy")
    assert (dict(spec.binds), spec.state, spec.name) == ({}, {}, "who")
    assert ("two" in first, "one" in second) == (False, False)


def test_one_spec_is_in_one_toolkit_twice():
    spec = spec_of()
    kit = Toolkit("k")
    for name in ("ann", "bob"):
        kit.add(spec, rename=name, preset={"user": name})
    assert [tool() for tool in kit] == ["ann", "bob"]


def test_a_bound_parameter_is_neither_exported_nor_accepted():
    kit = Toolkit("k").add(who, preset={"user": "ann"}).add(search).bind("user", default="bob")
    for name in ("who", "search"):
        assert "user" not in kit[name].params
        assert kit.exec(name, {"user": "caller", "query": "q"}).error.code == "invalid_parameters"


def test_a_binding_may_have_a_resolver_and_a_dotted_key():
    kit = Toolkit("k", state={"session": {"names": ["ann"]}}).add(who)
    assert kit.bind("user", "session.names[0]").call("who") == "ann"
    assert kit.bind("user", resolver=lambda state: state["session"]["names"][0].upper()).call("who") == "ANN"


def test_a_default_is_stored_in_the_toolkits_state_and_remembered():
    kit = Toolkit("k").add(who).bind("user", "session.user", "ann")
    assert kit.state == {"session": {"user": "ann"}}
    kit.state = {}
    assert kit.call("who") == "ann"
    kit["who"].bind("user", "other", "bob")
    assert kit.state == {"other": "bob"}


def test_a_default_that_cannot_be_stored_in_the_state_binds_nothing():
    kit = Toolkit("k", state={"session": 3}).add(who)
    for target in (kit, kit["who"]):
        with pytest.raises(StateKeyError):
            target.bind("user", "session.user", "ann")
    assert "user" in kit["who"].params


def test_a_parameter_that_the_tool_does_not_have_is_refused_on_the_tool():
    kit = Toolkit("k").add(who)
    with pytest.raises(BindError, match=r"'who' has no parameter 'usr'\. Did you mean 'user'\?"):
        kit["who"].bind("usr")


# which state holds


def test_lookup_reads_the_session_then_the_toolkit_then_the_spec():
    spec = spec_of().bind("user")
    kit = Toolkit("k").add(spec)
    session = kit.session()
    with pytest.raises(KeyError):
        kit.state["user"]
    assert session.call("who") == "default"
    spec.state["user"] = "spec"
    assert session.call("who") == "spec"
    kit.state["user"] = "toolkit"
    assert session.call("who") == "toolkit"
    session.state["user"] = "session"
    assert (session.call("who"), kit.call("who"), spec()) == ("session", "toolkit", "spec")


def test_a_key_whose_value_is_none_is_found():
    kit = Toolkit("k", state={"value": "toolkit"}).add(what).bind("value")
    assert kit.session(value=None).call("what") is None


def test_each_state_scope_is_searched_for_the_whole_path():
    kit = Toolkit("k", state={"user": {"id": 7, "name": "toolkit"}}).add(what).bind("value", "user.id")
    assert kit.session(user={"name": "session"}).call("what") == 7
    assert kit.session(user={"id": 8}).call("what") == 8
    assert kit.session(user="no mapping").call("what") == 7


def test_a_missing_key_is_an_error_that_names_parameter_and_key():
    def needs(user: str) -> str:
        return user

    kit = Toolkit("k").add(needs).bind("user", "session.user")
    result = kit.session().exec("needs")
    assert result.error.code == "unbound_state"
    with pytest.raises(UnboundStateError, match=r"'user' is bound to 'session\.user'"):
        kit.call("needs")


# presets


def test_a_preset_is_validated_by_add():
    kit = Toolkit("k")
    with pytest.raises(BindError, match=r"'add' has no parameter 'c' to preset"):
        kit.add(add, preset={"c": 1})
    with pytest.raises(BindError, match="The preset of 'a' of 'add' does not fit 'int'") as refused:
        kit.add(add, preset={"a": "canary-7f3a9c"})
    assert "canary" not in str(refused.value)
    assert len(kit) == 0


def test_a_preset_is_converted_once_like_an_argument():
    assert Toolkit("k").add(add, preset={"a": "2"}).call("add") == 3


def test_a_preset_may_be_none():
    assert Toolkit("k", state={"value": 1}).add(what, preset={"value": None}).bind("value").call("what") is None


def test_a_preset_parameter_is_not_listed_as_bound_and_cannot_be_bound_or_unbound():
    kit = Toolkit("k").add(who, preset={"user": "ann"})
    assert dict(kit["who"].binds) == {}
    for change in (kit["who"].bind, kit["who"].unbind):
        with pytest.raises(BindError, match="'user' of 'who' is preset here; add the tool without that preset"):
            change("user")


def test_a_constant_of_a_spec_can_be_neither_preset_nor_bound():
    kit = Toolkit("k").add(Notes().toolspec("get"))
    fixed = Toolkit("fixed").add(Toolkit("inner").add(who, preset={"user": "ann"}))
    with pytest.raises(BindError, match="was fixed when the tool was made; leave it out of the preset"):
        Toolkit("k").add(fixed, preset={"user": "bob"})
    with pytest.raises(BindError, match="was fixed when the tool was made"):
        fixed["who"].bind("user")
    with pytest.raises(BindError, match="no parameter 'self'"):
        kit["get"].bind("self")
    assert fixed.bind("user", default="bob").call("who") == "ann"


def test_a_preset_object_is_passed_without_a_copy():
    class Basket:
        def __init__(self) -> None:
            self.things: list[int] = []

    def put(basket: Any, number: int) -> int:
        basket.things.append(number)
        return len(basket.things)

    basket = Basket()
    assert Toolkit("k").add(put, preset={"basket": basket}).call("put", {"number": 4}) == 1
    assert basket.things == [4]


def test_each_call_gets_a_copy_of_a_preset_list():
    things: list[int] = []

    def put(things: list[int], number: int) -> int:
        things.append(number)
        return len(things)

    toolkit = Toolkit("k").add(put, preset={"things": things})
    assert [toolkit.call("put", {"number": 4}) for _ in range(2)] == [1, 1]
    assert things == []


# timeouts


LIMITS = [
    ({"spec": 1, "entry": 2, "toolkit": 3}, 1),
    ({"spec": 2, "entry": 1, "toolkit": 3}, 1),
    ({"spec": 3, "entry": 2, "toolkit": 1}, 1),
    ({"toolkit": 2}, 2),
    ({"entry": 2}, 2),
    ({"spec": 2}, 2),
    ({}, None),
]


@pytest.mark.parametrize(("limits", "shortest"), LIMITS)
def test_the_shortest_of_all_timeouts_is_the_tools(limits, shortest):
    options = {"timeout": limits["entry"]} if "entry" in limits else {}
    kit = Toolkit("k", timeout=limits.get("toolkit"))
    kit.add(ToolSpec.from_function(add, timeout=limits.get("spec")), **options)
    assert kit["add"].timeout == shortest


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), 1e18, True, "3"])
def test_an_invalid_timeout_is_refused(timeout):
    for ask in (lambda: Toolkit("k", timeout=timeout), lambda: Toolkit("k").add(add, timeout=timeout)):
        with pytest.raises(ToolkitError, match="timeout must be a number of seconds greater than 0"):
            ask()


def test_a_timeout_for_an_uninterruptible_body_is_refused_by_add():
    here = ToolSpec.from_function(add, run_in_thread=False)
    for ask in (lambda: Toolkit("k", timeout=5).add(here), lambda: Toolkit("k").add(here, timeout=5)):
        with pytest.raises(ToolkitError, match="'add' has run_in_thread=False, and no timeout can interrupt"):
            ask()
    assert Toolkit("k").add(here).call("add", {"a": 1}) == 2
    assert Toolkit("k", timeout=5).add(ToolSpec.from_function(asearch, run_in_thread=False))["asearch"].timeout == 5


# options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"audiences": "main"}, r"^Unknown option 'audiences'\. Did you mean 'audience'"),
        ({"tags": ["a", 3]}, r"tags must be names, not \['a', 3\]"),
        ({"audience": 3}, "audience must be names, not 3"),
        ({"audience": ["main", ""]}, "audience must be names"),
        ({"preset": [("a", 1)]}, r"preset must be a mapping, parameter -> value\.$"),
        ({"timeout": "3"}, "timeout must be a number of seconds greater than 0, not '3'"),
        ({"requires_approval": "yes"}, "requires_approval must be True, False or a function"),
        ({"postprocess": "upper"}, "postprocess must be a function"),
        ({"middleware": [3]}, "A middleware is `async"),
    ],
    ids=str,
)
def test_an_invalid_option_is_refused_by_add(options, message):
    kit = Toolkit("k")
    with pytest.raises(ToolkitError, match=message):
        kit.add(add, **options)
    assert len(kit) == 0


def test_none_is_no_value_of_an_option_and_no_limit_of_items():
    options = dict.fromkeys(
        ["tags", "audience", "group", "preset", "requires_approval", "on_duplicate", "ship", "task"]
    )
    kit = Toolkit("k").add(add, **options, max_items=None)
    assert (kit["add"].group, kit["add"].tags, kit.exec("add", {"a": 1, "b": 2}).value) == ("basic", set(), 3)
    assert kit["add"].compiled.template.settings.max_items is None


def test_a_tool_without_options_shares_the_specs_compiled_tool():
    spec = ToolSpec.from_function(add)
    kit = Toolkit("k").add(spec)
    assert kit["add"].compiled is spec.compiled


def test_a_binding_of_another_tool_does_not_recompile_a_tool():
    kit = Toolkit("k").add(who, rename="whose").add(search).bind("user")
    before = kit["whose"].compiled
    kit.bind("limit").unbind("limit").bind("nothing")
    kit["search"].bind("query")
    assert kit["whose"].compiled is before
    assert kit.bind("user", "other")["whose"].compiled is not before


def test_a_clone_equals_the_tool_of_the_toolkit_also_after_pickling():
    spec = spec_of().bind("user", default="spec")
    spec.state["query"] = "of the spec"
    kit = Toolkit("k").add(spec, rename="whose", tags={"here"}, timeout=5).bind("query").add(who, preset={"user": "p"})
    for clone in (kit["whose"].clone(), pickle.loads(pickle.dumps(kit["whose"].clone()))):
        assert (clone.name, clone.tags, clone.timeout, list(clone.params)) == ("whose", {"here"}, 5, [])
        assert (clone(), clone.state) == ("spec", {"user": "spec", "query": "of the spec"})
    assert pickle.loads(pickle.dumps(kit["who"].clone()))() == "p"


def test_changes_of_a_clone_affect_neither_the_toolkit_nor_the_spec():
    spec = spec_of().bind("user", default="spec")
    kit = Toolkit("k").add(spec)
    kit["who"].clone().bind("query").state["user"] = "clone"
    assert (kit.call("who"), list(kit["who"].params), spec.state) == ("spec", ["query"], {"user": "spec"})


def test_a_pickled_clone_contains_no_secret_however_it_was_marked():
    def use(token: Annotated[str, Secret], key: str, other: str = "x") -> str:
        return "done"

    spec = ToolSpec.from_function(use).bind("key", "was.secret", "canary-1", secret=True).bind("key", "open")
    spec.bind("token", "spec.token", "canary-2")
    spec.state["later"] = "canary-0"
    kit = Toolkit("k").add(spec).bind("other", "later", secret=True).unbind("other")
    kit.bind("token", "kit.token", "canary-3").bind("key", default="canary-4", secret=True)
    kit["use"].bind("other", default="canary-5", secret=True)
    kit.add(use, rename="fixed", preset={"token": "canary-6"})
    for clone in (kit["use"].clone(), kit["fixed"].clone()):
        assert b"canary" not in pickle.dumps(clone)


def test_a_preset_from_a_secret_is_secret_and_the_tool_gets_its_content():
    def send(token: str, options: dict) -> str:
        return f"{token} {options['headers'][0]}"

    kit = Toolkit("k").add(
        send, preset={"token": SecretStr("canary-1"), "options": {"headers": [SecretStr("canary-2")]}}
    )
    assert kit.call("send") == "canary-1 canary-2"
    bindings = kit["send"].compiled.bindings
    assert all(binding.is_secret for binding in bindings.values())
    assert "canary" not in repr(bindings)
    assert b"canary" not in pickle.dumps(kit["send"].clone())
    with pytest.raises(BindError) as refused:
        kit.add(add, preset={"a": SecretStr("canary-3")})
    assert "canary" not in str(refused.value)
