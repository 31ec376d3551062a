"""Programs in processes that are spawned or forked, in executors, beside isolated tools, and in sessions."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import pickle
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.after_fork import CAN_FORK
from ahvn_tools.code_mode import MontySandbox
from ahvn_tools.errors import PickleError
from tests.code_mode.monty.conftest import workers
from tests.execution.entry_points import end_servers_of_processes, program

pytestmark = pytest.mark.exhaustive

FORK = """
import os
from ahvn_tools import Toolkit

kit = Toolkit("k")

@kit.tool
def ok() -> str:
    "Be fine."
    return "ok"

kit.add_code_mode()
assert kit.call("run_code", {"code": "ok()"}) == "ok"
if os.fork() == 0:
    raise SystemExit(7 if kit.call("run_code", {"code": "ok()"}) == "ok" else 1)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
assert kit.call("run_code", {"code": "ok()"}) == "ok"
"""


def double(n: int) -> int:
    """Double a number."""
    return 2 * n


@pytest.fixture(scope="module", autouse=True)
def no_server_of_processes_is_left() -> Iterator[None]:
    yield
    gc.collect()  # of pools, whose semaphores the servers know
    end_servers_of_processes()


def run_in_child(code: str) -> Any:
    """Run a program in a process of its own."""
    with MontySandbox(max_processes=1) as sandbox:
        return Toolkit("k").add(double).add_code_mode(sandbox=sandbox).call("run_code", {"code": code})


@pytest.mark.skipif(not CAN_FORK, reason="this platform does not fork")
def test_a_forked_process_runs_programs_and_keeps_none_of_its_parent() -> None:
    code, _, errors = program(FORK)
    assert (code, errors) == (0, "")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_spawned_process_runs_programs(method: str) -> None:
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply(run_in_child, ("double(21)",)) == 42


def test_an_isolated_tool_can_be_called(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add_code_mode(sandbox=sandbox)
    kit.add(double, isolation="process")
    code = "import asyncio\nawait asyncio.gather(double(1), double(2))"
    assert kit.call("run_code", {"code": code}) == [2, 4]


def test_a_program_does_not_run_in_an_executor(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add(double).add_code_mode(sandbox=sandbox)
    with ThreadPoolExecutor(1) as executor:
        [result] = kit.map(executor, [("run_code", {"code": "double(1)"})])
    assert result.is_error
    with pytest.raises(PickleError, match="cannot be copied or pickled"):
        pickle.dumps(kit)


def test_sessions_share_the_sandbox(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add(double).add_code_mode(sandbox=sandbox)
    programs = [kit.session().call("run_code", {"code": "double(2)"}) for _ in range(10)]
    assert programs == [4] * 10
    assert len(workers()) == 2  # one for programs, one for checks


def test_a_closed_loop_does_not_hold_a_slot() -> None:
    with MontySandbox(max_processes=1) as sandbox:
        kit = Toolkit("k")

        @kit.tool
        async def wait() -> None:
            """Wait."""
            await asyncio.sleep(60)

        kit.add_code_mode(sandbox=sandbox)
        for _ in range(3):
            with pytest.raises(TimeoutError):
                asyncio.run(asyncio.wait_for(kit.acall("run_code", {"code": "await wait()"}), 0.1))
        assert kit.call("run_code", {"code": "1"}) == 1


def test_the_event_loop_is_never_blocked_by_a_program(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add(double).add_code_mode(sandbox=sandbox)
    turns = 0

    async def main() -> None:
        nonlocal turns
        task = asyncio.create_task(kit.acall("run_code", {"code": "n = 0\nwhile n < 3_000_000:\n    n += 1\nn"}))
        start = time.monotonic()
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        assert await task == 3_000_000
        assert turns > 100 * (time.monotonic() - start)

    asyncio.run(main())
