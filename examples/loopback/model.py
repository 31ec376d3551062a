"""The model behind every service: it calls a tool, and then repeats what the tool said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


def make_answer(service: ModuleType, request: dict[str, Any], arguments: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the service's answer to a request.

    Without results to read, it calls a tool once with each of the `arguments`: the one that is forced, else the first.
    """
    answer: Callable[..., dict[str, Any]] = service.answer
    names = service.tool_names(request)
    texts = service.results(request)
    required_tool = service.required_tool(request)
    if texts:
        return answer([], f"The tool said: {' | '.join(texts)}", request)
    if not names or required_tool == "none":
        return answer([], "I have called no tool.", request)
    name = required_tool if required_tool in names else names[0]
    return answer([(name, each) for each in arguments], "", request)
