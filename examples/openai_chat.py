"""OpenAI's Chat Completions: the model asks for the weather of a city; the unit is bound.

    python examples/openai_chat.py

With OPENAI_API_KEY it calls OpenAI, and OPENAI_MODEL names the model; without, a local server answers.
"""

from __future__ import annotations

import os
from typing import Any

from provider import require_sdk, run, service_url

from ahvn_tools import ToolSpec
from ahvn_tools.formats import openai

with require_sdk("openai"):
    from openai import OpenAI

MODEL = os.environ.get("OPENAI_MODEL", "gpt-5.4-mini")


def temperature(city: str, unit: str) -> str:
    """Measure how warm it is in a city."""
    return f"{len(city)} degrees {unit} in {city}"


spec = ToolSpec.from_function(temperature).bind("unit", default="Celsius")
messages: list[Any] = [{"role": "user", "content": "How warm is it in Oslo?"}]


def ask(client: OpenAI) -> Any:
    """Send the messages so far; return the model's."""
    answer = client.chat.completions.create(model=MODEL, messages=messages, tools=[spec.to("openai", strict=True)])
    return answer.choices[0].message


with (
    service_url("openai_chat", "OPENAI_API_KEY", city="Oslo") as url,
    OpenAI(base_url=f"{url}/v1", api_key="none") if url else OpenAI() as client,
):
    message = ask(client)
    while calls := openai.calls(message, [spec.definition]):
        messages += [message, *openai.results(run(spec, call) for call in calls)]
        message = ask(client)
    print(message.content)
