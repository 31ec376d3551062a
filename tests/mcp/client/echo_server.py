"""An MCP server over stdio that needs only the standard library, and says what its first argument tells it to say."""

import json
import sys

says = json.loads(sys.argv[1])


def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def call(identifier, params):
    token = params.get("_meta", {}).get("progressToken")
    if "progress" in says and token is not None:
        about = {"progressToken": token, "progress": 1, "message": says["progress"]}
        send(method="notifications/progress", params=about)
    if "question" in says:
        schema = {"type": "object", "properties": {}}
        send(id="q", method="elicitation/create", params={"message": says["question"], "requestedSchema": schema})
        sys.stdin.readline()
    reply = says["reply"]
    send(id=identifier, **(reply if "error" in reply else {"result": reply}))


sys.stderr.write(says.get("stderr", ""))
sys.stderr.flush()
for line in sys.stdin:
    message = json.loads(line)
    method, identifier, params = message["method"], message.get("id"), message.get("params") or {}
    if method == "initialize" and "refusal" in says:
        send(id=identifier, error=says["refusal"])
    elif method == "initialize":
        about = {"name": "echo", "version": "1"}
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
        send(id=identifier, result=result)
    elif method == "tools/list":
        tool = says.get("tool", {"name": "talk", "inputSchema": {"type": "object"}})
        send(id=identifier, result={"tools": [tool]})
    elif method == "tools/call":
        call(identifier, params)
    elif identifier is not None:
        send(id=identifier, error={"code": -32601, "message": "Method not found"})
