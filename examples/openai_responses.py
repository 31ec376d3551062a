"""OpenAI's Responses: the model counts the orders of one customer, and of no other.

    python examples/openai_responses.py

With OPENAI_API_KEY it calls OpenAI, and OPENAI_MODEL names the model; without, a local server answers.
"""

from __future__ import annotations

import os
from typing import Any

from provider import require_sdk, run, service_url

from ahvn_tools import ToolSpec
from ahvn_tools.formats import openai_responses

with require_sdk("openai"):
    from openai import OpenAI


def count_orders(status: str, customer: str) -> str:
    """Count the customer's orders of a status, such as open or shipped."""
    return f"{customer} has {len(customer)} orders that are {status}"


spec = ToolSpec.from_function(count_orders, name="orders.count").bind("customer", default="Ann")
request: dict[str, Any] = {
    "model": os.environ.get("OPENAI_MODEL", "gpt-5.4-mini"),
    "input": [{"role": "user", "content": "How many of my orders are open?"}],
    "tools": [spec.to("openai-responses")],
    **openai_responses.choice("auto", parallel=False),
}

with (
    service_url("openai_responses", "OPENAI_API_KEY", status="open") as url,
    OpenAI(base_url=f"{url}/v1", api_key="none") if url else OpenAI() as client,
):
    response = client.responses.create(**request)
    while calls := openai_responses.calls(response, [spec.definition]):
        request["input"] += response.output
        request["input"] += openai_responses.results(run(spec, call) for call in calls)
        response = client.responses.create(**request)
    print(response.output_text)
