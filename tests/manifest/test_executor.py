"""Manifests with tools that run in the executor of the host."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ahvn_tools import Toolkit, aload, load
from ahvn_tools.errors import SourceError

TOOLS = '''
from ahvn_tools import ToolContext, tool

@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b

@tool
def where(context: ToolContext) -> dict:
    """Return the state."""
    return dict(context.state)
'''

MANIFEST = """
name: shop
sources:
  - source: tools.py
    isolation: executor
tools:
  where:
    ship: [user.locale]
    ship_secrets: true
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS)
    path = tmp_path / "shop.yaml"
    path.write_text(MANIFEST)
    return path


async def test_the_tools_of_a_manifest_run_in_the_executor_that_is_passed(manifest):
    with ThreadPoolExecutor(1) as executor:
        for kit in (load(manifest, executor=executor), await aload(manifest, executor=executor)):
            kit.state["user"] = {"locale": "de", "name": "ann"}
            assert kit.call("add", {"a": 1, "b": 2}) == 3
            assert kit.call("where") == {"user": {"locale": "de"}}
            assert kit["where"].compiled.plan.settings.ship_secrets


def test_without_an_executor_the_tools_are_findings(manifest):
    kit = load(manifest)
    assert sorted(found.tool for found in kit.check() if found.rule == "no-executor") == ["add", "where"]
    assert kit.exec("add", {"a": 1, "b": 2}).error.code == "connection"


def test_a_key_for_a_tool_without_a_context_is_an_error_with_its_line(manifest):
    manifest.write_text(MANIFEST.replace("  where:\n", "  add:\n"))
    with pytest.raises(SourceError, match="'add' has the option ship, and takes no ToolContext"):
        load(manifest)


def test_several_sources_run_in_the_executor_and_a_toolkit_of_its_own_keeps_its_own(manifest, tmp_path):
    with ThreadPoolExecutor(1) as executor:
        assert load(manifest, tmp_path / "tools.py", executor=executor).call("add", {"a": 1, "b": 1}) == 2
        with pytest.raises(SourceError, match=r"executor=… would change it: pass the executor there"):
            load(Toolkit("own"), executor=executor)
