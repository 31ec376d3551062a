"""The table of behaviours: a name, one line that says what it does, and the function that makes a server do it."""

from __future__ import annotations

from collections.abc import Callable

from tests.mcp.hostile.wire import Answer, JsonObject, Server

BEHAVIOURS: dict[str, Callable[[Server], None]] = {}
"""A function changes a server before it serves; its docstring is the table's line."""


def behaviour(change: Callable[[Server], None]) -> Callable[[Server], None]:
    """Put what changes the server at will into the table."""
    BEHAVIOURS[change.__name__] = change
    return change


def at_start(answer: Answer) -> Answer:
    """Put what is done instead of answering the first request into the table."""

    def change(server: Server) -> None:
        server.answers["initialize"] = server.answers["server/discover"] = answer

    _keep(change, answer)
    return answer


def at_list(answer: Answer) -> Answer:
    """Put what is done instead of listing the tools into the table."""

    def change(server: Server) -> None:
        server.answers["tools/list"] = answer

    _keep(change, answer)
    return answer


def at_call(answer: Answer) -> Answer:
    """Put what is done instead of answering a call of `bad` into the table."""

    def change(server: Server) -> None:
        server.bad = answer

    _keep(change, answer)
    return answer


def tools(listed: Callable[[], list[JsonObject]]) -> Callable[[], list[JsonObject]]:
    """Put what is listed beside `echo` into the table."""

    def change(server: Server) -> None:
        server.tools = [server.tools[0], *listed()]

    _keep(change, listed)
    return listed


def _keep(change: Callable[[Server], None], named: Callable[..., object]) -> None:
    change.__doc__ = named.__doc__
    BEHAVIOURS[named.__name__] = change


def described() -> str:
    """Return the table: a name and what it does in each line."""
    width = max(map(len, BEHAVIOURS))
    return "\n".join(f"{name:{width}}  {(change.__doc__ or '').strip()}" for name, change in BEHAVIOURS.items())
