"""Pillow and matplotlib: an image or a figure as an MCP image block."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping
from typing import Any, Final

_PNG_MODES = frozenset({"1", "L", "LA", "I;16", "P", "RGB", "RGBA"})


def encode_pillow(image: Any) -> Any:
    """Return an image block: a JPEG of what was read from one, else a PNG."""
    is_photo = image.format == "JPEG" and image.mode in {"L", "RGB"}
    writable = image if image.mode in _PNG_MODES else image.convert(_writable_mode(image))
    data = io.BytesIO()
    writable.save(data, format="JPEG" if is_photo else "PNG")
    return image_block(data.getvalue(), "image/jpeg" if is_photo else "image/png")


def encode_figure(figure: Any) -> Any:
    """Return an image block with the figure as a PNG. The figure stays open."""
    data = io.BytesIO()
    figure.savefig(data, format="png")
    return image_block(data.getvalue(), "image/png")


def _writable_mode(image: Any) -> str:
    """Return the mode of a PNG that keeps most of an image in another mode."""
    if image.mode == "I":
        return "I;16"
    return "RGBA" if "A" in image.getbands() else "RGB"


def image_block(data: bytes, mime_type: str) -> Any:
    """Return an MCP image block."""
    from mcp_types import ImageContent

    return ImageContent(type="image", data=base64.b64encode(data).decode(), mime_type=mime_type)


ENCODERS: Final[Mapping[tuple[str, str], Callable[[Any], Any]]] = {
    ("PIL.Image", "Image"): encode_pillow,
    ("matplotlib.figure", "FigureBase"): encode_figure,
}
