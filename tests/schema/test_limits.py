"""The size of a schema and the cost of a validation are known before it starts, however large they are."""

from __future__ import annotations

import json

import pytest

from ahvn_tools.errors import DefinitionError, InvalidResultError
from ahvn_tools.mcp.client.remote_results import ResultParser
from ahvn_tools.schema.limits import RefGraph, ValidationCost
from tests.clocks import cpu_limit
from tests.mcp.client.test_remote_results import said

CHOICES = [{"const": number} for number in range(1000)]
MAX_COUNT = 20_000
LISTED = {"enum": [[number] for number in range(1000)]}


def bomb(levels, keyword="allOf"):
    steps = {f"d{i}": {keyword: [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**steps, f"d{levels}": {"type": "object"}}}


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("levels", [30, 300])
def test_an_exponential_schema_is_counted_without_walking_it(keyword, levels):
    with cpu_limit():
        assert RefGraph(bomb(levels, keyword)).count_schemas(MAX_COUNT) == MAX_COUNT + 1


def test_a_schema_counts_once_for_each_path_to_it():
    text = {"type": "string"}
    assert RefGraph({}).count_schemas(MAX_COUNT) == 1
    assert RefGraph({"properties": {"a": text, "b": {"items": text}}}).count_schemas(MAX_COUNT) == 4
    shared = {"properties": {"a": {"$ref": "#/$defs/t"}, "b": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"items": text}}}
    assert RefGraph(shared).count_schemas(MAX_COUNT) == 1 + 2 * (1 + 1 + 1)


def test_an_unused_definition_does_not_count():
    assert RefGraph({"$defs": {"a": {"items": {}}}}).count_schemas(MAX_COUNT) == 1


def test_literal_data_is_not_a_schema():
    assert RefGraph({"default": {"$ref": "http://x/y"}, "enum": [{"$ref": "#/nowhere"}]}).count_schemas(MAX_COUNT) == 1


def test_a_recursive_schema_has_a_finite_count():
    tree = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
    assert RefGraph(tree).count_schemas(MAX_COUNT) < 10


def test_a_schema_is_recursive_if_a_subschema_refers_back():
    assert RefGraph({"items": {"$ref": "#"}}).is_recursive
    assert not RefGraph({"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {}}}).is_recursive


def test_each_declared_property_is_counted_once_at_any_depth():
    inner = {"properties": {"a": {}, "b": {}}}
    schema = {"properties": {"x": {"$ref": "#/$defs/i"}, "y": {"$ref": "#/$defs/i"}}, "$defs": {"i": inner}}
    assert RefGraph(schema).property_count == 4


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"properties": {"a": {"not": {"$ref": "#/properties/a"}}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"if": {"$ref": "#/$defs/a"}}}},
    ],
)
def test_a_circular_reference_for_one_value_is_refused(schema):
    with pytest.raises(DefinitionError, match="without going deeper"):
        RefGraph(schema)


@pytest.mark.parametrize(
    "reference",
    ["http://127.0.0.1/x", "https://json-schema.org/draft/2020-12/schema", "other.json", "file:///etc/passwd", "//x"],
)
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_a_reference_out_of_the_schema_is_refused(reference, keyword):
    with pytest.raises(DefinitionError, match="nothing is fetched"):
        RefGraph({"properties": {"a": {keyword: reference}}})
    with pytest.raises(DefinitionError, match="nothing is fetched"):
        RefGraph({"$defs": {"unused": {"items": {keyword: reference}}}})


@pytest.mark.parametrize("reference", ["#/$defs/b", "#b", "#/required", "#/required/0", "#/allOf/9", "#/allOf/x"])
def test_a_reference_without_a_target_is_refused(reference):
    with pytest.raises(DefinitionError, match="where no schema is"):
        RefGraph({"required": ["a"], "allOf": [{}], "properties": {"a": {"$ref": reference}}})


def test_a_subschema_with_its_own_id_is_refused():
    """The `$id` would change what its references lead to."""
    with pytest.raises(DefinitionError, match=r"\$id"):
        RefGraph({"$defs": {"a": {"$id": "http://x/y", "$ref": "#/$defs/b"}, "b": {}}})
    assert (
        RefGraph({"$id": "http://x/y", "properties": {"a": {"$id": "#a"}, "b": {"$ref": "#a"}}}).count_schemas(
            MAX_COUNT
        )
        == 4
    )


def test_references_by_pointer_and_anchor_are_resolved():
    schema = {
        "properties": {
            "a": {"$ref": "#/$defs/odd~1na~0me%20"},
            "b": {"$ref": "#there"},
            "c": {"$ref": "#/prefixItems/0"},
            "d": {"$ref": "#/$defs/yes"},
            "e": {"$dynamicRef": "#here"},
        },
        "prefixItems": [{"$dynamicAnchor": "here"}],
        "$defs": {"odd/na~me ": {"$anchor": "there"}, "yes": True},
    }
    assert RefGraph(schema).count_schemas(MAX_COUNT) == 1 + 2 + 2 + 2 + 1 + 2 + 1
    assert RefGraph(schema).resolve_ref("#/$defs/yes") is True


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
    with cpu_limit():
        assert ValidationCost(twice).exceeds_limit(value, json.dumps(value))


def test_an_exponential_schema_exceeds_the_limit_for_any_value():
    assert ValidationCost(bomb(60)).exceeds_limit({}, "{}")


def test_a_reference_without_a_target_is_an_error():
    with pytest.raises(DefinitionError):
        ValidationCost({"$ref": "#/no"})


def test_a_result_that_takes_seconds_to_check_is_refused_at_once():
    schema = {"type": "object", "properties": {"a": {"items": {"anyOf": CHOICES}}}}
    parser = ResultParser("pick", schema)
    result = said(structured_content={"a": [999] * 50_000})
    with cpu_limit(), pytest.raises(InvalidResultError, match="too long to check"):
        parser.parse(result)


def test_a_large_result_of_a_usual_schema_is_accepted():
    row = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "t": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    }
    schema = {"type": "object", "properties": {"rows": {"type": "array", "items": row}}}
    rows = [{"n": number, "t": None} for number in range(50_000)]
    assert ResultParser("rows", schema).parse(said(structured_content={"rows": rows})).value == rows
