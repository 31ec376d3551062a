"""Raw output: a result whose value is the very object that the tool returned, with what models read of it."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from inspect import Signature
from typing import Any, Final, Self

from ahvn_tools.encoders.loaded_classes import block_classes, media_classes
from ahvn_tools.encoders.registry import find_encoder
from ahvn_tools.encoders.rendering import Rendering
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import INVALID_RESULT, InvalidResultError
from ahvn_tools.results import (
    ToolResult,
    find_input_request,
    input_required_error,
    raw_result,
    result_classes,
)
from ahvn_tools.schema.annotations import unwrap_annotation
from ahvn_tools.schema.output import Output
from ahvn_tools.schema.result_type import convert_content, is_value_alone

Render = Callable[[Any], Any]
"""Returns what models read of a value: a text, a content block or a list of these; sync or async."""

_RENDER_RETURNS: Final = "return a text, a content block or a list of these"


class RawOutput(Output):
    """What a tool with `output="raw"` returns. Any object fits, and there is no output schema."""

    is_raw = True

    def __init__(self, annotation: Any, *, render: Render | None = None, is_stream: bool = False) -> None:
        """Without `render`, models read the JSON form of a value, if it has one."""
        super().__init__(annotation, is_stream=is_stream, is_open=True)
        self._render = render
        self._converts = True
        self._has_items = is_stream or self._item.annotation is not Signature.empty
        self.is_async = _is_async(render)

    @property
    def is_unreadable(self) -> bool:  # type: ignore[override]  # computed here
        """Whether models can read no result: its type has no JSON form, and nothing renders it."""
        kind, _ = unwrap_annotation(self._whole.annotation)
        if self._render is not None or self._whole.may_have_json_form or not isinstance(kind, type):
            return False
        return find_encoder(kind) is None and not issubclass(kind, (ToolResult, *_content_classes(), *result_classes()))

    def to_result(self, returned: Any) -> ToolResult:
        """Return the result with the returned object itself as its value, and with what models read of it.

        Raises InvalidResultError for a `render` that fails or returns anything but content, InputRequiredError when
        the tool asks for input.
        """
        return self._to_result(returned)

    def to_chunk(self, item: Any) -> ToolResult:
        """Return the result of one item of a stream, an error result if `render` fails."""
        try:
            result = self._to_result(item, is_item=True)
        except InvalidResultError as error:
            result = ToolResult(error=ErrorDetail(code=error.code, message=error.message).hold(error))
        return replace(result, meta=dict(result.meta), is_last=False)

    def for_value(self) -> Output:
        """Return the output for a caller that reads only the value of a result: it converts nothing for models.

        A `render` is called nevertheless, so that all ways to call a tool fail if it fails.
        """
        if self._render is not None:
            return self
        output = copy.copy(self)
        output._converts = False  # noqa: SLF001  # of this class
        return output

    def parts_to_render(self, returned: Any, *, is_item: bool = False) -> list[Any]:
        """Return what `render` is called with: the value, or each item of a generator; nothing for what is content."""
        value = returned.value if isinstance(returned, ToolResult) else returned
        if self._render is None or (value is not returned and not is_value_alone(returned)):
            return []
        return [] if _is_made(value) else self._parts(value, is_item=is_item)

    def _parts(self, value: Any, *, is_item: bool) -> list[Any]:
        return value if self._has_items and not is_item and type(value) is list else [value]

    async def arender(self, value: Any) -> Any:
        """Return what an async `render` makes of a value."""
        return None if self._render is None else await self._render(value)

    def with_rendered(self, rendered: Iterator[Callable[[], Any]]) -> Self:
        """Return the output for one value whose parts were rendered before: each function returns or raises that."""
        output = copy.copy(self)
        output.is_async = False
        output._render = lambda _: next(rendered)()  # noqa: SLF001  # of this class
        return output

    def _to_result(self, returned: Any, *, is_item: bool = False) -> ToolResult:
        if not isinstance(returned, ToolResult):
            return self._to_raw_result(returned, is_item=is_item)
        if not is_value_alone(returned):
            return returned
        made = self._to_raw_result(returned.value, is_item=is_item)
        return replace(made, meta={**made.meta, **returned.meta}, id=returned.id)

    def _to_raw_result(self, value: Any, *, is_item: bool) -> ToolResult:
        if (request := find_input_request(value)) is not None:
            raise input_required_error(request)
        if isinstance(value, result_classes()):
            return convert_content(value)
        if self._render is None:
            return self._to_json_result(value, is_item=is_item)
        contents = [_render(self._render, part) for part in self._parts(value, is_item=is_item)]
        if len(contents) == 1 and isinstance(contents[0], str):
            return ToolResult(value, rendering=Rendering(value, contents[0]))
        made = convert_content([block for part in contents for block in (part if isinstance(part, list) else [part])])
        return raw_result(value, made)

    def _to_json_result(self, value: Any, *, is_item: bool) -> ToolResult:
        """Return the result of a value of which models read the JSON form, or the content that it is."""
        if not self._converts:
            return ToolResult(value)
        try:
            made = (self._item if is_item else self._whole).convert(value)
        except InvalidResultError as error:  # kept without its traceback, which would keep the frames of the call
            unreadable = InvalidResultError(error.message, explanation=error.explanation)
            return ToolResult(value, rendering=Rendering(value, unreadable))
        return raw_result(value, made)


def _render(render: Render, value: Any) -> str | list[Any]:
    """Return what `render` makes of a value. Raises InvalidResultError if it fails or returns anything but content."""
    try:
        rendered = render(value)
    except Exception as error:
        raise _render_error(f"raised {type(error).__name__}: let it {_RENDER_RETURNS}") from error
    if isinstance(rendered, str):
        return rendered
    if inspect.iscoroutine(rendered):
        rendered.close()
        raise _render_error("returned a coroutine: write it as an `async def` function")
    parts = list(rendered) if isinstance(rendered, list | tuple) else [rendered]
    for part in parts:
        if not isinstance(part, (str, *_content_classes())):
            raise _render_error(f"returned a {type(part).__name__}: let it {_RENDER_RETURNS}")
    return parts


def _is_made(value: Any) -> bool:
    """Return whether a value is a result, or a request for input, of MCP or FastMCP."""
    return isinstance(value, result_classes()) or find_input_request(value) is not None


def _content_classes() -> tuple[Any, ...]:
    return (*block_classes(), *media_classes())


def _render_error(problem: str) -> InvalidResultError:
    return InvalidResultError(INVALID_RESULT, explanation=f"The `render` function of the tool {problem}.")


def _is_async(render: Render | None) -> bool:
    call = getattr(type(render), "__call__", None)  # noqa: B004  # of an instance that is called like a function
    return inspect.iscoroutinefunction(render) or inspect.iscoroutinefunction(call)
