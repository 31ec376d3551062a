"""The output side of a tool: its output schema, and the results that are made of what it returns."""

from __future__ import annotations

import copy
import functools
import inspect
import json
import operator
import sys
import types
from collections import abc
from collections.abc import Callable, Mapping
from dataclasses import replace
from inspect import Signature
from typing import TYPE_CHECKING, Annotated, Any, Final, Union, get_args, get_origin

from ahvn_tools.encoders.loaded_classes import block_classes, media_classes, refuse_graph_output
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import INVALID_RESULT, DefinitionError, InvalidResultError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import (
    Rendering,
    ToolResult,
    find_input_request,
    input_required_error,
    raw_result,
    result_classes,
)
from ahvn_tools.schema.annotations import find_unsupported_typed_dict, unwrap_annotation
from ahvn_tools.schema.keywords import JSON_TYPES, WRAP_RESULT_KEY, iter_subschemas, wrap_result
from ahvn_tools.schema.refs import ReferenceTargets

if TYPE_CHECKING:
    from ahvn_tools.schema.result_type import ResultType

RAW: Final = "raw"
"""The value of the option `output` for raw results."""

Render = Callable[[Any], Any]
"""Returns what models read of a value: a text, a content block or a list of these."""

_EMPTY = Signature.empty
_ITERABLE_TYPES = (
    abc.Generator, abc.Iterator, abc.Iterable, abc.AsyncGenerator, abc.AsyncIterator, abc.AsyncIterable,
)  # fmt: skip
_AWAITABLE_TYPES = (abc.Awaitable, abc.Coroutine)
_EXACT_TYPES = (str, int, bool)
_PLAIN_TYPES = (*_EXACT_TYPES, float, None)
_NO_CONTENT_TYPES = frozenset({str, int, bool, float, dict, type(None)})
_NO_CONTENT_ITEM_TYPES = _NO_CONTENT_TYPES | {list, tuple}

_SHARED_KEYWORDS = ("$schema", "$defs", "definitions")
"""Keywords of a root that stay in the root when it becomes a property."""

_SHARED_PREFIXES = ("#/$defs/", "#/definitions/")

_SAFE_INTEGER_BITS = 2_000
"""Python can print every integer of so many bits, whatever its limit on digits (640 is the lowest)."""


class Output:
    """What a tool returns. All specs of one tool share it; schema and serializer are made on first use."""

    is_raw: bool = False
    """Whether the value of a result is the very object that the tool returned."""
    is_unreadable: bool = False
    """Whether models can read no result."""

    def __init__(
        self,
        annotation: Any = _EMPTY,
        *,
        schema: JsonObject | None = None,
        is_stream: bool = False,
        is_open: bool = False,
    ) -> None:
        """`annotation` is resolved; `schema` overrides it; for a stream it is the annotation of the items.

        `is_open`: there is no output schema, and any value with a JSON form fits. Raises DefinitionError for a schema
        whose root is not an object.
        """
        if schema is not None and schema.get("type", "object" if "properties" in schema else None) != "object":
            raise DefinitionError(
                "output_schema must describe an object, because MCP's structured content is one. For another value, "
                'write {"type": "object", "properties": {"result": <your schema>}, "required": ["result"], '
                f'"{WRAP_RESULT_KEY}": true}}.'
            )
        item: Any = _EMPTY
        if is_stream or type(annotation) is not type:  # a plain class is neither awaitable nor an iterable of the ABCs
            awaited = get_args(annotation)[-1] if get_origin(annotation) in _AWAITABLE_TYPES else annotation
            annotation, item = _to_list_annotation(_drop_input_requests(awaited), is_stream=is_stream)
        self._annotation, self._item_annotation = annotation, item
        self._explicit_schema = None if schema is None else {**schema, "type": "object"}
        self._is_open = is_open
        self.mismatch: tuple[str, str] | None = None
        """What models read and what the host is told of a result that does not fit, where the tool's own code does not
        make it; None: that the tool breaks its promise."""
        self.is_stream = is_stream or item is not _EMPTY
        """Whether what the body returns comes item by item."""
        is_exact = schema is None and not is_open and annotation in _EXACT_TYPES
        self.exact_type: Any = annotation if is_exact else None
        """The annotation when it is a type whose values are their own JSON form; such values need no conversion."""

    @staticmethod
    def of(tool: str, annotation: Any, options: Mapping[str, Any], *, is_stream: bool = False) -> Output:
        """Return the output side of a tool with these options.

        Raises DefinitionError for options that do not fit together, for an output schema that is not of an object, and
        for a class that pydantic does not support.
        """
        schema, render = options.get("output_schema"), options.get("render")
        if options.get("output") == RAW:
            if schema is not None:
                raise DefinitionError('A raw result has no output schema: remove output_schema, or output="raw".')
            if inspect.iscoroutinefunction(render):
                raise DefinitionError("`render` is a sync function, which is called where the result is made.")
            return RawOutput(annotation, render=render, is_stream=is_stream)
        if render is not None:
            raise DefinitionError('render is an option of raw results: add output="raw", or remove it.')
        is_open = schema is None and "output_schema" in options
        is_described = "output_schema" in options or annotation in _PLAIN_TYPES
        if not is_described and (typed_dict := find_unsupported_typed_dict(annotation)) is not None:
            raise DefinitionError(
                f"{tool!r} returns {typed_dict!r}, a `typing.TypedDict`, which pydantic supports from Python 3.12 on. "
                "Import TypedDict from typing_extensions instead, or pass output_schema."
            )
        return Output(annotation, schema=schema, is_stream=is_stream, is_open=is_open)

    @functools.cached_property
    def _whole(self) -> ResultType:
        """The type of the whole result."""
        from ahvn_tools.schema.result_type import ResultType  # slow, and a value of an exact type does not need it

        return ResultType(self._annotation, self._explicit_schema, is_open=self._is_open, mismatch=self.mismatch)

    @functools.cached_property
    def _item(self) -> ResultType:
        """The type of an item of a stream."""
        from ahvn_tools.schema.result_type import ResultType  # as above

        return ResultType(self._item_annotation, is_open=self._is_open)

    @functools.cached_property
    def schema_text(self) -> str | None:
        """The output schema as JSON text; None when nothing is promised."""
        return self._whole.schema_text if self.exact_type is None else _exact_type_schema_text(self.exact_type)

    @property
    def schema(self) -> JsonObject | None:
        """A fresh copy of the output schema."""
        return None if self.schema_text is None else json.loads(self.schema_text)

    @property
    def has_lost_schema(self) -> bool:
        """Whether the return annotation has no JSON Schema, although it says what comes back."""
        return self.exact_type is None and self._whole.has_lost_schema

    def resolve(self) -> None:
        """Resolve forward references in the annotation now, where the names that they use are known."""
        self._whole.resolve()
        self._item.resolve()

    def to_result(self, returned: Any) -> ToolResult:
        """Return the whole result for what the body returned; a ToolResult of its own as a copy.

        Raises InvalidResultError for what has no JSON form or does not fit the annotation or the output schema,
        InputRequiredError when it asks for input.
        """
        if type(returned) is self.exact_type and (
            self.exact_type is not int or returned.bit_length() <= _SAFE_INTEGER_BITS
        ):
            return ToolResult(returned, {"result": returned})
        kind = type(returned)
        if kind in _NO_CONTENT_TYPES or (kind is list and {*map(type, returned)} <= _NO_CONTENT_ITEM_TYPES):
            return self._whole.to_result(returned)
        if (request := find_input_request(returned)) is not None:
            raise input_required_error(request)
        refuse_graph_output(returned)
        return self._whole.convert(returned)

    def to_chunk(self, item: Any) -> ToolResult:
        """Return the result of one item of a stream, an error result when it has no JSON form or does not fit."""
        changes: dict[str, Any] = {}
        try:
            result, changes = self._to_item_result(item)
        except InvalidResultError as error:
            result = ToolResult(error=ErrorDetail(code=error.code, message=error.message).hold(error))
        return replace(result, meta=dict(result.meta), is_last=False, **changes)

    def _to_item_result(self, item: Any) -> tuple[ToolResult, dict[str, Any]]:
        """Return the result of an item, and what a chunk changes in it."""
        result = self._item.convert(item)
        is_own = isinstance(item, ToolResult) or result.blocks is not None
        changes: dict[str, Any] = {"structured_content": result.structured_content if is_own else None}
        if result._is_unwrapped:  # noqa: SLF001  # the list of all items has the whole objects, too
            changes |= {"value": result.structured_content, "_is_unwrapped": False, "_original": None}
        return result, changes

    def for_value(self) -> Output:
        """Return the output for a caller that reads only the value of a result."""
        return self


class RawOutput(Output):
    """What a tool with `output="raw"` returns. Any object fits, and there is no output schema."""

    is_raw = True

    def __init__(self, annotation: Any, *, render: Render | None = None, is_stream: bool = False) -> None:
        """Without `render`, models read the JSON form of a value, if it has one."""
        super().__init__(annotation, is_stream=is_stream, is_open=True)
        self._render = render
        self._converts = True

    @property
    def is_unreadable(self) -> bool:  # type: ignore[override]  # computed here
        """Whether models can read no result: its type has no JSON form, and nothing renders it."""
        from ahvn_tools.encoders.registry import find_encoder

        kind, _ = unwrap_annotation(self._whole.annotation)
        if self._render is not None or self._whole.may_have_json_form or not isinstance(kind, type):
            return False
        return find_encoder(kind) is None and not issubclass(kind, (ToolResult, *_content_classes(), *result_classes()))

    def to_result(self, returned: Any) -> ToolResult:
        """Return the result with the returned object itself as its value, and with what models read of it.

        Raises InvalidResultError for a `render` that fails or returns anything but content, InputRequiredError when
        the tool asks for input.
        """
        is_list = self.is_stream and type(returned) is list
        return self._to_result(returned, parts=returned if is_list else [returned], kind=self._whole)

    def _to_item_result(self, item: Any) -> tuple[ToolResult, dict[str, Any]]:
        return self._to_result(item, parts=[item], kind=self._item), {}

    def for_value(self) -> Output:
        """Return the output for a caller that reads only the value of a result: it converts nothing for models.

        A `render` is called nevertheless, so that all ways to call a tool fail if it fails.
        """
        if self._render is not None:
            return self
        output = copy.copy(self)
        output._converts = False  # noqa: SLF001  # of this class
        return output

    def _to_result(self, returned: Any, *, parts: list[Any], kind: ResultType) -> ToolResult:
        """Return the result of a value that is an item, or is rendered in parts."""
        from ahvn_tools.schema.result_type import convert_content, is_value_alone

        if isinstance(returned, ToolResult):
            if not is_value_alone(returned):
                return returned
            made = self._to_result(returned.value, parts=[returned.value], kind=kind)
            return replace(made, meta={**made.meta, **returned.meta}, id=returned.id)
        if (request := find_input_request(returned)) is not None:
            raise input_required_error(request)
        if isinstance(returned, result_classes()):
            return convert_content(returned)
        if self._render is None:
            return self._to_json_result(returned, kind)
        contents = [_render(self._render, part) for part in parts]
        if len(contents) == 1 and isinstance(contents[0], str):
            return ToolResult(returned, _rendering=Rendering(returned, contents[0]))
        made = convert_content([block for part in contents for block in (part if isinstance(part, list) else [part])])
        return raw_result(returned, made)

    def _to_json_result(self, value: Any, kind: ResultType) -> ToolResult:
        """Return the result of a value of which models read the JSON form, or the content that it is."""
        if not self._converts:
            return ToolResult(value)
        try:
            made = kind.convert(value)
        except InvalidResultError as error:  # kept without its traceback, which would keep the frames of the call
            unreadable = InvalidResultError(error.message, explanation=error.explanation)
            return ToolResult(value, _rendering=Rendering(value, unreadable))
        return raw_result(value, made)


def _render(render: Render, value: Any) -> str | list[Any]:
    """Return what `render` makes of a value. Raises InvalidResultError if it fails or returns anything but content."""
    try:
        rendered = render(value)
    except Exception as error:
        raise _render_error(f"raised {type(error).__name__}") from error
    if isinstance(rendered, str):
        return rendered
    parts = list(rendered) if isinstance(rendered, list | tuple) else [rendered]
    for part in parts:
        if not isinstance(part, (str, *_content_classes())):
            raise _render_error(f"returned a {type(part).__name__}")
    return parts


def _content_classes() -> tuple[Any, ...]:
    return (*block_classes(), *media_classes())


def _render_error(problem: str) -> InvalidResultError:
    explanation = (
        f"The `render` function of the tool {problem}: let it return a text, a content block or a list of these."
    )
    return InvalidResultError(INVALID_RESULT, explanation=explanation)


@functools.cache
def _exact_type_schema_text(kind: type) -> str:
    """Return the output schema of an exact type as JSON: that of an object with the value as its one property."""
    return json.dumps(wrap_result({"type": JSON_TYPES[kind]}))


def _to_list_annotation(annotation: Any, *, is_stream: bool) -> tuple[Any, Any]:
    """Return the annotation of the list of all items, and of one item, where the annotation is an iterable."""
    bare, metadata = unwrap_annotation(annotation)
    if get_origin(bare) not in _ITERABLE_TYPES and bare not in _ITERABLE_TYPES:
        return annotation, _EMPTY
    item = _drop_input_requests((*get_args(bare), Any)[0])
    if item is Any and not is_stream:
        return _EMPTY, item
    items: Any = list.__class_getitem__(item)
    return (Annotated[(items, *metadata)] if metadata else items), item


def _drop_input_requests(annotation: Any) -> Any:
    """Return an annotation whose unions are without MCP's InputRequiredResult, which is a request and no output."""
    if "mcp_types" not in sys.modules:
        return annotation
    bare, metadata = unwrap_annotation(annotation)
    if get_origin(bare) not in {Union, types.UnionType}:
        return annotation
    arms = get_args(bare)
    kept = tuple(_drop_input_requests(arm) for arm in arms if not _is_input_request_type(arm))
    if not kept or (len(kept) == len(arms) and all(map(operator.is_, kept, arms))):
        return annotation
    union = Union.__getitem__(kept)
    return Annotated[(union, *metadata)] if metadata else union


def _is_input_request_type(annotation: Any) -> bool:
    bare, _ = unwrap_annotation(annotation)
    return isinstance(bare, type) and issubclass(bare, sys.modules["mcp_types"].InputRequiredResult)


def to_object_schema(schema: JsonObject) -> JsonObject:
    """Return an output schema of MCP, whose root may be anything since 2026-07-28, as the schema of an object.

    A root that only objects fit gets their type. Another one becomes that of the one property `result`.
    """
    if describes_object(schema):
        return {**schema, "type": "object"}
    inner = {key: value for key, value in copy.deepcopy(schema).items() if key != "$id"}  # a part has none
    _redirect_refs(inner)
    shared = {key: inner.pop(key) for key in _SHARED_KEYWORDS if key in inner}
    return {**wrap_result(inner), **shared}


def describes_object(schema: JsonObject) -> bool:
    """Return whether only objects fit a schema, as far as its root says it."""
    is_untyped_object = "properties" in schema and "type" not in schema
    return is_untyped_object or _fits_only_objects(schema, ReferenceTargets(schema), frozenset())


def _fits_only_objects(node: Any, targets: ReferenceTargets, seen: frozenset[str]) -> bool:
    if not isinstance(node, dict) or "type" in node:
        return isinstance(node, dict) and node["type"] == "object"
    reference = node.get("$ref")
    if isinstance(reference, str):
        return reference not in seen and _fits_only_objects(targets.find(reference), targets, seen | {reference})
    unions = [node[key] for key in ("anyOf", "oneOf") if isinstance(node.get(key), list)]
    return any(union and all(_fits_only_objects(part, targets, seen) for part in union) for union in unions)


def _redirect_refs(schema: JsonObject) -> None:
    """Let the references in a root lead to the same places when it is the property `result`; in place."""
    pending = [schema]
    while pending:
        node = pending.pop()
        reference = str(node.get("$ref"))
        is_shared = reference.startswith(_SHARED_PREFIXES)
        if not is_shared and (reference == "#" or reference.startswith("#/")):
            node["$ref"] = f"#/properties/result{reference[1:]}"
        pending.extend(part for part in iter_subschemas(node) if "$id" not in part)
