"""The FastMCP server of some served tools."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import weakref
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from fastmcp import FastMCP
from fastmcp.exceptions import PromptError, ResourceError, ToolError
from fastmcp.prompts import Prompt
from fastmcp.resources import Resource
from fastmcp.server.context import reset_transport, set_transport
from fastmcp.server.http import StarletteWithLifespan
from fastmcp.tools import Tool
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.logging import temporary_log_level
from fastmcp.utilities.tasks import TaskMode
from fastmcp.utilities.versions import VersionSpec
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, SubscriptionsListenRequestParams
from mcp_types import Prompt as WirePrompt
from starlette.middleware import Middleware

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import MAX_NAME_CHARS, DefinitionError, ToolCallError, quote_name
from ahvn_tools.execution import convert
from ahvn_tools.execution.deadline import cancel_and_wait, outcome_of
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.formats.json_data import replace_surrogates
from ahvn_tools.mcp.server import large_results
from ahvn_tools.mcp.server.components import (
    GetPrompt,
    ReadResource,
    ServedTool,
    to_fastmcp_prompt,
    to_fastmcp_resource,
    to_fastmcp_tool,
    to_listed_resource,
)
from ahvn_tools.mcp.server.http_guards import HeaderGuard, ListeningStreamEnd, UniqueRequestIdGuard
from ahvn_tools.mcp.server.request import Request
from ahvn_tools.mcp.server.running_calls import RunningCalls
from ahvn_tools.mcp.server.standard_streams import claimed_stdin, claimed_stdout
from ahvn_tools.results import ToolResult

if TYPE_CHECKING:
    from ahvn_tools.mcp.server.stdio_messages import StdioMessageReader
    from ahvn_tools.mcp.server.tasks import FindTool, ServedTasks  # they need an extra

log = logging.getLogger(__name__)

DISCONNECT_GRACE_SECONDS: Final = 0.5
"""Seconds that running calls have to end when a client over stdio has closed its end; it may still read."""

POLL_SECONDS: Final = 0.5
"""Seconds between two checks for changes while a client is subscribed: a change may come from any thread."""


class ServedTools(Protocol):
    """What a server needs of the tools that it serves."""

    async def definitions(self, request: Request) -> Sequence[ToolDefinition]:
        """Return the definitions to list to the client of a request."""

    async def find(self, name: str, request: Request) -> ToolDefinition | None:
        """Return the tool of that name, listed or not; None if there is none for the client of the request."""

    def find_for_any_client(self, name: str) -> ToolDefinition | None:
        """Return the tool of that name without a request, for answers that are the same for all clients."""

    def get_revision(self) -> Any:
        """Return a value that differs whenever the list of tools may have changed."""

    def get_prompts_revision(self) -> Any:
        """Return a value that differs whenever the list of prompts may have changed."""

    def task_mode(self, name: str) -> TaskMode | None:
        """Return whether calls of a tool may be tasks; None if there is no tool of that name."""

    def task_tools(self) -> Iterable[ToolDefinition]:
        """Return the tools whose calls may be tasks, without a request."""

    async def find_resource(self, uri: str, request: Request) -> ReadResource | None:
        """Return what reads a resource that is listed, or to which a tool has referred the client; None if none."""

    async def list_resources(self, request: Request) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Return the URI and the fields of each resource to list to the client of a request."""

    async def list_prompts(self, request: Request) -> Sequence[tuple[WirePrompt, GetPrompt]]:
        """Return the prompts to list to the client of a request, each with what returns its messages."""

    async def find_prompt(self, name: str, request: Request) -> tuple[WirePrompt, GetPrompt] | None:
        """Return the prompt of that name; None if there is none for the client of the request."""

    async def call_tool(self, name: str, arguments: dict[str, Any], request: Request) -> ToolResult:
        """Run a call. Errors of all kinds are results."""


class ServedToolsServer(FastMCP):
    """Looks served tools up for each request, so that a change is served with the next request.

    FastMCP's providers have what the host added to the server; a served tool hides others of its name. If the served
    tools cannot be listed, that is an error; FastMCP ignores a provider that fails.
    """

    def __init__(
        self,
        served_tools: ServedTools,
        name: str,
        *,
        tasks: bool | str | None = None,
        tasks_per_client: int | None = None,
        **options: Any,
    ) -> None:
        """Serve these tools; `tasks` is True or the URL where tasks are kept, `options` are those of FastMCP.

        `tasks_per_client` is how many tasks of one client may wait or run.

        Raises DefinitionError when the extra of tasks is not installed, ToolSpecError for another value of `tasks`.
        """
        super().__init__(name, **{"dereference_schemas": False, "mask_error_details": True, **options})
        self._served_tools = served_tools
        self._spec_tools: weakref.WeakKeyDictionary[ToolDefinition, ServedTool] = weakref.WeakKeyDictionary()
        self._listen_handler = ListenHandler(PollingSubscriptionBus(served_tools))
        self._message_reader: StdioMessageReader | None = None
        self.running_calls = RunningCalls()
        self._are_streams_closed = asyncio.Event()
        self._install_handlers()
        self._tasks: ServedTasks | None = None
        if tasks not in (None, False):
            self._tasks = _create_tasks(tasks, name, tasks_per_client, served_tools, self._get_tool)
            self.add_extension(self._tasks)

    async def get_tasks(self) -> Sequence[FastMCPComponent]:
        """Return the tools that FastMCP's task extension may run."""
        return [*await super().get_tasks(), *([] if self._tasks is None else self._tasks.components())]

    def close_streams(self) -> None:
        """End the streams on which clients listen for messages, which would delay the end of a server over HTTP."""
        self._listen_handler.close()
        self._are_streams_closed.set()

    def http_app(
        self, path: str | None = None, middleware: list[Middleware] | None = None, *arguments: Any, **options: Any
    ) -> StarletteWithLifespan:
        """Return the ASGI app, with the arguments of FastMCP's method."""
        guards = [
            Middleware(HeaderGuard),
            Middleware(UniqueRequestIdGuard),
            Middleware(ListeningStreamEnd, are_closed=self._are_streams_closed),
        ]
        # a stored event would contain the placeholder
        sender = [] if options.get("event_store") is not None else [Middleware(large_results.LargeResultSender)]
        return super().http_app(path, [*guards, *(middleware or ()), *sender], *arguments, **options)

    async def run_stdio_async(
        self,
        show_banner: bool = True,
        log_level: str | None = None,
        stateless: bool = False,  # noqa: ARG002  # FastMCP only logs it
    ) -> None:
        """Serve over stdio as FastMCP does, with its arguments; messages are read and written without a thread."""
        if show_banner:
            from fastmcp.utilities.cli import log_server_banner  # slow to import

            log_server_banner(server=self)
        _ = self._state_store  # imports much; the first call would wait for it, also when its client is gone
        with claimed_stdin() as stdin, claimed_stdout() as stdout:
            token = set_transport("stdio")
            self._message_reader = stdin
            lines = None if stdin is None else self._read_lines(stdin)
            streams: Any = {"stdin": lines, "stdout": stdout}  # they have those methods of open files that are called
            try:
                with temporary_log_level(log_level):
                    async with self._lifespan_manager(), stdio_server(**streams) as (reader, writer):
                        options = self._mcp_server.create_initialization_options()
                        await self._mcp_server.run(*self.running_calls.wrap_streams(reader, writer), options)
            finally:
                self._message_reader = None
                reset_transport(token)

    async def _read_lines(self, reader: StdioMessageReader) -> AsyncIterator[str]:
        """Yield the lines of the client. When it closes its end, mcp answers nothing that still runs."""
        async for line in reader:
            self.running_calls.note_line()
            yield line
        await self.running_calls.stop(DISCONNECT_GRACE_SECONDS)

    def stop_reading(self) -> None:
        """End a server over stdio as its client would, from the thread of its event loop."""
        if self._message_reader is not None:
            self._message_reader.stop()

    async def _list_tools(self) -> Sequence[Tool]:
        with _told_to_client(functools.partial(MCPError, INTERNAL_ERROR), "The tools cannot be listed."):
            definitions = await self._served_tools.definitions(Request.current())
        served = [self._to_spec_tool(definition) for definition in definitions]
        names = {tool.name for tool in served}
        return [*served, *(tool for tool in await super()._list_tools() if tool.name not in names)]

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        with _told_to_client(ToolError, "Error calling tool {}", name):
            definition = await self._served_tools.find(name, Request.current())
        if definition is None or not (version is None or version.matches(definition.version)):
            tool = await super()._get_tool(name, version)
            if tool is None and len(name) > MAX_NAME_CHARS:  # FastMCP's own message would repeat the whole name
                raise ToolError(f"Unknown tool: {quote_name(name)}")
            return tool
        return self._to_spec_tool(definition)

    async def _get_resource(self, uri: str, version: VersionSpec | None = None) -> Resource | None:
        resource = await super()._get_resource(uri, version)
        if resource is not None:
            return resource
        with _told_to_client(ResourceError, "The resource cannot be read."):
            read = await self._served_tools.find_resource(uri, Request.current())
        return None if read is None else to_fastmcp_resource(uri, read)

    async def _list_resources(self) -> Sequence[Resource]:
        with _told_to_client(functools.partial(MCPError, INTERNAL_ERROR), "The resources cannot be listed."):
            served = await self._served_tools.list_resources(Request.current())
        own = await super()._list_resources()
        uris = {str(resource.uri) for resource in own}
        listed = [to_listed_resource(uri, fields) for uri, fields in served if uri not in uris]
        return [*own, *(resource for resource in listed if resource is not None)]

    async def _list_prompts(self) -> Sequence[Prompt]:
        with _told_to_client(functools.partial(MCPError, INTERNAL_ERROR), "The prompts cannot be listed."):
            passed = await self._served_tools.list_prompts(Request.current())
        own = await super()._list_prompts()
        names = {prompt.name for prompt in own}
        return [*own, *(to_fastmcp_prompt(*prompt) for prompt in passed if prompt[0].name not in names)]

    async def _get_prompt(self, name: str, version: VersionSpec | None = None) -> Prompt | None:
        prompt = await super()._get_prompt(name, version)
        if prompt is not None:
            return prompt
        with _told_to_client(PromptError, "The prompt cannot be read."):
            found = await self._served_tools.find_prompt(name, Request.current())
        return None if found is None else to_fastmcp_prompt(*found)

    def _to_spec_tool(self, definition: ToolDefinition) -> ServedTool:
        """Return the FastMCP tool of a definition, created once for equal definitions."""
        tool, mode = self._spec_tools.get(definition), self._task_mode(definition.name)
        if tool is None or tool.task_config.mode != mode:
            run = functools.partial(self._call_served_tool, definition.name)
            tool = self._spec_tools[definition] = to_fastmcp_tool(definition, run, task_mode=mode)
        return tool

    def _task_mode(self, name: str) -> TaskMode:
        if self._tasks is None or not self._tasks.is_running:  # a server that another one mounts has no tasks
            return "forbidden"
        return self._served_tools.task_mode(name) or "forbidden"

    async def _call_served_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Run a call in its own task, so that a call which ignores its cancellation does not block the server."""
        if self._task_mode(name) == "forbidden" and self._served_tools.task_mode(name) == "required":
            message = f"Tool {name!r} only runs as a task, and this server runs no tasks."
            return ToolResult(error=ErrorDetail(code="not_available", message=message))
        request = Request.current()
        task = asyncio.create_task(capture_outcome(self._served_tools.call_tool, name, arguments, request))
        try:
            await asyncio.wait({task})
        finally:
            await cancel_and_wait(task)
        outcome = outcome_of(task)
        if outcome.error is None:
            result: ToolResult = outcome.value
            return result
        code = getattr(outcome.error, "code", "tool_error")
        message = _to_client_message(outcome.error, f"Error calling tool {name!r}")
        return ToolResult(error=ErrorDetail(code=code, message=message))

    def _install_handlers(self) -> None:
        """Answer `subscriptions/listen` and calls that are stopped, send large results in pieces, find schemas by name.

        With protocol 2026-07-28 over HTTP, mcp compares headers with the schema before each call and lists all tools to
        find it, unless it has this function. FastMCP 4 has no public API for these. Without the private attribute,
        clients learn of a change with their next call, calls are slow, and a server that is stopped answers no call.
        """
        mcp_server: Any = getattr(self, "_mcp_server", None)
        if hasattr(mcp_server, "add_request_handler"):
            mcp_server.add_request_handler(
                "subscriptions/listen", SubscriptionsListenRequestParams, self._listen_handler
            )
            entry = mcp_server.get_request_handler("tools/call")
            handler = self.running_calls.wrap_handler(large_results.wrap_handler(entry.handler))
            mcp_server.add_request_handler("tools/call", entry.params_type, handler)
        if hasattr(mcp_server, "get_tool_input_schema"):
            mcp_server.get_tool_input_schema = self._get_input_schema

    def _get_input_schema(self, name: str) -> Mapping[str, Any] | None:
        definition = self._served_tools.find_for_any_client(name)
        return None if definition is None else self._to_spec_tool(definition).parameters


def _create_tasks(
    tasks: Any, name: str, per_client: int | None, served_tools: ServedTools, find_tool: FindTool
) -> ServedTasks:
    try:
        from ahvn_tools.mcp.server.tasks import ServedTasks, to_url
    except ModuleNotFoundError as missing:
        raise DefinitionError('tasks= needs fastmcp-tasks: pip install "ahvn-tools[tasks]"') from missing
    return ServedTasks(
        to_url(tasks),
        name,
        per_client=per_client,
        task_tools=served_tools.task_tools,
        find_tool=find_tool,
        find_mode=served_tools.task_mode,
    )


class PollingSubscriptionBus(InMemorySubscriptionBus):
    """A subscription bus of mcp that notifies each listener when the list of tools or of prompts changes."""

    def __init__(self, served_tools: ServedTools) -> None:
        """Ask for the revisions of both lists."""
        super().__init__()
        self._sources: tuple[tuple[ServerEvent, Callable[[], Any]], ...] = (
            (ToolsListChanged(), served_tools.get_revision),
            (PromptsListChanged(), served_tools.get_prompts_revision),
        )

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Notify a listener of changes from now on; return the function that ends the subscription."""
        poll_task = asyncio.get_running_loop().create_task(self._poll(listener))
        unsubscribe = super().subscribe(listener)

        def stop() -> None:
            unsubscribe()
            poll_task.cancel()

        return stop

    async def _poll(self, listener: Callable[[ServerEvent], None]) -> None:
        last = [get_revision() for _, get_revision in self._sources]
        while True:
            await asyncio.sleep(POLL_SECONDS)
            for index, (event, get_revision) in enumerate(self._sources):
                if (revision := get_revision()) != last[index]:
                    last[index] = revision
                    listener(event)


@contextlib.contextmanager
def _told_to_client(kind: Callable[[str], Exception], message: str, name: str = "") -> Generator[None]:
    """Raise an error of the client's for any other: with the text of an error of ours, otherwise with `message`.

    The message may have a place for the name of a tool.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001  # the host's own functions may raise anything
        raise kind(_to_client_message(error, message.format(quote_name(name)))) from None


def _to_client_message(error: BaseException, message: str) -> str:
    """Return the text of an error of ours; of another error, `message`, and log the error."""
    if isinstance(error, ToolCallError):
        return replace_surrogates(error.message)
    log.error("%s: %s.", message.rstrip("."), convert.summarize_exception(error))
    return message
