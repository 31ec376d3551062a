"""Options of a connection to an MCP server: what `mcp.connect` and `Toolkit.add_mcp` accept."""

import importlib.util
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from os import PathLike
from typing import Annotated, Any, Final, Literal, TypedDict, TypeGuard

from ahvn_tools.errors import DefinitionError, ToolLookupError, near_misses
from ahvn_tools.mcp.trust.changes import Changes
from ahvn_tools.mcp.trust.limits import Budgets, Limits
from ahvn_tools.settings import FLAG, SECONDS, Check, check_options, must_be, one_of

CredentialsProvider = Callable[[Mapping[str, Any]], "str | Mapping[str, str] | Awaitable[Any] | None"]
"""Returns the token or the headers for a call, from the state of that call; sync or async."""

ChangeListener = Callable[[Any, Changes], Any]
"""Called with the RemoteServer and what changed in its tools; sync or async."""


def _must_be(words: str, is_valid: Callable[[Any], bool]) -> Check:
    """Return the check of an option. Its error shows no value, which may have credentials."""

    def check(name: str, value: Any) -> None:
        if not is_valid(value):
            raise DefinitionError(f"{name} must be {words}, not a {type(value).__name__}.")

    return check


_MAPPING: Final = _must_be("a mapping", lambda value: isinstance(value, Mapping))
_FUNCTION: Final = _must_be("a function", callable)


def _takes_changes(name: str, listener: Any) -> None:
    """Raise DefinitionError for what cannot be called with a server and its changes."""
    _FUNCTION(name, listener)
    try:
        inspect.signature(listener).bind(None, None)
    except TypeError:
        raise DefinitionError(f"{name} must take two arguments, the server and its changes.") from None
    except ValueError:  # it has no signature, as some built-in functions
        return


CLIENT: Final = "client"
"""The option `sampling` that lets the client of a served toolkit answer."""


class ConnectOptions(TypedDict, total=False):
    """Options of `connect`. All of them may be left out."""

    auth: str | Mapping[str, str] | CredentialsProvider | object
    """A token, headers, `"oauth"`, an `httpx2.Auth`, or a function from a call's state to a token or headers."""
    list_auth: str | Mapping[str, str] | object
    """A token or headers for listing tools and prompts, if `auth` is a function. Without it that function is called
    with the toolkit's own state."""
    env: Annotated[Mapping[str, str], _MAPPING]
    """Environment variables of a server process, in addition to PATH, HOME and similar ones."""
    stderr: str | PathLike[str]
    """A file to which the stderr of a server process is appended, within `limits.stderr_bytes`; by default it goes to
    this process's stderr."""
    inputs: Annotated[Mapping[str, str], _MAPPING]
    """The values of `${input:…}` in a configuration."""
    pin: str | PathLike[str] | None
    """A file with the fingerprints of the server's tools: a tool that changed is blocked until it is accepted."""
    idempotent: bool | Collection[str]
    """The tools, by name, or all (True), that may be called again when the connection was lost during a call."""
    elicitation: Annotated[Callable[..., Any] | None, _FUNCTION]
    """Answers the server's questions to the user. Without it the user of the client of a served toolkit is asked, and
    in calls of the host the questions are declined."""
    sampling: Annotated[
        Callable[..., Any] | Literal["client"] | None,
        _must_be('a function or "client"', lambda value: callable(value) or value == CLIENT),
    ]
    """Answers the server's requests to a model; `"client"`: the model of the client of a served toolkit does. Without
    it the client answers that sampling is not supported."""
    resource_tool: Annotated[
        str | None, must_be("the name of a tool", lambda name: isinstance(name, str) and name != "")
    ]
    """The name of one more tool, by which a model reads resources of the server by their URI."""
    prompts: Annotated[bool, FLAG]
    """Whether a served toolkit passes on the server's prompts; by default if there is no `pin`, which holds tools
    only."""
    idle_timeout: Annotated[float | None, SECONDS]
    """Seconds without a progress message after which a call ends, within its `timeout`."""
    mode: Annotated[str, one_of("auto", "legacy", "2026-07-28")]
    """The MCP protocol: `"auto"`, the newest that the server knows; `"legacy"`, the newest with `initialize`; or
    `"2026-07-28"`. Servers of FastMCP ask with `ctx.elicit` only in `"legacy"`."""
    tasks: Annotated[bool, FLAG]
    """True: the server may run a call as an MCP task, as it must for some tools. Needs the extra `tasks`."""
    on_change: Annotated[ChangeListener | None, _takes_changes]
    """Called with the server and the changes when a new listing of its tools differs from the previous one."""
    budgets: Annotated[Budgets, _must_be("a Budgets", lambda value: isinstance(value, Budgets))]
    """How large the server's tool definitions may be."""
    limits: Annotated[Limits, _must_be("a Limits", lambda value: isinstance(value, Limits))]
    """How long the server may take and how much it may send."""


def check_connect_options(options: ConnectOptions) -> None:
    """Raise DefinitionError for an unknown option, and for a wrong value."""
    check_options(options, ConnectOptions)
    if options.get("tasks") and importlib.util.find_spec("fastmcp_tasks") is None:
        raise DefinitionError('tasks=True needs fastmcp-tasks: pip install "ahvn-tools[tasks]"')


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
