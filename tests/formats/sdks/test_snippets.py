"""The requests that the playground offers to copy: each runs as it is pasted, with its SDK and with curl."""

import asyncio
import shutil
import subprocess
import sys

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from ahvn_tools import ToolDefinition, formats
from ahvn_tools.ui.snippets import request_snippets
from examples.loopback import Loopback
from tests.formats.sdks.cases import DEFINITIONS, forecast, spec_of

SERVICES = {
    "openai": ("openai", "openai_chat", "https://api.openai.com"),
    "openai-responses": ("openai", "openai_responses", "https://api.openai.com"),
    "prompt": ("openai", "openai_chat", "https://api.openai.com"),
    "anthropic": ("anthropic", "anthropic_messages", "https://api.anthropic.com"),
    "gemini": ("google.genai", "gemini_generate", "https://generativelanguage.googleapis.com"),
    "bedrock": ("boto3", "bedrock_converse", "https://bedrock-runtime.$AWS_REGION.amazonaws.com"),
    "mistral": ("mistralai.client", "mistral_chat", "https://api.mistral.ai"),
    "ollama": ("ollama", "ollama_chat", "http://localhost:11434"),
}
"""The package of each format's SDK, its service, and the beginning of its address."""


def run(command: list[str], url: str, **options) -> str:
    keys = dict.fromkeys(
        ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "MISTRAL_API_KEY", "AWS_ACCESS_KEY_ID"), "none"
    )
    addresses = {
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
        command, env={**keys, **addresses}, capture_output=True, text=True, timeout=60, check=False, **options
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("format", SERVICES)
def test_the_sdk_sends_the_copied_request(format: str, strict: bool) -> None:
    package, service, _ = SERVICES[format]
    pytest.importorskip(package, reason="needs the SDK")
    with Loopback({"city": "Oslo"}) as server:
        code = request_snippets(format, spec_of(forecast).to(format, strict=strict))["Python"]
        code = code.replace("Mistral(", f"Mistral(server_url={server.url(service)!r}, ")  # it reads no variable
        printed = run([sys.executable, "-c", code], server.url(service))
        assert "forecast" in str(server.requests)
    assert format == "prompt" or "forecast" in printed


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("tool", DEFINITIONS, ids=lambda tool: tool.name)
@pytest.mark.parametrize("format", SERVICES)
def test_curl_sends_the_copied_request(format: str, tool: ToolDefinition) -> None:
    _, service, site = SERVICES[format]
    with Loopback({}) as server:
        command = request_snippets(format, formats.get(format).export([tool])[0])["curl"].replace(
            site, server.url(service)
        )
        run(["bash", "-c", command.replace('curl "', 'curl --fail-with-body "')], server.url(service))
        assert len(server.requests) == 1


def test_the_copied_mcp_server_lists_the_tool() -> None:
    exported = spec_of(forecast).to("mcp")
    code = request_snippets("mcp", exported)["Python"]

    async def list_names() -> list[str]:
        async with Client(StdioTransport(sys.executable, ["-c", code])) as client:
            return [tool.name for tool in await client.list_tools()]

    assert asyncio.run(list_names()) == [exported["name"]]
