"""The store of tasks: who may ask for a task, how many there are, how long they are kept, and where."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("fastmcp_tasks", reason='tasks need pip install "ahvn-tools[tasks]"')

import fastmcp_tasks.creation
import fastmcp_tasks.handlers
from docket._redis_memory import get_memory_server
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.server.auth import AccessToken, TokenVerifier
from fastmcp_tasks import ToolTask, call_tool_task
from fastmcp_tasks.client import TasksClientExtension
from fastmcp_tasks.models import GetTaskResult
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, MISSING_REQUIRED_CLIENT_CAPABILITY

from ahvn_tools import ToolContext, Toolkit
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.mcp.server import task_store, tasks
from ahvn_tools.secret_key import SecretKey
from tests.mcp.serving import over_http

PASSWORD = "pass-word"


class Verifier(TokenVerifier):
    """Accepts tokens that consist of a client, an issuer, and a subject that is or is not a claim, too."""

    async def verify_token(self, token: str) -> AccessToken:
        client, issuer, subject, *claims = token.split(".")
        given = {"iss": issuer, **({"sub": subject} if claims else {})}
        return AccessToken(token=token, client_id=client, scopes=[], subject=subject or None, claims=given)


def kit_of(*tools: Any, **options: Any) -> Toolkit:
    return Toolkit("long").add(*tools, **{"task": "optional", **options})


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
    for module in (task_store, fastmcp_tasks.creation, fastmcp_tasks.handlers):
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
    assert task_store.describe_url(url) == shown


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
