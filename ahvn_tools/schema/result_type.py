"""ResultType: the type of a result, by which values that are not plain become JSON or content."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from ahvn_tools.encoders.binary import bytes_block, encode_bytes
from ahvn_tools.encoders.registry import encode, encode_content, find_encoder, no_json_form_error, to_json_form
from ahvn_tools.errors import INVALID_RESULT, DefinitionError, InvalidResultError
from ahvn_tools.json_types import JsonObject, exceeds_size
from ahvn_tools.results import ToolResult, has_content, result_from_content
from ahvn_tools.schema.annotations import UnresolvedAnnotation, unwrap_annotation
from ahvn_tools.schema.core_schema import NON_SCHEMA_KEYS, is_foreign
from ahvn_tools.schema.generated import (
    SCHEMA_ERRORS,
    generate_output_schema,
    is_bare_sequence,
    is_untyped,
    promises_nothing,
)
from ahvn_tools.schema.keywords import WRAP_RESULT_KEY, iter_objects

_MAX_CHARS_WITH_PLACE = 10_000
"""In a larger value no error is looked for: jsonschema-rs lists all of them, which takes long."""

_CONFIG = ConfigDict(ser_json_inf_nan="constants")
"""NaN and Infinity are dumped as they are, and then refused, not as null. A model's own config decides inside it."""


class ResultType:
    """The type of a result, or of an item of a stream: how it is serialized, its schema, and what fits it."""

    def __init__(
        self,
        annotation: Any,
        schema: JsonObject | None = None,
        *,
        is_open: bool = False,
        mismatch: tuple[str, str] | None = None,
    ) -> None:
        """`schema` replaces the one of the annotation; `is_open`: there is none, and any value fits.

        `mismatch` is what models read and what the host is told of a result that does not fit.
        """
        self._mismatch = mismatch
        self.annotation = annotation
        self._explicit_schema = schema
        self._is_open = is_open

    @functools.cached_property
    def schema_text(self) -> str | None:
        """The JSON Schema of the structured content as text; None when nothing is promised."""
        if self._is_open:
            return None
        schema = generate_output_schema(self.annotation) if self._explicit_schema is None else self._explicit_schema
        return None if schema is None else json.dumps(schema)

    @functools.cached_property
    def is_wrapped(self) -> bool:
        """Whether the structured content is an object with the value as its property `result`."""
        return self._schema.get(WRAP_RESULT_KEY) is True

    @functools.cached_property
    def only_property(self) -> str | None:
        """The one property of a schema that has exactly one."""
        names = list(self._schema.get("properties", {}))
        return names[0] if len(names) == 1 else None

    @property
    def has_lost_schema(self) -> bool:
        """Whether there is an annotation that says what comes back, and it has no JSON Schema."""
        if self.schema_text is not None or self._is_open:
            return False
        kind, _ = unwrap_annotation(self.annotation)
        if isinstance(kind, UnresolvedAnnotation):
            return True
        return not promises_nothing(kind) and not (isinstance(kind, type) and find_encoder(kind) is not None)

    @property
    def may_have_json_form(self) -> bool:
        """Whether pydantic knows the annotation, or there is none."""
        return self._adapter is not None or is_untyped(self.annotation)

    def resolve(self) -> None:
        """Make the serializer and the schema."""
        _ = self._serialize, self._has_own_serializers, self.schema_text

    def convert(self, returned: Any) -> ToolResult:
        """Return the result of any value. Raises InvalidResultError for what does not fit or has no JSON form."""
        if isinstance(returned, ToolResult):
            return self._convert_own_result(returned)
        if isinstance(returned, bytes | bytearray) and isinstance(encoded := encode_bytes(returned), dict):
            file = ToolResult(encoded, blocks=(bytes_block(**encoded),))
            self.check(file)
            return file
        content = _attempt(encode_content, returned)
        if not has_content(content):
            return self.to_result(content)
        result = convert_content(content)
        if not result.is_error:
            result = self.unwrap(result)
            self.check(result)
        return result

    def to_result(self, returned: Any) -> ToolResult:
        """Return the result for a value without content. Raises InvalidResultError if it does not fit."""
        value = to_json_form(returned, self._serialize, is_strict=self._has_own_serializers)
        if self.is_wrapped:
            result = ToolResult(value, {"result": value})
        else:
            result = self.unwrap(ToolResult(value, value if isinstance(value, dict) else None))
        if not self._fits(result):
            raise self._mismatch_error(returned, result)
        return result

    def check(self, result: ToolResult) -> None:
        """Raise InvalidResultError if the structured content of a result that a tool has made does not fit."""
        if self.schema_text is not None and not self._fits(result):
            raise self._mismatch_error(result, result)

    def unwrap(self, result: ToolResult) -> ToolResult:
        """Return a result with the value of its only member, if that is the only property of its schema."""
        value = result.value
        if not isinstance(value, dict) or len(value) != 1 or self.only_property not in value:
            return result
        return replace(result, value=value[self.only_property], _is_unwrapped=not self.is_wrapped, _original=None)

    def _convert_own_result(self, result: ToolResult) -> ToolResult:
        """Return a copy of a result that a tool has made. Its value is converted, unless it says what models read."""
        copy = replace(result, meta=dict(result.meta), is_last=True)
        if result.error is not None:
            return copy
        if is_value_alone(result):
            made = self.to_result(result.value)
            converted = {"value": made.value, "structured_content": made.structured_content}
            return replace(copy, **converted, _is_unwrapped=made._is_unwrapped, _original=None)  # noqa: SLF001
        self.check(result)
        return copy

    def _fits(self, result: ToolResult) -> bool:
        if self.schema_text is None:
            return not self._is_bare_sequence or isinstance(result.value, list)
        structured = result.structured_content
        if structured is None:
            return False
        if self._validator is None:
            return True
        try:
            return bool(self._validator.is_valid(structured))
        except UnicodeEncodeError:  # of a lone surrogate, which the JSON text of a result escapes
            return bool(self._validator.is_valid(_without_surrogates(structured)))

    def _mismatch_error(self, returned: Any, result: ToolResult) -> InvalidResultError:
        """Return the error about a value that does not fit. It says where in the schema, and shows no value."""
        is_listed = self._validator is not None and not exceeds_size(result.structured_content, _MAX_CHARS_WITH_PLACE)
        path = ""
        with contextlib.suppress(UnicodeEncodeError):  # as in `_fits`
            errors = self._validator.iter_errors(result.structured_content) if is_listed else ()
            path = "/".join(str(step) for error in itertools.islice(errors, 1) for step in error.schema_path)
        what = "its return annotation" if self._explicit_schema is None else "its output schema"
        place = path and f" (see {path!r} in the output schema)"
        problem = f"a value of type {type(returned).__name__!r} that does not fit {what}{place}"
        message, fix = INVALID_RESULT, "return what it promises, or correct the promise."
        if self._mismatch is not None:
            message, fix = self._mismatch
        error = InvalidResultError(message, explanation=f"The tool returned {problem}; {fix}")
        error.problem = problem
        return error

    @functools.cached_property
    def _schema(self) -> JsonObject:
        return {} if self.schema_text is None else json.loads(self.schema_text)

    @functools.cached_property
    def _validator(self) -> Any:
        """The complete validator of the schema; None if it cannot be compiled."""
        from ahvn_tools.schema.jsonschema import compile_validator

        with contextlib.suppress(DefinitionError):  # for example a pattern that only Python's regex engine supports
            return compile_validator(self._schema)
        return None

    @functools.cached_property
    def _is_bare_sequence(self) -> bool:
        return not (self._is_open or is_untyped(self.annotation)) and is_bare_sequence(self.annotation)

    @functools.cached_property
    def _adapter(self) -> TypeAdapter[Any] | None:
        if is_untyped(self.annotation):
            return None
        for config in (_CONFIG, None):  # a type with its own config accepts no other
            with contextlib.suppress(*SCHEMA_ERRORS):
                return TypeAdapter(self.annotation, config=config)
        return None

    @functools.cached_property
    def _serialize(self) -> Callable[[Any], Any] | None:
        if self._adapter is None:
            return None
        return functools.partial(self._adapter.dump_python, mode="json", fallback=encode, warnings="error")

    @functools.cached_property
    def _has_own_serializers(self) -> bool:
        """Whether a part of the value may be serialized by other functions than pydantic's."""
        skipped = NON_SCHEMA_KEYS - {"serialization"}
        return self._adapter is not None and any(
            map(_has_own_serializer, iter_objects(self._adapter.core_schema, skipped))
        )


def _has_own_serializer(node: Any) -> bool:
    """Return whether a part of a core schema has a serializer or a computed field that is not pydantic's."""
    if not isinstance(node.get("type"), str):  # the fields of a model, by their names
        return False
    serialization = node.get("serialization")
    function = serialization.get("function") if isinstance(serialization, dict) else None
    return is_foreign(function) or bool(node.get("computed_fields")) or "serialization_exclude_if" in node


def _without_surrogates(value: Any) -> Any:
    """Return JSON data in which another character is in the place of each lone surrogate."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def is_value_alone(result: ToolResult) -> bool:
    """Return whether a result does not say what models read, other than by its value."""
    has_content = result.structured_content is not None or result.blocks is not None or result.is_raw
    return not (has_content or result.is_error)


def convert_content(value: Any) -> ToolResult:
    """Return the result of content. Raises InvalidResultError for content that cannot be read."""
    result: ToolResult = _attempt(result_from_content, value)  # an Image may name a file that does not exist
    return result


def _attempt(convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return convert(value)
    except InvalidResultError:
        raise
    except Exception as error:
        raise no_json_form_error(value) from error
