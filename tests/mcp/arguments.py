"""Random arguments from a JSON Schema: valid ones, and ones with one error."""

from __future__ import annotations

import copy
import string
from random import Random
from typing import Any

JsonObject = dict[str, Any]

ODD_TEXTS = ("", " ", "0", "null", "true", "ünïcödé ✓", "a" * 300, "../../etc/passwd", "x\ny", '{"a": 1}', "[1]", "-x")
ODD_VALUES: tuple[Any, ...] = (None, True, 0, -1, 1.0, 2**53 + 1, 1e300, "", "7", [], [None], {}, {"a": {"b": []}})


def fitting(schema: JsonObject, random: Random, root: JsonObject | None = None) -> Any:
    """Return a valid value, for the most common keywords of tools' schemas."""
    root = schema if root is None else root
    if "$ref" in schema:
        return fitting(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], random, root)
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return fitting(random.choice(schema[choice]), random, root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return random.choice(schema["enum"])
    kind = schema.get("type", "string")
    return _MAKERS[random.choice(kind) if isinstance(kind, list) else kind](schema, random, root)


def _object(schema: JsonObject, random: Random, root: JsonObject) -> JsonObject:
    required = schema.get("required", ())
    return {
        name: fitting(node, random, root)
        for name, node in schema.get("properties", {}).items()
        if name in required or random.random() < 0.5
    }


def _array(schema: JsonObject, random: Random, root: JsonObject) -> list[Any]:
    least = schema.get("minItems", 0)
    most = schema.get("maxItems", least + 3)
    return [fitting(schema.get("items", {}), random, root) for _ in range(random.randint(least, most))]


def _number(schema: JsonObject, random: Random, _root: JsonObject) -> float:
    whole = _integer(schema, random, _root)
    return whole if random.random() < 0.5 or "maximum" in schema else whole + 0.5


def _integer(schema: JsonObject, random: Random, _root: JsonObject) -> int:
    least = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
    most = schema.get("maximum", schema.get("exclusiveMaximum", least + 100) - 1)
    return random.randint(int(least), int(most))


def _text(schema: JsonObject, random: Random, _root: JsonObject) -> str:
    if schema.get("format") == "uri":
        return "http://127.0.0.1:9/"
    made = random.choice(ODD_TEXTS) if random.random() < 0.5 else "".join(random.choices(string.printable, k=12))
    least, most = schema.get("minLength", 0), schema.get("maxLength", 300)
    return made.ljust(least, "x")[:most]


_MAKERS: dict[str, Any] = {
    "object": _object,
    "array": _array,
    "number": _number,
    "integer": _integer,
    "string": _text,
    "boolean": lambda _schema, random, _root: random.random() < 0.5,
    "null": lambda _schema, _random, _root: None,
}


def spoilt(arguments: JsonObject, schema: JsonObject, random: Random) -> JsonObject:
    """Return the arguments with one change: a member removed, added, or of another type."""
    made = copy.deepcopy(arguments)
    names = list(schema.get("properties", {}))
    way = random.choice(("lose", "add", "change", "change", "deep"))
    if way == "add" or not names:
        made[random.choice(("unknown", "__proto__", "self", "from", "_meta"))] = random.choice(ODD_VALUES)
        return made
    name = random.choice(names)
    if way == "lose":
        made.pop(name, None)
    elif way == "deep" and isinstance(made.get(name), list) and made[name]:
        made[name][0] = random.choice(ODD_VALUES)
    else:
        made[name] = random.choice(ODD_VALUES)
    return made
