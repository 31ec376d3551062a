"""Run: the messages that answer a model, as a sequence."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ahvn_tools import ToolCall, Toolkit
from ahvn_tools.toolkit import Run
from tests.toolkit.subjects import add


@pytest.fixture
def run() -> Run:
    calls = [ToolCall(id=f"c{number}", name="add", arguments={"a": number}) for number in range(3)]
    return Toolkit("k").add(add).run(calls, format="openai")


def test_a_run_is_the_sequence_of_its_messages(run):
    assert isinstance(run, Sequence)
    assert list(run) == run.messages
    assert [*run] == run[:] == run.messages
    assert (len(run), run[0]["content"], run[-1]["tool_call_id"], run[1:]) == (3, "1", "c2", run.messages[1:])


def test_a_run_extends_a_history(run):
    history = [{"role": "user", "content": "Add."}]
    history.extend(run)
    assert [message["role"] for message in history] == ["user", "tool", "tool", "tool"]


def test_a_run_has_each_call_with_its_result(run):
    assert [(call.id, result.value) for call, result in run.results] == [("c0", 1), ("c1", 2), ("c2", 3)]


def test_a_run_without_calls_is_empty():
    assert (list(Run()), Run().results, bool(Run())) == ([], [], False)
