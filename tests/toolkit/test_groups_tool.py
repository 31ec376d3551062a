"""GroupsTool: a model switches groups for its session."""

from __future__ import annotations

import pickle

import pytest

from ahvn_tools import ToolCall, Toolkit
from ahvn_tools.errors import PickleError, ToolError
from tests.toolkit.subjects import add, search


def grouped_kit() -> Toolkit:
    toolkit = Toolkit("k").add(search, group="web").add(add, group="math")
    toolkit.group("web", "Look around.", notes="Be kind to servers.").group("math", "Count.", active=True)
    return toolkit.add(toolkit.groups_tool())


def test_it_has_one_boolean_for_each_group_but_basic():
    assert grouped_kit()["set_groups"].input_schema == {
        "type": "object",
        "properties": {
            "web": {"type": "boolean", "default": False, "description": "Look around."},
            "math": {"type": "boolean", "default": False, "description": "Count."},
        },
        "additionalProperties": False,
    }


def test_its_parameters_follow_the_groups():
    toolkit = grouped_kit()
    before = toolkit["set_groups"].definition
    toolkit.group("e-mail & more").remove_group("math")
    assert list(toolkit["set_groups"].input_schema["properties"]) == ["web", "e-mail & more"]
    assert toolkit["set_groups"].definition.fingerprint != before.fingerprint
    toolkit.call("set_groups", {"e-mail & more": True})
    assert toolkit.groups == {"basic": True, "web": False, "e-mail & more": True}
    assert toolkit.exec("set_groups", {"math": True}).error.code == "invalid_parameters"


def test_it_sets_the_whole_state_of_the_session_that_calls_it():
    toolkit = grouped_kit()
    session, other = toolkit.session(), toolkit.session()
    assert session.call("set_groups", {"web": True}) == "Active groups: web.\n\n## web\nBe kind to servers."
    assert session.groups == {"basic": True, "web": True, "math": False}
    assert other.groups == toolkit.groups == {"basic": True, "web": False, "math": True}
    assert session.call("set_groups") == "No group is active."
    assert session.groups == {"basic": True, "web": False, "math": False}


@pytest.mark.parametrize("arguments", [{"web": "maybe"}, {"web": True, "wob": True}, {"web": 1}, {"basic": False}])
def test_wrong_arguments_change_nothing(arguments):
    session = grouped_kit().session()
    assert session.exec("set_groups", arguments).error.code == "invalid_parameters"
    assert session.groups == {"basic": True, "web": False, "math": True}


@pytest.mark.parametrize("name", ["context", "group_", "self", "name", "数学", "a b", "user"])
def test_a_group_may_have_any_name(name):
    toolkit = Toolkit("k", state={"user": True}).group(name).bind("user")
    toolkit.add(toolkit.groups_tool())
    session = toolkit.session()
    session.call("set_groups", {name: True})
    assert session.groups == {"basic": True, name: True}


def test_it_takes_a_name_a_group_and_an_audience_like_any_tool():
    toolkit = Toolkit("k").group("web")
    toolkit.add(toolkit.groups_tool(), rename="reset_equipped_tools", audience="main")
    assert toolkit.select(audience="main").call("reset_equipped_tools", {"web": True}) == "Active groups: web."
    assert "reset_equipped_tools" not in toolkit.select(audience="sub")


def test_when_it_is_exclusive_later_calls_of_the_answer_see_the_switched_groups():
    toolkit = Toolkit("k").group("math").add(add, group="math")
    toolkit.add(toolkit.groups_tool(), exclusive=True)
    calls = [("add", {"a": 1}), ("set_groups", {"math": True}), ("add", {"a": 1})]
    run = toolkit.session().run([ToolCall(id=name, name=name, arguments=passed) for name, passed in calls])
    assert [result.is_error for _, result in run.results] == [True, False, False]


def test_it_is_not_pickled_and_needs_a_toolkit():
    spec = grouped_kit().groups_tool()
    with pytest.raises(PickleError, match="toolkit"):
        pickle.dumps(spec)
    with pytest.raises(ToolError, match="works in a toolkit only"):
        spec.call(web=True)


def test_it_works_from_another_toolkit_that_it_was_added_to():
    outer = Toolkit("outer").add(grouped_kit())
    outer.call("set_groups", {"web": True})
    assert outer.groups == {"basic": True, "web": True, "math": False}
