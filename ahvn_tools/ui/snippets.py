"""Code to copy: a request with a tool for the SDK of each provider and for curl, and a call as Python or as a test."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable
from textwrap import indent
from typing import Any, Final

from ahvn_tools.command_words import split_command
from ahvn_tools.json_types import JsonObject
from ahvn_tools.redaction.credentials import mask_credentials
from ahvn_tools.redaction.names import is_secret_name
from ahvn_tools.redaction.texts import SecretTexts
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
        self.modules = {"os"} if isinstance(value, str) else {"os", "json"}
        read = f"os.environ[{re.sub(r'[^A-Za-z0-9]+', '_', name).upper()!r}]"
        self._code = read if isinstance(value, str) else f"json.loads({read})"

    def __repr__(self) -> str:
        return self._code


def setup_code(sources: Iterable[str], options: JsonObject, state: JsonObject, groups: Iterable[str]) -> str:
    """Return the code that loads a toolkit into `kit`.

    The values of its state, and sources with credentials, are read from environment variables.
    """
    places = [
        _Variable(f"source_{number}", each) if _has_credentials(each) else each
        for number, each in enumerate(sources, 1)
    ]
    own = _with_variables(state) if state else {}
    arguments = [*map(repr, places), *(f"{name}={value!r}" for name, value in options.items() if value is not None)]
    session = f".session({_literal(own)}, audience=None)" if state else ""
    names = ", ".join(map(repr, groups))
    active = f".session(audience=None).activate({names})" if names else ""
    code = f"from ahvn_tools import load\n\nkit = load({', '.join(arguments)}){active}{session}\n"
    return _with_imports(_modules([places, own]), code)


def _has_credentials(source: str) -> bool:
    """Return whether a path, a URL or a command contains a credential."""
    secrets = SecretTexts()
    try:
        secrets.add_command(split_command(source))
    except ValueError:  # no command
        secrets.add_url(source)
    return mask_credentials(secrets.mask(source)) != source


def _with_variables(value: Any, key: str = "") -> Any:
    if isinstance(value, dict) and value:
        return {name: _with_variables(item, f"{key}_{name}" if key else name) for name, item in value.items()}
    return _Variable(key, value)


def call_snippets(
    tool: str, arguments: JsonObject, expected: str, state: JsonObject, secret: Collection[str], *, setup: str
) -> dict[str, str]:
    """Return a call as Python, and as a test for pytest whose last line is `expected`.

    `setup` are the lines that make `kit`, `state` are the values that were set for the call, by dotted keys. Values of
    the names in `secret` and of secret names, at any depth, and texts with credentials are read from environment
    variables.
    """
    own: JsonObject = {}
    for key, value in state.items():
        StateKey.parse(key).write(own, _without_secrets(value, secret, key, key))
    shown = _without_secrets(arguments, secret)
    session = f".session({_literal(own)}, audience=None)" if own else ""
    call = f"{tool!r}, {_literal(shown)}"
    lines = f"result = kit{session}.exec({call})\n{expected}"
    test = f"\ndef test_{re.sub(r'[^A-Za-z0-9]+', '_', tool)}():\n{indent(lines, '    ')}"
    modules = {name for name in _modules([own, shown]) if f"import {name}\n" not in setup}
    codes = {"Python": f"print(kit{session}.call({call}))", "pytest": test}
    return {name: _with_imports(modules, "\n".join(filter(None, (setup, code))) + "\n") for name, code in codes.items()}


def _without_secrets(value: Any, names: Collection[str], key: str = "", name: str = "") -> Any:
    """Return JSON with a variable, which is named like the path `key`, for each secret. `name` is that of the value."""
    if name in names or is_secret_name(name) or (isinstance(value, str) and mask_credentials(value) != value):
        return _Variable(key, value)
    if isinstance(value, dict):
        return {
            each: _without_secrets(part, names, f"{key}_{each}" if key else each, each) for each, part in value.items()
        }
    if isinstance(value, list):
        return [_without_secrets(part, names, f"{key}_{number}") for number, part in enumerate(value)]
    return value


def _modules(value: Any) -> set[str]:
    """Return the modules that the variables in a value need."""
    if isinstance(value, _Variable):
        return value.modules
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*map(_modules, parts))


def _with_imports(modules: Collection[str], code: str) -> str:
    imports = "".join(f"import {name}\n" for name in sorted(modules))
    return f"{imports}\n{code}" if imports else code


def _literal(value: Any, indentation: str = "") -> str:
    """Return JSON as a Python literal, on several lines if it is long."""
    if isinstance(value, float) and math.isinf(value):
        return f'float("{value}")'
    if not isinstance(value, dict | list):
        return repr(value)
    if len(line := repr(value)) <= MAX_LINE and not _has_infinity(value):
        return line
    inner = f"{indentation}    "
    if isinstance(value, dict):
        items = [f"{name!r}: {_literal(item, inner)}" for name, item in value.items()]
    else:
        items = [_literal(item, inner) for item in value]
    return "\n".join([line[0], *(f"{inner}{item}," for item in items), f"{indentation}{line[-1]}"])


def _has_infinity(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (isinstance(value, float) and math.isinf(value)) or any(map(_has_infinity, parts))
