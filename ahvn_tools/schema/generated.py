"""JSON Schemas that pydantic generates of types, without what no model needs: of parameters, results and others."""

from __future__ import annotations

import contextlib
import inspect
import json
import types
from collections import abc
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from inspect import Signature
from typing import Annotated, Any, Final, Generic, Literal, Never, NoReturn, TypeVar, Union, get_args, get_origin

from pydantic import PydanticUserError, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, SchemaError, core_schema

from ahvn_tools.errors import DefinitionError, near_misses
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolResult
from ahvn_tools.schema.annotations import UnresolvedAnnotation, unwrap_annotation
from ahvn_tools.schema.keywords import WRAP_RESULT_KEY, iter_schemas, wrap_result
from ahvn_tools.schema.plain_types import plain_type
from ahvn_tools.schema.refs import resolve_ref, without_unused_definitions

_STRUCTURAL_KEYWORDS = frozenset({"type", "properties", "$ref", "items", "allOf", "oneOf", "anyOf", "required"})
_ANNOTATION_KEYWORDS = frozenset({"title", "description", "deprecated", "readOnly", "writeOnly"})
_JSON_SCALARS = frozenset({str, int, bool, type(None)})


def clean_schema(schema: JsonObject) -> JsonObject:
    """Return a generated schema without titles, with its root `$ref` resolved and without unused `$defs`."""
    schema = resolve_ref(schema, schema)
    for node in iter_schemas(schema):
        if isinstance(node.get("title"), str) and (
            not _STRUCTURAL_KEYWORDS.isdisjoint(node) or _ANNOTATION_KEYWORDS.issuperset(node)
        ):
            del node["title"]
    return without_unused_definitions(schema)


class QuietSchemaGenerator(GenerateJsonSchema):
    """Pydantic's generator; it omits a default without a JSON form and does not warn."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  # pydantic's own attribute

    def is_subclass_schema(self, schema: core_schema.IsSubclassSchema) -> JsonObject:
        """Refuse a class as a value, for which pydantic would generate a schema that accepts anything."""
        return self.handle_invalid_for_json_schema(schema, "a class is not a JSON value")

    def encode_default(self, dft: Any) -> Any:
        """Return a default as JSON. Raises PydanticSerializationError, which omits the default."""
        if type(dft) in _JSON_SCALARS:  # most are, and pydantic would compile a serializer for each
            return dft
        encoded = super().encode_default(dft)
        try:
            json.dumps(encoded, allow_nan=False)
        except ValueError as error:
            raise PydanticSerializationError("NaN and Infinity are not JSON") from error
        return encoded


SCHEMA_ERRORS: Final = (PydanticUserError, SchemaError, TypeError, NameError)
"""What pydantic raises for a type without a schema; its other errors about schemas are subclasses of these."""

_UNTYPED_ANNOTATIONS = (Signature.empty, None, type(None), Any, ..., Never, NoReturn)
_CONTENT_PACKAGES = frozenset({"fastmcp", "mcp", "mcp_types"})
_CONTENT_CLASSES = frozenset({
    "Image", "Audio", "File", "ToolResult", "CallToolResult", "TextContent", "ImageContent", "AudioContent",
    "ResourceLink", "EmbeddedResource", "InputRequiredResult",
})  # fmt: skip

T = TypeVar("T")


@dataclass
class _WrappedResult(Generic[T]):
    result: T


def generate_output_schema(annotation: Any) -> JsonObject | None:
    """Return the output schema of an annotation; None when it promises nothing or has no JSON Schema."""
    if promises_nothing(annotation):
        return None
    if (plain := plain_type(annotation)) is not None:
        schema = plain.json_schema
        return schema if _describes_object(schema) else wrap_result(schema)
    try:
        schema = _generate_schema(annotation)
        if not _describes_object(schema):
            schema = {**_generate_schema(_WrappedResult[annotation]), WRAP_RESULT_KEY: True}
    except Exception:  # noqa: BLE001  # besides pydantic's errors, those of a type's own code that makes its schema
        return None
    return clean_schema(schema) or None


def promises_nothing(annotation: Any) -> bool:
    """Whether an annotation leaves open what comes back, or says that it is content."""
    is_open = is_untyped(annotation) or _contains_bytes(annotation) or is_bare_sequence(annotation)
    return is_open or _contains_content(annotation)


def is_untyped(annotation: Any) -> bool:
    """Whether an annotation is missing, not known or leaves the value open."""
    is_unresolved = isinstance(annotation, UnresolvedAnnotation)
    return is_unresolved or any(annotation is untyped for untyped in _UNTYPED_ANNOTATIONS)


class _OutputSchemaGenerator(QuietSchemaGenerator):
    """Names fields as the serializer does: by alias only where a model's own config says so."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonObject:
        with self._by_alias_of(dict(schema["cls"].model_config)):
            return super().model_schema(schema)

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonObject:
        with self._by_alias_of(dict(schema.get("config") or {})):
            return super().dataclass_schema(schema)

    @contextlib.contextmanager
    def _by_alias_of(self, config: dict[str, Any]) -> abc.Iterator[None]:
        previous, self.by_alias = self.by_alias, bool(config.get("serialize_by_alias"))
        try:
            yield
        finally:
            self.by_alias = previous


def _generate_schema(annotation: Any) -> JsonObject:
    return TypeAdapter(annotation).json_schema(
        mode="serialization", by_alias=False, schema_generator=_OutputSchemaGenerator
    )


def _contains_bytes(annotation: Any) -> bool:
    is_compound = get_origin(annotation) in (Union, types.UnionType, Annotated)
    return annotation is bytes or (is_compound and any(map(_contains_bytes, get_args(annotation))))


def is_bare_sequence(annotation: Any) -> bool:
    """Whether an annotation is a list, tuple or sequence of any items."""
    annotation, _ = unwrap_annotation(annotation)
    origin, parts = get_origin(annotation) or annotation, get_args(annotation)
    if origin is tuple and parts:
        return parts == (Any, ...)
    return origin in (list, tuple, abc.Sequence) and all(part is Any for part in parts)


def _contains_content(annotation: Any) -> bool:
    if isinstance(annotation, type) and not get_args(annotation):
        names = {base.__name__ for base in annotation.__mro__ if base.__module__.partition(".")[0] in _CONTENT_PACKAGES}
        return issubclass(annotation, ToolResult) or not names.isdisjoint(_CONTENT_CLASSES)
    return any(map(_contains_content, get_args(annotation)))


def _describes_object(schema: JsonObject) -> bool:
    node = resolve_ref(schema, schema)
    return node.get("type") == "object" or "properties" in node


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
    with contextlib.suppress(TypeError, ValueError):  # a function without a signature, which no tool can be made of
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
    except SCHEMA_ERRORS:
        return False
    return True
