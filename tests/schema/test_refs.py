"""References: pointers, cycles, and the definitions that a schema still uses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_a_definition_between_two_cycles_is_not_cyclic():
    definitions = {
        "A": {"items": {"$ref": "#/$defs/A"}, "not": {"$ref": "#/$defs/B"}},
        "B": {"items": {"$ref": "#/$defs/C"}},
        "C": {"items": {"$ref": "#/$defs/D"}},
        "D": {"items": {"$ref": "#/$defs/C"}, "not": {"$ref": "#/$defs/none"}},
    }
    assert find_cyclic_refs({"$ref": "#/$defs/A", "$defs": definitions}) == {f"#/$defs/{name}" for name in "ACD"}


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=14))
def test_a_reference_is_cyclic_exactly_if_a_path_leads_back_to_it(edges):
    paths = set(edges)
    while longer := {(a, d) for a, b in paths for c, d in paths if b == c} - paths:
        paths |= longer
    definitions = {str(i): {"anyOf": [{"$ref": f"#/$defs/{b}"} for a, b in edges if a == i]} for i in range(7)}
    assert find_cyclic_refs({"$defs": definitions}) == {f"#/$defs/{a}" for a, b in paths if a == b}


@pytest.mark.parametrize("end", [{}, {"$ref": "#/$defs/0"}], ids=["chain", "circle"])
def test_cyclic_references_of_a_long_chain_are_found(end):
    """The chain is longer than Python's stack, and a quadratic search would exceed the time limit of a test."""
    count = 20_000
    definitions: dict[str, Any] = {str(i): {"not": {"$ref": f"#/$defs/{i + 1}"}} for i in range(count)}
    definitions[str(count)] = {"not": end}
    assert len(find_cyclic_refs({"$defs": definitions})) == (count + 1 if end else 0)


def test_removed_properties_take_their_definitions_with_them():
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/B"}},
        "required": ["a"],
        "$defs": {"A": {"items": {"$ref": "#/$defs/C"}}, "B": {}, "C": {}},
    }
    assert without_properties(schema, ["a"]) == {"properties": {"b": {"$ref": "#/$defs/B"}}, "$defs": {"B": {}}}
