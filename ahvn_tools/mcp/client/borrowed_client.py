"""Tools of a connected MCP client that the caller owns, called from any thread and any event loop."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Mapping
from typing import Any

from ahvn_tools.encoders.loaded_classes import loaded_classes
from ahvn_tools.errors import (
    InvalidResultError,
    SyncCallError,
    ToolConnectionError,
    ToolError,
    ToolLookupError,
    exception_text,
    near_misses,
)
from ahvn_tools.execution.background_loop import blocked_loops, running_loop
from ahvn_tools.mcp.client.errors import CONNECTION_CLOSED
from ahvn_tools.mcp.client.remote_results import ResultParser
from ahvn_tools.redaction.texts import SecretTexts

_TRANSPORT_PACKAGES = frozenset({"anyio", "httpcore", "httpcore2", "httpx", "httpx2"})
"""Packages whose exceptions are about the connection."""


async def find_tool(client: Any, name: str) -> Any:
    """Return the server's tool of that name. `client` is FastMCP's client, mcp's session, or has their methods.

    Raises ToolLookupError with near misses, ToolConnectionError.
    """
    try:
        listed = await client.list_tools()
    except Exception as error:
        if not _is_connection_error(error):
            raise
        raise ToolConnectionError(
            f"The client cannot list its tools ({type(error).__name__}); connect it first: `async with client:`."
        ) from error
    tools = {tool.name: tool for tool in getattr(listed, "tools", listed)}
    if name not in tools:
        raise ToolLookupError(f"The server has no tool {name!r}. {near_misses(name, tools)}")
    return tools[name]


class ClientToolBody:
    """The body that calls one tool through a client on the client's own event loop, the only one where it works.

    That is the loop in which FastMCP's client is connected now. Of another client it is the loop which runs when the
    body is made, else the loop of the first call. The body cannot be pickled, because a connection belongs to a loop
    and a process.
    """

    is_remote = True

    def __init__(self, client: Any, name: str, output_schema: Mapping[str, Any] | None = None) -> None:
        """Results are checked against the output schema.

        Raises DefinitionError for an output schema that does not describe an object.
        """
        self._client = client
        self._call_tool = getattr(client, "call_tool_mcp", None) or client.call_tool
        self._result_parser = ResultParser(name, output_schema)
        self._name = name
        self._owner_loop = running_loop()
        self._secrets = _find_secrets(client)

    @property
    def is_connected(self) -> bool:
        """Whether the client says that it is connected; True for a client that does not say it."""
        check = getattr(self._client, "is_connected", None)
        return check is None or bool(check())

    async def __call__(self, /, **arguments: Any) -> Any:
        """Call the tool. Raises ToolConnectionError, SyncCallError, InvalidResultError, and the client's own errors."""
        result = await self._call_on_owner_loop(arguments)
        return self._result_parser.parse(self._masked(result)) if hasattr(result, "is_error") else result

    def _masked(self, result: Any) -> Any:
        """Return a result of the server without the credentials of the client."""
        if not (self._secrets and hasattr(result, "model_dump")):
            return result
        from ahvn_tools.mcp.client.guarded_session import mask_members

        masked = mask_members(result.model_dump(mode="json", by_alias=True, exclude_none=True), self._secrets)
        return type(result).model_validate(masked)

    async def _call_on_owner_loop(self, arguments: dict[str, Any]) -> Any:
        loop = asyncio.get_running_loop()
        owner = self._owner_loop = _loop_of(self._client) or self._owner_loop or loop
        if owner is loop:
            return await self._call_and_map_errors(arguments)
        if owner in blocked_loops.get():
            raise SyncCallError(
                f"{self._name!r} is called through a client of the event loop that this sync call blocks; "
                "use `await spec.acall(…)`."
            )
        if owner.is_closed() or not owner.is_running():
            raise self._connection_error(f"The event loop of the client behind {self._name!r} is not running")
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._call_and_map_errors(arguments), owner))

    async def _call_and_map_errors(self, arguments: dict[str, Any]) -> Any:
        try:
            return await self._call_tool(self._name, arguments)
        except Exception as error:
            if _is_output_schema_error(error):
                raise InvalidResultError(
                    f"The result of {self._name!r} does not fit its output schema.", tool=self._name
                ) from error
            if not _is_connection_error(error):
                text = exception_text(error)
                if (masked := self._secrets.mask(text, is_error=True)) != text:
                    raise ToolError(masked, tool=self._name) from None
                raise
            raise self._connection_error(f"The connection behind {self._name!r} is closed or was lost") from error

    def _connection_error(self, reason: str) -> ToolConnectionError:
        explanation = f"{reason}; connect it again with `async with client:`, or make a new spec from a new client."
        return ToolConnectionError(f"{reason}.", tool=self._name, explanation=explanation)


def _loop_of(client: Any) -> asyncio.AbstractEventLoop | None:
    """Return the loop in which FastMCP's client is connected; None without a connection, and for another client."""
    session_task = getattr(
        getattr(client, "_session_state", None), "session_task", None
    )  # FastMCP 4 has no public name
    return session_task.get_loop() if isinstance(session_task, asyncio.Task) and not session_task.done() else None


def _find_secrets(client: Any) -> SecretTexts:
    """Return the credentials of FastMCP's client; none of another one, which does not name them."""
    secrets = SecretTexts()
    if isinstance(client, loaded_classes("fastmcp", "Client")):
        from ahvn_tools.mcp.client.fastmcp_clients import add_credentials

        add_credentials(client.transport, secrets)
    return secrets


def _is_output_schema_error(error: Exception) -> bool:
    """Return whether mcp's session refused a result because of its output schema: it raises a bare RuntimeError."""
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, RuntimeError) and bool(frames) and frames[-1].name == "validate_tool_result"


def _is_connection_error(error: Exception) -> bool:
    code = getattr(getattr(error, "error", None), "code", None)
    if code == CONNECTION_CLOSED or isinstance(error, RuntimeError | OSError):
        return True
    return type(error).__module__.partition(".")[0] in _TRANSPORT_PACKAGES
