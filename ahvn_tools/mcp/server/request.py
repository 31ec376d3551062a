"""A client's request to a server: its headers, token and session, and messages to the client before the answer."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final, TypeVar

from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_access_token, get_context, get_http_headers
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    PromptListChangedNotification,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from ahvn_tools.mcp.server.progress import ProgressReporter
from ahvn_tools.results import input_required_error

Answer = TypeVar("Answer", bound=BaseModel)

LISTS_SINCE: Final = "2025-11-25"
"""The first protocol in which the user can choose several options of a field."""


class Request:
    """What one request contains. Read it while the request is served; its repr shows no values."""

    is_of_task = False
    """Whether it has been answered with a task, which runs now."""

    def __init__(self, context: Context | None) -> None:
        """Use FastMCP's context of the request; None when the host's own code calls, outside of any request."""
        self._context = context
        self._request_context = None if context is None else context.request_context
        self._token = get_access_token()

    @classmethod
    def current(cls) -> Request:
        """Return the request that is being served, the same object at each step; in a task the one that started it."""
        request = _current.get()
        try:
            context = get_context()
        except RuntimeError:  # there is no request
            return request if request is not None and request.is_of_task else cls(None)
        if request is None or request._context is not context:  # noqa: SLF001  # of this class
            request = cls(context)
            _current.set(request)
        return request

    def make_current(self) -> None:
        """Make `current` return this request, in the context of this call and what it starts."""
        _current.set(self)

    @functools.cached_property
    def headers(self) -> Mapping[str, str]:
        """The HTTP headers by lower-case name, credentials included; empty over stdio."""
        return MappingProxyType(get_http_headers(include_all=True))

    @functools.cached_property
    def claims(self) -> Mapping[str, Any]:
        """The claims of the verified token; empty without a token."""
        return MappingProxyType({} if self._token is None else dict(self._token.claims))

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes of the verified token."""
        return frozenset() if self._token is None else frozenset(self._token.scopes)

    @property
    def client_id(self) -> str | None:
        """The client that the verified token was issued to; None without a token."""
        return None if self._token is None else self._token.client_id

    @property
    def client(self) -> Mapping[str, str]:
        """The `name` and `version` that the client program claims; they are not verified."""
        params = None if self._request_context is None else self._request_context.session.client_params
        if params is None:
            return MappingProxyType({})
        return MappingProxyType({"name": params.client_info.name, "version": params.client_info.version})

    @property
    def meta(self) -> Mapping[str, Any]:
        """The `_meta` of the request."""
        return MappingProxyType((self._request_context.meta if self._request_context is not None else None) or {})

    @property
    def transport(self) -> str | None:
        """`"stdio"`, `"streamable-http"` or `"sse"`; None in memory."""
        return None if self._context is None else self._context.transport

    @property
    def address(self) -> str | None:
        """The address of the client over HTTP, or that in the `X-Forwarded-For` of a proxy on this machine."""
        http_request = None if self._request_context is None else self._request_context.request
        client = None if http_request is None else http_request.client
        return None if client is None else client.host

    @property
    def session_id(self) -> str | None:
        """What the requests of one client have in common; None where clients cannot be distinguished.

        It consists of the identity in the verified token and of MCP's session ID in the protocol versions that have
        one. Over stdio there is only one client.
        """
        return ".".join(filter(None, (self._principal_id, self._connection_id))) or None

    @property
    def _principal_id(self) -> str | None:
        if self._token is None:
            return None
        identity = [self._token.client_id, self._token.claims.get("iss"), self._token.subject]
        digest = hashlib.sha256(json.dumps(identity, default=str).encode("utf-8", "surrogatepass")).hexdigest()
        return f"user-{digest[:32]}"

    @property
    def _connection_id(self) -> str | None:
        context, request = self._context, self._request_context
        if context is None or request is None or request.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return "stdio" if self.transport == "stdio" else None
        connection = getattr(request.session, "_connection", None)
        if self.transport == "streamable-http" and getattr(connection, "session_id", None) is None:
            return None  # a stateless server: FastMCP makes an id up, or takes any that the client sends
        return context.session_id

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the connection of the client ends; never where each request has its own connection.

        Such are the newest protocol and a stateless server.

        mcp has no public way from a request to its connection.
        """
        session = None if self._request_context is None else self._request_context.session
        connection = getattr(session, "_connection", None)
        is_lasting = self._connection_id is not None and not self._is_modern
        if connection is not None and is_lasting:
            connection.exit_stack.callback(callback)

    @property
    def can_elicit(self) -> bool:
        """Whether the client shows forms to its user, and can be asked to do so during this request."""
        if self._request_context is None:
            return False
        session = self._request_context.session
        capabilities = session.client_capabilities
        modes = None if capabilities is None else capabilities.elicitation
        if modes is None or (modes.form is None and modes.url is not None):
            return False
        return self._is_modern or session.can_send_request

    @property
    def takes_lists(self) -> bool:
        """Whether a form that the client shows may have a field with several choices."""
        request = self._request_context
        return self._is_modern or (request is not None and request.protocol_version >= LISTS_SINCE)

    def can_sample(self, *, with_tools: bool) -> bool:
        """Return whether the client asks its model for servers, and can be asked to do so during this request."""
        if self._request_context is None:
            return False
        session = self._request_context.session
        sampling = None if session.client_capabilities is None else session.client_capabilities.sampling
        if sampling is None or (with_tools and sampling.tools is None):
            return False
        return self._is_modern or session.can_send_request

    @property
    def state(self) -> str | None:
        """What `elicit` gave the client to send back with its answers; only this server can read and make it."""
        return None if self._context is None else self._context.request_state

    async def elicit(self, key: str, message: str, schema: dict[str, Any], state: str) -> ElicitResult:
        """Return what the user of a client that `can_elicit` answers to a form.

        Clients of the newest protocol answer in another request: this raises InputRequiredError until then. The `key`
        identifies the question there, and the client sends the `state` back.
        """
        if not self.is_repeated_for_answers:
            assert self._context is not None  # noqa: S101  # `can_elicit`
            return await self._context.session.elicit_form(message, schema, self._context.request_id)
        if (answer := self.find_answer(key)) is not None:
            return answer
        raise input_required_error(self.make_input_request({key: (message, schema)}, state))

    async def send(self, question: Any, answer_type: type[Answer]) -> Answer:
        """Return what a client answers to a request during this one. Raises MCPError."""
        assert self._context is not None  # noqa: S101  # the client can be asked
        related = ServerMessageMetadata(related_request_id=self._context.request_id)
        return await self._context.session.send_request(question, answer_type, metadata=related)

    @property
    def is_repeated_for_answers(self) -> bool:
        """Whether the client sends its answers with another request for the same call."""
        return self._is_modern

    def find_answer(self, key: str) -> ElicitResult | None:
        """Return the user's answer to the question of this key, in such a request; None if there is none."""
        answer = self.answers.get(key)
        return answer if isinstance(answer, ElicitResult) else None

    def make_input_request(self, forms: Mapping[str, tuple[str, dict[str, Any]]], state: str) -> Any:
        """Return what asks for such a request: a form for each message and schema, by the keys of the questions."""
        requests: dict[str, Any] = {
            key: ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))
            for key, (message, schema) in forms.items()
        }
        return InputRequiredResult(input_requests=requests, request_state=state)

    @property
    def answers(self) -> Mapping[str, Any]:
        """What the client answers in such a request, by the keys of the questions."""
        return (None if self._context is None else self._context.input_responses) or {}

    @property
    def _is_modern(self) -> bool:
        request = self._request_context
        return request is not None and request.protocol_version in MODERN_PROTOCOL_VERSIONS

    def create_progress_reporter(self) -> ProgressReporter | None:
        """Return what sends progress messages to the client; None when it did not ask for them."""
        if self._context is None or "progressToken" not in self.meta:
            return None
        return ProgressReporter(self._context.report_progress)

    @property
    def log_level(self) -> str | None:
        """The least severe level of the log messages that the client wants, `"info"` if an older one has not said it.

        In the newest protocol each request says it; None: the client wants no messages.
        """
        if self._request_context is None or self._context is None:
            return None
        if self._is_modern:
            level = self.meta.get("io.modelcontextprotocol/logLevel")
            return level if isinstance(level, str) else None
        # FastMCP has no public way: from 4.2 on the level is in the state of the connection, before by its session id.
        connection = getattr(self._request_context.session, "_connection", None)
        state: Mapping[str, str] = getattr(connection, "state", None) or {}
        levels: Mapping[str, str] = getattr(self._context.fastmcp, "_client_log_levels", {})
        older = levels.get(getattr(connection, "session_id", None) or "__no_session__", "info")
        return state.get("_fastmcp_client_log_level", older)

    async def send_log(self, level: Any, logger: str, data: Any) -> None:
        """Send the client a log message, on the stream of this request."""
        if self._context is not None:
            params = LoggingMessageNotificationParams(level=level, logger=logger, data=data)
            await self._context.send_notification(LoggingMessageNotification(params=params))

    async def send_tool_list_changed(self) -> None:
        """Notify the client that its list of tools has changed, on the stream of this request."""
        if self._context is not None and self._request_context is not None:
            await self._context.send_notification(ToolListChangedNotification())

    async def send_prompt_list_changed(self) -> None:
        """Notify the client that its list of prompts has changed, as `send_tool_list_changed` does."""
        if self._context is not None and self._request_context is not None:
            await self._context.send_notification(PromptListChangedNotification())

    def __repr__(self) -> str:
        return f"<Request over {self.transport or 'memory'}>"


_current: ContextVar[Request | None] = ContextVar("current_request", default=None)
