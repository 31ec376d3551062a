"""Snapshots: the state of a toolkit or session as JSON, without secrets, and back."""

from __future__ import annotations

import json
import math
from collections import UserDict
from typing import Annotated

import pytest

from ahvn_tools import Secret, Toolkit, tool
from ahvn_tools.errors import ToolkitError, ToolLookupError
from tests.toolkit.subjects import add, search


def login(user: str, password: str, key: Annotated[str, Secret] = "none") -> str:
    """Log in."""
    return user + password + key


def kit(**state) -> Toolkit:
    toolkit = Toolkit("k", state=state).add(search, group="web").add(add, group="math")
    return toolkit.add_toolset("small", names=["add"], tags=["a", "b"], audience="main")


def over_the_wire(saved):
    return json.loads(json.dumps(saved, allow_nan=False))


class TestSaving:
    def test_a_toolkits_snapshot_has_switched_groups_toolsets_and_state(self):
        toolkit = kit(user={"id": 1, "tags": ["a"]}).deactivate("web")
        assert toolkit.state_dict() == {
            "version": 1,
            "groups": {"web": False},
            "toolsets": {"small": {"names": ["add"], "tags": ["a", "b"], "audience": "main"}},
            "state": {"user": {"id": 1, "tags": ["a"]}},
            "omitted": [],
        }

    def test_a_sessions_snapshot_has_only_its_own_switches_and_state(self):
        session = kit(user="host").deactivate("web").session(user="ann").activate("web").deactivate("math")
        assert session.state_dict() == {
            "version": 1, "groups": {"web": True, "math": False}, "state": {"user": "ann"}, "omitted": [],
        }  # fmt: skip

    def test_a_selections_snapshot_is_that_of_its_toolkit_without_toolsets(self):
        assert "toolsets" not in kit(user="host").select(names=["add"]).state_dict()
        assert kit(user="host").select(names=["add"]).state_dict()["state"] == {"user": "host"}

    @pytest.mark.parametrize(
        ("state", "stored", "omitted"),
        [
            ({"db": object(), "a": 1}, {"a": 1}, ["state.db"]),
            ({"user": {"db": object(), "id": 1}}, {"user": {"id": 1}}, ["state.user.db"]),
            ({"a.b": object()}, {}, [r"state.a\.b"]),
            ({"list": [1, {"db": object()}]}, {}, ["state.list"]),
            ({"list": (1, [None, True, "x", 0.5])}, {"list": [1, [None, True, "x", 0.5]]}, []),
            ({"a": math.nan, "b": {"c": math.inf}}, {"b": {}}, ["state.a", "state.b.c"]),
            ({1: "one", "a": {None: 2}}, {"a": {}}, ["state[int]", "state.a[NoneType]"]),
            ({"a": UserDict(b=1), "c": {1, 2}, "d": b"x"}, {"a": {"b": 1}}, ["state.c", "state.d"]),
        ],
    )
    def test_values_without_a_json_form_are_omitted_and_named(self, state, stored, omitted):
        saved = Toolkit("k", state=state).state_dict()
        assert (saved["state"], saved["omitted"]) == (stored, omitted)
        assert over_the_wire(saved) == saved

    def test_a_cycle_and_deep_nesting_are_omitted(self):
        circle: dict = {"a": 1}
        circle["me"] = {"again": circle, "and": circle}
        deep: list = []
        for _ in range(5_000):
            deep = [deep]
        saved = Toolkit("k", state={"circle": circle, "deep": {"list": deep}}).session().state_dict()
        assert saved["state"] == {}
        toolkit = Toolkit("k", state={"circle": circle})
        saved = toolkit.state_dict()
        assert saved["state"] == {"circle": {"a": 1, "me": {}}}
        assert saved["omitted"] == ["state.circle.me.again", "state.circle.me.and"]

    def test_strict_refuses_what_would_be_omitted(self):
        with pytest.raises(ToolkitError, match=r"state\.db, toolsets\.odd\."):
            Toolkit("k", state={"db": object()}).add_toolset("odd", where=bool).state_dict(strict=True)
        assert kit(a=1).state_dict(strict=True)["omitted"] == []

    def test_toolsets_with_a_function_and_those_that_refer_to_them_are_omitted(self):
        toolkit = kit().add_toolset("odd", where=bool).add_toolset("of odd", toolset="odd")
        toolkit.add_toolset("of small", toolset="small")
        saved = toolkit.state_dict()
        assert list(saved["toolsets"]) == ["small", "of small"]
        assert saved["omitted"] == ["toolsets.odd", "toolsets.of odd"]

    def test_descriptions_and_unions_of_toolsets_are_saved_and_restored(self):
        saved = kit().add_toolset("more", "Much.", any_of=["small", {"names": ["search"]}]).state_dict()["toolsets"]
        assert saved["more"] == {"description": "Much.", "any_of": [{"toolset": "small"}, {"names": ["search"]}]}
        restored = kit().load_state_dict(over_the_wire({"version": 1, "toolsets": saved}))
        assert restored.toolset("more").description == "Much."
        assert [tool.name for tool in restored.toolset("more").tools] == ["search"]
        assert restored.state_dict()["toolsets"] == saved

    def test_a_function_in_a_union_is_omitted(self):
        toolkit = kit().add_toolset("odd", any_of=[{"where": bool}]).add_toolset("of odd", any_of=["small", "odd"])
        assert list(toolkit.state_dict()["toolsets"]) == ["small"]

    @pytest.mark.parametrize(
        "toolset",
        [
            {"any_of": "small"}, {"any_of": [["small"]]}, {"any_of": [{"any_of": []}]},
            {"any_of": [{"where": "bool"}]}, {"any_of": None}, {"description": ["text"]}, {"description": None}, [],
        ],
    )  # fmt: skip
    def test_a_toolset_of_another_shape_is_refused(self, toolset):
        toolkit = kit()
        with pytest.raises(ToolkitError, match=r"The toolset 'new' of a saved state|Unknown option"):
            toolkit.load_state_dict({"version": 1, "toolsets": {"new": toolset}})
        assert list(toolkit.toolsets) == ["small"]

    def test_a_snapshot_is_a_copy(self):
        toolkit = kit(user={"id": 1})
        toolkit.state_dict()["state"]["user"]["id"] = 2
        assert toolkit.state == {"user": {"id": 1}}


class TestSecrets:
    def saved(self, toolkit: Toolkit) -> str:
        return json.dumps(toolkit.state_dict(strict=True))

    def test_a_value_that_the_toolkit_binds_as_secret_is_never_saved(self):
        toolkit = Toolkit("k", state={"user": "ann", "login": {"pass": "hidden", "name": "shown"}}).add(login)
        toolkit.bind("user", "login.pass", secret=True)
        assert toolkit.state_dict()["state"] == {"user": "ann", "login": {"name": "shown"}}
        toolkit.unbind("user")
        assert "hidden" not in self.saved(toolkit)
        assert "hidden" not in self.saved(toolkit.session(login={"pass": "hidden"}))

    def test_a_value_of_a_secret_parameter_is_never_saved(self):
        toolkit = Toolkit("k", state={"key": "hidden"}).add(login).bind("key")
        assert "hidden" not in self.saved(toolkit)
        toolkit.unbind("key")
        assert "hidden" not in self.saved(toolkit)

    def test_a_value_that_a_tool_binds_as_secret_is_never_saved(self):
        toolkit = Toolkit("k", state={"who": "hidden"}).add(login)
        toolkit["login"].bind("user", "who", secret=True)
        assert "hidden" not in self.saved(toolkit)
        toolkit["login"].unbind("user")
        assert "hidden" not in self.saved(toolkit)

    @pytest.mark.parametrize("leave", ["remove", "remove_group", "replace", "unbind"])
    def test_a_value_that_a_spec_binds_as_secret_is_never_saved_even_after_its_removal(self, leave):
        spec = tool(login).bind("user", "who", secret=True)
        toolkit = Toolkit("k", state={"who": "hidden"}, on_duplicate="replace").add(spec, group="g")
        assert "hidden" not in self.saved(toolkit)
        if leave == "remove":
            toolkit.remove("login")
        elif leave == "remove_group":
            toolkit.remove_group("g")
        elif leave == "replace":
            toolkit.add(login)
        else:
            spec.unbind("user")
        assert "hidden" not in self.saved(toolkit)

    def test_a_value_that_a_nested_toolkit_binds_as_secret_is_never_saved(self):
        inner = Toolkit("inner").add(login).bind("user", "who", secret=True)
        outer = Toolkit("outer", state={"who": "hidden"}).add(inner)
        assert "hidden" not in self.saved(outer)
        inner.unbind("user")
        assert "hidden" not in self.saved(outer)


class TestLoading:
    def test_loading_restores_a_toolkit(self):
        toolkit = kit(user={"id": 1}).deactivate("web").add_toolset("of small", toolset="small")
        saved = over_the_wire(toolkit.state_dict())
        other = Toolkit("other").add(search, group="web").add(add, group="math").deactivate("math")
        assert other.load_state_dict(saved) is other
        assert other.groups == {"basic": True, "web": False, "math": True}
        assert other.state == {"user": {"id": 1}}
        assert [spec.name for spec in other.select(toolset="small")] == []
        assert other.state_dict() == saved

    def test_loading_restores_a_session(self):
        toolkit = kit()
        saved = over_the_wire(toolkit.session(user="ann").deactivate("web").state_dict())
        session = toolkit.session()
        session.load_state_dict(saved)
        assert session.state_dict() == saved
        assert toolkit.state_dict() == kit().state_dict()

    def test_loading_does_not_remove_omitted_values(self):
        db = object()
        toolkit = kit(user={"id": 1, "db": db})
        saved = over_the_wire(toolkit.state_dict())
        held = toolkit.state["user"]
        held["id"] = 2
        toolkit.add_toolset("odd", where=bool).load_state_dict(saved)
        assert toolkit.state == {"user": {"id": 1, "db": db}}
        assert held["id"] == 2
        assert len(toolkit.select(toolset="odd")) == 2

    def test_a_loaded_state_is_a_copy(self):
        saved = {"version": 1, "state": {"user": {"id": 1}}}
        toolkit = kit().load_state_dict(saved)
        saved["state"]["user"]["id"] = 2
        assert toolkit.state == {"user": {"id": 1}}

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (None, "is an object, not a NoneType"),
            ({}, "must have the version 1, not None"),
            ({"version": 2}, "not 2"),
            ({"version": True}, "not True"),
            ({"version": 1, "groups": ["web"]}, "'groups' of a saved state is a dict, not a list"),
            ({"version": 1, "groups": {"web": "on"}}, "a boolean for each name"),
            ({"version": 1, "groups": {"basic": False}}, "'basic' is always active"),
            ({"version": 1, "state": {"a": object()}}, r"not JSON: state\.a"),
            ({"version": 1, "toolsets": {"a": {"names": "add"}}}, "The toolset 'a' of a saved state"),
            ({"version": 1, "toolsets": {"a": {"audience": 1}}}, "The toolset 'a' of a saved state"),
            ({"version": 1, "toolsets": {"a": ["add"]}}, "The toolset 'a' of a saved state"),
            ({"version": 1, "toolsets": {"a": {"where": []}}}, "The toolset 'a' of a saved state"),
            ({"version": 1, "toolsets": {"a": {"nmes": []}}}, "Unknown option"),
            ({"version": 1, "toolsets": {"a": {"toolset": "a"}}}, "cannot be made of itself"),
        ],
    )
    @pytest.mark.parametrize("strict", [True, False])
    def test_another_shape_or_version_changes_nothing(self, data, message, strict):
        toolkit = kit(user="ann").deactivate("web")
        before = toolkit.state_dict()
        if isinstance(data, dict):
            data = {"groups": {"math": False}, "state": {"user": "eve"}, **data}
        with pytest.raises(ToolkitError, match=message):
            toolkit.load_state_dict(data, strict)
        assert toolkit.state_dict() == before

    @pytest.mark.parametrize(
        ("data", "error", "message"),
        [
            ({"groups": {"wob": True, "web": False}}, ToolLookupError, "There is no group 'wob'"),
            ({"groups": {"web": False}, "odd": 1}, ToolkitError, "unknown part here: 'odd'"),
        ],
    )
    def test_unknown_parts_are_an_error_when_strict_and_else_a_warning(self, data, error, message):
        toolkit = kit()
        with pytest.raises(error, match=message):
            toolkit.load_state_dict({"version": 1, **data})
        assert toolkit.groups["web"] is True
        with pytest.warns(UserWarning, match=message) as warned:
            toolkit.load_state_dict({"version": 1, **data}, strict=False)
        assert warned[0].filename == __file__
        assert toolkit.groups["web"] is False

    def test_a_toolset_that_refers_to_an_unknown_one_is_an_error(self):
        toolkit = kit()
        with pytest.raises(ToolLookupError, match="no toolset 'nothing'"):
            toolkit.load_state_dict({"version": 1, "toolsets": {"a": {"toolset": "nothing"}}, "state": {"a": 1}})
        assert toolkit.state == {}

    def test_toolsets_are_loaded_on_the_toolkit_alone(self):
        toolkit = kit()
        saved = toolkit.add_toolset("more", names=["search"]).state_dict()
        for view in (toolkit.session(), toolkit.select(names=["add"])):
            with pytest.raises(ToolkitError, match="'toolsets', which belong to the toolkit itself"):
                view.load_state_dict(saved)
            with pytest.warns(UserWarning, match="'toolsets'"):
                view.load_state_dict(saved, strict=False)
