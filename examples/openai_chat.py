"""OpenAI's Chat Completions: the model asks for the weather of a city; the unit is bound.

    python examples/openai_chat.py

With OPENAI_API_KEY it calls OpenAI, and OPENAI_MODEL names the model; without, a local server answers.
"""

from __future__ import annotations

import os

from provider import require_sdk, service_url

from ahvn_tools import Toolkit
from ahvn_tools.formats import openai

with require_sdk("openai"):
    from openai import OpenAI

kit = Toolkit("weather", state={"unit": "Celsius"})


@kit.tool
def temperature(city: str, unit: str) -> str:
    """Measure how warm it is in a city."""
    return f"{len(city)} degrees {unit} in {city}"


kit.bind("unit")

with (
    service_url("openai_chat", "OPENAI_API_KEY", city="Oslo") as url,
    OpenAI(base_url=f"{url}/v1", api_key="none") if url else OpenAI() as client,
):
    model = openai.model(client, model=os.environ.get("OPENAI_MODEL", "gpt-5.4-mini"), export={"strict": True})
    print(kit.converse(model, "How warm is it in Oslo?").text)
