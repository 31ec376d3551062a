"""Media types, such as `application/json; charset=utf-8`."""

from __future__ import annotations


def base_type(media_type: str) -> str:
    """Return a media type in lower case without its parameters."""
    return media_type.partition(";")[0].strip().lower()


def is_json(media_type: str) -> bool:
    """Return whether a media type is JSON, or a range that includes it."""
    base = base_type(media_type)
    return base in {"application/json", "text/json", "*/*", "application/*"} or base.endswith("+json")
