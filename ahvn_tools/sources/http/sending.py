"""Sending a request: redirects, repeated attempts, and what a failure means."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal

import httpcore2
import httpx2
import tenacity

from ahvn_tools.errors import ToolConnectionError, ToolError
from ahvn_tools.sources.http.connections import AddressRefusedError, PoolKey, open_pool
from ahvn_tools.sources.http.request import HTTPOptions
from ahvn_tools.sources.http.responses import HTTPResponse, read_bounded, retry_after_seconds

REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_SEE_OTHER = 303
_HEADERS_FOR_ANY_ORIGIN = frozenset({b"accept", b"accept-encoding", b"content-type", b"user-agent"})
_CONTENT_HEADERS = frozenset({b"content-length", b"content-type"})
_DEFAULT_PORTS = {"http": 80, "https": 443}


def next_request(
    request: httpx2.Request,
    status: int,
    location: str | None,
    follows: bool | Literal["same-origin"],
    *,
    has_private_body: bool = False,
) -> httpx2.Request | None:
    """Return the request that a response redirects to; None if it is no redirect.

    Another origin gets no credential, no cookie, none of the host's headers and no private body. Raises ToolError for a
    redirect that is not followed, is not encrypted any more, or would take a private body to another origin.
    """
    if status not in REDIRECT_STATUSES or location is None:
        return None
    url = _target(request.url, location)
    is_same_origin = _origin(url) == _origin(request.url)
    is_followed = follows is True or (follows == "same-origin" and is_same_origin)
    if not is_followed or (request.url.scheme == "https" and url.scheme != "https"):
        where = "" if is_same_origin else " to another server"
        raise ToolError(f"The service redirects the request{where}, which is not allowed.")
    headers = [
        (name, value)
        for name, value in request.headers.raw
        if name.lower() != b"host" and (is_same_origin or name.lower() in _HEADERS_FOR_ANY_ORIGIN)
    ]
    if _becomes_get(request.method, status):
        headers = [(name, value) for name, value in headers if name.lower() not in _CONTENT_HEADERS]
        return httpx2.Request("GET", url, headers=headers)
    if has_private_body and not is_same_origin:
        raise ToolError("The service redirects the request to another server, which must not receive its body.")
    return httpx2.Request(request.method, url, headers=headers, content=request.content or None)


def _target(url: httpx2.URL, location: str) -> httpx2.URL:
    try:
        target = url.join(location).copy_with(fragment=None)
    except (httpx2.InvalidURL, ValueError):
        raise ToolError("The service redirects the request to an invalid address.") from None
    if target.scheme not in _DEFAULT_PORTS or not target.host or target.userinfo:
        raise ToolError("The service redirects the request to an invalid address.")
    return target


def _becomes_get(method: str, status: int) -> bool:
    """Return whether a redirect drops the method and the body, as browsers do: RFC 9110, section 15.4."""
    if status == _SEE_OTHER:
        return method != "HEAD"
    return method == "POST" and status in {301, 302}


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or _DEFAULT_PORTS.get(url.scheme)


MAX_REDIRECTS = 5
MAX_WAIT_SECONDS = 600
"""A longer wait that a service asks for is not begun, whatever the timeout is."""
TEMPORARY_STATUSES = frozenset({429, 502, 503, 504})
_UNSENT_ERRORS = (httpcore2.ConnectError, httpcore2.ConnectTimeout, httpcore2.PoolTimeout)
"""After these the server has certainly not received the request."""
_NETWORK_ERRORS = (
    httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError, httpcore2.ProxyError,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Sender:
    """Sends requests of one tool with its options."""

    tool: str
    options: HTTPOptions
    has_private_body: bool = False
    """Whether the body is for the service alone: no redirect takes it to another origin."""

    async def send(self, request: httpx2.Request) -> HTTPResponse:
        """Send a request, again after temporary failures, and return the response, which may have an error status.

        Raises ToolConnectionError if there is no response, InvalidResultError for one that is too large or unreadable,
        ToolError for a redirect that is not followed.
        """
        if self.options.retry_count == 0:
            attempt = self._attempt(request)
        else:
            attempt = self._retrying(self._attempt, request)
        try:
            return await attempt
        except _NETWORK_ERRORS as error:
            raise self._connection_error(error) from None

    def _retrying(self, attempt: Any, request: httpx2.Request) -> Any:
        options, repeatable = self.options, self.options.is_repeatable
        limit = options.timeout
        last = tenacity.stop_after_attempt(options.retry_count + 1)
        stop = tenacity.stop_any(last, _is_long_wait)  # type: ignore[arg-type]  # it takes any function
        retrying = tenacity.AsyncRetrying(  # one for each call: it holds the state of an attempt
            sleep=asyncio.sleep,
            stop=stop if limit is None else stop | tenacity.stop_before_delay(limit),
            wait=_Wait(options.retry_delay),
            retry=lambda state: _is_temporary(state, is_repeatable=repeatable),
            retry_error_callback=lambda state: state.outcome.result(),  # type: ignore[union-attr]  # the last attempt's
        )
        return retrying(attempt, request)

    async def _attempt(self, request: httpx2.Request) -> HTTPResponse:
        """Send a request once, and follow redirects."""
        redirected = await self._exchange_once(request)
        for _ in range(MAX_REDIRECTS):
            if isinstance(redirected, HTTPResponse):
                return redirected
            try:
                redirected = await self._exchange_once(redirected)
            except _UNSENT_ERRORS as error:  # the first server has received the request
                raise httpcore2.NetworkError(type(error).__name__) from None
        if isinstance(redirected, HTTPResponse):
            return redirected
        raise ToolError("The service redirects the request again and again.")

    async def _exchange_once(self, request: httpx2.Request) -> HTTPResponse | httpx2.Request:
        """Return the response to one request, or the request that it redirects to."""
        async with self._exchange(request) as (status, headers, chunks):
            redirect = next_request(
                request,
                status,
                headers.get("location"),
                self.options.follow_redirects,
                has_private_body=self.has_private_body,
            )
            if redirect is not None:
                return redirect
            body = await read_bounded(chunks, headers.get("content-encoding", ""), self.options.max_response_bytes)
            return HTTPResponse(status=status, headers=headers, body=body)

    @contextlib.asynccontextmanager
    async def _exchange(
        self, request: httpx2.Request
    ) -> AsyncIterator[tuple[int, httpx2.Headers, AsyncIterator[bytes]]]:
        """Send one request; its response is closed in the end, also when the call is cancelled."""
        url = request.url
        raw = httpcore2.Request(
            request.method,
            httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.content,
            extensions={"timeout": {"connect": self.options.connect_timeout}},
        )
        async with open_pool(PoolKey.of(url, self.options)) as pool:
            try:
                response = await pool.handle_async_request(raw)
            except AddressRefusedError as error:
                raise self._refused_error(error) from None
            try:
                yield response.status, httpx2.Headers(response.headers), response.aiter_stream()
            finally:
                await response.aclose()

    def _refused_error(self, error: AddressRefusedError) -> ToolConnectionError:
        return ToolConnectionError(
            "The address of the service is not allowed.",
            tool=self.tool,
            explanation=f"{self.tool!r} may not connect to {error.host!r}, which is no address of the public internet. "
            f"If that is intended, pass allow_private=[{error.host!r}]; for an OpenAPI document its base_url, or "
            f"http={{'allow_private': [{error.host!r}]}}, which is `http_options` in a manifest.",
            is_temporary=False,
        )

    def _connection_error(self, error: Exception) -> ToolConnectionError:
        kind = type(error).__name__
        if not isinstance(error, _UNSENT_ERRORS):
            return ToolConnectionError(f"The connection to the service was lost ({kind}).", tool=self.tool)
        explanation = None
        if isinstance(error, httpcore2.ConnectError):  # its text is that of the system or of TLS
            explanation = f"The service of {self.tool!r} cannot be reached: {error}."
        return ToolConnectionError(f"The service cannot be reached ({kind}).", tool=self.tool, explanation=explanation)


def _is_long_wait(state: tenacity.RetryCallState) -> bool:
    return state.upcoming_sleep > MAX_WAIT_SECONDS


class _Wait:
    """How long to wait before the next attempt: what the service says, else twice as long each time."""

    def __init__(self, first_delay: float) -> None:
        self._backoff = tenacity.wait_exponential(multiplier=first_delay) + tenacity.wait_random(0, first_delay / 4)

    def __call__(self, state: tenacity.RetryCallState) -> float:
        outcome = state.outcome
        asked = None
        if outcome is not None and not outcome.failed:
            asked = retry_after_seconds(outcome.result().headers.get("retry-after"))
        return self._backoff(state) if asked is None else asked


def _is_temporary(state: tenacity.RetryCallState, *, is_repeatable: bool) -> bool:
    outcome = state.outcome
    if outcome is None:
        return False
    if not outcome.failed:
        return is_repeatable and outcome.result().status in TEMPORARY_STATUSES
    error = outcome.exception()
    if error is not None and any(isinstance(part, ssl.SSLCertVerificationError) for part in error.args):
        return False  # httpcore2 keeps the error of TLS as the argument of its own
    return isinstance(error, _UNSENT_ERRORS) or (is_repeatable and isinstance(error, _NETWORK_ERRORS))
