"""Limits and budgets notice an excess at the price of the limit, not of what the server sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools.errors import DefinitionError
from ahvn_tools.mcp.trust import limits
from ahvn_tools.mcp.trust.limits import (
    Budgets,
    JsonValueCounter,
    Limits,
    RateGuard,
    RefusedToolError,
    check_schema,
    check_size,
)
from tests.clocks import cpu_limit
from tests.ids import named

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab",[{\\\n'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='a",[{\\'), inner),
    max_leaves=30,
)


def test_rate_guard_counts_messages_within_its_window(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(limits.time, "monotonic", lambda: now[0])
    guard = RateGuard(2)
    assert [guard.count_message() for _ in range(2)] == [None, None]
    assert guard.count_message() == "the server sent more than 2 notifications within 10 s"
    now[0] = limits.RATE_WINDOW_SECONDS + 1
    assert guard.count_message() is None


def count_brackets_and_commas(value: Any) -> int:
    """Return the number of brackets and commas in the JSON of a value."""
    if not isinstance(value, list | dict):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(len(value) - 1, 0) + sum(map(count_brackets_and_commas, inner))


@given(JSON, st.integers(1, 7))
@pytest.mark.exhaustive
def test_json_value_counter_ignores_strings_wherever_the_chunks_are_cut(value: Any, size: int) -> None:
    data = json.dumps(value).encode()
    counter = JsonValueCounter()
    for start in range(0, len(data), size):
        counter.add(data[start : start + size])
    assert counter.count == count_brackets_and_commas(value)


def test_json_value_counter_counts_a_string_as_one_value() -> None:
    assert JsonValueCounter().add(json.dumps({"text": 'a,b,[{"' * 100_000}).encode()) == 1
    assert JsonValueCounter().add(json.dumps([{}] * 100).encode()) == 200


def nested(levels: int, wrap: Any = lambda inner: {"a": inner}) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = wrap(value)
    return value


def test_check_size_returns_the_size_of_a_small_definition() -> None:
    size = check_size({"name": "add", "inputSchema": {"type": "object"}, "x": [1, 2.5, None, True]}, Budgets())
    assert 20 < size < 100


@pytest.mark.parametrize("text", ["x" * 10_000_000, "é" * 10_000_000], ids=["ASCII", "UTF-8"])
def test_check_size_refuses_a_huge_text_quickly(text: str) -> None:
    with cpu_limit(5), pytest.raises(RefusedToolError, match="262144 bytes"):
        check_size({"name": "add", "description": text}, Budgets())


@pytest.mark.parametrize(
    "make_value",
    [
        lambda: ["x"] * 1_000_000,
        lambda: {str(i): 0 for i in range(300_000)},
        lambda: {"x" * 300_000: 1},
        lambda: [10**1_000_000],
        lambda: [[] for _ in range(300_000)],
    ],
    ids=["items", "members", "member name", "number", "empty lists"],
)
def test_check_size_counts_every_part_of_a_value(make_value: Callable[[], Any]) -> None:
    with pytest.raises(RefusedToolError, match="bytes"):
        check_size({"x": make_value()}, Budgets())


@pytest.mark.parametrize("wrap", [lambda inner: {"a": inner}, lambda inner: [inner]], ids=["objects", "lists"])
def test_check_size_limits_the_depth(wrap: Any) -> None:
    check_size(nested(63, wrap), Budgets())
    with pytest.raises(RefusedToolError, match="64 levels"):
        check_size(nested(64, wrap), Budgets())
    with pytest.raises(RefusedToolError, match="64 levels"):
        check_size(nested(100_000, wrap), Budgets())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2}, object(), b"x", {1}], ids=named)
def test_check_size_refuses_what_is_not_json(value: Any) -> None:
    with pytest.raises(RefusedToolError, match=r"not JSON|not a string"):
        check_size({"x": value}, Budgets())


def test_check_schema_limits_the_properties() -> None:
    schema = {"properties": {"a": {"properties": {str(i): {} for i in range(9)}}}}
    check_schema(schema, Budgets(properties=10))
    with pytest.raises(RefusedToolError, match="more than 9 properties"):
        check_schema(schema, Budgets(properties=9))


def test_check_schema_limits_the_subschemas() -> None:
    schema = {"properties": {str(i): {} for i in range(9)}}
    check_schema(schema, Budgets(nodes=10))
    with pytest.raises(RefusedToolError, match="more than 9 schemas"):
        check_schema(schema, Budgets(nodes=9))


@pytest.mark.parametrize("value", ["5", None, -1, True, float("nan")], ids=repr)
@pytest.mark.parametrize("name", ["connect", "tools"])
def test_a_limit_is_a_number_of_at_least_zero(name: str, value: Any) -> None:
    with pytest.raises(DefinitionError, match=f"`{name}` of Limits is a number of at least 0, not"):
        Limits(**{name: value})
    assert vars(Limits(**{name: 0}))[name] == 0
