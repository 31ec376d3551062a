"""Attacks on served toolkits: clients that guess, forge, reuse and flood, in memory and by raw HTTP requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import pytest
from fastmcp import Client
from pydantic import BeforeValidator

from ahvn_tools.middleware.log import log
from tests.attacks.attack import CANARY, Attack, all_of, equals, rows
from tests.attacks.desk import ACCEPTED, FIRE, WAIT, Desk, Raw, by_http, call, gives, hello, in_memory, refused, request

# Sessions


async def guessed_session(desk: Desk, raw: Raw) -> list[Any]:
    ids = ["", "0", "a" * 32, "../../x", "None", "x" * 5000, "%00", "stdio"]
    return [await raw.send("bob", call("who"), session) for session in ids if session]


async def foreign_session(desk: Desk, raw: Raw) -> list[Any]:
    """Use the session of ann with the token of bob, and without any."""
    session = await raw.open("ann")
    return [await raw.send(token, body, session) for token in ("bob", None) for body in (call("who"), call(FIRE))]


async def foreign_delete(desk: Desk, raw: Raw) -> list[Any]:
    """Delete the session of ann with the token of bob."""
    session = await raw.open("ann")
    headers = {"authorization": "Bearer token-bob", "mcp-session-id": session}
    deleted = await raw.http.delete(raw.url, headers={**ACCEPTED, **headers})
    answer = await raw.send("ann", call("who"), session)
    return [deleted.status_code >= 400, "ann 13" in answer.text]


async def foreign_stream(desk: Desk, raw: Raw) -> bool:
    """Open the stream of server messages of ann's session with the token of bob."""
    session = await raw.open("ann")
    headers = {"authorization": "Bearer token-bob", "mcp-session-id": session, "accept": "text/event-stream"}
    async with raw.http.stream("GET", raw.url, headers=headers) as answer:
        return answer.status_code >= 400


async def closed_session(desk: Desk, raw: Raw) -> list[Any]:
    session = await raw.open("ann")
    headers = {"authorization": "Bearer token-ann", "mcp-session-id": session}
    await raw.http.delete(raw.url, headers={**ACCEPTED, **headers})
    return [await raw.send("ann", body, session) for body in (call("who"), request("tools/list"))]


async def two_session_headers(desk: Desk, raw: Raw) -> list[Any]:
    """Send the ids of two sessions in one request."""
    own, other = await raw.open("bob"), await raw.open("ann")
    headers = [
        *ACCEPTED.items(),
        ("authorization", "Bearer token-bob"),
        ("mcp-session-id", own),
        ("mcp-session-id", other),
    ]
    return [await raw.http.post(raw.url, content=json.dumps(call(FIRE)), headers=headers)]


async def cancelled_by_another(desk: Desk, raw: Raw) -> list[Any]:
    """Cancel the running call of ann from the sessions of bob, and from another session of ann."""
    ann, bob, more = await raw.open("ann"), await raw.open("bob"), await raw.open("ann")
    running = asyncio.create_task(raw.send("ann", call("wait", 7), ann))
    await asyncio.wait_for(desk.started.wait(), WAIT)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    for token, session in (("bob", bob), ("ann", more), ("bob", ann)):
        await raw.send(token, cancel, session)
    await raw.send("bob", call("who"), bob)
    desk.may_end.set()
    return ["ann waited" in (await running).text, desk.was_cancelled]


async def progress_token_of_another(desk: Desk, raw: Raw) -> list[bool]:
    """Ask for progress with the token that another session uses: each sees its own."""
    sessions = {name: await raw.open(name) for name in ("ann", "bob")}
    body = call("report", 5)
    body["params"]["_meta"] = {"progressToken": "same"}
    answers = await asyncio.gather(*[raw.send(name, body, session) for name, session in sessions.items()])
    texts = [answer.text for answer in answers]
    return ["ann 2" in texts[0], "bob" in texts[0], "bob 2" in texts[1], "ann" in texts[1]]


# Messages


def bodies(*contents: Any) -> Callable[[Desk, Raw], Awaitable[Any]]:
    """Send bodies in a session of bob."""

    async def attack(desk: Desk, raw: Raw) -> list[Any]:
        session = await raw.open("bob")
        return [await raw.send("bob", content, session) for content in contents]

    return attack


async def wrong_content_types(desk: Desk, raw: Raw) -> list[Any]:
    session = await raw.open("bob")
    kinds = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "")
    return [await raw.send("bob", call("who"), session, content_type=kind) for kind in kinds]


async def odd_headers(desk: Desk, raw: Raw) -> list[Any]:
    """Name another user or role in headers and in `_meta`."""
    session = await raw.open("bob")
    body = call("who")
    body["params"]["_meta"] = {"user": "ann", "client_id": "ann", "role": "clerk", "key": "short"}
    answer = await raw.send(
        "bob", body, session, x_user="ann", x_role="clerk", x_client_id="ann", x_forwarded_user="ann"
    )
    return ["bob 13" in answer.text]


async def duplicate_keys(desk: Desk, raw: Raw) -> list[bool]:
    """Name two tools in one request: whichever is called, it is one that bob may call."""
    session = await raw.open("bob")
    for first, second in (("who", FIRE), (FIRE, "who")):
        body = '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"%s","name":"%s","arguments":{}}}'
        await raw.send("bob", body % (first, second), session)
    twice = '"name":"who","arguments":{"text":"a"},"arguments":{"user":"mallory"}'
    answer = await raw.send("bob", f'{{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{{{twice}}}}}', session)
    return [bool(desk.fired), "mallory" in answer.text]


async def other_methods(desk: Desk, raw: Raw) -> list[Any]:
    session = await raw.open("bob")
    names = [
        "tools/fire",
        "tools/call/",
        "__init__",
        "",
        "resources/read",
        "logging/setLevel",
        "completion/complete",
        "roots/list",
        "x" * 100_000,
    ]
    return [await raw.send("bob", request(name, name=FIRE, uri="file:///etc/passwd"), session) for name in names]


async def http_methods(desk: Desk, raw: Raw) -> list[Any]:
    headers = {**ACCEPTED, "authorization": "Bearer token-bob"}
    return [
        await raw.http.request(method, raw.url, headers=headers)
        for method in ("PUT", "PATCH", "HEAD", "TRACE", "OPTIONS")
    ]


async def bad_tokens(desk: Desk, raw: Raw) -> list[Any]:
    values = [
        "",
        "Bearer",
        "Bearer null",
        "Bearer token-ann token-bob",
        "Basic token-ann",
        "token-ann",
        "bearer\ttoken-x",
    ]
    return [await raw.send(None, hello(), authorization=value) for value in values]


async def answers_to_nothing(desk: Desk, raw: Raw) -> int:
    """Answer requests that the server never sent."""
    session = await raw.open("bob")
    for number in (1, "1", -1, 10**30, None):
        await raw.send(
            "bob", {"jsonrpc": "2.0", "id": number, "result": {"action": "accept", "content": {"a": 1}}}, session
        )
    return (await raw.send("bob", call("who"), session)).status_code


async def modern_headers_differ(desk: Desk, raw: Raw) -> list[Any]:
    """Name one tool in the header and another in the body."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": "who"}
    body = call(FIRE)
    body["params"]["_meta"] = meta
    return [await raw.send("bob", body, **headers), await raw.send("bob", body, **{**headers, "mcp_name": FIRE})]


async def slow_client(desk: Desk, raw: Raw) -> bool:
    """Send half a request, and nothing more, on twenty connections."""
    host, port = raw.url.split("/")[2].split(":")
    head = f"POST /mcp HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer token-bob\r\nContent-Length: 1000\r\n"
    opened = [await asyncio.open_connection(host, int(port)) for _ in range(20)]
    for number, (_, writer) in enumerate(opened):
        writer.write(head.encode() if number % 2 else f"{head}Content-Type: application/json\r\n\r\n{{".encode())
        await writer.drain()
    answer = await raw.send("ann", hello())
    for _, writer in opened:
        writer.close()
    return answer.status_code == 200


async def concurrent_sessions(desk: Desk, raw: Raw) -> bool:
    """Call from thirty sessions of two users at once."""

    async def one(number: int) -> bool:
        name = ("ann", "bob")[number % 2]
        session = await raw.open(name)
        answer = await raw.send(name, call("who", number, text=f"t{number}"), session)
        return f"{name} 13 t{number}" in answer.text

    return all(await asyncio.gather(*[one(number) for number in range(30)]))


# Audiences, bindings and groups, in memory


async def audiences_of_a_union() -> list[bool]:
    """List and call a tool of an audience where only one part of a selection names an audience, and where none does."""
    seen: list[bool] = []
    unions: list[Any] = [[{"audience": "guest"}, {"names": [FIRE]}], [{"names": [FIRE]}], ["guests", {"tags": []}], []]
    for any_of in unions:
        desk = Desk()
        kit = desk.kit.add_toolset("guests", audience="guest").select(any_of=any_of)
        async with Client(kit.to_fastmcp_server()) as client:
            seen.append(FIRE in [tool.name for tool in await client.list_tools()])
            await client.call_tool_mcp(FIRE, {})
        seen.append(bool(desk.fired))
    return seen


async def bypassed_audience(desk: Desk, client: Any) -> list[Any]:
    """Reach a tool of another audience by every way that names a tool."""
    texts = []
    inner = {"name": FIRE, "arguments": {}}
    ways: list[tuple[str, Any]] = [
        *[(name, {}) for name in (FIRE, FIRE.upper(), f" {FIRE}", f"{FIRE}\x00", f"desk_{FIRE}", f"desk.{FIRE}")],
        ("call_tool", inner),
        ("call_tool", {"name": "call_tool", "arguments": inner}),
        ("search_tools", {"query": "fire everybody"}),
    ]
    for name, arguments in ways:
        answer = await client.call_tool_mcp(name, arguments)
        texts.append("all are fired" in str(answer.content) or "Fire everybody" in str(answer.content))
    return [any(texts), desk.fired, FIRE in [tool.name for tool in await client.list_tools()]]


async def hidden_and_unknown(desk: Desk, client: Any) -> bool:
    """Compare the answers for a hidden tool and for one that does not exist."""
    texts = []
    for name in (FIRE, "fire_everywhere"):
        answer = await client.call_tool_mcp(name, {"user": "x"})
        texts.append(str(answer.content).replace(name, "NAME"))
    return texts[0] == texts[1]


async def bound_names(desk: Desk, client: Any) -> list[Any]:
    """Pass a bound parameter in every spelling."""
    wrong = []
    for name in ("user", "key", "USER", "user ", "desk.user", "self", "context", "state", "_user", "user\u200b"):
        answer = await client.call_tool_mcp("who", {name: "mallory"})
        if not answer.is_error or "mallory" in str(answer.content) or CANARY in str(answer.content):
            wrong.append(name)
    return wrong


async def schemas_show_nothing(desk: Desk, client: Any) -> bool:
    listed = [tool.model_dump_json() for tool in await client.list_tools()]
    return not any(text in one for one in listed for text in ('"user"', '"key"', CANARY))


async def failing(desk: Desk, client: Any) -> bool:
    texts = [str(await client.call_tool_mcp(name, {})) for name in ("fail", "refuse")]
    return CANARY in "".join(texts) or "not today" not in texts[1]


async def interrupting_validator(desk: Desk, client: Any) -> list[str]:
    """Send an argument whose validator raises KeyboardInterrupt, which would end a server."""

    def interrupt(text: str) -> str:
        raise KeyboardInterrupt

    def strict(text: Annotated[str, BeforeValidator(interrupt)]) -> str:
        """Be strict."""
        return text

    desk.kit.add(strict).add(strict, rename="through", middleware=[log()])
    answers = [await client.call_tool_mcp(name, {"text": "a"}) for name in ("strict", "through", "who")]
    return [answer.content[0].text for answer in answers]


async def odd_arguments(desk: Desk, client: Any) -> list[bool]:
    """Send large, deep and odd arguments: refused, without an echo of them."""
    deep: Any = "echo-me"
    for _ in range(200):
        deep = [deep]
    answers = [
        await client.call_tool_mcp("who", arguments)
        for arguments in (
            {"text": deep},
            {"echo-me" * 100_000: 1},
            {"text": ["echo-me"] * 50_000},
            {"text": {"echo-me": 1}},
        )
    ]
    return [answer.is_error and len(str(answer.content)) < 2_000 for answer in answers]


ATTACKS = [
    # Sessions
    Attack("a guessed session", by_http(guessed_session), refused),
    Attack("the session of another user", by_http(foreign_session), refused),
    Attack("the session of another user deleted", by_http(foreign_delete), gives([True, True])),
    Attack("the stream of another user's session", by_http(foreign_stream), gives(True)),
    Attack("a session that is closed", by_http(closed_session), refused),
    Attack("two sessions in one request", by_http(two_session_headers), refused),
    Attack("a call of another session cancelled", by_http(cancelled_by_another), gives([True, []])),
    Attack("the progress token of another", by_http(progress_token_of_another), gives([True, False, True, False])),
    Attack("thirty sessions of two users at once", by_http(concurrent_sessions), gives(True)),
    # Messages
    Attack("wrong content types", by_http(wrong_content_types), refused),
    Attack("another user named in headers", by_http(odd_headers), gives([True])),
    Attack("two names in one request", by_http(duplicate_keys), gives([False, False])),
    Attack("unknown methods", by_http(other_methods), refused),
    Attack("other methods of HTTP", by_http(http_methods), refused),
    Attack("tokens that are none", by_http(bad_tokens), refused),
    Attack("answers to requests that nobody sent", by_http(answers_to_nothing), gives(200)),
    Attack("a header that names another tool", by_http(modern_headers_differ), refused),
    Attack("requests that never end", by_http(slow_client), gives(True)),
    Attack("a batch", by_http(bodies([call("who", 1), call(FIRE, 2)], [], [hello()])), refused),
    Attack(
        "bodies that are no requests",
        by_http(
            bodies("", "null", "5", '"x"', "{", "{}", b"\xff\xfe", '{"jsonrpc":"1.0","id":1,"method":"ping"}', "NaN")
        ),
        refused,
    ),
    Attack(
        "JSON of 100,000 levels",
        by_http(bodies("[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000)),
        refused,
    ),
    Attack(
        "a number of 100,000 digits",
        by_http(
            bodies(
                '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"who","arguments":{"text":'
                + "9" * 100_000
                + "}}}"
            )
        ),
        refused,
    ),
    Attack(
        "parameters of a wrong shape",
        by_http(
            bodies(
                *[
                    {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params}
                    for params in (
                        None,
                        [],
                        "who",
                        {},
                        {"name": 5},
                        {"name": ["who"]},
                        {"name": "who", "arguments": []},
                        {"name": "who", "arguments": "x"},
                    )
                ]
            )
        ),
        refused,
    ),
    # Audiences, bindings and errors
    Attack("a tool of another audience", in_memory(bypassed_audience), equals([False, [], False])),
    Attack("a tool of another audience in a union", audiences_of_a_union, equals([False] * 8)),
    Attack("a hidden tool compared with an unknown one", in_memory(hidden_and_unknown), equals(True)),
    Attack("bound parameters passed", in_memory(bound_names), equals([])),
    Attack("bound parameters in listings", in_memory(schemas_show_nothing), equals(True)),
    Attack("exceptions with a bound value", in_memory(failing), equals(False)),
    Attack(
        "a validator that raises KeyboardInterrupt",
        in_memory(interrupting_validator),
        all_of(
            equals(["Error calling tool 'strict'", "Error calling tool 'through'", "nobody 13 a"]),
            lambda outcome: "Tool 'strict' raised KeyboardInterrupt" in outcome.printed,
        ),
    ),
    Attack("large and deep arguments", in_memory(odd_arguments), equals([True] * 4)),
]


@pytest.mark.parametrize("attack", rows(ATTACKS))
def test_what_must_hold_holds(attack, carry_out):
    outcome = carry_out(attack)
    assert attack.holds(outcome), outcome
