"""Secrets in the text of a program, which would otherwise be in logs and in stored programs."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import tokenize
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ahvn_tools.code_mode.identifiers import to_identifier
from ahvn_tools.context import ToolContext
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.redaction import is_secret_name, is_secret_schema
from ahvn_tools.schema.keywords import iter_objects
from ahvn_tools.state import BlockingStateError
from ahvn_tools.toolkit import calls
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.visibility import StoreView

_LITERALS: Final = {tokenize.STRING, tokenize.NUMBER, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}

_KEY_OF_VALUE: Final = re.compile(r"""(["'])([\w-]{1,64})\1\s*(?::|\]\s*=(?!=))""")
"""A key that gets a value: in a dict, or by an assignment."""


def may_pass_secrets(view: StoreView, entries: Iterable[Entry], code: str) -> bool:
    """Return whether a program may pass a secret: it names a function that takes one, or sets a key like `password`."""
    text = unicodedata.normalize("NFKC", code)  # as Python reads names
    keys = {key for _, key in _KEY_OF_VALUE.findall(text)}
    if any(map(is_secret_name, keys)):
        return True
    return any(to_identifier(entry.name) in text and takes_secrets(view, entry) for entry in entries)


def takes_secrets(view: StoreView, entry: Entry) -> bool:
    """Return whether a caller can pass a secret to a tool."""
    definition = view.definition(entry)
    declared: list[str] = definition.memoize(_secret_properties)["names"]
    properties: Mapping[str, Any] = definition.input_schema.get("properties") or {}
    return bool(declared) or not view.compiled_tool(entry).plan.secret_names.isdisjoint(properties)


async def hide_literals(view: StoreView, entries: Iterable[Entry], code: str, context: ToolContext) -> None:
    """Mask what is written in a program, in reports of its call, if the program may pass secrets."""
    if may_pass_secrets(view, entries, code):
        literals = (await run_in_thread(lambda _: list(find_literals(code)))).get()  # a long program takes 0.3 seconds
        hidden = context._inner_values  # noqa: SLF001  # of this package
        hidden.extend(("code", text) for text in literals)


def hide_bound_values(view: StoreView, entries: Iterable[Entry], context: ToolContext) -> list[Any]:
    """Mask the bound values of tools that a program has called before it waited, as far as they can be read again.

    Return those that are secret.
    """
    hidden = context._inner_values  # noqa: SLF001  # of this package
    secrets: list[Any] = []
    for entry in entries:
        scopes, plan = calls.state_scopes(view, entry), view.compiled_tool(entry).plan
        for bound in plan.nonblocking_parameters:
            if bound.binding.resolver is None:
                name = bound.parameter.name
                with contextlib.suppress(ToolCallError, BlockingStateError):
                    value = bound.read(scopes)
                    hidden.append((name, value))
                    secrets += [value] if name in plan.secret_names else []
    return secrets


def find_literals(code: str) -> Iterator[str]:
    """Yield the texts and numbers that are written in a program, up to where it cannot be read."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type in _LITERALS:
                yield token.string.strip("\"'")
                yield from _evaluate(token.string)
    except (tokenize.TokenError, SyntaxError):
        return


def _evaluate(literal: str) -> Iterator[str]:
    try:
        yield str(ast.literal_eval(literal))
    except (ValueError, SyntaxError):  # a part of an f-string
        return


def _secret_properties(definition: ToolDefinition) -> dict[str, list[str]]:
    """Return the names of secret arguments, and of secret members at any depth."""
    groups = [node["properties"] for node in iter_objects(definition.input_schema) if "properties" in node]
    properties = [pair for group in groups if isinstance(group, dict) for pair in group.items()]
    return {"names": [name for name, part in properties if is_secret_name(name) or is_secret_schema(part)]}
