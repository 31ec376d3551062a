"""An MCP server over stdio that needs only the standard library: it lists and answers what a JSON file says.

The file has `tools`, as they are listed, and `results` by tool. A tool without a result ends the process.
"""

import json
import sys
from pathlib import Path

SCRIPT = json.loads(Path(sys.argv[1]).read_text("utf-8"))


def to_result(method, params):
    if method == "initialize":
        about = {"name": "scripted", "version": "1"}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": about,
        }
    if method == "tools/list":
        return {"tools": SCRIPT["tools"]}
    if method == "tools/call" and params["name"] in SCRIPT["results"]:
        return SCRIPT["results"][params["name"]]
    return sys.exit(3) if method == "tools/call" else None


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = to_result(message["method"], message.get("params") or {})
        error = {"code": -32601, "message": "Method not found"}
        answer = {"error": error} if result is None else {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
        sys.stdout.flush()
