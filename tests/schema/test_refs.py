"""References: pointers, cycles, and the definitions that a schema still uses."""

from __future__ import annotations

import pytest

from ahvn_tools.schema.refs import find_cyclic_refs, resolve_pointer, without_properties

SCHEMA = {"$defs": {"a/b": {"anyOf": [{"type": "string"}]}, "ü ~": {"type": "null"}, "": {"": 1}}}


@pytest.mark.parametrize(
    ("reference", "target"),
    [
        ("#", SCHEMA),
        ("#/$defs/a~1b/anyOf/0", {"type": "string"}),
        ("#/$defs/%C3%BC%20~0", {"type": "null"}),
        ("#/$defs//", 1),
        ("#/$defs/a~1b/anyOf/1", None),
        ("#/$defs/a~1b/anyOf/00", None),
        ("#/$defs/a~1b/anyOf/" + "9" * 5_000, None),
        ("#/$defs/a~1b/anyOf/-1", None),
        ("#/$defs/none/type", None),
        ("#anchor", None),
        ("other.json#/$defs", None),
    ],
    ids=lambda case: str(case)[:40],
)
def test_a_pointer_is_percent_decoded_and_may_index_lists(reference, target):
    assert resolve_pointer(SCHEMA, reference) == target


def test_only_references_that_lead_back_to_themselves_are_cyclic():
    definitions = {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {"items": {"$ref": "#/$defs/A"}}, "C": {"type": "null"}}
    assert find_cyclic_refs({"$ref": "#/$defs/A", "$defs": definitions}) == {"#/$defs/A", "#/$defs/B"}
    assert find_cyclic_refs({"items": {"$ref": "#"}}) == {"#"}
    assert find_cyclic_refs({"items": {"$ref": "#/$defs/C"}, "$defs": definitions | {"A": {}, "B": {}}}) == set()


def test_removed_properties_take_their_definitions_with_them():
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/B"}},
        "required": ["a"],
        "$defs": {"A": {"items": {"$ref": "#/$defs/C"}}, "B": {}, "C": {}},
    }
    assert without_properties(schema, ["a"]) == {"properties": {"b": {"$ref": "#/$defs/B"}}, "$defs": {"B": {}}}
