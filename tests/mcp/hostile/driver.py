"""How the tests use a hostile server: start it, ask it, and say in one word what came of that."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from ahvn_tools.errors import ToolCallError
from ahvn_tools.mcp.trust.limits import Limits

LONGEST = 5.0
"""Seconds that any one request may take, whatever the server does."""

LONGEST_STALL = 0.5
"""Seconds that an event loop may stand still."""

LIMITS = Limits(connect=1.0, listing=1.0, close=1.5, pages=20, tools=5_000, notifications=2_500)


def command(name: str, *marks: str) -> list[str]:
    """Return the command of a hostile server; marks are words that its processes are found by."""
    return [sys.executable, "-S", "-E", str(Path(__file__).parent), name, *marks]


async def came_of(asked: Awaitable[Any]) -> tuple[str, ToolCallError | None]:
    """Return the names of the listed tools, the text of a result, or the code of the error, and the error."""
    began = time.monotonic()
    try:
        answer = await asyncio.wait_for(asked, LONGEST + 5)
    except ToolCallError as error:
        return error.code, error
    finally:
        assert time.monotonic() - began < LONGEST
    return _word(answer), None


def _word(answer: Any) -> str:
    if isinstance(answer, list):
        return " ".join(getattr(tool, "name", type(tool).__name__) for tool in answer[:4]) + (
            " …" if len(answer) > 4 else ""
        )
    if answer.is_error:
        return "failed"
    return " ".join(getattr(block, "text", block.type)[:20] for block in answer.content[:3])


def is_clean(message: str) -> bool:
    """Say whether a text of ours is short and shows nothing but what can be seen."""
    return 0 < len(message) < 2_500 and all(letter.isprintable() or letter == "\n" for letter in message)
