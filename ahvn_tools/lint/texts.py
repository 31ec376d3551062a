"""All texts of a definition that a model may read, and where each is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.schema.keywords import join_path

_FIELDS = ("name", "title", "description", "returns", "usage")
_JSON_FIELDS = ("annotations", "examples", "meta", "icons")


def iter_texts(definition: ToolDefinition) -> Iterator[tuple[str, str]]:
    """Yield each text of a definition after its place: names, descriptions and literal values.

    The place of a text of the input schema is the path of the parameter, as in the findings of the formats.
    """
    for field in _FIELDS:
        if text := getattr(definition, field):
            yield field, text
    for tag in sorted(definition.tags):
        yield "tags", tag
    yield from _iter_nested_texts("", definition.input_schema)
    yield from _iter_nested_texts("output", definition.output_schema)
    for field in _JSON_FIELDS:
        yield from _iter_nested_texts(field, getattr(definition, field))


def _iter_nested_texts(place: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts in a JSON value, in order; what `properties` contains has the path of the property."""
    pending = [(place, value)]
    while pending:
        place, node = pending.pop()
        if isinstance(node, str):
            yield place, node
        elif isinstance(node, list):
            pending.extend((place, item) for item in reversed(node))
        elif isinstance(node, dict):
            pending.extend(reversed([part for key, child in node.items() for part in _split(place, key, child)]))


def _split(place: str, key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a member of an object, each with its place."""
    if key == "properties" and isinstance(value, dict):
        for name, child in value.items():
            yield join_path(place, name), name
            yield join_path(place, name), child
    elif key == "items":
        yield f"{place}[]", value
    else:
        yield "$defs" if key == "$defs" else place, value
