"""The output side of a tool: its output schema, and the JSON form of the values that it returns."""

from __future__ import annotations

import contextlib
import functools
import json
import operator
import sys
import types
from collections import abc
from dataclasses import dataclass, replace
from inspect import Signature
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

from pydantic import ConfigDict, PydanticUserError, TypeAdapter
from pydantic_core import PydanticSerializationError, SchemaSerializer, core_schema
from typing_extensions import TypeAliasType

from ahvn_tools.errors import DefinitionError, InputRequiredError, InvalidResultError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ErrorDetail, ToolResult, find_input_request, has_content, result_from_content
from ahvn_tools.schema.refs import resolve_ref
from ahvn_tools.schema.titles import QuietSchemaGenerator, clean_schema

_EMPTY = Signature.empty
_SCHEMA_ERRORS = (PydanticUserError, TypeError, NameError)
"""What pydantic raises for a type without a schema; its other errors about schemas are subclasses of these."""
_WRAP_RESULT_KEY = "x-fastmcp-wrap-result"
"""FastMCP's mark on an output schema that wraps a value other than an object in the one property `result`."""

_UNTYPED_ANNOTATIONS = (_EMPTY, None, type(None), Any, ...)
_CONTENT_PACKAGES = frozenset({"fastmcp", "mcp", "mcp_types"})
_CONTENT_CLASSES = frozenset({
    "Image", "Audio", "File", "ToolResult", "CallToolResult", "TextContent", "ImageContent", "AudioContent",
    "ResourceLink", "EmbeddedResource", "InputRequiredResult",
})  # fmt: skip
_ITERABLE_TYPES = (
    abc.Generator, abc.Iterator, abc.Iterable, abc.AsyncGenerator, abc.AsyncIterator, abc.AsyncIterable,
)  # fmt: skip
_AWAITABLE_TYPES = (abc.Awaitable, abc.Coroutine)
_EXACT_TYPES = (str, int, bool)

_SAFE_INTEGER_BITS = 2_000
"""Python can print every integer of so many bits, whatever its limit on digits (640 is the lowest)."""

_UNTYPED_SERIALIZER = SchemaSerializer(core_schema.any_schema(), core_schema.CoreConfig(ser_json_inf_nan="constants"))
_CONFIG = ConfigDict(ser_json_inf_nan="constants")
"""NaN and Infinity are dumped as they are, and then refused, not as null. A model's own config decides inside it."""

T = TypeVar("T")


@dataclass
class _WrappedResult(Generic[T]):
    result: T


class Output:
    """What a tool returns. All specs of one tool share it; schema and serializer are made on first use."""

    def __init__(self, annotation: Any = _EMPTY, *, schema: JsonObject | None = None, is_stream: bool = False) -> None:
        """`annotation` is resolved; `schema` overrides it; for a stream it is the annotation of the items.

        Raises DefinitionError for a schema whose root is not an object.
        """
        if schema is not None and schema.get("type", "object" if "properties" in schema else None) != "object":
            raise DefinitionError(
                "output_schema must describe an object, because MCP's structured content is one. For another value, "
                'write {"type": "object", "properties": {"result": <your schema>}, "required": ["result"], '
                f'"{_WRAP_RESULT_KEY}": true}}.'
            )
        awaited = get_args(annotation)[-1] if get_origin(annotation) in _AWAITABLE_TYPES else annotation
        self.annotation: Any = _drop_input_requests(awaited)
        self.item_annotation: Any = _EMPTY
        bare, metadata = _unwrap_annotation(self.annotation)
        if get_origin(bare) in _ITERABLE_TYPES or bare in _ITERABLE_TYPES:
            self.item_annotation = (*get_args(bare), Any)[0]
            is_typed = self.item_annotation is not Any or is_stream
            self.annotation = list.__class_getitem__(self.item_annotation) if is_typed else _EMPTY
            if metadata and is_typed:
                self.annotation = Annotated[(self.annotation, *metadata)]
        self._explicit_schema = schema
        is_exact = schema is None and any(self.annotation is kind for kind in _EXACT_TYPES)
        self.exact_type: Any = self.annotation if is_exact else None
        """The annotation when it is a type whose values are their own JSON form; such values need no conversion."""

    @functools.cached_property
    def schema_text(self) -> str | None:
        """The output schema as JSON text; None when nothing is promised."""
        if self.exact_type is not None:
            return _exact_type_schema_text(self.exact_type)
        schema = _generate_output_schema(self.annotation) if self._explicit_schema is None else self._explicit_schema
        return None if schema is None else json.dumps(schema)

    @property
    def schema(self) -> JsonObject | None:
        """A fresh copy of the output schema."""
        return None if self.schema_text is None else json.loads(self.schema_text)

    def to_result(self, returned: Any) -> ToolResult:
        """Return the whole result for what the body returned.

        Raises InvalidResultError when it has no JSON form, InputRequiredError when it asks for input.
        """
        if type(returned) is self.exact_type and (
            self.exact_type is not int or returned.bit_length() <= _SAFE_INTEGER_BITS
        ):
            return ToolResult(returned, {"result": returned})
        if isinstance(returned, ToolResult):
            return returned
        if (request := find_input_request(returned)) is not None:
            raise _input_required_error(request)
        if has_content(returned):
            result = _from_content(returned)
            return result if result.is_error else replace(result, value=self._unwrap(result.value))
        value = _to_json_value(returned, self._adapter)
        if self._is_wrapped:
            return ToolResult(value, {"result": value})
        return ToolResult(self._unwrap(value), value if isinstance(value, dict) else None)

    def to_chunk(self, item: Any) -> ToolResult:
        """Return the result of one item of a stream, an error result when it has no JSON form."""
        try:
            if isinstance(item, ToolResult):
                result = item
            elif has_content(item):
                result = _from_content(item)
            else:
                result = ToolResult(_to_json_value(item, self._item_adapter))
        except InvalidResultError as error:
            result = ToolResult(error=ErrorDetail(code=error.code, message=error.message))
        return replace(result, meta=dict(result.meta), is_last=False)

    @functools.cached_property
    def _is_wrapped(self) -> bool:
        schema = self.schema
        return schema is not None and schema.get(_WRAP_RESULT_KEY) is True

    @functools.cached_property
    def _only_property(self) -> str | None:
        """The one property of an output schema that has exactly one."""
        names = list((self.schema or {}).get("properties", {}))
        return names[0] if len(names) == 1 else None

    def _unwrap(self, value: Any) -> Any:
        return value[self._only_property] if isinstance(value, dict) and self._only_property in value else value

    @functools.cached_property
    def _adapter(self) -> TypeAdapter[Any] | None:
        return _type_adapter(self.annotation)

    @functools.cached_property
    def _item_adapter(self) -> TypeAdapter[Any] | None:
        return _type_adapter(self.item_annotation)


def _type_adapter(annotation: Any) -> TypeAdapter[Any] | None:
    if _is_untyped(annotation):
        return None
    for config in (_CONFIG, None):  # a type with its own config accepts no other
        with contextlib.suppress(*_SCHEMA_ERRORS):
            return TypeAdapter(annotation, config=config)
    return None


def _to_json_value(value: Any, adapter: TypeAdapter[Any] | None) -> Any:
    if type(value) is bool or value is None:
        return value
    try:
        json_value = _serialize(value, adapter)
        if type(json_value) is not str:
            json.dumps(json_value, allow_nan=False)  # fails for NaN, Infinity, overlong integers, cycles, deep nesting
    except PydanticSerializationError:  # its text contains a part of the value
        raise _invalid_result_error(value) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a type's own serializer may raise anything, also a SystemExit
        raise _invalid_result_error(value) from error
    return json_value


def _from_content(value: Any) -> ToolResult:
    try:
        return result_from_content(value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an Image may name a file that does not exist
        raise _invalid_result_error(value) from error


def _invalid_result_error(value: Any) -> InvalidResultError:
    return InvalidResultError(
        f"The tool returned a {type(value).__name__} that has no JSON form, or with fields that do not have their "
        "declared types; return JSON-able data, a valid pydantic model, or content such as Image or File."
    )


def _input_required_error(request: Any) -> InputRequiredError:
    error = InputRequiredError("The tool asks for input that only a client of a served toolkit can provide.")
    error.mcp_response = request
    return error


def _serialize(value: Any, adapter: TypeAdapter[Any] | None) -> Any:
    if adapter is not None:
        try:
            return adapter.dump_python(value, mode="json", warnings="error")
        except PydanticSerializationError:
            pass  # the value does not match the annotation: dump it by its own type
    return _UNTYPED_SERIALIZER.to_python(value, mode="json", warnings="error")  # a warning would show the value


def _generate_output_schema(annotation: Any) -> JsonObject | None:
    """Return the output schema of an annotation; None when it promises nothing or has no JSON Schema."""
    if _is_untyped(annotation) or _contains_bytes(annotation) or _is_bare_sequence(annotation):
        return None
    if _contains_content(annotation):
        return None
    try:
        schema = _generate_schema(annotation)
        if not _describes_object(schema):
            schema = {**_generate_schema(_WrappedResult[annotation]), _WRAP_RESULT_KEY: True}
    except _SCHEMA_ERRORS:
        return None
    return clean_schema(schema) or None


@functools.cache
def _exact_type_schema_text(kind: type) -> str:
    """Return the output schema of a plain type as JSON; cached, since most tools return one of the same few types."""
    return json.dumps(_generate_output_schema(kind))


def _is_untyped(annotation: Any) -> bool:
    """Whether an annotation is missing or leaves the value open."""
    return any(annotation is untyped for untyped in _UNTYPED_ANNOTATIONS)


def _unwrap_annotation(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the type behind type aliases and `Annotated`, and the metadata of all `Annotated`."""
    metadata: tuple[Any, ...] = ()
    while isinstance(annotation, TypeAliasType) or get_origin(annotation) is Annotated:
        if isinstance(annotation, TypeAliasType):
            annotation = annotation.__value__
        else:
            annotation, *more = get_args(annotation)
            metadata = (*more, *metadata)
    return annotation, metadata


def _drop_input_requests(annotation: Any) -> Any:
    """Return an annotation whose unions are without MCP's InputRequiredResult, which is a request and no output."""
    bare, metadata = _unwrap_annotation(annotation)
    if "mcp_types" not in sys.modules or get_origin(bare) not in {Union, types.UnionType}:
        return annotation
    arms = get_args(bare)
    kept = tuple(_drop_input_requests(arm) for arm in arms if not _is_input_request_type(arm))
    if not kept or (len(kept) == len(arms) and all(map(operator.is_, kept, arms))):
        return annotation
    union = Union.__getitem__(kept)
    return Annotated[(union, *metadata)] if metadata else union


def _is_input_request_type(annotation: Any) -> bool:
    bare, _ = _unwrap_annotation(annotation)
    return isinstance(bare, type) and issubclass(bare, sys.modules["mcp_types"].InputRequiredResult)


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


def _is_bare_sequence(annotation: Any) -> bool:
    annotation, _ = _unwrap_annotation(annotation)
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
