"""Results as providers accept them: texts and images in order, and a note for content that no provider accepts."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ahvn_tools.formats.json_data import replace_surrogates
from ahvn_tools.formats.rendering.calls import with_id
from ahvn_tools.results import ToolCall, ToolResult, as_readable, describe_link, media_blocks, to_text

IMAGE_MEDIA_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The media types of images that most providers accept."""

IMAGES_FOLLOW_NOTE = "[The images of this result are in the next user message.]"
"""Ends a result whose images the provider accepts only in another message."""

_NO_MESSAGE = "The tool failed without an error message."
"""Replaces an empty error text, which Anthropic refuses."""


@dataclass(frozen=True, kw_only=True)
class ImagePart:
    """An image in base64."""

    data: str
    media_type: str

    @property
    def url(self) -> str:
        """The image as a data URL."""
        return f"data:{self.media_type};base64,{self.data}"

    @property
    def note(self) -> str:
        """A text in the place of the image, for a provider that does not accept it."""
        return f"[image ({self.media_type}), not shown]"


def to_readable(
    pairs: Iterable[tuple[ToolCall, ToolResult]], format_name: str | None = None
) -> Iterator[tuple[ToolCall, ToolResult]]:
    """Yield the calls, each with an id, and their results: an error result where the value has no JSON form.

    With `format_name`, the ids are those of the format's `message`.
    """
    for position, (call, result) in enumerate(pairs):
        yield with_id(call, position, format_name), as_readable(result)


def to_parts(result: ToolResult) -> list[str | ImagePart]:
    """Return a result's texts and images. Structured content is a part only when no block is a text.

    Of an error, images are notes: Anthropic accepts only texts beside its error flag.
    """
    if result.is_error:
        return [part if isinstance(part, str) else part.note for part in _to_error_parts(result)]
    if result.blocks is None:
        return [replace_surrogates(result.text)]
    parts = [_to_part(block) for block in result.blocks]
    if result.structured_content is not None and not any(isinstance(part, str) for part in parts):
        parts.append(to_text(result.structured_content))
    return [replace_surrogates(part) if isinstance(part, str) else part for part in parts if not is_blank(part)]


def to_parts_with_error_prefix(result: ToolResult) -> list[str | ImagePart]:
    """Return the parts for a provider without an error flag: the text of an error begins with "Error"."""
    if not result.is_error:
        return to_parts(result)
    text, *media = _to_error_parts(result)
    return [text if result.text.lower().startswith("error") else f"Error: {text}", *media]


def _to_error_parts(result: ToolResult) -> list[str | ImagePart]:
    text = _NO_MESSAGE if is_blank(result.text) else replace_surrogates(result.text)
    return [text, *map(_to_part, media_blocks(result.blocks))]


def to_program_parts(result: ToolResult) -> list[str | ImagePart]:
    """Return what a program may read: Anthropic refuses images, and the program does not see the flag of an error."""
    parts = to_parts_with_error_prefix(result)
    return [part if isinstance(part, str) else part.note for part in parts]


def is_blank(part: str | ImagePart) -> bool:
    """Return whether a part is an empty text or only spaces, which providers refuse in a list of parts."""
    return isinstance(part, str) and not part.strip()


def join_texts(parts: list[str | ImagePart]) -> str:
    """Return the texts among the parts, one below the other."""
    return "\n".join(part for part in parts if isinstance(part, str))


def get_images(parts: list[str | ImagePart]) -> list[ImagePart]:
    """Return the images among the parts."""
    return [part for part in parts if isinstance(part, ImagePart)]


def _to_part(block: Any) -> str | ImagePart:
    resource = getattr(block, "resource", block)
    text = getattr(resource, "text", None)
    if text is not None:
        return str(text)
    media_type = getattr(resource, "mime_type", None)
    data = getattr(resource, "data", None) or getattr(resource, "blob", None)
    if media_type in IMAGE_MEDIA_TYPES and (image := _normalize_base64(data)):
        return ImagePart(data=image, media_type=media_type)
    if block.type == "resource_link":
        return describe_link(block)
    name = getattr(resource, "uri", None) or block.type
    return f"[{name}{f' ({media_type})' if media_type else ''}, not shown]"


def _normalize_base64(data: Any) -> str | None:
    """Return base64 without line breaks; None for invalid data, because one broken image fails a whole request."""
    try:
        text = "".join(data.split())
        return text if base64.b64decode(text, validate=True) else None
    except (AttributeError, ValueError):
        return None
