"""The output schema of a return annotation."""

from __future__ import annotations

import contextlib
import types
from collections import abc
from dataclasses import dataclass
from inspect import Signature
from typing import Annotated, Any, Final, Generic, Never, NoReturn, TypeVar, Union, get_args, get_origin

from pydantic import PydanticUserError, TypeAdapter
from pydantic_core import SchemaError, core_schema

from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolResult
from ahvn_tools.schema.annotations import UnresolvedAnnotation, unwrap_annotation
from ahvn_tools.schema.keywords import WRAP_RESULT_KEY
from ahvn_tools.schema.plain_types import plain_schema
from ahvn_tools.schema.refs import resolve_ref
from ahvn_tools.schema.titles import QuietSchemaGenerator, clean_schema

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
    if (plain := plain_schema(annotation)) is not None:
        return plain if _describes_object(plain) else _wrap(plain)
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


def _wrap(schema: JsonObject) -> JsonObject:
    return {"properties": {"result": schema}, "required": ["result"], "type": "object", WRAP_RESULT_KEY: True}


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
