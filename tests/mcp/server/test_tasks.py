"""Served tools as MCP tasks: their calls do what plain calls do, for the client that started them alone."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Annotated, Any

import pytest

pytest.importorskip("fastmcp_tasks", reason='tasks need pip install "ahvn-tools[tasks]"')

import fastmcp_tasks.creation
import fastmcp_tasks.handlers
from docket._redis_memory import get_memory_server
from fastmcp import Client, Context, FastMCP
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server.auth import AccessToken, TokenVerifier
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.tools import ToolResult as FastMCPResult
from fastmcp.utilities.types import Image
from fastmcp_tasks import TasksExtension, ToolTask, call_tool_task
from fastmcp_tasks.client import TasksClientExtension
from fastmcp_tasks.models import GetTaskResult
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
)
from redis.exceptions import ResponseError

from ahvn_tools import Secret, ToolContext, ToolError, Toolkit, ToolResult
from ahvn_tools.errors import DefinitionError, ToolkitError, ToolSpecError
from ahvn_tools.execution.call import Call, Next
from ahvn_tools.mcp.server import tasks
from ahvn_tools.secret_key import SecretKey
from tests.mcp.serving import over_http

pytest.importorskip("fastmcp_tasks", reason='tasks need pip install "ahvn-tools[tasks]"')


SECRET = "bound-value-that-must-not-be-stored"
USERS = {"token-a": {"client_id": "ann", "role": "clerk"}, "token-b": {"client_id": "bob", "role": "guest"}}


@asynccontextmanager
async def connect(kit: Toolkit, *, client: Mapping[str, Any] | None = None, **options: Any) -> AsyncIterator[Client]:
    """Yield a client of a served toolkit."""
    async with Client(kit.to_fastmcp_server(**{"tasks": True, **options}), **(client or {})) as connected:
        yield connected


async def start(client: Client, tool: str, **arguments: Any) -> ToolTask:
    """Start a task."""
    return await call_tool_task(client, tool, arguments, raise_on_error=False)


class Body:
    """A tool that runs until it is released, and says whether it has started or was cancelled."""

    def __init__(self) -> None:
        self.started, self.released, self.cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def wait(self) -> str:
        """Wait."""
        self.started.set()
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return "released"


def kit_of(*tools: Any, **options: Any) -> Toolkit:
    """Return a toolkit whose tools may be tasks."""
    return Toolkit("long").add(*tools, **{"task": "optional", **options})


def double(number: int) -> dict[str, int]:
    """Double a number."""
    return {"doubled": 2 * number}


def refuse() -> None:
    """Refuse."""
    raise ToolError("Not on Sundays.")


def break_down() -> None:
    """Raise an exception that the client must not read."""
    raise RuntimeError(SECRET)


async def hang() -> None:
    """Exceed the timeout."""
    await asyncio.sleep(60)


def draw() -> list[Any]:
    """Return content."""
    return ["text", Image(data=b"png", format="png")]


def exit_process() -> None:
    """Try to end the server."""
    sys.exit(1)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("double", {"number": 4}),
        ("double", {"number": "many"}),
        ("double", {"number": 4, "secret": "x"}),
        ("refuse", {}),
        ("break_down", {}),
        ("hang", {}),
        ("draw", {}),
        ("exit_process", {}),
        ("ask", {}),
    ],
    ids=["value", "invalid", "bound", "ToolError", "masked", "timeout", "content", "SystemExit", "approval"],
)
async def test_the_result_of_a_task_is_that_of_a_plain_call(name, arguments):
    kit = kit_of(double, refuse, break_down, draw, exit_process).add(hang, task="optional", timeout=0.05)
    kit.add(double, rename="ask", task="optional", requires_approval=True)
    async with connect(kit) as client, connect(kit, client={"mode": "legacy"}) as plain_client:
        task = await start(client, name, **arguments)
        plain = await plain_client.call_tool(name, arguments, raise_on_error=False)
        result = await task.result()
        assert (await task.status()).status == "completed"
    assert (result.is_error, result.structured_content) == (plain.is_error, plain.structured_content)
    assert [block.model_dump() for block in result.content] == [block.model_dump() for block in plain.content]
    assert (result.meta or {}).keys() == (plain.meta or {}).keys()
    assert SECRET not in str(result)


async def test_a_client_that_knows_tasks_gets_the_result_of_the_tool_from_a_call():
    async with connect(kit_of(double, task="required")) as client:
        assert (await client.call_tool("double", {"number": 4})).data == {"doubled": 8}


async def test_only_tools_with_the_option_become_tasks():
    async with connect(Toolkit("short").add(double)) as client:
        assert (await client.call_tool("double", {"number": 1})).data == {"doubled": 2}
        with pytest.raises(Exception, match="did not run as a task"):
            await start(client, "double", number=1)


async def test_a_client_without_tasks_cannot_call_a_tool_that_requires_them():
    async with connect(kit_of(double, task="required"), client={"mode": "legacy"}) as client:
        with pytest.raises(MCPError) as refusal:
            await client.call_tool("double", {"number": 1})
    assert refusal.value.code == MISSING_REQUIRED_CLIENT_CAPABILITY


async def test_the_state_function_reads_the_request_that_started_the_task():
    kit = kit_of(orders).bind("user")

    def read_state(request: Any) -> dict[str, Any]:
        return {"user": [request.headers["x-user"], request.meta["table"], request.client["name"], request.transport]}

    async with over_http(kit, tasks=True, state=read_state) as url:
        transport = StreamableHttpTransport(url, headers={"X-User": "ann"})
        async with Client(transport) as client:
            task = await call_tool_task(client, "orders", meta={"table": 5})
            assert (await task.result()).data == {"user": ["ann", 5, "mcp", "streamable-http"]}


def orders(user: list[Any]) -> dict[str, list[Any]]:
    """Return the user."""
    return {"user": user}


async def test_a_task_is_for_the_user_who_started_it():
    body = Body()
    kit = kit_of(body.wait).add(orders, task="optional", audience="clerk").bind("user")
    options = {
        "auth": StaticTokenVerifier(USERS),
        "state": lambda request: {"user": [request.client_id, request.claims["role"], sorted(request.scopes)]},
        "audience": lambda request: request.claims["role"],
    }
    async with (
        over_http(kit, tasks=True, **options) as url,
        Client(url, auth="token-a") as ann,
        Client(url, auth="token-b") as bob,
    ):
        task = await start(ann, "wait")
        await asyncio.wait_for(body.started.wait(), 5)
        stolen = ToolTask(bob, "wait", task.create_result)
        for attempt in (stolen.status, stolen.cancel, stolen.result):
            with pytest.raises(MCPError, match="not found"):
                await attempt()
        assert (await task.status()).status == "working"
        body.released.set()
        assert (await task.result()).data == "released"
        assert (await (await start(ann, "orders")).result()).data == {"user": ["ann", "clerk", []]}
        unknown = await bob.call_tool("orders", raise_on_error=False)
        assert "Unknown tool" in unknown.content[0].text


async def test_one_client_does_not_keep_another_waiting(monkeypatch):
    monkeypatch.setenv("FASTMCP_DOCKET_CONCURRENCY", "4")
    body = Body()
    async with (
        asyncio.timeout(20),
        over_http(kit_of(body.wait, double), tasks=True, auth=StaticTokenVerifier(USERS)) as url,
        Client(url, auth="token-a") as ann,
        Client(url, auth="token-b") as bob,
    ):
        running = [await start(ann, "wait") for _ in range(2)]
        refused = [await ann.call_tool("wait", raise_on_error=False) for _ in range(30)]
        assert {result.content[0].text for result in refused} == {
            "2 tasks of this client wait or run, which is the maximum. Call 'wait' again later."
        }
        assert (await (await start(bob, "double", number=4)).result()).data == {"doubled": 8}
        await running[0].cancel()
        running.append(await start(ann, "wait"))
        body.released.set()
        assert (await running[1].result()).data == (await running[2].result()).data == "released"
        assert (await (await start(ann, "double", number=4)).result()).data == {"doubled": 8}


async def test_clients_without_tokens_are_limited_by_their_address(monkeypatch):
    monkeypatch.setenv("FASTMCP_DOCKET_CONCURRENCY", "1")
    body = Body()
    async with over_http(kit_of(body.wait), tasks=True, tasks_per_client=2) as url, Client(url) as client:
        running, waiting = await start(client, "wait"), await start(client, "wait")
        async with Client(url) as other:
            assert (await other.call_tool("wait", raise_on_error=False)).is_error
        await waiting.cancel()  # it has never run
        body.released.set()
        assert (await (await start(client, "wait")).result()).data == "released"
        assert (await running.result()).data == "released"


async def test_bound_values_are_not_stored():
    def use(key: Annotated[str, Secret], user: str, text: str) -> str:
        """Use the bound values."""
        assert key == user == SECRET
        return f"{text} is read"

    kit = kit_of(use).bind("key").bind("user")
    server = kit.to_fastmcp_server(tasks=True, state=lambda request: {"key": SECRET, "user": SECRET})
    async with Client(server) as client:
        task = await start(client, "use", text="an argument")
        assert (await task.result()).data == "an argument is read"
        stored = await read_store(server)
    assert "an argument" in stored
    assert "an argument is read" in stored
    assert SECRET not in stored


async def read_store(server: Any) -> str:
    """Return all that the tasks of a server have stored; base64 is decoded, too."""
    stored = b""
    async with server._docket.redis() as redis:
        for key in await redis.keys("*"):
            for read in (redis.get, redis.hgetall, redis.xrange):
                with contextlib.suppress(ResponseError):  # the key is of another type
                    stored += key + repr(await read(key)).encode()
    encoded = re.findall(rb"[A-Za-z0-9+/]{24,}={0,2}", stored)
    return repr([stored, *(base64.b64decode(text[: len(text) // 4 * 4]) for text in encoded)])


async def test_middleware_wraps_the_call_of_a_task():
    names = []

    async def note(call: Call, next: Next) -> ToolResult:
        names.append(call.name)
        return await next(call)

    kit = Toolkit("long", middleware=[note]).add(double, task="optional")
    async with connect(kit) as client:
        await (await start(client, "double", number=1)).result()
    assert names == ["double"]


async def test_progress_is_the_status_message_of_a_task():
    reported, released = asyncio.Event(), asyncio.Event()

    async def count(context: ToolContext) -> int:
        """Count."""
        await context.report_progress(1, 3, "a" * 5000)
        await context.report_progress(2, 3)
        reported.set()
        await released.wait()
        return 3

    async with connect(kit_of(count)) as client:
        task = await start(client, "count")
        await asyncio.wait_for(reported.wait(), 5)
        while (message := (await task.status()).status_message) != "2/3":
            assert message is None or message == "a" * 1000
            await asyncio.sleep(0.01)
        released.set()
        assert (await task.result()).data == 3


async def test_cancelling_a_task_cancels_an_async_body():
    body = Body()
    async with connect(kit_of(body.wait)) as client:
        task = await start(client, "wait")
        await asyncio.wait_for(body.started.wait(), 5)
        await task.cancel()
        await asyncio.wait_for(body.cancelled.wait(), 5)
        assert (await task.wait()).status == "cancelled"


async def test_cancelling_a_task_tells_a_sync_body():
    started, cancelled = threading.Event(), threading.Event()

    def wait(context: ToolContext) -> None:
        """Wait."""
        started.set()
        while not context.cancelled:
            pass
        cancelled.set()

    async with connect(kit_of(wait)) as client:
        task = await start(client, "wait")
        assert await asyncio.to_thread(started.wait, 5)
        await task.cancel()
        assert await asyncio.to_thread(cancelled.wait, 5)


async def test_a_server_that_stops_ends_its_tasks():
    body = Body()
    async with connect(kit_of(body.wait)) as client:
        await start(client, "wait")
        await asyncio.wait_for(body.started.wait(), 5)
    assert body.cancelled.is_set()


async def test_a_tool_that_is_added_later_can_run_as_a_task():
    kit = Toolkit("later")
    async with connect(kit) as client:
        kit.add(double, task="optional")
        assert (await (await start(client, "double", number=2)).result()).data == {"doubled": 4}
        kit.remove("double")
        kit.add(double, rename="double")
        with pytest.raises(Exception, match="did not run as a task"):
            await start(client, "double", number=2)


async def test_a_tool_that_is_removed_before_its_task_starts_is_unknown(monkeypatch):
    monkeypatch.setenv("FASTMCP_DOCKET_CONCURRENCY", "1")
    body = Body()
    kit = kit_of(body.wait, double)
    async with connect(kit) as client:
        first = await start(client, "wait")
        await asyncio.wait_for(body.started.wait(), 5)
        second = await start(client, "double", number=1)
        kit.remove("double")
        kit.add(refuse, rename="double", task="optional")
        body.released.set()
        assert (await first.result()).data == "released"
        assert (await second.result()).content[0].text != "Not on Sundays."


async def test_a_task_whose_request_is_lost_does_not_run(monkeypatch):
    monkeypatch.setenv("FASTMCP_DOCKET_CONCURRENCY", "1")
    body, ran = Body(), []

    def run() -> None:
        """Run."""
        ran.append(1)

    kit = kit_of(body.wait, run)
    servers: list[Any] = []
    monkeypatch.setattr(TasksExtension, "settings", lambda self: servers.append(self.server) or {})
    async with over_http(kit, tasks=True, tasks_per_client=2) as url, Client(url) as client:
        await start(client, "wait")
        await asyncio.wait_for(body.started.wait(), 5)
        task = await start(client, "run")
        async with servers[0]._docket.redis() as redis:
            keys = [key for key in await redis.keys("*") if task.task_id.encode() in key and b"snapshot" in key]
            assert await redis.delete(*keys) == 1
        body.released.set()
        result = await task.result()
    assert result.is_error
    assert "request" in result.content[0].text
    assert not ran


async def answer_yes(message: str, response_type: Any, params: Any, context: Any) -> ElicitResult[Any]:
    """Approve."""
    return ElicitResult(action="accept", content={"approve": True, "name": "Ann"})


async def delete(name: str, context: ToolContext) -> str:
    """Delete a file."""
    await context.aask("Delete?", {"name": name})
    return f"{name} is deleted"


async def greet(context: Context) -> str | InputRequiredResult:
    """Greet the user."""
    answer: Any = (context.input_responses or {}).get("user")
    if answer is not None and answer.content:
        return f"Hello {answer.content['name']}"
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    form = ElicitRequestFormParams(message="Name?", requested_schema=schema)
    return InputRequiredResult(input_requests={"user": ElicitRequest(params=form)})


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [(delete, {"name": "a.txt"}, "a.txt is deleted"), (greet, {}, "Hello Ann")],
    ids=["ask", "InputRequiredResult"],
)
async def test_a_task_may_ask_the_user_of_its_client(tool, arguments, expected):
    async with connect(kit_of(tool), client={"elicitation_handler": answer_yes}) as client:
        task = await start(client, tool.__name__, **arguments)
        assert (await task.wait(state="input_required", timeout=5)).input_requests
        assert (await task.result()).data == expected


async def test_a_question_to_a_client_without_forms_is_an_error_result():
    async with connect(kit_of(delete)) as client:
        result = await (await start(client, "delete", name="a.txt")).result()
    assert result.is_error
    assert "approval" in result.content[0].text


async def test_a_mounted_server_has_no_tasks():
    outer = FastMCP("outer")
    outer.mount(kit_of(double).add(double, rename="only", task="required").to_fastmcp_server(tasks=True))
    async with Client(outer) as client:
        assert (await client.call_tool("double", {"number": 1})).data == {"doubled": 2}
        refused = await client.call_tool("only", {"number": 1}, raise_on_error=False)
    assert "only runs as a task" in refused.content[0].text


async def test_tools_that_the_host_adds_to_the_server_can_be_tasks():
    server = Toolkit("long").to_fastmcp_server(tasks=True)

    @server.tool(task=True)
    async def own(number: int) -> FastMCPResult:
        return FastMCPResult(structured_content={"n": number})

    async with Client(server) as client:
        assert (await (await start(client, "own", number=1)).result()).structured_content == {"n": 1}


def test_a_tool_that_requires_tasks_needs_a_server_with_tasks():
    with pytest.raises(ToolkitError, match="tasks=True"):
        kit_of(double, task="required").to_fastmcp_server()


@pytest.mark.parametrize("tasks", ["localhost:6379", "http://:pass-word@host", 1, "memory://x"], ids=str)
def test_another_value_of_tasks_is_an_error_that_shows_no_password(tasks):
    with pytest.raises(ToolSpecError, match="the URL of a Redis") as error:
        Toolkit("long").to_fastmcp_server(tasks=tasks)
    assert "pass-word" not in str(error.value)


def test_another_mode_of_a_tool_is_an_error():
    with pytest.raises(ToolkitError, match="'optional' or 'required', not 'sometimes'"):
        Toolkit("long").add(double, task="sometimes")  # type: ignore[call-overload]


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastmcp_tasks", None)
    monkeypatch.delitem(sys.modules, "ahvn_tools.mcp.server.tasks", raising=False)
    with pytest.raises(DefinitionError, match=r'pip install "ahvn-tools\[tasks\]"'):
        Toolkit("long").to_fastmcp_server(tasks=True)


def test_a_redis_that_does_not_answer_is_an_error_that_shows_no_password():
    server = Toolkit("long").to_fastmcp_server(tasks="redis://:pass-word@127.0.0.1:1/0")

    async def run() -> None:
        async with server._lifespan_manager():
            pass

    with pytest.raises(ToolSpecError, match=r"redis://127\.0\.0\.1:1 \(ConnectionError\)") as error:
        asyncio.run(run())
    assert "pass-word" not in repr(error.value)


async def test_another_toolkit_keeps_the_mode_of_a_tool():
    inner = kit_of(double)
    assert inner["double"].labels["task"] == "optional"
    async with connect(Toolkit("outer").add(inner)) as client:
        assert (await (await start(client, "double", number=2)).result()).data == {"doubled": 4}


pytest.importorskip("fastmcp_tasks", reason='tasks need pip install "ahvn-tools[tasks]"')


PASSWORD = "pass-word"


class Verifier(TokenVerifier):
    """Accepts tokens that consist of a client, an issuer, and a subject that is or is not a claim, too."""

    async def verify_token(self, token: str) -> AccessToken:
        client, issuer, subject, *claims = token.split(".")
        given = {"iss": issuer, **({"sub": subject} if claims else {})}
        return AccessToken(token=token, client_id=client, scopes=[], subject=subject or None, claims=given)


def echo(text: str) -> str:
    """Return the text."""
    return text


async def wait(seconds: float = 60) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "waited"


@pytest.mark.parametrize(
    ("owner", "other"),
    [
        ("app.issuer.ann", "app.issuer.bob"),
        ("app.issuer.ann", "app.other.ann"),
        ("app.issuer.ann.claim", "app.other.ann.claim"),
        ("app.issuer.ann.claim", "app|ann.issuer."),
    ],
    ids=["subject", "issuer", "issuer with claim", "ambiguous"],
)
@pytest.mark.default_cases(1)
async def test_another_user_of_a_client_cannot_ask_for_a_task_or_end_it(owner, other):
    async with (
        over_http(kit_of(wait), tasks=True, auth=Verifier()) as url,
        Client(url, auth=owner) as ann,
        Client(url, auth=other) as bob,
        Client(url, auth=owner) as ann_again,
    ):
        task = await call_tool_task(ann, "wait")
        stolen = ToolTask(bob, "wait", task.create_result)
        for attempt in (stolen.status, stolen.result, stolen.cancel):
            with pytest.raises(MCPError, match=f"Task {task.task_id} not found"):
                await attempt()
        assert (await task.status()).status == "working"
        again = ToolTask(ann_again, "wait", task.create_result)
        await again.cancel()
        assert (await again.wait()).status == "cancelled"


async def test_a_task_without_an_owner_is_unknown():
    server = kit_of(wait).to_fastmcp_server(tasks=True)
    async with Client(server) as client:
        task = await call_tool_task(client, "wait")
        async with server._docket.redis() as redis:
            assert await redis.delete(server._docket.key(f"owner:{task.task_id}")) == 1
        with pytest.raises(MCPError, match="not found"):
            await task.status()


async def test_two_servers_of_one_process_do_not_share_their_tasks():
    first, second = (kit_of(wait).to_fastmcp_server(tasks=True) for _ in range(2))
    async with Client(first) as client, Client(second) as other:
        task = await call_tool_task(client, "wait")
        with pytest.raises(MCPError, match="not found"):
            await ToolTask(other, "wait", task.create_result).status()


def test_the_text_of_an_exception_of_the_worker_is_not_shown():
    answer = GetTaskResult(
        task_id="a",
        status="failed",
        created_at="",
        last_updated_at="",
        ttl_ms=1,
        poll_interval_ms=1,
        error={"code": INTERNAL_ERROR, "message": PASSWORD},
        status_message=PASSWORD,
    )
    assert PASSWORD not in tasks._mask_error(answer).model_dump_json()


async def test_a_client_that_does_not_know_tasks_is_told_so_before_it_learns_whether_there_is_one(monkeypatch):
    server = kit_of(wait).to_fastmcp_server(tasks=True)
    client = Client(server)
    monkeypatch.setattr(TasksClientExtension, "identifier", "example/other")
    async with client, Client(server) as other:
        task = await call_tool_task(client, "wait")
        for task_id in (task.task_id, "unknown"):
            created = task.create_result.model_copy(update={"task_id": task_id})
            with pytest.raises(MCPError) as error:
                await ToolTask(other, "wait", created).status()
            assert error.value.code == MISSING_REQUIRED_CLIENT_CAPABILITY


async def test_a_store_that_is_full_refuses_calls_as_tasks_alone(monkeypatch):
    monkeypatch.setattr(tasks, "MAX_TASKS", 2)
    monkeypatch.setenv("FASTMCP_DOCKET_CONCURRENCY", "1")
    server = kit_of(wait, echo).to_fastmcp_server(tasks=True)
    async with Client(server) as client, Client(server, mode="legacy") as other:
        running = [await call_tool_task(client, "wait") for _ in range(2)]
        refused = await client.call_tool("echo", {"text": "a"}, raise_on_error=False)
        assert refused.is_error
        assert "Too many tasks wait" in refused.content[0].text
        assert (await other.call_tool("echo", {"text": "a"})).data == "a"
        for task in running:
            await task.cancel()
            await task.wait()
        assert (await client.call_tool("echo", {"text": "a"})).data == "a"


async def test_tasks_in_memory_end_with_the_server():
    server = kit_of(echo).to_fastmcp_server(tasks=True)
    for _ in range(2):
        async with Client(server) as client:
            assert (await (await call_tool_task(client, "echo", {"text": "a"})).result()).data == "a"
        store: Any = get_memory_server(server._tasks.url)
        assert await store.keys("*") == []


async def test_a_task_that_runs_is_kept_although_nobody_asks_for_it(monkeypatch):
    monkeypatch.setattr(tasks, "KEEP_SECONDS", 0.1)
    for module in (tasks, fastmcp_tasks.creation, fastmcp_tasks.handlers):
        monkeypatch.setattr(module, "TASK_MAPPING_TTL_BUFFER_SECONDS", 0)
    server = kit_of(wait).to_fastmcp_server(tasks=True)
    async with Client(server) as client:
        server._docket.execution_ttl = timedelta(seconds=1)
        task = await call_tool_task(client, "wait", {"seconds": 1.5})
        await asyncio.sleep(1.6)
        assert (await task.result()).data == "waited"


async def test_a_tool_that_changes_the_tools_as_a_task_leaves_the_notification_to_the_next_call():
    kit = Toolkit("changing")
    received: list[str] = []

    async def note(message: Any) -> None:
        received.append(getattr(message, "method", "") or getattr(getattr(message, "root", None), "method", ""))

    def extend() -> str:
        """Add a tool."""
        kit.add(echo)
        return "added"

    kit.add(extend, task="optional").add(wait)
    server = kit.to_fastmcp_server(tasks=True, session=lambda request: "one")
    async with Client(server, message_handler=note) as client:
        await client.list_tools()
        assert (await (await call_tool_task(client, "extend")).result()).data == "added"
        assert received == []
        await client.call_tool("wait", {"seconds": 0})
    assert received == ["notifications/tools/list_changed"]


async def test_an_answer_that_another_key_was_used_for_is_not_asked_for_again():
    asked = []

    async def answer(message: str, *_: Any) -> ElicitResult[Any]:
        asked.append(message)
        return ElicitResult(action="accept", content={"approve": True})

    async def delete(context: ToolContext) -> str:
        """Delete a file."""
        await context.aask("Delete?")
        return "deleted"

    kit = kit_of(delete)
    server = kit.to_fastmcp_server(tasks=True)
    async with Client(server, elicitation_handler=answer) as client:
        task = await call_tool_task(client, "delete", raise_on_error=False)
        await task.wait(state="input_required")
        kit._view.store.secret_key = SecretKey.create("k" * 40)  # another process has another one
        result = await task.result()
    assert result.is_error
    assert "the same `secret_key`" in result.content[0].text
    assert len(asked) == 1


@pytest.mark.parametrize(
    "url",
    [
        f"redis://:{PASSWORD}/x@host",
        f"redis://:{PASSWORD}?x@host",
        f"redis://:{PASSWORD}#x@host",
        f"redis://user:{PASSWORD}",
        f"rediss://:{PASSWORD}",
        f"redis://[{PASSWORD}",
        f"redis:{PASSWORD}",
    ],
)
def test_a_url_that_cannot_be_read_is_an_error_that_shows_no_password(url):
    with pytest.raises(ToolSpecError) as error:
        Toolkit("long").to_fastmcp_server(tasks=url)
    assert PASSWORD not in str(error.value)
    assert error.value.__cause__ is None


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:pass-word@host:6379/0?password=pass-word", "redis://host:6379"),
        ("redis+sentinel://user:pass-word@one:1,two:2/name", "redis+sentinel://one:1,two:2"),
        ("redis://:pass-word@[::1]:6379/0", "redis://[::1]:6379"),
        ("redis://host/0?password=pass-word@word", "redis://…"),
        ("redis://:pass-word/x@host", "redis://…"),
        ("redis+cluster://user:pass-word", "redis+cluster://…"),
        ("unix:///run/redis.sock?password=pass-word", "unix://…"),
    ],
)
def test_a_url_is_described_without_its_password(url, shown):
    assert tasks.describe_url(url) == shown


@pytest.mark.parametrize(
    "url",
    ["redis+cluster://:pass-word@127.0.0.1:1", "redis://127.0.0.1:1/0?socket_timeout=pass-word"],
    ids=["cluster", "option"],
)
async def test_a_redis_that_cannot_be_used_is_an_error_of_ours(url):
    server = Toolkit("long").to_fastmcp_server(tasks=url)
    with pytest.raises(ToolSpecError, match="cannot be kept at") as error:
        async with server._lifespan_manager():
            pass
    assert PASSWORD not in str(error.value)
