"""A folder with files, a workspace on it, and a session that calls its tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.builtins import Workspace


class Desk:
    """A session of a toolkit with a workspace, and what the approver was asked."""

    def __init__(self, folder: Path, *, answer: Any = True, **options: Any) -> None:
        self.folder = folder
        self.workspace = Workspace(folder, **options)
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        approver = None if answer is None else self._decide
        self.answer = answer
        self.kit = Toolkit("desk", approver=approver).add(self.workspace, exclusive=self.workspace.file_key)
        self.session = self.kit.session(session_id="one")

    def _decide(self, request: Any) -> Any:
        self.asked.append((request.action, request.details))
        return self.answer

    def call(self, name: str, **arguments: Any) -> str:
        """Return the text of a result that is no error."""
        result = self.session.exec(name, arguments)
        assert not result.is_error, result.text
        return result.text

    def error(self, name: str, **arguments: Any) -> str:
        """Return the text of a result that is an error."""
        result = self.session.exec(name, arguments)
        assert result.is_error, result.text
        return result.text

    def write(self, name: str, content: bytes | str) -> Path:
        """Write a file without the tools."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def read(self, name: str) -> bytes:
        """Read a file without the tools."""
        return (self.folder / name).read_bytes()


@pytest.fixture
def make_desk(tmp_path: Path) -> Callable[..., Desk]:
    """Return a function that makes a desk with options of the workspace."""
    folder = tmp_path / "work"
    folder.mkdir()
    return lambda **options: Desk(folder, **options)


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Desk:
    """Return a desk with default options, whose approver approves."""
    return make_desk()


def block(search: str, replace: str) -> str:
    """Return a block of edit_file_search_replace."""
    return f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"


@pytest.fixture(name="block")
def block_function() -> Callable[[str, str], str]:
    """Return the function that writes a block."""
    return block
