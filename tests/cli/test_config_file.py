"""An entry is added to JSON, TOML and YAML texts, and everything else in them stays as it is."""

from __future__ import annotations

import contextlib
import json
import time
import tomllib

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ahvn_tools.cli.config_file import EDITORS

ENTRY = {"command": "python", "args": ["-m", 'a "b" \\ ü'], "env": {"A": "1"}}
PATH = ("servers", "notes")

JSONC = """\
{
    // my servers
    "servers": {
        "other": {"command": "npx"}, // keep // this
        /* and
           this */
    },
    "theme": "dark", // last
}
"""
TOML = """\
model = "o3" # mine

[servers.other]
command = "npx"

[servers.notes] # old
command = "old"
[servers.notes.env]
A = "0"

[[profiles]]
name = "[x]"
"""
YAML = """\
# mine
model: gpt # best
servers:
  # first
  developer:
    enabled: true

  notes:
    cmd: old
    args:
    - a
other: [1, ~]
"""


def test_comments_and_indentation_stay():
    assert EDITORS["jsonc"].set_entry(JSONC, PATH, {"command": "x", "args": []}) == snapshot("""\
{
    // my servers
    "servers": {
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
    assert EDITORS["toml"].set_entry(TOML, PATH, ENTRY) == snapshot("""\
model = "o3" # mine

[servers.other]
command = "npx"

[servers.notes] # old
command = "python"
args = ["-m", "a \\"b\\" \\\\ ü"]

[servers.notes.env]
A = "1"
[[profiles]]
name = "[x]"
""")
    assert EDITORS["yaml"].set_entry(YAML, PATH, ENTRY) == snapshot("""\
# mine
model: gpt # best
servers:
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

other: [1, ~]
""")


@pytest.mark.parametrize(
    ("syntax", "text", "expected"),
    [
        ("json", '{"servers": {"a": 1, "notes": {}, "b": 2}}', '{"servers": {"a": 1, "b": 2}}'),
        ("json", '{"servers": {"a": 1, "notes": {}}}', '{"servers": {"a": 1}}'),
        ("json", '{\n  "servers": {\n    "notes": {}\n  }\n}\n', '{\n  "servers": {}\n}\n'),
        (
            "jsonc",
            '{"servers": {\n  "a": 1, // a, too\n  // notes\n  "notes": {}, // kept\n}}',
            '{"servers": {\n  "a": 1, // a, too\n  // notes // kept\n}}',
        ),
        (
            "jsonc",
            '{"servers": {\n  "a": 1 /* ,"b" */,\n  "notes": {} // kept\n}}',
            '{"servers": {\n  "a": 1 /* ,"b" */ // kept\n}}',
        ),
        ("toml", "[servers.notes]\na = 1\n[servers.notes.env]\nb = 1\n[x] # x\n", "[servers]\n\n[x] # x\n"),
        ("toml", "[servers.a]\nx = 1 # a\n\n[servers.notes]\na = 1\n", "[servers.a]\nx = 1 # a\n\n"),
        ("yaml", "servers:\n  notes:\n    a: 1\n\n# end\n", "servers: {}\n# end\n"),
        ("yaml", "servers:\n  notes:\n    a: |\n      x: 1\n  b: 1 # b\n", "servers:\n  b: 1 # b\n"),
    ],
)
def test_an_entry_is_removed_and_comments_stay(syntax, text, expected):
    assert EDITORS[syntax].remove_entry(text, PATH) == expected


LAYOUTS = {
    "json": [
        "{}",
        '{"servers": {}}',
        '{"servers":{"other":{"command":"x"}},"a":[1,{}]}',
        '{\n\t"servers": {\n\t\t"other": {}\n\t}\n}\n',
        '{\n  "a": 1\n}',
        '{\n  "servers": {\n  }\n}\n',
        '{"servers": {"notes": {"command": "old"}, "z": {}}}',
        '\n{ "a" : { } }\n',
    ],
    "jsonc": [JSONC, '{"servers": {"a": "//", /* , */ "b": [1,],},}', '// "servers": {}\n{"a": "\\"/*"}'],
    "toml": [
        TOML,
        "",
        "\n# mine",
        "[\"servers\".'notes']\na = 1\n",
        'servers = {other = {a = "x"}}',
        "[servers]\n[a]\n",
    ],
    "yaml": [
        YAML,
        "",
        "# mine\n",
        "a: 1",
        "servers: {} # mine",
        "servers:\n    one:\n        a: 1\n",
        "'servers': { }",
    ],
}


@pytest.mark.parametrize(("syntax", "text"), [(syntax, text) for syntax, texts in LAYOUTS.items() for text in texts])
def test_a_text_of_any_layout_gets_the_entry(syntax, text):
    editor = EDITORS[syntax]
    expected = editor.parse(text or editor.empty)
    expected.setdefault("servers", {})["notes"] = ENTRY
    changed = editor.set_entry(text or editor.empty, PATH, ENTRY)
    parse = {"toml": tomllib.loads, "yaml": yaml.safe_load, "jsonc": editor.parse, "json": json.loads}[syntax]
    assert parse(changed) == expected
    assert all(comment in changed for comment in ("# mine", "// keep // this", "/* and", "// last") if comment in text)
    removed = editor.remove_entry(changed, PATH)
    del expected["servers"]["notes"]
    assert parse(removed) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    data=st.dictionaries(st.sampled_from(["servers", "a", "", "ü"]), JSON),
    indent=st.sampled_from([None, 1, 4, "\t"]),
)
def test_the_rest_of_any_json_stays(data, indent):
    text = json.dumps(data, indent=indent)
    if not isinstance(data.get("servers", {}), dict):
        with pytest.raises(ValueError, match="servers is not an object"):
            EDITORS["json"].set_entry(text, PATH, ENTRY)
        return
    changed = EDITORS["json"].set_entry(text, PATH, ENTRY)
    assert json.loads(changed) == {**data, "servers": {**data.get("servers", {}), "notes": ENTRY}}
    removed = json.loads(EDITORS["json"].remove_entry(changed, PATH))
    others = {name: value for name, value in data.get("servers", {}).items() if name != "notes"}
    assert removed == {**data, "servers": others}
    assert EDITORS["jsonc"].parse(text) == data


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1,}', "{'a': 1}", '{"a" 1}', '{"a": 1 "b": 2}', '{"a": 1} x', '{"a": 1, "a": 2}', '{"a": [1,]}',
        '{"a": 1 // x\n}', "{a: 1}", "{", "",
    ],
)  # fmt: skip
def test_what_is_no_json_is_refused(text):
    with pytest.raises(ValueError):
        EDITORS["json"].parse(text)


def test_many_comments_are_read_in_linear_time():
    started = time.perf_counter()
    for text in ("[1," + "/**/" * 100_000 + "2]", "/*" * 100_000, '"\\' * 100_000, "[" + "1, " * 100_000 + "1]"):
        with contextlib.suppress(ValueError):
            EDITORS["jsonc"].parse(text)
    assert time.perf_counter() - started < 10
