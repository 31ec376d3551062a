"""JSON files, and tools in them as MCP lists them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ahvn_tools.errors import SourceError, ToolSpecError
from ahvn_tools.loading.contents import Contents
from ahvn_tools.loading.options import ReadOptions
from ahvn_tools.redaction import clip
from ahvn_tools.regular_file import open_regular
from ahvn_tools.sources.budget import Budget
from ahvn_tools.spec import ToolSpec

MAX_BYTES: Final = 64_000_000


def read_json(file: Path, shown: str, budget: Budget | None = None) -> Any:
    """Return the content of a JSON file. Raises SourceError with the line; `shown` is how it names the file."""
    return parse_json(read_text(file, shown), shown, budget=budget)


def read_text(file: Path, shown: str | None = None) -> str:
    """Return the text of a file that is not too large. Raises SourceError; `shown` is how it names the file."""
    shown = str(file) if shown is None else shown
    try:
        with os.fdopen(open_regular(os.path.realpath(file), os.O_RDONLY), "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise SourceError(f"{shown} cannot be read: {error.strerror}.", file=shown) from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SourceError(f"{shown}, line {line}: this is not UTF-8.", file=shown, line=line) from None
    if len(data) > MAX_BYTES:
        raise SourceError(f"{shown} is too large: at most {MAX_BYTES:,} bytes are read.", file=shown)
    return text


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
    except ValueError:  # a number with thousands of digits
        raise SourceError(f"{shown}: a number in it is too long.", file=shown) from None


_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]')


def find_json_lines(text: str, paths: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], int | None]:
    """Return the lines of parts of a JSON text, by their paths: of the name of a member, or the start of an item.

    The text is read once, for any number of paths.
    """
    wanted: dict[tuple[str, ...], int | None] = {path[:end]: None for path in paths for end in range(len(path) + 1)}
    wanted[()] = line = 1
    open_parts: list[tuple[tuple[str, ...] | None, int]] = []  # path, and the number of the next item; -1: an object
    here: tuple[str, ...] | None = ()
    is_name, counted = False, 0
    for token in _TOKEN.finditer(text):
        kind = token[0][0]
        if kind in "}]":
            if open_parts:
                open_parts.pop()
            here = None
            continue
        if kind == '"' and not is_name:
            continue
        if kind in "{[":
            open_parts.append((here, -1 if kind == "{" else 0))
        if not open_parts:
            continue
        parent, index = open_parts[-1]
        if kind != '"' and index < 0:
            is_name = True
            continue
        step = json.loads(token[0], strict=False) if kind == '"' and parent is not None else str(index)
        if kind != '"':
            open_parts[-1] = parent, index + 1
        is_name = False
        here = None if parent is None or (*parent, step) not in wanted else (*parent, step)
        if here is not None:
            start = token.start() if kind == '"' else _SPACE.match(text, token.end()).end()  # type: ignore[union-attr]  # it matches anything
            line += text.count("\n", counted, start)
            counted = start
            wanted[here] = wanted[here] or line
    return wanted


_SPACE: Final = re.compile(r"\s*")


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        from ahvn_tools.mcp.client.mcp_config import without_comments

        return json.loads(without_comments(text))


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
