"""Postprocess: a host's function over the chunks and results of a tool."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from ahvn_tools import Toolkit
from tests.execution.entry_points import WAIT, combinations


def kit_of(function: Any, body: Any = lambda: 1) -> Toolkit:
    return Toolkit("kit").add(body, rename="one", postprocess=function)


async def one_later() -> int:
    return 1


@combinations(body={"sync": lambda: 1, "async": one_later}, entry_point=["acall", "astream"])
async def test_a_sync_function_does_not_stop_the_event_loop(body: Any, entry_point: str) -> None:
    started, released = asyncio.Event(), threading.Event()
    loop, was_released = asyncio.get_running_loop(), []

    def wait(_call: Any, result: Any) -> Any:
        loop.call_soon_threadsafe(started.set)
        was_released.append(released.wait(WAIT))
        return replace(result, value=2)

    kit = kit_of(wait, body)

    async def value() -> Any:
        return await kit.acall("one") if entry_point == "acall" else [r async for r in kit.astream("one")][-1].value

    call = asyncio.create_task(value())
    await asyncio.wait_for(started.wait(), WAIT)
    released.set()
    assert (await call, was_released) == (2, [True])


def test_in_sync_code_a_sync_function_runs_in_the_thread_of_its_caller() -> None:
    threads: list[threading.Thread] = []
    kit = kit_of(lambda _call, _result: threads.append(threading.current_thread()))
    assert (kit.call("one"), list(kit.stream("one"))[-1].value) == (1, 1)
    assert set(threads) == {threading.current_thread()}


async def test_in_a_sync_call_inside_of_a_running_loop_it_does_so_too() -> None:
    threads: list[threading.Thread] = []
    assert kit_of(lambda _call, _result: threads.append(threading.current_thread())).call("one") == 1
    assert threads == [threading.current_thread()]


@combinations(error={"exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "error": ValueError("hunter2")})
async def test_served_what_it_raises_is_an_error_result(error: BaseException) -> None:
    def fail(_call: Any, _result: Any) -> None:
        raise error

    kit = kit_of(fail)
    result = await kit["one"].to_fastmcp().run({})
    assert result.is_error
    assert "hunter2" not in result.content[0].text


async def test_in_a_local_call_system_exit_is_raised() -> None:
    def leave(_call: Any, _result: Any) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await kit_of(leave).aexec("one")
