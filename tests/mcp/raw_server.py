"""An MCP server over stdio that needs only the standard library, starts quickly and misbehaves on request.

The first argument selects its behaviour at the start, the name of the called tool its behaviour in a call.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

MODE = sys.argv[1] if len(sys.argv) > 1 else "good"
MARK = sys.argv[2] if len(sys.argv) > 2 else ""

TOOLS = {}
CANCELLED = []
REDOS = {"type": "object", "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}}}


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def raw(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def notify(method, **params):
    send({"method": method, "params": params})


def shown(name):
    listed = {"name": name, "inputSchema": {"type": "object"}}
    return {**listed, "outputSchema": REDOS} if name == "redos" else listed


def listed(params):
    if MODE in {"pages", "circle"}:
        page = int(params.get("cursor", "0"))
        return {"tools": [shown(f"page_{page}")], "nextCursor": str(page + 1 if MODE == "pages" else 1)}
    if MODE == "many":
        return {"tools": [shown(f"tool_{number}") for number in range(300)]}
    if MODE == "slow_list":
        time.sleep(60)
    return {"tools": [shown(name) for name in TOOLS]}


def value(thing):
    return {"content": [{"type": "text", "text": json.dumps(thing)}], "structuredContent": {"result": thing}}


def ask(method, params):
    send({"id": "mine", "method": method, "params": params})
    while True:
        answer = json.loads(sys.stdin.readline())
        if answer.get("id") == "mine":
            return answer.get("result") or answer["error"]


def tool(function):
    """Let a function answer the calls of its name: it gets the id, the arguments and the progress token."""
    TOOLS[function.__name__] = function
    return function


@tool
def pid(identifier, arguments, token):
    return value(os.getpid())


@tool
def echo(identifier, arguments, token):
    return value(arguments)


@tool
def env(identifier, arguments, token):
    return value(dict(os.environ))


@tool
def sleep(identifier, arguments, token):
    time.sleep(arguments["seconds"])
    return value("awake")


@tool
def cancelled(identifier, arguments, token):
    return value(len(CANCELLED))


@tool
def die(identifier, arguments, token):
    os._exit(3)


@tool
def die_once(identifier, arguments, token):
    """Die in the first process, answer in the second."""
    if Path(MARK).read_text().count("\n") == 1:
        os._exit(3)
    return value(Path(MARK).read_text().count("\n"))


@tool
def garbage(identifier, arguments, token):
    raw("this is not JSON\n" * arguments["lines"])
    return value("done")


@tool
def flood(identifier, arguments, token):
    for number in range(arguments["count"]):
        notify("notifications/message", level="info", data=str(number))
    return value("done")


@tool
def progress(identifier, arguments, token):
    for number in range(arguments["count"]):
        notify("notifications/progress", progressToken=token, progress=number, message=str(number))
    return value("done")


@tool
def huge(identifier, arguments, token):
    return value("x" * arguments["size"])


@tool
def deep(identifier, arguments, token):
    raw('{"jsonrpc": "2.0", "id": ' + str(identifier) + ', "result": {"a": ' + "[" * 5000 + "]" * 5000 + "}}\n")


@tool
def deep_last(identifier, arguments, token):
    raw('{"result": {"a": ' + "[" * 5000 + "]" * 5000 + '}, "jsonrpc": "2.0", "id": ' + str(identifier) + "}\n")


@tool
def wrong_id(identifier, arguments, token):
    send({"id": identifier + 1000, "result": value(1)})


@tool
def twice(identifier, arguments, token):
    send({"id": identifier, "result": value(1)})
    return value(2)


@tool
def refuse(identifier, arguments, token):
    send({"id": identifier, "error": {"code": -32602, "message": "no\u202e \x1b[31m" + "z" * 9000}})


@tool
def refuse_mutely(identifier, arguments, token):
    send({"id": identifier, "error": {"code": -32603, "message": ""}})


@tool
def look_closed(identifier, arguments, token):
    send({"id": identifier, "error": {"code": -32000, "message": "the tool took too long"}})


@tool
def close_output(identifier, arguments, token):
    os.close(1)
    time.sleep(60)


@tool
def close_input(identifier, arguments, token):
    os.close(0)
    send({"id": identifier, "result": value("closed")})
    time.sleep(60)


@tool
def redos(identifier, arguments, token):
    return {**value(1), "structuredContent": {"text": "a" * 40 + "!"}}


@tool
def change(identifier, arguments, token):
    for _ in range(arguments["times"]):
        notify("notifications/tools/list_changed")
    return value("done")


@tool
def elicit(identifier, arguments, token):
    schema = {"type": "object", "properties": {"colour": {"type": "string"}}}
    return value(ask("elicitation/create", {"message": "Which colour?", "requestedSchema": schema}))


@tool
def sample(identifier, arguments, token):
    text = {"role": "user", "content": {"type": "text", "text": "hello"}}
    return value(ask("sampling/createMessage", {"messages": [text], "maxTokens": 5}))


@tool
def riddle(identifier, arguments, token):
    return {"content": [{"type": "riddle"}]}


@tool
def halves(identifier, arguments, token):
    """Answer with halves of surrogate pairs, as a JavaScript program writes them."""
    return value({"cut \ud83d": ["\udc00 😀", "\ud83d\ud83d"]})


@tool
def not_utf8(identifier, arguments, token):
    sys.stdout.flush()
    sys.stdout.buffer.write(b'{"jsonrpc": "2.0", "id": %d, "result": {"content": ' % identifier)
    sys.stdout.buffer.write(b'[{"type": "text", "text": "a\xffb"}]}}\n')
    sys.stdout.flush()


@tool
def fail(identifier, arguments, token):
    return {**value("it did not work"), "isError": True}


def answer(message):
    method, params, identifier = message["method"], message.get("params") or {}, message.get("id")
    if method == "initialize" and MODE == "refuses_the_handshake":
        send({"id": identifier, "error": {"code": -32000, "message": "no licence: set RAW_KEY"}})
    elif method == "initialize" and MODE == "shapeless_handshake":
        send({"id": identifier, "result": {"protocolVersion": 5}})
    elif method == "initialize":
        about = {"name": "raw", "version": "1"}
        version = "1999-01-01" if MODE == "of_another_age" else params["protocolVersion"]
        send(
            {
                "id": identifier,
                "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about},
            }
        )
    elif method == "tools/list" and MODE != "without_tools":
        send({"id": identifier, "result": listed(params)})
    elif method == "tools/call":
        token = (params.get("_meta") or {}).get("progressToken")
        result = TOOLS[params["name"]](identifier, params.get("arguments") or {}, token)
        if result is not None:
            send({"id": identifier, "result": result})
    elif method == "notifications/cancelled":
        CANCELLED.append(params["requestId"])
    elif identifier is not None:
        send({"id": identifier, "error": {"code": -32601, "message": "Method not found"}})


def begin():
    if MARK:
        with Path(MARK).open("a") as file:
            file.write(f"{os.getpid()}\n")
    if MODE in {"deaf", "deaf_at_start"}:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MODE == "family" and MARK:
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
        child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL)
        with Path(MARK).open("a") as file:
            file.write(f"{child.pid}\n")
    if MODE == "exit":
        sys.exit(3)
    if MODE in {"hang", "deaf_at_start"}:
        time.sleep(60)


def speak():
    if MODE == "grumble":
        sys.stderr.write("what a nuisance\n")
        sys.stderr.flush()
    if MODE == "banner":
        raw("Welcome to the raw server!\n\n")
    while MODE == "garbage":
        raw("not JSON at all\n")
    while MODE == "endless":
        raw("x" * 65536)
    while MODE == "notify":
        notify("notifications/message", level="info", data="x")


begin()
speak()
for line in sys.stdin:
    answer(json.loads(line))
while MODE == "deaf":
    time.sleep(1)
