"""The types of tools in the providers' SDKs, for type checkers alone.

Each is a class of its own: without its SDK, a type checker sees a class with an unknown base. An alias would be
unknown itself there, and pyright's strict mode would report each use of `to`.
Bedrock's SDK has no types. Those of Ollama and MCP accept any dict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anthropic.types import ToolParam
    from google.genai.types import FunctionDeclarationDict
    from mistralai.client.models import ToolTypedDict
    from openai.types.chat import ChatCompletionToolParam
    from openai.types.responses import FunctionToolParam

    class AnthropicTool(ToolParam):
        """Accepted where Anthropic's SDK asks for a `ToolParam`."""

    class GeminiTool(FunctionDeclarationDict):
        """Accepted where Google's SDK asks for a `FunctionDeclarationDict`."""

    class MistralTool(ToolTypedDict):
        """Accepted where Mistral's SDK asks for a `ToolTypedDict`."""

    class OpenAITool(ChatCompletionToolParam):
        """Accepted where OpenAI's SDK asks for a `ChatCompletionToolParam`."""

    class OpenAIResponsesTool(FunctionToolParam):
        """Accepted where OpenAI's SDK asks for a `FunctionToolParam` of its Responses API."""
