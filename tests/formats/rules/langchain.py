"""LangChain's rules: `bind_tools` takes what OpenAI's Chat Completions take."""

from __future__ import annotations

from tests.formats.rules import openai

broken = openai.broken
