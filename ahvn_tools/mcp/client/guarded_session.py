"""A session that checks each answer before mcp parses it: limits, valid JSON and media, malformed tools left out."""

from __future__ import annotations

import binascii
import functools
from typing import Any

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp import ClientSession
from mcp.shared.message import SessionMessage
from mcp_types import (
    LATEST_PROTOCOL_VERSION,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    ListToolsResult,
    PaginatedRequestParams,
)
from mcp_types.methods import validate_server_result
from pydantic_core import ValidationError

from ahvn_tools.errors import InvalidResultError, LimitExceededError, ToolCallError
from ahvn_tools.formats.json_data import to_json_data
from ahvn_tools.mcp.client.client_settings import STRUCTURED_META_KEY, ClientSettings
from ahvn_tools.mcp.client.errors import INTERNAL_ERROR
from ahvn_tools.mcp.trust.limits import Limits, RateGuard, check_media, check_result
from ahvn_tools.redaction.texts import SecretTexts

_OPAQUE_MEMBERS = frozenset({"cursor", "nextCursor", "progressToken", "requestId", "requestState", "taskId"})
"""What the client only sends back."""

_FREE_MEMBERS = frozenset({"_meta", "data", "structuredContent"})
"""Members in which the server chooses the names."""

_BASE64_MEMBERS = frozenset({"blob", "data"})


def make_session_class(settings: ClientSettings) -> type[ClientSession]:
    """Return a session class with these settings: FastMCP takes a class, and makes the session itself."""

    class GuardedSession(ClientSession):
        """A session that reads from a GuardedStream; mcp parses answers on the event loop, however large they are."""

        def __init__(self, read_stream: Any, write_stream: Any, *arguments: Any, **options: Any) -> None:
            self._guarded_stream = GuardedStream(read_stream, settings)
            super().__init__(self._guarded_stream, _SendableStream(write_stream), *arguments, **options)

        async def list_tools(self, *, params: PaginatedRequestParams | None = None) -> ListToolsResult:
            """Request a page of tools; once more, without malformed ones, if mcp refuses the page because of them."""
            try:
                return await super().list_tools(params=params)
            except ValidationError:
                self._guarded_stream.protocol_version = self.protocol_version or LATEST_PROTOCOL_VERSION
            return await super().list_tools(params=params)

    return GuardedSession


class GuardedStream(ObjectReceiveStream[Any]):
    """A stream of messages for mcp, in which answers are checked and requests counted."""

    def __init__(self, stream: Any, settings: ClientSettings) -> None:
        self.protocol_version: str | None = None
        """The protocol version by which malformed tools are recognized; None: they are not looked for."""
        self._stream = stream
        self._settings = settings
        self._request_guard = RateGuard(settings.limits.requests, "requests")

    @property
    def last_context(self) -> Any:
        """The sender's context variables, which mcp asks of a stream that carries them."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """Wait for the next message."""
        item = await self._stream.receive()
        message = getattr(item, "message", None)
        if message is not None and self._settings.secrets:
            mask_message(message, self._settings.secrets)
        if isinstance(message, JSONRPCRequest) and (reason := self._request_guard.count_message()) is not None:
            self._settings.on_connection_lost(reason)
            raise anyio.EndOfStream
        return self._check_response(item, message) if isinstance(message, JSONRPCResponse) else item

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def _check_response(self, item: Any, message: JSONRPCResponse) -> Any:
        task_result = message.result.get("result")
        try:
            if message.result.get("status") == "input_required" and not message.result.get("inputRequests"):
                raise InvalidResultError("The server's task asks for input, but not for what.")
            check_result(message.result, self._settings.limits)
            _check_prompt(message.result, self._settings.limits)
            if isinstance(task_result, dict):  # of a task, in its status
                check_result(task_result, self._settings.limits)
        except ToolCallError as error:  # `errors.to_call_error` reads it from `data`
            details = ErrorData(code=INTERNAL_ERROR, message=error.message, data=error)
            return SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=details))
        _move_structured_content(message.result)
        tools = message.result.get("tools")
        if self.protocol_version is not None and isinstance(tools, list):
            message.result["tools"] = [tool for tool in tools if self._is_tool(tool, message.result)]
        return item

    def _is_tool(self, tool: Any, page: dict[str, Any]) -> bool:
        version = self.protocol_version or LATEST_PROTOCOL_VERSION
        try:
            validate_server_result("tools/list", version, {**page, "tools": [tool]})
        except ValueError:
            self._settings.status.malformed_tools.append(tool)
            return False
        return True


class _SendableStream(ObjectSendStream[Any]):
    """A stream of messages from mcp, in which a text that UTF-8 cannot encode would end the connection.

    It comes from the answer to a question or from metadata: the arguments of a call were checked before.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def send(self, item: SessionMessage) -> None:
        """Send a message, with U+FFFD in place of each lone surrogate."""
        message = item.message
        try:
            message.model_dump_json()
        except ValueError:
            for name in message.model_fields_set & {"params", "result", "error"}:
                part = getattr(message, name)
                setattr(message, name, ErrorData(**to_json_data(dict(part))) if name == "error" else to_json_data(part))
        await self._stream.send(item)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


def mask_message(message: Any, secrets: SecretTexts) -> None:
    """Mask the credentials of a connection in what its server sends."""
    if isinstance(message, JSONRPCError):
        message.error.message = secrets.mask(message.error.message, is_error=True)
        message.error.data = secrets.mask_json(message.error.data, is_error=True)
    elif isinstance(message, JSONRPCResponse):
        message.result = mask_members(message.result, secrets)
    elif isinstance(message, JSONRPCRequest | JSONRPCNotification) and message.params is not None:
        message.params = mask_members(message.params, secrets)


def _move_structured_content(result: dict[str, Any]) -> None:
    """Keep structured content that is no object where mcp does not refuse it."""
    structured, meta = result.get("structuredContent"), result.get("_meta") or {}
    if structured is not None and not isinstance(structured, dict) and isinstance(meta, dict):
        result["_meta"] = {**meta, STRUCTURED_META_KEY: result.pop("structuredContent")}


def mask_members(value: Any, secrets: SecretTexts, *, is_error: bool = False) -> Any:
    """Return a part of a message without the secrets. Its own names of members stay, and what only the server reads."""
    if isinstance(value, list):
        return [mask_members(part, secrets, is_error=is_error) for part in value]
    if not isinstance(value, dict):
        return secrets.mask_json(value, is_error=is_error)
    is_error = is_error or value.get("isError") is True
    masked = {}
    for name, part in value.items():
        if name in _BASE64_MEMBERS and isinstance(part, str):
            part = _mask_base64(part, secrets)  # noqa: PLW2901  # and, in case it is no base64, as a text
        mask = secrets.mask_json if name in _FREE_MEMBERS else functools.partial(mask_members, secrets=secrets)
        masked[name] = part if name in _OPAQUE_MEMBERS else mask(part, is_error=is_error)
    return masked


def _mask_base64(text: str, secrets: SecretTexts) -> str:
    """Return media without the secrets; a text that is not base64 unchanged."""
    try:
        data = binascii.a2b_base64("".join(text.split()), strict_mode=True)
    except ValueError:
        return text
    masked = secrets.mask_bytes(data)
    return text if masked == data else binascii.b2a_base64(masked, newline=False).decode()


def _check_prompt(result: dict[str, Any], limits: Limits) -> None:
    """Raise LimitExceededError and InvalidResultError for the messages of a prompt."""
    messages = result.get("messages")
    if not isinstance(messages, list):
        return
    if len(messages) > limits.blocks:
        raise LimitExceededError(f"The server answered with a prompt of more than {limits.blocks} messages.")
    for message in messages:
        check_media(message.get("content") if isinstance(message, dict) else None)
