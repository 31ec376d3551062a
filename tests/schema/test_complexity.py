"""The cost of a validation is known before it starts, so that one that would take hours is refused."""

from __future__ import annotations

import json
import time

import pytest

from ahvn_tools.errors import DefinitionError, InvalidResultError
from ahvn_tools.mcp.client.results import ResultParser
from ahvn_tools.schema.complexity import ValidationCost
from tests.mcp.client.test_results import said
from tests.schema.test_ref_graph import bomb

CHOICES = [{"const": number} for number in range(1000)]
LISTED = {"enum": [[number] for number in range(1000)]}


def count_steps(schema, value):
    """Return the number of steps of a check, found by bisection."""
    cost, text = ValidationCost(schema), json.dumps(value)
    low, high = 0, 10_000_000
    while low < high:
        middle = (low + high) // 2
        if cost.exceeds_limit(value, text, middle):
            low = middle + 1
        else:
            high = middle
    return low


def test_each_schema_is_one_step_for_each_part_of_the_value():
    items = {"items": {"anyOf": [{}, {}, {}]}}
    value = [0] * 10
    assert count_steps(items, value) == 1 + 10 * 4
    assert count_steps({"properties": {"a": items}}, {"a": value, "b": value}) == 1 + 1 + 10 * 4
    assert count_steps(items, "text, with [ marks {") == 1


@pytest.mark.parametrize(
    ("schema", "value", "steps"),
    [
        ({"additionalProperties": {"not": {}}}, {"a": 1, "b": 1}, 5),
        ({"properties": {"a": {}}, "additionalProperties": {"not": {}}}, {"a": 1, "b": 1}, 4),
        ({"properties": {"": {}}, "additionalProperties": {"not": {}}}, {"": 1, "b": 1}, 4),
        ({"patternProperties": {"a": {}, "b": {}}}, {"a": 1, "b": 1}, 1 + 2 * 2 + 2 * 2),
        ({"propertyNames": {}, "unevaluatedProperties": {}}, {"a": 1}, 3),
        ({"prefixItems": [{"not": {}}], "items": {}}, [1, 1, 1], 1 + 2 + 1 + 1),
        (
            {"items": [{"not": {}}], "additionalItems": {}, "$schema": "http://json-schema.org/draft-07/schema#"},
            [1] * 3,
            5,
        ),
        ({"allOf": [{"prefixItems": [{}, {"not": {}}]}, {}]}, [1, 1], 3 + 1 + 2),
        ({"contains": {}, "unevaluatedItems": {}}, [1, 1], 5),
        ({"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"allOf": [{}]}}}, [1], 1 + 3),
        ({"items": {"properties": {"a": LISTED}}}, [{"a": [5]}], 1 + 1 + 1001),
        ({"items": {"enum": [1, 2, 3]}}, [1], 2),
        ({}, {"a": [1] * 100}, 1),
        ({"allOf": [{"items": {}}, {"items": {}}]}, [1], 3 + 2),
        ({"anyOf": [{"$ref": "#/$defs/a"}] * 2, "$defs": {"a": {"items": {}}}}, [1], 1 + 4 + 2),
    ],
)
def test_every_applicator_is_counted(schema, value, steps):
    assert count_steps(schema, value) == steps


def test_a_recursive_schema_is_counted_to_the_depth_of_the_value():
    twice = {"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
    value: dict = {}
    for _ in range(5):
        value = {"a": value}
    assert count_steps(twice, value) > 100
    for _ in range(60):
        value = {"a": value}
    start = time.perf_counter()
    assert ValidationCost(twice).exceeds_limit(value, json.dumps(value))
    assert time.perf_counter() - start < 0.5


def test_an_exponential_schema_exceeds_the_limit_for_any_value():
    assert ValidationCost(bomb(60)).exceeds_limit({}, "{}")


def test_a_reference_without_a_target_is_an_error():
    with pytest.raises(DefinitionError):
        ValidationCost({"$ref": "#/no"})


def test_a_result_that_takes_seconds_to_check_is_refused_at_once():
    schema = {"type": "object", "properties": {"a": {"items": {"anyOf": CHOICES}}}}
    parser = ResultParser("pick", schema)
    result = said(structured_content={"a": [999] * 50_000})
    start = time.perf_counter()
    with pytest.raises(InvalidResultError, match="too long to check"):
        parser.parse(result)
    assert time.perf_counter() - start < 1


def test_a_large_result_of_a_usual_schema_is_accepted():
    row = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "t": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    }
    schema = {"type": "object", "properties": {"rows": {"type": "array", "items": row}}}
    rows = [{"n": number, "t": None} for number in range(50_000)]
    assert ResultParser("rows", schema).parse(said(structured_content={"rows": rows})).value == rows
