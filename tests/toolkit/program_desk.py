"""A toolkit whose programs wait for approvals, and what reads and saves their runs."""

from __future__ import annotations

import json
from typing import Any

from ahvn_tools import ToolCall, ToolContext, Toolkit
from ahvn_tools.code_mode import CodeLimits
from ahvn_tools.toolkit.run import Run

KEY = "a key that all processes have"


class Desk:
    """A toolkit for programs, and the calls that its tools received."""

    def __init__(self, sandbox: Any, limits: CodeLimits | None = None, **options: Any) -> None:
        self.calls: list[Any] = []
        self.kit = Toolkit("desk", state={"user": "canary-ann"}, **{"secret_key": KEY, **options})
        self.kit.add(self.note).add(self.close, self.send, requires_approval=True).add(self.delete)
        self.kit.bind("user").add_code_mode(sandbox=sandbox, limits=limits)

    def note(self, text: str, user: str) -> str:
        """Write a note."""
        self.calls.append(("note", text))
        return f"noted {text}"

    def close(self, issue: int) -> str:
        """Close an issue."""
        self.calls.append(("close", issue))
        return f"closed {issue}"

    def send(self, to: str, user: str) -> str:
        """Send a message."""
        self.calls.append(("send", to, user))
        return f"sent to {to}"

    async def delete(self, path: str, context: ToolContext) -> str:
        """Delete a file, and then its copy."""
        self.calls.append(("delete", path))
        await context.aask("delete a file", {"path": path})
        await context.aask("delete its copy", {"path": path})
        self.calls.append(("deleted", path))
        return f"deleted {path}"

    def answer(self, *programs: str, kit: Any = None) -> Run:
        calls = [ToolCall(id=f"c{n}", name="run_code", arguments={"code": code}) for n, code in enumerate(programs, 1)]
        run: Run = (self.kit if kit is None else kit).run(calls)
        return run


def restored(run: Run) -> Run:
    """Return a run as another process reads it."""
    return Run.from_json(json.loads(json.dumps(run.to_json())))


def value(run: Run) -> Any:
    [(_, result)] = run.results
    assert result.error is None, result.text
    return result.value


MANY = "import asyncio\nawait asyncio.gather(*[close(n) for n in range(10)])"
THEN_NOTE = """
import asyncio

async def close_and_note(n):
    try:
        text = await close(n)
    except RuntimeError as error:
        text = str(error)
    return await note(text)

await note("start")
await asyncio.gather(close_and_note(1), close_and_note(2), close_and_note(3))
"""
