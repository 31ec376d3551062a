"""ProgramContents: the images and files of a program's calls. The program holds names of them, which it can return."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ahvn_tools.code_mode.sandbox import ProgramError
from ahvn_tools.json_types import JsonObject


class ProgramContents:
    """The images, files and links that calls of a program have returned, by the names that the program holds."""

    def __init__(self, blocks: dict[str, JsonObject], max_bytes: int) -> None:
        """`blocks` are MCP content blocks as JSON data; new ones are added to it, up to `max_bytes` of them all."""
        self._blocks, self._max_bytes = blocks, max_bytes
        self._bytes = sum(map(_size, blocks.values()))

    def add(self, blocks: tuple[Any, ...]) -> Any:
        """Return what the program receives for MCP content blocks: texts, and a name for each other one.

        Raises ProgramError for more bytes than the program may have.
        """
        parts = [block.text if block.type == "text" else self._name(block) for block in blocks]
        return parts[0] if len(parts) == 1 else parts

    def find(self, value: Any) -> list[Any]:
        """Return the blocks whose names are in a value, in their order."""
        if not self._blocks:
            return []
        names = dict.fromkeys(text for text in _texts(value) if text in self._blocks)
        from mcp_types import ContentBlock  # few programs return blocks
        from pydantic import TypeAdapter

        adapter: TypeAdapter[Any] = TypeAdapter(ContentBlock)
        return [adapter.validate_python(self._blocks[name]) for name in names]

    def _name(self, block: Any) -> str:
        data = block.model_dump(mode="json", by_alias=True)
        size = _size(data)
        if self._bytes + size > self._max_bytes:
            raise ProgramError(f"The images and files of this program would have more than {self._max_bytes:,} bytes.")
        self._bytes += size
        name = f"[{block.type} {len(self._blocks) + 1}]"
        self._blocks[name] = data
        return name


def _size(value: Any) -> int:
    """Return how many characters the texts of JSON data have."""
    return sum(map(len, _texts(value)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
