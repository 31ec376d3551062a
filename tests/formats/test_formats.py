"""Formats by name: built in, registered, or from an entry point."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

from ahvn_tools import formats
from ahvn_tools.errors import ToolLookupError, ToolSpecError


def make_format() -> types.SimpleNamespace:
    return types.SimpleNamespace(
        export=lambda definitions, **options: [], calls=lambda response, definitions=(): [],
        results=lambda pairs: [], choice=lambda tools, **options: {},
    )  # fmt: skip


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(formats, "_registered", {})


@pytest.mark.parametrize("name", formats.BUILT_IN)
def test_a_built_in_format_is_its_module(name):
    assert formats.get(name).__name__ == f"ahvn_tools.formats.{name.replace('-', '_')}"


def test_an_unknown_format_is_refused_with_near_names():
    with pytest.raises(ToolLookupError, match=r"no format 'openai_responses'\. Did you mean 'openai-responses'"):
        formats.get("openai_responses")
    formats.register("telegraph", make_format())
    with pytest.raises(ToolLookupError, match=r"Known: 'anthropic', .*'openai', .*'telegraph'\."):
        formats.get("zzz")


def test_a_registered_format_is_found_and_may_be_registered_again():
    custom = make_format()
    formats.register("telegraph", custom)
    formats.register("telegraph", custom)
    assert formats.get("telegraph") is custom


def test_a_name_in_use_is_refused():
    formats.register("telegraph", make_format())
    with pytest.raises(ToolSpecError, match=r"'telegraph' belongs to namespace.* under another name"):
        formats.register("telegraph", make_format())
    with pytest.raises(ToolSpecError, match="'openai' belongs to the package"):
        formats.register("openai", make_format())


def test_a_module_that_lacks_a_function_is_no_format():
    custom = make_format()
    del custom.calls, custom.choice
    with pytest.raises(ToolSpecError, match="is no format: it lacks calls, choice"):
        formats.register("telegraph", custom)


def test_an_entry_point_is_a_format(tmp_path, monkeypatch):
    (tmp_path / "custom_telegraph.py").write_text(
        "def export(definitions, *, strict=False): return [{'stop': d.name} for d in definitions]\n"
        "def calls(response, definitions=()): return []\n"
        "def results(pairs): return []\n"
        "def choice(tools, *, parallel=None, definitions=()): return {}\n"
    )
    info = tmp_path / "telegraph-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: telegraph\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ahvn_tools.formats]\ntelegraph = custom_telegraph\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ToolLookupError, match="Did you mean 'telegraph'"):
        formats.get("telegraf")
    telegraph = formats.get("telegraph")
    assert telegraph.export([formats.ToolDefinition(name="ping")]) == [{"stop": "ping"}]
    assert formats.get("telegraph") is telegraph


def test_formats_import_no_sdk_and_no_tool():
    program = (
        "import sys; from ahvn_tools import formats; [formats.get(name) for name in formats.BUILT_IN]\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & "
        "{'openai', 'anthropic', 'mcp', 'mcp_types', 'fastmcp', 'httpx', 'jsonschema_rs'}), "
        "'ahvn_tools.spec' in sys.modules)"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert process.stdout == "[] False\n"
