"""How the tests use a hostile server: the command that starts it, and the outcome of a request in one word."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools.errors import ToolCallError
from ahvn_tools.mcp.trust.limits import Limits

LONGEST = 30.0
"""Seconds that one request may take, whatever the server does, on a slow machine."""

LONGEST_STALL = 0.5
"""Seconds for which an event loop may be blocked."""

LIMITS = Limits(connect=LONGEST, listing=LONGEST, close=1.5, pages=20, tools=5_000, notifications=2_500)
"""Generous with time: for servers that connect and list their tools, or that fail to by themselves."""

SHORT_LIMITS = replace(LIMITS, connect=1.0, listing=1.0)
"""For servers that hang, and for outcomes that are the same when the time is up."""


def command(name: str, *marks: str) -> list[str]:
    """Return the command of a hostile server; `marks` are words by which its processes are found."""
    return [sys.executable, "-S", "-E", str(Path(__file__).parent), name, *marks]


def select_by_default(cases: Iterable[Any], default: Collection[str]) -> list[Any]:
    """Return parameters for cases: names, or tuples that start with one. Those outside of `default` are exhaustive."""
    rows = [(case,) if isinstance(case, str) else case for case in cases]
    return [pytest.param(*row, id=row[0], marks=() if row[0] in default else pytest.mark.exhaustive) for row in rows]


async def get_outcome(request: Awaitable[Any]) -> tuple[str, ToolCallError | None]:
    """Return the names of the listed tools, the text of a result, or the code of the error, and the error."""
    began = time.monotonic()
    try:
        answer = await asyncio.wait_for(request, LONGEST + 5)
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
    """Return whether a message is short and printable."""
    return 0 < len(message) < 2_500 and all(letter.isprintable() or letter == "\n" for letter in message)
