"""What a request that failed means: the server said no, answered nonsense, or is not there any more."""

from __future__ import annotations

from typing import Any

from ahvn_tools.errors import InvalidResultError, LimitExceededError, ToolCallError, ToolConnectionError, ToolError
from ahvn_tools.mcp.trust.invisible import escape

MAX_MESSAGE_CHARS = 2_000
"""Characters of a server's own words that are passed on."""

_CONNECTION_CLOSED, _INTERNAL_ERROR, _PARSE_ERROR = -32000, -32603, -32700

_NO_RESPONSE_MESSAGES = frozenset({"server answered a request with 202 Accepted"})
"""What mcp's client says of an answer that is none."""

_CONNECTION_LOST_ERRORS = frozenset({
    (_CONNECTION_CLOSED, "Connection closed"),
    (_INTERNAL_ERROR, "Server returned an error response"),
})  # fmt: skip
"""Errors that mcp's client makes when nothing came back."""

_UNKNOWN_SESSION_ERRORS = frozenset({(-32600, "Session terminated"), (-32600, "Session not found")})
"""What a server says that was started anew: it has done nothing with the request."""


class ConnectionLostError(Exception):
    """The connection is of no use any more."""

    def __init__(self, reason: str, *, is_unsent: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_unsent = is_unsent
        """Whether it is certain that the server has not begun to do what was asked."""


def to_call_error(error: Exception, tool: str | None, status: int | None) -> ToolCallError | ConnectionLostError:
    """Return what an exception of a client means. `status` is the last HTTP status that was an error, if any."""
    if isinstance(error, ToolCallError):
        return error
    code, message = getattr(error, "code", None), str(getattr(error, "message", ""))
    if isinstance(code, int) and type(error).__name__ == "MCPError":
        if isinstance(refused := getattr(error, "data", None), ToolCallError):
            return refused
        if code == _PARSE_ERROR or message in _NO_RESPONSE_MESSAGES:
            return InvalidResultError("The server's answer cannot be read.", tool=tool)
        if (code, message) in _UNKNOWN_SESSION_ERRORS:
            return ConnectionLostError("the server does not know this session any more", is_unsent=True)
        if (code, message) in _CONNECTION_LOST_ERRORS or (
            code == _CONNECTION_CLOSED and message.startswith("SSE stream ")
        ):
            is_refusal = status and code == _INTERNAL_ERROR
            return ConnectionLostError(
                f"the server answered HTTP {status}" if is_refusal else "the server closed the connection"
            )
        return ToolError(sanitize_message(message) or f"The server refused the request (error {code}).", tool=tool)
    if type(error).__name__ == "InputRequiredRoundsExceededError":
        return LimitExceededError("The server asks for something again and again, and never answers.", tool=tool)
    if isinstance(error, ValueError):
        return InvalidResultError("The server's answer is no valid MCP result.", tool=tool)
    return ConnectionLostError(f"the connection broke ({type(_get_root_cause(error)).__name__})")


def describe_connect_error(error: BaseException, status: int | None) -> str:
    """Return why there is no connection, in words that hold no value of anybody's."""
    root = _get_root_cause(error)
    if status:
        return f"the server answered HTTP {status}"
    if isinstance(root, FileNotFoundError | NotADirectoryError):
        return "its program or folder does not exist"
    if isinstance(root, PermissionError):
        return "its program may not be run"
    if type(root).__name__ == "MCPError":
        return sanitize_message(str(getattr(root, "message", ""))) or "the server refused to shake hands"
    if isinstance(root, RuntimeError) and "protocol version" in str(root):
        return sanitize_message(str(root))
    if type(root).__name__ == "ValidationError":
        return "its answer to the handshake is no valid MCP"
    return f"it cannot be reached ({type(root).__name__})"


def to_connection_error(server: str, reason: str, tool: str | None = None) -> ToolConnectionError:
    """Return the error for the caller."""
    return ToolConnectionError(f"Server {server!r} is not there: {reason}. The next call connects again.", tool=tool)


def sanitize_message(text: Any) -> str:
    """Return a server's own words, capped, with hidden characters written out."""
    short = str(text)[: MAX_MESSAGE_CHARS + 1].strip()
    return escape(short if len(short) <= MAX_MESSAGE_CHARS else f"{short[:MAX_MESSAGE_CHARS]} …")


def _get_root_cause(error: BaseException) -> BaseException:
    """Return the exception at the bottom of causes and groups."""
    inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__
    return error if inner is None else _get_root_cause(inner)
