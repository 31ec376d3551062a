"""The size of a schema with its references expanded is counted quickly, however large it is."""

from __future__ import annotations

import time

import pytest

from ahvn_tools.errors import DefinitionError
from ahvn_tools.schema.ref_graph import RefGraph

MAX_COUNT = 20_000


def bomb(levels, keyword="allOf"):
    steps = {f"d{i}": {keyword: [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**steps, f"d{levels}": {"type": "object"}}}


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("levels", [30, 300])
def test_an_exponential_schema_is_counted_without_walking_it(keyword, levels):
    start = time.perf_counter()
    assert RefGraph(bomb(levels, keyword)).count_schemas(MAX_COUNT) == MAX_COUNT + 1
    assert time.perf_counter() - start < 0.5


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
