"""The types of tools in the providers' SDKs, for type checkers alone; without its SDK, a type is unknown to them.

Bedrock's SDK has no types. Those of Ollama and MCP accept any dict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from anthropic.types import ToolParam
    from google.genai.types import FunctionDeclarationDict
    from mistralai.client.models import ToolTypedDict
    from openai.types.chat import ChatCompletionToolParam
    from openai.types.responses import FunctionToolParam

    AnthropicTool: TypeAlias = ToolParam
    GeminiTool: TypeAlias = FunctionDeclarationDict
    MistralTool: TypeAlias = ToolTypedDict
    OpenAITool: TypeAlias = ChatCompletionToolParam
    OpenAIResponsesTool: TypeAlias = FunctionToolParam
