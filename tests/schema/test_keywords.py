"""Plain schemas: without titles, `additionalProperties` and empty `required`, and otherwise unchanged."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools import ToolSpec
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.schema.keywords import iter_objects, to_plain
from tests.formats.awkward_schemas import CASES

BOOK = {
    "title": "Book",
    "type": "object",
    "properties": {
        "title": {"title": "Title", "type": "string", "default": "title"},
        "additionalProperties": {"type": "object", "additionalProperties": {"type": "integer", "title": "Count"}},
        "required": {"type": "array", "items": {"$ref": "#/$defs/Part"}, "default": [{"title": "x", "required": []}]},
    },
    "required": ["title"],
    "additionalProperties": False,
    "$defs": {
        "Part": {
            "title": "Part",
            "anyOf": [
                {"type": "object", "title": "A", "required": [], "additionalProperties": True},
                {"const": {"title": 1}},
            ],
            "enum": [{"title": 1, "additionalProperties": False}],
        }
    },
}
PLAIN_BOOK = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "default": "title"},
        "additionalProperties": {"type": "object"},
        "required": {"type": "array", "items": {"$ref": "#/$defs/Part"}, "default": [{"title": "x", "required": []}]},
    },
    "required": ["title"],
    "$defs": {
        "Part": {
            "anyOf": [{"type": "object"}, {"const": {"title": 1}}],
            "enum": [{"title": 1, "additionalProperties": False}],
        }
    },
}


def add(text: str, copies: int = 1) -> int:
    """Add it."""
    return copies


def test_a_plain_export_of_a_function():
    assert ToolSpec.from_function(add).to_jsonschema(plain=True, kind="note") == {
        "type": "function",
        "name": "add",
        "description": "Add it.",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "copies": {"type": "integer", "default": 1}},
            "required": ["text"],
        },
        "strict": False,
        "kind": "note",
    }


def test_a_bound_parameter_is_not_in_a_plain_export():
    spec = ToolSpec.from_function(add).bind("text", default="s3cret")
    assert spec.to_jsonschema(plain=True)["parameters"] == {
        "type": "object",
        "properties": {"copies": {"type": "integer", "default": 1}},
    }


def of_schema(schema: dict[str, Any]) -> ToolSpec:
    return ToolSpec.from_mcp(mcp_types.Tool(name="put", input_schema=schema))


def test_titles_and_the_like_are_left_out_at_any_depth_but_not_as_names_or_data():
    before = copy.deepcopy(BOOK)
    spec = of_schema(BOOK)
    assert spec.to_jsonschema(plain=True)["parameters"] == PLAIN_BOOK
    assert spec.input_schema == before == BOOK
    assert spec.to_jsonschema(strict=False, plain=True) == spec.to_jsonschema(plain=True)


def kept(schema: Any) -> Any:
    """Return a schema whose names and data are no keywords, with the three keywords left out everywhere."""
    if isinstance(schema, list):
        return [kept(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    is_left_out = {"title", "additionalProperties"}
    return {
        key: kept(value) for key, value in schema.items() if key not in is_left_out and (key, value) != ("required", [])
    }


def test_nothing_else_is_changed():
    for schema in CASES.values():
        assert to_plain(copy.deepcopy(schema)) == kept(schema)


def test_a_plain_strict_export_is_refused():
    with pytest.raises(ToolSpecError, match=r"needs additionalProperties: remove strict=True, or plain=True\."):
        ToolSpec.from_function(add).to_jsonschema(strict=True, plain=True)


def test_an_export_is_strict_unless_it_is_plain():
    spec = ToolSpec.from_function(add)
    assert spec.to_jsonschema() == spec.to_jsonschema(strict=True) == spec.to_jsonschema(plain=False)
    assert spec.to_jsonschema()["strict"] is True
    assert spec.to_jsonschema(plain=True)["strict"] is False


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from(["type", "default", "a", "b"]), inner, max_size=3)
    ),
    max_leaves=12,
)


def objects_in(value: Any, skipped: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Yield the objects in a value, as `iter_objects` is described."""
    if isinstance(value, dict):
        yield value
        is_typed = isinstance(value.get("type"), str)
        value = [part for key, part in value.items() if not (is_typed and key in skipped)]
    if isinstance(value, list | tuple):
        for part in value:
            yield from objects_in(part, skipped)


@given(NESTED, st.frozensets(st.sampled_from(["type", "default", "a"])))
def test_each_object_in_a_value_is_found_once_without_those_under_skipped_keys(
    value: Any, skipped: frozenset[str]
) -> None:
    found, expected = list(iter_objects(value, skipped)), list(objects_in(value, skipped))
    assert sorted(map(id, found)) == sorted(map(id, expected))
