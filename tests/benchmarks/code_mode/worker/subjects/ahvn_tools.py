"""This package."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ahvn_tools import Toolkit
from ahvn_tools.code_mode import MontySandbox
from tests.benchmarks.code_mode.worker import github_task
from tests.benchmarks.code_mode.worker.conversation import Call, Conversation
from tests.benchmarks.code_mode.worker.subject import SESSIONS, PackageSubject, add


def owned(user: str, number: int) -> str:
    """Say whose a number is."""
    return f"{user} {number}"


class Subject(PackageSubject):
    """Toolkits that share one sandbox."""

    def __init__(self) -> None:
        self._sandbox = MontySandbox()
        self._kit = Toolkit("numbers")
        self._kit.add(add).add_code_mode(sandbox=self._sandbox)

    async def run(self, code: str) -> Any:
        return await self._kit.acall("run_code", {"code": code})

    async def thousand(self) -> list[tuple[Any, Any]]:
        kit = Toolkit("owned")
        kit.add(owned).bind("user").add_code_mode(sandbox=self._sandbox)
        sessions = [kit.session(user=f"user{index}") for index in range(SESSIONS)]
        code = "[await owned(number=NUMBER), await owned(number=NUMBER + 1)]"
        calls = [
            sessions[index % SESSIONS].acall("run_code", {"code": code.replace("NUMBER", str(index))})
            for index in range(1_000)
        ]
        expected = [[f"user{index % SESSIONS} {number}" for number in (index, index + 1)] for index in range(1_000)]
        return list(zip(expected, await asyncio.gather(*calls), strict=True))

    def serve(self, transport: str, port: int) -> None:
        from ahvn_tools import serve  # a program alone needs no server

        if transport == "stdio":
            serve(self._kit, "stdio")
        else:
            serve(self._kit, "http", port=port)

    def program_call(self, code: str) -> tuple[str, dict[str, Any]]:
        return "run_code", {"code": code}

    def value_of(self, result: Any) -> Any:
        return result.structured_content["result"]

    async def read(self, corpus: Path) -> list[dict[str, Any]]:
        kit = Toolkit("github")
        kit.add(*github_task.recorded_tools(corpus))
        comments: list[Call] = [
            ("add_issue_comment", {**github_task.REPO, "issue_number": number, "body": github_task.COMMENT})
            for number in github_task.FREE
        ]
        whole = await _talk("all tools listed", kit, [[("list_issues", github_task.LIST)], comments])
        kit.add_code_mode(sandbox=self._sandbox)
        search: Call = ("search_tools", {"query": github_task.QUERY, "limit": github_task.SEARCH_LIMIT})
        program: Call = ("run_code", {"code": github_task.PROGRAM})
        conversations = [whole]
        for title, level in (("ahvn-tools", {}), ('ahvn-tools, `level="full"`', {"level": "full"})):
            describe: Call = ("describe_tools", {"names": github_task.DESCRIBED, **level})
            conversations.append(await _talk(title, kit, [[search], [describe], [program]]))
        return conversations


async def _talk(title: str, kit: Toolkit, turns: list[list[Call]]) -> dict[str, Any]:
    conversation = Conversation(title, github_task.QUESTION, kit.to("openai"))
    sizes = []
    for calls in turns:
        run = await kit.arun(conversation.ask(calls))
        if any(result.is_error for _, result in run.results):
            raise RuntimeError(f"A call of the task failed: {run.messages}")
        conversation.answer(run.messages)
        sizes.append(conversation.size_of([message["content"] for message in run.messages]))
    conversation.end(github_task.END)
    return {**conversation.facts(), "anthropic": conversation.size_of(kit.to("anthropic")), "answers": sizes}
