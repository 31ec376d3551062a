"""A server as a source of tools: what is pinned is what came in."""

from __future__ import annotations

import sys

from ahvn_tools import mcp

SERVER = """
import json, sys
from pathlib import Path

STARTED = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    schema = {"type": "object"}
    first = {"name": "add", "description": Path(sys.argv[1]).read_text(), "inputSchema": schema}
    answers = {"initialize": STARTED, "tools/list": {"tools": [first, {**first, "description": "The twin."}]}}
    said = {"error": {"code": -32601, "message": "unknown"}}
    if request["method"] in answers:
        said = {"result": answers[request["method"]]}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **said}), flush=True)
"""


def test_of_two_tools_of_one_name_the_one_that_came_in_is_accepted(tmp_path):
    script, description = tmp_path / "twins.py", tmp_path / "description"
    script.write_text(SERVER)
    description.write_text("The first.")
    command = [sys.executable, str(script), str(description)]
    with mcp.connect(command, name="twins", pin=tmp_path / "pins") as server:
        assert list(server.refused) == ["add (2)"]
        description.write_text("The first, changed.")
        server.refresh()
        assert server.changed == {"add"}
        server.accept()
        server.refresh()
        assert server.changed == frozenset()
