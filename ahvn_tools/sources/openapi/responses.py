"""The output schema of an operation: that of its JSON responses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.keywords import WRAP_RESULT_KEY
from ahvn_tools.sources.openapi.document import Node
from ahvn_tools.sources.openapi.media_types import is_json
from ahvn_tools.sources.openapi.schemas import SchemaConverter

_SUCCESS: Final = re.compile(r"2(\d\d|XX)", re.IGNORECASE)


def read_output_schema(operation: Node, converter: SchemaConverter) -> JsonObject | None:
    """Return the schema of what a successful request returns; None if its responses have several schemas or none.

    A value that is no object is in the property `result`. Raises DocumentError for what is no schema.
    """
    responses = operation.get("responses")
    if responses is None:
        return None
    found = [_read_response(response.resolve(), converter) for _, response in _successes(responses)]
    if not found or found[0][0] is None:
        return None
    if len(found) > 1 and len({json.dumps(schema, sort_keys=True) for schema, _ in found}) > 1:
        return None
    schema, description = found[0]
    return _to_object(schema, description, converter)


def _successes(responses: Node) -> Iterator[tuple[str, Node]]:
    for status, response in responses.members():
        if _SUCCESS.fullmatch(status):
            yield status, response


def _read_response(response: Node, converter: SchemaConverter) -> tuple[Any, str]:
    """Return the converted schema of the JSON content, or None, and the description."""
    description = response.read("description", str, "")
    content = response.get("content")
    media_types = [] if content is None else [item for name, item in content.members() if is_json(name)]
    if not media_types:
        return None, description
    media_type = media_types[0].resolve().require_node(dict)
    if "schema" not in media_type.value:
        return None, description
    return converter.convert(media_type.child("schema")), description


def _to_object(schema: Any, description: str, converter: SchemaConverter) -> JsonObject | None:
    if schema in (True, {}):
        return None
    root = converter.merge(schema)
    types = root.get("type") if isinstance(root, dict) else None
    is_object = types in ("object", ["object"]) and "$ref" not in root
    texts = {"description": description} if description.strip() else {}
    if is_object:
        whole = {**texts, **root, "type": "object"}
    else:
        whole = {
            "type": "object",
            "properties": {"result": schema},
            "required": ["result"],
            WRAP_RESULT_KEY: True,
            **texts,
        }
    definitions = converter.definitions_of(whole)
    return {**whole, "$defs": definitions} if definitions else whole
