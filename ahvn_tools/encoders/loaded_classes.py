"""Classes of modules that may not be imported: there is no value of such a class unless its module is imported."""

from __future__ import annotations

import sys
from typing import Any


def loaded_classes(module: str, *names: str) -> tuple[Any, ...]:
    """Return the classes of a module, or none if it is not imported."""
    loaded = sys.modules.get(module)
    return () if loaded is None else tuple([getattr(loaded, name) for name in names if hasattr(loaded, name)])


def block_classes() -> tuple[Any, ...]:
    """Return the classes of MCP's content blocks."""
    return loaded_classes(
        "mcp_types", "TextContent", "ImageContent", "AudioContent", "ResourceLink", "EmbeddedResource"
    )


def media_classes() -> tuple[Any, ...]:
    """Return FastMCP's classes for images, audio and files."""
    return loaded_classes("fastmcp.utilities.types", "Image", "Audio", "File")
