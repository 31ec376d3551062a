"""Collect the examples of README.md, docs/ and the package's docstrings as tests.

A Markdown page is one program: its ```python blocks run from top to bottom in one namespace, as if typed into a script,
and may `await` at the top level, as in a notebook. A block that starts with `>>>` is compared with what it prints.
In docstrings the `>>>` examples run. No example can be skipped: a block that cannot run is not marked as Python.
"""

from __future__ import annotations

import ast
import asyncio
import doctest
import inspect
from pathlib import Path
from typing import Any

import pytest
from sybil import Example, Sybil
from sybil.evaluators.python import pad
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser
from sybil.parsers.rest import DocTestParser

ROOT = Path(__file__).resolve().parent.parent
COMPARISON = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_block(example: Example) -> None:
    """Run one block with its line numbers in the page, in a new event loop if it awaits something."""
    source = pad(example.parsed, example.line + example.parsed.line_offset)
    code = compile(source, example.path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    running = eval(code, example.namespace)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(running)


def as_script(namespace: dict[str, Any]) -> None:
    """Let a page define its names in `__main__`, as when a reader runs it."""
    namespace["__name__"] = "__main__"


markdown = PythonCodeBlockParser(doctest_optionflags=COMPARISON)
markdown.codeblock_parser = CodeBlockParser("python", run_block)

pages = Sybil(
    [markdown], path=str(ROOT), patterns=["README.md", "docs/*.md", "docs/*/*.md"], setup=as_script, name="page"
).pytest()
docstrings = Sybil(
    [DocTestParser(COMPARISON)], path=str(ROOT / "ahvn_tools"), pattern="*.py", name="docstring"
).pytest()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a page, or a module of the package if it has examples: to parse all of them takes long."""
    if file_path.suffix == ".py" and b">>>" not in file_path.read_bytes():
        return None
    return pages(file_path, parent) or docstrings(file_path, parent)
