"""HTML for notebooks: texts, tables and images. Every text is escaped, and no page is loaded from elsewhere.

Invisible characters are shown as escapes: one that changes the direction would reorder what a person reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from ahvn_tools import invisible

MAX_TEXT_CHARS = 5_000
"""How much of a text is shown."""

MAX_IMAGE_CHARS = 10_000_000
"""The largest image that is shown, in characters of base64."""

MAX_ROWS = 200
"""How many rows of a table are shown."""

IMAGE_MEDIA_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Images that contain no code."""


class Html(str):
    """A text that is HTML already."""

    __slots__ = ()


def text(value: str) -> Html:
    """Return a text with its line breaks; a long one is cut."""
    cut = f"\n… {len(value) - MAX_TEXT_CHARS:,} more characters" if len(value) > MAX_TEXT_CHARS else ""
    shown = escape(invisible.escape(value[:MAX_TEXT_CHARS] + cut))
    return Html(f'<span style="white-space: pre-wrap">{shown}</span>' if "\n" in shown else shown)


def code(value: str) -> Html:
    """Return a text in the font for code."""
    return Html(f"<code>{text(value)}</code>")


def lines(parts: Iterable[str]) -> Html:
    """Return parts below each other."""
    return Html("".join(f"<div>{_to_html(part)}</div>" for part in parts))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    """Return a table; of many rows, the first."""
    parts = ["<tr>", *(f"<th>{_to_html(cell)}</th>" for cell in head), "</tr>"]
    style = ' style="text-align: left; vertical-align: top"'
    for row in rows[:MAX_ROWS]:
        parts += ["<tr>", *(f"<td{style}>{_to_html(cell)}</td>" for cell in row), "</tr>"]
    if len(rows) > MAX_ROWS:
        parts.append(f'<tr><td colspan="{len(head)}">… {len(rows) - MAX_ROWS:,} more</td></tr>')
    return Html(f"<table>{''.join(parts)}</table>")


def bindings(state_keys: Mapping[str, str]) -> Html:
    """Return which parameters are bound to which state keys."""
    return lines(code(f"{parameter} ← {key}") for parameter, key in state_keys.items())


def block(content: Any) -> Html:
    """Return an MCP content block: a text, an image, or a note about any other."""
    kind = getattr(content, "type", None)
    if kind == "text":
        return text(str(content.text))
    media_type, data = str(getattr(content, "mime_type", "")), getattr(content, "data", "")
    if kind == "image" and media_type in IMAGE_MEDIA_TYPES and isinstance(data, str) and len(data) <= MAX_IMAGE_CHARS:
        return Html(f'<img alt="image" src="data:{media_type};base64,{escape(data)}">')
    return text(" ".join(part for part in (f"[{kind or type(content).__name__}", media_type) if part) + "]")


def _to_html(part: str) -> Html:
    return part if isinstance(part, Html) else text(part)
