"""Ollama: a model on your own machine reads a sensor; the address of the sensor is bound.

    python examples/ollama_chat.py

With OLLAMA_HOST or OLLAMA_API_KEY it calls Ollama, and OLLAMA_MODEL names the model; without, a local server answers.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import Any, Literal

from provider import require_sdk, run, service_url

from ahvn_tools import ToolSpec
from ahvn_tools.formats import ollama

with require_sdk("ollama"):
    from ollama import Client


def measure(what: Literal["humidity", "noise"], sensor: str) -> str:
    """Measure the humidity or the noise at the sensor."""
    return f"{len(what) * 5} % {what} at {sensor}"


spec = ToolSpec.from_function(measure).bind("sensor", "home.sensor")
spec.state["home"] = {"sensor": "the window"}
messages: list[Any] = [{"role": "user", "content": "How humid is it in here?"}]


def ask(client: Client) -> Any:
    """Send the messages so far; return the model's."""
    model = os.environ.get("OLLAMA_MODEL", "qwen3")
    return client.chat(model=model, messages=messages, tools=[spec.to("ollama")]).message


with (
    service_url("ollama_chat", "OLLAMA_HOST", "OLLAMA_API_KEY", what="humidity") as url,
    closing(Client(host=url)) as client,
):
    message = ask(client)
    while calls := ollama.calls(message, [spec.definition]):
        messages += [message, *ollama.results(run(spec, call) for call in calls)]
        message = ask(client)
    print(message.content)
