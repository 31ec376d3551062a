"""Gemini: the model reads a calendar, and its thought signatures return to it with the next request.

    python examples/gemini_generate.py

With GEMINI_API_KEY it calls Google, and GEMINI_MODEL names the model; without, a local server answers.
"""

from __future__ import annotations

import os
from datetime import date
from typing import Any

from provider import require_sdk, service_url

from ahvn_tools import Toolkit
from ahvn_tools.formats import gemini

with require_sdk("gemini"):
    from google.genai import Client

kit = Toolkit("calendar")


@kit.tool
def appointments(day: date, owner: str) -> dict[str, Any]:
    """Look up the appointments of a day."""
    return {"owner": owner, "day": f"{day:%A}", "at": ["09:00 dentist"]}


ann = kit.bind("owner").session(owner="Ann")

with (
    service_url("gemini_generate", "GEMINI_API_KEY", "GOOGLE_API_KEY", day="2026-05-04") as url,
    Client(api_key="none", http_options={"base_url": url}) if url else Client() as client,
):
    name = os.environ.get("GEMINI_MODEL", "gemini-3.5-flash")
    model = gemini.model(client, model=name, config=gemini.choice("auto", validated=True))
    print(ann.converse(model, "What do I have to do on the 4th of May 2026?").text)
