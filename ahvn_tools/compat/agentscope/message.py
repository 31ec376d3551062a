"""Content blocks: the parts of a response, and the call that a model asks for."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

__all__ = [
    "AudioBlock", "Base64Source", "ContentBlock", "ImageBlock", "TextBlock", "ToolUseBlock", "URLSource", "VideoBlock",
]  # fmt: skip


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


ContentBlock = TextBlock | ImageBlock | AudioBlock | VideoBlock


class ToolUseBlock(TypedDict):
    """A call of a tool: `input` are its arguments, and `raw_input` is the text that the model wrote."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any] | None
    raw_input: NotRequired[str]
