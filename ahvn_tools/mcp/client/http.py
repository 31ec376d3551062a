"""HTTP clients with a bound on the size of each message, which record why the connection failed.

Can be dropped when mcp's HTTP client itself limits the bytes of a message and reports the HTTP status of a failure.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn
from urllib.parse import parse_qsl

import httpx2

from ahvn_tools.mcp.client.client_settings import ClientSettings, ConnectionStatus
from ahvn_tools.mcp.client.errors import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REQUEST_CUT,
    SERVER_UNREACHABLE,
    SESSION_NOT_FOUND,
)
from ahvn_tools.mcp.lone_surrogates import LoneSurrogates
from ahvn_tools.mcp.trust.limits import JsonValueCounter, Limits
from ahvn_tools.redaction.logs import add_log_filter
from ahvn_tools.redaction.names import is_secret_name
from ahvn_tools.redaction.texts import SecretTexts

CONNECT_TIMEOUT = 30.0  # seconds to connect and to send; reading has no limit here, because each call has its own
MAX_HTTP_CONNECTIONS = 256  # concurrent requests; further ones wait
KEEPALIVE_EXPIRY = 3.0  # seconds until an unused connection is closed; servers close theirs after 5
MAX_SSE_BYTES = 1024 * 1024  # in one event of mcp's SSE client, which has no option for it
MIN_ERROR_STATUS = 400
BAD_REQUEST = 400
NO_CONTENT = 204
NOT_FOUND = 404
GONE = 410
BAD_GATEWAY = 502
SESSION_HEADER = "mcp-session-id"

_UNKNOWN_SESSION_STATUSES = frozenset({BAD_REQUEST, NOT_FOUND, GONE})
_LOST_SESSION = re.compile(r"session|not initialized", re.IGNORECASE)
_UNSENT_ERRORS = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_JSON = {"content-type": "application/json"}

_PLAIN_HEADERS = frozenset({
    "accept", "accept-encoding", "connection", "content-length", "content-type", "host", "mcp-protocol-version",
    "user-agent",
})  # fmt: skip
"""Headers of a login that are no credentials."""

_SECRET_FORM_FIELDS = frozenset({"assertion", "client_assertion", "code", "code_verifier"})
"""Fields of a login that are secret in addition to those with a secret name: RFC 6749, 7523 and 7636."""


class BoundedHTTPFactory:
    """Makes HTTP clients for FastMCP, and records their failures and credentials in the settings."""

    def __init__(self, settings: ClientSettings, verify: Any = None, *, has_sessions: bool = True) -> None:
        """`verify` is httpx2's: how the certificate of the server is verified; None: as httpx2 does.

        `has_sessions`: the transport is Streamable HTTP.
        """
        self._has_sessions = has_sessions
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
        client = _Client(
            self._status if self._has_sessions else None,
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
            limits = self._limits
            if is_events and not self._has_sessions:
                limits = replace(limits, message_bytes=min(limits.message_bytes, MAX_SSE_BYTES))
            response.stream = _BoundedStream(response.stream, limits, self._fail, is_events=is_events)
            if self._has_sessions and not is_events and _fails_alone(response.request, self._status):
                response.stream = _WholeStream(response.stream, response.request, self._status)

    def _fail(self, reason: str) -> NoReturn:
        self._status.failure_reason = reason
        raise httpx2.ReadError(reason)


class _Client(httpx2.AsyncClient):
    """A client whose requests fail alone: mcp ends the session of a request that raises.

    Can be dropped when mcp's Streamable HTTP client resolves such a request, and one whose session the server does not
    know, for itself.
    """

    def __init__(self, status: ConnectionStatus | None, **options: Any) -> None:
        self._status = status
        super().__init__(**options)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request. Return an error of JSON-RPC for one that cannot be sent, or has no answer."""
        try:
            response = await super().send(request, **options)
            if self._status is not None and await _is_session_unknown(response):
                await response.aclose()
                return httpx2.Response(NOT_FOUND, request=request)  # for mcp: "Session terminated"
        except httpx2.TransportError as error:
            if request.method == "DELETE":  # mcp would log that the session was not ended, which a lost one cannot be
                return httpx2.Response(NO_CONTENT, request=request)
            if self._status is None or not _fails_alone(request, self._status):
                raise
            return httpx2.Response(BAD_GATEWAY, headers=_JSON, content=_make_error(request, error), request=request)
        return response


def _fails_alone(request: httpx2.Request, status: ConnectionStatus) -> bool:
    """Return whether a request is a message in an open session, and no part of a login."""
    is_message = request.method == "POST" and "text/event-stream" in request.headers.get("accept", "")
    return is_message and status.is_ready and not status.failure_reason


async def _is_session_unknown(response: httpx2.Response) -> bool:
    """Return whether a server refuses a request because it has lost the session; then it has not run the request.

    The protocol says 404. Servers made with the TypeScript SDK answer 400 after a restart, and some 410.
    """
    if response.status_code not in _UNKNOWN_SESSION_STATUSES or SESSION_HEADER not in response.request.headers:
        return False
    text = (await response.aread()).decode(errors="replace")
    try:
        message = json.loads(text)
        code, text = message["error"].get("code"), str(message["error"].get("message"))
        is_about_call = message.get("id") == json.loads(response.request.content).get("id")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):  # no error of JSON-RPC
        code, is_about_call = None, False
    if code == SESSION_NOT_FOUND or code in {METHOD_NOT_FOUND, INVALID_PARAMS}:
        return bool(code == SESSION_NOT_FOUND)
    if response.status_code == BAD_REQUEST:
        return not is_about_call and _LOST_SESSION.search(text) is not None
    return True


def _make_error(request: httpx2.Request, error: httpx2.TransportError) -> bytes:
    """Return the error of JSON-RPC for a message that has no answer."""
    message = SERVER_UNREACHABLE if isinstance(error, _UNSENT_ERRORS) else REQUEST_CUT
    identifier = json.loads(request.content).get("id")
    return json.dumps(
        {"jsonrpc": "2.0", "id": identifier, "error": {"code": CONNECTION_CLOSED, "message": message}}
    ).encode()


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


class _WholeStream(httpx2.AsyncByteStream):
    """A response body that is read whole; if the connection breaks, it is an error of JSON-RPC instead."""

    def __init__(self, inner: httpx2.AsyncByteStream, request: httpx2.Request, status: ConnectionStatus) -> None:
        self._inner, self._request, self._status = inner, request, status

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            body = b"".join([chunk async for chunk in self._inner])
        except httpx2.TransportError as error:
            if self._status.failure_reason:
                raise
            body = _make_error(self._request, error)
        yield body

    async def aclose(self) -> None:
        await self._inner.aclose()


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
            if self._is_events and (boundary := max(chunk.rfind(b"\n\n"), chunk.rfind(b"\n\r\n"))) >= 0:
                size, values = len(chunk) - boundary, JsonValueCounter()
                values.add(chunk[boundary:])
            yield surrogates.replace(chunk)
        if end := surrogates.finish():
            yield end

    async def aclose(self) -> None:
        await self._inner.aclose()
