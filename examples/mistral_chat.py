"""Mistral, asynchronous: the calls of one answer run in parallel; the user is bound.

    python examples/mistral_chat.py

With MISTRAL_API_KEY it calls Mistral, and MISTRAL_MODEL names the model; without, a local server answers.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from provider import require_sdk, run, service_url

from ahvn_tools import ToolSpec
from ahvn_tools.formats import mistral

with require_sdk("mistral"):
    from mistralai.client import Mistral


def mail_count(folder: str, user: str) -> str:
    """Count the unread messages in a folder."""
    return f"{user} has {len(folder)} unread messages in {folder}"


spec = ToolSpec.from_function(mail_count).bind("user", default="ann@example.com")
messages: list[Any] = [{"role": "user", "content": "Is there unread mail in my inbox?"}]


async def ask(client: Mistral) -> Any:
    """Send the messages so far; return the model's."""
    model = os.environ.get("MISTRAL_MODEL", "mistral-small-latest")
    answer = await client.chat.complete_async(model=model, messages=messages, tools=[spec.to("mistral")])
    return answer.choices[0].message


async def main() -> None:
    """Ask until the model makes no more calls."""
    with service_url("mistral_chat", "MISTRAL_API_KEY", folder="inbox") as url:
        async with Mistral(api_key=os.environ.get("MISTRAL_API_KEY", "none"), server_url=url) as client:
            message = await ask(client)
            while calls := mistral.calls(message, [spec.definition]):
                pairs = await asyncio.gather(*(asyncio.to_thread(run, spec, call) for call in calls))
                messages.extend([message, *mistral.results(pairs)])
                message = await ask(client)
    print(message.content)


asyncio.run(main())
