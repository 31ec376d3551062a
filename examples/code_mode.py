"""Code mode: the model writes one program that calls many tools; one of its calls waits for a person.

    python examples/code_mode.py

It needs `pip install "ahvn-tools[code,openai]"`. With OPENAI_API_KEY it calls OpenAI, and OPENAI_MODEL names the model;
without, a local server plays a model with the calls in TURNS.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

from provider import require_sdk, service_url
from pydantic import BaseModel

from ahvn_tools import Conversation, ToolCall, Toolkit, ToolResult
from ahvn_tools.code_mode import Sandbox
from ahvn_tools.formats import Model, openai

with require_sdk("code,openai"):
    import pydantic_monty  # noqa: F401  # what MontySandbox needs
    from openai import OpenAI

    from ahvn_tools.code_mode import MontySandbox

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


def answer(question: str, model: Model, sandbox: Sandbox, file: Path) -> str:
    """Let the model work until it answers with a text. Each wait for approvals ends in another toolkit."""
    print(f"{question}\n")
    events = open_chat(sandbox).stream_converse(model, question)
    while True:
        conversation = show(events)
        if not conversation.pending:
            return conversation.text
        file.write_text(json.dumps(conversation.to_json()))  # and go on, in any process
        later = Conversation.from_json(json.loads(file.read_text()))
        for request in later.pending:
            print(f"approved, from a file of {file.stat().st_size:,} bytes: {request.tool} {request.arguments}")
        events = open_chat(sandbox).stream_converse(model, later, approved=True)


def show(events: Iterable[Any]) -> Conversation:
    """Print calls and results as they come; return the conversation."""
    for event in events:
        if isinstance(event, ToolCall):
            print(f"> {event.name}:", *event.arguments.values())
        elif isinstance(event, ToolResult) and event.is_last:
            print(f"{event.text}\n")
    conversation: Conversation = event
    return conversation


with (
    closing(MontySandbox()) as sandbox,
    tempfile.TemporaryDirectory() as folder,
    service_url("openai_chat", "OPENAI_API_KEY", turns=TURNS) as url,
    OpenAI(base_url=f"{url}/v1", api_key="none") if url else OpenAI() as client,
):
    model = openai.model(client, model=os.environ.get("OPENAI_MODEL", "gpt-5.4-mini"))
    print(answer("Refund what was lost on its way to me.", model, sandbox, Path(folder, "conversation.json")))
