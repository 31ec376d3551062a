"""The JSON Schema of manifests, with which editors complete and check them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema_rs
import pytest

from ahvn_tools import manifest
from ahvn_tools.manifest.middleware_table import MIDDLEWARE
from ahvn_tools.manifest.model import Manifest, ToolRestrictions
from ahvn_tools.manifest.schema import SCHEMA_FILE, build_json_schema, to_text
from ahvn_tools.sources.yaml_file import read_yaml
from ahvn_tools.toolkit.entry_options import SharedOptions

ROOT = Path(__file__).resolve().parents[2]

GOOD = [
    "{}",
    "sources: [notes.py, https://notes.example/mcp]",
    "sources: [{source: notes.py, prefix: n_, include: find, timeout: 3}, {server: [npx, notes], env: {A: '${A}'}}]",
    "sources: [{code: 'def f(): ...'}, {openapi: api.yaml, operation_tags: [a]}]",
    "timeout: ${SECONDS}",
    "timeout: ${SECONDS:30}\nmax_concurrency: '${N}'\nstrict: ${STRICT:false}\non_duplicate: ${POLICY:raise}",
    "sources: [{source: a.py, timeout: '${T}', max_items: '${N:3}', requires_approval: '${ASK}'}]",
    "groups: {read: Reading., write: {notes: N., active: true}}",
    "toolsets: {a: [find], b: {any_of: [a, {tags: x}], ordered: true}}",
    "tools: {'delete_*': {group: rare, preset: {a: 1}, binds: {user: session.user}, arguments: {a: {name: b}}}}",
    "binds: {user: session.user, token: {secret: true}}\ntools: {find: {preset: {limit: [1, {a: b}]}}}",
    "middleware: [log, {retry: {attempts: '${N:3}'}}, {limit: {wait: 3}}, 'acme:audit', {'a:b': {x: 1}}, {log: }]",
    "search: true\ngroups_tool: {name: switch}\napproval: {approver: 'acme:ask', secret_key: '${KEY}'}",
    "search: [find]",
    "profiles: {prod: {timeout: null, groups: {a: null}, audiences: {admin: {tools: {find: {enabled: true}}}}}}",
]

BAD = [
    "- find",
    "source: [notes.py]",
    "sources: notes.py",
    "sources: [{source: a.py, module: b}]",
    "sources: [{prefix: a}]",
    "sources: [{source: a.py, includes: [a]}]",
    "sources: [3]",
    "timeout: soon",
    "timeout: 0",
    "timeout: SECONDS",
    "max_concurrency: 1.5",
    "strict: 'yes'",
    "on_duplicate: error",
    "groups: [read]",
    "groups: {read: {activ: true}}",
    "toolsets: {a: {names: [b]}}",
    "presets: {find: {limit: 1}}",
    "tools: {find: {tag: x}}",
    "middleware: [lgo]",
    "middleware: [{log: {lvl: info}}]",
    "middleware: [{log: {level: loud}}]",
    "middleware: [{log: {}, trace: {}}]",
    "middleware: log",
    "profiles: {prod: {timeot: 1}}",
    "isolation: thread",
]


@pytest.fixture(scope="module")
def validator():
    return jsonschema_rs.validator_for(manifest.json_schema(), offline=True)


def test_the_file_is_the_schema_of_the_models():
    """Write it again with `python -m ahvn_tools.manifest.schema`."""
    assert SCHEMA_FILE.read_text(encoding="utf-8") == to_text(build_json_schema())


def test_the_file_can_be_written_again_by_one_command(tmp_path):
    command = [sys.executable, "-m", "ahvn_tools.manifest.schema", str(tmp_path / "schema.json")]
    before = SCHEMA_FILE.stat().st_mtime_ns, SCHEMA_FILE.read_bytes()
    subprocess.run(command, check=True, cwd=ROOT, timeout=60)
    assert (tmp_path / "schema.json").read_bytes() == before[1]
    assert SCHEMA_FILE.stat().st_mtime_ns == before[0]


def test_the_schema_is_valid_and_describes_every_key():
    schema = manifest.json_schema()
    jsonschema_rs.meta.validate(schema)
    for model in (schema, *schema["$defs"].values()):
        for name, inner in model.get("properties", {}).items():
            assert inner.get("description"), name
    assert manifest.json_schema() is not manifest.json_schema()


def test_editors_complete_choices_and_middleware():
    schema = manifest.json_schema()
    assert schema["properties"]["on_duplicate"]["anyOf"][0]["enum"] == ["raise", "keep", "replace", "rename"]
    names = [inner.get("const") for inner in schema["$defs"]["Middleware"]["anyOf"]]
    assert [name for name in names if name] == list(MIDDLEWARE)
    assert schema["properties"].keys() == Manifest.model_fields.keys()


@pytest.mark.parametrize("text", GOOD)
def test_a_good_manifest_is_accepted(validator, text):
    assert [error.message for error in validator.iter_errors(read_yaml(text).value)] == []


@pytest.mark.parametrize("text", BAD)
def test_a_bad_manifest_is_refused(validator, text):
    assert not validator.is_valid(read_yaml(text).value)


def test_every_manifest_of_the_documentation_is_accepted(validator):
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")]
    texts = [block.split("```")[0] for page in pages for block in page.split("```yaml\n")[1:]]
    manifests = [text for text in texts if "sources:" in text]
    assert len(manifests) > 5
    for text in manifests:
        assert [error.message for error in validator.iter_errors(read_yaml(text).value)] == []


def test_the_package_data_has_the_schema():
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'packages = ["ahvn_tools"]' in pyproject  # hatchling takes all files in it
    assert json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))["title"] == "A manifest of ahvn_tools"


def test_each_option_that_add_and_add_mcp_share_is_a_key_of_a_manifest():
    functions = {"postprocess"}
    assert ToolRestrictions.model_fields.keys() - {"timeout"} == SharedOptions.__annotations__.keys() - functions
