"""Connections: reused, bounded, closed with their loop or when they are unused, safe in threads, forks and pickles."""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
import subprocess
import sys
import threading

import pytest

from ahvn_tools import ToolSpec
from ahvn_tools.execution.workers.worker_process import process_pool
from ahvn_tools.sources.http import connections
from tests.execution.entry_points import auntil, until
from tests.sources.http.service import Service, respond


def make(service: Service, path: str = "/x", **options) -> ToolSpec:
    return ToolSpec.from_http("fetch", f"{service.url}{path}", **{"allow_private": True, "retry_count": 0, **options})


async def test_a_connection_is_used_again_by_all_tools_of_a_server(service, monkeypatch):
    monkeypatch.setattr(connections, "KEEPALIVE_SECONDS", 60)
    for path in ("/x", "/y", "/x"):
        await make(service, path).acall()
    assert service.connections == 1


def test_an_unused_connection_is_closed(service):
    make(service).call()
    assert until(lambda: service.open_connections == 0)
    make(service).call()
    assert service.connections == 2


def test_the_connections_of_a_loop_are_closed_with_it(service):
    async def call() -> None:
        await make(service).acall()
        assert service.open_connections == 1

    for _ in range(2):
        asyncio.run(call())
        assert until(lambda: service.open_connections == 0)
    assert not [loop for loop in connections._of_loops if loop.is_closed()]


async def test_many_calls_at_once_use_a_bounded_number_of_connections(service, monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 10)
    spec = make(service)
    results = await asyncio.gather(*(spec.aexec() for _ in range(200)))
    assert all(result.value == {"ok": True} for result in results)
    assert service.connections <= 10


def test_threads_may_call_at_the_same_time(service):
    spec, results = make(service), []
    threads = [threading.Thread(target=lambda: results.append(spec.call())) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [{"ok": True}] * 10


async def test_a_cancelled_call_closes_its_request(service):
    begun = threading.Event()

    def answer(_request) -> bytes:
        begun.set()
        service.release.wait(60)
        return respond("1")(_request)

    service.reply("/x", answer)
    task = asyncio.create_task(make(service).acall())
    assert await auntil(begun.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    service.release.set()
    assert await auntil(service.closed.is_set)
    service.reply("/x", respond("2"))
    assert await make(service).acall() == 2


async def test_a_call_that_is_cancelled_in_the_body_of_a_response_closes_its_connection(service):
    def answer(request) -> bytes:
        request.connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
        service.release.wait(60)
        return b""

    service.reply("/x", answer)
    assert (await make(service, timeout=0.2).aexec()).error.code == "timeout"
    service.release.set()
    assert await auntil(lambda: service.open_connections == 0)


def _call_in_child(spec: ToolSpec, answers) -> None:
    answers.put(spec.exec().value)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_makes_its_own_connections(service):
    spec = make(service)
    spec.call()
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=_call_in_child, args=(spec, answers))
    child.start()
    child.join(60)
    assert answers.get() == {"ok": True}
    assert spec.call() == {"ok": True}
    answers.close()
    child.close()


def test_a_pickled_tool_calls_the_same_service(service):
    spec = pickle.loads(pickle.dumps(make(service, query=["q"])))
    assert spec.call(q="a") == {"ok": True}
    assert service.last.target == "/x?q=a"


@pytest.mark.exhaustive
def test_a_tool_may_run_in_a_worker_process(service):
    try:
        assert make(service, isolation="process").call() == {"ok": True}
    finally:
        process_pool.end_idle()


@pytest.mark.exhaustive
def test_a_process_that_ends_after_a_call_warns_of_nothing(service):
    code = f"""
        from ahvn_tools import ToolSpec
        import asyncio
        spec = ToolSpec.from_http("fetch", "{service.url}/x", allow_private=True)
        print(spec.call(), asyncio.run(spec.acall()))
    """
    script = "\n".join(line.strip() for line in code.splitlines())
    command = [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "{'ok': True} {'ok': True}\n"
    assert "Warning" not in done.stderr


def test_a_tool_is_made_without_importing_what_sends_it():
    code = """
        import sys
        from ahvn_tools import ToolSpec
        ToolSpec.from_http("fetch", "https://x.example/{id}").definition
        names = "httpx2", "httpcore2", "authlib", "tenacity", "asyncio", "mcp"
        print([name for name in names if name in sys.modules])
    """
    script = "\n".join(line.strip() for line in code.splitlines())
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "[]\n"
