"""An MCP server over stdio that needs only the standard library: it asks once as many calls run as each call says."""

import json
import sys

QUESTION = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
waiting = []


def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tell(call, text):
    send(id=call, result={"content": [{"type": "text", "text": text}]})


for line in sys.stdin:
    message = json.loads(line)
    method, identifier, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method == "initialize":
        about = {"name": "asking", "version": "1"}
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
        send(id=identifier, result=result)
    elif method == "tools/list":
        schema = {"type": "object", "properties": {"together": {"type": "integer"}}}
        send(id=identifier, result={"tools": [{"name": "ask", "inputSchema": schema}]})
    elif method == "tools/call":
        waiting.append(identifier)
        if len(waiting) == params["arguments"]["together"]:
            for call in waiting:
                send(id=f"question {call}", method="elicitation/create", params=QUESTION)
    elif method is None:
        call = waiting.pop(0)
        tell(call, message["error"]["message"] if "error" in message else message["result"]["content"]["name"])
    elif identifier is not None:
        send(id=identifier, error={"code": -32601, "message": "unknown"})
