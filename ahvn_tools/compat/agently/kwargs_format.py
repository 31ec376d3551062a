"""The kwargs format, such as `{"city": (str, "where it is")}`: from functions, and from and to JSON Schema."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, fields
from pydantic_core import to_jsonable_python

from ahvn_tools import Secret, ToolContext
from ahvn_tools.schema import from_types

Function = Callable[..., Any]
Kwargs = dict[str, Any]
"""A type, a `(type,)` or a `(type, description)` by name, as in `ahvn_tools.schema.from_types`."""

OTHERS = "<*>"
"""The key for all arguments that have no key."""


class DataFormatter:
    """Conversions of types and schemas."""

    @staticmethod
    def sanitize(value: Any, remain_type: bool = False) -> Any:
        """Return a type as data: the fields of a model, or a text, as in an annotation. A value becomes its JSON form.

        With `remain_type` other types than models stay types. Dicts, lists, tuples and sets stay what they are, also
        inside of each other, and what they contain is changed.
        """
        if isinstance(value, type) and issubclass(value, BaseModel):
            return {name: _describe_field(field, remain_type) for name, field in value.model_fields.items()}
        if isinstance(value, Mapping):
            return {str(name): DataFormatter.sanitize(item, remain_type) for name, item in value.items()}
        for kind in (list, tuple, set):
            if isinstance(value, kind):
                return kind(DataFormatter.sanitize(item, remain_type) for item in value)
        is_type = isinstance(value, type) or get_origin(value) is not None
        return value if remain_type and is_type else to_jsonable_python(value, fallback=inspect.formatannotation)

    @staticmethod
    def from_schema_to_kwargs_format(schema: Mapping[str, Any] | None) -> Kwargs | None:
        """Return the kwargs format of an object schema, or None if it names no argument.

        The description of an argument lists the keywords of its schema, without `type` and `title`. Raises KeyError for
        a schema without a type, TypeError for one of another type.
        """
        schema = schema or {"type": "object"}
        if "type" not in schema:
            raise KeyError(f"Cannot find key 'type' in input schema: {schema}")
        if schema["type"] != "object":
            raise TypeError(f"Input schema type is not 'object' but: {schema['type']}")
        properties = {**(schema.get("properties") or {}), OTHERS: schema.get("additionalProperties", False)}
        return {name: _describe_property(item) for name, item in properties.items() if item is not False} or None

    @staticmethod
    def from_kwargs_format_to_schema(kwargs: Kwargs, required: Collection[str] | Function = ()) -> dict[str, Any]:
        """Return the JSON Schema of arguments; `required` are names, or the function that takes the arguments."""
        schema = from_types(kwargs, required)
        return {**schema, "additionalProperties": schema["properties"].pop(OTHERS, False)}


def describe_parameters(func: Function) -> Kwargs:
    """Return the kwargs format of a function, without parameters that no caller sets: `*args` and a ToolContext."""
    return {
        OTHERS if item.kind is item.VAR_KEYWORD else item.name: _describe_parameter(item)
        for item in inspect.signature(func, eval_str=True).parameters.values()
        if item.kind is not item.VAR_POSITIONAL and ToolContext not in (item.annotation, *get_args(item.annotation))
    }


def _describe_parameter(parameter: inspect.Parameter) -> tuple[Any, str]:
    hint = Any if parameter.annotation is parameter.empty else parameter.annotation
    kind, *metadata = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    texts = [getattr(item, "description", item) for item in metadata]
    if parameter.default is not parameter.empty and not Secret.is_in(hint):
        texts.append(f"Default: {parameter.default}")
    return kind, ";".join(text for text in texts if isinstance(text, str))


def _describe_field(field: fields.FieldInfo, remain_type: bool) -> tuple[Any, ...]:
    return DataFormatter.sanitize(field.annotation, remain_type), *filter(None, [field.description])


def _describe_property(schema: Any) -> tuple[Any, str]:
    keywords = schema if isinstance(schema, Mapping) else {}
    texts = [f"{key}: {value}" for key, value in keywords.items() if key not in {"type", "title"}]
    return keywords.get("type", Any), ";".join(texts)
