"""Gemini: the model reads a calendar, and its thought signatures return to it in the SDK's own content.

    python examples/gemini_generate.py

With GEMINI_API_KEY it calls Google, and GEMINI_MODEL names the model; without, a local server answers.
"""

from __future__ import annotations

import os
from datetime import date
from typing import Any

from provider import require_sdk, run, service_url

from ahvn_tools import ToolSpec
from ahvn_tools.formats import gemini

with require_sdk("gemini"):
    from google.genai import Client


def appointments(day: date, owner: str) -> dict[str, Any]:
    """Look up the appointments of a day."""
    return {"owner": owner, "day": f"{day:%A}", "at": ["09:00 dentist"]}


spec = ToolSpec.from_function(appointments).bind("owner", default="Ann")
contents: list[Any] = [{"role": "user", "parts": [{"text": "What do I have to do on the 4th of May 2026?"}]}]
config: Any = {
    "tools": [{"functionDeclarations": [spec.to("gemini")]}],
    "automatic_function_calling": {"disable": True},
    **gemini.choice("auto", validated=True),
}


def ask(client: Client) -> Any:
    """Send the contents so far; return the response."""
    model = os.environ.get("GEMINI_MODEL", "gemini-3.5-flash")
    return client.models.generate_content(model=model, contents=contents, config=config)


with (
    service_url("gemini_generate", "GEMINI_API_KEY", "GOOGLE_API_KEY", day="2026-05-04") as url,
    Client(api_key="none", http_options={"base_url": url}) if url else Client() as client,
):
    response = ask(client)
    while calls := gemini.calls(response, [spec.definition]):
        contents += [response.candidates[0].content, *gemini.results(run(spec, call) for call in calls)]
        response = ask(client)
    print(response.text)
