"""What a failed request means: the server refused it, sent an invalid answer, or the connection was lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pydantic_core import ValidationError

from ahvn_tools.errors import (
    InvalidResultError,
    LimitExceededError,
    ToolCallError,
    ToolConnectionError,
    ToolError,
    clip,
)
from ahvn_tools.invisible import escape
from ahvn_tools.redaction.credentials import mask_credentials

# JSON-RPC's and MCP's error codes; `mcp_types` has them too, but importing it is slow.
CONNECTION_CLOSED = -32000
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
MISSING_REQUIRED_CLIENT_CAPABILITY = -32021
PARSE_ERROR = -32700

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
"""The name of the capability to receive tasks as results."""

REQUEST_CUT = "the connection broke before the server had answered"
"""The message of the error that our HTTP client makes of a request without an answer: mcp ends that one alone."""

SERVER_UNREACHABLE = "the server cannot be reached"
"""The message of that error if the request was not sent."""

MAX_ERROR_CHARS = 2_000
"""A server's error text is cut after this many characters."""

MAX_MISTAKES = 3
"""So many mistakes of an answer are named."""

_MEMBERS = frozenset({
    "_meta", "annotations", "audience", "blob", "capabilities", "content", "created_at", "createdAt", "data",
    "description", "icons", "inputRequests", "inputSchema", "instructions", "isError", "lastModified", "message",
    "method", "mimeType", "mode", "name", "nextCursor", "outputSchema", "params", "pollInterval", "priority",
    "protocolVersion", "requestState", "requestedSchema", "resource", "result", "resultType", "serverInfo", "size",
    "sizes", "src", "status", "statusMessage", "structuredContent", "supportedVersions", "task", "taskId", "text",
    "title", "tools", "ttlMs", "type", "uri", "version",
    "audio", "image", "resource_link", "AudioContent", "BlobResourceContents", "CallToolResult", "EmbeddedResource",
    "ImageContent", "InputRequiredResult", "ResourceLink", "TextContent", "TextResourceContents",
})  # fmt: skip
"""The names in the locations of pydantic's errors that are MCP's: of members, and of the branches of unions."""

_CAPABILITIES = ("elicitation", "sampling", "roots", "tasks", "extensions", "experimental")
"""The names of MCP's client capabilities."""

MAX_TYPE_CHARS = 100

_UNTRUSTED = "its TLS certificate is not trusted"
_NO_MCP = "there is no MCP server at this URL: it answered"
_UNEXPECTED_TYPE = "Unexpected content type:"
_EVENT_LIMIT = re.compile(r"exceeded the (\d+) byte limit")
"""What mcp's client says of an event that is larger than the `max_sse_event_size` of its transport."""

_NO_RESPONSE_MESSAGES = frozenset({"server answered a request with 202 Accepted"})
"""What mcp's client reports when a request has no response."""

_CONNECTION_LOST_ERRORS = frozenset({
    (CONNECTION_CLOSED, "Connection closed"),
    (INTERNAL_ERROR, "Server returned an error response"),
})  # fmt: skip
"""Errors that mcp's client makes when no answer came."""

_LOGIN_MODULES = ("fastmcp.client.auth", "mcp.client.auth")
"""Modules whose errors may have a part of what a service answered to a login."""

SESSION_NOT_FOUND = -32001
"""The code of the TypeScript SDK's error about a session that a server does not know."""

_UNKNOWN_SESSION_ERRORS = frozenset({
    (INVALID_REQUEST, "Session terminated"),
    (INVALID_REQUEST, "Session not found"),
    (SESSION_NOT_FOUND, "Session not found"),
})  # fmt: skip
"""What a restarted server answers; it has not run the request."""


class ConnectionLostError(Exception):
    """The connection, or that of one HTTP request, cannot be used any more."""

    def __init__(self, reason: str, *, is_unsent: bool = False, ends_session: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_unsent = is_unsent
        """Whether the server has certainly not started the request."""
        self.ends_session = ends_session
        """Whether the session of the request cannot be used for others."""


def to_call_error(error: Exception, tool: str | None, status: int | None) -> ToolCallError | ConnectionLostError:
    """Return what an exception of a client means. `status` is the last HTTP error status, if any."""
    if isinstance(error, ToolCallError):
        return error
    code = getattr(error, "code", None)
    if isinstance(code, int) and type(error).__name__ == "MCPError":
        return _from_mcp_error(error, code, tool, status)
    if type(error).__name__ == "InputRequiredRoundsExceededError":
        return LimitExceededError("The server keeps asking for input and never answers.", tool=tool)
    if isinstance(error, ValueError):
        reason = _describe_mistakes(error)
        return InvalidResultError(
            f"The server's answer is not a valid MCP result{reason and f': {reason}'}.", tool=tool
        )
    return ConnectionLostError(f"the connection broke ({type(_get_root_cause(error)).__name__})")


def _describe_mistakes(error: BaseException) -> str:
    """Return where the first mistakes of an answer are, and of which type pydantic says they are; "" if it does not.

    Names that are not of MCP may be chosen by the server, and have a secret: they are replaced by `…`.
    """
    if not isinstance(error, ValidationError):
        return ""
    found = error.errors(include_input=False, include_url=False, include_context=False)
    mistakes = [(one["loc"], one["type"].replace("_", " ")) for one in found]
    others = {
        loc[:-1] for loc, kind in mistakes if loc[-1:] in {("type",), ("resultType",)} and kind == "literal error"
    }
    own = [(loc, kind) for loc, kind in mistakes if others.isdisjoint(loc[:size] for size in range(len(loc) + 1))]
    if not own:  # no branch of the union is meant
        own = [((*branch[:-1], "type"), "unknown") for branch in others]
    texts = dict.fromkeys(f"{'.'.join(map(_to_shown_step, loc)) or 'the answer'} ({kind})" for loc, kind in own)
    return "; ".join(list(texts)[:MAX_MISTAKES])


def _to_shown_step(step: int | str) -> str:
    return str(step) if isinstance(step, int) or step in _MEMBERS else "…"


def _from_mcp_error(
    error: Exception, code: int, tool: str | None, status: int | None
) -> ToolCallError | ConnectionLostError:
    message = str(getattr(error, "message", ""))
    if isinstance(refusal := getattr(error, "data", None), ToolCallError):
        return refusal
    if code == PARSE_ERROR or message in _NO_RESPONSE_MESSAGES:
        return InvalidResultError("The server's answer cannot be read.", tool=tool)
    if code == CONNECTION_CLOSED and message in {REQUEST_CUT, SERVER_UNREACHABLE}:
        return ConnectionLostError(message, ends_session=message == SERVER_UNREACHABLE)
    if (code, message) in _UNKNOWN_SESSION_ERRORS:
        return ConnectionLostError("the server does not know this session any more", is_unsent=True)
    if code == CONNECTION_CLOSED and message.startswith("SSE stream "):
        if (limit := _EVENT_LIMIT.search(message)) is not None:
            reason = f"it sent an event of more than {limit[1]} bytes, which its client does not read"
            return ConnectionLostError(reason, ends_session=False)
        return ConnectionLostError("the server closed the connection", ends_session=False)
    if (code, message) in _CONNECTION_LOST_ERRORS:
        is_refusal = status and code == INTERNAL_ERROR
        return ConnectionLostError(
            f"the server answered HTTP {status}" if is_refusal else "the server closed the connection"
        )
    refusal = ToolError(sanitize_text(message.strip()) or f"The server refused the request (error {code}).", tool=tool)
    if code == MISSING_REQUIRED_CLIENT_CAPABILITY:
        if _requires_tasks(getattr(error, "data", None)):
            return ToolError("The tool only runs as an MCP task: add its server with tasks=True.", tool=tool)
        refusal.mcp_response = _make_capability_error(getattr(error, "data", None))
    return refusal


def _requires_tasks(data: Any) -> bool:
    required = data.get("requiredCapabilities") if isinstance(data, dict) else None
    extensions = required.get("extensions") if isinstance(required, dict) else None
    return isinstance(extensions, dict) and TASKS_EXTENSION in extensions


def _make_capability_error(data: Any) -> Exception:
    """Return the error for a client of a toolkit that is served: of the server's data only the capabilities' names.

    The server could have written a bound value of the call into the rest of them.
    """
    from mcp.shared.exceptions import MCPError

    required = data.get("requiredCapabilities") if isinstance(data, dict) else None
    names = [name for name in _CAPABILITIES if isinstance(required, dict) and name in required]
    message = "The server of this tool requires a capability that its client does not have."
    return MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, message, {"requiredCapabilities": {name: {} for name in names}})


class StderrFileError(OSError):
    """The file that the host has named for the stderr of a server cannot be written."""


def describe_connect_error(error: BaseException, status: int | None) -> str:
    """Return why there is no connection, without any value of the host or of a user."""
    root = _get_root_cause(error)
    if status:
        return f"the server answered HTTP {status}"
    if (reason := _find_local_problem(root)) is not None:
        return reason
    if type(root).__name__ == "SSEError":
        return f"{_NO_MCP} with something other than events"
    if type(root).__name__ == "MCPError":
        if (reason := _find_foreign_answer(root)) is not None:
            return reason
        text = mask_credentials(str(getattr(root, "message", ""))[: 2 * MAX_ERROR_CHARS]).strip()
        return sanitize_text(text) or "the server refused the handshake"
    if isinstance(root, RuntimeError) and "protocol version" in str(root):
        return sanitize_text(str(root).strip())
    if type(root).__name__ == "ValidationError":
        reason = _describe_mistakes(root)
        return f"its answer to the handshake is not valid MCP{reason and f' ({reason})'}"
    return f"it cannot be reached ({type(root).__name__})"


def _find_local_problem(root: BaseException) -> str | None:
    """Return why nothing was sent to a server; None if something was."""
    if (problem := _find_tls_problem(root)) is not None:
        return f"{_UNTRUSTED} ({problem})"
    if isinstance(root, StderrFileError):
        return f"the file for its stderr cannot be written: {root.strerror}"
    if isinstance(root, FileNotFoundError | NotADirectoryError):
        return "its program or folder does not exist"
    if isinstance(root, PermissionError):
        return "its program may not be run"
    return None


def _find_tls_problem(error: BaseException) -> str | None:
    """Return why a certificate is refused, in the words of OpenSSL; None if no certificate is."""
    pending: BaseException | None = error
    for _ in range(10):
        if pending is None:
            break
        if type(pending).__name__ == "SSLCertVerificationError":
            return str(getattr(pending, "verify_message", "") or "it cannot be verified")
        pending = pending.__cause__ or pending.__context__
    return None


def _find_foreign_answer(error: BaseException) -> str | None:
    """Return what something answered over HTTP that is no MCP server; None for an answer of a server."""
    code, message = getattr(error, "code", None), str(getattr(error, "message", ""))
    if code == PARSE_ERROR and message.startswith("Failed to parse "):
        return f"{_NO_MCP} with JSON that is no message of MCP"  # the rest of the text has parts of the answer
    if code == INVALID_REQUEST and message.startswith(_UNEXPECTED_TYPE):
        kind = sanitize_text(message.removeprefix(_UNEXPECTED_TYPE).partition(";")[0].strip(), MAX_TYPE_CHARS)
        return f"{_NO_MCP} with {kind or 'no content'}"
    return f"{_NO_MCP} with no content" if message in _NO_RESPONSE_MESSAGES else None


def find_shown_cause(error: BaseException | None, mask: Callable[[str], str]) -> BaseException | None:
    """Return an error if a traceback may show it; None if it, or an error behind it, names a URL or has a secret.

    httpx2's errors name the URL with its query, which may be a key. An MCPError has a text of the server. The errors of
    a login have what the service answered, which may be a new token.
    """
    pending, seen = [error], set[int]()
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        text, kind = str(one), type(one)
        names_url = "://" in text and kind.__name__ != "MCPError"
        if names_url or kind.__module__.startswith(_LOGIN_MODULES) or mask(text) != text:
            return None
        seen.add(id(one))
        pending += [one.__cause__, one.__context__, *(one.exceptions if isinstance(one, BaseExceptionGroup) else ())]
    return error


def to_connection_error(
    server: str, reason: str, tool: str | None = None, *, may_have_run: bool = False
) -> ToolConnectionError:
    """Return the error for the caller of a tool or, without one, for the host, who connects or lists the tools."""
    fix = "Check its address or its command, and that it runs." if tool is None else "The next call reconnects."
    if may_have_run:
        fix = f"The tool may have run. {fix}"
    if reason.endswith(("HTTP 401", "HTTP 403")):
        fix = "It wants credentials, or other ones: `auth` of add_mcp or of a manifest, or `headers` in an mcp.json."
    elif reason.startswith(_UNTRUSTED):
        fix = "Check its address, or let this machine trust the authority of the certificate."
    return ToolConnectionError(f"Server {server!r} is not available: {reason}. {fix}", tool=tool)


def to_closed_error(server: str, tool: str | None = None) -> ToolConnectionError:
    """Return the error for a call after the connection was closed."""
    return ToolConnectionError(f"The connection to server {server!r} was closed.", tool=tool)


def sanitize_text(text: str, max_chars: int = MAX_ERROR_CHARS) -> str:
    """Return a server's text with invisible characters escaped, cut after `max_chars` characters."""
    return clip(escape(text[:max_chars]) + text[max_chars:], max_chars)


def _get_root_cause(error: BaseException) -> BaseException:
    inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__
    return error if inner is None else _get_root_cause(inner)
