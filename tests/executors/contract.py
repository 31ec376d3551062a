"""What the tests of all executors share: a call in their workers is as a call here, and ends when it should."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Executor
from pathlib import Path
from typing import Annotated, Any

import pytest

from ahvn_tools import ApprovalRequest, Secret, Toolkit, ToolSpec, WorkerResolver
from ahvn_tools.errors import PickleError
from tests.execution.entry_points import auntil, until
from tests.execution.workers.bodies import is_gone, read_pids
from tests.executors import worker_bodies as bodies


def in_executor(executor: Executor, *functions: Any, approver: Any = None, **options: Any) -> Toolkit:
    """Return a toolkit whose tools run in an executor."""
    kit = Toolkit("remote", executor=executor, approver=approver)
    for function in functions:
        kit.add(function, isolation="executor", **options)
    return kit


def are_gone(pids: list[int]) -> bool:
    return until(lambda: all(map(is_gone, pids)))


def open_ledger() -> dict[str, int]:
    """Open a connection, so to say, in the worker."""
    return {"pid": bodies.get_pid()}


def read_ledger(entry: str, ledger: dict[str, int]) -> int:
    return ledger[entry]


def use_key(text: str, api_key: Annotated[str, Secret] = "") -> str:
    return f"{text} {len(api_key)}"


class ExecutorContract:
    """Tests with a fixture `executor`."""

    lost_text = "exit code 3"
    """What the error says when a process has exited with this code."""

    @pytest.mark.parametrize(
        ("body", "arguments", "value"),
        [
            pytest.param(bodies.add, {"a": 1, "b": 2}, 3, id="function"),
            pytest.param(bodies.add_later, {"a": 1, "b": 2}, 3, id="coroutine function"),
            pytest.param(bodies.count, {"to": 3}, [0, 1, 2], id="generator"),
            pytest.param(bodies.count_later, {"to": 3}, [0, 1, 2], id="async generator"),
            pytest.param(lambda a: a + 1, {"a": 1}, 2, id="lambda"),
        ],
    )
    def test_a_call_has_the_result_of_a_local_call(
        self, executor: Executor, body: Any, arguments: dict[str, int], value: Any
    ) -> None:
        spec = ToolSpec.from_function(body, name="body")
        result = spec.submit(executor, **arguments).result(bodies.WAIT)
        assert (result.value, result.error) == (value, None)
        local = spec.exec(**arguments)
        assert (result.text, result.structured_content) == (local.text, local.structured_content)

    def test_the_body_runs_in_another_process(self, executor: Executor) -> None:
        found = ToolSpec.from_function(bodies.get_pid).submit(executor).result(bodies.WAIT).value
        assert found != bodies.get_pid()

    def test_functions_run_too(self, executor: Executor) -> None:
        assert executor.submit(bodies.add, 1, b=2).result(bodies.WAIT) == 3
        assert list(executor.map(bodies.add, [1, 2, 3], [4, 5, 6], timeout=bodies.WAIT)) == [5, 7, 9]
        with pytest.raises(bodies.OddError, match="no") as raised:
            executor.submit(bodies.fail, "no").result(bodies.WAIT)
        assert raised.value.number == 7

    def test_chunks_come_while_the_body_runs(self, executor: Executor, tmp_path: Path) -> None:
        gate = tmp_path / "gate"
        kit = in_executor(executor, bodies.yield_and_wait)
        stream = kit.stream("yield_and_wait", {"gate": str(gate)})
        assert next(stream).value == "before"
        assert not gate.exists()
        gate.touch()
        assert [result.value for result in stream] == ["after", ["before", "after"]]

    def test_output_comes_while_the_body_runs(self, executor: Executor, tmp_path: Path) -> None:
        gate = tmp_path / "gate"
        kit = in_executor(executor, bodies.output_and_wait)
        stream = kit.stream("output_and_wait", {"gate": str(gate)})
        assert next(stream).value == "before"
        gate.touch()
        assert [result.value for result in stream] == ["after"]

    def test_output_and_progress_come_in_order_and_before_the_result(self, executor: Executor) -> None:
        kit = in_executor(executor, bodies.talk)
        *sent, last = kit.stream("talk", {"lines": 20})
        expected = [text for line in range(20) for text in (f"line {line}", f"progress {line}")]
        assert [result.value for result in sent] == expected
        assert sent[0].meta["output"] is True
        assert sent[3].meta["progress"] == {"progress": 1, "total": 20}
        assert last.value == "line 20"

    def test_leaving_a_stream_ends_its_body(self, executor: Executor, tmp_path: Path) -> None:
        kit = in_executor(executor, bodies.yield_and_hang)
        stream = kit.stream("yield_and_hang", {"path": str(tmp_path / "pids")})
        assert next(stream).value == 1
        stream.close()
        path = tmp_path / "pids"
        assert not path.exists() or are_gone(read_pids(path))

    @pytest.mark.parametrize("answer", [True, "not today"])
    def test_a_body_can_ask(self, executor: Executor, answer: Any) -> None:
        asked: list[Any] = []

        async def approver(request: ApprovalRequest) -> Any:
            asked.append(request)
            return answer

        kit = in_executor(executor, bodies.deploy, approver=approver)
        result = kit.exec("deploy", {"target": "moon"})
        assert len(asked) == 1
        if answer is True:
            assert result.value == "deployed to moon"
        else:
            assert result.error is not None
            assert result.error.code == "rejected"

    def test_an_exception_comes_back_unchanged(self, executor: Executor) -> None:
        local = Toolkit("local").add(bodies.fail).exec("fail", {"text": "too odd"})
        with pytest.raises(bodies.OddError, match="too odd") as raised:
            in_executor(executor, bodies.fail).call("fail", {"text": "too odd"})
        assert raised.value.number == 7
        result = in_executor(executor, bodies.fail).exec("fail", {"text": "too odd"})
        assert (result.text, result.error) == (local.text, local.error)

    def test_a_timeout_ends_the_body_and_all_it_started(self, executor: Executor, tmp_path: Path) -> None:
        path = tmp_path / "pids"
        kit = in_executor(executor, bodies.hang, timeout=3.0)
        result = kit.exec("hang", {"path": str(path)})
        assert result.error is not None
        assert result.error.code == "timeout"
        assert are_gone(read_pids(path, 3))

    @pytest.mark.parametrize("body", [bodies.hang, bodies.hang_with_context], ids=["alone", "connected"])
    async def test_a_cancelled_call_ends_the_body_and_all_it_started(
        self, executor: Executor, tmp_path: Path, body: Any
    ) -> None:
        path = tmp_path / "pids"
        kit = in_executor(executor, body)
        call = asyncio.create_task(kit.aexec(body.__name__, {"path": str(path)}))
        assert await auntil(lambda: path.exists() and len(path.read_text().split()) == 3)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await auntil(lambda: all(map(is_gone, read_pids(path, 3))))

    def test_cancelling_a_submitted_call_ends_its_body(self, executor: Executor, tmp_path: Path) -> None:
        path = tmp_path / "pids"
        future = ToolSpec.from_function(bodies.hang).submit(executor, path=str(path))
        pids = read_pids(path, 3)
        assert future.cancel()
        assert are_gone(pids)

    def test_the_end_of_a_process_is_a_connection_error(self, executor: Executor, tmp_path: Path) -> None:
        path = tmp_path / "pids"
        result = in_executor(executor, bodies.die_once).exec("die_once", {"path": str(path)})
        assert result.error is not None
        assert (result.error.code, len(path.read_text().splitlines())) == ("connection", 1)
        assert self.lost_text in result.error.message

    @pytest.mark.parametrize("hint", ["readOnlyHint", "idempotentHint"])
    def test_a_body_that_may_be_repeated_runs_again(self, executor: Executor, tmp_path: Path, hint: str) -> None:
        kit = in_executor(executor, ToolSpec.from_function(bodies.die_once, annotations={hint: True}))
        assert kit.call("die_once", {"path": str(tmp_path / "pids")}) == 2

    def test_a_body_gets_only_the_shipped_keys_of_the_state(self, executor: Executor) -> None:
        kit = in_executor(executor, bodies.read_state, ship=["user.name"])
        session = kit.session(user={"name": "Ann", "age": 30}, token="t0ps3cret")
        assert session.call("read_state") == {"user": {"name": "Ann"}}
        assert session.session(user={"name": "Bob"}).call("read_state") == {"user": {"name": "Bob"}}

    def test_secrets_stay_unless_they_are_allowed(self, executor: Executor) -> None:
        spec = ToolSpec.from_function(use_key).bind("api_key", default="12345", secret=True)
        with pytest.raises(PickleError, match="'api_key' of 'use_key' is secret"):
            in_executor(executor, spec).call("use_key", {"text": "length"})
        assert in_executor(executor, spec, ship_secrets=True).call("use_key", {"text": "length"}) == "length 5"

    def test_a_worker_resolver_is_called_in_the_worker(self, executor: Executor) -> None:
        spec = ToolSpec.from_function(read_ledger).bind("ledger", resolver=WorkerResolver(open_ledger))
        assert in_executor(executor, spec).call("read_ledger", {"entry": "pid"}) != bodies.get_pid()

    def test_a_toolkit_maps_and_runs_calls(self, executor: Executor) -> None:
        kit = in_executor(executor, bodies.add)
        calls = [("add", {"a": number, "b": 1}) for number in range(12)]
        assert [result.value for result in kit.map(executor, calls)] == list(range(1, 13))
        answer = {
            "tool_calls": [
                {"id": f"c{number}", "function": {"name": "add", "arguments": f'{{"a": {number}, "b": 0}}'}}
                for number in range(3)
            ]
        }
        assert [result.value for _, result in kit.run(answer).results] == [0, 1, 2]

    def test_a_result_beyond_the_limit_is_refused(self, executor: Executor) -> None:
        kit = in_executor(executor, bodies.return_bytes)
        result = kit.exec("return_bytes", {"size": 2**30})
        assert result.error is not None
        assert result.error.code == "limit_exceeded"

    def test_an_error_is_no_result_beyond_the_limit(self, executor: Executor) -> None:
        kit = in_executor(executor, bodies.fail, max_bytes=100)
        with pytest.raises(bodies.OddError, match="too odd"):
            kit.call("fail", {"text": "too odd"})

    def test_a_large_argument_and_result_travel(self, executor: Executor) -> None:
        text = "x" * 20_000_000
        kit = in_executor(executor, lambda text: text, max_bytes=50_000_000, name="echo")
        assert kit.call("echo", {"text": text}) == text

    def test_a_worker_imports_no_mcp(self, executor: Executor) -> None:
        assert in_executor(executor, bodies.list_modules).call("list_modules") == []

    def test_calls_run_from_many_threads(self, executor: Executor) -> None:
        kit = in_executor(executor, bodies.talk)
        found: list[Any] = []
        threads = [
            threading.Thread(target=lambda: found.append([r.value for r in kit.stream("talk", {"lines": 3})][-1]))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(bodies.WAIT)
        assert found == ["line 3"] * 8
