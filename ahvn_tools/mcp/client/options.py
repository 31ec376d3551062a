"""Options of a connection to an MCP server: what `mcp.connect` and `Toolkit.add_mcp` accept."""

from __future__ import annotations

import importlib.util
from collections.abc import Awaitable, Callable, Collection, Mapping
from os import PathLike
from typing import Any, Final, TypedDict, TypeGuard

from ahvn_tools.errors import DefinitionError, ToolLookupError, near_misses
from ahvn_tools.mcp.trust.changes import Changes
from ahvn_tools.mcp.trust.limits import Budgets, Limits
from ahvn_tools.settings import is_duration

CredentialsProvider = Callable[[Mapping[str, Any]], "str | Mapping[str, str] | Awaitable[Any] | None"]
"""Returns the token or the headers for a call, from the state of that call; sync or async."""

ChangeListener = Callable[[Any, Changes], Any]
"""Called with the RemoteServer and what changed in its tools; sync or async."""


_MODES: Final = ("auto", "legacy", "2026-07-28")


class ConnectOptions(TypedDict, total=False):
    """Options of `connect`. All of them may be left out."""

    auth: str | Mapping[str, str] | CredentialsProvider | object
    """A token, headers, `"oauth"`, an `httpx2.Auth`, or a function from a call's state to a token or headers."""
    env: Mapping[str, str]
    """Environment variables of a server process, in addition to PATH, HOME and similar ones."""
    stderr: str | PathLike[str]
    """A file to which the stderr of a server process is appended, within `limits.stderr_bytes`; by default it goes to
    this process's stderr."""
    inputs: Mapping[str, str]
    """The values of `${input:…}` in a configuration."""
    pin: str | PathLike[str] | None
    """A file with the fingerprints of the server's tools: a tool that changed is blocked until it is accepted."""
    idempotent: bool | Collection[str]
    """The tools, by name, or all (True), that may be called again when the connection was lost during a call."""
    elicitation: Callable[..., Any] | None
    """Answers the server's questions to the user. Without it the user of the client of a served toolkit is asked, and
    in calls of the host the questions are declined."""
    sampling: Callable[..., Any] | None
    """Answers the server's requests to a model. Without it the server is told that sampling is not supported."""
    resource_tool: str | None
    """The name of one more tool, by which a model reads resources of the server by their URI."""
    idle_timeout: float | None
    """Seconds without a progress message after which a call ends, within its `timeout`."""
    mode: str
    """The MCP protocol: `"auto"`, the newest that the server knows; `"legacy"`, the newest with `initialize`; or
    `"2026-07-28"`. Servers of FastMCP ask with `ctx.elicit` only in `"legacy"`."""
    tasks: bool
    """True: the server may run a call as an MCP task, as it must for some tools. Needs the extra `tasks`."""
    on_change: ChangeListener | None
    """Called when a new listing of the server's tools differs from the previous one."""
    budgets: Budgets
    """How large the server's tool definitions may be."""
    limits: Limits
    """How long the server may take and how much it may send."""


def check_options(options: ConnectOptions) -> None:
    """Raise DefinitionError for an unknown option, and for one of the wrong type."""
    for option in options:
        if option not in ConnectOptions.__annotations__:
            raise DefinitionError(
                f"Unknown option {option!r} of a server. {near_misses(option, ConnectOptions.__annotations__)}"
            )
    for option, kind in (("limits", Limits), ("budgets", Budgets), ("env", Mapping), ("inputs", Mapping)):
        value = options.get(option)
        if not (value is None or isinstance(value, kind)):
            expected = "mapping" if kind is Mapping else kind.__name__
            raise DefinitionError(f"`{option}` of a server is a {expected}, not a {type(value).__name__}.")
    if not isinstance(tasks := options.get("tasks", False), bool):
        raise DefinitionError(f"`tasks` of a server is True or False, not a {type(tasks).__name__}.")
    if options.get("tasks") and importlib.util.find_spec("fastmcp_tasks") is None:
        raise DefinitionError('tasks=True needs fastmcp-tasks: pip install "ahvn-tools[tasks]"')
    for option in ("elicitation", "sampling", "on_change"):
        value = options.get(option)
        if not (value is None or callable(value)):
            raise DefinitionError(f"`{option}` of a server is a function, not a {type(value).__name__}.")
    _check_values(options)


def _check_values(options: Mapping[str, Any]) -> None:
    name = options.get("resource_tool")
    if name is not None and not (isinstance(name, str) and name):
        raise DefinitionError(f"`resource_tool` of a server is the name of a tool, not {name!r}.")
    idle = options.get("idle_timeout")
    if idle is not None and not (is_duration(idle) and idle > 0):
        raise DefinitionError(f"`idle_timeout` of a server is a positive number of seconds, not {idle!r}.")
    if "mode" in options and (mode := options["mode"]) not in _MODES:
        raise DefinitionError(f"`mode` of a server is one of {', '.join(map(repr, _MODES))}, not {mode!r}.")


def is_credentials_provider(auth: object) -> TypeGuard[CredentialsProvider]:
    """Return whether `auth` is a function of a call's state, and not an `httpx2.Auth`."""
    return callable(auth) and not hasattr(auth, "auth_flow")


def validate_names(names: Collection[str], tools: Collection[str], server_name: str) -> frozenset[str]:
    """Return the names of some tools of a server.

    Raises DefinitionError for a text, ToolLookupError for a name that no tool has.
    """
    if isinstance(names, str):
        raise DefinitionError(f"`names` is a list of names of tools, such as [{names!r}], not a text.")
    listed = list(names)
    for name in listed:
        if name not in tools:
            raise ToolLookupError(f"The MCP server {server_name!r} has no tool {name!r}. {near_misses(name, tools)}")
    return frozenset(listed)
