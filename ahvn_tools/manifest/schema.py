"""The JSON Schema of a manifest, with which editors complete and check it.

`python -m ahvn_tools.manifest.schema` writes the file that is installed with the package again; with the path of
another file, that one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.manifest.middleware_table import ITEM_TITLE, MIDDLEWARE
from ahvn_tools.manifest.model import Manifest

SCHEMA_FILE: Final = Path(__file__).with_name("schema.json")
"""The schema as it is installed."""

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_VARIABLE: Final = "Variable"

_VARIABLE_SCHEMA: Final = {
    "type": "string",
    "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:[^{}]*)?\}",
    "description": "A variable of the environment: ${NAME}, or ${NAME:default}.",
}

_IMPORT_PATH: Final = {
    "type": "string",
    "pattern": "^[^:]+:.+$",
    "description": "The import path of a middleware of your own: module:name.",
}

_MIDDLEWARE: Final = "Middleware"

_LISTS_OF_SCHEMAS: Final = ("anyOf", "oneOf")
_MAPPINGS_OF_SCHEMAS: Final = ("properties", "$defs")
_SCHEMAS: Final = ("items", "additionalProperties")

Change = Callable[[JsonObject], JsonObject]


def json_schema() -> JsonObject:
    """Return the JSON Schema of a manifest. It is in the package, too: `ahvn_tools/manifest/schema.json`."""
    schema: JsonObject = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    return schema


def build_json_schema() -> JsonObject:
    """Return the JSON Schema of the models, with middleware by name, variables, and null in profiles."""
    schema = Manifest.model_json_schema()
    schema["$defs"][_MIDDLEWARE] = _middleware_schema()
    for part in ("Profile", "Overlay"):
        schema["$defs"][part] = _or_null(schema["$defs"][part])
    schema = _change_all(_change_all(schema, _simplify), _or_variable)
    schema["$defs"][_VARIABLE] = _VARIABLE_SCHEMA
    schema["$defs"] = dict(sorted(schema["$defs"].items()))
    return {"$schema": _DIALECT, **schema, "title": "A manifest of ahvn_tools"}


def _middleware_schema() -> JsonObject:
    """Return the schema of an item: a name, or one name with its options."""
    options = {name: _middleware_options(model.model_json_schema()) for name, model in MIDDLEWARE.items()}
    own = {"anyOf": [{"type": "object"}, {"type": "null"}]}
    with_options = {
        "type": "object",
        "properties": options,
        "patternProperties": {_IMPORT_PATH["pattern"]: own},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
    texts = {name: model.__doc__ for name, model in MIDDLEWARE.items()}
    names = [{"const": name, "description": text} for name, text in texts.items()]
    return {"anyOf": [*names, _IMPORT_PATH, with_options]}


def _middleware_options(schema: JsonObject) -> JsonObject:
    return {"anyOf": [schema, {"type": "null"}], "description": schema["description"]}


def _or_null(part: JsonObject) -> JsonObject:
    """Return the schema of a profile or an audience, in which null removes a key."""

    def nullable(schema: JsonObject) -> JsonObject:
        inner = schema.get("additionalProperties")
        if isinstance(inner, dict) and inner:
            schema = {**schema, "additionalProperties": {"anyOf": [inner, {"type": "null"}]}}
        bare, texts = _split_texts(schema)
        return {"anyOf": [bare, {"type": "null"}], **texts}

    return {**part, "properties": {name: nullable(schema) for name, schema in part["properties"].items()}}


def _change_all(schema: JsonObject, change: Change) -> JsonObject:
    """Return a schema in which each schema inside, then the schema itself, is changed."""
    changed = dict(schema)
    for key in _MAPPINGS_OF_SCHEMAS:
        if key in schema:
            changed[key] = {name: _change_all(inner, change) for name, inner in schema[key].items()}
    for key in _LISTS_OF_SCHEMAS:
        if key in schema:
            changed[key] = [_change_all(inner, change) for inner in schema[key]]
    for key in _SCHEMAS:
        if isinstance(schema.get(key), dict):
            changed[key] = _change_all(schema[key], change)
    return change(changed)


def _simplify(schema: JsonObject) -> JsonObject:
    """Return a schema without titles and null defaults, and with one list of alternatives."""
    if schema.get("title") == ITEM_TITLE:
        return {"$ref": f"#/$defs/{_MIDDLEWARE}"}
    kept = {key: value for key, value in schema.items() if key != "title" and not (key == "default" and value is None)}
    alternatives: list[JsonObject] = []
    for inner in kept.get("anyOf", ()):
        alternatives += inner["anyOf"] if inner.keys() == {"anyOf"} else [inner]
    return {**kept, "anyOf": alternatives} if alternatives else kept


def _or_variable(schema: JsonObject) -> JsonObject:
    """Return a schema in which a variable may be written for a number, a boolean or a choice."""
    if not (schema.get("type") in {"boolean", "integer", "number"} or "enum" in schema):
        return schema
    bare, texts = _split_texts(schema)
    return {"anyOf": [bare, {"$ref": f"#/$defs/{_VARIABLE}"}], **texts}


def _split_texts(schema: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Return a schema without its description and default, and these."""
    texts = {key: value for key, value in schema.items() if key in {"description", "default"}}
    return {key: value for key, value in schema.items() if key not in texts}, texts


def to_text(schema: JsonObject) -> str:
    """Return the text of the file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else SCHEMA_FILE).write_text(to_text(build_json_schema()), encoding="utf-8")
