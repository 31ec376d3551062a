"""What a provider's page compares, counts and offers to copy."""

import base64
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ahvn_tools import ToolDefinition, Toolkit, ToolSpec, formats
from ahvn_tools.formats import BUILT_IN
from ahvn_tools.ui import facts
from ahvn_tools.ui.snippets import request_snippets
from examples.loopback import Loopback
from tests.formats.sdks.cases import DEFINITIONS
from tests.ui.desk import open_desk


def marked(tool: str, format: str, *, strict: bool = False) -> list[tuple[str, str]]:
    shown = facts.export_facts(open_desk()[tool], format, strict=strict)
    return [(mark, text.strip().rstrip(",")) for mark, text, _ in shown["lines"]]


@pytest.mark.parametrize("format", [name for name in BUILT_IN if name not in {"ollama", "prompt"}])
def test_a_schema_that_is_sent_as_it_is_has_no_marks(format: str) -> None:
    assert {mark for mark, _ in marked("fail", format)} == {""}


def test_what_a_format_changes_is_marked_at_its_lines() -> None:
    lines = marked("count", "gemini")
    assert ("-", '"default": 3') in lines
    assert ("~", '"description": "Default: 3."') in lines
    assert ("", '"name": "count"') in lines
    assert [mark for mark, text in lines if text == '"type": "integer"'] == [""]
    assert ("-", '"additionalProperties": false') in marked("fail", "ollama")
    assert ("+", '"strict": true') not in marked("fail", "openai", strict=True)  # it is no part of the schema


def test_the_lines_without_those_that_are_not_sent_are_the_export() -> None:
    tool = open_desk()["draw"]
    for name in BUILT_IN:
        shown = facts.export_facts(tool, name, strict=False)
        sent = "\n".join(text for mark, text, _ in shown["lines"] if mark != "-")
        assert json.loads(sent) == tool.to(name)


def test_schemas_of_any_size_are_shown() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [f"word {n}" for n in range(facts.MAX_COMPARED_LINES)]}}}
    tool = Toolkit("large").add(ToolSpec.from_schema("pick", schema, lambda **values: values))["pick"]
    shown = facts.export_facts(tool, "ollama", strict=False)
    assert {mark for mark, _, _ in shown["lines"]} == {""}


@pytest.mark.parametrize("name", BUILT_IN)
def test_each_copied_request_is_python(name: str) -> None:
    odd = ToolSpec.from_schema(
        "odd",
        {"type": "object", "properties": {"'''\\\"{x}": {"const": '\\\'"""\n\u2028😀JSON\nJSON'}}},
        lambda **values: values,
    )
    for tool in (*open_desk(), *Toolkit("odd").add(odd, description="'''\nJSON\n$(date) `date`")):
        snippets = facts.export_facts(tool, name, strict=False)["snippets"]
        compile(snippets["Python"], "copied", "exec")
        if name == "langchain":
            assert "bind_tools" in snippets["Python"]
        if "curl" in snippets:
            assert snippets["curl"].splitlines().count("JSON") == 1


ADDRESSES = {
    "openai": ("openai_chat", "https://api.openai.com"),
    "openai-responses": ("openai_responses", "https://api.openai.com"),
    "prompt": ("openai_chat", "https://api.openai.com"),
    "anthropic": ("anthropic_messages", "https://api.anthropic.com"),
    "gemini": ("gemini_generate", "https://generativelanguage.googleapis.com"),
    "bedrock": ("bedrock_converse", "https://bedrock-runtime.$AWS_REGION.amazonaws.com"),
    "mistral": ("mistral_chat", "https://api.mistral.ai"),
    "ollama": ("ollama_chat", "http://localhost:11434"),
}
"""The loopback service of each format, and the beginning of its address."""


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("tool", DEFINITIONS, ids=lambda tool: tool.name)
@pytest.mark.parametrize("format", ADDRESSES)
def test_curl_sends_the_copied_request(format: str, tool: ToolDefinition) -> None:
    service, site = ADDRESSES[format]
    command = request_snippets(format, formats.get(format).export([tool])[0])["curl"]
    with Loopback({}) as server:
        command = command.replace(site, server.url(service)).replace('curl "', 'curl --fail-with-body -sS "')
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert len(server.requests) == 1


def test_tokens_are_counted_where_a_vocabulary_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert facts.count_tokens("two words") is None
    pytest.importorskip("tiktoken")
    bpe = pytest.importorskip("bpe_openai")
    ranks = bpe.get_encoding("o200k_base")._mergeable_ranks
    lines = (b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in ranks.items())
    (tmp_path / "fb374d419588a4632f3f557e76b4b70aebbca790").write_bytes(b"".join(lines))
    assert facts.count_tokens("two words") == 2
