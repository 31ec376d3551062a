"""Mutsumi's `ToolManager`, `ITool` and `ToolContext`, with its 20 tools, over one Toolkit."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from pydantic import BaseModel, Field
from pydantic.alias_generators import to_camel, to_snake

from ahvn_tools import ApprovalRequest, Toolkit, ToolResult, ToolSpec
from ahvn_tools import ToolContext as CallContext
from ahvn_tools.builtins import Git, Workspace, standard_toolkit
from ahvn_tools.errors import ToolkitError

TOOLS: Final = (
    "read_file", "ls", "shell_exec", "edit_file_full_replace", "edit_file_search_replace", "partially_read_by_range",
    "partially_read_around_keyword", "search_file_contains_keyword", "search_file_name_includes", "get_file_size",
    "get_env_var", "system_info", "mkdir", "create_file", "git_cmd", "project_outline", "get_warning_error",
    "self_fork", "get_available_models", "task_finish",
)  # fmt: skip
"""The tools of every manager. The last one is for sub-agents only."""

_CALL_ID: Final = "call"
"""Of each call, for which there is a session."""
_POLL_SECONDS: Final = 0.05
"""How often a signal is read."""


class _CamelCase:
    """Lets the attributes of an object be read by their names in camelCase, too."""

    def __getattr__(self, name: str) -> Any:
        """Return the attribute that has this name in Python's spelling."""
        return object.__getattribute__(self, to_snake(name))


class ToolContext(_CamelCase, BaseModel, frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True):
    """What a host passes to the calls of one agent. The names of the fields can be written in camelCase, too."""

    allowed_uris: Sequence[str | PathLike[str]] = ()
    """The folders that may be used, as paths or `file:` URIs: `["/"]` for all, none by default.

    Relative ones begin in the manager's folder. Names are compared exactly.
    """
    notebook: Any = Field(default=None, repr=False)
    execution: Any = Field(default=None, repr=False)
    abort_signal: Any = None
    """Cancels the calls: an Event of asyncio or threading, or an object with `aborted`."""
    append_output: Callable[[Any], Any] | None = None
    """Takes what a tool writes before its result; a sync or async function."""
    signal_termination: Callable[[], object] | None = None
    """Is called when a tool has ended the session; a sync function."""
    session_id: str = "main"
    """Which agent it is: tools remember what it has read, and a sub-agent has the id of its task."""


class ITool(Protocol):
    """A tool: `definition` is what OpenAI's Chat Completions takes, and `execute` may be sync or async."""

    name: str
    definition: dict[str, Any]

    def execute(self, args: Any, context: ToolContext) -> Awaitable[str] | str:
        """Run the tool with arguments that fit its definition."""


def _to_spec(tool: ITool) -> ToolSpec:
    """Return a spec that runs a tool with the context of its host, confined to the folders of the call."""

    def execute(tool_call_context: CallContext, **arguments: Any) -> Any:  # no property of a tool has this name
        call, given = tool_call_context, tool_call_context.state.get("tool_context", ToolContext())
        allowed = [str(root) for root in call.roots]
        own = {"append_output": call.append_output, "signal_termination": call.end_session, "allowed_uris": allowed}
        return tool.execute(arguments, given.model_copy(update=own))

    return ToolSpec.from_openai(tool.definition, execute, name=tool.name)


async def _run(kit: Toolkit, name: str, args: Any, given: ToolContext) -> ToolResult:
    """Return the result of a call. Its output goes to the host, whose signal cancels it."""
    watching = asyncio.create_task(_cancel_at(kit, given.abort_signal))
    try:
        async with aclosing(kit.astream(name, args, call_id=_CALL_ID)) as results:
            async for result in results:
                if result.meta.get("output") and given.append_output is not None:
                    written = given.append_output(result.value)
                    if inspect.isawaitable(written):
                        await written
        return result
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def _cancel_at(kit: Toolkit, signal: Any) -> None:
    while not _is_set(signal):  # noqa: ASYNC110  # a signal may be of another thread
        await asyncio.sleep(_POLL_SECONDS)
    kit.cancel(_CALL_ID)


def _is_set(signal: Any) -> bool:
    """Return whether a signal says that calls are cancelled. Raises ToolkitError for what is no signal."""
    if signal is None or hasattr(signal, "aborted"):
        return signal is not None and bool(signal.aborted)
    if not hasattr(signal, "is_set"):
        raise ToolkitError(f"A signal is an Event or has `aborted`; this is a {type(signal).__name__}.")
    return bool(signal.is_set())


class _ManagedTool(NamedTuple):
    """A tool of a manager as an ITool. Its calls run through the manager's toolkit."""

    manager: ToolManager
    name: str
    entry: str
    """Its name in the toolkit: another one if a tool for other agents has its name."""
    own_definition: dict[str, Any] | None = None

    @property
    def definition(self) -> dict[str, Any]:
        spec = self.manager.toolkit[self.entry]
        if self.own_definition is not None and not spec.binds:
            return self.own_definition
        return {"type": "function", "function": {**spec.to("openai")["function"], "name": self.name}}

    async def execute(self, args: Any, context: ToolContext) -> str:
        given = ToolContext.model_validate(context, from_attributes=True)
        if _is_set(given.abort_signal):
            return f"Error executing tool: The call of {self.name!r} was cancelled."
        roots = [uri if "://" in str(uri) else self.manager.folder / uri for uri in given.allowed_uris]
        outer = self.manager.toolkit.session(audience=None)  # of this call alone; the manager says who may call what
        session = outer.session({"tool_context": given}, session_id=given.session_id or None, roots=roots)
        result = await _run(session, self.entry, args, given)
        if result.meta.get("ends_session") and given.signal_termination is not None:
            given.signal_termination()
        return f"Error executing tool: {result.text}" if result.is_error else result.text


def _reject(_request: ApprovalRequest) -> str:
    return "nobody can approve it. The developer of this program can make it so: ToolManager(approver=…)"


class _Workspace(Workspace):
    keeps_line_endings = True


class _Git(Git):
    labels_streams = True


class ToolManager(_CamelCase):
    """The tools of main agents and sub-agents, and the way to call them with a context.

    >>> import asyncio, tempfile
    >>> from ahvn_tools.compat.mutsumi import ToolContext, ToolManager
    >>> manager, context = ToolManager(tempfile.mkdtemp()), ToolContext(allowed_uris=["."])
    >>> asyncio.run(manager.execute_tool("ls", {"uri": "."}, context))
    '(Empty Directory)'
    >>> asyncio.run(manager.execute_tool("task_finish", {}, context))
    "Tool 'task_finish' is only available for Sub-Agents."
    """

    def __init__(self, folder: str | PathLike[str] = ".", **options: Any) -> None:
        """Begin with the 20 tools. Relative paths begin in `folder`.

        `options` are those of `standard_toolkit`, such as `runner` and `models` for sub-agents, `approve` and
        `approver`. Without an approver, what needs an approval is rejected. Texts of exceptions are in results, unless
        `mask_errors` is true.
        """
        self.folder = Path(folder).resolve()
        settings = {"call_roots": "replace", "python": False, "approver": _reject, "mask_errors": False, **options}
        approve = settings.get("approve", "risky")
        files = _Workspace(self.folder, approve=approve, call_roots=settings["call_roots"])
        git = _Git(files, approve=approve, sandbox=settings.get("sandbox", "auto"))
        self.toolkit = standard_toolkit(files, include=TOOLS, **{"git": git, **settings})
        self._common = {name: _ManagedTool(self, name, name) for name in TOOLS[:-1]}
        self._sub = {"task_finish": _ManagedTool(self, "task_finish", "task_finish")}
        self._main: dict[str, _ManagedTool] = {}
        self.common_tools = MappingProxyType(self._common)
        self.main_only_tools = MappingProxyType(self._main)
        self.sub_only_tools = MappingProxyType(self._sub)

    def register_common(self, tool: ITool | ToolSpec | Callable[..., Any]) -> None:
        """Register a tool for all agents; it replaces one of its name."""
        self._register(tool, self._common)

    def register_main(self, tool: ITool | ToolSpec | Callable[..., Any]) -> None:
        """Register a tool for main agents. A common tool of its name hides it."""
        self._register(tool, self._main, "main")

    def register_sub(self, tool: ITool | ToolSpec | Callable[..., Any]) -> None:
        """Register a tool for sub-agents. A common tool of its name hides it."""
        self._register(tool, self._sub, "sub")

    def _register(self, tool: Any, tools: dict[str, _ManagedTool], *audience: str) -> None:
        own_definition = tool.definition if hasattr(tool, "execute") else None
        own_spec = tool if isinstance(tool, ToolSpec) else None
        spec = own_spec or (ToolSpec.from_function(tool) if own_definition is None else _to_spec(tool))
        known = tools.get(spec.name)
        is_taken = known is None and spec.name in self.toolkit
        entry = known.entry if known else "_".join([spec.name, *audience, "tool"]) if is_taken else spec.name
        self.toolkit.add(spec, rename=entry, audience=audience, on_duplicate="replace" if known else "raise")
        tools[spec.name] = _ManagedTool(self, spec.name, entry, own_definition)

    def get_tools_definitions(self, is_sub_agent: bool) -> list[dict[str, Any]]:
        """Return the tools of an agent for OpenAI's Chat Completions: the common ones, then its own."""
        return [tool.definition for tool in self._visible(is_sub_agent).values()]

    async def execute_tool(self, name: str, args: Any, context: ToolContext, is_sub_agent: bool = False) -> str:
        """Call a tool and return its result, or the text of its error.

        `context` may also be a dict or another object with the fields of a ToolContext. What its functions raise is
        raised. Raises pydantic's ValidationError for a wrong context, ToolkitError for allowed URIs that are no paths.
        """
        tool = self._visible(is_sub_agent).get(name)
        if tool is not None:
            return await tool.execute(args, context)
        if name in self._main:
            return f"Tool '{name}' is not available for Sub-Agents."
        if name in self._sub:
            return f"Tool '{name}' is only available for Sub-Agents."
        return f"Error: Unknown tool '{name}'"

    def _visible(self, is_sub_agent: bool) -> dict[str, _ManagedTool]:
        tools = self._common | (self._sub if is_sub_agent else self._main) | self._common
        return {name: tool for name, tool in tools.items() if tool.entry in self.toolkit}
