"""Request: what a client's request to a server says, and the way to tell the client something before it is answered."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_access_token, get_context, get_http_headers
from mcp_types import ToolListChangedNotification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ahvn_tools.mcp.server.progress import ProgressReporter


class Request:
    """What one request says. It is read while the request is served; its repr shows no value."""

    def __init__(self, context: Context | None) -> None:
        """Take FastMCP's context of the request; None where the host's own code asks, outside of any request."""
        self._context = context
        self._request_context = None if context is None else context.request_context
        self._token = get_access_token()

    @classmethod
    def current(cls) -> Request:
        """Return the request that is being served."""
        try:
            return cls(get_context())
        except RuntimeError:  # there is none
            return cls(None)

    @functools.cached_property
    def headers(self) -> Mapping[str, str]:
        """The HTTP headers by their names in lower case, credentials included; none over stdio."""
        return MappingProxyType(get_http_headers(include_all=True))

    @functools.cached_property
    def claims(self) -> Mapping[str, Any]:
        """The claims of the token that the server has verified; none without one."""
        return MappingProxyType({} if self._token is None else dict(self._token.claims))

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes of the verified token."""
        return frozenset() if self._token is None else frozenset(self._token.scopes)

    @property
    def client_id(self) -> str | None:
        """Whom the verified token was given to; None without one."""
        return None if self._token is None else self._token.client_id

    @property
    def client(self) -> Mapping[str, str]:
        """The `name` and `version` that the client's program gives itself; nobody has verified them."""
        params = None if self._request_context is None else self._request_context.session.client_params
        if params is None:
            return MappingProxyType({})
        return MappingProxyType({"name": params.client_info.name, "version": params.client_info.version})

    @property
    def meta(self) -> Mapping[str, Any]:
        """The `_meta` of the request, as it came."""
        return MappingProxyType((self._request_context.meta if self._request_context is not None else None) or {})

    @property
    def transport(self) -> str | None:
        """`"stdio"`, `"streamable-http"` or `"sse"`; None in memory."""
        return None if self._context is None else self._context.transport

    @property
    def session_id(self) -> str | None:
        """What the requests of one client have in common; None where nothing tells one client from another.

        It is made of the verified token, of MCP's own session where the protocol still has them, and of both where
        there are both; over stdio there is only one client.
        """
        parts = [part for part in (self._principal_id, self._connection_id) if part is not None]
        return ".".join(parts) or None

    @property
    def _principal_id(self) -> str | None:
        if self._token is None:
            return None
        issuer = self._token.claims.get("iss")
        who = json.dumps([self._token.client_id, issuer, self._token.subject], default=str)
        return f"user-{hashlib.sha256(who.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"

    @property
    def _connection_id(self) -> str | None:
        if (
            self._context is None
            or self._request_context is None
            or self._request_context.protocol_version in MODERN_PROTOCOL_VERSIONS
        ):
            return "stdio" if self.transport == "stdio" else None
        return self._context.session_id

    def create_progress_reporter(self) -> ProgressReporter | None:
        """Return what tells the client how far its call has come; None when it did not ask for that."""
        if self._context is None or "progressToken" not in self.meta:
            return None
        return ProgressReporter(self._context.report_progress)

    async def send_tool_list_changed(self) -> None:
        """Tell the client that the list of tools is another one now, on the stream of this request."""
        if self._context is not None and self._request_context is not None:
            await self._context.send_notification(ToolListChangedNotification())

    def __repr__(self) -> str:
        return f"<Request over {self.transport or 'memory'}>"
