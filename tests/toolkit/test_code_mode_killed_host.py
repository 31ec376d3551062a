"""Programs whose host is killed: another process continues them, and makes no call twice."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.execution.entry_points import until

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from tests.toolkit.program_desk import KEY

HOST = """
import json, os, signal, sys, time
from pathlib import Path
from ahvn_tools import ToolCall, ToolContext, Toolkit
from ahvn_tools.errors import ToolkitError
from ahvn_tools.toolkit.run import Run

folder, how, key = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
kit = Toolkit("host", secret_key=key, approval_store=folder / "approvals.db")


def log(text):
    with (folder / "calls").open("a") as file:
        file.write(text + "\\n")


@kit.tool
def step(name: str) -> str:
    "Make a step."
    log(name)
    if how == "slow" and name == "after":
        (folder / "is_in_step").touch()
        time.sleep(60)
    return name


@kit.tool(requires_approval=True)
def pay(amount: int) -> str:
    "Pay."
    log(f"pay {amount}")
    return f"paid {amount}"


kit.add_code_mode()
CODE = '''
first = await step("first")
second = await step("second")
try:
    paid = await pay(5)
except RuntimeError as error:
    paid = str(error)
[first, second, paid, await step("after")]
'''

if how == "spin":
    code = "step('first')\\nwhile True:\\n    pass"
    kit.exec("run_code", {"code": code})
if how == "start":
    run = kit.run([ToolCall(id="c1", name="run_code", arguments={"code": CODE})])
    temporary = folder / "run.new"
    temporary.write_text(json.dumps(run.to_json()))
    temporary.rename(folder / "run.json")
    time.sleep(60)
else:
    run = Run.from_json(json.loads((folder / "run.json").read_text()))
    decision = json.loads(sys.argv[4])
    arguments = {run.pending[0].call_id: decision.pop("arguments")} if "arguments" in decision else None
    try:
        [(_, result)] = kit.resume(run, arguments=arguments, **decision).results
        print(json.dumps(result.value if result.error is None else result.text))
    except ToolkitError as error:
        print(json.dumps(str(error)))
"""


def start_host(folder: Path, how: str, decision: Any = None, key: str = KEY) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOST, str(folder), how, key, json.dumps(decision)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kill_host(process: subprocess.Popen[str], *, has_started: Callable[[], bool]) -> None:
    """Kill a host when it has started something, and check that its worker processes end, too."""
    workers: list[psutil.Process] = []
    try:
        assert until(has_started)
        workers = psutil.Process(process.pid).children(recursive=True)
    finally:
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
    assert workers
    assert errors == ""
    assert until(lambda: not any(map(_is_alive, workers)))


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def resume_host(folder: Path, decision: Any, key: str = KEY) -> Any:
    return json.loads(start_host(folder, "resume", decision, key).communicate(timeout=60)[0])


def calls_of(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


@pytest.mark.exhaustive
def test_a_program_whose_host_was_killed_is_continued_by_another_process_once(tmp_path: Path) -> None:
    kill_host(start_host(tmp_path, "start"), has_started=(tmp_path / "run.json").exists)
    assert calls_of(tmp_path) == ["first", "second"]
    value = resume_host(tmp_path, {"approved": True, "arguments": {"amount": 7}})
    assert value == ["first", "second", "paid 7", "after"]
    assert "used before" in resume_host(tmp_path, {"approved": True})
    assert calls_of(tmp_path) == ["first", "second", "pay 7", "after"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("decision", "paid", "calls"),
    [
        ({"approved": True}, "paid 5", ["pay 5"]),
        ({"approved": False, "reason": "too much"}, "The call of 'pay' was rejected: too much", []),
    ],
    ids=["approved", "rejected"],
)
def test_a_decision_reaches_a_program_whose_host_was_killed(
    tmp_path: Path, decision: Any, paid: str, calls: Any
) -> None:
    kill_host(start_host(tmp_path, "start"), has_started=(tmp_path / "run.json").exists)
    assert "another secret_key" in resume_host(tmp_path, {"approved": True}, key="another key of 16 characters")
    assert resume_host(tmp_path, decision) == ["first", "second", paid, "after"]
    again = "used before" if decision["approved"] else "may have run already; its result was lost: too much"
    assert again in resume_host(tmp_path, decision)
    assert calls_of(tmp_path) == ["first", "second", *calls, "after"]


@pytest.mark.exhaustive
def test_a_host_that_is_killed_while_a_program_continues_makes_no_call_twice(tmp_path: Path) -> None:
    kill_host(start_host(tmp_path, "start"), has_started=(tmp_path / "run.json").exists)
    kill_host(start_host(tmp_path, "slow", {"approved": True}), has_started=(tmp_path / "is_in_step").exists)
    assert "used before" in resume_host(tmp_path, {"approved": True})
    assert calls_of(tmp_path) == ["first", "second", "pay 5", "after"]


@pytest.mark.exhaustive
def test_a_worker_that_runs_an_endless_program_ends_with_its_killed_host(tmp_path: Path) -> None:
    kill_host(start_host(tmp_path, "spin"), has_started=(tmp_path / "calls").exists)
