"""A client for MCP's conformance suite: it imports the suite's server and calls its tools as ours.

The suite gives the URL as the last argument, and in the environment what to call in its scenario.
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


async def agree(message: str, response_type: Any, params: Any, context: Any) -> ElicitResult[Any]:
    """Accept what the server asks, with the defaults that it proposes."""
    fields = params.requested_schema.get("properties", {})
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    return ElicitResult(action="accept", content=defaults or {"confirmed": True})


async def complete(messages: Any, params: Any, context: Any) -> str:
    """Answer what the server asks a model."""
    return "an answer"


def chosen(kit: Toolkit) -> list[tuple[str, dict[str, Any]]]:
    """Return what to call: what the suite says, else every tool with arguments that its schema admits."""
    if "toolCalls" in CONTEXT:
        return [(call["name"], call["arguments"]) for call in CONTEXT["toolCalls"]]
    if "json_schema_2020_12_tool" in kit:
        [echo] = [spec.name for spec in kit if "schema" in spec.params]
        return [(echo, {"schema": kit["json_schema_2020_12_tool"].input_schema})]
    return [(spec.name, arguments(spec.input_schema)) for spec in kit]


def arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """Make a value for each member that a tool requires."""
    members = schema.get("properties", {})
    return {name: VALUES[members[name].get("type", "string")] for name in schema.get("required", ())}


async def main(url: str) -> None:
    """Import the tools, show them, call them at once, and close."""
    kit = await Toolkit("conformance").aadd_mcp(url, name="suite", elicitation=agree, sampling=complete)
    print(kit, dict(kit.servers["suite"].refused))
    kit.to("mcp")
    results = await asyncio.gather(*(kit.aexec(name, given) for name, given in chosen(kit)))
    print([(result.text, result.error) for result in results])
    await kit.aremove_mcp("suite")


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(sys.argv[-1]), 25))
