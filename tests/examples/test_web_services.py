"""docs/how-to/web-services.md, served by uvicorn: what it stores when a browser leaves."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "web-services.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(?!>>>)(.*?)^```$", re.MULTILINE | re.DOTALL)
LONGEST = 60


@pytest.fixture
def program() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "web_services"}
    for block in BLOCK.findall(PAGE.partition("\n## Approve while")[0]):
        exec(compile(block, "web-services.md", "exec", dont_inherit=True), names)
    return names


@pytest.fixture
def address(program: dict[str, Any]) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(program["app"], log_config=None, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(LONGEST)
    listener.close()
    assert not thread.is_alive()


def test_the_result_of_an_approved_call_is_stored_when_the_browser_leaves_while_the_model_is_asked(
    program: dict[str, Any], address: str
) -> None:
    model, is_asked = program["model"], threading.Event()

    async def slow(messages: Any, tools: Any) -> Any:
        if messages[-1]["role"] != "tool":
            return await model(messages, tools)
        is_asked.set()
        await asyncio.sleep(LONGEST)
        raise AssertionError("The browser has left.")

    program["model"] = slow
    stored = lambda: json.loads(program["database"]["ann-1/1"])
    with httpx2.Client(base_url=address, headers={"x-user": "ann-1"}, timeout=LONGEST) as client:
        client.post("/chat/1", json={"text": "Remove tea"})
        assert stored()["stop_reason"] == "waiting"
        with client.stream("POST", "/chat/1", json={"approved": {"c1": True}}) as response:
            assert any(line == "event: result" for line in response.iter_lines())
            assert is_asked.wait(LONGEST)
        end = time.monotonic() + LONGEST / 2
        while stored()["stop_reason"] == "waiting":
            assert time.monotonic() < end, "nothing was stored"
            time.sleep(0.02)
        assert stored()["messages"][-1]["content"] == "ann-1's note on tea is gone"
        program["model"] = model
        assert '"stop_reason": "answered"' in client.post("/chat/1", json={"text": "Index"}).text
