"""The output side of a tool: the schema of what it returns, and the JSON form of what it returned."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import math
import types
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)  # fmt: skip
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

from pydantic import ConfigDict, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, SchemaSerializer, core_schema
from typing_extensions import TypeAliasType

from ahvn_tools.errors import DefinitionError, InvalidResultError
from ahvn_tools.results import ErrorDetail, ToolResult, has_content, result_from_content
from ahvn_tools.schema.titles import QuietSchemaGenerator, clean_schema

JsonObject = dict[str, Any]

WRAP_RESULT_KEY = "x-fastmcp-wrap-result"
"""FastMCP's mark on an output schema that holds a value which is no object, under the one property `result`."""

EMPTY = inspect.Signature.empty
_ITERABLE_TYPES = (Generator, Iterator, Iterable, AsyncGenerator, AsyncIterator, AsyncIterable)
_AWAITABLE_TYPES = (Awaitable, Coroutine)
_UNTYPED_ANNOTATIONS = (EMPTY, None, type(None), Any, ...)
_EXACT_TYPES = (str, int, bool)
_CONTENT_PACKAGES = frozenset({"fastmcp", "mcp", "mcp_types"})
_SCHEMA_ERRORS = (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUserError, TypeError, NameError)

_SAFE_INTEGER_BITS = 2_000
"""Python writes every number of so many bits, whatever limit of digits is set (640 is the lowest)."""

_UNTYPED_SERIALIZER = SchemaSerializer(core_schema.any_schema(), core_schema.CoreConfig(ser_json_inf_nan="constants"))
_CONFIG = ConfigDict(ser_json_inf_nan="constants")
"""NaN and Infinity come out as what they are, to be refused, not as null. A model's own config decides inside it."""

T = TypeVar("T")


@dataclass
class _WrappedResult(Generic[T]):
    result: T


class Output:
    """What a tool returns. Shared by all specs of one tool; schema and serializer are made when first needed."""

    def __init__(self, annotation: Any = EMPTY, *, schema: JsonObject | None = None, is_stream: bool = False) -> None:
        """`annotation` is resolved; `schema` overrides what it says; a stream's annotation tells its items.

        Raises DefinitionError for a schema whose root is not an object.
        """
        if schema is not None and schema.get("type", "object" if "properties" in schema else None) != "object":
            raise DefinitionError(
                "output_schema must describe an object, because MCP's structured content is one: "
                'write {"type": "object", "properties": {"result": <your schema>}, "required": ["result"], '
                f'"{WRAP_RESULT_KEY}": true}} for a value that is none.'
            )
        self.annotation: Any = _unwrap_awaitable(annotation)
        self.item_annotation: Any = EMPTY
        bare, metadata = _unwrap_annotation(self.annotation)
        if get_origin(bare) in _ITERABLE_TYPES or bare in _ITERABLE_TYPES:
            self.item_annotation = (*get_args(bare), Any)[0]
            self.annotation = (
                list.__class_getitem__(self.item_annotation) if self.item_annotation is not Any or is_stream else EMPTY
            )
            if metadata and self.annotation is not EMPTY:
                self.annotation = Annotated[(self.annotation, *metadata)]
        self._explicit_schema = schema
        self.exact_type: Any = self.annotation if schema is None and _is_exact_type(self.annotation) else None
        """The type whose values are their own JSON form, when the annotation is one: the short way out of a call."""

    @functools.cached_property
    def schema_text(self) -> str | None:
        """The output schema as JSON text; None when nothing is promised."""
        if self.exact_type is not None:
            return _exact_type_schema_text(self.exact_type)
        schema = (
            self._explicit_schema if self._explicit_schema is not None else _generate_output_schema(self.annotation)
        )
        return None if schema is None else json.dumps(schema)

    @property
    def schema(self) -> JsonObject | None:
        """A fresh copy of the output schema."""
        return None if self.schema_text is None else json.loads(self.schema_text)

    def to_result(self, returned: Any) -> ToolResult:
        """Return the whole result for what the body returned. Raises InvalidResultError when it has no JSON form."""
        if type(returned) is self.exact_type and (
            self.exact_type is not int or returned.bit_length() <= _SAFE_INTEGER_BITS
        ):
            return ToolResult(returned, {"result": returned})
        if isinstance(returned, ToolResult):
            return returned
        if has_content(returned):
            made = _from_content(returned)
            return made if made.is_error else replace(made, value=self._unwrap(made.value))
        shown = self._to_json_value(returned)
        if self._is_wrapped:
            return ToolResult(shown, {"result": shown})
        return ToolResult(self._unwrap(shown), shown if isinstance(shown, dict) else None)

    def to_chunk(self, item: Any) -> ToolResult:
        """Return the result of one item of a stream, an error result when it has no JSON form."""
        try:
            made = self._to_item_result(item)
        except InvalidResultError as error:
            made = ToolResult(error=ErrorDetail(code=error.code, message=error.message))
        return replace(made, meta=dict(made.meta), is_last=False)

    def _to_item_result(self, item: Any) -> ToolResult:
        if isinstance(item, ToolResult):
            return item
        return _from_content(item) if has_content(item) else ToolResult(_to_json_value(item, self._item_adapter))

    @functools.cached_property
    def _is_wrapped(self) -> bool:
        schema = self.schema
        return schema is not None and schema.get(WRAP_RESULT_KEY) is True

    @functools.cached_property
    def _only_property(self) -> str | None:
        """The one property of an output schema that has exactly one."""
        names = list((self.schema or {}).get("properties", {}))
        return names[0] if len(names) == 1 else None

    def _unwrap(self, shown: Any) -> Any:
        return shown[self._only_property] if isinstance(shown, dict) and self._only_property in shown else shown

    def _to_json_value(self, returned: Any) -> Any:
        return _to_json_value(returned, self._adapter)

    @functools.cached_property
    def _adapter(self) -> TypeAdapter[Any] | None:
        return _type_adapter(self.annotation)

    @functools.cached_property
    def _item_adapter(self) -> TypeAdapter[Any] | None:
        return _type_adapter(self.item_annotation)


class _OutputSchemaGenerator(QuietSchemaGenerator):
    """Names fields as the serializer will: by alias only where a model's own config says so."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonObject:
        with _ByAliasOverride(self, dict(schema["cls"].model_config)):
            return super().model_schema(schema)

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonObject:
        with _ByAliasOverride(self, dict(schema.get("config") or {})):
            return super().dataclass_schema(schema)


class _ByAliasOverride:
    """Sets a generator's `by_alias` for one class and puts it back."""

    def __init__(self, generator: GenerateJsonSchema, config: dict[str, Any]) -> None:
        self.generator, self.by_alias = generator, bool(config.get("serialize_by_alias"))

    def __enter__(self) -> None:
        self.previous, self.generator.by_alias = self.generator.by_alias, self.by_alias

    def __exit__(self, *_: object) -> None:
        self.generator.by_alias = self.previous


def _unwrap_awaitable(annotation: Any) -> Any:
    if get_origin(annotation) in _AWAITABLE_TYPES:
        return get_args(annotation)[-1]
    return annotation


def _unwrap_annotation(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return what an alias or `Annotated` is about, and the metadata."""
    metadata: tuple[Any, ...] = ()
    while isinstance(annotation, TypeAliasType) or get_origin(annotation) is Annotated:
        if isinstance(annotation, TypeAliasType):
            annotation = annotation.__value__
        else:
            annotation, *more = get_args(annotation)
            metadata = (*more, *metadata)
    return annotation, metadata


def _generate_output_schema(annotation: Any) -> JsonObject | None:
    if (
        _is_untyped(annotation)
        or _contains_bytes(annotation)
        or _is_bare_sequence(annotation)
        or _contains_content(annotation)
    ):
        return None
    try:
        schema = _generate_schema(annotation)
        if not _is_object_schema(schema):
            schema = {**_generate_schema(_WrappedResult[annotation]), WRAP_RESULT_KEY: True}
    except _SCHEMA_ERRORS:
        return None
    return clean_schema(schema) or None


@functools.cache
def _exact_type_schema_text(kind: type) -> str:
    """Return the schema of a plain type: most tools return one of the same few."""
    return json.dumps(_generate_output_schema(kind))


def _generate_schema(annotation: Any) -> JsonObject:
    return TypeAdapter(annotation).json_schema(
        mode="serialization", by_alias=False, schema_generator=_OutputSchemaGenerator
    )


def _type_adapter(annotation: Any) -> TypeAdapter[Any] | None:
    if _is_untyped(annotation):
        return None
    for config in (_CONFIG, None):  # a type with a config of its own takes no other
        with contextlib.suppress(*_SCHEMA_ERRORS):
            return TypeAdapter(annotation, config=config)
    return None


def _to_json_value(value: Any, adapter: TypeAdapter[Any] | None) -> Any:
    kind = type(value)
    if kind is bool or value is None:
        return value
    try:
        shown = _serialize(value, adapter)
        _raise_for_non_json(shown)
    except Exception as error:  # a serializer of the value's own may raise anything
        raise _invalid_result_error(value) from error
    return shown


def _from_content(value: Any) -> ToolResult:
    try:
        return result_from_content(value)
    except Exception as error:  # an Image may name a file that is not there
        raise _invalid_result_error(value) from error


def _invalid_result_error(value: Any) -> InvalidResultError:
    return InvalidResultError(
        f"The tool returned a {type(value).__name__} that has no JSON form; return JSON-able data, a pydantic model, "
        "or content such as Image or File."
    )


def _serialize(value: Any, adapter: TypeAdapter[Any] | None) -> Any:
    if adapter is not None:
        try:
            return adapter.dump_python(value, mode="json", warnings="error")
        except PydanticSerializationError:
            pass  # the value is not what the annotation says: take it as what it is
    return _UNTYPED_SERIALIZER.to_python(value, mode="json")


def _raise_for_non_json(value: Any) -> None:
    """Raise ValueError for NaN, Infinity and overlong numbers in the value, for cycles and for what nests too deep."""
    kind = type(value)
    if kind is str or (kind is int and value.bit_length() <= _SAFE_INTEGER_BITS):
        return
    if kind is float:
        if not math.isfinite(value):
            raise ValueError("not finite")
        return
    json.dumps(value, allow_nan=False)


def _is_exact_type(annotation: Any) -> bool:
    return any(annotation is kind for kind in _EXACT_TYPES)


def _is_untyped(annotation: Any) -> bool:
    return any(annotation is free for free in _UNTYPED_ANNOTATIONS)


def _contains_bytes(annotation: Any) -> bool:
    if annotation is bytes:
        return True
    return _is_union_or_annotated(annotation) and any(_contains_bytes(part) for part in get_args(annotation))


def _is_union_or_annotated(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType, Annotated)


def _is_bare_sequence(annotation: Any) -> bool:
    while isinstance(annotation, TypeAliasType):
        annotation = annotation.__value__
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    origin, parts = get_origin(annotation) or annotation, get_args(annotation)
    if origin not in (list, tuple, Sequence):
        return False
    if origin is tuple and parts:
        return parts == (Any, ...)
    return all(part is Any for part in parts)


def _contains_content(annotation: Any) -> bool:
    if isinstance(annotation, type) and not get_args(annotation):
        names = {base.__name__ for base in annotation.__mro__ if base.__module__.partition(".")[0] in _CONTENT_PACKAGES}
        return issubclass(annotation, ToolResult) or not names.isdisjoint(_CONTENT_CLASSES)
    return any(_contains_content(part) for part in get_args(annotation))


_CONTENT_CLASSES = frozenset({
    "Image", "Audio", "File", "ToolResult", "CallToolResult", "TextContent", "ImageContent", "AudioContent",
    "ResourceLink", "EmbeddedResource", "InputRequiredResult",
})  # fmt: skip


def _is_object_schema(schema: JsonObject) -> bool:
    seen: set[str] = set()
    node: Any = schema
    while node.get("type") != "object" and "properties" not in node:
        reference = node.get("$ref")
        if not isinstance(reference, str) or reference in seen:
            return False
        seen.add(reference)
        node = schema["$defs"][reference.removeprefix("#/$defs/")]
    return True
