"""Syntax errors of data files: JSON, TOML and YAML."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator

from .problems import SyntaxProblem

_TOML_PLACE = re.compile(r"^(.*?) \(at (?:line (\d+), column (\d+)|end of document)\)$", re.DOTALL)


def json_problems(content: bytes) -> Iterator[SyntaxProblem]:
    """Yield the first error of a JSON file."""
    text = content.decode("utf-8-sig")
    try:
        json.loads(text, parse_int=float)  # a number of many digits is no error, and slow to convert
    except json.JSONDecodeError as error:
        yield SyntaxProblem(error.lineno, error.colno, error.msg)


def toml_problems(content: bytes) -> Iterator[SyntaxProblem]:
    """Yield the first error of a TOML file."""
    text = content.decode()
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _TOML_PLACE.match(str(error))
        message, line, column = found.groups() if found else (str(error), None, None)
        yield SyntaxProblem(int(line or text.count("\n") + 1), int(column or 1), message)


def yaml_problems(content: bytes) -> Iterator[SyntaxProblem]:
    """Yield the first error of a YAML file. Aliases are not expanded and tags build nothing."""
    import yaml

    try:
        for _ in yaml.parse(content, Loader=yaml.SafeLoader):
            pass
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        text = getattr(error, "problem", None) or str(error).partition("\n")[0]
        yield SyntaxProblem(mark.line + 1 if mark else 1, mark.column + 1 if mark else 1, text)
