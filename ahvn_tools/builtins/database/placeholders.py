"""The placeholders `:name` and `?` of a query, in the form of a database that has another one.

This finds placeholders only. Whether a query is one statement, and what it may do, the database itself decides.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from ahvn_tools.builtins.database.statement import Parameters
from ahvn_tools.errors import ToolError

_TOKEN: Final = re.compile(
    r"""
      [eE]'(?:[^'\\]|\\.|'')*(?:'|\Z) | '(?:[^']|'')*(?:'|\Z) | "(?:[^"]|"")*(?:"|\Z)  # texts and names
      | --[^\n]* | /\*.*?(?:\*/|\Z)                                                      # comments
      | \$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z) | ::                                      # PostgreSQL's texts and casts
      | :(?P<name>[A-Za-z_]\w*)
      | (?P<mark>\?)
    """,
    re.VERBOSE | re.DOTALL,
)


def number_placeholders(query: str, parameters: Parameters, *, form: str = "${}") -> tuple[str, list[Any]]:
    """Return the query with `$1`, `$2` and so on in the place of `:name` or `?`, and their values in this order.

    `form` is another form than `${}`. Without parameters the query stays as it is. Raises ToolError if a `?` has no
    value.
    """
    if not parameters:
        return query, []
    if isinstance(parameters, Mapping):
        values: list[Any] = []
        return _TOKEN.sub(_named(parameters, values, form), query), values
    return _TOKEN.sub(_positional(len(parameters), form), query), list(parameters)


def _named(parameters: Mapping[str, Any], values: list[Any], form: str) -> Callable[[re.Match[str]], str]:
    numbers: dict[str, int] = {}

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None or name not in parameters:
            return match.group()
        if name not in numbers:
            values.append(parameters[name])
            numbers[name] = len(values)
        return form.format(numbers[name])

    return replace


def _positional(count: int, form: str) -> Callable[[re.Match[str]], str]:
    numbers = itertools.count(1)

    def replace(match: re.Match[str]) -> str:
        if match["mark"] is None:
            return match.group()
        number = next(numbers)
        if number > count:
            raise ToolError(f"The query has more than {count} `?`. Pass one value for each.")
        return form.format(number)

    return replace
