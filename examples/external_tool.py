"""An external tool with OpenAI's Chat Completions: the user chooses a seat in a form, and the conversation goes on.

    python examples/external_tool.py

With OPENAI_API_KEY it calls OpenAI, and OPENAI_MODEL names the model; without, a local server answers.
"""

from __future__ import annotations

import json
import os

from provider import require_sdk, service_url

from ahvn_tools import Conversation, Toolkit
from ahvn_tools.formats import openai

with require_sdk("openai"):
    from openai import OpenAI

kit = Toolkit("seats")


@kit.tool(external=True)
def choose_seat(free: list[str]) -> str:
    """Let the user choose one of the free seats."""
    raise NotImplementedError


with (
    service_url("openai_chat", "OPENAI_API_KEY", free=["1A", "2C"]) as url,
    OpenAI(base_url=f"{url}/v1", api_key="none") if url else OpenAI() as client,
):
    model = openai.model(client, model=os.environ.get("OPENAI_MODEL", "gpt-5.4-mini"))
    saved = json.dumps(kit.converse(model, "Book me a seat: 1A and 2C are free.").to_json())

    conversation = Conversation.from_json(json.loads(saved))  # later, when the form sends what the user has chosen
    chosen = {call.call_id: call.arguments["free"][-1] for call in conversation.pending}
    print(kit.converse(model, conversation, results=chosen).text)
