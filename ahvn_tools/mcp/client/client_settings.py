"""ClientSettings: what a client of an MCP server needs, and the functions of the host that it calls back."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ahvn_tools.execution.threads import call_host_function
from ahvn_tools.mcp.client.caller import CallerRequests
from ahvn_tools.mcp.trust.limits import Limits
from ahvn_tools.redaction.texts import SecretTexts

log = logging.getLogger(__name__)

STRUCTURED_META_KEY: Final = "ahvn_tools/structured_content"
"""Where a client keeps structured content that is no object: older revisions of MCP refuse it."""


@dataclass
class ConnectionStatus:
    """What the transport of one client has observed of its server."""

    failure_reason: str | None = None
    """Why nothing can be sent any more, once the transport knows it."""
    error_status: int | None = None
    """The last HTTP error status."""
    is_ready: bool = False
    """Whether the handshake is complete."""
    stray_lines: int = 0
    """Lines on the server's stdout that are not messages."""
    malformed_tools: list[Any] = field(default_factory=list)
    """Entries of the current page of tools that are not tools."""
    find_exit_reason: Callable[[], str | None] = field(default=lambda: None)
    """Asks the system how the server process has ended."""

    def find_failure(self) -> str | None:
        """Return why nothing can be sent any more; None while the connection seems to work."""
        if self.failure_reason is None:
            self.failure_reason = self.find_exit_reason()
        return self.failure_reason


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """What a client needs: functions that it calls back, limits, headers, and the status that it keeps up to date.

    `elicitation(message, response_type, params, context)` and `sampling(messages, params, context)` are FastMCP's
    handlers, async or sync. Async ones run on the background loop and must not block it.
    """

    elicitation: Callable[..., Any] | None = None
    """Answers a question to the user."""
    sampling: Callable[..., Any] | None = None
    """Answers a request to a model; without it the client answers that sampling is not supported."""
    samples_from_client: bool = False
    """Whether the client of a served toolkit answers requests to a model."""
    requests: CallerRequests = field(default_factory=lambda: CallerRequests("", Limits(), lambda: None))
    """What the server asks for goes there where there is no handler, and so do its log messages."""
    get_roots: Callable[[], tuple[Path, ...] | None] = field(default=lambda: None)
    """Returns the folders that the server may use; None: the server is told of no roots."""
    on_connected: Callable[[str | None], None] = field(default=lambda _: None)
    """Called with the instructions of the server."""
    on_prompts_changed: Callable[[], None] = field(default=lambda: None)
    """Called when the server says that its prompts have changed."""
    mode: str = "auto"
    """The protocol: FastMCP's `mode`."""
    tasks: bool = False
    """Whether the client says that it knows tasks."""
    on_message: Callable[[Any], None] = field(default=lambda _: None)
    """Called with every notification."""
    on_connection_lost: Callable[[str], None] = field(default=lambda _: None)
    """Called with the reason when the connection is lost."""
    limits: Limits = field(default_factory=Limits)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers of one set of credentials, in addition to those of the server's target."""
    status: ConnectionStatus = field(default_factory=ConnectionStatus)
    secrets: SecretTexts = field(default_factory=SecretTexts, repr=False)
    """The credentials of the connection, which are masked in what the server sends."""


def wrap_handler(handler: Callable[..., Any] | None) -> Callable[..., Awaitable[Any]] | None:
    """Return an async handler that raises RuntimeError, without any detail, whatever the handler raises."""
    if handler is None:
        return None

    async def answer(*arguments: Any) -> Any:
        try:
            return await call_host_function(handler, *arguments)
        except Exception:
            log.exception("A handler of server requests raised.")
            raise RuntimeError("The client could not answer.") from None

    return answer
