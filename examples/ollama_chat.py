"""Ollama: a model on your own machine reads a sensor; the address of the sensor is bound.

    python examples/ollama_chat.py

With OLLAMA_HOST or OLLAMA_API_KEY it calls Ollama, and OLLAMA_MODEL names the model; without, a local server answers.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import Literal

from provider import require_sdk, service_url

from ahvn_tools import Toolkit
from ahvn_tools.formats import ollama

with require_sdk("ollama"):
    from ollama import Client

kit = Toolkit("home", state={"home": {"sensor": "the window"}})


@kit.tool
def measure(what: Literal["humidity", "noise"], sensor: str) -> str:
    """Measure the humidity or the noise at the sensor."""
    return f"{len(what) * 5} % {what} at {sensor}"


kit.bind("sensor", "home.sensor")

with (
    service_url("ollama_chat", "OLLAMA_HOST", "OLLAMA_API_KEY", what="humidity") as url,
    closing(Client(host=url)) as client,
):
    model = ollama.model(client, model=os.environ.get("OLLAMA_MODEL", "qwen3"))
    print(kit.converse(model, "How humid is it in here?").text)
