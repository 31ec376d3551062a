"""An entry is added to JSON, TOML and YAML texts, and everything else in them stays as it is."""

from __future__ import annotations

import json
import tomllib

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ahvn_tools.cli.config_texts import JsonText, TomlText, YamlText

ENTRY = {"command": "python", "args": ["-m", 'a "b" \\ ü'], "env": {"A": "1"}}
PATH = ("mcpServers", "notes")

JSONC = """\
{
    // my servers
    "mcpServers": {
        "other": {"command": "npx"}, // keep // this
        /* and
           this */
    },
    "theme": "dark", // last
}
"""


def test_comments_trailing_commas_and_indentation_stay():
    text = JsonText(comments=True).set_entry(JSONC, PATH, {"command": "x", "args": []})
    assert text == snapshot("""\
{
    // my servers
    "mcpServers": {
        "other": {"command": "npx"}, // keep // this
        /* and
           this */
        "notes": {
            "command": "x",
            "args": []
        }
    },
    "theme": "dark", // last
}
""")
    assert JsonText(comments=True).set_entry(text, PATH, {"command": "y"}) == text.replace(
        '{\n            "command": "x",\n            "args": []\n        }',
        '{\n            "command": "y"\n        }',
    )
    added = JsonText(comments=True).set_entry(JSONC, ("new", "notes"), {"a": 1})
    assert JsonText(comments=True).parse(added)["new"] == {"notes": {"a": 1}}
    assert added.startswith(JSONC.rstrip("}\n"))


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"mcpServers": {}}',
        '{"mcpServers":{"other":{"command":"x"}},"a":[1,{}]}',
        '{\r\n\t"mcpServers": {\r\n\t\t"other": {}\r\n\t}\r\n}\r\n',
        '{\n  "a": 1\n}',
        '{\n  "mcpServers": {\n  }\n}\n',
        '{"mcpServers": {"notes": {"command": "old"}, "z": {}}}',
        '\n{ "a" : { } }\n',
    ],
)
def test_json_of_any_layout_gets_the_entry(text):
    expected = json.loads(text)
    expected.setdefault("mcpServers", {})["notes"] = ENTRY
    changed = JsonText(comments=False).set_entry(text, PATH, ENTRY)
    assert json.loads(changed) == expected
    assert ("\r\n" in changed) == ("\r\n" in text)
    assert changed.replace("\r\n", "").count("\r") == 0
    removed = JsonText(comments=False).remove_entry(changed, PATH)
    del expected["mcpServers"]["notes"]
    assert json.loads(removed) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    data=st.dictionaries(st.sampled_from(["mcpServers", "a", "", "ü"]), JSON),
    indent=st.sampled_from([None, 1, 4, "\t"]),
)
def test_the_rest_of_any_json_stays(data, indent):
    text = json.dumps(data, indent=indent)
    if not isinstance(data.get("mcpServers", {}), dict):
        with pytest.raises(ValueError, match="mcpServers is not an object"):
            JsonText(comments=False).set_entry(text, PATH, ENTRY)
        return
    changed = JsonText(comments=False).set_entry(text, PATH, ENTRY)
    assert json.loads(changed) == {**data, "mcpServers": {**data.get("mcpServers", {}), "notes": ENTRY}}
    assert JsonText(comments=True).parse(text) == data


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1,}',
        "{'a': 1}",
        '{"a" 1}',
        '{"a": 1 "b": 2}',
        '{"a": 1} x',
        '{"a": 1, "a": 2}',
        '{"a": [1,]}',
        '{"a": 1 // x\n}',
        "{a: 1}",
        "{",
        "",
    ],
)
def test_what_is_no_json_is_refused(text):
    with pytest.raises(ValueError):
        JsonText(comments=False).parse(text)


TOML = """\
model = "o3" # mine

[mcp_servers.other]
command = "npx"

[mcp_servers.notes] # old
command = "old"
[mcp_servers.notes.env]
A = "0"

[[profiles]]
name = "[x]"
"""


def test_toml_gets_a_table_and_loses_the_old_one():
    path = ("mcp_servers", "notes")
    changed = TomlText().set_entry(TOML, path, ENTRY)
    assert changed == snapshot("""\
model = "o3" # mine

[mcp_servers.other]
command = "npx"

[[profiles]]
name = "[x]"

[mcp_servers.notes]
command = "python"
args = ["-m", "a \\"b\\" \\\\ ü"]

[mcp_servers.notes.env]
A = "1"
""")
    expected = tomllib.loads(TOML)
    expected["mcp_servers"]["notes"] = ENTRY
    assert tomllib.loads(changed) == expected
    assert TomlText().set_entry("", path, {"command": "x"}) == '[mcp_servers.notes]\ncommand = "x"\n'
    removed = TomlText().remove_entry(changed, path)
    assert tomllib.loads(removed)["mcp_servers"] == {"other": {"command": "npx"}}


def test_a_quoted_name_in_toml_is_the_same_name():
    text = '["mcp_servers".\'notes\']\ncommand = "old"\n'
    changed = TomlText().set_entry(text, ("mcp_servers", "notes"), ENTRY)
    assert tomllib.loads(changed) == {"mcp_servers": {"notes": ENTRY}}


YAML = """\
# mine
GOOSE_MODEL: gpt # best
extensions:
  # first
  developer:
    enabled: true
    type: builtin

  notes:
    cmd: old
    args:
    - a
other: [1]
"""


def test_yaml_gets_an_entry_and_keeps_comments():
    path = ("extensions", "notes")
    changed = YamlText().set_entry(YAML, path, ENTRY)
    assert changed == snapshot("""\
# mine
GOOSE_MODEL: gpt # best
extensions:
  notes:
    command: python
    args:
    - -m
    - a "b" \\ ü
    env:
      A: '1'
  # first
  developer:
    enabled: true
    type: builtin

other: [1]
""")
    expected = yaml.safe_load(YAML)
    expected["extensions"]["notes"] = ENTRY
    assert yaml.safe_load(changed) == expected
    removed = YamlText().remove_entry(changed, path)
    assert yaml.safe_load(removed)["extensions"] == {"developer": {"enabled": True, "type": "builtin"}}


@pytest.mark.parametrize(
    "text", ["", "a: 1", "extensions:\n", "extensions: {}", "extensions:\n    one:\n        a: 1\n"]
)
def test_yaml_of_any_layout_gets_the_entry(text):
    expected = yaml.safe_load(text) or {}
    expected["extensions"] = {**(expected.get("extensions") or {}), "notes": ENTRY}
    assert yaml.safe_load(YamlText().set_entry(text, ("extensions", "notes"), ENTRY)) == expected


def test_the_last_entry_leaves_an_empty_object():
    text = YamlText().set_entry("", ("extensions", "notes"), ENTRY)
    removed = YamlText().remove_entry(text, ("extensions", "notes"))
    assert yaml.safe_load(removed) == {"extensions": {}}
