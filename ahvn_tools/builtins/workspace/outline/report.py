"""The outline as a text for models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ahvn_tools import invisible
from ahvn_tools.builtins.workspace.outline.candidates import Candidates
from ahvn_tools.builtins.workspace.source_parser.definitions import Definition
from ahvn_tools.builtins.workspace.source_parser.parsing import Reply

_MAX_REASONS: Final = 20


def report(page: Candidates, replies: Mapping[str, Reply], *, with_signatures: bool, max_chars: int) -> str:
    """Return the definitions of each file, then what is not outlined, then how to go on."""
    if not page.paths:
        return (
            "No matching files found."
            if not page.skip
            else f"There are no more files: skip={page.skip} leaves out all."
        )
    blocks, shown = _blocks(page, replies, with_signatures, max_chars)
    reasons = {path: reason for path in page.paths[:shown] if (reason := _reason(page, replies, path))}
    parts = [
        _limit(page, shown) if page.has_more or shown < len(page.paths) else "",
        *(blocks or ["No structure extracted from files."]),
        _not_outlined(reasons, page.without_grammar),
    ]
    return "\n\n".join(part for part in parts if part)


def _blocks(
    page: Candidates, replies: Mapping[str, Reply], with_signatures: bool, max_chars: int
) -> tuple[list[str], int]:  # fmt: skip
    """Return a text for each file that defines something, and how many files fit into the result."""
    blocks: list[str] = []
    size = 0
    for position, path in enumerate(page.paths):
        reply = replies.get(path)
        if reply is None or not reply.definitions:
            continue
        block = _block(reply, with_signatures, max_chars)
        size += len(block) + 2
        if blocks and size > max_chars:
            return blocks, position
        blocks.append(block)
    return blocks, len(page.paths)


def _block(reply: Reply, with_signatures: bool, max_chars: int) -> str:
    """Return the definitions of a file, as many as fit."""
    lines = [f"File: {invisible.escape_line(reply.source.path)}"]
    size, is_complete = len(lines[0]), reply.is_complete
    for definition in reply.definitions:
        line = _line(definition, with_signatures)
        size += len(line) + 1
        if size > max_chars:
            is_complete = False
            break
        lines.append(line)
    if not is_complete:
        last = reply.definitions[max(len(lines) - 2, 0)].first_line
        lines.append(f"(Limit reached: the file defines more after line {last}. Search in it for the rest.)")
    return "\n".join(lines)


def _line(definition: Definition, with_signatures: bool) -> str:
    text = definition.signature if with_signatures else definition.name
    first, last = definition.first_line, definition.last_line
    place = f"{first}" if first == last else f"{first}-{last}"
    return f"{'  ' * definition.depth}- {definition.kind} {invisible.escape_line(text)} [{place}]"


def _reason(page: Candidates, replies: Mapping[str, Reply], path: str) -> str | None:
    return page.reasons.get(path) or (replies[path].reason if path in replies else None)


def _limit(page: Candidates, shown: int) -> str:
    end = page.skip + shown
    files = f"first {shown} files" if not page.skip else f"files {page.skip + 1} to {end}"
    return f"(Limit reached: showing {files}. Go on with skip={end}.)"


def _not_outlined(reasons: Mapping[str, str], without_grammar: Mapping[str, int]) -> str:
    lines = [f"- {invisible.escape_line(path)}: {reason}" for path, reason in list(reasons.items())[:_MAX_REASONS]]
    if len(reasons) > _MAX_REASONS:
        lines.append(f"- and {len(reasons) - _MAX_REASONS} more files")
    if without_grammar:
        count = sum(without_grammar.values())
        languages = ", ".join(sorted(without_grammar))
        lines.append(
            f'- {count} files of {languages}: this needs `pip install "ahvn-tools[outline]"` where the tool runs.'
        )
    return "\n".join(["Not outlined:", *lines]) if lines else ""
