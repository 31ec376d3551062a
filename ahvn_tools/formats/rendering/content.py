"""Results as providers take them: texts and images in their order, and a note for what no provider takes."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ahvn_tools.results import ToolResult

IMAGE_MEDIA_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The kinds of images that providers read."""

_NO_REASON = "The tool failed and gave no reason."
"""Stands for an error without words, which Anthropic refuses."""


@dataclass(frozen=True, kw_only=True)
class ImagePart:
    """An image in base64."""

    data: str
    media_type: str

    @property
    def url(self) -> str:
        """The image as a data URL."""
        return f"data:{self.media_type};base64,{self.data}"


def to_parts(result: ToolResult) -> list[str | ImagePart]:
    """Return a result's texts and images. JSON stands in it once: the object only when no block says it as text."""
    if result.is_error:
        return [_NO_REASON if is_blank(result.text) else replace_surrogates(result.text)]
    if result.blocks is None:
        return [replace_surrogates(result.text)]
    found = [_to_part(block) for block in result.blocks]
    if result.structured_content is not None and not any(isinstance(part, str) for part in found):
        found.append(json.dumps(result.structured_content, ensure_ascii=False, default=str))
    return [replace_surrogates(part) if isinstance(part, str) else part for part in found if not is_blank(part)]


def to_parts_with_error_prefix(result: ToolResult) -> list[str | ImagePart]:
    """Return the parts for a provider without an error flag: an error's text says itself that it is one."""
    found = to_parts(result)
    if not result.is_error or result.text.lower().startswith("error"):
        return found
    return [f"Error: {part}" if isinstance(part, str) else part for part in found]


def is_blank(part: str | ImagePart) -> bool:
    """Tell whether a part says nothing: providers refuse texts of spaces in a list of parts."""
    return isinstance(part, str) and not part.strip()


def replace_surrogates(text: str) -> str:
    """Return text that can be sent: half a character (a lone surrogate) is replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def to_json_data(value: Any) -> Any:
    """Return a value as JSON data that can be sent, whole texts at any depth; what JSON has no word for, as text."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, dict):
        return {replace_surrogates(str(key)): to_json_data(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_data(item) for item in value]
    is_json = value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    return value if is_json else replace_surrogates(str(value))


def iter_texts(parts: list[str | ImagePart]) -> Iterator[str]:
    """Yield the texts among parts."""
    return (part for part in parts if isinstance(part, str))


def iter_images(parts: list[str | ImagePart]) -> Iterator[ImagePart]:
    """Yield the images among parts."""
    return (part for part in parts if isinstance(part, ImagePart))


def _to_part(block: Any) -> str | ImagePart:
    resource = getattr(block, "resource", block)
    text = getattr(resource, "text", None)
    if text is not None:
        return str(text)
    media_type = getattr(resource, "mime_type", None)
    data = getattr(resource, "data", None) or getattr(resource, "blob", None)
    if media_type in IMAGE_MEDIA_TYPES and (image := _normalize_base64(data)):
        return ImagePart(data=image, media_type=media_type)
    name = getattr(resource, "uri", None) or block.type
    return f"[{name}{f' ({media_type})' if media_type else ''}, not shown]"


def _normalize_base64(data: Any) -> str | None:
    """Return base64 without line breaks; None for what is none, as one broken image costs a whole request."""
    try:
        text = "".join(data.split())
        return text if base64.b64decode(text, validate=True) else None
    except (AttributeError, ValueError):
        return None
