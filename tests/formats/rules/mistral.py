"""Mistral's rules: as OpenAI's Chat Completions, and a tool without arguments still has a schema."""

from __future__ import annotations

from typing import Any

from tests.formats.rules import openai


def broken(export: list[Any], strict: bool = False) -> list[str]:
    """Return what an export breaks."""
    found = openai.broken(export, strict)
    functions = [tool["function"] for tool in export if isinstance(tool.get("function"), dict)]
    missing = [function for function in functions if not isinstance(function.get("parameters"), dict)]
    return [*found, *["the function lacks 'parameters'" for _ in missing]]
