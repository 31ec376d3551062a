"""FastMCP's experimental transform `CodeMode`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fastmcp import FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode

from tests.benchmarks.code_mode.worker import github_task
from tests.benchmarks.code_mode.worker.conversation import Call, Conversation, results_of
from tests.benchmarks.code_mode.worker.subject import PackageSubject, add


class Subject(PackageSubject):
    """A server whose tools are called in programs."""

    lacks = {
        "thousand": "has no sessions of the application, and starts a process for each program",
    }

    title = "fastmcp"
    programs = {
        "three": "first = (await call_tool('add', {'left': 1, 'right': 2}))['result']\n"
        "second = (await call_tool('add', {'left': first, 'right': 3}))['result']\n"
        "return (await call_tool('add', {'left': second, 'right': 4}))['result']",
        "twenty": "total = 0\nfor number in range(20):\n"
        "    total = (await call_tool('add', {'left': total, 'right': number}))['result']\nreturn total",
        "gathered": "import asyncio\n\n"
        "sums = await asyncio.gather(*[call_tool('add', {'left': number, 'right': 0}) for number in range(20)])\n"
        "return sum([each['result'] for each in sums])",
    }

    def __init__(self) -> None:
        self._server = self._made("numbers")
        self._server.tool(add)

    def _made(self, name: str) -> FastMCP[Any]:
        return FastMCP(name, transforms=[CodeMode()])

    async def run(self, code: str) -> Any:
        return self.value_of(await self._server.call_tool("execute", {"code": code}))

    def serve(self, transport: str, port: int) -> None:
        if transport == "stdio":
            self._server.run(transport="stdio", show_banner=False, log_level="ERROR")
        else:
            self._server.run(transport="http", host="127.0.0.1", port=port, show_banner=False, log_level="ERROR")

    def program_call(self, code: str) -> tuple[str, dict[str, Any]]:
        return "execute", {"code": code}

    def value_of(self, result: Any) -> Any:
        return json.loads(result.content[0].text)

    async def read(self, corpus: Path) -> list[dict[str, Any]]:
        server = self._made("github")
        for tool in github_task.recorded_tools(corpus):
            server.add_tool(tool)
        listed = await server.list_tools()
        functions = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in listed
        ]
        tools = [{"type": "function", "function": function} for function in functions]
        conversation = Conversation(self.title, github_task.QUESTION, tools)
        turns: list[Call] = [
            ("search", {"query": github_task.QUERY, "limit": github_task.SEARCH_LIMIT}),
            ("get_schema", {"tools": github_task.DESCRIBED}),
            ("execute", {"code": github_task.CALL_TOOL_PROGRAM}),
        ]
        sizes = []
        for name, arguments in turns:
            message = conversation.ask([(name, arguments)])
            result = await server.call_tool(name, arguments)
            texts = ["\n".join(getattr(block, "text", "") for block in result.content)]
            conversation.answer(results_of(message, texts))
            sizes.append(conversation.size_of(texts))
        conversation.end(github_task.END)
        others = [
            {"name": each["name"], "description": each["description"], "input_schema": each["parameters"]}
            for each in functions
        ]
        return [{**conversation.facts(), "anthropic": conversation.size_of(others), "answers": sizes}]
