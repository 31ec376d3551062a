"""Retry: which calls are tried again, how often, and when not."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from ahvn_tools import ToolError, Toolkit, ToolSpec, ToolSpecError
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import ToolConnectionError
from ahvn_tools.middleware.retry import retry
from tests.execution.entry_points import program, until

QUICK = {"initial_delay": 0.001, "max_delay": 0.002}


class Flaky:
    """A body that raises these exceptions, one per call, and then succeeds."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors, self.count = list(errors), 0

    def run(self) -> str:
        """Try."""
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def kit_of(flaky: Flaky, hints=("readOnlyHint",), **options) -> Toolkit:
    kit = Toolkit("kit", middleware=[retry(**{**QUICK, **options})])
    kit.add(ToolSpec.from_function(flaky.run, name="run", annotations=dict.fromkeys(hints, True)))
    return kit


@pytest.mark.parametrize("hint", ["readOnlyHint", "idempotentHint"])
def test_a_tool_with_a_hint_is_retried_after_a_temporary_failure(hint):
    flaky = Flaky(ToolConnectionError("lost"), ConnectionResetError(), TimeoutError())
    result = kit_of(flaky, [hint], attempts=4).exec("run")
    assert result.value == "done"
    assert result.meta["attempts"] == flaky.count == 4


def test_a_tool_without_a_hint_is_not_retried():
    flaky = Flaky(ConnectionError("gone"))
    assert kit_of(flaky, ["openWorldHint"]).exec("run").is_error
    assert flaky.count == 1


@pytest.mark.parametrize("options", [{"all_tools": True}, {"tools": ["run"]}])
def test_tools_can_be_named_for_retries(options):
    flaky = Flaky(ConnectionError("gone"))
    assert kit_of(flaky, [], **options).exec("run").value == "done"


@pytest.mark.parametrize("error", [ToolError("no such page"), ValueError("bug")])
def test_a_permanent_failure_is_not_retried(error):
    flaky = Flaky(error)
    assert kit_of(flaky).exec("run").is_error
    assert flaky.count == 1


def test_codes_and_exceptions_can_be_chosen():
    flaky = Flaky(ToolError("busy"), KeyError("x"))
    assert kit_of(flaky, codes=["tool_error"]).exec("run").value == "done"
    flaky = Flaky(KeyError("x"))
    assert kit_of(flaky, exceptions=(LookupError,)).exec("run").value == "done"


def test_the_result_is_the_failure_of_the_last_attempt():
    last = ConnectionError("third")
    flaky = Flaky(ConnectionError("first"), ConnectionError("second"), last)
    with pytest.raises(ConnectionError) as caught:
        kit_of(flaky).call("run")
    assert caught.value is last
    flaky = Flaky(*[ConnectionError("gone")] * 3)
    result = kit_of(flaky).exec("run")
    assert result.error.code == "tool_error"
    assert result.meta["attempts"] == 3


def test_a_call_that_timed_out_is_retried():
    count = 0

    async def slow() -> str:
        nonlocal count
        count += 1
        await asyncio.sleep(60 if count == 1 else 0)
        return "done"

    kit = Toolkit("kit", middleware=[retry(**QUICK)])
    kit.add(ToolSpec.from_function(slow, annotations={"readOnlyHint": True}), timeout=0.5)
    assert kit.exec("slow").value == "done"


def test_an_exception_of_inner_middleware_is_retried_by_its_code():
    count = 0

    async def refuse(call, next):
        nonlocal count
        count += 1
        raise ToolConnectionError("down") if count < 3 else ToolError("no")

    kit = kit_of(Flaky(), attempts=5)
    kit.use(refuse)
    assert kit.exec("run").error.message == "no"
    assert count == 3


def test_a_failure_that_inner_middleware_replaced_is_retried_by_the_new_code():
    async def explain(call, next):
        return replace(await next(call), error=ErrorDetail(code="tool_error", message="It is Sunday."))

    flaky = Flaky(ConnectionError("gone"))
    kit = kit_of(flaky)
    kit.use(explain)
    assert kit.exec("run").text == "It is Sunday."
    assert flaky.count == 1


def test_the_delays_grow_and_end_after_max_elapsed():
    flaky = Flaky(*[ConnectionError("gone")] * 50)
    started = time.monotonic()
    kit_of(flaky, attempts=50, initial_delay=0.05, max_delay=30, max_elapsed=0.5).exec("run")
    assert time.monotonic() - started < 60  # and not half an hour
    assert 2 <= flaky.count <= 8


def stream_of(*, fail_at: int) -> tuple[Toolkit, list[int]]:
    runs: list[int] = []

    async def count() -> list[int]:
        runs.append(1)
        for number in range(3):
            if number == fail_at and len(runs) == 1:
                raise ConnectionError("gone")
            yield number

    kit = Toolkit("kit", middleware=[retry(**QUICK)])
    kit.add(ToolSpec.from_function(count, annotations={"readOnlyHint": True}))
    return kit, runs


def test_a_stream_is_retried_only_before_its_first_chunk():
    kit, runs = stream_of(fail_at=0)
    assert [result.value for result in kit.stream("count")] == [0, 1, 2, [0, 1, 2]]
    assert len(runs) == 2
    kit, runs = stream_of(fail_at=1)
    chunk, last = kit.stream("count")
    assert chunk.value == 0
    assert last.is_error
    assert len(runs) == 1
    kit, runs = stream_of(fail_at=1)
    assert kit.exec("count").value == [0, 1, 2]
    assert len(runs) == 2


async def test_a_call_cancelled_during_a_delay_is_not_retried():
    flaky = Flaky(*[ConnectionError("gone")] * 3)
    task = asyncio.create_task(kit_of(flaky, initial_delay=30, max_delay=60, max_elapsed=600).aexec("run"))
    assert await asyncio.to_thread(until, lambda: flaky.count == 1)
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert flaky.count == 1


async def test_a_call_cancelled_in_its_body_is_not_retried():
    runs = []

    async def wait() -> None:
        runs.append(1)
        await asyncio.sleep(60)

    kit = Toolkit("kit", middleware=[retry(**QUICK)])
    kit.add(ToolSpec.from_function(wait, annotations={"readOnlyHint": True}))
    task = asyncio.create_task(kit.aexec("wait"))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert runs == [1]


def test_fewer_than_one_attempt_is_refused():
    with pytest.raises(ToolSpecError):
        retry(0)


def test_without_tenacity_the_import_error_names_the_extra():
    code = "import sys; sys.modules['tenacity'] = None; import ahvn_tools.middleware.retry"
    assert 'pip install "ahvn-tools[retry]"' in program(code)[2]
