"""LangChain and LangGraph: our tools there, their tools here, and messages both ways."""

from __future__ import annotations

import asyncio
import json
import pickle
import re
import threading
from pathlib import Path
from typing import Annotated, Any

import pydantic
import pytest

pytest.importorskip("langchain_core", reason='needs LangChain: pip install "ahvn-tools[langchain]"')
pytest.importorskip("langgraph.prebuilt", reason='needs LangGraph: pip install -e ".[sdks,sdk-tests]"')

import pydantic.v1
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    ToolMessage,
    convert_to_messages,
    message_to_dict,
    messages_to_dict,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig, RunnableLambda, ensure_config
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    Tool,
    ToolException,
    tool,
)
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, InjectedStore, ToolNode, ToolRuntime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt

from ahvn_tools import Conversation, ToolContext, Toolkit, ToolSpec, formats, load
from ahvn_tools.errors import DefinitionError, SourceError, UnboundStateError
from ahvn_tools.formats.read_only import to_read_only
from ahvn_tools.langchain import SpecTool
from ahvn_tools.middleware import log
from tests.formats.sdks.cases import DEFINITIONS, PIXEL, draw, forecast, sink, spec_of
from tests.formats.sdks.conversing import SAID, check_events, each_form, session_of

langchain = formats.get("langchain")


def tool_call(name: str, call_id: str = "c1", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": call_id, "name": name, "args": arguments}


def ways(lc_tool: BaseTool, request: Any) -> list[Any]:
    """Return what a LangChain tool gives to sync and to async callers."""
    return [lc_tool.invoke(request), asyncio.run(lc_tool.ainvoke(request))]


class State(MessagesState):
    user: str


def graph_of(node: Any, **options: Any) -> Any:
    graph = StateGraph(State)
    graph.add_node("tools", node)
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    return graph.compile(**options)


def tool_messages(state: dict[str, Any]) -> list[tuple[str, Any, Any, str]]:
    messages = [message for message in state["messages"] if isinstance(message, ToolMessage)]
    return [(message.tool_call_id, message.content, message.artifact, message.status) for message in messages]


# our tools in LangChain


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.name)
def test_langchain_takes_an_exported_tool_as_it_is(definition):
    for options in ({}, {"strict": True}):
        (exported,) = langchain.export([definition], **options)
        assert convert_to_openai_tool(exported) == exported
        assert convert_to_openai_tool(to_read_only(exported)) == exported


def test_a_tool_has_the_name_the_description_and_the_schema_of_the_format():
    lc_tool = spec_of(forecast).to_langchain()
    assert isinstance(lc_tool, BaseTool)
    assert convert_to_openai_tool(lc_tool) == spec_of(forecast).to("langchain")
    assert list(lc_tool.args) == ["city", "days"]


def test_a_tool_message_has_the_text_for_models_and_the_value_as_artifact():
    def rain(city: str) -> dict[str, Any]:
        return {"city": city, "rain": True}

    lc_tool = ToolSpec.from_function(rain).to_langchain()
    for message in ways(lc_tool, tool_call("rain", city="Oslo")):
        assert (message.content, message.status) == ('{"city": "Oslo", "rain": true}', "success")
        assert message.artifact == {"city": "Oslo", "rain": True}
    assert ways(lc_tool, {"city": "Oslo"}) == ['{"city": "Oslo", "rain": true}'] * 2


def test_an_image_is_a_content_block():
    (message, _) = ways(spec_of(draw).to_langchain(), tool_call("city_draw", city="Rome"))
    assert message.content == [{"type": "image", "base64": PIXEL, "mime_type": "image/png"}]


def test_an_error_is_a_message_with_a_status():
    lc_tool = spec_of(sink).to_langchain()
    for message in ways(lc_tool, tool_call("sink", city="Rome")):
        assert (message.content, message.status) == ("There is no Rome for Ann.", "error")
    for message in ways(lc_tool, tool_call("sink", town="Rome")):
        assert message.status == "error"
        assert "'city' is missing" in message.content


def test_the_host_chooses_what_an_error_becomes():
    for lc_tool in (
        spec_of(sink).to_langchain(handle_tool_error=False),
        pickle.loads(pickle.dumps(spec_of(sink))).to_langchain(handle_tool_error=None),
    ):
        with pytest.raises(ToolException, match=r"There is no Rome") as raised:
            lc_tool.invoke({"city": "Rome"})
        assert raised.value.result.error.code == "tool_error"
        assert pickle.loads(pickle.dumps(raised.value)).result.text == "There is no Rome for Ann."
    lc_tool = spec_of(sink).to_langchain(handle_tool_error=lambda error: f"failed: {error.result.error.code}")
    assert lc_tool.invoke({"city": "Rome"}) == "failed: tool_error"


def test_a_result_that_cannot_be_sent_is_an_error():
    class Db:
        pass

    def open_db():
        return [Db()]

    message = ToolSpec.from_function(open_db).to_langchain().invoke(tool_call("open_db"))
    assert (message.status, message.artifact) == ("error", None)
    assert "Db" not in message.content


def test_no_caller_passes_or_sees_a_bound_value():
    spec = ToolSpec.from_function(forecast).bind("user", default="S3CRET-VALUE", secret=True)
    lc_tool = spec.to_langchain()
    message = lc_tool.invoke(tool_call("forecast", city="Oslo", user="Eve"))
    assert message.status == "error"
    assert "unknown argument 'user'" in message.content
    assert "S3CRET" not in repr((lc_tool, lc_tool.args, lc_tool.model_dump()))


def test_arguments_may_have_any_name():
    def odd(config: str, self: int = 1, run_manager: str = "r", callbacks: int = 0) -> str:
        return f"{config} {self} {run_manager} {callbacks}"

    lc_tool = ToolSpec.from_function(odd).to_langchain()
    request = tool_call("odd", config="c", self=2, run_manager="m", callbacks=3)
    assert [message.content for message in ways(lc_tool, request)] == ["c 2 m 3"] * 2


def test_a_tool_that_comes_back_is_the_spec_itself():
    async def sleep() -> None:
        """Sleep."""
        await asyncio.sleep(1)

    spec = ToolSpec.from_function(sleep, name="notes.sleep", timeout=0.01)
    lc_tool = spec.to_langchain()
    assert lc_tool.spec is spec
    kit = Toolkit("k").add(lc_tool)
    assert [each.name for each in kit] == [lc_tool.name]
    assert kit.exec(lc_tool.name).error.code == "timeout"
    assert [each.name for each in Toolkit("k").add(lc_tool, rename="sleep")] == ["sleep"]
    assert load([lc_tool])["notes.sleep"].timeout == 0.01


@pytest.mark.parametrize("name", ["sleep", "notes.sleep"])
def test_a_tool_that_comes_back_has_the_rules_of_its_toolkit(name):
    seen = []

    async def record(call, proceed):
        seen.append(call.name)
        return await proceed(call)

    inner = Toolkit("inner", middleware=[record])
    inner.add(lambda user: user, name=name, binds={"user": "user"}, tags={"t"}, requires_approval=True)
    inner.add(lambda user: user, name="other." + name, binds={"user": "user"}, tags={"t"})
    kit = Toolkit("k").add(*(spec.to_langchain() for spec in inner))
    gated, free = kit
    assert [each.tags for each in kit] == [{"t"}, {"t"}]
    inner.state["user"] = "Ann"
    assert kit.exec(gated.name).error.code == "approval_required"
    assert kit.call(free.name) == "Ann"
    assert len(seen) == 1  # the call that waits for an approval has not begun


def test_a_class_of_tools_makes_its_spec():
    class Forecast(SpecTool):
        def __init__(self, city: str) -> None:
            super().__init__(ToolSpec.from_function(lambda: f"rain in {city}", name="forecast"), return_direct=True)

    lc_tool = Forecast("Oslo")
    assert (lc_tool.name, lc_tool.return_direct, lc_tool.invoke({})) == ("forecast", True, "rain in Oslo")
    assert isinstance(lc_tool.model_copy(), Forecast)
    assert lc_tool.model_copy().invoke({}) == "rain in Oslo"


def test_without_injected_arguments_the_input_schema_is_that_of_langchain():
    ours = spec_of(forecast).to_langchain()
    theirs = StructuredTool(name=ours.name, description="", args_schema=ours.args_schema, func=forecast)
    assert ours.get_input_schema().model_json_schema() == theirs.get_input_schema().model_json_schema()


def test_tags_and_metadata_are_passed_and_options_replace_them():
    spec = ToolSpec.from_function(forecast, tags={"b", "a"}, meta={"cost": 3})
    lc_tool = spec.to_langchain()
    assert (lc_tool.tags, lc_tool.metadata, lc_tool.return_direct) == (["a", "b"], {"cost": 3}, False)
    lc_tool = spec.to_langchain(return_direct=True, tags=["c"])
    assert (lc_tool.tags, lc_tool.return_direct) == (["c"], True)


@pytest.mark.parametrize("name", ["handle_tool_eror", "name", "args_schema", "response_format"])
def test_an_unknown_option_is_refused(name):
    with pytest.raises(DefinitionError, match=f"no option '{name}'"):
        spec_of(forecast).to_langchain(**{name: True})


def test_the_tool_of_a_toolkit_runs_through_its_middleware():
    async def shout(call, proceed):
        result = await proceed(call)
        return type(result)(result.value.upper())

    kit = Toolkit("weather", middleware=[shout]).add(forecast)
    kit.bind("user").state["user"] = "Ann"
    messages = [ways(each.to_langchain(), tool_call("forecast", city="Oslo")) for each in kit]
    assert [message.content for message in messages[0]] == ["ANN: 1 DAYS OF RAIN IN OSLO"] * 2


def test_a_body_sees_the_configuration_of_its_run():
    def whoami() -> str:
        return ensure_config()["metadata"]["user_id"]

    async def awhoami() -> str:
        return ensure_config()["metadata"]["user_id"]

    for function in (whoami, awhoami):
        lc_tool = ToolSpec.from_function(function).to_langchain()
        config = {"metadata": {"user_id": "u7"}}
        assert lc_tool.invoke({}, config) == "u7"
        assert asyncio.run(lc_tool.ainvoke({}, config)) == "u7"


# our tools in LangGraph


def asked(*calls: tuple[str, dict[str, Any]]) -> AIMessage:
    items = [tool_call(name, f"c{number}", **arguments) for number, (name, arguments) in enumerate(calls)]
    return AIMessage("", tool_calls=items)


def test_a_tool_node_runs_calls_in_parallel():
    together, together_in_loop = threading.Barrier(3, timeout=60), asyncio.Barrier(3)

    def wait(city: str) -> str:
        together.wait()
        return city

    async def await_all(city: str) -> str:
        async with asyncio.timeout(60):
            await together_in_loop.wait()
        return city

    cities = ["Oslo", "Rome", "Bern"]
    expected = [(f"c{number}", city, city, "success") for number, city in enumerate(cities)]
    app = graph_of(ToolNode([ToolSpec.from_function(wait).to_langchain()]))
    question = asked(*[("wait", {"city": city}) for city in cities])
    assert tool_messages(app.invoke({"messages": [question]})) == expected
    assert tool_messages(asyncio.run(app.ainvoke({"messages": [question]}))) == expected
    app = graph_of(ToolNode([ToolSpec.from_function(await_all).to_langchain()]))
    question = asked(*[("await_all", {"city": city}) for city in cities])
    assert tool_messages(asyncio.run(app.ainvoke({"messages": [question]}))) == expected


def test_a_tool_node_takes_errors_and_tools_of_both_kinds():
    @tool(response_format="content_and_artifact")
    def whose(note: str, user: Annotated[str, InjectedState("user")]) -> tuple[str, Any]:
        """Say whose a note is."""
        return f"{note}: {user}", {"user": user}

    app = graph_of(ToolNode([spec_of(sink).to_langchain(), whose]))
    (name,) = [spec_of(sink).to_langchain().name]
    state = {"messages": [asked((name, {"city": "Rome"}), ("whose", {"note": "n1"}))], "user": "Bob"}
    expected = [("c0", "There is no Rome for Ann.", None, "error"), ("c1", "n1: Bob", {"user": "Bob"}, "success")]
    assert tool_messages(app.invoke(state)) == expected
    assert tool_messages(asyncio.run(app.ainvoke(state))) == expected


@pytest.mark.parametrize("is_async", [False, True])
def test_a_bound_value_comes_from_the_configuration_of_the_graph(is_async):
    spec = spec_of(forecast).bind("user", resolver=lambda: ensure_config()["configurable"]["user_id"])
    app = graph_of(ToolNode([spec.to_langchain()]))
    state, config = (
        {"messages": [asked((spec.to_langchain().name, {"city": "Oslo"}))]},
        {"configurable": {"user_id": "u7"}},
    )
    done = asyncio.run(app.ainvoke(state, config)) if is_async else app.invoke(state, config)
    assert tool_messages(done) == [("c0", "u7: 1 days of rain in Oslo", "u7: 1 days of rain in Oslo", "success")]


def tell_id(context: ToolContext) -> str:
    """Tell the id of the call."""
    return context.call_id or "no id"


async def atell_id(context: ToolContext) -> str:
    """Tell the id of the call."""
    return context.call_id or "no id"


@pytest.mark.parametrize("function", [tell_id, atell_id])
def test_the_context_of_a_tool_has_the_id_of_the_call(function):
    kit = Toolkit("k", middleware=[log(lambda line: None)]).add(function)
    name = function.__name__
    for spec in (ToolSpec.from_function(function), kit[name], Toolkit("plain").add(function).session()[name]):
        lc_tool = spec.to_langchain()
        assert [message.content for message in ways(lc_tool, tool_call(name, "c7"))] == ["c7", "c7"]
        app = graph_of(ToolNode([lc_tool]))
        messages = [message[:2] for message in tool_messages(app.invoke({"messages": [asked((name, {}), (name, {}))]}))]
        assert messages == [("c0", "c0"), ("c1", "c1")]
    assert lc_tool.invoke({}) != "c7"


def test_a_nested_call_does_not_get_the_id_of_the_outer_one():
    def outer(context: ToolContext) -> list[str]:
        """Call another tool."""
        return [context.call_id or "", context.toolkit.call("tell_id")]

    kit = Toolkit("k").add(tell_id).add(outer)
    first, second = kit["outer"].to_langchain().invoke(tool_call("outer", "c7")).artifact
    assert first == "c7"
    assert second != "c7"


def test_a_call_of_a_graph_can_be_cancelled_by_its_id():
    started = threading.Event()

    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.sleep(60)
        return "late"

    kit = Toolkit("k").add(wait)
    lc_tool = kit["wait"].to_langchain()
    canceller = threading.Thread(target=lambda: started.wait(60) and kit.cancel("c9"))
    canceller.start()
    message = lc_tool.invoke(tool_call("wait", "c9"))
    canceller.join()
    assert message.status == "error"
    assert "cancel" in message.content


def visit(city: str) -> Any:
    """Visit a city."""
    return Command(update={"user": city})


@tool
def visit_in_langchain(city: str) -> Any:
    """Visit a city."""
    return Command(update={"user": city})


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("source", [visit, visit_in_langchain], ids=["function", "langchain"])
def test_a_command_is_passed_on_to_the_graph_and_is_no_failure(source, is_async, caplog):
    lines: list[str] = []
    kit = Toolkit("k", middleware=[log(lines.append)]).add(source, name="visit")
    for spec in (kit["visit"], Toolkit("plain").add(source, name="visit")["visit"]):
        request = tool_call("visit", city="Oslo")
        lc_tool = spec.to_langchain()
        output = asyncio.run(lc_tool.ainvoke(request)) if is_async else lc_tool.invoke(request)
        assert output == Command(update={"user": "Oslo"})
    assert [line.partition(" in ")[0] for line in lines] == ['visit {"city": "Oslo"} -> passed to the graph']
    assert caplog.records == []
    result = kit.exec("visit", {"city": "Oslo"})
    assert result.error.code == "invalid_result"
    assert "only a LangGraph graph can apply" in caplog.text


def test_an_interrupt_is_not_logged_as_a_failure(caplog):
    def delete(path: str) -> str:
        """Delete a file."""
        return f"deleted {path}: {interrupt('really?')}"

    lines: list[str] = []
    kit = Toolkit("k", middleware=[log(lines.append)]).add(delete)
    app = graph_of(ToolNode([kit["delete"].to_langchain()]), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    waiting = app.invoke({"messages": [asked(("delete", {"path": "x"}))]}, config)
    assert [each.value for each in waiting["__interrupt__"]] == ["really?"]
    app.invoke(Command(resume="yes"), config)
    outcomes = [line.partition(" -> ")[2].partition(" in ")[0] for line in lines]
    assert outcomes == ["passed to the graph", "ok"]
    assert caplog.records == []


def greet(text: str, user: Annotated[str, InjectedState("user")]) -> str:
    """Greet somebody."""
    return f"{text}, {user}"


def count(text: str, state: Annotated[dict, InjectedState], store: Annotated[BaseStore, InjectedStore()]) -> str:
    """Count the messages."""
    store.put(("texts",), text, {"messages": len(state["messages"])})
    return f"{text} {store.get(('texts',), text).value['messages']}"


def look_up(text: str, runtime: ToolRuntime, nobody: Annotated[str, InjectedState("nobody")] = "nobody") -> str:
    """Look up."""
    return f"{text} {runtime.state['user']} {nobody}"


INJECTED = {
    "our functions": [ToolSpec.from_function(one).to_langchain() for one in (greet, count, look_up)],
    "their tools": [spec.to_langchain() for spec in Toolkit("k").add(*map(tool, (greet, count, look_up)))],
    "their tools in two toolkits": [
        spec.to_langchain() for spec in Toolkit("k").add(Toolkit("inner").add(*map(tool, (greet, count, look_up))))
    ],
    "LangChain alone": [*map(tool, (greet, count, look_up))],
}


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("tools", INJECTED.values(), ids=INJECTED)
def test_a_tool_node_injects_what_a_tool_asks_for(tools, is_async):
    app = graph_of(ToolNode(tools), store=InMemoryStore())
    question = asked(
        ("greet", {"text": "Hello"}), ("count", {"text": "n"}), ("look_up", {"text": "a"}), ("greet", {"text": "Bye"})
    )
    state = {"messages": [question], "user": "Ann"}
    done = asyncio.run(app.ainvoke(state)) if is_async else app.invoke(state)
    assert [content for _, content, _, _ in tool_messages(done)] == ["Hello, Ann", "n 1", "a Ann nobody", "Bye, Ann"]


@pytest.mark.parametrize(
    "spec", [ToolSpec.from_function(greet), ToolSpec.from_langchain(tool(greet))], ids=["ours", "theirs"]
)
def test_no_model_sees_or_passes_what_is_injected(spec):
    kit = Toolkit("k").add(spec)
    assert list(kit["greet"].to_langchain().args) == list(spec.params) == ["text"]
    (pair,) = kit.run(asked(("greet", {"text": "Hello", "user": "Eve"}))).results
    assert "unknown argument 'user'" in pair[1].text
    app = graph_of(ToolNode([kit["greet"].to_langchain()]))
    forged = asked(("greet", {"text": "Hello", "user": "Eve"}))
    done = app.invoke({"messages": [forged], "user": "Ann"})
    assert [content for _, content, _, _ in tool_messages(done)] == ["Hello, Ann"]


@pytest.mark.parametrize(
    "spec", [ToolSpec.from_function(greet), ToolSpec.from_langchain(tool(greet))], ids=["ours", "theirs"]
)
def test_outside_of_a_graph_injected_values_come_from_the_state(spec):
    with pytest.raises(UnboundStateError, match="set state key 'user'"):
        spec(text="Hello")
    session = Toolkit("k").add(spec).session(user="Bob")
    assert session.call("greet", {"text": "Hello"}) == "Hello, Bob"
    copied = pickle.loads(pickle.dumps(spec)) if spec.function is greet else spec.clone()
    copied.state["user"] = "Cleo"
    assert (copied(text="Hello"), copied.to_langchain().invoke({"text": "Hello"})) == ("Hello, Cleo", "Hello, Cleo")


def test_a_binding_of_the_host_has_priority_over_a_graph():
    kit = Toolkit("k").add(greet).bind("user", default="the host")
    app = graph_of(ToolNode([kit["greet"].to_langchain()]))
    done = app.invoke({"messages": [asked(("greet", {"text": "Hello"}))], "user": "Ann"})
    assert [content for _, content, _, _ in tool_messages(done)] == ["Hello, the host"]


def test_a_value_that_was_injected_reaches_no_other_call():
    kit = Toolkit("k").add(greet)

    @kit.tool
    def outer(text: str, user: Annotated[str, InjectedState("user")]) -> str:
        """Call another tool."""
        return str(kit.exec("greet", {"text": text}).error.code)

    app = graph_of(ToolNode([kit["outer"].to_langchain(), kit["greet"].to_langchain()]))
    question = asked(("outer", {"text": "x"}), ("greet", {"text": "Hello"}))
    done = app.invoke({"messages": [question], "user": "Ann"})
    assert [content for _, content, _, _ in tool_messages(done)] == ["unbound_state", "Hello, Ann"]
    assert kit.exec("greet", {"text": "Hello"}).error.code == "unbound_state"


def test_a_value_that_was_injected_reaches_no_later_call_in_the_same_context():
    spec = ToolSpec.from_function(greet)
    content, _ = spec.to_langchain()._run(text="Hello", user="Ann")
    assert content == "Hello, Ann"
    assert spec.exec(text="Hello").error.code == "unbound_state"


def test_a_toolkit_is_a_node():
    kit = Toolkit("weather").add(spec_of(forecast), spec_of(sink))
    app = graph_of(lambda state: {"messages": kit.run(state["messages"][-1]).messages})
    names = [each["function"]["name"] for each in kit.to("langchain")]
    question = asked((names[0], {"city": "Oslo", "days": 2}), (names[1], {"city": "Rome"}))
    assert tool_messages(app.invoke({"messages": [question]})) == [
        ("c0", "Ann: 2 days of rain in Oslo", None, "success"),
        ("c1", "There is no Rome for Ann.", None, "error"),
    ]


# their tools here


class Address(pydantic.BaseModel):
    street: str
    number: Annotated[int, pydantic.Field(gt=0)] = 1


class Old(pydantic.v1.BaseModel):
    a: int
    b: str = "x"


@tool
def ship(to: Address, note: Annotated[str, "what is written on it"] = "") -> str:
    """Ship a parcel."""
    return f"{to.street} {to.number} {note}"


@tool
def plus(a: int, b: int = 2) -> int:
    """Add."""
    if a < 0:
        raise ToolException("only positive numbers")
    return a + b


class Own(BaseTool):
    name: str = "own"
    description: str = "Its own class."

    def _run(self, query: str, limit: int = 3) -> list[str]:
        return [query] * limit


class AsyncOwn(Own):
    async def _arun(self, query: str, limit: int = 3) -> list[str]:
        return [query.upper()] * limit


def described(properties: str) -> dict[str, Any]:
    return {"type": "object", "properties": {properties: {"type": "string"}}, "required": [properties]}


KINDS: dict[str, tuple[BaseTool, dict[str, Any], Any]] = {
    "a model": (ship, {"to": {"street": "Elm"}, "note": "hi"}, "Elm 1 hi"),
    "the model of an old pydantic": (
        StructuredTool.from_function(lambda a, b: f"{a}{b}", name="old", description="Old.", args_schema=Old),
        {"a": 1},
        "1x",
    ),
    "a JSON Schema": (
        StructuredTool.from_function(
            lambda **values: values, name="schema", description="Any.", args_schema=described("first-name")
        ),
        {"first-name": "Ann"},
        {"first-name": "Ann"},
    ),
    "one text": (Tool(name="upper", description="Upper.", func=str.upper), {"tool_input": "a"}, "A"),
    "a class": (Own(), {"query": "q", "limit": 2}, ["q", "q"]),
    "an async class": (AsyncOwn(), {"query": "q", "limit": 1}, ["Q"]),
}


@pytest.mark.parametrize(("lc_tool", "arguments", "value"), KINDS.values(), ids=KINDS)
def test_a_tool_of_any_kind_runs_from_sync_and_async_code(lc_tool, arguments, value):
    spec = ToolSpec.from_langchain(lc_tool)
    assert (spec.name, spec.description) == (lc_tool.name, lc_tool.description)
    assert spec(**arguments) == value
    assert asyncio.run(spec.acall(**arguments)) == value
    assert [result.value for result in spec.stream(**arguments)] == [value]
    kit = Toolkit("k").add(lc_tool)
    assert kit.call(lc_tool.name, arguments) == value
    assert pickle.loads(pickle.dumps(ToolSpec.from_langchain(plus)))(a=1) == 3


def test_the_schema_is_what_a_model_sees():
    spec = ToolSpec.from_langchain(ship)
    assert spec.input_schema == {
        "type": "object",
        "properties": {
            "to": {"$ref": "#/$defs/Address"},
            "note": {"type": "string", "description": "what is written on it", "default": ""},
        },
        "required": ["to"],
        "$defs": {
            "Address": {
                "type": "object",
                "properties": {
                    "street": {"type": "string"},
                    "number": {"type": "integer", "default": 1, "exclusiveMinimum": 0},
                },
                "required": ["street"],
            }
        },
    }


def test_arguments_that_the_tool_itself_refuses_are_named_but_not_shown():
    class Even(pydantic.BaseModel):
        number: int
        word: str = "x"

        @pydantic.field_validator("number")
        @classmethod
        def is_even(cls, number: int) -> int:
            if number % 2:
                raise ValueError(f"{number} is odd")
            return number

    def even(number: int, word: str) -> str:
        return Address.model_validate({"number": 987654}).street

    lc_tool = StructuredTool.from_function(even, description="Even.", args_schema=Even)
    spec = ToolSpec.from_langchain(lc_tool)
    assert spec.exec(number=987653).text == "Invalid arguments: 'number' is not valid (value_error)."
    assert spec.exec(number=4).text.startswith("ValidationError: ")


def test_a_tool_exception_speaks_to_the_model():
    result = ToolSpec.from_langchain(plus).exec(a=-1)
    assert (result.error.code, result.text) == ("tool_error", "only positive numbers")
    kind = type(plus)
    handled = kind(**{**dict(plus), "handle_tool_error": lambda error: f"handled: {error}"})
    assert ToolSpec.from_langchain(handled).exec(a=-1).text == "handled: only positive numbers"
    assert ToolSpec.from_langchain(handled).exec(a=-1).is_error


def test_an_artifact_is_the_value_and_the_content_is_for_models():
    rows = [{"id": 1}]

    @tool(response_format="content_and_artifact")
    async def query(sql: str) -> tuple[Any, Any]:
        """Query."""
        picture = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
        return ([{"type": "text", "text": "one row"}, picture] if sql == "draw" else "one row"), rows

    spec = ToolSpec.from_langchain(query)
    assert spec(sql="x") == rows
    result = spec.exec(sql="draw")
    assert [block.type for block in result.content] == ["text", "image"]
    run = Toolkit("k").add(query).run(asked(("query", {"sql": "x"})))
    assert [(message["content"], message.get("artifact")) for message in run.messages] == [("one row", None)]
    assert [result.value for _, result in run.results] == [rows]
    (message, _) = ways(spec.to_langchain(), tool_call("query", sql="draw"))
    assert [block["type"] for block in message.content] == ["text", "image"]
    assert message.artifact == rows


def test_injected_arguments_are_bound_to_the_state_and_no_model_passes_them():
    @tool
    def look(
        city: str,
        state: Annotated[dict, InjectedState],
        call_id: Annotated[str, InjectedToolCallId],
        limit: Annotated[int, InjectedToolArg] = 3,
    ) -> str:
        """Look."""
        return f"{city} {state['user']} {call_id} {limit}"

    spec = ToolSpec.from_langchain(look, binds={"limit": "limits.look"})
    assert list(spec.params) == ["city"]
    assert dict(spec.binds) == {"state": "state", "limit": "limits.look"}
    with pytest.raises(UnboundStateError, match="set state key 'state'"):
        spec(city="Oslo")
    spec.state = {"state": {"user": "Ann"}}
    kit = Toolkit("k").add(spec)
    run = kit.run(asked(("look", {"city": "Oslo"}), ("look", {"city": "Rome"})))
    assert [result.text for _, result in run.results] == ["Oslo Ann c0 3", "Rome Ann c1 3"]
    spec.state["limits"] = {"look": 5}
    assert asyncio.run(spec.acall(city="Oslo")).endswith(" 5")
    for name in ("state", "call_id", "limit"):
        assert f"unknown argument {name!r}" in spec.exec(**{"city": "Oslo", name: "forged"}).text
    session = kit.session({"state": {"user": "Bob"}})
    assert session.call("look", {"city": "Oslo"}).startswith("Oslo Bob ")


def test_no_arguments_replace_an_injected_one():
    @tool
    def look(city: str, user: Annotated[str, InjectedToolArg]) -> str:
        """Look."""
        return f"{city} {user}"

    spec = ToolSpec.from_langchain(look)
    spec.state["user"] = "Ann"
    forged = {**tool_call("look", city="Rome", user="Bob"), "city": "Oslo"}
    assert [spec(**forged), asyncio.run(spec.acall(**forged))] == ["Oslo Ann"] * 2


def test_an_injected_argument_of_the_signature_alone_is_bound_too():
    def look(city: str, user: Annotated[str, InjectedState("user")]) -> str:
        return f"{city} {user}"

    lc_tool = StructuredTool.from_function(look, description="Look.", args_schema=described("city"))
    spec = ToolSpec.from_langchain(lc_tool, binds={"user": "session.user"})
    spec.state["session"] = {"user": "Ann"}
    assert (list(spec.params), spec(city="Oslo")) == (["city"], "Oslo Ann")


def who(text: str, config: RunnableConfig) -> str:
    """Say who is calling."""
    return f"{text} {config.get('configurable', {}).get('user_id')}"


async def awho(text: str, config: RunnableConfig) -> str:
    """Say who is calling."""
    return who(text, config)


def optional_who(text: str, config: RunnableConfig | None = None) -> str:
    """Say who is calling."""
    return who(text, config or {})


class Who(BaseTool):
    name: str = "who"
    description: str = "Say who is calling."

    def _run(self, text: str, config: RunnableConfig) -> str:
        return who(text, config)


@pytest.mark.parametrize(
    "source",
    [who, awho, optional_who, tool(who), tool(awho), Who()],
    ids=["function", "async function", "optional", "tool", "async tool", "class"],
)
def test_a_config_is_that_of_the_state_or_of_langchain_and_no_callers(source):
    kit = Toolkit("k").add(source, name="who")
    forged = {"configurable": {"user_id": "forged"}}
    for export in (
        kit.to("openai"),
        kit.to("anthropic"),
        kit.to_prompt(),
        kit.to("langchain"),
        kit["who"].input_schema,
    ):
        assert "config" not in str(export)
    assert "unknown argument 'config'" in kit.exec("who", {"text": "x", "config": forged}).text
    assert kit.call("who", {"text": "x"}) == "x None"
    own = {"configurable": {"user_id": "Ann"}}
    session = kit.session(config=own)
    assert [session.call("who", {"text": "x"}), asyncio.run(session.acall("who", {"text": "x"}))] == ["x Ann"] * 2
    in_langchain = {"configurable": {"user_id": "Bob"}}
    assert RunnableLambda(lambda text: kit.call("who", {"text": text})).invoke("x", in_langchain) == "x Bob"
    assert RunnableLambda(lambda text: session.call("who", {"text": text})).invoke("x", in_langchain) == "x Ann"
    exported = kit["who"].to_langchain()
    assert list(exported.args) == ["text"]
    assert exported.invoke({"text": "x"}, in_langchain) == "x Bob"
    assert exported.invoke({"text": "x", "config": forged}, in_langchain) != "x forged"
    bound = Toolkit("bound", state={"settings": {"lc": own}}).add(source, name="who", binds={"config": "settings.lc"})
    assert bound.call("who", {"text": "x"}) == "x Ann"


def test_a_config_survives_a_pickle_and_data():
    spec = ToolSpec.from_function(who)
    again = pickle.loads(pickle.dumps(spec))
    read = ToolSpec.from_dict(spec.to_dict(), trust=["*"])
    for copy in (again, read):
        copy.state["config"] = {"configurable": {"user_id": "Ann"}}
        assert (list(copy.params), copy(text="x")) == (["text"], "x Ann")


def test_a_tool_takes_the_configuration_of_the_run_around_it():
    @tool
    def whoami(config: RunnableConfig) -> str:
        """Say who is calling."""
        return config["metadata"]["user_id"]

    @tool
    async def awhoami(config: RunnableConfig) -> str:
        """Say who is calling."""
        return config["metadata"]["user_id"]

    config = {"metadata": {"user_id": "u7"}}
    for lc_tool in (whoami, awhoami):
        spec = ToolSpec.from_langchain(lc_tool)
        assert spec.params == {}
        assert RunnableLambda(lambda _, spec=spec: spec()).invoke("x", config) == "u7"

        async def call(_: Any, spec: ToolSpec = spec) -> Any:
            return await spec.acall()

        assert asyncio.run(RunnableLambda(call).ainvoke("x", config)) == "u7"


def test_a_command_for_a_graph_is_no_result():
    @tool
    def go(city: str) -> Any:
        """Go."""
        return Command(update={"user": city})

    result = ToolSpec.from_langchain(go).exec(city="Oslo")
    assert (result.error.code, "Oslo" in result.text) == ("invalid_result", False)
    assert "only a LangGraph graph can apply" in str(result.exception)


MODULE = """
from typing import Any
from langchain_core.tools import BaseTool, tool
from ahvn_tools import ToolSpec

@tool
def lower(text: str) -> str:
    "Write small."
    return text.lower()

class Own(BaseTool):
    name: str = "own"
    description: str = "Base of others."
    prefix: str = ""

class Upper(Own):
    name: str = "upper"

    def _run(self, text: str) -> str:
        return self.prefix + text.upper()

title = ToolSpec.from_schema("title", {"type": "object"}, lambda **words: words).to_langchain()
_hidden = Upper(name="hidden")
"""


def test_a_python_file_has_langchain_tools_and_their_classes(tmp_path):
    file = tmp_path / "their_tools.py"
    file.write_text(MODULE)
    kit = load(str(file))
    assert [spec.name for spec in kit] == ["lower", "upper", "title"]
    assert kit.call("upper", {"text": "tea"}) == "TEA"
    other = tmp_path / "their_instance.py"
    other.write_text(MODULE + "\nmine = Upper(name='mine', prefix='> ')\n")
    assert [spec.name for spec in load(str(other))] == ["lower", "title", "mine"]
    needy = tmp_path / "their_needs.py"
    needy.write_text(MODULE + "\nclass Needy(Upper):\n    key: str\n")
    with pytest.raises(SourceError, match=r"the class 'Needy' needs arguments \(key\)"):
        load(str(needy))


def test_tags_metadata_and_options_of_a_tool():
    metadata = {"cost": 3, "object": object()}
    paid = StructuredTool.from_function(
        lambda: "x", name="paid", description="Paid.", return_direct=True, tags=["a"], metadata=metadata
    )
    spec = ToolSpec.from_langchain(paid)
    assert (spec.tags, spec.definition.meta) == ({"a"}, {"cost": 3, "return_direct": True})
    spec = ToolSpec.from_langchain(paid, name="p", description="P.", tags={"b"}, meta={}, timeout=60)
    assert (spec.name, spec.description, spec.tags, spec.timeout, spec()) == ("p", "P.", {"b"}, 60, "x")
    with pytest.raises(DefinitionError, match="'parse_docstring' is an option for Python functions"):
        ToolSpec.from_langchain(paid, parse_docstring=True)
    renamed = ToolSpec.from_langchain(plus, arguments={"a": {"name": "first"}}).transform(preset={"b": 5})
    assert (list(renamed.params), renamed(first=1)) == (["first"], 6)


# messages

CALLS = [("c0", "ping", {"city": "Oslo"}), ("c1", "ping", {})]


def calls_of(response: Any) -> list[tuple[str, str, dict[str, Any]]]:
    calls = langchain.calls(response)
    assert [call.error for call in calls] == [None] * len(calls)
    return [(call.id, call.name, call.arguments) for call in calls]


def test_a_message_is_read_in_every_form():
    message = AIMessage("hello", tool_calls=[tool_call(name, call_id, **args) for call_id, name, args in CALLS])
    history = [HumanMessage("x"), AIMessage("", tool_calls=[tool_call("old")]), message]
    for form in (
        message,
        [message],
        history,
        messages_to_dict(history),
        message.model_dump(),
        message.model_dump_json(),
        message.to_json(),
        message_to_dict(message),
        message.tool_calls,
        AIMessage(content_blocks=message.content_blocks),
        AIMessageChunk("", tool_calls=message.tool_calls),
    ):
        assert calls_of(form) == CALLS
    assert calls_of([*history, ToolMessage("x", tool_call_id="c0")]) == []


def chunks(*fragments: tuple[Any, Any, str]) -> list[AIMessageChunk]:
    made = [
        AIMessageChunk("", tool_call_chunks=[{"id": i, "name": n, "args": a, "index": 0 if i in {"c0", None} else 1}])
        for i, n, a in fragments
    ]
    return [*made, AIMessageChunk("", response_metadata={"finish_reason": "tool_calls"}, chunk_position="last")]


def test_a_stream_is_read_while_it_arrives_and_as_a_whole():
    events = chunks(("c0", "ping", ""), (None, None, '{"city": '), (None, None, '"Oslo"}'), ("c1", "ping", "{}"))
    assert [(call.id, call.name, call.arguments) for call in langchain.stream(iter(events))] == CALLS
    assert calls_of(events) == CALLS
    whole = events[0]
    for event in events[1:]:
        whole += event
    assert calls_of(whole) == CALLS

    async def read() -> list[Any]:
        async def arrive():
            for event in events:
                yield event

        return [call.arguments async for call in langchain.stream(arrive())]

    assert asyncio.run(read()) == [{"city": "Oslo"}, {}]


def test_a_call_that_langchain_has_completed_is_not_run():
    """LangChain closes the JSON of a stream that broke off."""
    cut = AIMessageChunk("", tool_call_chunks=[{"id": "c0", "name": "rm", "args": '{"path": "/a', "index": 0}])
    assert cut.tool_calls[0]["args"] == {"path": "/a"}
    (call,) = langchain.calls(cut)
    assert (call.arguments, call.error[:30]) == ({}, "The arguments are not valid JS")


def test_an_invalid_call_is_answered_with_an_error():
    invalid = {"type": "invalid_tool_call", "id": "c1", "name": "plus", "args": '{"a": s3cret', "error": "no JSON"}
    message = AIMessage("", tool_calls=[tool_call("plus", "c0", a=1)], invalid_tool_calls=[invalid])
    run = Toolkit("k").add(plus).run(message)
    assert [result.error and result.error.code for _, result in run.results] == [None, "invalid_parameters"]
    good, bad = convert_to_messages(run.messages)
    assert (good.tool_call_id, good.content, good.artifact, good.status) == ("c0", "3", 3, "success")
    assert (bad.tool_call_id, bad.status) == ("c1", "error")
    assert "s3cret" not in bad.content


def test_the_container_of_a_program_is_read_from_the_metadata_of_a_message():
    metadata = {"stop_reason": "pause_turn", "container": {"id": "container_1", "expires_at": "2099-01-01T00:00:00Z"}}
    message = AIMessage(content="", response_metadata=metadata)
    chunks = [AIMessageChunk(content=""), AIMessageChunk(content="", response_metadata=metadata, chunk_position="last")]
    forms = [message, [HumanMessage("How much?"), message], message_to_dict(message), message.to_json(), chunks]
    for form in forms:
        run = Toolkit("empty").run(form, format="langchain")
        assert (run.container.id, run.is_paused) == ("container_1", True)


def test_results_are_messages_of_langchain():
    kit = Toolkit("k").add(spec_of(forecast), spec_of(sink), spec_of(draw), plus)
    names = [each["function"]["name"] for each in kit.to("langchain")]
    cities = [(name, {"city": "Rome"}) for name in names[:3]]
    messages = kit.run(asked(*cities, ("plus", {"a": 1}))).messages
    expected = [
        ("c0", "Ann: 1 days of rain in Rome", None, "success"),
        ("c1", "There is no Rome for Ann.", None, "error"),
        ("c2", [{"type": "image", "base64": PIXEL, "mime_type": "image/png"}], None, "success"),
        ("c3", "3", 3, "success"),
    ]
    for made in (convert_to_messages(messages), [ToolMessage(**message) for message in messages]):
        assert tool_messages({"messages": made}) == expected
        assert [message.name for message in made] == names


def test_a_message_that_is_written_is_one_of_langchain():
    calls = langchain.calls(AIMessage("", tool_calls=[tool_call("ping", "c0", city="Oslo")]))
    (fields,) = langchain.message(calls, text="Let me see.")
    for message in (AIMessage(**fields), *convert_to_messages([fields])):
        assert (message.content, message.tool_calls) == ("Let me see.", [tool_call("ping", "c0", city="Oslo")])


@pytest.mark.parametrize("name", sorted({*formats.BUILT_IN} - {"langchain", "prompt"}))
def test_another_format_refuses_a_message_of_langchain(name):
    for message in (AIMessage("", tool_calls=[tool_call("ping")]), [AIMessage("hello")]):
        with pytest.raises(TypeError, match=r"^AIMessage is no answer .* Read it with the format 'langchain'\.$"):
            formats.get(name).calls(message)
    with pytest.raises(TypeError, match="AIMessageChunk is no answer"):
        list(formats.get(name).stream([AIMessageChunk("")]))


class Parrot(BaseChatModel):
    """Calls the tool `forecast` for two cities, then repeats what it has said; it can stream."""

    tools: list[str] = []

    @property
    def _llm_type(self) -> str:
        return "parrot"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        assert options == {"tool_choice": "auto"}
        return Parrot(tools=[tool["function"]["name"] for tool in tools])

    def _chunks(self, messages: Any) -> list[AIMessageChunk]:
        said = [message.content for message in messages if message.type == "tool"]
        if said:
            assert [len(message.tool_calls) for message in messages if message.type == "ai"] == [2]
            return [AIMessageChunk("The tool said: "), AIMessageChunk(" | ".join(said))]
        made = [(0, "c0", '{"city": "Oslo", "days": 2}'), (1, "c1", '{"city": "Rome"}')]
        calls = [
            {"type": "tool_call_chunk", "index": index, "id": i, "name": self.tools[0], "args": text}
            for index, i, text in made
        ]
        return [AIMessageChunk("", tool_call_chunks=[call]) for call in calls]

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        first, *rest = self._chunks(messages)
        whole = sum(rest, first)
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        message = AIMessage(whole.content, tool_calls=whole.tool_calls, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(self, messages: Any, *_: Any, **__: Any) -> Any:
        for chunk in self._chunks(messages):
            yield ChatGenerationChunk(message=chunk)


@each_form
def test_a_chat_model_converses(stream):
    model = langchain.model(Parrot(), stream=stream, tool_choice="auto", export={"strict": True})
    session = session_of(forecast)
    conversation = session.converse(model, [HumanMessage("How will it be?")])
    assert (conversation.text, conversation.stop_reason, conversation.turns) == (SAID, "answered", 2)
    assert conversation.usage.total_tokens == (0 if stream else 4)
    check_events(list(session.stream_converse(model, "How will it be?")), stream)
    waiting = session_of(forecast, requires_approval=True).converse(model, [HumanMessage("How will it be?")])
    later = Conversation.from_json(json.loads(json.dumps(waiting.to_json())))
    assert session_of(forecast, requires_approval=True).converse(model, later, approved=True).text == SAID


@each_form
async def test_a_chat_model_converses_in_async_code(stream):
    model = langchain.model(Parrot(), stream=stream, tool_choice="auto")
    events = [event async for event in session_of(forecast).astream_converse(model, "How will it be?")]
    check_events(events, stream)


def test_the_examples_of_the_page_run():
    """They are marked `py`: the other examples of docs/ run without LangChain."""
    page = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "langchain.md"
    blocks = re.findall(r"^```py\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    exec(compile("\n".join(blocks), str(page), "exec"), {"__name__": "__main__"})
