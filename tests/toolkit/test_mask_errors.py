"""What a model learns of an exception, and what the host finds of it: the exception itself."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
import pickle
import threading
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from fastmcp import Client
from pydantic import TypeAdapter

from ahvn_tools import ApprovalRules, ToolCall, ToolContext, ToolError, Toolkit, ToolResult, ToolSpec
from ahvn_tools.errors import ToolkitError, ToolTimeoutError
from tests.toolkit.subjects import passing

SECRET = "sesame-7f3a9c"


def read(topic: str = "tea") -> str:
    """Read."""
    raise KeyError(SECRET)


async def aread(topic: str = "tea") -> str:
    """Read."""
    raise KeyError(SECRET)


def read_all(topic: str = "tea") -> list[str]:
    """Read."""
    yield topic
    raise KeyError(SECRET)


def explain() -> str:
    """Explain."""
    raise ToolError("Name a topic.")


async def last_of(stream) -> ToolResult:
    return [result async for result in stream][-1]


async def only_result(run) -> ToolResult:
    ((_, result),) = (await run).results
    return result


METHODS: dict[str, Callable[[Toolkit, str], ToolResult]] = {
    "exec": lambda kit, name: kit.exec(name),
    "aexec": lambda kit, name: asyncio.run(kit.aexec(name)),
    "stream": lambda kit, name: list(kit.stream(name))[-1],
    "astream": lambda kit, name: asyncio.run(last_of(kit.astream(name))),
    "run": lambda kit, name: kit.run([ToolCall(id="c1", name=name)]).results[0][1],
    "arun": lambda kit, name: asyncio.run(only_result(kit.arun([ToolCall(id="c1", name=name)]))),
    "tool": lambda kit, name: kit[name].exec(),
    "session": lambda kit, name: kit.session(user="ann").exec(name),
    "call_tool": lambda kit, name: kit.add_search().exec("call_tool", {"name": name}),
}
each_method = pytest.mark.parametrize("method", METHODS)
each_tool = pytest.mark.parametrize("tool", ["read", "aread", "read_all"])


def kit_of(**options: Any) -> Toolkit:
    return Toolkit("kit", **options).add(read).add(aread).add(read_all).add(explain)


@each_method
@each_tool
@pytest.mark.parametrize("layers", [(), (passing,)], ids=["bare", "middleware"])
@pytest.mark.default_cases(12)
def test_the_text_of_an_exception_is_hidden_from_a_model(method, tool, layers, caplog):
    result = METHODS[method](kit_of(middleware=layers), tool)
    assert (result.error.code, result.error.message) == ("tool_error", f"Error calling tool {tool!r}")
    assert SECRET not in result.text + repr(result) + repr(result.content)
    assert f"Tool {tool!r} raised KeyError (test_mask_errors.py, line" in caplog.text
    assert SECRET not in caplog.text


@each_method
def test_the_host_may_show_it(method):
    assert METHODS[method](kit_of(mask_errors=False), "read").error.message == f"KeyError: '{SECRET}'"


@each_method
@pytest.mark.parametrize("is_masked", [True, False])
def test_a_tool_error_is_always_shown(method, is_masked):
    assert METHODS[method](kit_of(mask_errors=is_masked), "explain").text == "Name a topic."


def test_the_messages_of_a_run_do_not_contain_it():
    answer = {"tool_calls": [{"id": "c1", "function": {"name": "read", "arguments": "{}"}}]}
    (message,) = kit_of().run(answer, format="openai")
    assert message["content"] == "Error calling tool 'read'"


async def test_a_resumed_call_hides_it():
    kit = kit_of(rules=ApprovalRules(mode="ask"))
    waiting = kit.run([ToolCall(id="c1", name="read")])
    assert (await only_result(kit.aresume(waiting, approved=True))).text == "Error calling tool 'read'"


@pytest.mark.parametrize("is_middleware", [False, True])
@pytest.mark.parametrize(
    ("is_masked", "is_async", "ending"),
    [
        (True, False, "it may still be running."),
        (False, False, "its thread may still be running."),
        (True, True, "it was cancelled."),
        (False, True, "it was cancelled."),
    ],
)
def test_a_timeout_does_not_say_how_bodies_run(is_masked, is_async, ending, is_middleware):
    may_end = threading.Event()
    kit = Toolkit("k", mask_errors=is_masked, timeout=0.05, middleware=[passing] if is_middleware else [])

    async def ahang() -> None:
        await asyncio.Event().wait()

    kit.add(ahang if is_async else may_end.wait, rename="hang")
    result = kit.exec("hang")
    with pytest.raises(ToolTimeoutError) as raised:
        kit.call("hang")
    may_end.set()
    assert result.text == f"Tool 'hang' did not finish within 0.05 seconds; {ending}"
    host = "it was cancelled." if is_async else "its thread may still be running."
    assert str(result.exception).endswith(host)
    assert str(raised.value).endswith(host)


@each_method
@each_tool
def test_a_result_has_the_exception_with_its_traceback(method, tool):
    error = METHODS[method](kit_of(), tool).exception
    assert (type(error), error.args) == (KeyError, (SECRET,))
    assert f"in {tool}\n" in "".join(traceback.format_exception(error))


def test_a_result_of_a_refused_call_has_the_error_that_call_raises():
    result = kit_of().exec("nope")
    with pytest.raises(type(result.exception), match="There is no tool 'nope'"):
        kit_of().call("nope")


def test_a_result_of_a_spec_has_the_exception():
    assert ToolSpec.from_function(read).exec().exception.args == (SECRET,)
    assert ToolSpec.from_function(explain).exec().exception.message == "Name a topic."


def test_a_successful_result_has_no_exception():
    assert ToolResult(1).exception is None
    assert Toolkit("k").add(lambda: 1, rename="one").exec("one").exception is None


def test_no_other_form_of_a_result_contains_the_exception():
    result = kit_of().exec("read")
    forms = [
        repr(result),
        json.dumps(dataclasses.asdict(result)),
        TypeAdapter(ToolResult).dump_json(result).decode(),
        repr(vars(result)),
        repr(result.error),
        result.to_mcp().model_dump_json(),
        pickle.dumps(result).decode("latin-1"),
        pickle.dumps(copy.deepcopy(result.error)).decode("latin-1"),
    ]
    assert SECRET not in "\n".join(forms)
    assert pickle.loads(pickle.dumps(result)).exception is None
    assert pickle.loads(pickle.dumps(result)) == result


def test_a_changed_result_keeps_the_exception_and_a_replaced_error_does_not():
    result = kit_of().exec("read")
    assert dataclasses.replace(result, meta={}).exception is result.exception
    assert dataclasses.replace(result, error=dataclasses.replace(result.error, message="no")).exception is None


@pytest.mark.parametrize("value", ["yes", None, 1])
def test_mask_errors_is_a_bool(value):
    with pytest.raises(ToolkitError, match="mask_errors must be True or False"):
        Toolkit("k", mask_errors=value)


@pytest.mark.parametrize(
    ("of_toolkit", "of_server", "is_shown"),
    [(True, {}, False), (False, {}, True), (False, {"mask_errors": True}, False), (True, {"mask_errors": False}, True)],
)
async def test_a_server_does_as_its_toolkit_unless_it_has_an_option_of_its_own(of_toolkit, of_server, is_shown):
    server = kit_of(mask_errors=of_toolkit).to_fastmcp_server(**of_server)
    async with Client(server) as client:
        answer = await client.call_tool("read", raise_on_error=False)
    assert (SECRET in answer.content[0].text) == is_shown


def test_the_same_holds_for_tools_of_tools():
    def ask(context: ToolContext) -> str:
        return context.toolkit.exec("read").text

    assert kit_of().add(ask).call("ask") == "Error calling tool 'read'"
