"""The model behind every service: it calls a tool, and then repeats what the tool said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


def answered(service: ModuleType, request: dict[str, Any], arguments: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the service's answer to a request.

    Without results to read, it calls a tool once with each of the `arguments`: the one that is forced, else the first.
    """
    answer: Callable[..., dict[str, Any]] = service.answer
    names = service.offered(request)
    said = service.results(request)
    forced = service.forced(request)
    if said:
        return answer([], f"The tool said: {' | '.join(said)}", request)
    if not names or forced == "none":
        return answer([], "I have called no tool.", request)
    name = forced if forced in names else names[0]
    return answer([(name, each) for each in arguments], "", request)
