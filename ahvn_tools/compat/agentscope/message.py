"""Messages and their content blocks: the parts of a response, a call that a model asks for, and its result."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict, cast

__all__ = [
    "AudioBlock", "Base64Source", "ContentBlock", "ImageBlock", "Msg", "TextBlock", "ThinkingBlock", "ToolResultBlock",
    "ToolUseBlock", "URLSource", "VideoBlock",
]  # fmt: skip


def local_time() -> str:
    """Return the local time to the millisecond."""
    return datetime.now().isoformat(sep=" ", timespec="milliseconds")  # noqa: DTZ005  # local time is meant


class Base64Source(TypedDict):
    """Media as base64 text."""

    type: Literal["base64"]
    media_type: str
    data: str


class URLSource(TypedDict):
    """Media behind a URL."""

    type: Literal["url"]
    url: str


class TextBlock(TypedDict):
    """A text."""

    type: Literal["text"]
    text: str


class ThinkingBlock(TypedDict):
    """What a model thought."""

    type: Literal["thinking"]
    thinking: str


class ImageBlock(TypedDict):
    """An image."""

    type: Literal["image"]
    source: Base64Source | URLSource


class AudioBlock(TypedDict):
    """A sound."""

    type: Literal["audio"]
    source: Base64Source | URLSource


class VideoBlock(TypedDict):
    """A video."""

    type: Literal["video"]
    source: Base64Source | URLSource


class ToolUseBlock(TypedDict):
    """A call of a tool: `input` are its arguments, and `raw_input` is the text that the model wrote."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any] | None
    raw_input: NotRequired[str]


class ToolResultBlock(TypedDict):
    """What a tool answered to the call with this id."""

    type: Literal["tool_result"]
    id: str
    name: str
    output: str | list[OutputBlock]


OutputBlock = TextBlock | ImageBlock | AudioBlock | VideoBlock
"""What a tool may return."""

ContentBlock = OutputBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock


@dataclass(eq=False)
class Msg:
    """A message: a text, or content blocks.

    >>> from ahvn_tools.compat.agentscope import Msg
    >>> Msg("Friday", [{"type": "text", "text": "3 EUR"}], "assistant").get_text_content()
    '3 EUR'
    """

    name: str
    """Who sends it."""

    content: str | Sequence[ContentBlock]

    role: Literal["user", "assistant", "system"]

    metadata: dict[str, Any] | None = None

    timestamp: str | None = None
    """When it was made; None: now."""

    invocation_id: str | None = None
    """The id of the request to the model that it comes from."""

    id: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)

    def __post_init__(self) -> None:
        """Fill in what was not given."""
        self.metadata = self.metadata or {}
        self.timestamp = self.timestamp or local_time()

    def to_dict(self) -> dict[str, Any]:
        """Return the message as JSON data."""
        names = ("id", "name", "role", "content", "metadata", "timestamp")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_dict(cls, json_data: dict[str, Any]) -> Msg:
        """Return the message that `to_dict` returned as JSON data."""
        message = cls(**{name: value for name, value in json_data.items() if name != "id"})
        message.id = json_data.get("id", message.id)
        return message

    def get_content_blocks(self, block_type: str | list[str] | None = None) -> list[ContentBlock]:
        """Return the blocks, or those of these types; a text is one block."""
        blocks = [TextBlock(type="text", text=self.content)] if isinstance(self.content, str) else self.content
        types = [block_type] if isinstance(block_type, str) else block_type
        return [block for block in blocks if types is None or block["type"] in types]

    def has_content_blocks(self, block_type: str | list[str] | None = None) -> bool:
        """Return whether there are blocks, or blocks of these types."""
        return bool(self.get_content_blocks(block_type))

    def get_text_content(self, separator: str = "\n") -> str | None:
        """Return the texts, or None if there is none."""
        texts = [block["text"] for block in self.get_content_blocks() if block["type"] == "text"]
        return separator.join(texts) if texts else None


def to_block(block: Any) -> OutputBlock:
    """Return an MCP block as a block of a response; a resource or a link as its JSON, without the data of a file."""
    if block.type == "text":
        return {"type": "text", "text": block.text}
    if block.type in {"image", "audio"}:
        source = {"type": "base64", "media_type": block.mime_type, "data": block.data}
        return cast("OutputBlock", {"type": block.type, "source": source})
    shown = block.resource if block.type == "resource" else block
    return {"type": "text", "text": shown.model_dump_json(indent=2, by_alias=True, exclude_none=True, exclude={"blob"})}
