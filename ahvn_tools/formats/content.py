"""Results as providers take them: texts and images in their order, and a note for what no provider takes."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ahvn_tools.results import ToolResult

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The kinds of images that providers read."""

_NO_REASON = "The tool failed and gave no reason."
"""Stands for an error without words, which Anthropic refuses."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image in base64."""

    data: str
    media_type: str

    @property
    def url(self) -> str:
        """The image as a data URL."""
        return f"data:{self.media_type};base64,{self.data}"


def parts(result: ToolResult) -> list[str | Image]:
    """Return a result's texts and images. JSON stands in it once: the object only when no block says it as text."""
    if result.is_error:
        return [_NO_REASON if is_blank(result.text) else whole(result.text)]
    if result.blocks is None:
        return [whole(result.text)]
    found = [_part(block) for block in result.blocks]
    if result.structured_content is not None and not any(isinstance(part, str) for part in found):
        found.append(json.dumps(result.structured_content, ensure_ascii=False, default=str))
    return [whole(part) if isinstance(part, str) else part for part in found if not is_blank(part)]


def marked(result: ToolResult) -> list[str | Image]:
    """Return the parts for a provider without an error flag: an error's text says itself that it is one."""
    found = parts(result)
    if not result.is_error or result.text.lower().startswith("error"):
        return found
    return [f"Error: {part}" if isinstance(part, str) else part for part in found]


def is_blank(part: str | Image) -> bool:
    """Tell whether a part says nothing: providers refuse texts of spaces in a list of parts."""
    return isinstance(part, str) and not part.strip()


def whole(text: str) -> str:
    """Return text that can be sent: half a character (a lone surrogate) is replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def data(value: Any) -> Any:
    """Return a value as JSON data that can be sent, whole texts at any depth; what JSON has no word for, as text."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {whole(str(key)): data(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [data(item) for item in value]
    is_json = value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    return value if is_json else whole(str(value))


def texts(found: list[str | Image]) -> Iterator[str]:
    """Yield the texts among parts."""
    return (part for part in found if isinstance(part, str))


def images(found: list[str | Image]) -> Iterator[Image]:
    """Yield the images among parts."""
    return (part for part in found if isinstance(part, Image))


def _part(block: Any) -> str | Image:
    resource = getattr(block, "resource", block)
    text = getattr(resource, "text", None)
    if text is not None:
        return str(text)
    media_type = getattr(resource, "mime_type", None)
    data = getattr(resource, "data", None) or getattr(resource, "blob", None)
    if media_type in IMAGES and (image := _in_one_line(data)):
        return Image(data=image, media_type=media_type)
    name = getattr(resource, "uri", None) or block.type
    return f"[{name}{f' ({media_type})' if media_type else ''}, not shown]"


def _in_one_line(data: Any) -> str | None:
    """Return base64 without line breaks; None for what is none, as one broken image costs a whole request."""
    try:
        text = "".join(data.split())
        return text if base64.b64decode(text, validate=True) else None
    except (AttributeError, ValueError):
        return None
