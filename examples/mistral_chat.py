"""Mistral, asynchronous: the calls of one answer run in parallel; the user is bound.

    python examples/mistral_chat.py

With MISTRAL_API_KEY it calls Mistral, and MISTRAL_MODEL names the model; without, a local server answers.
"""

from __future__ import annotations

import asyncio
import os

from provider import require_sdk, service_url

from ahvn_tools import Toolkit
from ahvn_tools.formats import mistral

with require_sdk("mistral"):
    from mistralai.client import Mistral

kit = Toolkit("mail")


@kit.tool
def mail_count(folder: str, user: str) -> str:
    """Count the unread messages in a folder."""
    return f"{user} has {len(folder)} unread messages in {folder}"


async def main() -> None:
    """Ask for one user."""
    ann = kit.bind("user").session(user="ann@example.com")
    with service_url("mistral_chat", "MISTRAL_API_KEY", folder="inbox") as url:
        async with Mistral(api_key=os.environ.get("MISTRAL_API_KEY", "none"), server_url=url) as client:
            model = mistral.model(client, model=os.environ.get("MISTRAL_MODEL", "mistral-small-latest"))
            conversation = await ann.aconverse(model, "Is there unread mail in my inbox?")
    print(conversation.text)


asyncio.run(main())
