"""A client for MCP's conformance suite: it imports the suite's server and calls its tools.

The suite passes the URL as the last argument, and the calls of its scenario in the environment.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from fastmcp.client.elicitation import ElicitResult

from ahvn_tools import Toolkit

CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
VALUES = {"string": "a", "integer": 1, "number": 1.5, "boolean": True, "object": {}, "array": []}


async def accept_elicitation(message: str, response_type: Any, params: Any, context: Any) -> ElicitResult[Any]:
    """Accept an elicitation with the defaults that the server proposes."""
    fields = params.requested_schema.get("properties", {})
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    return ElicitResult(action="accept", content=defaults or {"confirmed": True})


async def complete(messages: Any, params: Any, context: Any) -> str:
    """Answer a sampling request."""
    return "an answer"


def select_calls(kit: Toolkit) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls of the scenario, else a call of every tool with valid arguments."""
    if "toolCalls" in CONTEXT:
        return [(call["name"], call["arguments"]) for call in CONTEXT["toolCalls"]]
    if "json_schema_2020_12_tool" in kit:
        [echo] = [spec.name for spec in kit if "schema" in spec.params]
        return [(echo, {"schema": kit["json_schema_2020_12_tool"].input_schema})]
    return [(spec.name, arguments(spec.input_schema)) for spec in kit]


def arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a value for each required member."""
    members = schema.get("properties", {})
    return {name: VALUES[members[name].get("type", "string")] for name in schema.get("required", ())}


async def main(url: str) -> None:
    """Import the tools, export them, call them concurrently, and close."""
    kit = await Toolkit("conformance").aadd_mcp(url, name="suite", elicitation=accept_elicitation, sampling=complete)
    print(kit, dict(kit.servers["suite"].refused))
    kit.to("mcp")
    results = await asyncio.gather(*(kit.aexec(name, given) for name, given in select_calls(kit)))
    print([(result.text, result.error) for result in results])
    await kit.aremove_mcp("suite")


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(sys.argv[-1]), 25))
