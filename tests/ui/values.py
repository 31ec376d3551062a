"""Values for a JSON Schema: most of them fit, some are odd on purpose."""

from __future__ import annotations

import random
from typing import Any

ODD: tuple[Any, ...] = (
    None,
    "",
    "0",
    0,
    -1.5,
    True,
    [],
    {},
    {"": None, "a/b~c": [1]},
    "two\nlines",
    " ",
    "ü😀",
    "\r\x00",
)
TEXTS = ("", "a", "word", "two\nlines", "12", "true", "ü😀 {}", " padded ", "2024-02-29")
MAX_DEPTH = 5


def make_value(schema: Any, root: dict[str, Any], chance: random.Random, depth: int = 0) -> Any:
    """Return a value that the schema describes; about one of ten is something else."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH or chance.random() < 0.08:
        return chance.choice(ODD)
    if "$ref" in schema:
        target: Any = root
        for step in schema["$ref"].split("/")[1:]:
            target = target[step.replace("~1", "/").replace("~0", "~")]
        return make_value(target, root, chance, depth + 1)
    for keyword in ("anyOf", "oneOf"):
        if schema.get(keyword):
            return make_value(chance.choice(schema[keyword]), root, chance, depth + 1)
    if schema.get("enum"):
        return chance.choice(schema["enum"])
    if "const" in schema:
        return schema["const"]
    kinds = schema.get("type", "object" if "properties" in schema else "")
    kind = chance.choice(kinds) if isinstance(kinds, list) else kinds
    if kind == "object":
        return _make_object(schema, root, chance, depth)
    if kind == "array":
        items = schema.get("items", {})
        return [make_value(items, root, chance, depth + 1) for _ in range(chance.choice((0, 1, 3)))]
    made = {
        "string": chance.choice(TEXTS),
        "integer": chance.randint(-9, 10**9),
        "number": chance.choice((0, -1, 2.5, 1e21)),
        "boolean": chance.random() < 0.5,
        "null": None,
    }
    return made.get(kind, chance.choice(ODD))


def _make_object(schema: dict[str, Any], root: dict[str, Any], chance: random.Random, depth: int) -> dict[str, Any]:
    required = schema.get("required", ())
    made = {
        name: make_value(inner, root, chance, depth + 1)
        for name, inner in schema.get("properties", {}).items()
        if name in required or chance.random() < 0.5
    }
    if schema.get("additionalProperties") is not False and chance.random() < 0.3:
        made["another/one~"] = make_value(schema.get("additionalProperties", {}), root, chance, depth + 1)
    return made
