"""Which error a failed request becomes."""

from __future__ import annotations

import ssl
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from ahvn_tools.errors import InvalidResultError, ToolConnectionError, ToolError
from ahvn_tools.mcp.client import errors
from ahvn_tools.mcp.client.errors import ConnectionLostError


def read(error: Exception, status: int | None = None) -> Any:
    return errors.to_call_error(error, "tool", status)


@pytest.mark.parametrize(
    ("code", "message"),
    [(-32602, "Invalid params"), (-32000, "a tool of mine failed"), (-32603, "a tool of mine failed"), (7, "odd")],
)
def test_server_error_is_a_tool_error(code: int, message: str) -> None:
    error = read(MCPError(code, message), 500)
    assert (type(error), error.message, error.tool) == (ToolError, message, "tool")


def test_error_without_a_message_is_described_by_its_code() -> None:
    assert read(MCPError(-32602, " ")).message == "The server refused the request (error -32602)."


@pytest.mark.parametrize("message", ["Session not found", "Session terminated"])
def test_unknown_session_error_means_the_request_was_not_run(message: str) -> None:
    error = read(MCPError(-32600, message))
    assert isinstance(error, ConnectionLostError)
    assert error.is_unsent


@pytest.mark.parametrize(
    ("code", "message", "status", "reason"),
    [
        (-32000, "Connection closed", 401, "the server closed the connection"),
        (-32000, "SSE stream ended without a response", None, "the server closed the connection"),
        (-32603, "Server returned an error response", 401, "the server answered HTTP 401"),
    ],
)
def test_error_made_by_the_client_is_a_lost_connection(
    code: int, message: str, status: int | None, reason: str
) -> None:
    error = read(MCPError(code, message), status)
    assert isinstance(error, ConnectionLostError)
    assert (error.reason, error.is_unsent) == (reason, False)


@pytest.mark.parametrize(
    "error", [MCPError(-32700, "no JSON"), ValueError("an odd type"), UnicodeDecodeError("a", b"", 0, 1, "b")]
)
def test_unreadable_answer_is_an_invalid_result(error: Exception) -> None:
    assert type(read(error)) is InvalidResultError


@pytest.mark.parametrize("error", [RuntimeError("x"), OSError("x"), KeyError("x"), ExceptionGroup("x", [OSError("y")])])
def test_any_other_exception_is_a_lost_connection_without_its_text(error: Exception) -> None:
    lost = read(error)
    assert isinstance(lost, ConnectionLostError)
    assert "x" not in lost.reason.replace("ExceptionGroup", "")
    error = errors.to_connection_error("somewhere", lost.reason, "tool")
    assert isinstance(error, ToolConnectionError)
    assert str(error).startswith("Server 'somewhere' is not available: the connection broke (")
    assert error.tool == "tool"


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (RuntimeError("secret"), 403, "the server answered HTTP 403"),
        (caused(RuntimeError("secret"), FileNotFoundError("secret")), None, "its program or folder does not exist"),
        (PermissionError("secret"), None, "its program may not be run"),
        (
            ExceptionGroup("secret", [caused(OSError("x"), ConnectionError("y"))]),
            None,
            "it cannot be reached (ConnectionError)",
        ),
        (caused(RuntimeError("secret"), MCPError(-1, "no\u200bentry")), None, "no\\u200bentry"),
        (MCPError(-1, "no route to db://user:pw@host"), None, "no route to db://***@host"),
        (MCPError(-1, ""), None, "the server refused the handshake"),
    ],
)
def test_connect_error_is_described_without_secrets(error: Exception, status: int | None, reason: str) -> None:
    assert errors.describe_connect_error(error, status) == reason


def test_server_text_is_cut() -> None:
    assert errors.sanitize_text("a" * 2_000) == "a" * 2_000
    assert errors.sanitize_text("a" * 2_001) == "a" * 2_000 + "… (1 more characters)"


def test_the_fix_of_a_refused_connection_fits_its_reason():
    untrusted = ConnectionError("secret")
    untrusted.__context__ = ssl.SSLCertVerificationError("secret")
    untrusted.__context__.verify_message = "self-signed certificate"
    for error, status, fix in (
        (
            RuntimeError("secret"),
            401,
            "It wants credentials, or other ones: `auth` of add_mcp or of a manifest, or `headers` in an mcp.json.",
        ),
        (RuntimeError("secret"), 500, "Check its address or its command, and that it runs."),
        (untrusted, None, "Check its address, or let this machine trust the authority of the certificate."),
    ):
        message = str(errors.to_connection_error("notes", errors.describe_connect_error(error, status)))
        assert message.endswith(fix)
        assert "secret" not in message
