"""Mixed work whose every answer is known; `python -m tests.benchmarks.workload stdio` serves a part of its tools."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pickle
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

from ahvn_tools import ToolCall, ToolContext, Toolkit, ToolSpec, serve
from ahvn_tools.errors import ToolkitError
from ahvn_tools.middleware.cache import cache
from ahvn_tools.middleware.limit import limit
from ahvn_tools.middleware.log import log
from ahvn_tools.middleware.retry import retry
from tests.benchmarks.subjects import fresh_function

Answer = tuple[Any, Any]
"""What was returned, and what should be."""

FORMATS = ("openai", "anthropic", "gemini", "bedrock")
CALL_ID = "call"
"""Of all calls that are cancelled, so that a session could cancel another's."""
MAX_WAIT = 300.0
"""Seconds until a call counts as never begun; nothing else depends on the clock."""


def key_of(user: str) -> str:
    """Return the credential of a user. No answer contains it: credentials are masked there."""
    return user[::-1]


def user_of(key: str) -> str:
    return key[::-1]


running: Counter[str] = Counter()
"""How many bodies of these tools run in this process."""
_lock = threading.Lock()
_failed: set[tuple[str, str]] = set()


@contextlib.contextmanager
def counted(key: str) -> Iterator[int]:
    """Count a body while it runs; yield how many of them run."""
    with _lock:
        running[key] += 1
        count = running[key]
    try:
        yield count
    finally:
        with _lock:
            running[key] -= 1
            if not running[key]:
                del running[key]


def note(topic: str, user: str) -> str:
    """Find a note."""
    return f"{user}: {topic}"


async def note_later(topic: str, user: str) -> str:
    """Find a note, later."""
    await asyncio.sleep(0)
    return f"{user}: {topic}"


def keep(topic: str, user: str) -> str:
    """Keep a note; one at a time for each topic."""
    with counted(f"keep {topic}") as count:
        time.sleep(0.001)
        return f"{user}: {topic}" if count == 1 else f"{count} at once"


async def keep_later(topic: str, user: str) -> str:
    """Keep a note, later; one at a time for each topic."""
    with counted(f"keep_later {topic}") as count:
        await asyncio.sleep(0.001)
        return f"{user}: {topic}" if count == 1 else f"{count} at once"


def flaky(topic: str, user: str) -> str:
    """Find a note at the second attempt."""
    with _lock:
        if (user, topic) not in _failed:
            _failed.add((user, topic))
            raise ConnectionError("no answer")
        _failed.discard((user, topic))
    return f"{user}: {topic}"


def items(count: int, user: str) -> Iterator[str]:
    """Count."""
    with counted("items"):
        for number in range(count):
            yield f"{user} {number}"


async def items_later(count: int, user: str) -> AsyncIterator[str]:
    """Count, later."""
    with counted("items_later"):
        for number in range(count):
            await asyncio.sleep(0)
            yield f"{user} {number}"


def hang(context: ToolContext) -> None:
    """Run until the call is cancelled."""
    with counted("hang"):
        while True:
            context.check_cancelled()
            time.sleep(0.002)


async def hang_later() -> None:
    """Wait for a cancellation."""
    with counted("hang_later"):
        await asyncio.Event().wait()


def stuck() -> None:
    """Never end."""
    while True:
        time.sleep(1)


def toolkit() -> Toolkit:
    """Make the toolkit that all sessions share, without the imported tools."""
    logger = logging.getLogger("soak")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    read_only = ToolSpec.from_function(note, annotations={"readOnlyHint": True})
    kit = Toolkit("soak").bind("user").add(read_only).add(note_later).add(items).add(items_later)
    kit.add(hang).add(hang_later).add(stuck, isolation="process").add(note, rename="isolated", isolation="process")
    kit.add(keep, exclusive="topic").add(keep_later, exclusive="topic").add(note, rename="wire", requires_approval=True)
    kit.add(read_only, rename="cached", middleware=[log(logger), cache(ttl=60, size=100)])
    kit.add(flaky, middleware=[log(logger), retry(attempts=2, initial_delay=0.001, all_tools=True)])
    kit.add(note_later, rename="logged", middleware=[log(logger)], tags={"logged"})
    return kit.add(note, rename="limited", middleware=[limit(per_session=2)])


class Work:
    """The kinds of work on one toolkit. `user` is the caller's own, `number` differs from call to call."""

    PLAIN = ("note", "note_later", "keep", "keep_later", "cached", "flaky", "logged")
    """Tools that answer with the user and the topic."""
    PROCESSES = ("isolated", "web", "remote")
    """Such tools in other processes. Their calls wait for a start of these, so others do not take turns with them."""

    def __init__(self, kit: Toolkit) -> None:
        self.kit = kit
        self._listed = kit.select(names=["note", "keep", "items", "cached"])
        self._exports = {name: self._listed.to(name) for name in FORMATS}
        self._spec = ToolSpec.from_function(note)

    def plain(self, tool: str, user: str, number: int) -> Answer:
        topic = f"topic {number % 3}"
        return self.kit.session(user=user).call(tool, {"topic": topic}), f"{user}: {topic}"

    async def plain_later(self, tool: str, user: str, number: int) -> Answer:
        topic = f"topic {number % 3}"
        return await self.kit.session(user=user).acall(tool, {"topic": topic}), f"{user}: {topic}"

    def stream(self, user: str, number: int) -> Answer:
        tool, texts = ("items", "items_later")[number % 2], [f"{user} {index}" for index in range(number % 7)]
        chunks = self.kit.session(user=user).stream(tool, {"count": len(texts)})
        return [chunk.value for chunk in chunks], [*texts, texts]

    async def stream_later(self, user: str, number: int) -> Answer:
        tool, texts = ("items", "items_later")[number % 2], [f"{user} {index}" for index in range(number % 7)]
        chunks = self.kit.session(user=user).astream(tool, {"count": len(texts)})
        return [chunk.value async for chunk in chunks], [*texts, texts]

    def left_stream(self, user: str, number: int) -> Answer:
        tool = ("items", "items_later")[number % 2]
        with contextlib.closing(self.kit.session(user=user).stream(tool, {"count": 9})) as chunks:
            return [next(chunks).value, next(chunks).value], [f"{user} 0", f"{user} 1"]

    async def left_stream_later(self, user: str, number: int) -> Answer:
        tool = ("items", "items_later")[number % 2]
        async with contextlib.aclosing(self.kit.session(user=user).astream(tool, {"count": 9})) as chunks:
            return [(await anext(chunks)).value, (await anext(chunks)).value], [f"{user} 0", f"{user} 1"]

    def timeout(self, user: str, number: int) -> Answer:
        result = self.kit.session(user=user).exec(("hang", "hang_later")[number % 2], timeout=0.02)
        return result.error and result.error.code, "timeout"

    async def timeout_later(self, user: str, number: int) -> Answer:
        result = await self.kit.session(user=user).aexec(("hang", "hang_later")[number % 2], timeout=0.02)
        return result.error and result.error.code, "timeout"

    def killed_worker(self, user: str, number: int) -> Answer:
        result = self.kit.session(user=user).exec("stuck", timeout=0.5)
        return result.error and result.error.code, "timeout"

    def cancel(self, user: str, number: int) -> Answer:
        session = self.kit.session(user=user)

        def cancel() -> None:
            end = time.monotonic() + MAX_WAIT
            while not session.cancel(CALL_ID) and time.monotonic() < end:
                time.sleep(0.001)

        canceller = threading.Thread(target=cancel, daemon=True)
        canceller.start()
        result = session.exec(("hang", "hang_later")[number % 2], call_id=CALL_ID, timeout=MAX_WAIT)
        canceller.join()
        return result.error and result.error.code, "cancelled"

    async def cancel_later(self, user: str, number: int) -> Answer:
        session = self.kit.session(user=user)
        call = asyncio.create_task(session.aexec(("hang", "hang_later")[number % 2], call_id=CALL_ID, timeout=MAX_WAIT))
        while not session.cancel(CALL_ID) and not call.done():
            await asyncio.wait([call], timeout=0.001)
        result = await call
        return result.error and result.error.code, "cancelled"

    async def cancelled_task(self, user: str, number: int) -> Answer:
        call = asyncio.create_task(self.kit.session(user=user).aexec(("hang", "hang_later")[number % 2]))
        await asyncio.sleep(0.005)
        call.cancel()
        await asyncio.wait([call])
        return call.cancelled(), True

    def approval(self, user: str, number: int) -> Answer:
        session, stranger = self.kit.session(user=user), self.kit.session(user=f"not {user}")
        run = session.run([ToolCall(id="c", name="wire", arguments={"topic": user})])
        with contextlib.suppress(ToolkitError):
            return stranger.resume(run, approved=True).results, "a ToolkitError"
        (_, result), *_ = session.resume(run, approved=bool(number % 3)).results
        if number % 3:
            return result.value, f"{user}: {user}"
        return result.error and result.error.code, "rejected"

    async def answer(self, user: str, number: int) -> Answer:
        tools = ("note", "note_later", "cached", "keep", "logged")
        calls = [ToolCall(id=tool, name=tool, arguments={"topic": f"{tool} {number % 3}"}) for tool in tools]
        run = await self.kit.session(user=user).arun(calls, format="openai")
        return [message["content"] for message in run], [f"{user}: {tool} {number % 3}" for tool in tools]

    def limited(self, user: str, number: int) -> Answer:
        session = self.kit.session(user=user)
        results = [session.exec("limited", {"topic": str(number)}) for _ in range(3)]
        codes = [result.error and result.error.code for result in results]
        return (codes, results[1].value), ([None, None, "limit_exceeded"], f"{user}: {number}")

    def crowd(self, user: str, number: int) -> Answer:
        users = [f"{user} of {index}" for index in range(200)]
        sessions = [self.kit.session(user=user) for user in users]
        return [session.call("note", {"topic": "a"}) for session in sessions], [f"{user}: a" for user in users]

    def binding(self, user: str, number: int) -> Answer:
        kit = Toolkit("brief", state={"user": user, "other": "someone"}).add(self._spec).bind("user")
        found = [kit.call("note", {"topic": "a"})]
        kit.state["user"] = f"new {user}"
        found.append(kit.call("note", {"topic": "a"}))
        kit.unbind("user").bind("user", "other")
        found.append(kit.call("note", {"topic": "a"}))
        found.append(kit.unbind("user").call("note", {"topic": "a", "user": "any"}))
        return found, [f"{user}: a", f"new {user}: a", "someone: a", "any: a"]

    def added_tool(self, user: str, number: int) -> Answer:
        name, session = f"added {user}".replace(" ", "_"), self.kit.session(user=user)
        self.kit.add(self._spec, rename=name)
        found = session.call(name, {"topic": "a"})
        self.kit.remove(name)
        return (found, name in session), (f"{user}: a", False)

    def new_tool(self, user: str, number: int) -> Answer:
        spec = ToolSpec.from_function(fresh_function())
        return (spec.call(left=number), spec.to("openai")["function"]["name"]), (number + 2, "add")

    def listing(self, user: str, number: int) -> Answer:
        session, name = self.kit.session(user=user), FORMATS[number % len(FORMATS)]
        found = [tool.name for tool in session.search("keep one at a time", k=3)], session.select(tags=["logged"])
        listed = session.select(names=["note", "keep", "items", "cached"])
        exported, read_only = listed.to(name), listed.to(name, read_only=True)
        return (
            "keep" in found[0],
            [tool.name for tool in found[1]],
            found[1].call("logged", {"topic": "a"}),
            exported,
            read_only,
        ), (True, ["logged"], f"{user}: a", self._exports[name], self._exports[name])

    def pickled(self, user: str, number: int) -> Answer:
        spec = pickle.loads(pickle.dumps(ToolSpec.from_function(note).bind("user", default=user)))
        return spec.call(topic=str(number)), f"{user}: {number}"

    SYNC = (
        *(stream, left_stream, timeout, cancel, approval, limited),
        *(crowd, binding, added_tool, new_tool, listing, pickled),
    )
    ASYNC = (stream_later, left_stream_later, timeout_later, cancel_later, cancelled_task, answer)
    KILLING = (killed_worker,)


def main(transport: str, descriptor: str = "") -> None:
    """Serve a tool over stdio, with the user as a parameter, or on a socket, with the user of the request."""
    if transport == "stdio":
        serve(Toolkit("remote").add(note, rename="remote"))
    else:
        served = Toolkit("web").bind("user").add(note, rename="web")
        listening = socket.socket(fileno=int(descriptor))
        serve(
            served,
            "http",
            sockets=[listening],
            state=lambda request: {"user": user_of(request.headers.get("x-key", ""))},
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
