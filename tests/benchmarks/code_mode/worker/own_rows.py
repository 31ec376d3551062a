"""What only this package has: 20 calls with and without a program, and a program that waits for an approval."""

from __future__ import annotations

import json
import time
from typing import Any

from pydantic import BaseModel

from ahvn_tools import Run, Toolkit
from ahvn_tools.code_mode import MontySandbox
from tests.benchmarks.code_mode.worker.conversation import Call, Conversation

QUESTION = "Which of my orders 1 to 20 are late?"
END = "The orders 7 and 14 are late."
PROGRAM = """import asyncio

orders = await asyncio.gather(*[get_order(number=number) for number in range(1, 21)])
[order["number"] for order in orders if order["state"] == "late"]"""
KEY = b"benchmark" * 4
LATE = 7


class Order(BaseModel):
    """An order."""

    number: int
    state: str
    items: list[str]
    address: str


async def get_order(number: int, customer: str) -> Order:
    """Look up an order of the customer.

    Args:
        number: The number of the order.
    """
    state = "sent" if number % LATE else "late"
    return Order(number=number, state=state, items=["lamp", "chair", "rug"], address=f"{customer}, 12 High Street")


async def cancel_order(number: int, customer: str) -> str:
    """Cancel an order of the customer.

    Args:
        number: The number of the order.
    """
    return f"{customer} has cancelled {number}"


async def list_addresses(customer: str) -> list[str]:
    """List the addresses of the customer."""
    return [f"{customer}, 12 High Street"]


def _kit() -> Toolkit:
    kit = Toolkit("orders", state={"customer": "ann"}, secret_key=KEY)
    kit.add(get_order, list_addresses).add(cancel_order, requires_approval=True)
    return kit.bind("customer")


GET: list[Call] = [("get_order", {"number": number}) for number in range(1, 21)]
FOUND: list[list[Call]] = [
    [("search_tools", {"query": "state of an order"})],
    [("describe_tools", {"names": ["get_order"]})],
    [("run_code", {"code": PROGRAM})],
]


async def measure(rounds: int) -> dict[str, Any]:
    """Measure all of them in rounds."""
    sandbox = MontySandbox()
    try:
        conversations = [
            {**conversation.facts(), "seconds": seconds} for conversation, seconds in await converse(sandbox, rounds)
        ]
        return {"conversations": conversations, "approval": await approve(sandbox, rounds)}
    finally:
        sandbox.close()


async def converse(sandbox: MontySandbox, rounds: int) -> list[tuple[Conversation, list[float]]]:
    """Hold each conversation so many times in turn; return it with the seconds of each time."""
    ways: list[tuple[str, Toolkit, list[list[Call]]]] = [
        ("20 calls, one in each answer", _kit(), [[call] for call in GET]),
        ("20 calls in one answer", _kit(), [GET]),
        ("a program, after a search and a description", _kit().add_code_mode(sandbox=sandbox), FOUND),
        ("a program, with `inline=True`", _kit().add_code_mode(sandbox=sandbox, inline=True), FOUND[-1:]),
    ]
    held = {way[0]: await _talk(*way) for way in ways}  # starts the workers, too
    seconds: dict[str, list[float]] = {title: [] for title in held}
    for index in range(rounds):
        for way in ways[:: -1 if index % 2 else 1]:
            seconds[way[0]].append((await _talk(*way)).seconds)
    return [(held[title], seconds[title]) for title in held]


async def approve(sandbox: MontySandbox, rounds: int) -> dict[str, Any]:
    """Stop a program at a call that needs an approval, save it as text, read it, and continue it."""
    kit = _kit().add_code_mode(sandbox=sandbox)
    message = Conversation("", QUESTION, []).ask([("run_code", {"code": f"{PROGRAM}\nawait cancel_order(number=7)"})])
    stops, resumes, size = [], [], 0
    for _ in range(rounds + 1):
        start = time.perf_counter()
        data = json.dumps((await kit.arun(message)).to_json())
        stops.append(time.perf_counter() - start)
        size = len(data)
        start = time.perf_counter()
        done = await kit.aresume(Run.from_json(json.loads(data)), approved=True)
        resumes.append(time.perf_counter() - start)
        if "ann has cancelled 7" not in done.messages[0]["content"]:
            raise RuntimeError(f"The program has not continued: {done.messages}")
    return {"stops": stops[1:], "resumes": resumes[1:], "bytes": size}  # the first one starts the workers


async def _talk(title: str, kit: Toolkit, turns: list[list[Call]]) -> Conversation:
    """Hold a conversation; its seconds are those of the exports and of the calls."""
    conversation = Conversation(title, QUESTION, kit.to("openai"))
    for calls in turns:
        message = conversation.ask(calls)
        start = time.perf_counter()
        run = await kit.arun(message)
        kit.to("openai")
        conversation.seconds += time.perf_counter() - start
        if any(result.is_error for _, result in run.results):
            raise RuntimeError(f"A call failed: {run.messages}")
        conversation.answer(run.messages)
    conversation.end(END)
    return conversation
