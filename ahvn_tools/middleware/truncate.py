"""Truncate: a model sees the beginning and the end of a long result; the host keeps the whole of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ahvn_tools.errors import ToolSpecError
from ahvn_tools.execution.call import Call, Middleware, Next, inline
from ahvn_tools.results import ToolResult


def truncate(max_chars: int = 20_000, *, head_ratio: float = 0.7) -> Middleware:
    """Return the middleware that shows a model at most `max_chars` characters of a result's text.

    `head_ratio` is the share of them that is taken from the beginning; the others are from the end, with a note between
    that says how many were left out. Only `content`, which formats and MCP show to models, is cut: `value`, `text` and
    `structured_content` stay whole for the host, and `meta["omitted_chars"]` says how many characters the model does
    not see. Images and other blocks without text stay. Errors (short already) and the chunks of a stream pass
    unchanged. Raises ToolSpecError for a `max_chars` below 1 or a `head_ratio` that is not between 0 and 1.
    """
    if max_chars < 1 or not 0 <= head_ratio <= 1:
        raise ToolSpecError(
            f"max_chars must be at least 1 and head_ratio between 0 and 1, not {max_chars!r} and {head_ratio!r}."
        )
    begin = round(max_chars * head_ratio)

    @inline
    async def truncated(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        result = await next(call)
        return result if result.error is not None else _truncate_result(result, begin, max_chars - begin)

    return truncated


def _truncate_result(result: ToolResult, head: int, tail: int) -> ToolResult:
    if result.blocks is None and isinstance(result.value, str) and len(result.value) <= head + tail:
        return result
    blocks, before = _visible_blocks(result), _omitted_chars(result)
    length = sum(len(_block_text(block) or "") for block in blocks)
    cut = length - head - tail - (len(_omission_note(before)) if before else 0)
    if cut <= 0:
        return result
    kept = tuple(_iter_truncated_blocks(blocks, head, length - tail, _omission_note(before + cut)))
    return replace(result, blocks=kept, meta={**result.meta, "omitted_chars": before + cut})


def _omitted_chars(result: ToolResult) -> int:
    """Return how many characters another one of these has left out already, inside of this one."""
    before = result.meta.get("omitted_chars")
    return (
        before
        if isinstance(before, int) and any(_omission_note(before) in (_block_text(b) or "") for b in result.content)
        else 0
    )


def _visible_blocks(result: ToolResult) -> list[Any]:
    """Return the content that a model is shown: of an object without any text beside it, its JSON text, too."""
    blocks = result.content
    is_said = result.blocks is None or any(_block_text(block) is not None for block in blocks)
    if is_said or result.structured_content is None:
        return blocks
    return [*blocks, _to_text_block(json.dumps(result.structured_content, ensure_ascii=False, default=str))]


def _omission_note(omitted_chars: int) -> str:
    return f"\n[… {omitted_chars} characters left out …]\n"


def _iter_truncated_blocks(blocks: list[Any], begin: int, end: int, note: str) -> Iterator[Any]:
    """Yield the blocks with a note for those characters of their texts, taken as one, between `begin` and `end`."""
    here = 0
    for block in blocks:
        text = _block_text(block)
        if not text:
            yield block
            continue
        first, last = max(begin - here, 0), max(end - here, 0)
        here += len(text)
        if first >= len(text) or last == 0:
            yield block
            continue
        middle, note = note, ""
        if shown := f"{text[:first]}{middle}{text[last:]}":
            yield _to_text_block(shown)


def _block_text(block: Any) -> str | None:
    """Return the text of a block, or of the file that it holds; None for one without."""
    return getattr(getattr(block, "resource", block), "text", None)


def _to_text_block(text: str) -> Any:
    from mcp_types import TextContent

    return TextContent(type="text", text=text)
