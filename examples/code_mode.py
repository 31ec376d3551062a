"""Code mode: the model writes one program that calls many tools; one of its calls waits for a person.

    python examples/code_mode.py

It needs `pip install "ahvn-tools[code,openai]"`. With OPENAI_API_KEY it calls OpenAI, and OPENAI_MODEL names the model;
without, a local server plays a model with the calls in TURNS.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

from provider import require_sdk, service_url
from pydantic import BaseModel

from ahvn_tools import Run, Toolkit
from ahvn_tools.code_mode import Sandbox

with require_sdk("code,openai"):
    import pydantic_monty  # noqa: F401  # what MontySandbox needs
    from openai import OpenAI

    from ahvn_tools.code_mode import MontySandbox

MODEL = os.environ.get("OPENAI_MODEL", "gpt-5.4-mini")
KEY = b"a secret of your application"  # signs what waits for an approval


class Order(BaseModel):
    """What a customer has bought."""

    id: int
    item: str
    euros: float


ORDERS = {
    "ann": [Order(id=1, item="lamp", euros=40), Order(id=2, item="chair", euros=95), Order(id=3, item="rug", euros=60)],
    "bob": [Order(id=4, item="desk", euros=300)],
}
LOST = {2}


def list_orders(customer: str) -> list[Order]:
    """List the customer's orders."""
    return ORDERS[customer]


async def track_parcel(order: int) -> Literal["delivered", "lost"]:
    """Find out where the parcel of an order is."""
    print(f"  track_parcel({order})")
    return "lost" if order in LOST else "delivered"


def refund(order: int, euros: float) -> str:
    """Pay money back."""
    print(f"  refund({order}, {euros})")
    return f"Paid {euros:g} euros for order {order}."


def open_chat(sandbox: Sandbox) -> Any:
    """Return the tools for Ann's chat. No declaration has the parameter `customer`, which is bound."""
    kit = Toolkit("shop", secret_key=KEY)
    kit.add(list_orders, track_parcel).add(refund, requires_approval=True)
    kit.bind("customer").add_code_mode(sandbox=sandbox)
    return kit.session(customer="ann", session_id="chat-1")


PROGRAM = """
import asyncio

orders = await list_orders()
places = await asyncio.gather(*[track_parcel(order["id"]) for order in orders])
lost = [order for order, place in zip(orders, places) if place == "lost"]
[await refund(order["id"], order["euros"]) for order in lost]
"""
TURNS = [
    ("search_tools", {"query": "orders, parcels, refund"}),
    ("describe_tools", {"names": ["list_orders", "track_parcel", "refund"]}),
    ("run_code", {"code": PROGRAM}),
]


def decide(run: Run, sandbox: Sandbox, file: Path) -> Run:
    """Save a run that waits for approvals, read it, approve, and go on in another toolkit: in any process."""
    file.write_text(json.dumps(run.to_json()))
    later = Run.from_json(json.loads(file.read_text()))
    for request in later.pending:
        print(f"approved, from a file of {file.stat().st_size:,} bytes: {request.tool} {request.arguments}")
    finished: Run = open_chat(sandbox).resume(later, approved=True)
    return finished


def answer(question: str, client: OpenAI, sandbox: Sandbox, file: Path) -> str:
    """Let the model work until it answers with a text."""
    print(f"{question}\n")
    chat = open_chat(sandbox)
    messages: list[Any] = [{"role": "user", "content": question}]
    while True:
        reply = client.chat.completions.create(model=MODEL, messages=messages, tools=chat.to("openai"))
        messages.append(reply.choices[0].message)
        if not messages[-1].tool_calls:
            return str(messages[-1].content)
        for call in messages[-1].tool_calls:
            print(f"> {call.function.name}:", *json.loads(call.function.arguments).values())
        run = chat.run(messages[-1])
        while not run.is_done:
            run = decide(run, sandbox, file)
        for _, result in run.results:
            print(f"{result.text}\n")
        messages += run


with (
    closing(MontySandbox()) as sandbox,
    tempfile.TemporaryDirectory() as folder,
    service_url("openai_chat", "OPENAI_API_KEY", turns=TURNS) as url,
    OpenAI(base_url=f"{url}/v1", api_key="none") if url else OpenAI() as client,
):
    print(answer("Refund what was lost on its way to me.", client, sandbox, Path(folder, "run.json")))
