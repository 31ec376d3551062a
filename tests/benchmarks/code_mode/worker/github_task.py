"""A task with GitHub's recorded tools: comment on the open bugs that nobody has taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

QUESTION = "Ask on each open bug of octo/app that is assigned to nobody who takes it. Which ones are these?"
QUERY = "list issues, comment on an issue"
DESCRIBED = ["list_issues", "issue_read", "add_issue_comment"]
FREE = [number for number in range(1, 21) if number % 4 == 0]
END = f"These are {FREE}. I have asked on each of them."
SEARCH_LIMIT = 10
LIST = {"owner": "octo", "repo": "app", "labels": ["bug"], "state": "OPEN"}
REPO = {"owner": "octo", "repo": "app"}
COMMENT = "Who takes this one?"
PROGRAM = f"""import asyncio

found = await list_issues(owner="octo", repo="app", labels=["bug"], state="OPEN")
free = [issue["number"] for issue in found["issues"] if not issue["assignees"]]
await asyncio.gather(*[
    add_issue_comment(owner="octo", repo="app", issue_number=number, body="{COMMENT}") for number in free
])
free"""
CALL_TOOL_PROGRAM = f"""import asyncio

found = await call_tool("list_issues", {{"owner": "octo", "repo": "app", "labels": ["bug"], "state": "OPEN"}})
free = [issue["number"] for issue in found["issues"] if not issue["assignees"]]
await asyncio.gather(*[
    call_tool("add_issue_comment", {{"owner": "octo", "repo": "app", "issue_number": number, "body": "{COMMENT}"}})
    for number in free
])
return free"""


def result(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what a tool of the task answers."""
    if tool == "list_issues":
        return {"issues": [_issue(number) for number in range(1, 21)], "totalCount": 20}
    if tool == "add_issue_comment":
        number = arguments["issue_number"]
        return {"id": f"{7_000 + number}", "url": f"https://github.example/octo/app/issues/{number}#issuecomment"}
    raise ValueError(f"The task does not call {tool!r}.")


def recorded_tools(corpus: Path) -> list[Any]:
    """Return FastMCP tools with the recorded definitions and the results of the task."""
    from fastmcp.tools import Tool, ToolResult

    class Recorded(Tool):
        """A recorded tool."""

        async def run(self, arguments: dict[str, Any]) -> ToolResult:
            """Return the result of the task."""
            return ToolResult(structured_content=result(self.name, arguments))

    return [
        Recorded(name=row["name"], description=row["description"], parameters=row["inputSchema"])
        for row in recorded_rows(corpus)
    ]


def recorded_rows(corpus: Path) -> list[dict[str, Any]]:
    """Return the recorded definitions."""
    return [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()]


def _issue(number: int) -> dict[str, Any]:
    return {
        "number": number,
        "title": f"The page {number} of the settings does not save what was entered",
        "state": "OPEN",
        "user": "mona",
        "labels": ["bug"],
        "assignees": [] if number in FREE else ["hubot"],
        "comments": number % 5,
        "created_at": f"2026-01-{number:02d}T09:00:00Z",
        "updated_at": f"2026-02-{number:02d}T09:00:00Z",
        "body": "I enter a value, press the button, and see the old value when I open the page again. " * 2,
    }
