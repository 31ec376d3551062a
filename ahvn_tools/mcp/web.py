"""HTTP as we let servers speak it: no message above a size, and the status of what was refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NoReturn

import httpx2

from ahvn_tools.mcp.limits import Limits
from ahvn_tools.mcp.values import Values

PATIENCE = 30.0
"""Seconds to connect and to send. Reading has no limit here: the calls have their own."""

MOST = 256
"""Requests under way at a time; more of them wait."""

SPARE = 3.0
"""Seconds that an unused connection is kept: servers close theirs after 5, and one must not be used just then."""

REFUSED = 400


class Web:
    """Makes HTTP clients, and remembers what the last refusal was."""

    def __init__(self, limits: Limits) -> None:
        """`limits` say how large one message may be."""
        self._limits = limits
        self.status: int | None = None
        """The last status that was a refusal."""
        self.fault: str | None = None
        """What a server has sent that it may not."""

    def __call__(
        self,
        headers: Mapping[str, str] | None = None,
        timeout: Any = None,  # noqa: ARG002  # it is asked for by name
        auth: Any = None,
        **_options: Any,
    ) -> httpx2.AsyncClient:
        """Return an HTTP client, with a timeout of our own: FastMCP's would also end the wait for a free connection.

        It follows no redirects: mcp does, and only within the server's origin.
        """
        client = httpx2.AsyncClient(
            headers={"accept-encoding": "identity", **(headers or {})},  # a compressed body has no bounded size
            timeout=httpx2.Timeout(PATIENCE, read=None, pool=None),
            limits=httpx2.Limits(max_connections=MOST, keepalive_expiry=SPARE),
            auth=auth,
        )
        client.event_hooks = {"response": [self._note]}
        return client

    async def _note(self, response: httpx2.Response) -> None:
        if response.status_code >= REFUSED:
            self.status = response.status_code
        if response.headers.get("content-encoding", "identity") != "identity":
            self._refuse("the server compressed its answer, which it was not asked to")
        is_events = response.headers.get("content-type", "").startswith("text/event-stream")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream, self._limits, self._refuse, is_events=is_events)

    def _refuse(self, reason: str) -> NoReturn:
        self.fault = reason
        raise httpx2.ReadError(reason)


class _Bounded(httpx2.AsyncByteStream):
    """A body that may not go on for ever; of an event stream, no event may."""

    def __init__(
        self, inner: httpx2.AsyncByteStream, limits: Limits, refuse: Callable[[str], NoReturn], *, is_events: bool
    ) -> None:
        self._inner, self._limits, self._refuse, self._is_events = inner, limits, refuse, is_events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, values = 0, Values()
        async for chunk in self._inner:
            size += len(chunk)
            if size > self._limits.message:
                self._refuse(f"the server sent a message of more than {self._limits.message} bytes")
            if values.add(chunk) > self._limits.values:
                self._refuse(f"the server sent a message of more than {self._limits.values} values")
            if self._is_events and (b"\n\n" in chunk or b"\n\r\n" in chunk):
                size, values = 0, Values()
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
