"""Truncate: a model receives the beginning and the end of a long result; the host keeps all of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Self

from ahvn_tools.errors import ToolSpecError, suggests_options
from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.results import ToolResult, text_block, to_text, whole_value


@suggests_options
def truncate(max_chars: int = 20_000, *, head_ratio: float = 0.7) -> Middleware:
    """Return middleware that limits the text that a model receives of a result to `max_chars` characters.

    `head_ratio` is the part of them taken from the beginning; the rest is from the end, with a note between that states
    how many characters were left out. Only `content`, which formats and MCP send to models, is cut: `value`, `text` and
    `structured_content` stay complete for the host, and `meta["omitted_chars"]` is the number of omitted characters.
    Images and other blocks without text stay. Errors (short already) and the chunks of a stream are not changed.
    Raises ToolSpecError for a `max_chars` below 1 or a `head_ratio` that is not between 0 and 1.
    """
    if max_chars < 1 or not 0 <= head_ratio <= 1:
        raise ToolSpecError(
            f"max_chars must be at least 1 and head_ratio between 0 and 1, not {max_chars!r} and {head_ratio!r}."
        )
    head = round(max_chars * head_ratio)

    async def truncate_call(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        result = await next(call)
        return result if result.error is not None else _truncate_result(result, head, max_chars - head)

    return truncate_call


class TruncatedBlocks(tuple[Any, ...]):  # noqa: SLOT001  # a tuple cannot have named slots
    """The content that a model receives, which knows the whole content for programs."""

    whole: tuple[Any, ...] | None
    """As the tool has returned it; None: content is made of the value."""

    def __new__(cls, blocks: Iterable[Any], whole: tuple[Any, ...] | None = None) -> Self:
        """Return the blocks, of a result with the content `whole`."""
        made = super().__new__(cls, blocks)
        made.whole = whole_blocks(whole)
        return made


def whole_blocks(blocks: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    """Return the blocks of a result as the tool has returned them."""
    return blocks.whole if isinstance(blocks, TruncatedBlocks) else blocks


def _truncate_result(result: ToolResult, head: int, tail: int) -> ToolResult:
    if result.blocks is None and isinstance(value := whole_value(result), str) and len(value) <= head + tail:
        return result
    blocks, omitted_before = _visible_blocks(result), _omitted_chars(result)
    length = sum(len(block_text(block) or "") for block in blocks)
    excess = length - head - tail - (len(_omission_note(omitted_before)) if omitted_before else 0)
    if excess <= 0:
        return result
    omitted = omitted_before + excess
    truncated = _iter_truncated_blocks(blocks, head, length - tail, _omission_note(omitted))
    meta = {**result.meta, "omitted_chars": omitted}
    return replace(result, blocks=TruncatedBlocks(truncated, result.blocks), meta=meta)


def _omitted_chars(result: ToolResult) -> int:
    """Return how many characters an inner `truncate` has omitted already."""
    omitted = result.meta.get("omitted_chars")
    if not isinstance(omitted, int):
        return 0
    note = _omission_note(omitted)
    return omitted if any(note in (block_text(block) or "") for block in result.content) else 0


def _visible_blocks(result: ToolResult) -> list[Any]:
    """Return the content that a model receives; an object without any text block adds its JSON text."""
    blocks = result.content
    has_text = result.blocks is None or any(block_text(block) is not None for block in blocks)
    if has_text or result.structured_content is None:
        return blocks
    return [*blocks, text_block(to_text(result.structured_content))]


def _omission_note(omitted_chars: int) -> str:
    return f"\n[… {omitted_chars} characters left out …]\n"


def _iter_truncated_blocks(blocks: list[Any], begin: int, end: int, note: str) -> Iterator[Any]:
    """Yield the blocks with a note instead of the characters from `begin` to `end` of their joined texts."""
    position = 0
    for block in blocks:
        text = block_text(block)
        if not text:
            yield block
            continue
        first, last = max(begin - position, 0), max(end - position, 0)
        position += len(text)
        if first >= len(text) or last == 0:
            yield block
            continue
        if visible := f"{text[:first]}{note}{text[last:]}":
            yield text_block(visible)
        note = ""


def block_text(block: Any) -> str | None:
    """Return the text of a block, or of the file that it embeds; None for one without."""
    return getattr(getattr(block, "resource", block), "text", None)
