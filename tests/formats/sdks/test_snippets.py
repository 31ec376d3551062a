"""The requests that the playground offers to copy: each runs as it is pasted, with its SDK."""

import asyncio
import subprocess
import sys

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from ahvn_tools.ui.snippets import request_snippets
from examples.loopback import Loopback
from tests.formats.sdks.cases import forecast, spec_of

SERVICES = {
    "openai": ("openai", "openai_chat"),
    "openai-responses": ("openai", "openai_responses"),
    "prompt": ("openai", "openai_chat"),
    "anthropic": ("anthropic", "anthropic_messages"),
    "gemini": ("google.genai", "gemini_generate"),
    "bedrock": ("boto3", "bedrock_converse"),
    "mistral": ("mistralai.client", "mistral_chat"),
    "ollama": ("ollama", "ollama_chat"),
}
"""The package of each format's SDK, and its service."""


def run(code: str, url: str) -> str:
    keys = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "MISTRAL_API_KEY", "AWS_ACCESS_KEY_ID")
    environment = {
        **dict.fromkeys(keys, "none"),
        "OPENAI_BASE_URL": f"{url}/v1",
        "ANTHROPIC_BASE_URL": url,
        "GOOGLE_GEMINI_BASE_URL": url,
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": url,
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_DEFAULT_REGION": "us-east-1",
        "OLLAMA_HOST": url,
        "PATH": "/usr/bin:/bin",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("format", SERVICES)
def test_the_sdk_sends_the_copied_request(format: str, strict: bool) -> None:
    package, service = SERVICES[format]
    pytest.importorskip(package, reason="needs the SDK")
    with Loopback({"city": "Oslo"}) as server:
        code = request_snippets(format, spec_of(forecast).to(format, strict=strict))["Python"]
        code = code.replace("Mistral(", f"Mistral(server_url={server.url(service)!r}, ")  # it reads no variable
        printed = run(code, server.url(service))
        assert "forecast" in str(server.requests)
    assert format == "prompt" or "forecast" in printed


def test_the_copied_mcp_server_lists_the_tool() -> None:
    exported = spec_of(forecast).to("mcp")
    code = request_snippets("mcp", exported)["Python"]

    async def list_names() -> list[str]:
        async with Client(StdioTransport(sys.executable, ["-c", code])) as client:
            return [tool.name for tool in await client.list_tools()]

    assert asyncio.run(list_names()) == [exported["name"]]
