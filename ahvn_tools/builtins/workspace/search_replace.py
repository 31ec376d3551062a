"""Blocks of SEARCH and REPLACE lines: their syntax, and what they make of the lines of a file.

A block has the lines `<<<<<<< SEARCH`, the old lines, `=======`, the new lines, and `>>>>>>> REPLACE`. A block whose
lines contain such a marker has longer markers: all of its three markers have one length, of at least 7.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ahvn_tools.builtins.workspace.lines import bare_lines, content_lines, find_lines, replace_lines
from ahvn_tools.builtins.workspace.near_lines import describe_near_lines
from ahvn_tools.errors import ToolError

FORMAT: Final = "<<<<<<< SEARCH\nold lines\n=======\nnew lines\n>>>>>>> REPLACE"
_OPENING: Final = re.compile(r"(<{7,}) SEARCH\s*")
_MAX_BLOCKS: Final = 200
_MAX_PLACES: Final = 10
"""How many places are searched for, to list them."""
_UNCHANGED: Final = "Nothing was changed."


@dataclass(frozen=True)
class Block:
    """The lines to find, and those to put in their place."""

    number: int
    search: list[str]
    replace: list[str]


def parse_blocks(text: str) -> list[Block]:
    """Return the blocks of a text. Raises ToolError for any other text, with the right form."""
    lines = content_lines(text)
    blocks: list[Block] = []
    position = 0
    while position < len(lines):
        opening = _OPENING.fullmatch(lines[position])
        if opening is None:
            if lines[position].strip() and not lines[position].startswith("```"):
                raise ToolError(
                    f"Line {position + 1} of search_replace is outside of a block. Write blocks as:\n{FORMAT}"
                )
            position += 1
            continue
        length, number = len(opening[1]), len(blocks) + 1
        end = _end_of_block(lines, position, length, number)
        divider = _divider(lines, position + 1, end, length, number)
        blocks.append(Block(number, lines[position + 1 : divider], lines[divider + 1 : end]))
        position = end + 1
    if len(blocks) > _MAX_BLOCKS:
        raise ToolError(f"Pass at most {_MAX_BLOCKS} blocks in one call, not {len(blocks):,}.")
    if not blocks:
        raise ToolError(f"search_replace has no block. Write blocks as:\n{FORMAT}")
    return blocks


def apply_blocks(blocks: list[Block], lines: list[str], newline: str) -> list[str]:
    """Return the lines after all blocks, in their order. Raises ToolError if one does not fit exactly once."""
    texts = bare_lines(lines)
    for block in blocks:
        if not block.search:
            raise ToolError(
                f"Block {block.number} has no SEARCH lines. {_UNCHANGED} To add lines, use insert, or repeat a line of "
                "the file in SEARCH and in REPLACE with the new lines around it."
            )
        if block.search == block.replace:
            raise ToolError(f"SEARCH and REPLACE of block {block.number} are the same. {_UNCHANGED}")
        start = _only_place(block, texts)
        stop = start + len(block.search)
        lines = replace_lines(lines, start, stop, block.replace, newline)
        texts[start:stop] = block.replace
    return lines


def _end_of_block(lines: list[str], start: int, length: int, number: int) -> int:
    for position in range(start + 1, len(lines)):
        line = lines[position].rstrip()
        if line == f"{'>' * length} REPLACE":
            return position
        if line == f"{'<' * length} SEARCH":
            break
    raise ToolError(f"Block {number} has no line {'>' * length} REPLACE. Write blocks as:\n{FORMAT}")


def _divider(lines: list[str], start: int, end: int, length: int, number: int) -> int:
    """Return the index of the divider. Several are an error: the wrong one would write SEARCH lines into the file."""
    divider = "=" * length
    places = [position for position in range(start, end) if lines[position].rstrip() == divider]
    if not places:
        raise ToolError(f"Block {number} has no line {divider}. Write blocks as:\n{FORMAT}")
    if len(places) > 1:
        longer = length + 1
        raise ToolError(
            f"Block {number} has {len(places)} lines {divider}, and it is not clear which one divides it. {_UNCHANGED} "
            f"Write its three markers with {longer} characters: {'<' * longer} SEARCH, {'=' * longer}, "
            f"{'>' * longer} REPLACE. Shorter ones are content then."
        )
    return places[0]


def _only_place(block: Block, texts: list[str]) -> int:
    search = block.search
    places = find_lines(texts, search, max_places=_MAX_PLACES + 1)
    if not places:
        is_done = bool(block.replace) and bool(find_lines(texts, block.replace, max_places=1))
        done = "The REPLACE lines are there already: is this edit done?"
        near = done if is_done else describe_near_lines(search, texts)
        raise ToolError(f"The SEARCH lines of block {block.number} are not in the file. {_UNCHANGED} {near}")
    if len(places) > 1:
        times = f"{len(places)} times" if len(places) <= _MAX_PLACES else f"more than {_MAX_PLACES} times"
        numbers = ", ".join(str(place + 1) for place in places[:_MAX_PLACES])
        raise ToolError(
            f"The SEARCH lines of block {block.number} are {times} in the file, from the lines {numbers}. {_UNCHANGED} "
            "Add lines before or after them, so that they are there once."
        )
    return places[0]
