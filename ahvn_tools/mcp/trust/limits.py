"""How much an MCP server may send: limits of a connection, budgets of tool definitions, and what measures them."""

from __future__ import annotations

import binascii
import math
import time
from dataclasses import dataclass
from typing import Any

from ahvn_tools.errors import DefinitionError, InvalidResultError, LimitExceededError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.limits import RefGraph

RATE_WINDOW_SECONDS = 10.0
"""Notifications and requests are counted over this many seconds."""

MAX_PATTERN_SIZE = 200_000
"""How many characters the regular expressions of one schema may have, with their repetitions written out."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a connection accepts. The client closes the connection of a server that exceeds a limit and says why."""

    connect: float = 30.0
    """Seconds to start the server and to complete the handshake."""
    listing: float = 10.0
    """Seconds for all pages of the list of tools."""
    close: float = 2.0
    """Seconds that a server process has to exit after its input is closed; the client kills it within one more."""
    pages: int = 100
    """Pages in a list of tools."""
    tools: int = 10_000
    """Tools in a list."""
    message_bytes: int = 32 * 1024 * 1024
    """Bytes in one message."""
    tools_per_page: int = 5_000
    """Tools on one page of a list."""
    blocks: int = 1_000
    """Content blocks in one result."""
    values_per_message: int = 250_000
    """Values in the objects and lists of one message."""
    stray_lines: int = 1_000
    """Lines on a server's standard output that are not messages."""
    stderr_bytes: int = 10 * 1024 * 1024
    """Bytes of a server process's stderr. A file is renamed at this size, and a new one started; this process's stderr
    gets no more of it. The connection stays open."""
    notifications: int = 20_000
    """Notifications within ten seconds."""
    requests: int = 500
    """Requests that the server sends (questions to the user or to a model) within ten seconds."""

    def __post_init__(self) -> None:
        """Raise DefinitionError for what is no number of at least 0."""
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise DefinitionError(f"`{name}` of Limits is a number of at least 0, not {value!r}.")


class RateGuard:
    """Counts messages of one kind and reports when there are too many."""

    def __init__(self, max_count: int, kind: str = "notifications") -> None:
        self._max_count = max_count
        self._kind = kind
        self._count = 0
        self._window_start = time.monotonic()

    def count_message(self) -> str | None:
        """Count one message; return the violation if it exceeds the limit."""
        now = time.monotonic()
        if now - self._window_start > RATE_WINDOW_SECONDS:
            self._window_start, self._count = now, 0
        self._count += 1
        if self._count <= self._max_count:
            return None
        return f"the server sent more than {self._max_count} {self._kind} within {RATE_WINDOW_SECONDS:g} s"


class JsonValueCounter:
    """Counts the values of a JSON message from its bytes, because parsing millions of values blocks the event loop.

    It counts brackets and commas outside of strings.
    """

    def __init__(self) -> None:
        self.count = 0
        self._is_in_string = False
        self._escape = b""

    def add(self, chunk: bytes) -> int:
        """Count the next bytes. Return the number of values so far, which may be slightly too high."""
        chunk = self._escape + chunk
        self._escape = b"\\" if (len(chunk) - len(chunk.rstrip(b"\\"))) % 2 else b""
        complete = chunk[: len(chunk) - len(self._escape)].replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = complete.split(b'"')
        outside = b"".join(parts[int(self._is_in_string) :: 2])
        self.count += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
        self._is_in_string ^= len(parts) % 2 == 0
        return self.count


class RefusedToolError(Exception):  # internal: `screen` turns it into a reason
    """The reason why a tool is refused."""


@dataclass(frozen=True, kw_only=True)
class Budgets:
    """How large the tool definitions of one server may be. A tool that exceeds a budget is refused."""

    tools: int = 10_000
    """Number of tools."""
    total_bytes: int = 32 * 1024 * 1024
    """Bytes of all tools together."""
    tool_bytes: int = 256 * 1024
    """Bytes of one tool."""
    depth: int = 64
    """Nesting levels of JSON in one tool."""
    properties: int = 2_000
    """Properties that one schema declares, at any depth."""
    nodes: int = 20_000
    """Subschemas of one schema after every `$ref` is replaced by its target, as a validator walks it."""


def check_size(raw: Any, budgets: Budgets) -> int:
    """Return the approximate size of a wire object in bytes, without reading more of it than the budget.

    Raises RefusedToolError for an object that is too large, too deeply nested or not JSON.
    """
    size = 0
    pending: list[tuple[Any, int]] = [(raw, 1)]
    while pending:
        value, depth = pending.pop()
        size += _count_bytes(value)
        if size > budgets.tool_bytes:
            raise RefusedToolError(f"it has more than {budgets.tool_bytes} bytes")
        if not isinstance(value, dict | list):
            continue
        if depth > budgets.depth:
            raise RefusedToolError(f"it nests more than {budgets.depth} levels deep")
        if isinstance(value, dict) and not all(isinstance(name, str) for name in value):
            raise RefusedToolError("it has a member whose name is not a string")
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        pending.extend((part, depth + 1) for part in parts)
    return size


def _count_bytes(value: Any) -> int:
    """Return the bytes of a scalar; of a dict or list, a lower bound without its parts."""
    if isinstance(value, str):
        return 2 + (len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass")))
    if isinstance(value, dict | list):
        return 2 + len(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise RefusedToolError("it contains NaN or Infinity, which are not JSON")
    if value is None or isinstance(value, bool | int | float):
        return 4 + (value.bit_length() // 4 if isinstance(value, int) else 0)
    raise RefusedToolError(f"it contains a {type(value).__name__}, which is not JSON")


def check_schema(schema: JsonObject, budgets: Budgets) -> None:
    """Raise RefusedToolError for a schema with too many properties or subschemas, or with too large patterns.

    Raises DefinitionError for a reference that leads out of the schema, to nothing, or in a circle.
    """
    graph = RefGraph(schema)
    if graph.property_count > budgets.properties:
        raise RefusedToolError(f"it declares more than {budgets.properties} properties")
    if graph.pattern_size > MAX_PATTERN_SIZE:
        raise RefusedToolError("its regular expressions repeat too much")
    if graph.count_schemas(budgets.nodes) > budgets.nodes:
        raise RefusedToolError(f"it has more than {budgets.nodes} schemas when its references are expanded")


def check_result(result: dict[str, Any], limits: Limits) -> None:
    """Raise LimitExceededError for a result with too many parts, InvalidResultError for invalid numbers or media."""
    tools, content = result.get("tools"), result.get("content")
    if isinstance(tools, list) and len(tools) > limits.tools_per_page:
        raise LimitExceededError(f"The server lists more than {limits.tools_per_page} tools on one page.")
    if isinstance(content, list):
        if len(content) > limits.blocks:
            raise LimitExceededError(f"The server answered with more than {limits.blocks} blocks of content.")
        for block in content:
            check_media(block)
    left = limits.values_per_message
    pending: list[Any] = [result]
    while pending:
        value = pending.pop()
        if isinstance(value, float):
            if not math.isfinite(value):
                raise InvalidResultError("The server's answer contains NaN or Infinity, which are not JSON numbers.")
        elif isinstance(value, dict | list):
            left -= len(value)
            if left < 0:
                raise LimitExceededError(f"The server's answer has more than {limits.values_per_message} values.")
            pending.extend(value.values() if isinstance(value, dict) else value)


def check_media(block: Any) -> None:
    """Raise InvalidResultError for data that is not base64, and for an unprintable media type."""
    if not isinstance(block, dict):
        return
    resource = block.get("resource")
    inner = resource if isinstance(resource, dict) else block
    data, kind = inner.get("blob", block.get("data")), inner.get("mimeType")
    if isinstance(kind, str) and not (kind.isascii() and kind.isprintable()):
        raise InvalidResultError("The server's answer contains media of an unprintable type.")
    if isinstance(data, str):
        try:
            binascii.a2b_base64("".join(data.split()), strict_mode=True)
        except ValueError:
            raise InvalidResultError("The server's answer contains media that are not base64.") from None
