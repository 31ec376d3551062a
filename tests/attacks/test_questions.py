"""Attacks on what tools ask in their bodies: answers that are used again, for something else, or that nobody gave."""

from __future__ import annotations

import asyncio
import json
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

from ahvn_tools import Run, ToolCall, ToolContext, Toolkit
from tests.attacks.attack import Attack, equals, rows
from tests.attacks.desk import Desk, Raw, by_http, call, gives
from tests.attacks.test_approval import KEY, tried
from tests.attacks.test_clients import send_modern


class Disk:
    """A toolkit whose tools ask before they delete, and what they have deleted."""

    def __init__(self, **options: Any) -> None:
        self.deleted: list[str] = []
        self.kit = Toolkit("disk", secret_key=KEY, **options)
        self.session = self.kit.session(session_id="s1")

        def delete(path: str, context: ToolContext, times: int = 1) -> str:
            for _ in range(times):
                context.ask("delete", {"path": path})
                self.deleted.append(path)
            return "deleted"

        self.kit.add(delete).add(delete, rename="erase")

    def ask(self, **arguments: Any) -> Run:
        """Return the run in which the tool has asked."""
        return self.session.run([ToolCall(id="c1", name="delete", arguments={"path": "a", **arguments})])

    def request(self) -> Any:
        """Return the JSON of a request, as a host would store it."""
        return json.loads(json.dumps(self.ask().pending[0].to_json()))

    def approve(self, *requests: Any, view: Any = None, **options: Any) -> list[Any]:
        """Return what approving each of these came to."""
        resume = (view or self.session).resume
        return tried(*[lambda request=request: resume(request, approved=True, **options) for request in requests])


def answered_again() -> list[Any]:
    """Use one approval in every form in which a host may have it."""
    disk = Disk()
    run = disk.ask()
    restored = Run.from_json(json.loads(json.dumps(run.to_json())))
    forms = [run.pending[0], run, run.pending[0].to_json(), restored, pickle.loads(pickle.dumps(run))]
    return [disk.approve(*forms), disk.deleted]


def answered_otherwise(**changes: Any) -> Callable[[], Any]:
    """Change a stored request: what was asked, where, and what was approved before."""

    def act() -> list[Any]:
        disk = Disk()
        data = disk.request()
        return [{*disk.approve(*[{**data, name: value} for name, value in changes.items()])}, disk.deleted]

    return act


def asked_for_another_path() -> list[Any]:
    """Approve with another path: the tool asks for that one, and has no answer."""
    disk = Disk()
    return [disk.approve(disk.request(), arguments={"path": "b"}), disk.deleted]


def asked_twice() -> list[Any]:
    """Ask twice with the same words: each needs its own answer."""
    disk = Disk()
    run = disk.session.resume(disk.ask(times=2), approved=True)
    return [len(run.pending), disk.deleted]


def from_another_session() -> list[Any]:
    """Approve in another session, in the toolkit, and in a session inside of the own one."""
    disk = Disk()
    data = disk.request()
    views = [disk.kit, disk.kit.session(session_id="s2"), disk.session.session(session_id="s3")]
    return [[disk.approve(data, view=view) for view in views], disk.deleted]


def answers_that_are_only_truthy() -> list[str]:
    answers = iter([1, "yes", {"path": "a"}, {}, [True], None, ""])
    disk = Disk(approver=lambda request: next(answers))
    for _ in range(7):
        disk.kit.exec("delete", {"path": "a"})
    return disk.deleted


def questions_at_once() -> list[Any]:
    """Ask for eight things at once, of which a person approves one."""
    kit = Toolkit("k", approver=lambda request: request.details == {"number": 3})

    async def run(context: ToolContext) -> list[int]:
        asked = [context.aask("go on", {"number": number}) for number in range(8)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return [number for number, answer in enumerate(answers) if answer is True]

    return list(kit.add(run).call("run"))


async def answers_of_a_client(desk: Desk, raw: Raw) -> list[Any]:
    """Answer before the question, with no for yes, for another path, and as another user."""
    deleted: list[str] = []

    async def delete(path: str, user: str, context: ToolContext) -> str:
        await context.aask("delete", {"path": path})
        deleted.append(f"{path} of {user}")
        return "deleted"

    desk.kit.add(delete)

    async def send(user: str, path: str = "a", **params: Any) -> str:
        body = call("delete", path=path)
        body["params"] |= params
        return await send_modern(raw, user, body, elicitation={})

    asked = await send("ann")
    [key], [state] = re.findall(r'"([0-9a-f]{64}-0)"', asked), re.findall(r'"requestState":"([^"]+)"', asked)
    yes = {"action": "accept", "content": {"approve": True}}
    wrong = [{"action": "accept", "content": {}}, {"action": "decline", "content": {"approve": True}}]
    wrong += [{"action": "accept", "content": {"approve": value}} for value in ("true", 1, False)]
    for answer in wrong:
        await send("ann", inputResponses={key: answer}, requestState=state)
    await send("ann", inputResponses={"approve": yes, "": yes, key[:-1] + "1": yes})
    await send("ann", path="b", inputResponses={key: yes}, requestState=state)
    await send("bob", inputResponses={key: yes}, requestState=state)
    before = list(deleted)
    await send("ann", inputResponses={key: yes}, requestState=state)
    return [before, deleted]


ATTACKS = [
    Attack("one answer again, in every form", answered_again, equals([["ran", *["RequestUsedError"] * 4], ["a"]])),
    Attack(
        "an answer to another question",
        answered_otherwise(
            action="list", details={"path": "b"}, questions=[], tool="erase", call_id="c2", is_call_approved=True
        ),
        equals([{"ToolkitError"}, []]),
    ),
    Attack("an answer with another path", asked_for_another_path, equals([["approval_required"], []])),
    Attack("one answer to the same question twice", asked_twice, equals([1, ["a"]])),
    Attack("an answer of another session", from_another_session, equals([[["ToolkitError"]] * 3, []])),
    Attack("answers that are only truthy", answers_that_are_only_truthy, equals([])),
    Attack("one answer to eight questions at once", questions_at_once, equals([3])),
    Attack("answers of a client", by_http(answers_of_a_client), gives([[], ["a of ann"]])),
]


@pytest.mark.parametrize("attack", rows(ATTACKS))
def test_what_must_hold_holds(attack, carry_out):
    outcome = carry_out(attack)
    assert attack.holds(outcome), outcome
