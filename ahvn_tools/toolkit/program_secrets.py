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
from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.middleware.reporting import declared_secrets
from ahvn_tools.redaction import is_secret_name
from ahvn_tools.toolkit import calls
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.visibility import StoreView

_PARTS_OF_TEXTS: Final = {getattr(tokenize, name, None) for name in ("FSTRING_MIDDLE", "TSTRING_MIDDLE")}
"""The tokens of what is written in an f-string. Before Python 3.12, the f-string is one text."""

_PREFIX: Final = re.compile(r"^\w*")
_BETWEEN_PARTS: Final = re.compile(r"""["'{}\n]+""")
_ESCAPE: Final = re.compile(
    r"""\\(?:[\\'"abfnrtv\n]|[0-3]?[0-7]{1,2}|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|N\{[^{}]*\})"""
)

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
    properties: Mapping[str, Any] = definition.input_schema.get("properties") or {}
    return bool(declared_secrets(definition)) or not view.compiled_tool(entry).plan.secret_names.isdisjoint(properties)


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
        for bound in plan.bound_parameters:
            if bound.binding.resolver is None:
                name = bound.parameter.name
                with contextlib.suppress(ToolCallError):
                    value = bound.read(scopes)
                    hidden.append((name, value))
                    secrets += [value] if name in plan.secret_names else []
    return secrets


def find_literals(code: str) -> Iterator[str]:
    """Yield the texts and numbers that are written in a program, up to where it cannot be read."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.NUMBER:
                yield token.string
                yield _evaluate(token.string, token.string)
            elif token.type == tokenize.STRING:
                yield from _find_texts(_PREFIX.sub("", token.string).strip("\"'"))
            elif token.type in _PARTS_OF_TEXTS:
                yield from _find_texts(token.string)
    except (tokenize.TokenError, SyntaxError):
        return


def _find_texts(text: str) -> Iterator[str]:
    """Yield a text and the parts of one that has several lines or may be an f-string: as written, and as read."""
    for part in dict.fromkeys((text, *_BETWEEN_PARTS.split(text))):
        yield part
        yield _ESCAPE.sub(lambda escape: _evaluate(f"'{escape[0]}'", escape[0]), part)


def _evaluate(literal: str, default: str) -> str:
    """Return the value of a number or a text as a text; `default` for one that has none."""
    try:
        return str(ast.literal_eval(literal))
    except (ValueError, SyntaxError):
        return default
