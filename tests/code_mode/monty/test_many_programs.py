"""Many programs of many sessions at once: each has its own bound value, calls, output, images, errors and approvals."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastmcp.utilities.types import Image

from ahvn_tools import Toolkit
from ahvn_tools.code_mode import MontySandbox
from ahvn_tools.errors import ToolError

CODE = """
import asyncio

print("printed by {name}")
seen = [*await asyncio.gather(note("{name} 1"), note("{name} 2"))]
picture = await draw("{name}")
try:
    await fail("{name}")
except RuntimeError as error:
    seen.append(str(error))
{approval}
seen.append(await note("{name} 3"))
[seen, picture]
"""


class Desk:
    """A toolkit whose tools return what they are called with, and for whom."""

    def __init__(self, sandbox: MontySandbox) -> None:
        self.calls: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
        """What the tools received, by the program."""
        self.kit = Toolkit("desk", state={"user": "nobody"}, secret_key=b"k" * 16)
        self.kit.add(self.note, self.draw, self.fail)
        self.kit.add(self.publish, requires_approval=True)
        self.kit.bind("user").add_code_mode(sandbox=sandbox)

    async def note(self, user: str, text: str) -> str:
        """Return a text."""
        self.calls[text.split(" ", maxsplit=1)[0]].append(("note", user, text))
        await asyncio.sleep(0)
        return f"{user}: {text}"

    def draw(self, user: str, text: str) -> Any:
        """Draw a text."""
        self.calls[text.split(" ", maxsplit=1)[0]].append(("draw", user, text))
        return Image(data=f"{user} draws {text}".encode(), format="png")

    def fail(self, user: str, text: str) -> str:
        """Fail."""
        self.calls[text.split(" ", maxsplit=1)[0]].append(("fail", user, text))
        raise ToolError(f"{user} fails with {text}")

    def publish(self, user: str, text: str) -> str:
        """Publish a text."""
        self.calls[text.split(" ", maxsplit=1)[0]].append(("publish", user, text))
        return f"{user} publishes {text}"

    def check(self, user: str, name: str, result: Any, *, is_approved: bool) -> None:
        """Compare the result of a program with the one that its session has to get."""
        approved = [f"{user} publishes {name}"] if is_approved else []
        seen = [f"{user}: {name} 1", f"{user}: {name} 2", f"<user> fails with {name}"]  # no error shows a bound value
        assert result.value == [[*seen, *approved, f"{user}: {name} 3"], "[image 1]"]
        assert json.loads(result.content[0].text)["printed"] == f"printed by {name}\n"
        assert base64.b64decode(result.content[1].data).decode() == f"{user} draws {name}"
        texts = [("note", f"{name} {part}") for part in (1, 2, 3)] + [("draw", name), ("fail", name)]
        texts += [("publish", name)] if is_approved else []
        assert sorted(self.calls[name]) == sorted((tool, user, text) for tool, text in texts)


def message(name: str, *, is_approved: bool) -> dict[str, Any]:
    """Return a model's message with one program."""
    approval = f'seen.append(await publish("{name}"))' if is_approved else ""
    code = CODE.format(name=name, approval=approval)
    call = {"id": f"call-{name}", "function": {"name": "run_code", "arguments": {"code": code}}}
    return {"tool_calls": [call]}


def run_sync(desk: Desk, user: str, name: str) -> None:
    """Run a program from a thread, and approve what it asks for."""
    session = desk.kit.session(user=user)
    is_approved = name.endswith("0")
    run = session.run(message(name, is_approved=is_approved), format="openai")
    assert bool(run.pending) == is_approved
    run = session.resume(run, approved=True) if run.pending else run
    [(_, result)] = run.results
    desk.check(user, name, result, is_approved=is_approved)


async def run_async(desk: Desk, user: str, name: str) -> None:
    """Run a program in the loop, and approve what it asks for."""
    session = desk.kit.session(user=user)
    is_approved = name.endswith("0")
    run = await session.arun(message(name, is_approved=is_approved), format="openai")
    assert bool(run.pending) == is_approved
    run = await session.aresume(run, approved=True) if run.pending else run
    [(_, result)] = run.results
    desk.check(user, name, result, is_approved=is_approved)


async def run_batch(desk: Desk, user: str, names: list[str]) -> None:
    """Run several programs of one message."""
    calls = [call for name in names for call in message(name, is_approved=False)["tool_calls"]]
    run = await desk.kit.session(user=user).arun({"tool_calls": calls}, format="openai")
    for name, (_, result) in zip(names, run.results, strict=True):
        desk.check(user, name, result, is_approved=False)


def run_everywhere(desks: list[Desk], users: int, count: int) -> None:
    """Run `count` programs: from threads, in two event loops, and several in a message."""
    jobs = [(desks[n % len(desks)], f"user-{n % users}", f"p{n}") for n in range(count)]
    failed: list[BaseException] = []

    def loop(part: list[tuple[Desk, str, str]]) -> None:
        async def run_all() -> None:
            await asyncio.gather(*[run_async(*job) for job in part])

        try:
            asyncio.run(run_all())
        except BaseException as error:
            failed.append(error)

    def batches(part: list[tuple[Desk, str, str]]) -> None:
        for start in range(0, len(part), 5):
            desk, user, _ = part[start]
            asyncio.run(run_batch(desk, user, [name for _, _, name in part[start : start + 5]]))

    threads = [threading.Thread(target=loop, args=(jobs[part::4],)) for part in (0, 1)]
    for thread in threads:
        thread.start()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda job: run_sync(*job), jobs[2::4]))
    batches(jobs[3::4])
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


@pytest.fixture(params=[2, 32], ids=["2 processes", "32 processes"])
def shared(request: pytest.FixtureRequest) -> Iterator[MontySandbox]:
    made = MontySandbox(max_processes=request.param)
    yield made
    made.close()


@pytest.mark.parametrize(
    "count", [40, pytest.param(1000, marks=pytest.mark.exhaustive)], ids=["40 programs", "1000 programs"]
)
@pytest.mark.exhaustive
def test_programs_of_many_sessions_and_toolkits_do_not_mix(shared: MontySandbox, count: int) -> None:
    run_everywhere([Desk(shared), Desk(shared), Desk(shared)], 50, count)
