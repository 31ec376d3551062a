"""Served tools as MCP tasks: FastMCP's task extension keeps the tasks, and their calls run as all served calls do."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from docket import CurrentExecution, Docket, Execution
from fastmcp.server.context import Context
from fastmcp.server.extensions import MethodBinding, ToolCallContinuation, ToolCallOutcome
from fastmcp.tools import Tool
from fastmcp.tools.base import ToolResult as FastMCPResult
from fastmcp.utilities.tasks import TASKS_EXTENSION_ID, TaskConfig, TaskMode
from fastmcp_tasks import TasksExtension
from fastmcp_tasks.components import register_component_with_docket
from fastmcp_tasks.context import get_task_context, make_task_context
from fastmcp_tasks.creation import TASK_MAPPING_TTL_BUFFER_SECONDS
from fastmcp_tasks.encryption import snapshot_codec
from fastmcp_tasks.handlers import tasks_get
from fastmcp_tasks.input_loop import reentrant_task_fn
from fastmcp_tasks.models import CreateTaskResult, GetTaskResult
from fastmcp_tasks.settings import tasks_settings
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, CallToolRequestParams
from pydantic import PrivateAttr
from redis.exceptions import RedisClusterException, RedisError

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import ToolSpecError, quote_name
from ahvn_tools.execution.deadline import cancel_and_wait
from ahvn_tools.json_types import JsonObject
from ahvn_tools.mcp.server.components import to_fastmcp_result
from ahvn_tools.mcp.server.progress import ProgressReporter
from ahvn_tools.mcp.server.request import Request
from ahvn_tools.results import ToolResult

MAX_STATUS_CHARS: Final = 1000
"""The length of a task's status message."""

SetStatus = Callable[[str], Awaitable[None]]


def principal_of(request: Request) -> str | None:
    """Return an identifier of the user of the verified token; None without a token."""
    return request._principal_id  # noqa: SLF001  # a class of ours


def client_of(request: Request) -> str | None:
    """Return a digest of the user of the verified token or, without one, of the client's address; None without both."""
    client = principal_of(request) or request.address
    return None if client is None else hashlib.sha256(client.encode()).hexdigest()[:32]


class TaskRequest(Request):
    """A request that was answered with a task. FastMCP restores its headers and token, a snapshot has the rest."""

    is_of_task = True

    def __init__(self, context: Context, snapshot: JsonObject, set_status: SetStatus) -> None:
        """Use FastMCP's context of the task, and what `to_snapshot` returned for the request."""
        super().__init__(None)
        self._snapshot, self._set_status = snapshot, set_status
        self._task_state, self._task_answers = context.request_state, context.input_responses
        self.is_restored = snapshot["principal"] == self._principal_id and snapshot["has_headers"] == bool(self.headers)
        """Whether FastMCP has restored the headers and the token; it drops a token that has expired."""

    @classmethod
    def to_snapshot(cls, request: Request) -> JsonObject:
        """Return what a task needs of its request apart from the headers and the token, as JSON."""
        return {
            "meta": dict(request.meta),
            "client": dict(request.client),
            "transport": request.transport,
            "can_elicit": request.can_elicit,
            "principal": principal_of(request),
            "has_headers": bool(request.headers),
        }

    @property
    def meta(self) -> Mapping[str, Any]:
        """The `_meta` of the request."""
        return MappingProxyType(self._snapshot["meta"])

    @property
    def client(self) -> Mapping[str, str]:
        """The `name` and `version` that the client program claims."""
        return MappingProxyType(self._snapshot["client"])

    @property
    def transport(self) -> str | None:
        """The transport of the request."""
        transport: str | None = self._snapshot["transport"]
        return transport

    @property
    def can_elicit(self) -> bool:
        """Whether the client can be asked: it finds the question when it asks for the status of the task."""
        return self._snapshot["can_elicit"] is True

    def can_sample(self, *, with_tools: bool) -> bool:  # noqa: ARG002  # no client of a task can
        """Return False: FastMCP's clients of tasks answer forms only."""
        return False

    @property
    def log_level(self) -> None:
        """None: a task has no stream of messages to its client."""
        return

    @property
    def state(self) -> str | None:
        """What the task has stored with its question."""
        return self._task_state

    @property
    def answers(self) -> Mapping[str, Any]:
        """What the client has answered to the question of the task."""
        return self._task_answers or {}

    @property
    def _connection_id(self) -> str | None:
        return "stdio" if self.transport == "stdio" else None

    @property
    def _is_modern(self) -> bool:
        return True  # older protocols have no tasks

    def create_progress_reporter(self) -> ProgressReporter:
        """Return what makes each message the status message of the task."""
        return ProgressReporter(self._report)

    async def _report(self, progress: float, total: float | None, message: str | None) -> None:
        text = message or (f"{progress:g}" if total is None else f"{progress:g}/{total:g}")
        await self._set_status(text[:MAX_STATUS_CHARS])


MEMORY_URL: Final = "memory://"

_REDIS_SCHEMES: Final = frozenset({"redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "unix"})

_HOSTS: Final = re.compile(r"[\w.-]+(:\d+)?(,[\w.-]+(:\d+)?)*|\[[\da-fA-F:.]+\](:\d+)?", re.ASCII)

_ANONYMOUS: Final = "anonymous"


def to_url(tasks: Any) -> str:
    """Return the URL of `tasks`, which is True or a URL. Raises ToolSpecError for anything else."""
    if tasks is True:
        return MEMORY_URL
    scheme, separator, _ = tasks.partition("://") if isinstance(tasks, str) else ("", "", "")
    if tasks != MEMORY_URL and not (separator and scheme.lower() in _REDIS_SCHEMES):
        given = "another text" if isinstance(tasks, str) else f"a {type(tasks).__name__}"  # it may contain a password
        raise ToolSpecError(f"`tasks` is True, 'memory://' or the URL of a Redis, 'redis://host:6379', not {given}.")
    try:
        parts = urlsplit(tasks)
        if scheme in ("redis", "rediss"):
            parts.port  # noqa: B018  # it raises ValueError
    except ValueError:  # whose text may contain a part of the password
        raise ToolSpecError(
            "The URL of `tasks` is not valid: a port is a number, and a password is percent-encoded."
        ) from None
    return str(tasks)


def describe_url(url: str) -> str:
    """Return the scheme and the hosts of a URL: nothing that may be a part of a password."""
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2]
    is_clear = _HOSTS.fullmatch(hosts) is not None and "@" not in parts.path + parts.query + parts.fragment
    return f"{parts.scheme}://{hosts if is_clear else '…'}"


async def ping(url: str) -> None:
    """Raise an exception unless there is a Redis: FastMCP would start, and log an error once a second."""
    if not url.startswith(MEMORY_URL):
        async with Docket(url=url) as docket, docket.redis() as redis:
            await redis.get(docket.key("ping"))


async def delete_from_memory(url: str) -> None:
    """Delete all tasks at a URL in memory, where Docket would keep them as long as the event loop exists."""
    if url.startswith(MEMORY_URL):
        async with Docket(url=url) as docket, docket.redis() as redis:
            if keys := await redis.keys("*"):
                await redis.delete(*keys)


async def count_tasks(docket: Docket) -> int:
    """Return how many tasks wait or run."""
    async with docket.redis() as redis:
        return int(await redis.xlen(docket.stream_key)) + int(await redis.zcard(docket.queue_key))


@dataclass(frozen=True)
class TaskPlace:
    """What a task of a client counts as, from its creation to its end, towards the limit of the client."""

    client: str
    """A digest of what identifies the client."""
    token: str = field(default_factory=lambda: secrets.token_hex(16))

    async def take(self, docket: Docket, limit: int) -> bool:
        """Take this place, unless the client has `limit` others; return whether it is taken."""
        await self.keep(docket)
        async with docket.redis() as redis:
            oldest = time.time() - _seconds(docket)
            await redis.zremrangebyscore(self._key(docket), 0, oldest)  # of servers that were killed
            if int(await redis.zcard(self._key(docket))) <= limit:
                return True
            await redis.zrem(self._key(docket), self.token)
            return False

    async def keep(self, docket: Docket) -> None:
        """Keep this place for as long as FastMCP keeps a task that nobody asks for."""
        async with docket.redis() as redis:
            await redis.zadd(self._key(docket), {self.token: time.time()})
            await redis.expire(self._key(docket), _seconds(docket))

    async def leave(self, docket: Docket) -> None:
        """Leave this place to another task."""
        async with docket.redis() as redis:
            await redis.zrem(self._key(docket), self.token)

    def _key(self, docket: Docket) -> str:
        return docket.key(f"client:{self.client}")


async def set_owner(docket: Docket, task_id: str, principal: str | None, place: TaskPlace | None) -> None:
    """Store which user has started a task, and its place; None: the client has no token."""
    record = {"principal": principal or _ANONYMOUS, "place": None if place is None else asdict(place)}
    async with docket.redis() as redis:
        await redis.set(_owner_key(docket, task_id), json.dumps(record), ex=_seconds(docket))


async def is_owner(docket: Docket, task_id: str, principal: str | None) -> bool:
    """Return whether a user has started a task. Each request extends the lifetime of its record."""
    async with docket.redis() as redis:
        record: bytes | None = await redis.get(_owner_key(docket, task_id))
        await redis.expire(_owner_key(docket, task_id), _seconds(docket))
    return record is not None and json.loads(record)["principal"] == (principal or _ANONYMOUS)


async def leave_place_of(docket: Docket, task_id: str) -> None:
    """Leave the place of a task that was cancelled, which may never run."""
    async with docket.redis() as redis:
        record: bytes | None = await redis.get(_owner_key(docket, task_id))
    if record is not None and (place := json.loads(record)["place"]) is not None:
        await TaskPlace(**place).leave(docket)


def _owner_key(docket: Docket, task_id: str) -> str:
    return docket.key(f"owner:{task_id}")


def _seconds(docket: Docket) -> int:
    """Return how long FastMCP keeps what it stores with a task that nobody asks for."""
    return int(docket.execution_ttl.total_seconds()) + TASK_MAPPING_TTL_BUFFER_SECONDS


log = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 10.0
"""Seconds that Redis may take to answer."""

MAX_TASKS: Final = 1000
"""ServedTasks of one store that wait or run; a client cannot start more."""

KEEP_SECONDS: Final = 300.0
"""After how many seconds the lifetime of a running task is extended: FastMCP deletes one without requests."""

_STORE_ERRORS: Final = (RedisError, RedisClusterException, OSError)
_REPEATABLE_HINTS: Final = ("readOnlyHint", "idempotentHint")

TaskTools = Callable[[], Iterable[ToolDefinition]]
FindTool = Callable[[str], Awaitable[Tool | None]]
FindMode = Callable[[str], TaskMode | None]


class ServedTasks(TasksExtension):
    """FastMCP's task extension for the tools that a server looks up for each request."""

    def __init__(
        self,
        url: str,
        name: str,
        *,
        per_client: int | None,
        task_tools: TaskTools,
        find_tool: FindTool,
        find_mode: FindMode,
    ) -> None:
        """Keep tasks at `url`; servers of one name at one Redis share them.

        `per_client` tasks of one client may wait or run, by default half as many as run at once in this process.
        `find_mode` returns None for a tool that is not served by the functions here.
        """
        if url == MEMORY_URL:  # FastMCP's in-memory store is one per URL
            url += secrets.token_hex(8)
        self.url = url
        super().__init__(url=url, name=name)
        self._task_tools, self._find_tool, self._find_mode = task_tools, find_tool, find_mode
        self._per_client = per_client
        self._calls: set[asyncio.Task[FastMCPResult]] = set()
        self._docket: Docket
        self._max_per_client: int
        self.is_running = False
        """Whether this server itself runs; the task extension of a mounted server does not."""

    def components(self) -> list[Tool]:
        """Return what the worker registers: at least one, as FastMCP starts no worker for none."""
        if not self.is_running:
            return []
        return [self._component("task", None), *(self._component(d.name, d.version) for d in self._task_tools())]

    def _component(self, name: str, version: str | None) -> Tool:
        component = TaskRunner(name=name, version=version, parameters={}, task_config=TaskConfig(mode="optional"))
        component._run_task = self._run_task  # noqa: SLF001  # pydantic accepts no private attribute in its constructor
        return component

    async def intercept_tool_call(
        self, params: CallToolRequestParams, context: Context, call_next: ToolCallContinuation
    ) -> ToolCallOutcome:
        """Answer a call with a task if its tool and its client want one."""
        mode = self._find_mode(params.name)
        if mode == "forbidden" or (mode is not None and not self.is_running):  # a mounted server
            return await call_next()
        if mode is None and not self.is_running:
            return await super().intercept_tool_call(params, context, call_next)
        place = None
        if mode is not None:
            self._register(params.name)
            client = client_of(Request.current())
            place = None if client is None else TaskPlace(client)
            params = params.model_copy(update={"arguments": _to_payload(params, place)})
        async with self._limit_waiting() as timeout:

            async def call_without_task() -> ToolCallOutcome:
                timeout.reschedule(None)
                return await call_next()

            if mode is not None and context.client_extension_settings(TASKS_EXTENSION_ID) is not None:
                refusal = await self._find_refusal(place)
                if refusal is not None:
                    return _error("limit_exceeded", f"{refusal} Call {quote_name(params.name)} again later.")
            outcome = None
            try:
                outcome = await super().intercept_tool_call(params, context, call_without_task)
            finally:
                if place is not None and not isinstance(outcome, CreateTaskResult):
                    await place.leave(self._docket)
            if isinstance(outcome, CreateTaskResult):
                await set_owner(self._docket, outcome.task_id, principal_of(Request.current()), place)
            return outcome

    async def _find_refusal(self, place: TaskPlace | None) -> str | None:
        """Return why a call cannot become a task; if it can, its client has taken the place."""
        if await count_tasks(self._docket) >= MAX_TASKS:
            return "Too many tasks wait."
        if place is not None and not await place.take(self._docket, self._max_per_client):
            return f"{self._max_per_client} tasks of this client wait or run, which is the maximum."
        return None

    def methods(self) -> Sequence[MethodBinding]:
        """Return FastMCP's methods, for the owner of the task alone.

        They wait for Redis for a limited time, and mask errors of the worker.
        """

        def limit(binding: MethodBinding) -> Any:
            async def handle(request_context: Any, params: Any) -> Any:
                self._check_task_request(request_context, params.task_id)
                async with self._limit_waiting():
                    await self._require_owner(params.task_id)
                    answer = _mask_error(await binding.handler(request_context, params))
                    if self.is_running and binding.method == "tasks/cancel":
                        await leave_place_of(self._docket, params.task_id)
                    return answer

            return handle

        return [replace(binding, handler=limit(binding)) for binding in super().methods()]

    async def _require_owner(self, task_id: str) -> None:
        """Raise MCPError, as for an unknown task, unless the user has started it.

        FastMCP does not distinguish users by the issuer and the subject of their tokens.
        """
        if self.is_running and not await is_owner(self._docket, task_id, principal_of(Request.current())):
            raise MCPError(INVALID_PARAMS, f"Task {task_id} not found")

    @asynccontextmanager
    async def _limit_waiting(self) -> AsyncIterator[asyncio.Timeout]:
        """Raise MCPError when the store of the tasks does not answer in time."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS) as timeout:
                yield timeout
        except _STORE_ERRORS as error:
            log.error(  # noqa: TRY400  # the traceback may show the password of the URL
                "The tasks at %s are not available: %s.", describe_url(self.url), type(error).__name__
            )
            raise MCPError(INTERNAL_ERROR, "The server cannot reach its tasks at present. Try again later.") from None

    def _register(self, name: str) -> None:
        """Register a tool that was added while the server runs."""
        for definition in self._task_tools():
            if definition.name == name:
                component = self._component(name, definition.version)
                if component.key not in self._docket.tasks:
                    register_component_with_docket(component, self._docket)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Run the worker of this server. Raises ToolSpecError when Redis does not answer."""
        async with AsyncExitStack() as stack:
            self.is_running = True  # FastMCP asks for the components
            stack.callback(self._set_stopped)
            stack.push_async_callback(delete_from_memory, self.url)
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await ping(self.url)
                    await stack.enter_async_context(super().lifespan())
            except (*_STORE_ERRORS, ValueError) as error:  # a ValueError about the URL may show the password
                raise ToolSpecError(
                    f"The tasks of server {self.server.name!r} cannot be kept at {describe_url(self.url)} "
                    f"({type(error).__name__}): start Redis there, or pass tasks=True to keep them in memory."
                ) from None
            if not self.url.startswith(MEMORY_URL) and tasks_settings.encryption_key is None:
                log.warning("Redis stores the headers and tokens of clients as text: set FASTMCP_TASKS_ENCRYPTION_KEY.")
            server: Any = self.server  # FastMCP has no public names for these
            self._docket, worker = server._docket, server._worker  # noqa: SLF001  # as above
            self._max_per_client = self._per_client or max(1, worker.concurrency // 2)
            # another process may have started a task of a tool that was added while it ran
            worker.fallback_task = reentrant_task_fn(self._component("task", None).run, "task")
            stack.callback(self._stop)
            yield

    def _set_stopped(self) -> None:
        self.is_running = False

    def _stop(self) -> None:
        """Cancel the calls that run: FastMCP would wait for them.

        It stops the worker in the same step of the event loop, so that the worker starts no other task.
        """
        self._set_stopped()
        for call in self._calls:
            call.cancel()

    async def _run_task(self, payload: JsonObject, execution: Execution) -> FastMCPResult:
        """Run the call of a task, until this server stops."""
        async with self._keep_place(payload["place"]) as place:
            if self.is_running:
                call = asyncio.create_task(self._call(payload, execution))
                self._calls.add(call)
                try:
                    while not (await asyncio.wait({call}, timeout=KEEP_SECONDS))[0]:
                        await self._keep(place)
                finally:
                    self._calls.discard(call)
                    await cancel_and_wait(call)
                if not call.cancelled():
                    return call.result()
            return _error("cancelled", f"The server was stopped while {quote_name(payload['name'])} ran.")

    @asynccontextmanager
    async def _keep_place(self, fields: JsonObject | None) -> AsyncIterator[TaskPlace | None]:
        """Let a task have its place, which it has left if it has asked its client something, until it ends."""
        if fields is None:
            yield None
            return
        place = TaskPlace(**fields)
        async with self._limit_keeping():
            await place.keep(self._docket)
        try:
            yield place
        finally:
            async with self._limit_keeping():
                await place.leave(self._docket)

    async def _keep(self, place: TaskPlace | None) -> None:
        """Ask for the task that runs, so that FastMCP does not forget it."""
        task = get_task_context()
        assert task is not None  # noqa: S101  # this runs in a task
        async with self._limit_keeping():
            await self._require_owner(task.task_id)
            await tasks_get(self.server, task.task_id)
            if place is not None:
                await place.keep(self._docket)

    @asynccontextmanager
    async def _limit_keeping(self) -> AsyncIterator[None]:
        """Ignore that the store of the tasks does not answer in time."""
        with contextlib.suppress(*_STORE_ERRORS, MCPError):
            async with asyncio.timeout(ANSWER_SECONDS):
                yield

    async def _call(self, payload: JsonObject, execution: Execution) -> FastMCPResult:
        """Run the call of a task as the client's request would have run it."""
        name: str = payload["name"]
        snapshot: JsonObject = json.loads(snapshot_codec().decode(payload["request"]))

        async def set_status(text: str) -> None:
            await execution.progress.set_message(text)

        request = TaskRequest(await _read_context(), snapshot, set_status)
        if not request.is_restored:
            message = f"The headers or the token of the request for {quote_name(name)} are lost or have expired."
            return _error("not_available", message)
        request.make_current()
        tool = await self._find_tool(name)
        if tool is None:
            return _error("not_found", f"Unknown tool: {quote_name(name)}")
        hints = {} if tool.annotations is None else tool.annotations.model_dump(by_alias=True)
        if execution.redelivered and not any(hints.get(hint) for hint in _REPEATABLE_HINTS):
            return _error("connection", f"The server ended while {quote_name(name)} ran. It may have had an effect.")
        return await tool.run(payload["arguments"])


class TaskRunner(Tool):
    """What the worker of FastMCP's task extension runs for a tool."""

    _run_task: Callable[[JsonObject, Execution], Awaitable[FastMCPResult]] = PrivateAttr()

    async def run(
        self,
        arguments: dict[str, Any],
        execution: Execution = CurrentExecution(),  # noqa: B008  # the worker finds it by its default
    ) -> FastMCPResult:
        """Run the call that a payload of `ServedTasks` describes."""
        return await self._run_task(arguments, execution)


def _to_payload(params: CallToolRequestParams, place: TaskPlace | None) -> JsonObject:
    """Return what is stored for a call."""
    request = snapshot_codec().encode(json.dumps(TaskRequest.to_snapshot(Request.current())))
    return {
        "name": params.name,
        "arguments": params.arguments or {},
        "request": request,
        "place": None if place is None else asdict(place),
    }


async def _read_context() -> Context:
    """Return FastMCP's context of the task, left again: a tool that asks for one enters and leaves its own."""
    context = await make_task_context()
    if context is None:  # pragma: no cover  # this runs in a task
        raise RuntimeError("There is no task.")
    await context.__aexit__(None, None, None)
    return context


def _mask_error(answer: Any) -> Any:
    """Return the answer to a request without the text of an exception of the worker: tools raise none."""
    if isinstance(answer, GetTaskResult) and (answer.error or {}).get("code") == INTERNAL_ERROR:
        message = "The server could not finish the task."
        return answer.model_copy(
            update={"error": {"code": INTERNAL_ERROR, "message": message}, "status_message": message}
        )
    return answer


def _error(code: str, message: str) -> FastMCPResult:
    return to_fastmcp_result(ToolResult(error=ErrorDetail(code=code, message=message)))
