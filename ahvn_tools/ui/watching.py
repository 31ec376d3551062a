"""The page Watch: calls as they happen, of this process and of all others that use the middleware `watch`."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from os import PathLike
from typing import TYPE_CHECKING, Final

from starlette.responses import StreamingResponse
from starlette.routing import Route

from ahvn_tools.errors import ToolkitError, ToolSpecError
from ahvn_tools.middleware import watch
from ahvn_tools.middleware.watched_calls import WatchedCalls
from ahvn_tools.ui.trying import to_event

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ahvn_tools.toolkit import Toolkit

READ_SECONDS: Final = 0.25
"""How often the file is read for a page."""

LOOK_SECONDS: Final = 5.0
"""How often processes are made to go on writing, and a page receives an event even without calls."""

STREAM_SECONDS: Final = 10.0
"""After how long a page opens its stream again. A server that stops waits for open streams, and cannot end them."""

RETRY_SECONDS: Final = 2.0
"""When a file that could not be used is tried again."""


def watch_routes(kit: Toolkit, path: str | PathLike[str] | None, render: Callable[..., Response]) -> list[Route]:
    """Return the routes of the page, and watch the calls of a toolkit; those of a session only if it does so itself."""
    calls = WatchedCalls(path)
    with contextlib.suppress(ToolkitError):  # a session or a selection cannot change its toolkit
        kit.use(watch(path))

    def show(request: Request) -> Response:
        return render(request, "watch.html", path=str(calls.path))

    async def stream(request: Request) -> Response:
        after = request.query_params.get("after", "")
        events = _events(calls, int(after) if after.isdecimal() and len(after) < 19 else 0)  # noqa: PLR2004  # of SQLite
        return StreamingResponse(events, media_type="text/event-stream")

    return [Route("/watch", show), Route("/watch/events", stream)]


async def _events(calls: WatchedCalls, after: int) -> AsyncIterator[str]:
    """Yield the calls that are new or have changed, until the browser disconnects or must open the stream again."""
    looked_at = sent_at = float("-inf")
    ends_at = time.monotonic() + STREAM_SECONDS
    while (now := time.monotonic()) < ends_at:
        try:
            if now > looked_at + LOOK_SECONDS:
                looked_at = now
                await asyncio.to_thread(calls.look)
            changed = await asyncio.to_thread(calls.read, after)
        except ToolSpecError as error:
            yield to_event("problem", {"text": str(error)})
            looked_at = float("-inf")
            await asyncio.sleep(RETRY_SECONDS)
            continue
        if changed or now > sent_at + LOOK_SECONDS:
            sent_at, after = now, changed[-1]["number"] if changed else after
            yield to_event("calls", {"calls": changed, "now": time.time()})
        await asyncio.sleep(READ_SECONDS)
    yield to_event("again", {})
