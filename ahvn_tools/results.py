"""ToolCall and ToolResult: a model's call and its result, as values."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic_core import to_json, to_jsonable_python

from ahvn_tools.json_types import JsonObject

if TYPE_CHECKING:
    from mcp_types import CallToolResult

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, default=str)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorDetail:
    """Why a call failed: a stable `code`, and a message that may be sent to a model.

    Characters that UTF-8 cannot encode, as in an undecodable file name, are escaped.
    """

    code: str
    message: str
    mcp_response: Any = field(default=None, repr=False, compare=False)
    """What a client of a served toolkit receives instead: MCP's InputRequiredResult, or an MCPError."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", self.message.encode("utf-8", "backslashreplace").decode())


@dataclass(frozen=True, init=False)
class ToolResult:
    """The result of one call: its value or its error, in every form that a reader needs.

    A stream consists of these as well: chunks with `is_last=False`, then one with `is_last=True` and the whole value.
    """

    value: Any = None
    """What `call()` returns: the JSON form of the tool's return value."""
    structured_content: JsonObject | None = None
    """MCP's structured content; `{"result": value}` if the output schema wraps the value."""
    error: ErrorDetail | None = None
    meta: JsonObject = field(default_factory=dict)
    """`duration` in seconds, and entries of middleware."""
    is_last: bool = True
    is_interrupted: bool = False
    id: str | None = None
    """The id of the call."""
    blocks: tuple[Any, ...] | None = field(default=None, repr=False)
    """The tool's own MCP content blocks; None: `content` makes them from the value."""

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
    ) -> None:
        """Set the fields that differ from their defaults: twice as fast as a generated `__init__`."""
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
        if blocks is not None:
            fields["blocks"] = blocks

    @property
    def is_error(self) -> bool:
        """Whether the call failed."""
        return self.error is not None

    @property
    def text(self) -> str:
        """The result as text: the error's message, a str value unchanged, any other value as JSON."""
        if self.error is not None:
            return self.error.message
        try:
            return _to_text(self.value)
        except (RecursionError, ValueError):  # a tool's own ToolResult may be circular or too deep
            return f"<{type(self.value).__name__}>"

    @property
    def content(self) -> list[Any]:
        """MCP content blocks: the tool's own, or one text block made from the value; empty for None."""
        if self.blocks is not None:
            return list(self.blocks)
        return [] if self.value is None and self.error is None else [text_block(self.text)]

    def as_final_result(self, id: str) -> Self:  # noqa: A002  # the field's name
        """Return a copy as the last result of the call with that id; faster than `dataclasses.replace`."""
        result = object.__new__(type(self))
        result.__dict__.update(self.__dict__, id=id, is_last=True)
        return result

    def to_mcp(self) -> CallToolResult:
        """Return the result as MCP's CallToolResult; an error result if it cannot be sent as JSON."""
        from mcp_types import CallToolResult

        sendable = to_sendable(self)
        return CallToolResult(
            content=sendable.content,
            structured_content=sendable.structured_content,
            is_error=sendable.is_error,
            _meta=sendable.meta or None,
        )


def to_sendable(result: ToolResult) -> ToolResult:
    """Return the result, or an error result if it cannot be encoded as JSON in UTF-8."""
    if _is_serializable(result):
        return result
    error = result.error or ErrorDetail(
        code="invalid_result",
        message="The tool returned a value that cannot be sent: it must have a JSON form, with text valid in UTF-8.",
    )
    meta = {key: part for key, part in result.meta.items() if _is_serializable(ToolResult(meta={key: part}))}
    return ToolResult(error=error, meta=meta)


def has_content(value: object) -> bool:
    """Return whether a value is MCP or FastMCP content that is passed on unchanged, or a list that contains some.

    Content is an MCP block, FastMCP's media and its ToolResult, MCP's CallToolResult, and in a list also our
    ToolResult. Nothing is imported for this: there is no value of a class that is not imported.
    """
    kinds = (*_block_kinds(), *_media_kinds(), *_result_kinds())
    if isinstance(value, list | tuple):
        return any(isinstance(item, (ToolResult, *kinds)) for item in value)
    return isinstance(value, kinds)


def result_from_content(value: Any) -> ToolResult:
    """Return the result of content: a block, FastMCP's media or ToolResult, MCP's CallToolResult, a list of these."""
    is_result = isinstance(value, _result_kinds())
    structured = value.structured_content if is_result else None
    parts = value if isinstance(value, list | tuple) else [value]
    blocks = tuple(block for part in parts for block in _to_blocks(part))
    text = join_text_blocks(blocks)
    error = None
    if is_result and getattr(value, "is_error", False):
        error = ErrorDetail(code="tool_error", message=text or "The tool failed.")
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
    if isinstance(value, _loaded_classes("mcp_types", "InputRequiredResult")):
        return value
    is_wrapped = isinstance(value, _loaded_classes("fastmcp.tools.base", "InputRequiredToolResult"))
    return value.input_required if is_wrapped else None


def item_value(item: Any) -> Any:
    """Return what an item of a stream adds to the list of all items: the value of a result, or the item itself."""
    if isinstance(item, _result_kinds()):
        item = result_from_content(item)
    return item.value if isinstance(item, ToolResult) else item


def join_text_blocks(blocks: tuple[Any, ...]) -> str | None:
    """Return the text of text blocks, joined by newlines; None if there is another block or none."""
    texts = [getattr(block, "text", None) if getattr(block, "type", None) == "text" else None for block in blocks]
    return "\n".join(str(text) for text in texts) if texts and None not in texts else None


def text_block(text: str) -> Any:
    """Return an MCP text block."""
    from mcp_types import TextContent

    return TextContent(type="text", text=text)


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else _ENCODER.encode(value)


def _is_serializable(result: ToolResult) -> bool:
    try:
        if _is_text_alone(result):
            result.value.encode()
            return not result.meta or bool(to_json(result.meta))
        content = result.content if result.blocks is not None or result.is_error else _to_text(result.value)
        to_json((content, result.structured_content, result.meta))
    except Exception:  # noqa: BLE001  # a value of a foreign class may raise anything
        return False
    return True


def _is_text_alone(result: ToolResult) -> bool:
    """Return whether a result is only a text, which is JSON if UTF-8 can encode it: much faster than encoding JSON."""
    if type(result.value) is not str or result.blocks is not None or result.is_error:
        return False
    structured = result.structured_content
    return structured is None or (len(structured) == 1 and structured.get("result") is result.value)


def _to_blocks(value: Any) -> tuple[Any, ...]:
    results: tuple[Any, ...] = (ToolResult, *_result_kinds())
    if isinstance(value, results):
        return tuple(value.content)
    if isinstance(value, _block_kinds()):
        return (value,)
    for method in ("to_image_content", "to_audio_content", "to_resource_content"):
        if hasattr(value, method):
            return (getattr(value, method)(),)
    text = value if isinstance(value, str) else json.dumps(to_jsonable_python(value), ensure_ascii=False)
    return (text_block(text),)


def _block_kinds() -> tuple[Any, ...]:
    return _loaded_classes(
        "mcp_types", "TextContent", "ImageContent", "AudioContent", "ResourceLink", "EmbeddedResource"
    )


def _media_kinds() -> tuple[Any, ...]:
    return _loaded_classes("fastmcp.utilities.types", "Image", "Audio", "File")


def _result_kinds() -> tuple[Any, ...]:
    return _loaded_classes("mcp_types", "CallToolResult") + _loaded_classes("fastmcp.tools.base", "ToolResult")


def _loaded_classes(module: str, *names: str) -> tuple[Any, ...]:
    """Return the classes of a module, or none if it is not imported."""
    loaded = sys.modules.get(module)
    return tuple(getattr(loaded, name) for name in names if hasattr(loaded, name))
