"""Code to copy: a request with a tool for the SDK of each provider and for curl, and a call as Python or as a test."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from textwrap import indent
from typing import Any, Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.state import StateKey

MAX_LINE = 80
"""Longer lists and dicts stand on several lines."""

_QUESTION: Final = {"role": "user", "content": "Use the tool."}
_FIELDS: Final[dict[str, JsonObject]] = {
    "anthropic": {"model": "claude-haiku-5-5", "max_tokens": 1000},
    "mistral": {"model": "mistral-small-latest"},
    "ollama": {"model": "qwen3", "stream": False},
}
"""The first fields of the requests of some formats."""

_PYTHON: Final = {
    "openai": "from openai import OpenAI\n\n{}\nprint(OpenAI().chat.completions.create(**REQUEST).choices[0].message)",
    "openai-responses": "from openai import OpenAI\n\n{}\nprint(OpenAI().responses.create(**REQUEST).output)",
    "anthropic": "from anthropic import Anthropic\n\n{}\nprint(Anthropic().messages.create(**REQUEST).content)",
    "gemini": """from google.genai import Client

{}
with Client() as client:
    config = {{"tools": REQUEST["tools"]}}
    answer = client.models.generate_content(
        model="gemini-3.5-flash", contents=REQUEST["contents"], config=config
    )
    print(answer.candidates[0].content)""",
    "bedrock": """import boto3

{}
client = boto3.client("bedrock-runtime")
print(client.converse(modelId="amazon.nova-lite-v1:0", **REQUEST)["output"])""",
    "mistral": """import os

from mistralai.client import Mistral

{}
with Mistral(api_key=os.environ["MISTRAL_API_KEY"]) as client:
    print(client.chat.complete(**REQUEST).choices[0].message)""",
    "ollama": "import ollama\n\n{}\nprint(ollama.chat(**REQUEST).message)",
    "langchain": """from langchain.chat_models import init_chat_model

{}
model = init_chat_model(REQUEST["model"]).bind_tools(REQUEST["tools"])
print(model.invoke(REQUEST["messages"]))""",
}
"""How the SDK of each format sends a request, which takes the place of `{}`."""

_MCP: Final = """import asyncio

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import ListToolsResult

TOOL = {tool}


async def list_tools(_context, _parameters):
    return ListToolsResult.model_validate({{"tools": [TOOL]}})


async def main():
    server = Server("example", on_list_tools=list_tools)
    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())


asyncio.run(main())
"""

_BEARER: Final = "Authorization: Bearer $"
_CURL: Final = {
    "openai": ("https://api.openai.com/v1/chat/completions", f"{_BEARER}OPENAI_API_KEY"),
    "openai-responses": ("https://api.openai.com/v1/responses", f"{_BEARER}OPENAI_API_KEY"),
    "anthropic": (
        "https://api.anthropic.com/v1/messages", "x-api-key: $ANTHROPIC_API_KEY", "anthropic-version: 2023-06-01"
    ),
    "gemini": (
        "https://generativelanguage.googleapis.com/v1beta/models/gemini-3.5-flash:generateContent",
        "x-goog-api-key: $GEMINI_API_KEY",
    ),
    "bedrock": (
        "https://bedrock-runtime.$AWS_REGION.amazonaws.com/model/amazon.nova-lite-v1:0/converse",
        f"{_BEARER}AWS_BEARER_TOKEN_BEDROCK",
    ),
    "mistral": ("https://api.mistral.ai/v1/chat/completions", f"{_BEARER}MISTRAL_API_KEY"),
    "ollama": ("http://localhost:11434/api/chat",),
}  # fmt: skip
"""The address of each provider's HTTP API, and its headers."""


def request_snippets(name: str, tool: Any) -> dict[str, str]:
    """Return a request with the export of a tool: as Python for the format's SDK and, with an HTTP API, for curl."""
    if name == "mcp":
        return {"Python": _MCP.format(tool=_literal(tool))}
    sdk = "openai" if name == "prompt" else name
    request = _request(sdk, {"tools": [tool]})
    if name == "prompt":
        request = _request(sdk, {}) | {"messages": [tool, _QUESTION]}
    snippets = {"Python": _PYTHON[sdk].format(f"REQUEST = {_literal(request)}\n") + "\n"}
    if sdk not in _CURL:
        return snippets
    address, *headers = _CURL[sdk]
    options = "".join(f' \\\n  -H "{header}"' for header in [*headers, "content-type: application/json"])
    body = json.dumps(request, indent=2)  # its lines are never the word that ends them
    return {**snippets, "curl": f"curl \"{address}\"{options} \\\n  --data-binary @- <<'JSON'\n{body}\nJSON\n"}


def _request(name: str, tools: JsonObject) -> JsonObject:
    parts = [{"text": _QUESTION["content"]}]
    if name == "gemini":
        return {"contents": [{"role": "user", "parts": parts}], "tools": [{"functionDeclarations": tools["tools"]}]}
    if name == "bedrock":
        return {"messages": [{"role": "user", "content": parts}], "toolConfig": tools}
    messages = "input" if name == "openai-responses" else "messages"
    return {**_FIELDS.get(name, {"model": "gpt-5.4-mini"}), messages: [_QUESTION], **tools}


class _Variable:
    """An environment variable in the place of a secret."""

    def __init__(self, name: str, value: Any) -> None:
        read = f"os.environ[{re.sub(r'[^A-Za-z0-9]+', '_', name).upper()!r}]"
        self._code = read if isinstance(value, str) else f"json.loads({read})"

    def __repr__(self) -> str:
        return self._code


def setup_code(sources: Iterable[str], options: JsonObject, state: JsonObject, groups: Iterable[str]) -> str:
    """Return the code that loads a toolkit into `kit`; the values of its state are read from environment variables."""
    arguments = [*map(repr, sources), *(f"{name}={value!r}" for name, value in options.items() if value is not None)]
    session = f".session({_literal(_with_variables(state))}, audience=None)" if state else ""
    names = ", ".join(map(repr, groups))
    active = f".session(audience=None).activate({names})" if names else ""
    return f"from ahvn_tools import load\n\nkit = load({', '.join(arguments)}){active}{session}\n"


def _with_variables(value: Any, key: str = "") -> Any:
    if isinstance(value, dict) and value:
        return {name: _with_variables(item, f"{key}_{name}" if key else name) for name, item in value.items()}
    return _Variable(key, value)


def call_snippets(
    tool: str, arguments: JsonObject, expected: str, state: JsonObject, secret: Collection[str], *, setup: str
) -> dict[str, str]:
    """Return a call as Python, and as a test for pytest whose last line is `expected`.

    `setup` are the lines that make `kit`, `state` are the values that were set for the call, by dotted keys. Values of
    the names in `secret` are read from environment variables.
    """
    own: JsonObject = {}
    for key, value in state.items():
        StateKey.parse(key).write(own, _Variable(key, value) if key in secret else value)
    shown = {name: _Variable(name, value) if name in secret else value for name, value in arguments.items()}
    session = f".session({_literal(own)}, audience=None)" if own else ""
    call = f"{tool!r}, {_literal(shown)}"
    lines = f"result = kit{session}.exec({call})\n{expected}"
    test = f"\ndef test_{re.sub(r'[^A-Za-z0-9]+', '_', tool)}():\n{indent(lines, '    ')}"
    return {"Python": _with_imports(setup, f"print(kit{session}.call({call}))"), "pytest": _with_imports(setup, test)}


def _with_imports(setup: str, code: str) -> str:
    imports = [
        f"import {name}\n" for name, use in (("json", "json.loads("), ("os", "os.environ[")) if use in setup + code
    ]
    return "\n".join(part for part in ("".join(imports), setup, code) if part) + "\n"


def _literal(value: Any, indentation: str = "") -> str:
    """Return JSON as a Python literal, on several lines if it is long."""
    if not isinstance(value, dict | list) or len(line := repr(value)) <= MAX_LINE:
        return repr(value)
    inner = f"{indentation}    "
    if isinstance(value, dict):
        items = [f"{name!r}: {_literal(item, inner)}" for name, item in value.items()]
    else:
        items = [_literal(item, inner) for item in value]
    return "\n".join([line[0], *(f"{inner}{item}," for item in items), f"{indentation}{line[-1]}"])
