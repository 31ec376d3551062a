"""A folder with tools, in which manifests are written and loaded."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ahvn_tools import Toolkit, load
from tests.execution.conftest import nothing_is_left

__all__ = ["nothing_is_left"]

TOOLS = '''
"""Tools for notes."""

from ahvn_tools import ToolRegistry, reg_toolspec, tool


@tool(tags={"read"})
def find(query: str, limit: int = 5, token: str = "none") -> str:
    """Find notes."""
    return f"{query} {limit} {token}"


@tool
def delete(note: int, user: str = "nobody") -> str:
    """Delete a note."""
    return f"{user} deleted {note}"


class _Archive(ToolRegistry):
    @reg_toolspec
    def restore(self, note: int) -> str:
        """Restore a note."""
        return f"restored {note}"


archive = _Archive()


async def shout(call, next):
    """Write results in capitals."""
    from dataclasses import replace

    result = await next(call)
    return replace(result, value=str(result.value).upper())


def repeat(times: int = 2):
    """Return middleware that repeats the result."""

    async def middleware(call, next):
        from dataclasses import replace

        result = await next(call)
        return replace(result, value=str(result.value) * times)

    return middleware


def ask(request):
    """Approve calls for note 1."""
    return request.arguments["note"] == 1
'''

Load = Callable[..., Toolkit]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a folder with the module `notes` the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delenv("AHVN_TOOLS_PROFILE", raising=False)
    (tmp_path / "notes.py").write_text(TOOLS)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        module_file = getattr(sys.modules[name], "__file__", None)
        if module_file is not None and Path(module_file).is_relative_to(tmp_path):
            del sys.modules[name]


@pytest.fixture
def load_text(folder: Path) -> Load:
    """Write a manifest and load it, with options of `load`."""

    def load_manifest(text: str, **options: object) -> Toolkit:
        (folder / "kit.yaml").write_text(textwrap.dedent(text))
        return load("kit.yaml", **options)

    return load_manifest
