"""ToolCall and ToolResult: one call as a value, and what came of it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic_core import to_json, to_jsonable_python

if TYPE_CHECKING:
    from mcp_types import CallToolResult

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, default=str)


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """One call that a model asks for."""

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    provider: dict[str, Any] = field(default_factory=dict)
    """What the provider sent along and wants echoed."""
    error: str | None = None
    """Why the call cannot be run, in words for the model: its arguments could not be read. None: it can."""
    wire_name: str | None = None
    """The name that the provider used, where a format read the call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorDetail:
    """Why a call failed: a stable `code` and a text that is safe to show to a model.

    What UTF-8 cannot write (an undecodable file name has it) is spelled out: whoever sends the text can write it.
    """

    code: str
    message: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", self.message.encode("utf-8", "backslashreplace").decode())


@dataclass(frozen=True, init=False)
class ToolResult:
    """What came of one call: the value, or the error, in the forms that its readers want.

    A stream is made of these too: chunks with `is_last=False`, then one with `is_last=True` and the whole value.
    """

    value: Any = None
    """What `call()` returns: the JSON form of what the tool returned."""
    structured_content: dict[str, Any] | None = None
    """The object that MCP carries; `{"result": value}` where the output schema wraps."""
    error: ErrorDetail | None = None
    meta: dict[str, Any] = field(default_factory=dict)
    """`duration` in seconds, and what middleware adds."""
    is_last: bool = True
    is_interrupted: bool = False
    id: str | None = None
    """The id of the call that this answers."""
    blocks: tuple[Any, ...] | None = field(default=None, repr=False)
    """MCP content blocks that the tool itself made; None: they are made from the value when `content` is read."""

    def __init__(  # noqa: PLR0917  # the fields in their order, as a dataclass takes them
        self,
        value: Any = None,
        structured_content: dict[str, Any] | None = None,
        error: ErrorDetail | None = None,
        meta: dict[str, Any] | None = None,
        is_last: bool = True,
        is_interrupted: bool = False,
        id: str | None = None,  # noqa: A002  # the field's name
        blocks: tuple[Any, ...] | None = None,
    ) -> None:
        """Set what differs from the class's defaults: one is made per call, the generated way takes twice as long."""
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
        """The result as text: the error's message, a text value as it is, anything else as JSON."""
        if self.error is not None:
            return self.error.message
        try:
            return _to_text(self.value)
        except (RecursionError, ValueError):  # a tool's own ToolResult may hold a circle, or be too deep
            return f"<{type(self.value).__name__}>"

    @property
    def content(self) -> list[Any]:
        """MCP content blocks: the tool's own, or one text made from the value; none for None."""
        if self.blocks is not None:
            return list(self.blocks)
        if self.value is None and self.error is None:
            return []
        from mcp_types import TextContent

        return [TextContent(type="text", text=self.text)]

    def as_final_result(self, id: str) -> Self:  # noqa: A002  # the field's name
        """Return this as the last result of the call of that id. Every call of a chain gets one: `replace` is slow."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, id=id, is_last=True)
        return made

    def to_mcp(self) -> CallToolResult:
        """Return MCP's form of this result, as a server sends it: an error where there is none."""
        from mcp_types import CallToolResult

        sent = to_sendable(self)
        return CallToolResult(
            content=sent.content,
            structured_content=sent.structured_content,
            is_error=sent.is_error,
            _meta=sent.meta or None,
        )


def to_sendable(result: ToolResult) -> ToolResult:
    """Return a result that can be written as JSON in UTF-8: the given one, or an error result in its place."""
    if _is_serializable(result):
        return result
    error = result.error or ErrorDetail(
        code="invalid_result",
        message="The tool returned what cannot be sent; return JSON-able data, with texts that UTF-8 can write.",
    )
    meta = {key: part for key, part in result.meta.items() if _is_serializable(ToolResult(meta={key: part}))}
    return ToolResult(error=error, meta=meta)


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else _ENCODER.encode(value)


def _is_serializable(result: ToolResult) -> bool:
    try:
        content = result.content if result.blocks is not None or result.is_error else _to_text(result.value)
        to_json((content, result.structured_content, result.meta))
    except Exception:  # noqa: BLE001  # a value of a class of its own may raise anything
        return False
    return True


def has_content(value: object) -> bool:
    """Tell whether a value is content to be passed on as it is, or a list with content in it.

    Content is an MCP block, FastMCP's media and its ToolResult, MCP's CallToolResult, and in a list a ToolResult of
    ours. Nothing is imported for the answer: a value of a class that no one has imported cannot exist.
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
    shown = structured if structured is not None else (text if text is not None else list(blocks) or None)
    return ToolResult(
        value=None if error else shown,
        structured_content=structured,
        error=error,
        meta=dict(value.meta or {}) if is_result else {},
        blocks=blocks,
    )


def item_value(item: Any) -> Any:
    """Return what an item of a stream adds to the list of all items: the value of a result, else the item itself."""
    if isinstance(item, _result_kinds()):
        item = result_from_content(item)
    return item.value if isinstance(item, ToolResult) else item


def join_text_blocks(blocks: tuple[Any, ...]) -> str | None:
    """Return the text of text blocks, joined by newlines; None when a block is no text (or there is none)."""
    texts = [getattr(block, "text", None) if getattr(block, "type", None) == "text" else None for block in blocks]
    return "\n".join(str(text) for text in texts) if texts and None not in texts else None


def _to_blocks(value: Any) -> tuple[Any, ...]:
    """Return one piece of content as blocks; a result gives its own."""
    if _is_result(value):
        return tuple(value.content)
    if isinstance(value, _block_kinds()):
        return (value,)
    for method in ("to_image_content", "to_audio_content", "to_resource_content"):
        if hasattr(value, method):
            return (getattr(value, method)(),)
    from mcp_types import TextContent

    text = value if isinstance(value, str) else json.dumps(to_jsonable_python(value), ensure_ascii=False)
    return (TextContent(type="text", text=text),)


def _is_result(value: object) -> bool:
    return isinstance(value, (ToolResult, *_result_kinds()))


def _block_kinds() -> tuple[Any, ...]:
    return _loaded_classes(
        "mcp_types", ("TextContent", "ImageContent", "AudioContent", "ResourceLink", "EmbeddedResource")
    )


def _media_kinds() -> tuple[Any, ...]:
    return _loaded_classes("fastmcp.utilities.types", ("Image", "Audio", "File"))


def _result_kinds() -> tuple[Any, ...]:
    return (*_loaded_classes("mcp_types", ("CallToolResult",)), *_loaded_classes("fastmcp.tools.base", ("ToolResult",)))


def _loaded_classes(module: str, names: tuple[str, ...]) -> tuple[Any, ...]:
    found = sys.modules.get(module)
    return tuple(getattr(found, name) for name in names if hasattr(found, name)) if found is not None else ()
