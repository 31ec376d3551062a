"""LangChain: a toolkit runs the calls of an AIMessage, one of them with LangChain's tool, and LangChain runs ours.

    python examples/langchain_tools.py

It needs neither a key nor a server: a script answers in place of the model.
"""

from __future__ import annotations

from typing import Annotated, Any

from provider import require_sdk

from ahvn_tools import Toolkit

with require_sdk("langchain"):
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.messages.tool import tool_call
    from langchain_core.tools import InjectedToolArg, tool


@tool
def count(title: str, library: Annotated[str, InjectedToolArg]) -> str:
    """Count the copies of a book."""
    return f"{len(title)} copies of {title} in {library}"


def reserve(title: str, library: str) -> str:
    """Reserve a book."""
    return f"{title} is reserved in {library}"


kit = Toolkit("books").add(count, reserve).bind("library")
session = kit.session(library="Oslo")

first = tool_call(id="call_1", name="count", args={"title": "Emma"})
second = tool_call(id="call_2", name="reserve", args={"title": "Emma"})
script = GenericFakeChatModel(messages=iter([AIMessage("", tool_calls=[first, second]), AIMessage("Done.")]))
model = script.bind(tools=session.to("langchain"))  # a real model has `bind_tools` for this

messages: list[Any] = [("user", "Reserve Emma.")]
while results := session.run(answer := model.invoke(messages)).messages:
    messages += [answer, *results]

# The other direction: tools of a session for LangChain's agents, and for LangGraph's ToolNode.
tools = {spec.name: spec.to_langchain() for spec in session}
again = tools["reserve"].invoke(tool_call(id="call_3", name="reserve", args={"title": "Ulysses"}))
said = [message["content"] for message in messages if isinstance(message, dict)]
print(f"The tool said: {', '.join([*said, again.content])}")
