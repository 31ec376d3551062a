"""Anthropic's Messages, as a stream: the text is printed as it comes; the folder is bound.

    python examples/anthropic_messages.py

With ANTHROPIC_API_KEY it calls Anthropic, and ANTHROPIC_MODEL names the model; without, a local server answers.
"""

from __future__ import annotations

import os
from pathlib import Path

from provider import require_sdk, service_url

from ahvn_tools import TextDelta, Toolkit
from ahvn_tools.formats import anthropic

with require_sdk("anthropic"):
    from anthropic import Anthropic

kit = Toolkit("examples", state={"folder": Path(__file__).parent})


@kit.tool
def find_files(pattern: str, folder: Path) -> list[str]:
    """Name the files that match a pattern, such as *.py."""
    return sorted(path.name for path in folder.glob(pattern))


kit.bind("folder")

with (
    service_url("anthropic_messages", "ANTHROPIC_API_KEY", pattern="anthropic*.py") as url,
    Anthropic(base_url=url, api_key="none") if url else Anthropic() as client,
):
    model = anthropic.model(
        client,
        model=os.environ.get("ANTHROPIC_MODEL", "claude-haiku-5-5"),
        max_tokens=1000,
        stream=True,
        export={"cache_control": {"type": "ephemeral"}},
    )
    for event in kit.stream_converse(model, "Which examples speak with Anthropic?"):
        if isinstance(event, TextDelta):
            print(event.text, end="", flush=True)
    print()
