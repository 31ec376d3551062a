"""Code mode and `allowed_callers`: a program has no tool that is for the model alone."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from ahvn_tools import Run, ToolCall, Toolkit
from tests.toolkit.subjects import check, noting

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from ahvn_tools.code_mode import MontySandbox  # as above


@pytest.fixture
def kit(sandbox: MontySandbox) -> Toolkit:
    kit = Toolkit("sales").add(rows, allowed_callers="programmatic").add(send, allowed_callers="direct")
    return kit.add_code_mode(core=["send"], sandbox=sandbox)


def rows(region: str) -> str:
    """Return rows."""
    return f"rows of {region}"


def send(text: str) -> str:
    """Send a text."""
    return f"sent {text}"


def test_a_program_calls_a_tool_for_programs(kit: Toolkit) -> None:
    assert kit.call("run_code", {"code": "rows('East')"}) == "rows of East"


def test_a_tool_for_the_model_alone_does_not_exist_in_a_program(kit: Toolkit) -> None:
    assert "`send` used when not defined" in kit.exec("run_code", {"code": "send('spam')"}).text
    assert "send" not in kit.call("search_tools", {"query": "send a text"})
    assert kit.call("send", {"text": "hello"}) == "sent hello"


def test_a_tool_for_the_model_alone_that_is_not_listed_is_a_finding(kit: Toolkit) -> None:
    assert check(kit) == []
    kit.add(send, name="mail", allowed_callers="direct")
    problem = "no model can call it: programs may not, and code mode does not list it"
    assert list(map(str, check(kit))) == [f"the tool 'mail': {problem}"]
    assert "core" in check(kit)[0].fix


def test_tools_for_the_model_alone_take_no_place_among_those_that_a_search_finds(kit: Toolkit) -> None:
    for number in range(30):
        kit.add(send, name=f"send_{number}", allowed_callers="direct")
    kit.add(
        lambda: None, name="notify", description="Tell all customers of a region, in a letter, of a text or a call."
    )
    assert "notify: Tell all" in kit.call("search_tools", {"query": "send a text", "limit": 1})


def test_a_request_of_a_program_in_a_program_expires_with_the_outer_one(sandbox: MontySandbox) -> None:
    kit = Toolkit("desk", approval_expiry=None).add(rows, requires_approval=True).add_code_mode(sandbox=sandbox)
    call = ToolCall(
        id="c1",
        name="run_code",
        arguments={"code": "rows('East')"},
        provider={"caller": {"type": "code_execution_20260120", "tool_id": "s1"}},
        format="anthropic",
    )
    expiry = kit.run([call]).pending[0].expires_at
    assert expiry < time.time() + 241
    assert kit.run([replace(call, provider={})]).pending[0].expires_at is None


@pytest.mark.parametrize("caller", ["direct", "programmatic"])
def test_a_program_continues_as_a_call_of_who_has_called_it(sandbox: MontySandbox, caller: str) -> None:
    """Its calls are those of a program, and it is itself not, unless a program of the provider has called it."""
    callers: list[tuple[str, str | None]] = []

    kit = Toolkit("desk", middleware=[noting(callers, lambda call: (call.name, call.caller))])
    kit.add(rows, requires_approval=True)
    kit.add_code_mode(sandbox=sandbox, allowed_callers=caller)
    provider = {} if caller == "direct" else {"caller": {"type": "code_execution_20260120", "tool_id": "s1"}}
    call = ToolCall(id="c1", name="run_code", arguments={"code": "rows('East')"}, provider=provider, format="anthropic")
    run = Run.from_json(json.loads(json.dumps(kit.run([call]).to_json())))
    assert kit.resume(run, approved=True).results[0][1].value == "rows of East"
    assert callers == [("run_code", caller), ("rows", "programmatic")] * 2
