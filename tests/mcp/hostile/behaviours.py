"""The table of behaviours: a name, one line that says what it does, and the function that makes a server do it."""

from __future__ import annotations

from collections.abc import Callable

from tests.mcp.hostile.wire import Answer, JsonObject, Server

BEHAVIOURS: dict[str, Callable[[Server], None]] = {}
"""Functions that change a server before it serves; the docstring is the line in the table."""


def behaviour(change: Callable[[Server], None]) -> Callable[[Server], None]:
    """Register a function that changes the server."""
    BEHAVIOURS[change.__name__] = change
    return change


def at_start(answer: Answer) -> Answer:
    """Register a replacement of the answer to the first request."""

    def change(server: Server) -> None:
        server.answers["initialize"] = server.answers["server/discover"] = answer

    _register(change, answer)
    return answer


def at_list(answer: Answer) -> Answer:
    """Register a replacement of the answer to a listing."""

    def change(server: Server) -> None:
        server.answers["tools/list"] = answer

    _register(change, answer)
    return answer


def at_call(answer: Answer) -> Answer:
    """Register a replacement of the answer to a call of `bad`."""

    def change(server: Server) -> None:
        server.bad = answer

    _register(change, answer)
    return answer


def tools(listed: Callable[[], list[JsonObject]]) -> Callable[[], list[JsonObject]]:
    """Register tools to list in addition to `echo`."""

    def change(server: Server) -> None:
        server.tools = [server.tools[0], *listed()]

    _register(change, listed)
    return listed


def _register(change: Callable[[Server], None], named: Callable[..., object]) -> None:
    change.__doc__ = named.__doc__
    BEHAVIOURS[named.__name__] = change


def described() -> str:
    """Return the table: a name and what it does in each line."""
    width = max(map(len, BEHAVIOURS))
    return "\n".join(f"{name:{width}}  {(change.__doc__ or '').strip()}" for name, change in BEHAVIOURS.items())
