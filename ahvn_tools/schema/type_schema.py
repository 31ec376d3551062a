"""The JSON Schema of an object whose properties have given types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import PydanticUserError, TypeAdapter
from pydantic_core import SchemaError

from ahvn_tools.errors import DefinitionError, near_misses
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.titles import QuietSchemaGenerator, clean_schema

_NAMED_TYPES: dict[str, Any] = {
    "array": list, "bool": bool, "boolean": bool, "dict": dict, "float": float, "int": int, "integer": int,
    "list": list, "null": None, "None": None, "number": float, "object": dict, "str": str, "string": str,
}  # fmt: skip


def from_types(types: Mapping[str, Any], required: Collection[str] | Callable[..., Any] = ()) -> JsonObject:
    """Return the JSON Schema of an object with these properties, for `ToolSpec.from_schema`.

    A property has a type, or `(type, "description")`. A type is one of Python, the name of one of Python or JSON, a
    list of such names (one of these), a list of one type (an array) or a mapping such as `types` (an object). A type
    without a JSON form and an unknown name accept anything. No other property is allowed. `required` are names, or the
    function of the tool, whose parameters without a default they are. Raises DefinitionError for a required name
    without a type, and for names that are no texts.

    >>> from ahvn_tools import schema
    >>> schema.from_types({"day": (int, "1 to 31")}, required=["day"])["properties"]
    {'day': {'description': '1 to 31', 'type': 'integer'}}
    """
    if not isinstance(types, Mapping):
        raise DefinitionError(f"The types are in a mapping by name, such as {{'day': int}}, not in {types!r}.")
    leaves: list[tuple[JsonObject, Any]] = []
    schema = {**_to_object(types, leaves), "additionalProperties": False}
    if listed := _to_required(types, required):
        schema["required"] = listed
    adapters: list[tuple[int, Literal["validation"], TypeAdapter[Any]]] = [
        (number, "validation", TypeAdapter(kind)) for number, (_, kind) in enumerate(leaves)
    ]
    generated, definitions = TypeAdapter.json_schemas(adapters, schema_generator=QuietSchemaGenerator)
    for number, (node, _) in enumerate(leaves):
        node.update(generated[number, "validation"] | node)
    return clean_schema({**schema, **definitions})


def _to_required(types: Mapping[str, Any], required: Collection[str] | Callable[..., Any]) -> list[str]:
    if not callable(required):
        if isinstance(required, str) or not isinstance(required, Collection):
            raise DefinitionError(f"`required` are names in a list, or a function, not {required!r}.")
        for name in required:
            if name not in types:
                raise DefinitionError(f"The required property {name!r} has no type. {near_misses(name, types)}")
        return list(required)
    with suppress(TypeError, ValueError):  # a function without a signature, which no tool can be made of
        parameters = inspect.signature(required).parameters
        return [name for name in types if name in parameters and parameters[name].default is inspect.Parameter.empty]
    return []


def _to_object(types: Mapping[str, Any], leaves: list[tuple[JsonObject, Any]]) -> JsonObject:
    for name in types:
        if not isinstance(name, str):
            raise DefinitionError(f"The name of a property is a text, not {name!r}.")
    return {"type": "object", "properties": {name: _to_node(kind, leaves) for name, kind in types.items()}}


def _to_node(kind: Any, leaves: list[tuple[JsonObject, Any]]) -> JsonObject:
    """Return a schema; those that pydantic generates are left empty, and put into `leaves` with their types."""
    match kind:
        case Mapping():
            return _to_object(kind, leaves)
        case tuple((inner, *texts)):
            node = _to_node(inner, leaves)
            if texts and texts[0]:
                node["description"] = str(texts[0])
            return node
        case [inner] if not isinstance(inner, str):
            return {"type": "array", "items": _to_node(inner, leaves)}
    leaf: JsonObject = {}
    leaves.append((leaf, _to_type(kind)))
    return leaf


def _to_type(kind: Any) -> Any:
    """Return a type that has a schema."""
    match kind:
        case str():
            return _NAMED_TYPES.get(kind, Any)
        case [str(), *_]:
            return Union[tuple(map(_to_type, kind))]  # noqa: UP007  # made at run time
    if _has_schema(kind):
        return kind
    return Annotated[(Any, *get_args(kind)[1:])] if get_origin(kind) is Annotated else Any


def _has_schema(kind: Any) -> bool:
    try:
        TypeAdapter(kind).json_schema(schema_generator=QuietSchemaGenerator)
    except (PydanticUserError, SchemaError, NameError, TypeError):
        return False
    return True
