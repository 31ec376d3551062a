"""Code mode and `allowed_callers`: a program has no tool that is for the model alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from ahvn_tools import Toolkit

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

import pydantic_monty  # after the check that it is there

from ahvn_tools.code_mode import MontySandbox  # as above


@pytest.fixture(scope="session", autouse=True)
def started_runtime() -> None:
    """Start Monty's threads, which stay until the process ends, before what is open is counted."""
    with pydantic_monty.Monty(max_processes=1):
        pass


@pytest.fixture
def kit() -> Iterator[Toolkit]:
    with contextlib.closing(MontySandbox(max_processes=1)) as sandbox:
        kit = Toolkit("sales").add(rows, allowed_callers="programmatic").add(send, allowed_callers="direct")
        yield kit.add_code_mode(core=["send"], sandbox=sandbox)


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
