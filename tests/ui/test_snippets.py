"""What a provider's page compares, counts and offers to copy."""

import ast
import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ahvn_tools import ToolDefinition, Toolkit, ToolSpec, formats
from ahvn_tools.formats import BUILT_IN
from ahvn_tools.ui import facts
from ahvn_tools.ui.snippets import call_snippets, request_snippets, setup_code
from examples.loopback import Loopback
from tests.formats.sdks.cases import DEFINITIONS
from tests.ui.desk import open_desk
from tests.ui.test_site import client

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


def containers(inner: Any) -> Any:
    return st.lists(inner) | st.dictionaries(st.text(), inner)


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


def open_wide(count: int) -> Toolkit:
    properties = {f"p{n}": {"type": "string", "pattern": "^(?=a)", "format": "x", "minLength": 1} for n in range(count)}
    schema = {"type": "object", "properties": properties}
    return Toolkit("wide").add(ToolSpec.from_schema("wide", schema, lambda **values: values))


@pytest.mark.parametrize("format", BUILT_IN)
def test_a_schema_of_a_hostile_server_is_shown_in_part_or_not_at_all(
    format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "MAX_LINES", 30)
    monkeypatch.setattr(facts, "MAX_FINDINGS", 0)
    page = client(open_wide(30)).get(f"/provider/wide?format={format}").text
    assert page.count("<td><pre>") <= 30
    assert ("more lines are not shown" in page) is (page.count("<td><pre>") == 30)
    assert '<ul class="findings">' not in page
    opened = client(open_wide(1500))
    page = opened.get(f"/provider/wide?format={format}").text
    assert "more than 40,000 characters" in page
    assert "<td><pre>" not in page
    assert opened.get("/providers").text.count("too large") == len(BUILT_IN)


def test_each_finding_stands_at_one_line() -> None:
    shown = facts.export_facts(open_wide(100)["wide"], "gemini", strict=False)
    findings = [finding for _, _, own in shown["lines"] for finding in own]
    assert len(findings) >= 100
    assert len(set(findings)) == len(findings)


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


@example({}, "os.environ[ json.loads(")
@given(st.dictionaries(st.text(), st.recursive(SCALARS, containers)), st.text(min_size=1))
def test_a_copied_call_has_the_same_name_and_arguments(arguments: dict[str, Any], name: str) -> None:
    code = call_snippets(name, arguments, "assert True", {}, set(), setup="")
    assume("import os\n" not in code["Python"] or name.startswith("os."))  # it has a secret
    (printed,) = ast.parse(code["Python"]).body
    assert isinstance(printed, ast.Expr)
    called = printed.value.args[0]  # type: ignore[attr-defined]  # print(kit.call(…))
    assert [ast.literal_eval(part) for part in called.args] == [name, arguments]
    compile(code["pytest"], "copied", "exec")


NESTED = {
    "cfg": {"password": "s3cret-1", "keys": [{"marked": "s3cret-2"}, {"user": "ann"}]},
    "note": "postgres://ann:s3cret-3@host/db",
    "token": {"parts": ["s3cret-4"]},
    "api_keys": "s3cret-5",
}


@pytest.mark.parametrize("state", [{}, {"conf": {"password": "s3cret-6"}, "own.value": "s3cret-7"}])
def test_secrets_at_any_depth_are_read_from_variables(state: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    codes = call_snippets("t", {**NESTED, "marked": 5}, "pass", state, {"marked", "own.value", "api_keys"}, setup="")
    calls: list[tuple[Any, ...]] = []

    class Kit:
        def session(self, state: Any, audience: Any) -> "Kit":
            calls.append((state,))
            return self

        def call(self, *values: Any) -> None:
            calls.append(values)

    variables = {
        "CFG_PASSWORD": "s3cret-1", "CFG_KEYS_0_MARKED": "s3cret-2", "NOTE": NESTED["note"],
        "MARKED": "5", "TOKEN": '{"parts": ["s3cret-4"]}', "API_KEYS": "s3cret-5",
        "CONF_PASSWORD": "s3cret-6", "OWN_VALUE": "s3cret-7",
    }  # fmt: skip
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    assert not any("s3cret" in code for code in codes.values())
    exec(codes["Python"], {"kit": Kit()})
    assert calls[-1] == ("t", {**NESTED, "marked": 5})
    assert calls[:-1] == ([({"conf": {"password": "s3cret-6"}, "own": {"value": "s3cret-7"}},)] if state else [])


def test_numbers_that_are_too_large_are_infinite_in_copied_code() -> None:
    arguments = {"low": -1e999, "many": [1e999, *range(40)], "inf": "inf"}
    code = call_snippets("t", arguments, "pass", {}, set(), setup="")["Python"]
    (printed,) = ast.parse(code).body
    assert eval(ast.unparse(printed.value.args[0].args[1])) == arguments  # type: ignore[attr-defined]  # print(…)


@pytest.mark.parametrize(
    ("source", "is_secret"),
    [
        ("python server.py --token TOKSECRET", True),
        ("python server.py --api-key=TOKSECRET", True),
        ("npx mcp-remote https://a.example --header 'Authorization: Bearer TOKSECRET'", True),
        ("https://user:TOKSECRET@a.example/mcp", True),
        ("https://a.example/mcp?api_key=TOKSECRET", True),
        ("tools.py:kit", False),
        ("python server.py --max-tokens 500 'a b", False),
        ("https://a.example/mcp?page=12345678", False),
    ],
)
def test_a_source_with_a_credential_is_read_from_a_variable(source: str, is_secret: bool) -> None:
    code = setup_code(["tools.py", source], {}, {}, ())
    shown = "os.environ['SOURCE_2']" if is_secret else repr(source)
    assert f"load('tools.py', {shown})" in code
    assert code.startswith("import os\n") is is_secret


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
