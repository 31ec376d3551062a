"""Core schemas that accept what their JSON Schemas say: arguments are JSON, also for a type that is strict or no JSON.

Pydantic's strict types accept JSON text but no Python values with the same content, its literals and enums compare
with the Python values of their members, and its aliases may be paths, which a JSON Schema cannot name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

from pydantic_core import PydanticSerializationError, core_schema, to_jsonable_python

from ahvn_tools.schema.keywords import JSON_TYPES

NO_TAG: Final = "no_tag"
"""The error type of a union of which no alternative has the tag of the value."""

_JSON_SCALARS: Final = frozenset(JSON_TYPES.keys() - {dict, list})
_STRICT_ABOUT_PYTHON: Final = frozenset({
    "bytes", "complex", "dataclass", "date", "datetime", "decimal", "enum", "frozenset", "lax-or-strict", "model",
    "multi-host-url", "set", "tagged-union", "time", "timedelta", "tuple", "union", "url", "uuid",
})  # fmt: skip
"""Types that refuse, if they are strict, the Python value of JSON that they accept; or whose alternatives do."""
_KEY_TYPES: Final = frozenset({"bool", "float", "int", *_STRICT_ABOUT_PYTHON})
"""Types that refuse, if they are strict, the key of a JSON object, which is a text."""


def accept_json(node: Any, *, is_strict: bool) -> Any:
    """Return a core schema, changed in place, that accepts JSON; `is_strict` as the config around it says."""
    kind = node["type"]
    if (is_strict or node.get("strict")) and kind in _STRICT_ABOUT_PYTHON:
        node["strict"] = False
    if kind == "literal":
        return _accept_json_of_members(node, [(member, member) for member in node["expected"]], "literal_error")
    if kind == "enum":
        return _accept_json_of_members(node, [(member, member.value) for member in node["members"]], "enum")
    if kind == "tagged-union":
        _accept_json_tags(node)
    elif kind == "dict" and "keys_schema" in node:
        keys = node["keys_schema"]
        if (is_strict or keys.get("strict")) and keys["type"] in _KEY_TYPES:
            node["keys_schema"] = {**keys, "strict": False}
    else:
        _accept_names(node)
    return node


def _accept_names(node: Any) -> None:
    """Accept, in place, the names that the JSON Schema has for fields and parameters with several aliases, or paths."""
    if node["type"] in ("model-fields", "typed-dict"):
        for name, field in node["fields"].items():
            _accept_name(field, name)
    elif node["type"] == "dataclass-args":
        for field in node["fields"]:
            _accept_name(field, field["name"])
    elif node["type"] == "arguments":
        for field in node["arguments_schema"]:
            if isinstance(field.get("alias"), list):  # the schema has the name of the parameter, whatever the paths are
                field["alias"] = [*_to_paths(field["alias"]), [field["name"]]]


def list_choices(values: Iterable[Any]) -> str:
    """Return JSON values in words: `'a', 'b' or 3`."""
    texts = [repr(value) if isinstance(value, str) else json.dumps(value) for value in values]
    return " or ".join([part for part in (", ".join(texts[:-1]), texts[-1]) if part])


def _accept_json_of_members(node: Any, members: list[tuple[Any, Any]], error_type: str) -> Any:
    """Return a literal or an enum that accepts the JSON of each member, too, if that is not the member's own value."""
    if all(type(value) in _JSON_SCALARS for _, value in members):
        return node
    forms = []
    for member, value in members:
        try:
            forms.append((_to_key(form := to_jsonable_python(value)), form, member))
        except (PydanticSerializationError, ValueError):
            return node  # it has no JSON Schema either, so its parameter is bound
    by_key = {key: member for key, _, member in forms}

    def to_member(value: Any) -> Any:
        try:
            return by_key.get(_to_key(value), value)
        except (TypeError, ValueError, RecursionError):  # no JSON: the member itself, or another mistake
            return value

    reference = {"ref": node.pop("ref")} if "ref" in node else {}
    return {
        "type": "custom-error",
        "schema": core_schema.no_info_before_validator_function(to_member, node),
        "custom_error_type": error_type,
        "custom_error_context": {"expected": list_choices(form for _, form, _ in forms)},
        **reference,
    }


def _to_key(value: Any) -> str:
    """Return a text that is the same for the same JSON."""
    return json.dumps(value, sort_keys=True)


def _accept_json_tags(node: Any) -> None:
    """Add, in place, the JSON of tags that are members of enums, and an error that names the tag and its values."""
    tags = [(tag.value if isinstance(tag, Enum) else tag, choice) for tag, choice in node["choices"].items()]
    node["choices"] = {**node["choices"], **dict(tags)}
    if "custom_error_type" not in node:
        place = _name_of_tag(node["discriminator"])
        values = list_choices(dict(tags))
        node["custom_error_type"] = NO_TAG
        node["custom_error_message"] = (
            f"Input has no known tag {place!r}; expected {values}"
            if place
            else f"Input matches none of the alternatives {values}"
        )


def _name_of_tag(discriminator: Any) -> str | None:
    """Return the property that is the tag; None if a function reads the tag."""
    while isinstance(discriminator, list):
        discriminator = discriminator[0]
    return discriminator if isinstance(discriminator, str) else None


def _accept_name(field: Any, name: str) -> None:
    """Accept, in place, the name of a field whose only aliases are paths into other values."""
    if isinstance(alias := field.get("validation_alias"), list) and all(len(path) > 1 for path in _to_paths(alias)):
        field["validation_alias"] = [*_to_paths(alias), [name]]


def _to_paths(alias: list[Any]) -> list[list[Any]]:
    return alias if all(isinstance(path, list) for path in alias) else [alias]
