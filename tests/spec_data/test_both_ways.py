"""A pickle and the data of a tool give the same tool: definition, settings, bindings, state and results."""

from __future__ import annotations

import functools
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools import ToolSpec
from ahvn_tools.binding import Binding
from tests.spec_data import tools
from tests.spec_data.subjects import SCHEMA, SUBJECTS, from_data, to_data


def carried(spec: ToolSpec) -> ToolSpec:
    """Return what comes out of a pickle."""
    twin: ToolSpec = pickle.loads(pickle.dumps(spec))
    return twin


WAYS: dict[str, Callable[[ToolSpec], ToolSpec]] = {"pickle": carried, "data": lambda spec: from_data(to_data(spec))}


def _langchain() -> ToolSpec:
    langchain = pytest.importorskip("langchain_core.tools", reason="needs LangChain")
    return ToolSpec.from_langchain(langchain.StructuredTool.from_function(tools.greet))


def _fastmcp() -> ToolSpec:
    from fastmcp.tools import Tool

    return ToolSpec.from_mcp(Tool.from_function(tools.greet)).bind("tone", default="warm")


def _wire() -> ToolSpec:
    from mcp_types import Tool

    return ToolSpec.from_mcp(Tool(name="echo", input_schema=SCHEMA, description="Say it again."), timeout=3)


ONLY_PICKLED: dict[str, Callable[[], ToolSpec]] = {
    "lambda": lambda: ToolSpec.from_function(lambda name, tone="plain": f"{tone} {name}", name="say", timeout=2),
    "method": lambda: tools.Shop({"tea": 3}).toolspec("price"),
    "partial-of-a-lambda": lambda: ToolSpec.from_function(functools.partial(lambda name, tone: tone, tone=1), name="p"),
    "code-with-env": lambda: ToolSpec.from_code("def say(name): return prefix + name", env={"prefix": "p"}),
    "resolver-that-is-a-lambda": lambda: ToolSpec.from_function(tools.greet).bind("tone", resolver=lambda: "warm"),
    "value-that-is-no-json": lambda: ToolSpec.from_function(tools.greet).bind("tone", "a.b", default=frozenset("x")),
    "fastmcp": _fastmcp,
    "mcp": _wire,
    "langchain": _langchain,
}
"""Specs that are no data."""


def facts(binding: Binding) -> dict[str, Any]:
    """Return what a binding says, without the identity of its resolver."""
    names = ("parameter", "key", "default", "is_secret", "takes_state", "is_async", "is_value_removed")
    return {name: getattr(binding, name) for name in names} | {"resolver": type(binding.resolver)}


def require_same(twin: ToolSpec, spec: ToolSpec) -> None:
    assert twin.definition == spec.definition
    assert twin.definition.fingerprint == spec.definition.fingerprint
    mine, theirs = spec.compiled.template, twin.compiled.template
    for name in ("settings", "source", "source_function", "is_async", "is_movable", "tags", "meta", "icons"):
        assert getattr(theirs, name) == getattr(mine, name), name
    assert theirs.options.keys() - {"binds"} == mine.options.keys() - {"binds"}
    bindings = {name: facts(item) for name, item in spec.compiled.bindings.items()}
    assert {name: facts(item) for name, item in twin.compiled.bindings.items()} == bindings
    assert dict(twin.state) == dict(spec.state)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SUBJECTS)
def test_data_and_a_pickle_give_the_same_tool(name, way, monkeypatch):
    monkeypatch.setenv("CANARY_KEY", "from the environment")
    spec = SUBJECTS[name]()
    twin = WAYS[way](spec)
    require_same(twin, spec)
    require_same(WAYS[way](twin), spec)
    assert json.dumps(carried(twin).to_dict(values=True)) == json.dumps(to_data(spec))


@pytest.mark.parametrize("name", ONLY_PICKLED)
def test_a_pickle_gives_the_same_tool_where_data_cannot(name):
    spec = ONLY_PICKLED[name]()
    twin = carried(carried(spec))
    require_same(twin, spec)
    arguments = {"item": "tea"} if name == "method" else {"name": "Ann"}
    mine, theirs = spec.exec(**arguments), twin.exec(**arguments)
    assert (theirs.value, getattr(theirs.error, "code", None)) == (mine.value, getattr(mine.error, "code", None))


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=2)),
    max_leaves=5,
)
KEYS = st.sampled_from(["tone", "a", "a.b", "a.b.c", r"a\\.b", "session.user"])


@given(
    key=KEYS,
    default=JSON,
    is_secret=st.booleans(),
    secret_key=st.none() | KEYS,
    changes=st.sampled_from([{}, {"tone": {"name": "other"}}, {"name": {"description": "Who.", "examples": ["Ann"]}}]),
)
def test_any_binding_is_the_same_both_ways_and_no_secret_travels(key, default, is_secret, secret_key, changes):
    canary = "canary-7f3a9c"
    spec = ToolSpec.from_function(tools.greet).transform(arguments=changes)
    tone = changes.get("tone", {}).get("name", "tone")
    if secret_key is not None:
        spec.bind("name", secret_key, resolver=None, secret=True)
    spec.bind(tone, key, canary if is_secret else default, secret=is_secret)
    pickled, data = pickle.dumps(spec), spec.to_dict(values=True)
    twins = [pickle.loads(pickled), from_data(json.loads(json.dumps(data)))]
    for twin in twins:
        assert twin.definition == spec.definition
        assert dict(twin.binds) == dict(spec.binds)
        assert [item.is_secret for item in twin.compiled.bindings.values()] == [
            item.is_secret for item in spec.compiled.bindings.values()
        ]
    assert twins[0].compiled.bindings[tone].default == twins[1].compiled.bindings[tone].default
    if is_secret:
        assert canary not in json.dumps(data)
        assert canary.encode() not in pickled
