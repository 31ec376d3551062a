"""The tool system in LangChain and LangGraph: a ToolNode runs its tools, several at once, with injected state."""

from __future__ import annotations

import asyncio
import operator
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langchain_core", reason='needs LangChain: pip install "ahvn-tools[langchain]"')
pytest.importorskip("langgraph.prebuilt", reason='needs LangGraph: pip install -e ".[sdks,sdk-tests]"')

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool as langchain_tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode

from ahvn_tools import Toolkit
from ahvn_tools.compat.toolsystem import ToolExecutor, ToolFormatter, ToolManager, tool
from ahvn_tools.compat.toolsystem import ToolMessage as ToolResultMessage
from tests.compat.tool_files import forgotten_modules, write

__all__ = ["forgotten_modules"]


class State(MessagesState):
    user: str


@tool
def calculate(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


@tool
def sign(text: str, user: Annotated[str, InjectedState("user")]) -> str:
    """Sign a text."""
    return f"{text}, {user}"


@langchain_tool
def whose(note: str, user: Annotated[str, InjectedState("user")]) -> str:
    """Say whose a note is."""
    return f"{note}: {user}"


def answers(tools: list[Any], *calls: tuple[str, dict[str, Any]], is_async: bool = False) -> list[tuple[Any, str]]:
    """Return content and status of the messages that a graph with a ToolNode answers these calls with."""
    graph = StateGraph(State)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    app = graph.compile()
    items = [
        {"type": "tool_call", "id": f"c{number}", "name": name, "args": arguments}
        for number, (name, arguments) in enumerate(calls)
    ]
    state: Any = {"messages": [AIMessage("", tool_calls=items)], "user": "Ann"}
    done = asyncio.run(app.ainvoke(state)) if is_async else app.invoke(state)
    found = [message for message in done["messages"] if isinstance(message, ToolMessage)]
    assert [message.tool_call_id for message in found] == [f"c{number}" for number in range(len(calls))]
    return [(message.content, message.status) for message in found]


each_way = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@each_way
def test_a_tool_node_runs_calls_of_one_tool_at_once(is_async):
    together = threading.Barrier(3, timeout=30)

    @tool
    def meet(number: int) -> int:
        """Wait for the others."""
        together.wait()
        return number

    calls = [("meet", {"number": number}) for number in range(3)]
    expected = [(str(number), "success") for number in range(3)]
    assert answers([meet], *calls, is_async=is_async) == expected
    assert answers(ToolExecutor().guard(meet), *calls, is_async=is_async) == expected


@each_way
def test_a_tool_node_injects_state_into_tools_of_all_kinds(is_async):
    calls = [("sign", {"text": "Bye"}), ("whose", {"note": "n1"}), ("sign", {"text": "Hello"})]
    expected = [("Bye, Ann", "success"), ("n1: Ann", "success"), ("Hello, Ann", "success")]
    assert answers([sign, whose], *calls, is_async=is_async) == expected
    assert answers(ToolExecutor().guard(sign, whose), *calls, is_async=is_async) == expected


def test_no_model_sees_or_passes_what_is_injected():
    assert [list(each.args) for each in ToolExecutor().guard(sign, whose)] == [["text"], ["note"]]
    assert answers([sign], ("sign", {"text": "Bye", "user": "Eve"})) == [("Bye, Ann", "success")]
    message = ToolExecutor().execute(sign, {"text": "Bye", "user": "Eve"})
    assert message.error == "invalid_parameters"


def test_outside_of_a_graph_there_is_nothing_to_inject():
    message = ToolExecutor().execute(sign, {"text": "Bye"})
    assert message.error == "unbound_state"


@each_way
def test_loaded_tools_run_in_a_tool_node(tmp_path, is_async):
    body = "(text: str, user: Annotated[str, InjectedState('user')]) -> str:\n    'Sign.'\n    return text + user\n"
    files = {
        "tools/builtin/ours.py": "from typing import Annotated\nfrom langgraph.prebuilt import InjectedState\n"
        "from ahvn_tools.compat.toolsystem import tool\n@tool\n"
        f"def ours{body}",
        "tools/builtin/theirs.py": "from typing import Annotated\nfrom langgraph.prebuilt import InjectedState\n"
        "from langchain_core.tools import tool\n@tool\n"
        f"def theirs{body}",
    }
    tools = ToolManager(write(tmp_path, files)).load_tools()
    calls = [("ours", {"text": "a"}), ("theirs", {"text": "b"})]
    expected = [("aAnn", "success"), ("bAnn", "success")]
    assert answers(tools, *calls, is_async=is_async) == expected
    assert answers(ToolExecutor().guard(*tools), *calls, is_async=is_async) == expected


def test_errors_and_timeouts_are_messages_of_the_graph():
    @tool
    async def sleep() -> None:
        """Sleep."""
        await asyncio.sleep(1)

    guarded = ToolExecutor(timeout=0.05).guard(sleep, calculate)
    found = answers(guarded, ("sleep", {}), ("calculate", {"a": True, "b": 2}), ("calculate", {"a": 1, "b": 2}))
    assert [status for _, status in found] == ["error", "error", "success"]
    assert "did not finish within 0.05 seconds" in found[0][0]
    assert found[1][0] == "Invalid arguments: 'a' should be a valid integer."


def test_calls_in_a_graph_are_logged_and_measured():
    lines, calls = [], []

    class Logger:
        def info(self, message: str) -> None:
            lines.append(message)

    class Metrics:
        def record_tool_metric(self, tool: str, success: bool, duration: float, error_type: str | None = None) -> None:
            calls.append((tool, success, error_type))

    guarded = ToolExecutor(logger=Logger(), metrics=Metrics()).guard(calculate)
    answers(guarded, ("calculate", {"a": 1, "b": 2}), ("calculate", {"a": 1}))
    assert sorted(calls, key=str) == [("calculate", False, "invalid_parameters"), ("calculate", True, None)]
    assert len(lines) == 2


def test_messages_go_into_the_state_of_an_agent():
    class AgentState(TypedDict):
        calls: list[dict[str, Any]]
        results: Annotated[list[ToolResultMessage], operator.add]

    executor = ToolExecutor()

    def run_calls(state: AgentState) -> dict[str, Any]:
        return {"results": executor.execute_parallel([(calculate, call) for call in state["calls"]])}

    graph = StateGraph(AgentState)
    graph.add_node("tools", run_calls)
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    done = graph.compile().invoke({"calls": [{"a": 1, "b": 2}, {"a": 1}], "results": []})
    assert [(message.tool_name, message.output, message.error) for message in done["results"]] == [
        ("calculate", 3, None),
        ("calculate", None, "invalid_parameters"),
    ]


def test_calls_of_a_message_of_langchain_are_read():
    message = AIMessage(
        "", tool_calls=[{"type": "tool_call", "id": "c1", "name": "calculate", "args": {"a": 1, "b": 2}}]
    )
    run = Toolkit("tools").add(calculate).run(message)
    assert [result.value for _, result in run.results] == [3]
    assert ToolFormatter(native="langchain").format(calculate, {"a": 1, "b": 2})["tool_calls"][0]["args"] == {
        "a": 1,
        "b": 2,
    }


def test_without_langchain_the_import_says_what_to_install(tmp_path):
    code = (
        "import sys\nsys.modules['langchain_core'] = None\n"
        "try:\n    import ahvn_tools.compat.toolsystem\nexcept ImportError as error:\n    print(error)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment, timeout=60
    )
    assert done.stdout == 'LangChain tools need langchain-core: pip install "ahvn-tools[langchain]"\n'


def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    """They are marked `py`: the other examples of docs/ run without LangChain."""
    page = (Path(__file__).parents[2] / "docs" / "migrating" / "toolsystem.md").read_text("utf-8")
    blocks = re.findall(r"^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks), "migrating-toolsystem.md", "exec"), {"__name__": "__main__"})
