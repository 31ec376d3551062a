"""HTTP as we let servers speak it: no message above a size, and the status of what was refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NoReturn

import httpx2

from ahvn_tools.mcp.trust.json_values import JsonValueCounter
from ahvn_tools.mcp.trust.limits import Limits

CONNECT_TIMEOUT = 30.0
"""Seconds to connect and to send. Reading has no limit here: the calls have their own."""

MAX_HTTP_CONNECTIONS = 256
"""Requests under way at a time; more of them wait."""

KEEPALIVE_EXPIRY = 3.0
"""Seconds that an unused connection is kept: servers close theirs after 5, and one must not be used just then."""

MIN_ERROR_STATUS = 400


class BoundedHTTPFactory:
    """Makes HTTP clients, and remembers what the last refusal was."""

    def __init__(self, limits: Limits) -> None:
        """`limits` say how large one message may be."""
        self._limits = limits
        self.error_status: int | None = None
        """The last status that was a refusal."""
        self.failure_reason: str | None = None
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
            timeout=httpx2.Timeout(CONNECT_TIMEOUT, read=None, pool=None),
            limits=httpx2.Limits(max_connections=MAX_HTTP_CONNECTIONS, keepalive_expiry=KEEPALIVE_EXPIRY),
            auth=auth,
        )
        client.event_hooks = {"response": [self._check_response]}
        return client

    async def _check_response(self, response: httpx2.Response) -> None:
        if response.status_code >= MIN_ERROR_STATUS:
            self.error_status = response.status_code
        if response.headers.get("content-encoding", "identity") != "identity":
            self._fail("the server compressed its answer, which it was not asked to")
        is_events = response.headers.get("content-type", "").startswith("text/event-stream")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _BoundedStream(response.stream, self._limits, self._fail, is_events=is_events)

    def _fail(self, reason: str) -> NoReturn:
        self.failure_reason = reason
        raise httpx2.ReadError(reason)


class _BoundedStream(httpx2.AsyncByteStream):
    """A body that may not go on for ever; of an event stream, no event may."""

    def __init__(
        self, inner: httpx2.AsyncByteStream, limits: Limits, fail: Callable[[str], NoReturn], *, is_events: bool
    ) -> None:
        self._inner, self._limits, self._fail, self._is_events = inner, limits, fail, is_events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, values = 0, JsonValueCounter()
        async for chunk in self._inner:
            size += len(chunk)
            if size > self._limits.message_bytes:
                self._fail(f"the server sent a message of more than {self._limits.message_bytes} bytes")
            if values.add(chunk) > self._limits.values_per_message:
                self._fail(f"the server sent a message of more than {self._limits.values_per_message} values")
            if self._is_events and (b"\n\n" in chunk or b"\n\r\n" in chunk):
                size, values = 0, JsonValueCounter()
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
