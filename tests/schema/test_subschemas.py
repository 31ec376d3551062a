"""Subschemas by the path of a value: through references, unions, tuples and free objects."""

from __future__ import annotations

import pytest

from ahvn_tools.schema.subschemas import SubschemaFinder, schema_texts

TEXT = {"type": "string"}


@pytest.mark.parametrize("reference", ["#/$defs/a~1b", "#/$defs/a%2Fb", "#/$defs/list/anyOf/0"])
def test_references_are_followed_however_they_are_encoded(reference):
    schema = {"properties": {"x": {"$ref": reference}}, "$defs": {"a/b": TEXT, "list": {"anyOf": [TEXT]}}}
    assert TEXT in SubschemaFinder(schema).find_subschemas(["x"])


@pytest.mark.parametrize("reference", ["#anchor", "other.json#/$defs/a", "#/$defs/none"])
def test_a_reference_that_leads_nowhere_adds_no_subschema(reference):
    schema = {"properties": {"x": {"$ref": reference}}}
    assert SubschemaFinder(schema).find_subschemas(["x"]) == [{"$ref": reference}]


def test_tuples_and_free_objects_have_subschemas_for_the_rest():
    schema = {"prefixItems": [TEXT], "items": {"additionalProperties": TEXT}}
    finder = SubschemaFinder(schema)
    assert finder.find_subschemas([0]) == [TEXT]
    assert finder.find_subschemas([4, "any"]) == [TEXT]
    assert finder.find_nullability((4, "any"))[0] is False


def test_the_texts_of_a_schema_are_its_names_and_descriptions() -> None:
    inner = {"properties": {"b": {"description": "About b."}}}
    schema = {"properties": {"a": {"items": inner, "description": "About a."}, "c": {"description": 1}}}
    assert sorted(schema_texts(schema)) == ["About a.", "About b.", "a", "b", "c"]
