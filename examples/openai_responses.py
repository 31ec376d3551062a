"""OpenAI's Responses: the model counts the orders of one customer, and of no other.

    python examples/openai_responses.py

With OPENAI_API_KEY it calls OpenAI, and OPENAI_MODEL names the model; without, a local server answers.
"""

from __future__ import annotations

import os

from provider import require_sdk, service_url

from ahvn_tools import Toolkit
from ahvn_tools.formats import openai_responses

with require_sdk("openai"):
    from openai import OpenAI

kit = Toolkit("shop")


@kit.tool(name="orders.count")
def count_orders(status: str, customer: str) -> str:
    """Count the customer's orders of a status, such as open or shipped."""
    return f"{customer} has {len(customer)} orders that are {status}"


ann = kit.bind("customer").session(customer="Ann")

with (
    service_url("openai_responses", "OPENAI_API_KEY", status="open") as url,
    OpenAI(base_url=f"{url}/v1", api_key="none") if url else OpenAI() as client,
):
    model = openai_responses.model(
        client, model=os.environ.get("OPENAI_MODEL", "gpt-5.4-mini"), **openai_responses.choice("auto", parallel=False)
    )
    print(ann.converse(model, "How many of my orders are open?").text)
