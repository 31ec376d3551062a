"""ToolCall and ToolResult: a model's call and its result, as values."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pydantic_core import to_json

from ahvn_tools.encoders.loaded_classes import block_classes, loaded_classes, media_classes
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import InputRequiredError, InvalidResultError
from ahvn_tools.json_types import JsonObject

if TYPE_CHECKING:
    from mcp_types import CallToolResult

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)

MaybeNone: TypeAlias = Any
"""None in some cases that a type checker cannot distinguish from the others."""

_NUMBER_TYPES: Final = frozenset({int, float})
_PLAIN_TYPES: Final = frozenset({str, int, float, bool, type(None), bytes, dict, list, tuple})

DIRECT: Final = "direct"
"""The caller of a call that the model makes itself."""

PROGRAMMATIC: Final = "programmatic"
"""The caller of a call that a program makes which the model has written."""

UNSENDABLE: Final = "The tool returned a value that cannot be sent."
"""What a model reads of a result without a JSON form, or with text that UTF-8 cannot encode."""


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """One call that a model requests."""

    id: str
    name: str
    arguments: JsonObject = field(default_factory=dict)
    provider: JsonObject = field(default_factory=dict)
    """Data of the provider that its answer must contain."""
    error: str | None = None
    """Why the call cannot run, as a text for the model: its arguments are unreadable. None: it can run."""
    wire_name: str | None = None
    """The name that the provider used, if a format parsed the call."""
    format: str | None = field(default=None, compare=False)
    """The format that parsed the call: `provider` is data of that format. None for any other call."""

    @property
    def caller(self) -> str:
        """Who calls: `"direct"`, the model; `"programmatic"`, its program in the provider's sandbox.

        A caller that this package does not know is the provider's word for it.
        """
        caller = self.provider.get("caller")
        kind = caller.get("type") if isinstance(caller, dict) else caller
        if kind is None and caller:  # an object that does not say its type
            kind = caller
        if kind is None or kind == DIRECT:
            return DIRECT
        return PROGRAMMATIC if kind == "program" or str(kind).startswith("code_execution_") else str(kind)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rendering:
    """What models read instead of a raw value."""

    value: Any
    """The raw value."""
    content: Any
    """A text, JSON data, a list of content blocks; or the InvalidResultError about a value that models cannot read."""
    blocks: tuple[Any, ...] | None = None
    """The content blocks that belong to it, if any."""

    def is_of(self, value: Any) -> bool:
        """Return whether this is the rendering of a value: of that object, or of an equal number (pickles copy it)."""
        kind = type(value)
        return self.value is value or (kind in _NUMBER_TYPES and type(self.value) is kind and self.value == value)


@dataclass(frozen=True, init=False)
class ToolResult:
    """The result of one call: its value or its error, in every form that a reader needs.

    A stream consists of these as well: chunks with `is_last=False`, then one with `is_last=True` and the whole value.

    `dataclasses.replace(result, value=…)` makes the structured content and the blocks again from the new value, unless
    it replaces them as well.
    """

    value: Any = None
    """What `call()` returns: the JSON form of the tool's return value; of a tool with `output="raw"`, that object.

    Of a generator that failed, timed out or was cancelled: the list of its items so far, for the host.
    """
    structured_content: JsonObject | None = None
    """MCP's structured content; `{"result": value}` if the output schema wraps the value."""
    error: ErrorDetail | MaybeNone = None
    """What went wrong; None where `is_error` is False. Type checkers do not ask for a check after `is_error`."""
    meta: JsonObject = field(default_factory=dict)
    """`duration` in seconds, and entries of middleware."""
    is_last: bool = True
    is_interrupted: bool = False
    id: str | None = None
    """The id of the call."""
    blocks: tuple[Any, ...] | None = field(default=None, repr=False)
    """The tool's own MCP content blocks; None: `content` makes them from the value."""
    _is_unwrapped: bool = field(default=False, repr=False)
    """Whether `value` is that of the only property of `structured_content`, which models read as a whole."""
    _rendering: Rendering | None = field(default=None, repr=False, compare=False)
    """What models read instead of a raw `value`. It no longer counts where a middleware has replaced the value."""
    _original: InitVar[Any] = None
    """`dataclasses.replace` passes it: `_keep_shown` of the result that it replaces; None: no other result."""

    def __init__(  # noqa: PLR0917  # the fields in their order, as in a generated __init__
        self,
        value: Any = None,
        structured_content: JsonObject | None = None,
        error: ErrorDetail | None = None,
        meta: JsonObject | None = None,
        is_last: bool = True,
        is_interrupted: bool = False,
        id: str | None = None,  # noqa: A002  # the field's name
        blocks: tuple[Any, ...] | None = None,
        _is_unwrapped: bool = False,
        _rendering: Rendering | None = None,
        _original: Any = None,
    ) -> None:
        """Set the fields that differ from their defaults: twice as fast as a generated `__init__`."""
        if _original is not None:
            structured_content, blocks, is_same = _original(value, error, structured_content, blocks)
            _is_unwrapped, _rendering = _is_unwrapped and is_same, _rendering if is_same else None
        fields = self.__dict__
        fields["value"] = value
        fields["structured_content"] = structured_content
        fields["meta"] = {} if meta is None else meta
        if error is not None:
            fields["error"] = error
        if not is_last:
            fields["is_last"] = is_last
        if is_interrupted:
            fields["is_interrupted"] = is_interrupted
        if id is not None:
            fields["id"] = id
        if _rendering is not None:
            fields["_rendering"] = _rendering
        if blocks is not None:
            fields["blocks"] = blocks
        if _is_unwrapped:
            fields["_is_unwrapped"] = _is_unwrapped

    def _keep_shown(
        self, value: Any, error: Any, structured_content: JsonObject | None, blocks: tuple[Any, ...] | None
    ) -> tuple[JsonObject | None, tuple[Any, ...] | None, bool]:
        """Return the structured content and the blocks of the result that replaces this one, without the old value.

        Also return whether its value is the same.
        """
        is_same = value is self.value
        if is_same and (error is None or error is self.error):
            return structured_content, blocks, True
        if structured_content is not None and structured_content is self.structured_content:
            structured_content = None if is_same else _restructure(self, structured_content, value)
        return structured_content, None if blocks is self.blocks else blocks, is_same

    @property
    def is_error(self) -> bool:
        """Whether the call failed."""
        return self.error is not None

    @property
    def exception(self) -> BaseException | None:
        """What `call` would have raised, with its traceback, for the host; None after success and in another process.

        No repr, pickle or JSON form of the result contains it. Its text and its traceback may show secrets and bound
        values: never send them to a model.
        """
        return None if self.error is None else self.error.exception

    @property
    def text(self) -> str:
        """The result as text: the error's message, a str value unchanged, any other value as JSON.

        Where `value` is only a part of the object that the tool returned, it is the JSON of the whole object. Content
        is its texts, with the type of each block that is none. Of a raw value it is the rendering.
        """
        if self.error is not None:
            return self.error.message
        whole = whole_value(self)
        if self.blocks is not None and isinstance(whole, list) and whole == list(self.blocks):
            return "\n".join(map(describe_block, self.blocks))
        try:
            return to_text(whole)
        except InvalidResultError:
            return UNSENDABLE

    @property
    def is_raw(self) -> bool:
        """Whether `value` is an object for the host, and models read a rendering of it."""
        return self._rendering is not None and self._rendering.is_of(self.value)

    @property
    def content(self) -> list[Any]:
        """MCP content blocks: the tool's own, or one text block made from the value; empty for None.

        Of an error it is a block with the message, and the tool's images and audio.
        """
        if self.error is not None:
            return [text_block(self.error.message), *media_blocks(self.blocks)]
        if self.blocks is not None:
            return list(self.blocks)
        return [] if whole_value(self) is None else [text_block(self.text)]

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the error, or the value with its images."""
        from ahvn_tools import html  # only a notebook needs it

        if self.error is not None:
            return html.lines([f"{self.error.code}: {self.error.message}"])
        return html.lines([self.text] if self.blocks is None else map(html.block, self.blocks))

    def to_mcp(self) -> CallToolResult:
        """Return the result as MCP's CallToolResult; an error result if it cannot be sent as JSON."""
        from mcp_types import CallToolResult

        sendable = to_sendable(self)
        return CallToolResult(
            content=sendable.content,
            structured_content=sendable.structured_content,
            is_error=sendable.is_error,
            _meta=sent_meta(sendable) or None,
        )


setattr(ToolResult, "_original", ToolResult._keep_shown)  # noqa: B010, SLF001  # bound to the one that is replaced


def _restructure(original: ToolResult, structured_content: JsonObject, value: Any) -> JsonObject | None:
    """Return structured content of the same form with another value; None if there is none."""
    from ahvn_tools.encoders.registry import to_json_form

    try:
        form = to_json_form(value)
    except InvalidResultError:  # a text for the model says so
        return None
    members = list(structured_content.items())
    if len(members) == 1 and (members[0][1] is original.value or members[0][1] == original.value):
        return {members[0][0]: form}
    return form if isinstance(form, dict) else None


def whole_value(result: ToolResult) -> Any:
    """Return the value of a result as models read it.

    Of a raw value it is the rendering, or the InvalidResultError about a value that models cannot read; where `value`
    is that of an only property, it is the whole object.
    """
    rendering = result._rendering  # noqa: SLF001  # of this module
    if rendering is not None and rendering.is_of(result.value):
        return rendering.content
    structured = result.structured_content
    if structured is None or not result._is_unwrapped:  # noqa: SLF001  # of this module
        return result.value
    is_part = any(part is result.value or part == result.value for part in structured.values())
    return structured if is_part else result.value  # a middleware may have replaced the value


def to_final_result(result: ToolResult, id: str) -> ToolResult:  # noqa: A002  # the field's name
    """Return a copy as the last result of the call with that id; faster than `dataclasses.replace`."""
    copied = object.__new__(type(result))
    copied.__dict__.update(result.__dict__, id=id, is_last=True)
    return copied


def as_readable(result: ToolResult) -> ToolResult:
    """Return the result, or an error result if no model can read it: its value has no JSON form."""
    if result.error is not None:
        return result
    try:
        to_text(whole_value(result) if result.blocks is None else result.structured_content)
    except InvalidResultError as error:
        _warn("A result cannot be sent to a model. %s", error)
        return replace(result, error=ErrorDetail(code=error.code, message=UNSENDABLE).hold(error))
    return result


def sent_meta(result: ToolResult) -> JsonObject:
    """Return the `meta` of a result for a message of MCP: without what was measured here, for the host."""
    return {key: part for key, part in result.meta.items() if key != "duration"}


def to_sendable(result: ToolResult) -> ToolResult:
    """Return the result as JSON in UTF-8 can carry it: U+FFFD replaces a lone surrogate; else an error result."""
    if _is_serializable(result):
        return result
    repaired = _without_surrogates(result)
    if _is_serializable(repaired):
        return repaired
    if result.error is None:
        _warn("A tool returned a value that cannot be sent: it must have a JSON form, with text valid in UTF-8.")
    error = result.error or ErrorDetail(code="invalid_result", message=UNSENDABLE)
    meta = {key: part for key, part in result.meta.items() if _is_serializable(ToolResult(meta={key: part}))}
    return ToolResult(error=error, meta=meta)


def raw_result(value: Any, shown: ToolResult) -> ToolResult:
    """Return the result of a raw value; models read what `shown` says, which is no error."""
    return ToolResult(value, blocks=shown.blocks, _rendering=Rendering(value, shown.value, shown.blocks))


def unfinished_result(
    value: Any, error: ErrorDetail, *, is_raw: bool, meta: JsonObject | None = None, is_interrupted: bool = False
) -> ToolResult:
    """Return the error result of a body that did not finish; only the host reads its `value`, the items so far."""
    rendering = Rendering(value, InvalidResultError(error.message)) if is_raw else None
    return ToolResult(value, error=error, meta=meta, is_interrupted=is_interrupted, _rendering=rendering)


def without_raw_value(result: ToolResult) -> ToolResult:
    """Return a raw result with what models read as its value; an error result if they cannot read it."""
    if not result.is_raw:
        return result
    readable = as_readable(result)
    value = None if readable.error is not None else whole_value(result)
    return replace(readable, value=value, _rendering=None, _original=None)


def has_content(value: object) -> bool:
    """Return whether a value is MCP or FastMCP content that is passed on unchanged, or a list that contains some.

    Content is an MCP block, FastMCP's media and its ToolResult, MCP's CallToolResult, and in a list also our
    ToolResult. Nothing is imported for this: there is no value of a class that is not imported.
    """
    kinds = (*block_classes(), *media_classes(), *result_classes())
    if isinstance(value, list | tuple):
        return any(isinstance(item, (ToolResult, *kinds)) for item in value)
    return isinstance(value, kinds)


def result_from_content(value: Any) -> ToolResult:
    """Return the result of content: a block, FastMCP's media or ToolResult, MCP's CallToolResult, a list of these."""
    is_result = isinstance(value, result_classes())
    structured = value.structured_content if is_result else None
    parts = value if isinstance(value, list | tuple) else [value]
    blocks = tuple(block for part in parts for block in _to_blocks(part))
    text = join_text_blocks(blocks)
    error = None
    if is_result and getattr(value, "is_error", False):
        error = ErrorDetail(code="tool_error", message=join_texts(blocks) or "The tool failed.")
    visible = structured if structured is not None else (text if text is not None else list(blocks) or None)
    return ToolResult(
        value=None if error else visible,
        structured_content=structured,
        error=error,
        meta=dict(value.meta or {}) if is_result else {},
        blocks=blocks,
    )


def find_input_request(value: Any) -> Any:
    """Return the InputRequiredResult of MCP that a value is, or that FastMCP has put into its own; None otherwise."""
    if isinstance(value, loaded_classes("mcp_types", "InputRequiredResult")):
        return value
    is_wrapped = isinstance(value, loaded_classes("fastmcp.tools.base", "InputRequiredToolResult"))
    return value.input_required if is_wrapped else None


def input_required_error(request: Any) -> InputRequiredError:
    """Return the error of a tool that asks for input."""
    error = InputRequiredError("The tool asks for input that only a client of a served toolkit can provide.")
    error.mcp_response = request
    return error


def item_value(item: Any) -> Any:
    """Return what an item of a stream adds to the list of all items: the value of a result, or the item itself.

    Raises InputRequiredError for a request for input: it ends the call, as one that is returned does.
    """
    if type(item) in _PLAIN_TYPES:
        return item
    if (request := find_input_request(item)) is not None:
        raise input_required_error(request)
    if isinstance(item, result_classes()):
        item = result_from_content(item)
    return item.value if isinstance(item, ToolResult) else item


def join_text_blocks(blocks: tuple[Any, ...]) -> str | None:
    """Return the text of text blocks, joined by newlines; None if there is another block or none."""
    texts = [getattr(block, "text", None) if getattr(block, "type", None) == "text" else None for block in blocks]
    return "\n".join(str(text) for text in texts) if texts and None not in texts else None


def join_texts(blocks: Iterable[Any]) -> str:
    """Return what blocks of an error say: texts, embedded texts, and what each link refers to."""
    lines = []
    for block in blocks:
        text = getattr(getattr(block, "resource", block), "text", None)
        if text is None and getattr(block, "type", None) == "resource_link":
            text = describe_link(block)
        lines += [] if text is None else [str(text)]
    return "\n".join(lines)


def media_blocks(blocks: Iterable[Any] | None) -> tuple[Any, ...]:
    """Return the blocks that are images or audio."""
    return tuple(block for block in blocks or () if getattr(block, "type", None) in {"image", "audio"})


def describe_block(block: Any) -> str:
    """Return the text of a content block, or its type if it has none."""
    if block.type == "resource_link":
        return describe_link(block)
    return str(getattr(getattr(block, "resource", block), "text", f"[{block.type}]"))


def describe_link(block: Any) -> str:
    """Return what a model reads of a resource to which a tool refers."""
    about = block.description or block.title
    media_type = f" ({block.mime_type})" if block.mime_type else ""
    return f"[resource {block.name!r}{media_type} at {block.uri}{f': {about}' if about else ''}]"


def to_text(value: Any) -> str:
    """Return a str unchanged, any other value as JSON. Raises InvalidResultError for a value without a JSON form."""
    if isinstance(value, str):
        return value
    if isinstance(value, InvalidResultError):  # of a raw value: raised as a copy, since a result is read again
        raise InvalidResultError(value.message, explanation=value.explanation)
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):  # not JSON yet
        from ahvn_tools.encoders.registry import to_json_form

        json_form = to_json_form(value)
    return json_form if isinstance(json_form, str) else _ENCODER.encode(json_form)


def _warn(message: str, *arguments: object) -> None:
    """Log a warning; logging is imported here, and a fresh process starts faster without it."""
    import logging

    logging.getLogger(__name__).warning(message, *arguments)


def text_block(text: str) -> Any:
    """Return an MCP text block."""
    from mcp_types import TextContent

    return TextContent(type="text", text=text)


def _is_serializable(result: ToolResult) -> bool:
    try:
        if _is_text_alone(result):
            result.value.encode()
            return not result.meta or bool(to_json(result.meta))
        content = result.content if result.blocks is not None or result.is_error else to_text(whole_value(result))
        to_json((content, result.structured_content, result.meta))
    except Exception:  # noqa: BLE001  # a value of a foreign class may raise anything
        return False
    return True


def _without_surrogates(result: ToolResult) -> ToolResult:
    """Return a result with U+FFFD for each lone surrogate in its JSON data and its blocks of text."""
    if result.is_raw:
        return result
    try:
        return replace(
            result,
            value=_replace_surrogates(result.value),
            structured_content=_replace_surrogates(result.structured_content),
            blocks=None if result.blocks is None else tuple(map(_replace_surrogates, result.blocks)),
            meta=_replace_surrogates(result.meta),
            _original=None,
        )
    except RecursionError:
        return result


def _replace_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_replace_surrogates(name): _replace_surrogates(part) for name, part in value.items()}
    if isinstance(value, list):
        return list(map(_replace_surrogates, value))
    if isinstance(value, block_classes()) and isinstance(text := getattr(value, "text", None), str):
        return value.model_copy(update={"text": _replace_surrogates(text)})
    return value


def _is_text_alone(result: ToolResult) -> bool:
    """Return whether a result is only a text, which is JSON if UTF-8 can encode it: much faster than encoding JSON."""
    if type(result.value) is not str or result.blocks is not None or result.is_error or result.is_raw:
        return False
    structured = result.structured_content
    return structured is None or (len(structured) == 1 and structured.get("result") is result.value)


def _to_blocks(value: Any) -> tuple[Any, ...]:
    results: tuple[Any, ...] = (ToolResult, *result_classes())
    if isinstance(value, results):
        return tuple(value.content)
    if isinstance(value, block_classes()):
        return (value,)
    for method in ("to_image_content", "to_audio_content", "to_resource_content"):
        if hasattr(value, method):
            return (getattr(value, method)(),)
    return (text_block(to_text(value)),)


def result_classes() -> tuple[Any, ...]:
    """Return MCP's CallToolResult and FastMCP's ToolResult."""
    return loaded_classes("mcp_types", "CallToolResult") + loaded_classes("fastmcp.tools.base", "ToolResult")
