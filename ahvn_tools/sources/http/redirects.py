"""Redirects: where they may lead, and what of a request goes there."""

from __future__ import annotations

from typing import Literal

import httpx2

from ahvn_tools.errors import ToolError

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
