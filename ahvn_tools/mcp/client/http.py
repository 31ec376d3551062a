"""HTTP clients with a bound on the size of each message, which record why the connection failed.

Can be dropped when mcp's HTTP client itself limits the bytes of a message and reports the HTTP status of a failure.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any, NoReturn
from urllib.parse import parse_qsl

import httpx2

from ahvn_tools.log_redaction import add_log_filter
from ahvn_tools.mcp.client.client_settings import ClientSettings
from ahvn_tools.mcp.lone_surrogates import LoneSurrogates
from ahvn_tools.mcp.trust.limits import JsonValueCounter, Limits
from ahvn_tools.redaction import is_secret_name
from ahvn_tools.secret_texts import SecretTexts

CONNECT_TIMEOUT = 30.0  # seconds to connect and to send; reading has no limit here, because each call has its own
MAX_HTTP_CONNECTIONS = 256  # concurrent requests; further ones wait
KEEPALIVE_EXPIRY = 3.0  # seconds until an unused connection is closed; servers close theirs after 5
MIN_ERROR_STATUS = 400

_PLAIN_HEADERS = frozenset({
    "accept", "accept-encoding", "connection", "content-length", "content-type", "host", "mcp-protocol-version",
    "user-agent",
})  # fmt: skip
"""Headers of a login that are no credentials."""

_SECRET_FORM_FIELDS = frozenset({"assertion", "client_assertion", "code", "code_verifier"})
"""Fields of a login that are secret in addition to those with a secret name: RFC 6749, 7523 and 7636."""


class BoundedHTTPFactory:
    """Makes HTTP clients for FastMCP, and records their failures and credentials in the settings."""

    def __init__(self, settings: ClientSettings, verify: Any = None) -> None:
        """`verify` is httpx2's: how the certificate of the server is verified; None: as httpx2 does."""
        self._limits = settings.limits
        self._status = settings.status
        self._secrets = settings.secrets
        self._verify = {} if verify is None else {"verify": verify}

    def __call__(
        self,
        headers: Mapping[str, str] | None = None,
        timeout: Any = None,  # noqa: ARG002  # FastMCP passes it by name
        auth: Any = None,
        **_options: Any,
    ) -> httpx2.AsyncClient:
        """Return an HTTP client. FastMCP's timeout is ignored: it would also end the wait for a free connection.

        It follows no redirects: mcp does, and only within the server's origin.
        """
        client = httpx2.AsyncClient(
            headers={"accept-encoding": "identity", **(headers or {})},  # a compressed body has no bounded size
            timeout=httpx2.Timeout(CONNECT_TIMEOUT, read=None, pool=None),
            limits=httpx2.Limits(max_connections=MAX_HTTP_CONNECTIONS, keepalive_expiry=KEEPALIVE_EXPIRY),
            auth=None if auth is None else ObservedAuth(auth, self._secrets),
            **self._verify,
        )
        add_log_filter()  # httpx2 has imported httpcore2 now
        client.event_hooks = {"response": [self._check_response]}
        return client

    async def _check_response(self, response: httpx2.Response) -> None:
        if response.status_code >= MIN_ERROR_STATUS:
            self._status.error_status = response.status_code
        if response.headers.get("content-encoding", "identity") != "identity":
            self._fail("the server compressed its answer although the request forbids it")
        is_events = response.headers.get("content-type", "").startswith("text/event-stream")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _BoundedStream(response.stream, self._limits, self._fail, is_events=is_events)

    def _fail(self, reason: str) -> NoReturn:
        self._status.failure_reason = reason
        raise httpx2.ReadError(reason)


class ObservedAuth(httpx2.Auth):
    """An authentication whose credentials, such as the token of a login, are added to the secrets of the connection."""

    def __init__(self, inner: httpx2.Auth, secrets: SecretTexts) -> None:
        self._inner, self._secrets = inner, secrets
        self.requires_request_body = inner.requires_request_body
        self.requires_response_body = inner.requires_response_body

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Yield the requests of the inner authentication."""
        before = dict(request.headers)
        async with contextlib.aclosing(self._inner.async_auth_flow(request)) as flow:
            with contextlib.suppress(StopAsyncIteration):
                sent = await anext(flow)
                while True:
                    self._add_secrets(sent, before)
                    sent = await flow.asend((yield sent))

    def _add_secrets(self, request: httpx2.Request, before: Mapping[str, str]) -> None:
        self._secrets.add_url(str(request.url))
        for name, value in request.headers.items():
            if before.get(name) != value and name not in _PLAIN_HEADERS:
                self._secrets.add_header(name, value)
        if request.headers.get("content-type") == "application/x-www-form-urlencoded":
            for name, value in parse_qsl(request.content.decode("utf-8", "replace")):
                if is_secret_name(name) or name in _SECRET_FORM_FIELDS:
                    self._secrets.add(value)


class _BoundedStream(httpx2.AsyncByteStream):
    """A response body of bounded size, without lone surrogates; in an event stream, each event is bounded."""

    def __init__(
        self, inner: httpx2.AsyncByteStream, limits: Limits, fail: Callable[[str], NoReturn], *, is_events: bool
    ) -> None:
        self._inner, self._limits, self._fail, self._is_events = inner, limits, fail, is_events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, values, surrogates = 0, JsonValueCounter(), LoneSurrogates()
        async for chunk in self._inner:
            size += len(chunk)
            if size > self._limits.message_bytes:
                self._fail(f"the server sent a message of more than {self._limits.message_bytes} bytes")
            if values.add(chunk) > self._limits.values_per_message:
                self._fail(f"the server sent a message of more than {self._limits.values_per_message} values")
            if self._is_events and (b"\n\n" in chunk or b"\n\r\n" in chunk):
                size, values = 0, JsonValueCounter()
            yield surrogates.replace(chunk)
        if end := surrogates.finish():
            yield end

    async def aclose(self) -> None:
        await self._inner.aclose()
