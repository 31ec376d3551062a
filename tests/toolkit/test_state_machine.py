"""A toolkit behaves like a simple model of it after any sequence of changes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.errors import BindError, ToolkitError, ToolLookupError

NAMES = st.sampled_from(["one", "two", "three", "four"])
GROUPS = st.sampled_from(["math", "mail"])
ANY_GROUP = st.sampled_from(["basic", "math", "mail"])
TAGS = st.frozensets(st.sampled_from(["a", "b"]))
AUDIENCE = st.sampled_from([None, "main", "sub"])
TOOLSETS = st.sampled_from(["first", "second"])
SELECTION = st.fixed_dictionaries(
    {},
    optional={
        "names": st.frozensets(NAMES),
        "tags": TAGS,
        "groups": st.frozensets(ANY_GROUP),
        "audience": st.sampled_from(["main", "sub"]),
    },
)
ANY_OF = st.none() | st.lists(SELECTION, max_size=2)
USERS = st.sampled_from(["ann", "bob", None])
NOTHING = object()


def whose(user: Any = "default", extra: int = 0) -> Any:
    """Return whose it is."""
    return user


class Toolkits(RuleBasedStateMachine):
    """The model: tools by name, groups, switches and states in the order in which they are asked, bindings."""

    @initialize()
    def begin(self) -> None:
        self.kit = Toolkit("k")
        self.spec = ToolSpec.from_function(whose)
        self.tools: dict[str, dict[str, Any]] = {}
        self.groups: dict[str, bool] = {"basic": True}
        self.defined: set[str] = set()
        self.is_bound = False
        self.toolsets: dict[str, dict[str, Any]] = {}
        self.views: list[dict[str, Any]] = [
            {"kit": self.kit, "holders": [{"state": {}, "switched": {}}], "conditions": [], "has_all_audiences": False}
        ]

    # the toolkit

    @rule(
        name=NAMES,
        group=ANY_GROUP,
        tags=TAGS,
        audience=AUDIENCE,
        preset=st.sampled_from([NOTHING, "preset", None]),
        policy=st.sampled_from([None, "keep", "replace", "rename"]),
    )
    def add(
        self, name: str, group: str, tags: frozenset[str], audience: str | None, preset: Any, policy: str | None
    ) -> None:
        options: dict[str, Any] = {"group": group, "tags": tags, "audience": audience or ()}
        if preset is not NOTHING:
            options["preset"] = {"user": preset}
        if policy is not None:
            options["on_duplicate"] = policy
        try:
            self.kit.add(self.spec, rename=name, **options)
        except ToolkitError:
            assert (name in self.tools, policy) == (True, None)
            return
        except ToolLookupError:
            assert self.is_undefined({group})
            return
        if name in self.tools and policy == "keep":
            return
        assert not self.is_undefined({group})
        if name in self.tools and policy == "rename":
            name = next(f"{name}_{n}" for n in range(2, 1000) if f"{name}_{n}" not in self.tools)
        self.groups.setdefault(group, True)
        self.tools[name] = {"group": group, "tags": tags, "audience": audience, "preset": preset, "is_bound": False}

    @rule(name=NAMES, tags=st.frozensets(st.sampled_from(["a", "b"]), min_size=1), on=st.booleans())
    def tag(self, name: str, tags: frozenset[str], on: bool) -> None:
        had = self.tools[name]["tags"] if name in self.tools else frozenset()
        try:
            (self.kit.tag if on else self.kit.untag)(name, *tags)
        except ToolLookupError:
            assert name not in self.tools or not (on or tags <= had)
            return
        self.tools[name]["tags"] = had | tags if on else had - tags

    @rule(names=st.lists(NAMES, max_size=2))
    def remove(self, names: list[str]) -> None:
        try:
            self.kit.remove(*names)
        except ToolLookupError:
            assert not set(names) <= self.tools.keys()
            return
        assert set(names) <= self.tools.keys()
        self.tools = {name: tool for name, tool in self.tools.items() if name not in names}

    @rule(name=GROUPS, active=st.booleans())
    def define(self, name: str, active: bool) -> None:
        labels = {tool["group"] for tool in self.tools.values()} - {*self.defined, name, "basic"}
        if labels:
            with pytest.raises(ToolkitError, match="is not defined"):
                self.kit.add_group(name, active=active)
            return
        self.kit.add_group(name, active=active)
        self.groups[name] = active
        self.defined.add(name)

    @rule(name=GROUPS)
    def remove_group(self, name: str) -> None:
        try:
            self.kit.remove_group(name)
        except ToolLookupError:
            assert name not in self.groups
            return
        del self.groups[name]
        self.defined.discard(name)
        for view in self.views:
            for holder in view["holders"]:
                holder["switched"].pop(name, None)
        self.tools = {key: tool for key, tool in self.tools.items() if tool["group"] != name}

    @rule(on=st.booleans())
    def bind(self, on: bool) -> None:
        (self.kit.bind if on else self.kit.unbind)("user")
        self.is_bound = on

    @rule(name=NAMES, on=st.booleans())
    def bind_one(self, name: str, on: bool) -> None:
        try:
            tool = self.kit[name]
        except ToolLookupError:
            return
        try:
            tool.bind("user", "own") if on else tool.unbind("user")
        except BindError:
            assert self.tools[name]["preset"] is not NOTHING
        else:
            self.tools[name]["is_bound"] = on

    @rule(name=TOOLSETS, selection=SELECTION, any_of=ANY_OF)
    def save(self, name: str, selection: dict[str, Any], any_of: list[dict[str, Any]] | None) -> None:
        if any_of is not None:
            selection = {**selection, "any_of": any_of}
        if self.is_undefined(*(part.get("groups", ()) for part in (selection, *(any_of or ())))):
            with pytest.raises(ToolLookupError, match="no group"):
                self.kit.add_toolset(name, **selection)
            return
        self.kit.add_toolset(name, **selection)
        self.toolsets[name] = selection

    # views

    @precondition(lambda self: len(self.views) < 8)
    @rule(
        place=st.integers(0, 7),
        user=USERS,
        has_user=st.booleans(),
        audience=st.sampled_from([NOTHING, None, "main", "sub"]),
    )
    def session(self, place: int, user: Any, has_user: bool, audience: Any) -> None:
        base = self.views[place % len(self.views)]
        state = {"user": user} if has_user else {}
        view = {**base, "holders": [{"state": state, "switched": {}}, *base["holders"]]}
        options = {} if audience is NOTHING else {"audience": audience}
        if audience is None:
            view["has_all_audiences"] = True
        elif options:
            view["conditions"] = [*base["conditions"], options]
        self.views.append({**view, "kit": base["kit"].session(dict(state), **options)})

    @precondition(lambda self: len(self.views) < 8)
    @rule(place=st.integers(0, 7), selection=SELECTION, toolset=st.none() | TOOLSETS)
    def select(self, place: int, selection: dict[str, Any], toolset: str | None) -> None:
        base = self.views[place % len(self.views)]
        if toolset is not None:
            selection = {**selection, "toolset": toolset}
        is_unknown = toolset is not None and toolset not in self.toolsets
        if is_unknown or self.is_undefined(selection.get("groups", ())):
            with pytest.raises(ToolLookupError):
                base["kit"].select(**selection)
            return
        self.views.append(
            {**base, "kit": base["kit"].select(**selection), "conditions": [*base["conditions"], selection]}
        )

    @rule(place=st.integers(0, 7), name=ANY_GROUP, on=st.booleans())
    def switch(self, place: int, name: str, on: bool) -> None:
        view = self.views[place % len(self.views)]
        try:
            view["kit"].set_groups({name: on})
        except (ToolLookupError, ToolkitError):
            assert name not in self.groups_here(view) or (name == "basic" and not on)
        else:
            assert name in self.groups_here(view)
            view["holders"][0]["switched"][name] = on

    @rule(place=st.integers(0, 7), key=st.sampled_from(["user", "own"]), user=USERS)
    def change_state(self, place: int, key: str, user: Any) -> None:
        view = self.views[place % len(self.views)]
        view["kit"].state[key] = user
        view["holders"][0]["state"][key] = user

    @rule(place=st.integers(0, 7))
    def keep(self, place: int) -> None:
        view = self.views[place % len(self.views)]
        saved = view["kit"].state_dict(strict=True)
        assert (saved["groups"], saved["state"]) == (view["holders"][0]["switched"], view["holders"][0]["state"])
        view["kit"].load_state_dict(json.loads(json.dumps(saved)))

    @rule(place=st.integers(0, 7))
    def search(self, place: int) -> None:
        view = self.views[place % len(self.views)]
        assert {tool.name for tool in view["kit"].search("whose")} == {
            name for name in self.tools if self.is_shown(view, name)
        }

    # what the model says

    def is_undefined(self, *groups: Iterable[str]) -> bool:
        """Return whether one of these groups is not defined, beside one that is."""
        return bool(self.defined) and not {"basic", *self.defined}.issuperset(itertools.chain(*groups))

    def is_active(self, view: dict[str, Any], group: str) -> bool:
        if group == "basic":
            return True
        for holder in view["holders"]:
            if group in holder["switched"]:
                return bool(holder["switched"][group])
        return self.groups[group]

    def groups_here(self, view: dict[str, Any]) -> list[str]:
        """Return the groups that have no tool at all, or one that is in the view."""
        used = {tool["group"] for tool in self.tools.values()} - {"basic"}
        shown = {tool["group"] for name, tool in self.tools.items() if self.is_selected(view, name)}
        return [name for name in self.groups if name in shown or name not in used]

    def is_shown(self, view: dict[str, Any], name: str) -> bool:
        return self.is_active(view, self.tools[name]["group"]) and self.is_selected(view, name)

    def is_selected(self, view: dict[str, Any], name: str) -> bool:
        is_open = len(view["holders"]) == 1 or view["has_all_audiences"] or self.tools[name]["audience"] is None
        is_for_session = is_open or any(map(self.names_audience, view["conditions"]))
        return is_for_session and all(self.admits(condition, name) for condition in view["conditions"])

    def names_audience(self, condition: dict[str, Any]) -> bool:
        return (
            "audience" in condition
            or ("toolset" in condition and self.names_audience(self.toolsets[condition["toolset"]]))
            or ("any_of" in condition and all(map(self.names_audience, condition["any_of"])))
        )

    def admits(self, condition: dict[str, Any], name: str) -> bool:
        tool = self.tools[name]
        return (
            name in condition.get("names", {name})
            and ("tags" not in condition or bool(condition["tags"] & tool["tags"]))
            and tool["group"] in condition.get("groups", {tool["group"]})
            and (tool["audience"] is None or condition.get("audience", tool["audience"]) == tool["audience"])
            and ("any_of" not in condition or any(self.admits(part, name) for part in condition["any_of"]))
            and ("toolset" not in condition or self.admits(self.toolsets[condition["toolset"]], name))
        )

    def user(self, view: dict[str, Any], name: str) -> Any:
        tool = self.tools[name]
        if tool["preset"] is not NOTHING:
            return tool["preset"]
        if not (tool["is_bound"] or self.is_bound):
            return "default"
        key = "own" if tool["is_bound"] else "user"
        return next((holder["state"][key] for holder in view["holders"] if key in holder["state"]), "default")

    @invariant()
    def every_view_shows_and_runs_what_the_model_says(self) -> None:
        for view in self.views:
            kit, listed = view["kit"], [name for name in self.tools if self.is_shown(view, name)]
            selected = [name for name in self.tools if self.is_selected(view, name)]
            found = selected if view is self.views[0] else listed  # the toolkit itself has inactive tools, too
            assert [tool.name for tool in kit] == found
            assert [tool.name for tool in kit.select(inactive=True)] == selected
            assert [definition.name for definition in kit.definitions()] == listed
            assert len(kit) == len(found)
            assert {name: [tool.name for tool in kit.group(name).tools] for name in kit.groups} == {
                group: [name for name in selected if self.tools[name]["group"] == group]
                for group in self.groups_here(view)
            }
            for toolset, condition in self.toolsets.items():
                members = [name for name in selected if self.admits(condition, name)]
                assert [tool.name for tool in kit.toolset(toolset).tools] == members
            assert kit.groups == {name: self.is_active(view, name) for name in self.groups_here(view)}
            for name in ("one", "two", "three", "four"):
                assert (name in kit) == (name in found)
                self.check_call(view, name, is_shown=name in listed)

    def check_call(self, view: dict[str, Any], name: str, *, is_shown: bool) -> None:
        result = view["kit"].exec(name)
        if not is_shown:
            assert result.error.code == ("not_available" if name in self.tools else "not_found")
            return
        assert (result.is_error, result.value) == (False, self.user(view, name))
        tool = self.tools[name]
        is_hidden = self.is_bound or tool["is_bound"] or tool["preset"] is not NOTHING
        assert ("user" not in view["kit"][name].params) == is_hidden
        assert view["kit"].exec(name, {"user": "caller"}).is_error == is_hidden


class TestToolkits(Toolkits.TestCase):
    """A few short sequences of changes."""

    settings = settings(max_examples=15, stateful_step_count=25, deadline=None)


@pytest.mark.exhaustive
class TestToolkitsExhaustively(Toolkits.TestCase):
    """Many sequences of changes."""

    settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
