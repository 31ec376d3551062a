"""Programs that end early: the interpreter, the sandbox, an event loop or the caller ends before the program does."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from typing import Any

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.code_mode import CodeLimits, MontySandbox
from ahvn_tools.code_mode.monty import worker
from ahvn_tools.execution import threads
from tests.code_mode.monty.conftest import workers
from tests.execution.entry_points import auntil, program, until

pytestmark = pytest.mark.exhaustive

CLOSED = "its sandbox was closed"

SCRIPT = """
import asyncio, os, signal, sys, threading, time
from ahvn_tools import Toolkit
from ahvn_tools.code_mode import MontySandbox

kit = Toolkit("k")
started = threading.Event()

@kit.tool
async def wait() -> None:
    "Wait."
    started.set()
    await asyncio.sleep(600)

@kit.tool
def ok() -> str:
    "Be fine."
    started.set()
    return "ok"

kit.add_code_mode()
LOOP = {"code": "ok()\\nwhile True:\\n    pass"}
WAIT = {"code": "await wait()"}
MANY = {"code": "import asyncio\\nawait asyncio.gather(wait(), wait(), ok())"}
kit.call("run_code", {"code": "ok()"})
started.clear()
"""

ENDS = {
    "idle": "pass",
    "threads that compute": """
for _ in range(3):
    threading.Thread(target=kit.exec, args=("run_code", LOOP), daemon=True).start()
started.wait(20)
""",
    "threads that wait": """
for arguments in (WAIT, MANY):
    threading.Thread(target=kit.exec, args=("run_code", arguments), daemon=True).start()
started.wait(20)
""",
    "tasks": """
async def main():
    tasks = [asyncio.create_task(kit.aexec("run_code", arguments)) for arguments in (WAIT, LOOP, MANY)]
    while not started.is_set():
        await asyncio.sleep(0.01)

asyncio.run(main())
""",
    "many loops": """
async def one():
    return await kit.acall("run_code", {"code": "await ok()"})

for _ in range(20):
    assert asyncio.run(one()) == "ok"
""",
    "ctrl-c": """
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    kit.call("run_code", LOOP)
except KeyboardInterrupt:
    pass
else:
    raise SystemExit("not interrupted")
assert kit.call("run_code", {"code": "ok()"}) == "ok"
""",
}


@pytest.mark.parametrize(
    ("name", "repetitions"),
    [
        *[pytest.param(name, 1, id=name) for name in ("threads that compute", "tasks", "ctrl-c")],
        *[pytest.param(name, 4, id=f"{name}, 4 times", marks=pytest.mark.exhaustive) for name in ENDS],
    ],
)
def test_the_interpreter_ends_at_once_and_silently(name: str, repetitions: int) -> None:
    for _ in range(repetitions):
        before = {worker.pid for worker in workers()}
        code, _, errors = program(SCRIPT + ENDS[name])
        assert (code, errors) == (0, "")
        assert {worker.pid for worker in workers()} <= before


class Host:
    """A toolkit with calls that wait."""

    def __init__(self, sandbox: MontySandbox, **limits: Any) -> None:
        self.started, self.cancelled = threading.Event(), threading.Event()
        self.waiting = 0
        self.kit = Toolkit("k")
        self.kit.add(self.wait, self.begin).add_code_mode(sandbox=sandbox, limits=CodeLimits(**limits))

    async def wait(self) -> None:
        """Wait until this is cancelled."""
        self.waiting += 1
        self.started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    def begin(self) -> None:
        """Say that the program runs."""
        self.started.set()

    def run(self, code: str, **options: Any) -> Any:
        return self.kit.exec("run_code", {"code": code}, **options)


LOOP = "begin()\nwhile True:\n    pass"


def test_closing_a_sandbox_ends_the_programs_in_it(sandbox: MontySandbox) -> None:
    host = Host(sandbox, seconds=1000)

    def close() -> None:
        host.started.wait(30)
        sandbox.close()
        sandbox.close()

    thread = threading.Thread(target=close)
    thread.start()
    result = host.run(LOOP)
    thread.join()
    assert CLOSED in result.text
    assert until(lambda: workers() == [])
    assert host.run("1 + 1").value == 2


@pytest.mark.parametrize("code", [LOOP, "await wait()"], ids=["computes", "waits"])
@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_a_cancelled_program_leaves_nothing(sandbox: MontySandbox, code: str, times: int) -> None:
    host = Host(sandbox, seconds=1000)

    async def main() -> None:
        task = asyncio.create_task(host.kit.aexec("run_code", {"code": code}))
        await auntil(host.started.is_set)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await host.kit.aexec("run_code", {"code": "2"})).value == 2
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert host.cancelled.is_set() or "wait" not in code
    assert until(lambda: threads.count_abandoned_threads() == 0)


def test_a_program_can_be_cancelled_in_every_state(sandbox: MontySandbox) -> None:
    host = Host(sandbox)
    code = "import asyncio\nawait asyncio.gather(begin(), begin())\nfor i in range(3):\n    await begin()\n'end'"

    async def main() -> None:
        for delay in range(60):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay / 10_000):
                    await host.kit.aexec("run_code", {"code": code})
        results = await asyncio.gather(*[host.kit.aexec("run_code", {"code": code}) for _ in range(8)])
        assert [result.value for result in results] == ["end"] * 8
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert until(lambda: threads.count_abandoned_threads() == 0)
    assert len(workers()) <= 4 + 4  # of programs and of checks


def test_an_event_loop_that_is_closed_in_the_middle_leaves_no_process(sandbox: MontySandbox) -> None:
    host = Host(sandbox)
    for _ in range(6):  # more than the sandbox runs at once
        host.started.clear()
        loop = asyncio.new_event_loop()
        task = loop.create_task(host.kit.aexec("run_code", {"code": "await wait()"}))
        loop.run_until_complete(auntil(host.started.is_set))
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.close()
        del task, loop
        gc.collect()
    assert host.run("3").value == 3


def test_a_waiting_program_keeps_its_process_and_others_wait_for_a_limited_time(
    sandbox: MontySandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(sandbox)

    async def main() -> None:
        tasks = [asyncio.create_task(host.kit.aexec("run_code", {"code": "await wait()"})) for _ in range(4)]
        assert await auntil(lambda: host.waiting == 4)
        monkeypatch.setattr(worker, "_SLOT_SECONDS", 0.1)
        busy = await host.kit.aexec("run_code", {"code": "1"})
        assert "4 programs run already" in busy.text
        monkeypatch.undo()
        waiting = asyncio.create_task(host.kit.aexec("run_code", {"code": "1"}))
        cancelled = asyncio.create_task(host.kit.aexec("run_code", {"code": "1"}))
        await asyncio.sleep(0.05)
        cancelled.cancel()
        tasks[0].cancel()
        assert (await waiting).value == 1
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, cancelled, return_exceptions=True)

    asyncio.run(main())


def test_a_burst_of_programs_leaves_few_processes() -> None:
    sandbox = MontySandbox(max_processes=20)
    host = Host(sandbox)

    async def main() -> None:
        tasks = [asyncio.create_task(host.kit.aexec("run_code", {"code": "await wait()"})) for _ in range(20)]
        assert await auntil(lambda: len(workers()) >= 20)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        code = "for i in range(20):\n    await begin()"
        await asyncio.gather(*[host.kit.aexec("run_code", {"code": code}) for _ in range(20)])

    asyncio.run(main())
    assert until(lambda: len(workers()) <= 8 + 4)  # of programs and of checks
    sandbox.close()
