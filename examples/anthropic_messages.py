"""Anthropic's Messages, as a stream: each call runs as soon as it is complete; the folder is bound.

    python examples/anthropic_messages.py

With ANTHROPIC_API_KEY it calls Anthropic, and ANTHROPIC_MODEL names the model; without, a local server answers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from provider import require_sdk, run, service_url

from ahvn_tools import ToolSpec
from ahvn_tools.formats import anthropic

with require_sdk("anthropic"):
    from anthropic import Anthropic


def find_files(pattern: str, folder: Path) -> list[str]:
    """Name the files that match a pattern, such as *.py."""
    return sorted(path.name for path in folder.glob(pattern))


spec = ToolSpec.from_function(find_files).bind("folder", default=Path(__file__).parent)
request: dict[str, Any] = {
    "model": os.environ.get("ANTHROPIC_MODEL", "claude-haiku-5-5"),
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "Which examples speak with Anthropic?"}],
    "tools": anthropic.export([spec.definition], cache_control={"type": "ephemeral"}),
}


def turn(client: Anthropic) -> list[Any]:
    """Read one answer of the model; return its calls with their results."""
    with client.messages.stream(**request) as events:
        pairs = [run(spec, call) for call in anthropic.stream(events, [spec.definition])]
        request["messages"].append({"role": "assistant", "content": events.get_final_message().content})
    return pairs


with (
    service_url("anthropic_messages", "ANTHROPIC_API_KEY", pattern="anthropic*.py") as url,
    Anthropic(base_url=url, api_key="none") if url else Anthropic() as client,
):
    while pairs := turn(client):
        request["messages"] += anthropic.results(pairs)
    print(request["messages"][-1]["content"][-1].text)
