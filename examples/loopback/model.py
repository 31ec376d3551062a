"""The model behind every service: it calls a tool, or the tools of a script, and then repeats what the tool said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

from .rules import refuse

Call = tuple[str, dict[str, Any]]
"""The name of a tool, and arguments."""


def make_answer(
    service: ModuleType, request: dict[str, Any], arguments: Sequence[dict[str, Any]], turns: Iterator[Call]
) -> dict[str, Any]:
    """Return the service's answer to a request.

    It makes the next call of `turns`. When there is none left, and no results to read, it calls a tool once with each
    of the `arguments`: the one that is forced, else the first.
    """
    answer: Callable[..., dict[str, Any]] = service.answer
    names = service.tool_names(request)
    texts = service.results(request)
    required_tool = service.required_tool(request)
    if (call := next(turns, None)) is not None:
        refuse(call[0] not in names, f"The model would call {call[0]!r}, and the request has no such tool.")
        return answer([call], "", request)
    if texts:
        return answer([], f"The tool said: {' | '.join(texts)}", request)
    if not names or required_tool == "none":
        return answer([], "I have called no tool.", request)
    name = required_tool if required_tool in names else names[0]
    return answer([(name, each) for each in arguments], "", request)
