"""An agent that splits its task: each sub-agent is a process of its own, with the built-in tools for one folder.

    python examples/sub_agents.py

A script imitates the model, so no key is needed: replace `MainModel` and `SubModel` by a client of your provider. Read
it from top to bottom: the models, what all agents share, the sub-agent's process, and the main agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ahvn_tools import ToolCall, Toolkit, formats
from ahvn_tools.builtins import SubAgentTask, standard_toolkit

OPENAI = formats.get("openai")


class Model(Protocol):
    """What answers the messages so far, with calls of tools or with a text."""

    def complete(self, messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the message of the model, as in OpenAI's Chat Completions."""
        ...


class MainModel:
    """Starts a sub-agent for each folder, then puts their reports together."""

    def complete(self, messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Ask for self_fork, then answer with what it returned."""
        if messages[-1]["role"] == "tool":
            return {"role": "assistant", "content": f"Both folders are counted.\n\n{messages[-1]['content']}"}
        agents = [{"prompt": "Count the lines with tea.", "allowed_uris": [name], "name": name} for name in ("a", "b")]
        return call("self_fork", context_summary="We count lines in two folders.", sub_agents=agents)


class SubModel:
    """Searches its folder, tries to leave it, then reports."""

    def complete(self, messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Ask for one tool after the other."""
        results = [message["content"] for message in messages if message["role"] == "tool"]
        if not results:
            return call("search_file_contains_keyword", uri=".", keyword="tea")
        if len(results) == 1:
            return call("ls", uri="..")
        found = sum("tea" in line for line in results[0].splitlines())
        return {"role": "assistant", "content": f"{found} lines with tea. What I saw outside: {results[1]}"}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a message that calls one tool."""
    message: dict[str, Any] = OPENAI.message([ToolCall(id="call_1", name=name, arguments=arguments)])[0]
    return message


async def run_agent(model: Model, kit: Toolkit, prompt: str) -> str:
    """Let a model work with tools until it answers with a text."""
    conversation = await kit.aconverse(lambda messages, _tools: model.complete(messages), prompt, format="openai")
    if conversation.stop_reason == "max_turns":
        return f"The agent stopped after {conversation.turns} steps."
    return conversation.text


async def run_sub_agent(task: SubAgentTask) -> str:
    """Run a sub-agent in a process of its own, which ends with it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        __file__,
        "--sub-agent",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        order = {"prompt": f"{task.context_summary}\n{task.prompt}", "roots": list(map(str, task.roots))}
        report, _ = await process.communicate(json.dumps(order).encode())
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        raise RuntimeError(f"The process of the sub-agent ended with {process.returncode}.")
    return report.decode()


def be_sub_agent() -> None:
    """Read what to do from stdin, do it, and write the report to stdout."""
    order = json.load(sys.stdin)
    kit = standard_toolkit(order["roots"], shell=False, python=False, git=False)
    print(asyncio.run(run_agent(SubModel(), kit, order["prompt"])), end="")


def main() -> None:
    """Make two folders, and let an agent with two sub-agents count in them."""
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in {"a": ["tea", "coffee", "tea"], "b": ["tea", "water"]}.items():
            Path(folder, name).mkdir()
            Path(folder, name, "list.txt").write_text("\n".join(lines), encoding="utf-8")
        kit = standard_toolkit(folder, shell=False, python=False, git=False, runner=run_sub_agent)
        print(asyncio.run(run_agent(MainModel(), kit.select(audience="main"), "Count the lines with tea.")))


if __name__ == "__main__":
    be_sub_agent() if sys.argv[1:] == ["--sub-agent"] else main()
