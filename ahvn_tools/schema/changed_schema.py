"""An input schema with changed arguments: renamed wherever the schema names them, described, with other defaults."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from ahvn_tools.errors import DefinitionError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.argument_changes import ArgumentChanges, change_property
from ahvn_tools.schema.keywords import iter_schemas

_LISTS_OF_SCHEMAS = ("allOf", "anyOf", "oneOf")
_SCHEMAS = ("not", "if", "then", "else")
_UNNAMED_KEYWORDS = ("$ref", "$dynamicRef", "patternProperties", "propertyNames")
"""Keywords of an object that may apply to a property without its name."""
_POINTER_PREFIX = "#/properties/"


def change_schema(schema: Mapping[str, Any], changes: ArgumentChanges) -> JsonObject:
    """Return a changed copy. Raises DefinitionError for an argument that it does not have or that cannot be renamed."""
    changed: JsonObject = copy.deepcopy(dict(schema))
    renames = changes.renames(changed.get("properties", {}).keys())
    if renames:
        for node in _iter_in_place(changed):
            _rename_properties(node, renames)
        _rename_pointers(changed, renames)
    required = set(changed.get("required", ()))
    for name, change in changes.by_new_name().items():
        changed["properties"][name] = change_property(changed["properties"][name], change)
        required = required | {name} if change.get("required") else required
        if "default" in change and not change.get("hide"):
            required -= {name}
    if required or "required" in changed:
        known = [name for name in changed.get("required", ()) if name in required]
        changed["required"] = [*known, *sorted(required - set(known))]
    return changed


def _iter_in_place(schema: JsonObject) -> Iterator[JsonObject]:
    """Yield the schemas that apply to the arguments as a whole. Their children are found after the yield."""
    pending: list[Any] = [schema]
    while pending:
        node = pending.pop()
        if not isinstance(node, dict):
            continue
        yield node
        pending.extend(item for key in _LISTS_OF_SCHEMAS for item in node.get(key, ()))
        pending.extend(node[key] for key in _SCHEMAS if key in node)
        pending.extend(node.get("dependentSchemas", {}).values())
        pending.extend(item for item in node.get("dependencies", {}).values() if isinstance(item, dict))


def _rename_properties(node: JsonObject, renames: Mapping[str, str]) -> None:
    for keyword in _UNNAMED_KEYWORDS:
        if keyword in node:
            raise DefinitionError(
                f"The argument {next(iter(renames))!r} cannot be renamed: the input schema has {keyword!r} beside it."
            )
    for key in ("properties", "dependentSchemas", "dependentRequired", "dependencies"):
        if key in node:
            node[key] = {renames.get(name, name): _rename_list(item, renames) for name, item in node[key].items()}
    if "required" in node:
        node["required"] = _rename_list(node["required"], renames)


def _rename_list(names: Any, renames: Mapping[str, str]) -> Any:
    return [renames.get(name, name) for name in names] if isinstance(names, list) else names


def _rename_pointers(schema: JsonObject, renames: Mapping[str, str]) -> None:
    """Change references to the schemas of renamed properties."""
    for node in iter_schemas(schema):
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.startswith(_POINTER_PREFIX):
            name, slash, rest = reference.removeprefix(_POINTER_PREFIX).partition("/")
            new_name = renames.get(name.replace("~1", "/").replace("~0", "~"))
            if new_name is not None:
                escaped = new_name.replace("~", "~0").replace("/", "~1")
                node["$ref"] = f"{_POINTER_PREFIX}{escaped}{slash}{rest}"
