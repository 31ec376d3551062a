"""ToolCall and ToolResult: one call as a value, and what came of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_types import CallToolResult


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """One call that a model asks for."""

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    provider: dict[str, Any] = field(default_factory=dict)
    """What the provider sent along and wants echoed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorDetail:
    """Why a call failed: a stable `code` and a text that is safe to show to a model."""

    code: str
    message: str


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
        return self.value if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False, default=str)

    @property
    def content(self) -> list[Any]:
        """MCP content blocks: the tool's own, or one text made from the value; none for None."""
        if self.blocks is not None:
            return list(self.blocks)
        if self.value is None and self.error is None:
            return []
        from mcp_types import TextContent

        return [TextContent(type="text", text=self.text)]

    def to_mcp(self) -> CallToolResult:
        """Return MCP's form of this result, as a server sends it."""
        from mcp_types import CallToolResult

        return CallToolResult(
            content=self.content,
            structured_content=self.structured_content,
            is_error=self.is_error,
            _meta=self.meta or None,
        )


def has_content(value: object) -> bool:
    """Tell whether a value is content to be passed on as it is, or a list with content in it.

    Content is an MCP block, FastMCP's media and its ToolResult, and MCP's CallToolResult. Nothing is imported for the
    answer: a value of a class that no one has imported cannot exist.
    """
    kinds = _content_kinds()
    if not kinds:
        return False
    return isinstance(value, kinds) or (
        isinstance(value, list | tuple) and any(isinstance(item, kinds) for item in value)
    )


def from_content(value: Any) -> ToolResult:
    """Return the result of content: a block, FastMCP's media or ToolResult, MCP's CallToolResult, a list of blocks."""
    structured = getattr(value, "structured_content", None)
    parts = value if isinstance(value, list | tuple) else getattr(value, "content", None)
    blocks = tuple(_block(part) for part in (parts if isinstance(parts, list | tuple) else [value]))
    text = text_of(blocks)
    error = (
        ErrorDetail(code="tool_error", message=text or "The tool failed.")
        if getattr(value, "is_error", False)
        else None
    )
    shown = structured if structured is not None else (text if text is not None else list(blocks))
    meta = getattr(value, "meta", None)
    return ToolResult(
        value=None if error else shown,
        structured_content=structured,
        error=error,
        meta=dict(meta) if isinstance(meta, Mapping) else {},
        blocks=blocks,
    )


def text_of(blocks: tuple[Any, ...]) -> str | None:
    """Return the text of text blocks, joined by newlines; None when a block is no text (or there is none)."""
    texts = [getattr(block, "text", None) if getattr(block, "type", None) == "text" else None for block in blocks]
    return "\n".join(str(text) for text in texts) if texts and None not in texts else None


def _block(part: Any) -> Any:
    if isinstance(part, _loaded("mcp_types", _BLOCKS)):
        return part
    for method in ("to_image_content", "to_audio_content", "to_resource_content"):
        if hasattr(part, method):
            return getattr(part, method)()
    from mcp_types import TextContent

    return TextContent(
        type="text", text=part if isinstance(part, str) else json.dumps(part, ensure_ascii=False, default=str)
    )


_BLOCKS = ("TextContent", "ImageContent", "AudioContent", "ResourceLink", "EmbeddedResource")


def _content_kinds() -> tuple[type, ...]:
    return (
        *_loaded("mcp_types", (*_BLOCKS, "CallToolResult")),
        *_loaded("fastmcp.utilities.types", ("Image", "Audio", "File")),
        *_loaded("fastmcp.tools.base", ("ToolResult",)),
    )


def _loaded(module: str, names: tuple[str, ...]) -> tuple[type, ...]:
    found = sys.modules.get(module)
    return tuple(getattr(found, name) for name in names if hasattr(found, name)) if found is not None else ()
