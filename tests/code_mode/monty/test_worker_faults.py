"""Worker processes that are killed or stopped: the program fails clearly, no call is repeated, the next one works."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections import Counter
from typing import Any

import psutil
import pytest

from ahvn_tools import Toolkit
from ahvn_tools.code_mode import CodeLimits, MontySandbox
from ahvn_tools.code_mode.monty import sandbox as sandbox_module
from tests.code_mode.monty.conftest import send_signal, workers
from tests.execution.entry_points import until

pytestmark = pytest.mark.exhaustive

ENDED = "its worker process ended"


class Host:
    """A toolkit whose tools send signals to the worker processes."""

    def __init__(self, sandbox: MontySandbox, **limits: Any) -> None:
        self.calls: Counter[str] = Counter()
        self.started, self.cancelled = threading.Event(), threading.Event()
        self.kit = Toolkit("k", secret_key=b"k" * 16)
        self.kit.add(self.kill, self.begin, self.wait, self.echo)
        self.kit.add(self.publish, requires_approval=self.needs_approval)
        self.kit.add_code_mode(sandbox=sandbox, limits=CodeLimits(**limits))

    def needs_approval(self, arguments: dict[str, Any]) -> bool:
        """Kill the program that has to be stored."""
        self.calls["needs_approval"] += 1
        send_signal()
        return True

    def kill(self) -> str:
        """Kill the workers."""
        self.calls["kill"] += 1
        assert send_signal()
        return "killed"

    def begin(self) -> None:
        """Say that the program runs."""
        self.calls["begin"] += 1
        self.started.set()

    async def wait(self) -> None:
        """Wait until this is cancelled."""
        self.calls["wait"] += 1
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    def echo(self, text: str) -> str:
        """Return the text."""
        self.calls[text] += 1
        return text

    def publish(self) -> str:
        """Publish."""
        self.calls["publish"] += 1
        return "published"

    def run(self, code: str, **options: Any) -> Any:
        return self.kit.exec("run_code", {"code": code}, **options)


@pytest.mark.parametrize(
    "code",
    ["await kill()", "kill()", "await kill()\nawait echo('after')", "import asyncio\nawait asyncio.gather(kill())"],
    ids=["awaited", "plain", "a call after it", "gathered"],
)
def test_a_program_whose_process_is_killed_while_it_waits_fails_and_the_next_one_works(
    sandbox: MontySandbox, code: str
) -> None:
    host = Host(sandbox)
    result = host.run(code)
    assert ENDED in result.text
    assert result.error.code == "tool_error"
    assert host.calls == {"kill": 1}
    assert host.run("await echo('next')").value == "next"


def test_a_program_whose_process_is_killed_while_it_computes_fails(sandbox: MontySandbox) -> None:
    host = Host(sandbox)

    def kill() -> None:
        host.started.wait(30)
        send_signal()

    thread = threading.Thread(target=kill)
    thread.start()
    result = host.run("begin()\nwhile True:\n    pass")
    thread.join()
    assert ENDED in result.text
    assert host.calls == {"begin": 1}


def test_calls_that_run_when_the_process_is_killed_are_cancelled(sandbox: MontySandbox) -> None:
    host = Host(sandbox)
    assert ENDED in host.run("import asyncio\nawait asyncio.gather(wait(), kill())").text
    assert host.cancelled.is_set()
    assert host.calls == {"wait": 1, "kill": 1}


@pytest.mark.parametrize("code", ["await publish()", "publish()"], ids=["awaited", "plain"])
def test_a_program_that_is_killed_before_it_is_stored_fails_without_a_request(sandbox: MontySandbox, code: str) -> None:
    host = Host(sandbox)
    call = {"id": "c1", "function": {"name": "run_code", "arguments": {"code": code}}}
    run = host.kit.run({"tool_calls": [call]}, format="openai")
    assert run.is_done
    assert ENDED in run.messages[0]["content"]
    assert set(host.calls) == {"needs_approval"}


def test_processes_that_are_killed_while_they_are_idle_are_replaced(sandbox: MontySandbox) -> None:
    host = Host(sandbox)
    for number in range(3):
        assert host.run(f"await echo('{number}')").value == str(number)
        assert send_signal() == 2  # one for programs, one for checks
        assert until(lambda: workers() == [])
    assert host.run("await echo(1)").error.message.startswith("Line 1: Argument to function `echo` is incorrect")
    assert max(host.calls.values()) == 1


def test_a_program_is_not_run_when_its_check_runs_out_of_memory(
    sandbox: MontySandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sandbox_module._CHECK_LIMITS, "max_memory", 1000)
    host = Host(sandbox)
    assert "The check of the types takes too much" in host.run("echo('a')").text
    assert host.calls == {}


def test_processes_that_are_killed_at_any_moment_repeat_no_call(sandbox: MontySandbox) -> None:
    host = Host(sandbox)
    ends = time.monotonic() + 20
    failed: Counter[str] = Counter()

    def kill() -> None:
        chance = random.Random(1)
        while time.monotonic() < ends:
            found = workers()
            if found:
                with contextlib.suppress(psutil.NoSuchProcess):
                    chance.choice(found).kill()
            time.sleep(chance.random() * 0.02)

    async def run(name: str) -> None:
        number = 0
        while time.monotonic() < ends:
            number += 1
            calls = ", ".join(f"echo('{name}-{number}-{part}')" for part in range(3))
            code = f"import asyncio\na = await echo('{name}-{number}-a')\nawait asyncio.gather({calls})"
            result = await host.kit.aexec("run_code", {"code": code})
            failed[result.text if result.is_error else ""] += 1
            assert not result.is_error or ENDED in result.text, result.text

    async def run_all() -> None:
        await asyncio.gather(*[run(str(name)) for name in range(6)])

    thread = threading.Thread(target=kill)
    thread.start()
    asyncio.run(run_all())
    thread.join()
    assert failed.pop("")
    assert failed
    assert max(host.calls.values()) == 1
    assert host.run("await echo('next')").value == "next"
