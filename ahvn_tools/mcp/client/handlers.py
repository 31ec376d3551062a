"""What answers a server that asks back: elicitation and sampling. Without a handler it is told no at once."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.execution.threads import run_in_thread

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Handlers:
    """Who answers a server's own requests, and who hears of it.

    Both handlers are FastMCP's, async or sync: `elicitation(message, response_type, params, context)` and
    `sampling(messages, params, context)`. Async ones run on the background loop, where nothing may block.
    """

    elicitation: Callable[..., Any] | None = None
    """Answers a server that asks the user something; without it the server hears that the user declined."""
    sampling: Callable[..., Any] | None = None
    """Answers a server that wants a text from a model; without it the server hears that there is none."""
    on_message: Callable[[Any], None] | None = None
    """Gets every notification as it comes."""
    on_connection_lost: Callable[[str], None] | None = None
    """Is told why, when it is found out that the server has gone."""


class HandlerError(Exception):
    """What a server hears of a handler that failed: nothing of ours."""

    def __init__(self) -> None:
        super().__init__("The client could not answer.")


def wrap_handler(handler: Callable[..., Any] | None) -> Callable[..., Awaitable[Any]] | None:
    """Return a handler for the background loop: a sync one runs in a thread, and no exception's text gets out."""
    if handler is None:
        return None

    async def asked(*arguments: Any) -> Any:
        if inspect.iscoroutinefunction(handler):
            return await handler(*arguments)
        value = (await run_in_thread(lambda _: handler(*arguments))).get()
        return await value if inspect.isawaitable(value) else value

    async def answer(*arguments: Any) -> Any:
        outcome = await capture_outcome(asked, *arguments)  # a SystemExit would end the connection of everybody
        if outcome.error is not None:
            log.error("What answers the requests of servers raised.", exc_info=outcome.error)
            raise HandlerError from None
        return outcome.value

    return answer
