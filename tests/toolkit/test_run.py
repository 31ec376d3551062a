"""Run: the messages that answer a model, its truth, its text, and its way to another process."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from mcp_types import ImageContent, TextContent

from ahvn_tools import ApprovalRequest, Secret, ToolCall, Toolkit, ToolResult, formats
from ahvn_tools.errors import ToolkitError, ToolSpecError
from ahvn_tools.toolkit import Run
from tests.formats.providers import provider
from tests.toolkit.subjects import add

KEY = "a key that both processes have"
SECRET = "hunter2-hunter2"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture
def sums() -> Run:
    calls = [ToolCall(id=f"c{number}", name="add", arguments={"a": number}) for number in range(3)]
    return Toolkit("k").add(add).run(calls, format="openai")


def test_a_run_is_the_sequence_of_its_messages(sums):
    assert isinstance(sums, Sequence)
    assert list(sums) == sums.messages
    assert [*sums] == sums[:] == sums.messages
    assert (len(sums), sums[0]["content"], sums[-1]["tool_call_id"], sums[1:]) == (3, "1", "c2", sums.messages[1:])


def test_a_run_extends_a_history(sums):
    history = [{"role": "user", "content": "Add."}]
    history.extend(sums)
    assert [message["role"] for message in history] == ["user", "tool", "tool", "tool"]


def test_a_run_has_each_call_with_its_result(sums):
    assert [(call.id, result.value) for call, result in sums.results] == [("c0", 1), ("c1", 2), ("c2", 3)]


def test_a_run_without_calls_is_empty():
    assert (list(Run()), Run().results, Run().is_done) == ([], [], True)


def kit_of(removed: list[str]) -> Toolkit:
    """Return a toolkit with a tool that requires approval, and some that do not."""
    kit = Toolkit("files", secret_key=KEY)

    @kit.tool(requires_approval=True)
    def remove(path: str, token: Annotated[str, Secret] = "") -> str:
        removed.append(f"{path} {token}")
        return f"removed {path}"

    @kit.tool
    def login(password: str) -> str:
        return "welcome"

    @kit.tool
    def look() -> list[Any]:
        return [TextContent(type="text", text="a dot"), ImageContent(type="image", data=PIXEL, mime_type="image/png")]

    @kit.tool
    def fail() -> None:
        raise ToolkitError("no")

    return kit


def waiting_run(kit: Toolkit, name: str = "openai", **arguments: Any) -> Run:
    """Return the run of an answer in this format, one of whose calls waits."""
    sent: list[tuple[str, str, Any]] = [
        ("c1aaaaaaa", "remove", {"path": "/x", **arguments}),
        ("c2aaaaaaa", "login", {"password": SECRET}),
        ("c3aaaaaaa", "look", {}),
        ("c4aaaaaaa", "fail", {}),
        ("c5aaaaaaa", "gone", {}),
    ]
    response = provider(name).response([(call_id, tool, json.dumps(given)) for call_id, tool, given in sent])
    return kit.run(response, format=name)


def test_a_run_has_no_truth_value_because_one_that_waits_has_no_messages():
    run = waiting_run(kit_of([]))
    assert (run.is_done, len(run.pending), len(run)) == (False, 1, 0)
    for either in (run, Run()):
        with pytest.raises(TypeError, match=r"`run\.results` is empty if .*`run\.is_done` is False"):
            bool(either)


@pytest.mark.parametrize("name", formats.BUILT_IN)
def test_a_saved_run_goes_on_in_another_toolkit_as_if_nothing_had_happened(name):
    removed: list[str] = []
    here, there = kit_of(removed), kit_of(removed)
    run = waiting_run(here, name)
    saved = json.loads(json.dumps(run.to_json()))
    expected, done = here.resume(run, approved=True), there.resume(Run.from_json(saved), approved=True)
    assert removed == ["/x ", "/x "]
    assert without_durations(done.messages) == without_durations(expected.messages)
    assert (done.format, [call.id for call, _ in done.results]) == (name, [call.id for call, _ in run.results])


def without_durations(messages: list[Any]) -> list[Any]:
    """Return messages without what differs from one process to the next."""
    for message in messages:
        message.get("result", {}).pop("_meta", None)
    return messages


def test_a_finished_run_can_be_saved_too(sums):
    again = Run.from_json(json.loads(json.dumps(sums.to_json())))
    assert (again.messages, again.is_done, again.format) == (sums.messages, True, "openai")
    assert [result.value for _, result in again.results] == [1, 2, 3]


def test_a_saved_run_needs_its_secrets_again():
    removed: list[str] = []
    kit = kit_of(removed)
    saved = waiting_run(kit, token=SECRET).to_json()
    with pytest.raises(ToolkitError, match=r"does not hold its secret arguments \['token'\]"):
        kit.resume(Run.from_json(saved), approved=True)
    done = kit.resume(Run.from_json(saved), approved=True, arguments={"c1aaaaaaa": {"token": SECRET, "path": "/y"}})
    assert (removed, done.is_done) == ([f"/y {SECRET}"], True)


def test_a_call_through_call_tool_waits_in_a_saved_run_as_the_call_of_the_inner_tool():
    removed: list[str] = []
    kit = kit_of(removed).add_search()
    arguments = {"name": "remove", "arguments": {"path": "/z"}}
    run = kit.run([ToolCall(id="c1", name="call_tool", arguments=arguments)], format="ollama")
    done = kit.resume(Run.from_json(run.to_json()), approved=True)
    assert (removed, done[0]["tool_name"], done[0]["content"]) == (["/z "], "call_tool", "removed /z")


def test_neither_the_text_nor_the_pickle_of_a_run_has_a_secret():
    kit = kit_of([])
    run = waiting_run(kit, token=SECRET)
    done = kit.resume(run, approved=True)
    for shown in (run, done, run.pending, run.pending[0]):
        for text in (repr(shown), str(shown), pickle.dumps(shown).decode("latin-1")):
            assert SECRET not in text
            assert KEY not in text
    for each in (run, done):
        assert SECRET not in json.dumps(each.to_json())


def test_the_text_of_a_run_counts_its_calls(sums):
    assert repr(sums) == "<Run of 3 calls>"
    assert repr(waiting_run(kit_of([]))) == "<Run of 5 calls, 1 waiting>"
    request = waiting_run(kit_of([])).pending[0]
    assert repr(request) == "<ApprovalRequest 'remove' call_id='c1aaaaaaa'>"


def test_a_pickled_or_copied_run_goes_on():
    kit = kit_of([])
    for travel in (lambda run: pickle.loads(pickle.dumps(run)), copy.copy, copy.deepcopy):
        run = travel(waiting_run(kit))
        assert len(kit.resume(run, approved=True).results) == 5
    request = waiting_run(kit).pending[0]
    assert pickle.loads(pickle.dumps(request)) == request


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"version": 2, "format": None, "calls": []},
        {"version": 1, "calls": []},
        {"version": 1, "format": None, "calls": [{}]},
        {"version": 1, "format": None, "calls": [{"provider": {}, "wire_name": None, "request": {"id": "r"}}]},
        {"version": 1, "format": None, "calls": [{"provider": 1, "wire_name": None}]},
        {"version": 1, "format": None, "calls": 3},
    ],
)
def test_other_data_than_a_saved_run_is_refused(data):
    with pytest.raises(ToolSpecError, match="This is not a"):
        Run.from_json(data)


def test_a_result_that_is_no_json_is_saved_as_an_error():
    class Odd:
        pass

    run = Run.create([(ToolCall(id="c1", name="odd"), ToolResult(Odd(), meta={"odd": Odd(), "n": 1}))], None)
    ((_, result),) = Run.from_json(json.loads(json.dumps(run.to_json()))).results
    assert (result.error.code, result.meta) == ("invalid_result", {"n": 1})


def test_a_request_of_a_saved_run_is_signed():
    removed: list[str] = []
    kit = kit_of(removed)
    saved = waiting_run(kit).to_json()
    saved["calls"][0]["request"]["arguments"]["path"] = "/etc"
    with pytest.raises(ToolkitError, match="has been changed"):
        kit.resume(Run.from_json(saved), approved=True)
    assert removed == []
    assert isinstance(Run.from_json(saved).pending[0], ApprovalRequest)


def test_a_value_without_json_form_is_left_out_of_a_saved_run_that_has_its_content():
    class Connection:
        def __repr__(self) -> str:
            return SECRET

    def look() -> ToolResult:
        return ToolResult(Connection(), blocks=(TextContent(type="text", text="seen"),))

    run = Toolkit("k").add(look).run([ToolCall(id="c1", name="look")], format="openai")
    saved = run.to_json()
    assert SECRET not in json.dumps(saved)
    assert Run.from_json(saved).results[0][1].content == [TextContent(type="text", text="seen")]
