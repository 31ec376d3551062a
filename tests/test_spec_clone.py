"""Clones: copies of a spec that share no state, no binding and no example with it."""

from __future__ import annotations

import asyncio
import copy
from collections import ChainMap, UserDict, deque
from types import MappingProxyType
from typing import Any

import pytest

from ahvn_tools import ToolSpec


def act(user: str, action: str, log: list | None = None) -> str:
    """Do something for a user."""
    if log is not None:
        log.append(action)
    return f"{user} {action}"


def original() -> ToolSpec:
    return ToolSpec.from_function(act, examples=[{"user": "ann", "action": "go"}]).bind("user", "session.user", "ann")


COPIES = [ToolSpec.clone, copy.copy, copy.deepcopy]


@pytest.mark.parametrize("copied", COPIES)
def test_a_clone_does_what_the_original_does(copied):
    spec = original()
    twin = copied(spec)
    assert twin is not spec
    assert twin(action="go") == "ann go"
    assert twin.definition == spec.definition
    assert dict(twin.binds) == dict(spec.binds)


@pytest.mark.parametrize("copied", COPIES)
def test_a_clone_has_a_separate_state_including_nested_containers(copied):
    spec = original()
    twin = copied(spec)
    twin.state["session"]["user"] = "eve"
    assert (spec(action="go"), twin(action="go")) == ("ann go", "eve go")
    spec.state["session"]["user"] = "bob"
    assert (spec(action="go"), twin(action="go")) == ("bob go", "eve go")


@pytest.mark.parametrize(
    "state",
    [
        {"a": {"b": [1, {"c": {2}}]}},
        UserDict(a=UserDict(b=[1])),
        ChainMap({"a": [1]}, {"b": 2}),
        MappingProxyType({"a": [1]}),
        {"a": deque([[1]]), "b": ([1], {"c": 1})},
    ],
)
def test_any_kind_of_state_is_copied(state):
    spec = original()
    spec.state = state
    twin = spec.clone()
    before = repr(dict(spec.state))
    assert twin.state is not spec.state
    assert dict(twin.state) == dict(spec.state)
    for value in twin.state.values():
        value.clear() if hasattr(value, "clear") else None
    twin.state["new"] = 1
    assert repr(dict(spec.state)) == before


def test_objects_in_the_containers_are_shared():
    handle = object()
    spec = original()
    spec.state["handles"] = [handle]
    assert spec.clone().state["handles"][0] is handle


def test_the_bindings_of_a_clone_do_not_reach_the_original():
    spec = original()
    twin = spec.clone().bind("log", default=[]).unbind("user")
    assert dict(spec.binds) == {"user": "session.user"}
    assert dict(twin.binds) == {"log": "log"}
    assert (list(spec.params), list(twin.params)) == (["action", "log"], ["user", "action"])
    assert "log" not in spec.state


def test_the_bindings_of_the_original_do_not_reach_a_clone():
    spec = original()
    twin = spec.clone()
    spec.unbind("user").bind("action", default="stop")
    assert twin(action="go") == "ann go"


def test_a_clone_made_before_a_call_and_one_made_after_are_the_same():
    spec = original()
    before = spec.clone()
    spec(action="warm up")
    assert spec.clone()(action="go") == before(action="go")


def test_a_remembered_default_is_not_shared():
    spec = ToolSpec.from_function(act).bind("user", default="ann").bind("log", default=[])
    twin = spec.clone()
    spec.state, twin.state = {"user": "a"}, {"user": "b"}
    spec(action="x")
    log: list[str] = []
    twin.bind("log", default=log)(action="y")
    assert log == ["y"]


def test_a_clone_has_the_examples_of_the_original_by_its_own_bindings():
    spec = original()
    twin = spec.clone().unbind("user")
    assert spec.examples == [{"action": "go"}]
    assert twin.examples == [{"user": "ann", "action": "go"}]


class Counted(ToolSpec):
    """A subclass with additional attributes."""

    calls = 0

    def call(self, /, *args: Any, **arguments: Any) -> Any:
        self.calls += 1
        return super().call(*args, **arguments)


def test_a_clone_has_the_class_and_the_attributes_of_the_original():
    spec = Counted.from_function(act)
    spec.label = "first"
    spec.call(user="a", action="b")
    twin = spec.clone()
    assert (type(twin), twin.label, twin.calls) == (Counted, "first", 1)
    twin.call(user="a", action="b")
    assert (spec.calls, twin.calls) == (1, 2)


def test_a_clone_has_a_separate_fastmcp_tool():
    spec = original()
    spec.binded  # made before the clone
    twin = spec.clone()
    twin.state["session"]["user"] = "eve"
    assert twin.binded is not spec.binded
    content = [asyncio.run(tool.run({"action": "go"})).structured_content for tool in (spec.binded, twin.binded)]
    assert content == [{"result": "ann go"}, {"result": "eve go"}]


def test_a_spec_that_is_referenced_twice_is_copied_once():
    spec = original()
    first, second = copy.deepcopy([spec, spec])
    assert first is second
    assert first is not spec


async def test_clones_of_every_source_work():
    from fastmcp.tools import Tool

    def add(a: int, b: int) -> int:
        return a + b

    specs = [
        ToolSpec.from_code("def add(a: int, b: int) -> int:\n    return a + b").bind("a", default=1),
        ToolSpec.from_mcp(Tool.from_function(add)).bind("a", default=1),
    ]
    for spec in specs:
        twin = spec.clone()
        twin.state["a"] = 10
        assert [await spec.acall(b=2), await twin.acall(b=2)] == [3, 12]
