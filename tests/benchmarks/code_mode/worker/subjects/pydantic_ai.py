"""The capability `CodeMode` of Pydantic AI's harness, in runs of an agent whose model is a function."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_harness import CodeMode

from tests.benchmarks.code_mode.worker import github_task
from tests.benchmarks.code_mode.worker.conversation import Conversation, results_of
from tests.benchmarks.code_mode.worker.subject import PackageSubject, add


class Subject(PackageSubject):
    """An agent that runs one program and answers with its result."""

    lacks = {
        "thousand": "has no sessions outside of an agent's run",
        "serve": "does not serve tools",
    }

    def __init__(self) -> None:
        self._agent = _agent([Tool(add, takes_ctx=False)], self._answer)
        self._code = ""
        self._is_open = False

    async def run(self, code: str) -> Any:
        if not self._is_open:
            await self._agent.__aenter__()
            self._is_open = True
        self._code = code
        return json.loads((await self._agent.run("Add.")).output)

    async def read(self, corpus: Path) -> list[dict[str, Any]]:
        tools = [
            Tool.from_schema(partial(_result, row["name"]), row["name"], row["description"], row["inputSchema"])
            for row in github_task.recorded_rows(corpus)
        ]
        requests: list[tuple[list[ModelMessage], AgentInfo]] = []

        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            requests.append((messages, info))
            is_answered = messages[-1].parts[-1].part_kind == "tool-return"
            return _text(github_task.END) if is_answered else _program(github_task.PROGRAM)

        await _agent(tools, answer).run(github_task.QUESTION)
        functions = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema}
            for tool in requests[0][1].function_tools
        ]
        conversation = Conversation(
            "pydantic-ai-harness",
            github_task.QUESTION,
            [{"type": "function", "function": function} for function in functions],
        )
        message = conversation.ask([("run_code", {"code": github_task.PROGRAM})])
        texts = [json.dumps(requests[1][0][-1].parts[-1].content)]
        conversation.answer(results_of(message, texts))
        conversation.end(github_task.END)
        others = [
            {"name": each["name"], "description": each["description"], "input_schema": each["parameters"]}
            for each in functions
        ]
        sizes = [conversation.size_of(texts)]
        return [{**conversation.facts(), "anthropic": conversation.size_of(others), "answers": sizes}]

    async def close(self) -> None:
        if self._is_open:
            await self._agent.__aexit__(None, None, None)

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last: Any = messages[-1].parts[-1]
        return _text(str(last.content)) if last.part_kind == "tool-return" else _program(self._code)


def _agent(tools: list[Any], answer: Callable[[list[ModelMessage], AgentInfo], ModelResponse]) -> Agent[None, str]:
    return Agent(FunctionModel(answer), tools=tools, capabilities=[CodeMode()])


def _text(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def _program(code: str) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart("run_code", {"code": code})])


async def _result(name: str, **arguments: Any) -> dict[str, Any]:
    return github_task.result(name, arguments)
