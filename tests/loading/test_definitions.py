"""Definitions of single tools in YAML files."""

from __future__ import annotations

import json

import pytest

from ahvn_tools.errors import SourceError
from ahvn_tools.loading.definitions import read
from ahvn_tools.loading.options import ReadOptions, expand
from ahvn_tools.manifest import load
from tests.sources.http.service import serve

CODE = """
from ahvn_tools import Toolkit, tool

def add(a: int, b: int = 0) -> int:
    "Add two numbers."
    return a + b

@tool(tags=["math"])
def double(a: int) -> int:
    "Double a number."
    return 2 * a

kit = Toolkit("kit")
"""


def refusal(text: str, write, file: str = "tool.yaml") -> str:
    write(CODE, "calc.py")
    write(text, file)
    with pytest.raises(SourceError) as caught:
        read(file, ReadOptions())
    assert caught.value.file == file
    return str(caught.value)


# functions


def test_a_function_gets_the_options_of_its_definition(write):
    write(CODE, "calc.py")
    write(
        """
        name: calculate
        kind: function
        function: calc.py:add
        title: Calculator
        description: Calculate.
        tags: [math]
        timeout: 30
        annotations: {readOnlyHint: true}
        metadata: {owner: me}
        """,
        "tool.yaml",
    )
    spec = load("tool.yaml")["calculate"]
    definition = spec.definition
    assert (definition.name, definition.title, definition.description) == ("calculate", "Calculator", "Calculate.")
    assert (definition.tags, definition.annotations, definition.meta) == (
        {"math"},
        {"readOnlyHint": True},
        {"owner": "me"},
    )
    assert (spec(a=1, b=2), spec.compiled.template.settings.timeout) == (3, 30)


@pytest.mark.parametrize(
    ("key", "value", "file"),
    [
        ("function", "calc.py:add", "tool.yaml"),
        ("function", "calc:add", "tool.yaml"),
        ("function_path", "calc:add", "tool.yaml"),
        ("function", "calc:add", "builtin/tool.yaml"),
        ("function", "../calc.py:add", "builtin/tool.yaml"),
        ("function", "operator:add", "tool.yaml"),
    ],
)
def test_a_function_is_beside_the_file_or_in_a_module(key, value, file, write):
    write(CODE, "calc.py")
    schema = "parameters_schema: {type: object, properties: {a: {type: integer}, b: {type: integer}}}"
    write(f"tool_type: builtin\n{key}: {value}\n{schema if 'operator' in value else ''}", file)
    if "operator" in value:
        assert "operator" not in [spec.name for spec in load(file)]
    else:
        assert load(file).call("tool", {"a": 1, "b": 2}) == 3


def test_a_schema_of_the_definition_is_what_models_see(write):
    write(CODE, "calc.py")
    schema = "{type: object, properties: {a: {type: integer, maximum: 5}}, required: [a]}"
    write(f"kind: function\nfunction: calc:add\nparameters_schema: {schema}", "tool.yaml")
    kit = load("tool.yaml")
    assert kit["tool"].definition.input_schema["properties"] == {"a": {"type": "integer", "maximum": 5}}
    assert kit.exec("tool", {"a": 6}).error.code == "invalid_parameters"


def test_a_tool_keeps_what_its_definition_does_not_change(write):
    write(CODE, "calc.py")
    write("kind: function\nname: twice\nfunction: calc:double", "tool.yaml")
    definition = load("tool.yaml")["twice"].definition
    assert (definition.description, definition.tags) == ("Double a number.", {"math"})


def test_a_definition_binds_parameters_to_state_keys(write):
    write(CODE, "calc.py")
    write("kind: function\nfunction: calc:add\nbinds: {b: user.bonus}", "tool.yaml")
    kit = load("tool.yaml")
    assert kit.session(user={"bonus": 2}).call("tool", {"a": 1}) == 3


@pytest.mark.parametrize("kind", ["kind: function\nfunction: nowhere:add", "kind: mcp\ncommand: nowhere"])
def test_a_definition_that_is_not_enabled_runs_nothing(kind, write):
    write(f"{kind}\nenabled: false", "tool.yaml")
    assert len(load("tool.yaml", trust=[])) == 0


@pytest.mark.parametrize(("text", "seconds"), [("30", 30), ("30s", 30), ("1.5 s", 1.5), ("500ms", 0.5), ("2m", 120)])
def test_a_timeout_is_a_number_of_seconds_or_has_a_unit(text, seconds, write):
    write(CODE, "calc.py")
    write(f"kind: function\nfunction: calc:add\ntimeout: {text}", "tool.yaml")
    assert load("tool.yaml")["tool"].compiled.template.settings.timeout == seconds


# servers


def server(text: str, write, **env: str):
    write(text, "clock.yaml")
    source = read("clock.yaml", ReadOptions(env=env)).servers[0]
    return source.server["clock"], source.options


def test_the_server_of_a_url_gets_the_api_key_as_a_token(write):
    entry, options = server(
        """
        tool_type: mcp
        mcp_server_url: https://${HOST:clock.example}/mcp
        mcp_api_key: ${CLOCK_KEY}
        headers: {X-Team: tools, X-Number: 3}
        timeout: 5s
        include: [now]
        prefix: clock_
        """,
        write,
        CLOCK_KEY="hidden",
    )
    assert (entry.url, entry.auth) == ("https://clock.example/mcp", "hidden")
    assert entry.headers == {"X-Team": "tools", "X-Number": "3"}
    assert options == {"timeout": 5, "include": ["now"], "prefix": "clock_"}


def test_the_server_of_a_command_gets_arguments_and_variables(write, tmp_path):
    entry, _ = server(
        "kind: mcp\ncommand: npx -y 'a server'\nargs: [--port, 3]\nenv: {KEY: '${KEY}'}\ncwd: run", write, KEY="hidden"
    )
    assert (entry.command, entry.env, entry.cwd) == (
        ("npx", "-y", "a server", "--port", "3"),
        {"KEY": "hidden"},
        str(tmp_path / "run"),
    )


# errors


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "tool.yaml: a definition is a mapping with `name`, `kind` and so on."),
        ("name: x\nkind: htp", "tool.yaml, line 2: `kind`: it is not 'htp'. Known: 'http', 'native', 'function', "),
        (
            "name: x\nkind: http\ntool_type: mcp",
            "tool.yaml, line 3: `tool_type`: it means the same as 'kind': keep one",
        ),
        ("kind: function", "tool.yaml: a definition of the kind 'function' has either `function` or `function_path`."),
        (
            "kind: function\nfunction: calc:add\nfunction_path: calc:add",
            "tool.yaml, line 3: `function_path`: a definition of the kind 'function' has either `function` or",
        ),
        (
            "kind: function\nfunction: 3",
            "tool.yaml, line 2: `function`: it is FILE.py:NAME or MODULE:NAME, not a number.",
        ),
        ("kind: function\nfunction: calc.py", "tool.yaml, line 2: `function`: it is FILE.py:NAME or MODULE:NAME."),
        ("kind: function\nfunction: calc:ad", "tool.yaml, line 2: `function`: "),
        ("kind: function\nfunction: calc:kit", "tool.yaml, line 2: `function`: "),
        (
            "kind: function\nfunctoin: calc:add",
            "tool.yaml, line 2: `functoin`: a definition of the kind 'function' has no such key. Did you mean 'functi",
        ),
        (
            "kind: function\nfunction: calc:add\ntimeout: soon",
            "tool.yaml, line 3: `timeout`: it is a number of seconds above 0, such as 30, 30s or 500ms.",
        ),
        ("kind: function\nfunction: calc:add\ntimeout: 0s", "tool.yaml, line 3: `timeout`: it is a number of seconds "),
        (
            "kind: function\nfunction: calc:add\ntimeout: true",
            "tool.yaml, line 3: `timeout`: it is a number of seconds",
        ),
        (
            "kind: function\nfunction: calc:add\nenabled: no",
            "tool.yaml, line 3: `enabled`: it is true or false, not a text",
        ),
        ("kind: function\nfunction: calc:add\ntags: [1]", "tool.yaml, line 3: `tags`: it is a list of texts."),
        (
            "kind: function\nfunction: calc:add\nparameters_schema: []",
            "tool.yaml, line 3: `parameters_schema`: it is a JSON Schema, not a list.",
        ),
        ("kind: mcp", "tool.yaml: a definition of the kind 'mcp' has either `url` or `mcp_server_url` or `command`."),
        (
            "kind: mcp\nurl: http://x\nargs: [a]",
            "tool.yaml, line 3: `args`: it is for a `command`, and the server is a `url`.",
        ),
        (
            "kind: mcp\ncommand: x\nheaders: {a: b}",
            "tool.yaml, line 3: `headers`: it is for a `url`; a command takes `env`.",
        ),
        (
            "kind: mcp\nurl: http://x\nheaders: {a: [b]}",
            "tool.yaml, line 3: `headers`: 'a' is a text: write it in quotes.",
        ),
        (
            "kind: mcp\nurl: '${UNSET_HERE}'",
            "tool.yaml, line 2: `url`: The environment variable 'UNSET_HERE' is not set",
        ),
        (
            "kind: mcp\nurl: x\nparameters_schema: {}",
            "tool.yaml, line 3: `parameters_schema`: the server says what its ",
        ),
        ("kind: mcp\ncommand: []", "tool.yaml, line 2: `command`: a command is a program and its arguments"),
        (
            "kind: mcp\nurl: x\nmcp_api_key: [hidden]",
            "tool.yaml, line 3: `mcp_api_key`: it is a text, such as ${API_KEY}, ",
        ),
    ],
)
def test_a_definition_that_does_not_fit_is_refused_with_line_and_key(text, message, write):
    found = refusal(text, write)
    assert found.startswith(message)
    assert "hidden" not in found


@pytest.mark.parametrize("kind", ["[http]", "{a: b}", "3", "~"])
def test_a_kind_that_is_no_text_is_refused(kind, write):
    write(f"name: x\nkind: {kind}", "tool.yaml")
    with pytest.raises(SourceError, match=r"tool.yaml, line 2: `kind`: Known: 'http'"):
        read("tool.yaml", ReadOptions())


# variables


def test_variables_are_replaced_in_texts_lists_and_mappings():
    env = {"A": "1", "EMPTY": ""}
    assert expand(["${A}-${B:2}", {"x": "${EMPTY}|${B:}"}, "$${A}", 3, None], env) == [
        "1-2",
        {"x": "|"},
        "${A}",
        3,
        None,
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${B}", "The environment variable 'B' is not set: set it, or write ${B:default}."),
        ("${}", "A variable is ${NAME} or ${NAME:default}, and a literal ${ is $${."),
        ("${a", "A variable is "),
        ("${env:B}", "The environment variable 'env' is not set"),
    ],
)
def test_a_variable_that_is_not_set_or_not_finished_is_an_error(text, message):
    if text == "${env:B}":
        assert expand(text, {}) == "B"
        return
    with pytest.raises(SourceError) as caught:
        expand(text, {})
    assert str(caught.value).startswith(message)


@pytest.fixture
def service():
    with serve() as running:
        yield running


def test_a_definition_has_the_options_of_an_http_tool(write, service, monkeypatch):
    monkeypatch.setenv("NOTES_KEY", "canary-1")
    monkeypatch.setenv("NOTES_PORT", str(service.port))
    write(
        """
        kind: http
        name: add_note
        description: Add a note.
        api_url: http://127.0.0.1:${NOTES_PORT}/users/{user_id}/notes
        method: POST
        auth_method: api_key_header
        api_key: ${NOTES_KEY}
        headers: {X-Org: acme, X-Second: "Token ${NOTES_KEY}"}
        header: {tenant: X-Tenant}
        binds: {user_id: user.id, tenant: tenant}
        allow_private: [127.0.0.1]
        retry_count: 0
        timeout: 5s
        input_schema:
          type: object
          properties: {user_id: {type: string}, text: {type: string}}
          required: [user_id, text]
        """,
        "note.yaml",
    )
    kit = load("note.yaml")
    spec = kit["add_note"]
    assert (spec.description, spec.timeout, list(spec.params)) == ("Add a note.", 5, ["text"])
    assert spec.origin == "POST http://127.0.0.1:${NOTES_PORT}/users/{user_id}/notes"
    kit.state = {"user": {"id": "ann"}, "tenant": "t"}
    assert spec.call(text="hello") == {"ok": True}
    request = service.last
    assert (request.method, request.target) == ("POST", "/users/ann/notes")
    assert json.loads(request.body) == {"text": "hello"}
    assert {name: request.headers[name] for name in ("x-api-key", "x-org", "x-second", "x-tenant")} == {
        "x-api-key": "canary-1",
        "x-org": "acme",
        "x-second": "Token canary-1",
        "x-tenant": "t",
    }
    monkeypatch.delenv("NOTES_KEY")
    assert spec.exec(text="a").error.code == "unbound_state"


@pytest.mark.parametrize(
    ("file", "text", "method"),
    [
        ("a.yaml", "kind: http", "GET"),
        ("a.yaml", "tool_type: native", "POST"),
        ("tools/native/a.yaml", "", "POST"),
        ("tools/native/a.yaml", "kind: http", "GET"),
        ("tools/native/a.yaml", "method: put", "PUT"),
    ],
)
def test_a_native_tool_posts_by_default(write, file, text, method):
    write(f"{text}\napi_url: https://x.example/y\n", file)
    (spec,) = load(file)
    assert spec.body.request.method == method


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("auth_method: none", "has an `api_url`"),
        ("api_url: 5", "line 2: `api_url`: api_url must be a URL such as"),
        ("api_url: https://x.example?key=${K}", "line 2: `api_url`: a variable in the query would be no secret"),
        ("api_url: https://${NOT_SET}", "line 2: `api_url`: The environment variable 'NOT_SET' is not set"),
        ("api_url: https://x.example\nurl: a", "line 3: `url`: a definition of the kind 'http' has no such key"),
        ("api_url: https://x.example\nauth_method: api_key\napi_key: canary-1", "'api_key' must not be a plain text"),
        (
            "api_url: https://x.example\nallow_private: 10.0.0.0/8",
            "line 3: `allow_private`: allow_private must be True, or a list",
        ),
        ("api_url: https://x.example\nretry_count: many", "line 3: `retry_count`: retry_count is a whole number"),
        ("api_url: https://x.example\nretry_count: -1", "line 3: `retry_count`: retry_count is a whole number"),
    ],
)
def test_a_wrong_definition_is_an_error_of_the_file(write, text, message):
    write(f"kind: http\n{text}\n", "a.yaml")
    with pytest.raises(SourceError) as caught:
        load("a.yaml")
    assert str(caught.value).startswith("a.yaml")
    assert message in str(caught.value)
    assert "canary" not in str(caught.value)
