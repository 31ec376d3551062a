"""Attacks by one client of a served toolkit on another: its groups, session, running calls, questions and messages."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fastmcp import Client, Context
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server.elicitation import AcceptedElicitation
from fastmcp.server.event_store import EventStore
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

from tests.attacks.attack import CANARY, Attack, rows
from tests.attacks.desk import ACCEPTED, FIRE, WAIT, Desk, Raw, by_http, call, gives, hello, refused, request

MODERN = "2026-07-28"
LIST = request("tools/list", 3)


async def listed(raw: Raw, token: str, session: str | None = None, /, **headers: str) -> list[str]:
    """Return the names of the tools that are listed to a client."""
    answer = await raw.send(token, LIST, session, **headers)
    return sorted(re.findall(r'"name":"(\w+)"', answer.text))


def modern(body: dict[str, Any], name: str | None = None, **capabilities: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a request of the newest protocol, and its headers."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }
    headers = {"mcp_protocol_version": MODERN, "mcp_method": body["method"]}
    if name is not None:
        headers["mcp_name"] = name
    return {**body, "params": {**body["params"], "_meta": meta}}, headers


async def send_modern(raw: Raw, token: str | None, body: dict[str, Any], **capabilities: Any) -> str:
    """Send a request of the newest protocol and return the text of its answer."""
    body, headers = modern(body, body["params"].get("name"), **capabilities)
    return (await raw.send(token, body, **headers)).text


def with_groups(attack: Callable[[Desk, Raw], Awaitable[Any]], **options: Any) -> Callable[[], Any]:
    """Attack a server whose clients may switch groups."""

    async def prepared(desk: Desk, raw: Raw) -> Any:
        desk.kit.add_group("rare", "Rare.").add(desk.kit.groups_tool())
        return await attack(desk, raw)

    return by_http(prepared, **options)


# Groups


async def groups_of_a_session(desk: Desk, raw: Raw) -> list[bool]:
    """Switch a group on in one session: no other session lists or calls its tools, of this user or another."""
    first, second, other = await raw.open("ann"), await raw.open("ann"), await raw.open("bob")
    await raw.send("ann", call("set_groups", rare=True), first)
    seen = ["rare" in await listed(raw, name, one) for name, one in (("ann", first), ("ann", second), ("bob", other))]
    answers = [await raw.send(name, call("rare"), one) for name, one in (("ann", second), ("bob", other))]
    return [*seen, *("not active" in answer.text for answer in answers)]


async def groups_without_sessions(desk: Desk, raw: Raw) -> list[bool]:
    """Switch a group on with the newest protocol, which has no sessions: it is on for the user of this token."""
    await send_modern(raw, "ann", call("set_groups", rare=True))
    texts = [await send_modern(raw, name, call("rare")) for name in ("ann", "bob")]
    return ["not active" in text for text in texts]


async def groups_of_a_named_session(desk: Desk, raw: Raw) -> list[bool]:
    """Send the session name of another user, and names made of the parts of their ids."""
    session = await raw.open("ann")
    await raw.send("ann", call("set_groups", rare=True), session, x_desk="one")
    own = await raw.open("bob")
    names = ["one", f"{session}.one", f"../{session}.one", f".{session}.one", "one.", "ONE"]
    seen = ["rare" in await listed(raw, "bob", own, x_desk=name) for name in names]
    return ["rare" in await listed(raw, "ann", session, x_desk="one"), any(seen)]


async def groups_of_a_closed_session(desk: Desk, raw: Raw) -> list[bool]:
    """Open a session after another one with a switched group was closed."""
    session = await raw.open("ann")
    await raw.send("ann", call("set_groups", rare=True), session)
    headers = {"authorization": "Bearer token-ann", "mcp-session-id": session}
    await raw.http.delete(raw.url, headers={**ACCEPTED, **headers})
    return ["rare" in await listed(raw, "ann", await raw.open("ann"))]


# Credentials


async def handshake_of_two_users(desk: Desk, raw: Raw) -> list[Any]:
    """Complete the handshake of ann with the token of bob, and go on with either."""
    answer = await raw.send("ann", hello())
    session = answer.headers["mcp-session-id"]
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    return [await raw.send("bob", body, session) for body in (ready, call("who"), LIST, call(FIRE))]


async def token_elsewhere(desk: Desk, raw: Raw) -> list[Any]:
    """Send the token in the address, in a cookie, in other headers and in the body."""
    url = raw.url
    answers = []
    for raw.url in (
        f"{url}?access_token=token-ann",
        f"{url}?token=token-ann",
        f"{url}?authorization=Bearer%20token-ann",
    ):
        answers.append(await raw.send(None, hello()))
    raw.url = url
    names = ("x_authorization", "proxy_authorization", "x_access_token", "x_forwarded_authorization")
    placed = [{name: "Bearer token-ann"} for name in names]
    placed.append({"cookie": "access_token=token-ann; authorization=Bearer token-ann"})
    answers += [await raw.send(None, hello(), **headers) for headers in placed]
    body = hello()
    body["params"]["_meta"] = {"authorization": "Bearer token-ann"}
    return [*answers, await raw.send(None, body)]


async def two_tokens(desk: Desk, raw: Raw) -> list[Any]:
    """Send the tokens of both users: the call is one of the user whose session it is, or none."""
    session, found = await raw.open("bob"), []
    for names in (("ann", "bob"), ("bob", "ann")):
        headers = [*ACCEPTED.items(), ("mcp-session-id", session)]
        headers += [("authorization", f"Bearer token-{name}") for name in names]
        answer = await raw.http.post(raw.url, content=json.dumps(call(FIRE)), headers=headers)
        found.append("all are fired" in answer.text)
    return [found, desk.fired]


async def page_of_another(desk: Desk, raw: Raw) -> list[Any]:
    """Go on with the list of another user at the page that it was told."""
    answer = await raw.send("ann", LIST, await raw.open("ann"))
    cursors, seen = [], FIRE in answer.text
    while found := re.search(r'"nextCursor":"([^"]+)"', answer.text):
        cursors.append(found[1])
        answer = await raw.send("ann", request("tools/list", 4, cursor=found[1]), await raw.open("ann"))
        seen = seen or FIRE in answer.text
    bob = await raw.open("bob")
    foreign = [await raw.send("bob", request("tools/list", 5, cursor=cursor), bob) for cursor in cursors]
    return [seen, bool(cursors), any(FIRE in answer.text for answer in foreign)]


# Calls that run


async def cancelled_without_sessions(desk: Desk, raw: Raw) -> list[Any]:
    """Cancel the running call of ann by its id with the newest protocol, and by every id in sessions."""
    running = asyncio.create_task(send_modern(raw, "ann", call("wait", 7)))
    await asyncio.wait_for(desk.started.wait(), WAIT)
    for number in (7, "7", 7.0):
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
        for name in ("bob", "ann"):
            body, headers = modern(cancel)
            await raw.send(name, body, **headers)
            await raw.send(name, cancel, await raw.open(name))
    desk.may_end.set()
    return ["ann waited" in await running, desk.was_cancelled]


async def cancelled_before_it_is_sent(desk: Desk, raw: Raw) -> list[bool]:
    """Cancel ids that are not in use yet: later calls with these ids run."""
    session = await raw.open("ann")
    for number in (5, "6", -1, 10**18, None, [5], {"id": 5}):
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
        await raw.send("ann", cancel, session)
    answers = [await raw.send("ann", call("who", number), session) for number in (5, "6")]
    return ["ann 13" in answer.text for answer in answers]


async def ids_used_again(desk: Desk, raw: Raw) -> list[Any]:
    """Use the id of a running call, as a number and as text, then again when it has ended."""
    session = await raw.open("ann")
    running = asyncio.create_task(raw.send("ann", call("wait", 7), session))
    await asyncio.wait_for(desk.started.wait(), WAIT)
    taken = [(await raw.send("ann", call("who", number), session)).status_code for number in (7, "7")]
    desk.may_end.set()
    first = await running
    again = await raw.send("ann", call("who", 7), session)
    return [taken, "ann waited" in first.text, "ann 13" in again.text]


async def one_progress_token_twice(desk: Desk, raw: Raw) -> list[bool]:
    """Use one progress token for two calls at once in one session, and again later."""
    session = await raw.open("ann")

    async def one(number: int) -> str:
        body = call("report", number)
        body["params"]["_meta"] = {"progressToken": "same"}
        return (await raw.send("ann", body, session)).text

    texts = [*await asyncio.gather(one(5), one(6)), await one(7)]
    return [
        f'"id":{number}' in text and '"isError":false' in text for number, text in zip((5, 6, 7), texts, strict=True)
    ]


async def odd_progress_tokens(desk: Desk, raw: Raw) -> bool:
    """Send progress tokens that are none: each call is answered or refused."""
    session, codes = await raw.open("ann"), []
    for number, token in enumerate(
        ["", 0, -1, 10**400, 1.5, True, None, [], {"a": 1}, "x" * 100_000, "\ud800", "\x00"]
    ):
        body = call("report", number)
        body["params"]["_meta"] = {"progressToken": token}
        codes.append((await raw.send("ann", body, session)).status_code)
    return all(code < 500 for code in codes)


# Questions


def answering_as(name: str, may_answer: asyncio.Event, asked: asyncio.Event) -> Callable[..., Any]:
    async def answer(message: str, response_type: Any, params: Any, context: Any) -> ElicitResult[Any]:
        asked.set()
        await asyncio.wait_for(may_answer.wait(), WAIT)
        return ElicitResult(action="accept", content={"value": name})

    return answer


async def ask(user: str, context: Context) -> str:
    """Ask the user."""
    answer = await context.elicit("Who are you?", response_type=str)
    return f"{user} is {answer.data if isinstance(answer, AcceptedElicitation) else answer.action}"


async def answered_by_another(desk: Desk, raw: Raw) -> list[Any]:
    """Answer the question that ann is asked: from the sessions of bob, and from another session of ann."""
    desk.kit.add(ask)
    may_answer, asked = asyncio.Event(), asyncio.Event()
    transport = StreamableHttpTransport(raw.url, auth="token-ann")
    handler = answering_as("ann", may_answer, asked)
    async with Client(transport, mode="legacy", elicitation_handler=handler) as client:
        running = asyncio.create_task(client.call_tool("ask"))
        await asyncio.wait_for(asked.wait(), WAIT)
        session = str(transport.get_session_id())
        own = [("bob", await raw.open("bob")), ("ann", await raw.open("ann")), ("bob", session), (None, session)]
        content = {"action": "accept", "content": {"value": "mallory"}}
        for name, one in own:
            for number in (*range(4), *map(str, range(4))):
                await raw.send(name, {"jsonrpc": "2.0", "id": number, "result": content}, one)
        may_answer.set()
        result = await asyncio.wait_for(running, WAIT)
        return [result.data]


async def asked_by_another(desk: Desk, raw: Raw) -> list[Any]:
    """Two users are asked at once: each is asked its own question, and gets its own answer."""
    desk.kit.add(ask)
    may_answer, counts = asyncio.Event(), []

    async def one(name: str) -> Any:
        asked = asyncio.Event()
        handler = answering_as(f"answer of {name}", may_answer, asked)
        transport = StreamableHttpTransport(raw.url, auth=f"token-{name}")
        async with Client(transport, mode="legacy", elicitation_handler=handler) as client:
            running = asyncio.create_task(client.call_tool("ask"))
            await asyncio.wait_for(asked.wait(), WAIT)
            counts.append(name)
            if len(counts) == 2:
                may_answer.set()
            return (await asyncio.wait_for(running, WAIT)).data

    return list(await asyncio.gather(one("ann"), one("bob")))


async def state_of_another(desk: Desk, raw: Raw) -> list[Any]:
    """Go on with the state of a question that another user was asked."""

    async def confirm(user: str, context: Context) -> str | InputRequiredResult:
        """Ask, and keep who has asked."""
        if context.request_state is not None:
            return f"{user} continues {context.request_state}"
        question = ElicitRequest(
            params=ElicitRequestFormParams(message="Sure?", requested_schema={"type": "object", "properties": {}})
        )
        return InputRequiredResult(input_requests={"sure": question}, request_state=f"asked by {user}")

    desk.kit.add(confirm)
    first = await send_modern(raw, "ann", call("confirm"), elicitation={})
    found = re.search(r'"requestState":"([^"]+)"', first)
    state = found[1] if found else ""
    answers = {"sure": {"action": "accept", "content": {}}}
    texts = []
    for name in ("bob", "ann"):
        body = call("confirm", 9)
        body["params"] |= {"requestState": state, "inputResponses": answers}
        texts.append(await send_modern(raw, name, body, elicitation={}))
    return ["asked by ann" in first, "asked by ann" in texts[0], "ann continues asked by ann" in texts[1]]


# What is read again


async def events_of_another(desk: Desk, raw: Raw) -> list[Any]:
    """Read the messages of another session again, by the ids that its stream had."""
    session = await raw.open("ann")
    answer = await raw.send("ann", call("who"), session)
    events = re.findall(r"^id: ?(\S+)", answer.text, re.MULTILINE)
    texts = []
    for name, one in (("bob", await raw.open("bob")), ("ann", await raw.open("ann"))):
        for event in events:
            headers = {
                **ACCEPTED,
                "authorization": f"Bearer token-{name}",
                "mcp-session-id": one,
                "last-event-id": event,
            }
            async with raw.http.stream("GET", raw.url, headers=headers) as stream:
                reading = asyncio.create_task(anext(stream.aiter_text(), ""))
                await raw.send(name, call("who"), one)
                await asyncio.wait({reading}, timeout=0.2)
                texts.append(reading.result() if reading.done() and not reading.cancelled() else "")
                reading.cancel()
                await asyncio.wait({reading})
    return [bool(events), any("ann 13" in text for text in texts)]


async def resources_of_a_closed_session(desk: Desk, raw: Raw) -> list[Any]:
    """Read resources and prompts after the session has been closed."""
    session = await raw.open("ann")
    headers = {"authorization": "Bearer token-ann", "mcp-session-id": session}
    await raw.http.delete(raw.url, headers={**ACCEPTED, **headers})
    bodies = [
        request("resources/list"),
        request("resources/read", uri="test://one"),
        request("resources/templates/list"),
        request("prompts/list"),
        request("prompts/get", name="one"),
        request("completion/complete", ref={"type": "ref/prompt", "name": "one"}, argument={"name": "a", "value": ""}),
        request("ping"),
    ]
    return [await raw.send(name, body, session) for body in bodies for name in ("ann", "bob")]


async def task_of_another(desk: Desk, raw: Raw) -> list[Any]:
    """Run a call as a task, and ask for tasks, their results and their end as another user."""
    session, bob = await raw.open("ann"), await raw.open("bob")
    body = call("who")
    body["params"]["task"] = {"ttl": 60_000}
    answer = await raw.send("ann", body, session)
    found = re.search(r'"taskId":"([^"]+)"', answer.text)
    number = found[1] if found else "1"
    methods = ("tasks/get", "tasks/result", "tasks/cancel", "tasks/list", "tasks/delete")
    answers = [await raw.send("bob", request(method, taskId=number), bob) for method in methods]
    return [any("ann 13" in one.text for one in answers), any(CANARY in one.text for one in [answer, *answers])]


ATTACKS = [
    # Groups
    Attack("the groups of another session", with_groups(groups_of_a_session), gives([True, False, False, True, True])),
    Attack("the groups of another user without sessions", with_groups(groups_without_sessions), gives([False, True])),
    Attack(
        "the groups of a session that another user has named",
        with_groups(groups_of_a_named_session, session=lambda request: request.headers.get("x-desk")),
        gives([True, False]),
        is_slow=True,
    ),
    Attack(
        "the groups of a session that is closed", with_groups(groups_of_a_closed_session), gives([False]), is_slow=True
    ),
    # Credentials
    Attack("a handshake of two users", by_http(handshake_of_two_users), refused),
    Attack("a token in another place", by_http(token_elsewhere), refused, is_slow=True),
    Attack("two tokens in one request", by_http(two_tokens), gives([[False, False], []])),
    Attack(
        "a page of another user's list",
        by_http(page_of_another, fastmcp={"list_page_size": 2}),
        gives([True, True, False]),
        is_slow=True,
    ),
    # Calls that run
    Attack("a call cancelled without a session", by_http(cancelled_without_sessions), gives([True, []])),
    Attack("a call cancelled before it is sent", by_http(cancelled_before_it_is_sent), gives([True, True])),
    Attack("the id of a running call", by_http(ids_used_again), gives([[400, 400], True, True])),
    Attack("one progress token for several calls", by_http(one_progress_token_twice), gives([True] * 3)),
    Attack("progress tokens that are none", by_http(odd_progress_tokens), gives(True), is_slow=True),
    # Questions
    Attack("another client's question answered", by_http(answered_by_another), gives(["ann is ann"])),
    Attack(
        "two users who are asked at once",
        by_http(asked_by_another),
        gives(["ann is answer of ann", "bob is answer of bob"]),
        is_slow=True,
    ),
    Attack("the state of another user's question", by_http(state_of_another), gives([False, False, True])),
    # What is read again
    Attack(
        "the events of another session",
        by_http(events_of_another, http={"event_store": EventStore()}),
        gives([True, False]),
        is_slow=True,
    ),
    Attack("resources and prompts of a closed session", by_http(resources_of_a_closed_session), refused),
    Attack("the task of another user", by_http(task_of_another), gives([False, False]), is_slow=True),
]


@pytest.mark.parametrize("attack", rows(ATTACKS))
def test_what_must_hold_holds(attack, carry_out):
    outcome = carry_out(attack)
    assert attack.holds(outcome), outcome
