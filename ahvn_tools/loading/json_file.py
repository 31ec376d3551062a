"""JSON files, and tools in them as MCP lists them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ahvn_tools.errors import SourceError, ToolSpecError, clip
from ahvn_tools.json_types import JsonObject
from ahvn_tools.loading.contents import Contents
from ahvn_tools.loading.read_options import ReadOptions
from ahvn_tools.regular_file import read_text
from ahvn_tools.sources.budget import Budget
from ahvn_tools.spec import ToolSpec

MAX_KEY_CHARS: Final = 200
"""An error shows at most this much of a key."""


def read_json(file: Path, shown: str, budget: Budget | None = None) -> Any:
    """Return the content of a JSON file. Raises SourceError with the line; `shown` is how it names the file."""
    return parse_json(read_text(file, shown), shown, budget=budget)


def parse_json(text: str, shown: str, line: int = 1, budget: Budget | None = None) -> Any:
    """Return the JSON of a text that begins in this line of a file. Raises SourceError with the line.

    Values are taken from the budget, its own one by default, before there are any.
    """
    (budget or Budget(shown)).spend(sum(map(text.count, ",[{")))  # slightly too many: there are some in strings
    try:
        return _loads(text)
    except RecursionError:
        raise SourceError(f"{shown}, line {line}: this is nested too deeply.", file=shown, line=line) from None
    except json.JSONDecodeError as error:
        at = line + error.lineno - 1
        raise SourceError(f"{shown}, line {at}: this is not JSON: {error.msg}.", file=shown, line=at) from None
    except _DuplicateKeyError as error:
        problem = f"the key {clip(error.key, MAX_KEY_CHARS)!r} is twice in one object: one of its values would be lost."
        raise SourceError(f"{shown}: {problem}", file=shown) from None
    except ValueError:  # a number with thousands of digits
        raise SourceError(f"{shown}: a number in it is too long.", file=shown) from None


def _loads(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_to_object)
    except json.JSONDecodeError:
        from ahvn_tools.mcp.client.mcp_config import without_comments

        return json.loads(without_comments(text), object_pairs_hook=_to_object)


class _DuplicateKeyError(ValueError):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _to_object(pairs: list[tuple[str, Any]]) -> JsonObject:
    value = dict(pairs)
    if len(value) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise _DuplicateKeyError(next(name for name in counts if counts[name] > 1))
    return value


MAX_MESSAGE_CHARS: Final = 1_000
"""An error shows at most this much of what is wrong: names and regular expressions may be long."""


def read(location: Any, options: ReadOptions) -> Contents:
    """Return the tools of a file, or of its content. Calls of them answer `connection`. Raises SourceError."""
    if not isinstance(location, str):
        return Contents(name="tools", tools=tuple(_to_specs(location, "The list of tools", options.budget)))
    file = options.resolve(location)
    if file.suffix == ".jsonl":
        parts = [
            (parse_json(line, location, number, options.budget), f"{location}, line {number}")
            for number, line in enumerate(read_text(file, location).split("\n"), 1)
            if line.strip()
        ]
    else:
        parts = [(read_json(file, location, options.budget), location)]
    tools = tuple(spec for content, place in parts for spec in _to_specs(content, place, options.budget))
    if not tools:
        raise SourceError(f"{location} has no tools.", file=location)
    return Contents(name=Path(location).stem, tools=tools)


def _to_specs(content: Any, place: str, budget: Budget) -> Iterator[ToolSpec]:
    from mcp_types import Tool
    from pydantic import ValidationError

    tools = _find_tools(content, place)
    budget.spend_parts(len(tools))
    for number, tool in enumerate(tools, 1):
        budget.spend_size(tool)
        where = f"{place}: tool {number}"
        try:
            yield ToolSpec.from_mcp(Tool.model_validate(tool))
        except ValidationError as error:
            problem = error.errors(include_input=False, include_url=False)[0]
            key = clip(".".join(map(str, problem["loc"])), MAX_MESSAGE_CHARS) or "it"
            raise SourceError(f"{where} is not a tool of MCP: `{key}`: {problem['msg']}.", file=place) from None
        except ToolSpecError as error:
            raise SourceError(f"{where}: {clip(str(error), MAX_MESSAGE_CHARS)}", file=place) from error


def _find_tools(content: Any, place: str) -> list[Any]:
    if isinstance(content, Mapping):
        content = content.get("result", content)
        content = content.get("tools", [content]) if isinstance(content, Mapping) else content
    if not isinstance(content, list | tuple):
        raise SourceError(f"{place} is neither a tool of MCP nor a list of tools.", file=place)
    return list(content)
