"""Budgets: what is over one is noticed at the price of the budget, not of what was sent."""

from __future__ import annotations

import time

import pytest

from ahvn_tools.mcp.trust.budgets import Budgets, RefusedToolError, check_schema, check_size
from tests.ids import named


def nested(levels, make=lambda inner: {"a": inner}):
    value = {}
    for _ in range(levels):
        value = make(value)
    return value


def test_a_definition_of_usual_size_is_measured():
    assert (
        20 < check_size({"name": "add", "inputSchema": {"type": "object"}, "x": [1, 2.5, None, True]}, Budgets()) < 100
    )


@pytest.mark.parametrize("text", ["x" * 10_000_000, "é" * 10_000_000], ids=["ASCII", "UTF-8"])
def test_a_huge_text_is_refused_in_no_time(text):
    start = time.perf_counter()
    with pytest.raises(RefusedToolError, match="262144 bytes"):
        check_size({"name": "add", "description": text}, Budgets())
    assert time.perf_counter() - start < 0.2


@pytest.mark.parametrize(
    "value",
    [
        ["x"] * 1_000_000,
        {str(i): 0 for i in range(300_000)},
        {"x" * 300_000: 1},
        [10**1_000_000],
        [[] for _ in range(300_000)],
    ],
    ids=["items", "members", "a member's name", "a number", "empty lists"],
)
def test_size_is_counted_wherever_it_is(value):
    with pytest.raises(RefusedToolError, match="bytes"):
        check_size({"x": value}, Budgets())


@pytest.mark.parametrize("make", [lambda inner: {"a": inner}, lambda inner: [inner]], ids=["objects", "lists"])
def test_depth_has_a_limit(make):
    check_size(nested(63, make), Budgets())
    with pytest.raises(RefusedToolError, match="64 levels"):
        check_size(nested(64, make), Budgets())
    with pytest.raises(RefusedToolError, match="64 levels"):
        check_size(nested(100_000, make), Budgets())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2}, object(), b"x", {1}], ids=named)
def test_what_is_no_json_is_refused(value):
    with pytest.raises(RefusedToolError, match=r"no JSON|no text"):
        check_size({"x": value}, Budgets())


def test_properties_have_a_limit():
    schema = {"properties": {"a": {"properties": {str(i): {} for i in range(9)}}}}
    check_schema(schema, Budgets(properties=10))
    with pytest.raises(RefusedToolError, match="more than 9 properties"):
        check_schema(schema, Budgets(properties=9))


def test_expanded_schemas_have_a_limit():
    schema = {"properties": {str(i): {} for i in range(9)}}
    check_schema(schema, Budgets(nodes=10))
    with pytest.raises(RefusedToolError, match="more than 9 schemas"):
        check_schema(schema, Budgets(nodes=9))
