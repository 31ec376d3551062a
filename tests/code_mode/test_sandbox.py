"""A sandbox of a user: its programs are JSON lists of calls, all made at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.code_mode import CodeLimits, Sandbox
from ahvn_tools.code_mode.sandbox import (
    Answer,
    Event,
    Failure,
    Finished,
    FunctionCall,
    InvalidProgramError,
    Later,
    ProgramError,
    SandboxError,
    SandboxProgram,
    Value,
    Waiting,
)


class CallsSession:
    """A program like `await [["echo", "a"], ["echo", "b"]]`; it prints the names of the functions."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.made = 0
        self.values: dict[int, Any] = {}

    async def start(self, program: SandboxProgram, write: Callable[[str], None]) -> Event:
        self.calls = _parse(program.code)
        write(",".join(name for name, _ in self.calls))
        return self.next_event()

    async def restore(self, snapshot: bytes, functions: Collection[str], write: Callable[[str], None]) -> Event:
        self.calls, self.made, values = json.loads(snapshot)
        self.values = {int(key): value for key, value in values.items()}
        return self.next_event()

    async def answer(self, answer: Answer | Later) -> Event:
        assert isinstance(answer, Later)
        self.made += 1
        return self.next_event()

    async def settle(self, answers: Mapping[int, Answer]) -> Event:
        for key, answer in answers.items():
            if isinstance(answer, Failure):
                raise ProgramError(f"call {key} failed: {answer.message}")
            assert isinstance(answer, Value)
            self.values[key] = answer.value
        return self.next_event()

    async def snapshot(self) -> bytes:
        return json.dumps([self.calls, self.made, self.values]).encode()

    def next_event(self) -> Event:
        if self.made < len(self.calls):
            name, argument = self.calls[self.made]
            if name == "crash":
                raise SandboxError("The sandbox is gone.")
            return FunctionCall(id=self.made, function=name, args=(argument,), kwargs={})
        missing = tuple(number for number in range(len(self.calls)) if number not in self.values)
        return Waiting(ids=missing) if missing else Finished(value=[self.values[n] for n in range(len(self.calls))])


def _parse(code: str) -> list[tuple[str, str]]:
    calls: list[tuple[str, str]] = json.loads(code.removeprefix("await "))
    return calls


class CallsSandbox:
    """Runs them, and counts the programs that are open."""

    def __init__(self, version: str = "calls 1") -> None:
        self.version = version
        self.open_programs = 0

    async def check(self, program: SandboxProgram) -> None:
        try:
            calls = _parse(program.code)
        except ValueError as error:
            raise InvalidProgramError(f"No JSON: {error}") from None
        if unknown := [name for name, _ in calls if name not in program.functions and name != "crash"]:
            raise InvalidProgramError(f"No function {unknown[0]!r}.")

    @asynccontextmanager
    async def open(self, limits: CodeLimits) -> AsyncGenerator[CallsSession]:
        self.open_programs += 1
        try:
            yield CallsSession()
        finally:
            self.open_programs -= 1


class Host:
    """A toolkit with this sandbox."""

    def __init__(self, version: str = "calls 1") -> None:
        self.made: list[str] = []
        self.sandbox = CallsSandbox(version)
        self.kit = Toolkit("k", secret_key=b"k" * 16).add(self.echo, self.wait)
        self.kit.add(self.send, requires_approval=True).add_code_mode(sandbox=self.sandbox)

    def echo(self, text: str) -> str:
        """Return the text."""
        self.made.append(f"echo {text}")
        return text

    async def wait(self, text: str) -> str:
        """Wait for 60 seconds."""
        self.made.append(f"wait {text}")
        await asyncio.sleep(60)
        return text

    def send(self, text: str) -> str:
        """Send the text."""
        self.made.append(f"send {text}")
        return f"sent {text}"

    def run(self, code: str, **options: Any) -> Any:
        return self.kit.exec("run_code", {"code": code}, **options)


@pytest.fixture
def host() -> Host:
    return Host()


def test_it_is_a_sandbox(host: Host) -> None:
    assert isinstance(host.sandbox, Sandbox)


def test_its_programs_make_calls_and_print(host: Host) -> None:
    result = host.run('await [["echo", "a"], ["echo", "b"]]')
    assert result.value == ["a", "b"]
    assert json.loads(result.text) == {"result": ["a", "b"], "printed": "echo,echo"}
    assert sorted(host.made) == ["echo a", "echo b"]


def test_its_check_is_the_answer_to_a_program_that_does_not_fit(host: Host) -> None:
    assert host.run('await [["echo"').text.startswith("No JSON")
    assert host.run('await [["run_code", "x"]]').text == "No function 'run_code'."
    assert host.made == []


def test_its_failures_are_errors_of_the_call_and_close_the_program(host: Host) -> None:
    result = host.run('await [["wait", "a"], ["crash", ""]]')
    assert (result.error.code, result.error.message) == (
        "tool_error",
        "The sandbox is gone.\n\nCalls made before this: 1.\n\nPrinted:\nwait,crash",
    )
    assert host.sandbox.open_programs == 0


def test_cancelling_closes_the_program(host: Host) -> None:
    assert host.run('await [["wait", "a"]]', timeout=0.05).error.code == "timeout"
    assert host.sandbox.open_programs == 0


def test_its_programs_wait_for_approvals_and_continue_in_another_sandbox_of_the_same_version(host: Host) -> None:
    call = {"id": "c1", "function": {"name": "run_code", "arguments": {"code": 'await [["echo", "a"], ["send", "b"]]'}}}
    run = host.kit.run({"tool_calls": [call]}, format="openai")
    assert [request.tool for request in run.pending] == ["send"]
    assert host.sandbox.open_programs == 0
    request = run.pending[0].to_json()
    newer = Host("calls 2").kit.resume(request, approved=True)
    assert "cannot continue in 'calls 2'" in newer.results[0][1].text
    other = Host()
    [(_, result)] = other.kit.resume(request, approved=True).results
    assert result.value == ["a", "sent b"]
    assert (host.made, other.made) == (["echo a"], ["send b"])
