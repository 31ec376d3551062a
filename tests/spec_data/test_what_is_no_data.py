"""What is no data is an error that names the part and the fix; values are in the data only where they may be."""

from __future__ import annotations

import functools
import json
import pickle
from datetime import date
from typing import Any

import pytest
from pydantic import SecretStr

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.loading.module_import import import_file
from ahvn_tools.loading.read_options import ReadOptions
from tests.imported_modules import forgotten
from tests.spec_data import tools
from tests.spec_data.subjects import SCHEMA, from_data

CANARY = "canary-7f3a9c"


def make_closure() -> Any:
    def closure(number: int) -> int:
        return number

    return closure


def in_main(number: int) -> int:
    return number


in_main.__module__ = "__main__"


def wrapper(number: int) -> int:
    return number


wrapper.__module__, wrapper.__qualname__ = tools.__name__, "greet"


class Opaque:
    def __repr__(self) -> str:
        return CANARY


NOT_IMPORTABLE = {
    "lambda": (
        lambda: ToolSpec.from_function(lambda a: a, name="x"),
        "The function of 'x' is a lambda.*define it with `def` in a module",
    ),
    "closure": (
        lambda: ToolSpec.from_function(make_closure()),
        "'closure' is defined inside of a function.*in a module",
    ),
    "main": (
        lambda: ToolSpec.from_function(in_main),
        "'in_main' is defined in __main__.*move it to a module",
    ),
    "method": (
        lambda: tools.Shop({"tea": 1}).toolspec("price"),
        "method of one Shop, and an instance is not data: make it a function",
    ),
    "callable": (
        lambda: ToolSpec.from_function(tools.caller),
        "is a Caller, which has no import path: write a function",
    ),
    "wrapper": (
        lambda: ToolSpec.from_function(wrapper),
        r"is not what tests\.spec_data\.tools\.greet leads to",
    ),
    "resolver": (
        lambda: ToolSpec.from_function(tools.greet).bind("tone", resolver=lambda: CANARY),
        "The resolver of 'tone' of 'greet' is a lambda",
    ),
    "render": (
        lambda: ToolSpec.from_function(tools.greet, output="raw", render=functools.partial(tools.render)),
        "The function of the option 'render' of 'greet' is a partial",
    ),
    "env": (
        lambda: ToolSpec.from_code("def f(): return K", env={"K": CANARY}),
        "The code of 'f' uses values of `env`",
    ),
    "schema": (
        lambda: ToolSpec.from_schema("s", SCHEMA, lambda name: name),
        "The function of 's' is a lambda",
    ),
}


@pytest.mark.parametrize("kind", NOT_IMPORTABLE)
def test_code_that_no_other_process_can_import_is_an_error_with_the_fix(kind):
    make, message = NOT_IMPORTABLE[kind]
    with pytest.raises(ToolSpecError, match=message) as caught:
        make().to_dict()
    assert CANARY not in str(caught.value)


def test_a_file_that_has_no_name_to_import_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("def greet(): return 1")
    with forgotten(tmp_path):
        module = import_file(tmp_path / "json.py", ReadOptions(), "json.py")
        with pytest.raises(ToolSpecError, match="from a file that no other process can import by name: install it"):
            ToolSpec.from_function(module.greet).to_dict()


def test_tools_of_servers_and_of_other_libraries_are_errors_with_the_fix():
    from fastmcp.tools import Tool
    from mcp_types import Tool as WireTool

    with pytest.raises(ToolSpecError, match=r"it is a FastMCP tool\. Make it with ToolSpec\.from_function"):
        ToolSpec.from_mcp(Tool.from_function(tools.greet)).to_dict()
    with pytest.raises(ToolSpecError, match=r"a tool of an MCP server\. Send a manifest with the server"):
        ToolSpec.from_mcp(WireTool(name="echo", input_schema={"type": "object"})).to_dict()


def test_a_langchain_tool_is_an_error_with_the_fix():
    library = pytest.importorskip("langchain_core.tools", reason="needs the extra `langchain`")
    with pytest.raises(ToolSpecError, match=r"it is a LangChain tool\. Make it with ToolSpec\.from_langchain"):
        ToolSpec.from_langchain(library.tool(tools.greet)).to_dict()


def test_a_tool_in_a_toolkit_names_what_can_be_written():
    kit = Toolkit("kit")
    kit.add(tools.greet, name="hello")
    with pytest.raises(ToolSpecError, match=r"belongs to a toolkit: write a manifest .*, or write `tool\.clone"):
        kit["hello"].to_dict()
    assert kit["hello"].clone().to_dict()["options"]["name"] == "hello"


def test_a_tool_that_its_function_alone_does_not_make_is_an_error():
    Later = int  # the module of the function does not have this name
    spec = ToolSpec.from_function(tools.name_a_later_type)
    assert isinstance(spec(value="3"), Later)
    with pytest.raises(ToolSpecError, match=r"'name_a_later_type' cannot be made from data again: .*Later"):
        spec.to_dict()


def test_a_tool_that_would_be_another_one_is_an_error_that_says_what_differs():
    spec = ToolSpec.from_function(tools.greet)
    spec.compiled = ToolSpec.from_function(tools.search, name="greet", description="Greet a person.").compiled
    with pytest.raises(
        ToolSpecError, match=r"'greet' would be another tool: parameter 'query' is gone, .*Pass as options"
    ):
        spec.to_dict()


def test_an_attribute_that_was_set_is_an_error_that_names_it():
    spec = tools.Labelled.from_function(tools.greet)
    spec.label = CANARY
    with pytest.raises(
        ToolSpecError, match="Attribute 'label' of 'greet' is not part of the data: delete it"
    ) as caught:
        spec.to_dict()
    assert CANARY not in str(caught.value)


def test_an_option_without_a_json_form_is_an_error_that_names_it():
    spec = ToolSpec.from_function(tools.take_anything, include_var_keyword=Opaque())
    with pytest.raises(
        ToolSpecError, match="Option 'include_var_keyword' of 'take_anything' has a value without a JSON"
    ):
        spec.to_dict()


class TestValues:
    @pytest.mark.parametrize("values", [False, True])
    def test_no_state_is_in_the_data(self, values):
        spec = ToolSpec.from_function(tools.greet).bind("tone", "style.tone")
        spec.state = {"style": {"tone": CANARY}, "other": CANARY}
        data = spec.to_dict(values=values)
        assert CANARY not in json.dumps(data)
        assert not from_data(data).state

    @pytest.mark.parametrize("values", [False, True])
    def test_what_a_resolver_returns_is_not_in_the_data_and_no_resolver_is_called(self, values):
        tools.CALLS.clear()
        spec = ToolSpec.from_function(tools.greet).bind("tone", resolver=tools.current_tone)
        twin = from_data(spec.to_dict(values=values))
        assert not tools.CALLS
        assert twin(name="Ann") == "resolved: hello, Ann"

    def test_a_default_is_in_the_data_on_request(self):
        spec = ToolSpec.from_function(tools.greet).bind("tone", "style.tone", "warm")
        assert "warm" not in json.dumps(spec.to_dict())
        twin = from_data(spec.to_dict(values=True))
        assert (twin(name="Ann"), twin.state) == ("warm: hello, Ann", {"style": {"tone": "warm"}})
        twin.state = {}
        assert twin(name="Ann") == "warm: hello, Ann"

    def test_a_default_inside_of_a_list_that_the_state_does_not_have_is_kept(self):
        spec = ToolSpec.from_function(tools.greet)
        spec.state = {"tones": ["cold"]}
        spec.bind("tone", "tones[0]", "warm")
        twin = from_data(spec.to_dict(values=True))
        assert (twin(name="Ann"), dict(twin.state)) == ("warm: hello, Ann", {})

    def test_a_fixed_argument_is_in_the_data_on_request_only(self):
        spec = ToolSpec.from_function(functools.partial(tools.greet, tone="warm"))
        with pytest.raises(
            ToolSpecError, match=r"'tone' of 'greet' has a fixed value, .*: write to_dict\(values=True\)"
        ):
            spec.to_dict()
        assert from_data(spec.to_dict(values=True))(name="Ann") == "warm: hello, Ann"

    @pytest.mark.parametrize("value", [date(2026, 1, 1), (1, 2), {1: 2}, {"a": {1}}, float("nan"), Opaque()], ids=type)
    def test_a_value_that_json_would_change_is_an_error_that_does_not_show_it(self, value):
        spec = ToolSpec.from_function(functools.partial(tools.greet, tone=value))
        with pytest.raises(ToolSpecError, match=r"The value of parameter 'tone' of 'greet' is a \w+ that is not plain"):
            spec.to_dict(values=True)


class TestSecrets:
    @pytest.mark.parametrize("values", [False, True])
    def test_a_secret_default_is_never_in_the_data(self, values):
        spec = ToolSpec.from_function(tools.search).bind("token", "session.token", CANARY)
        data = spec.to_dict(values=values)
        assert CANARY not in json.dumps(data)
        assert data["secret_keys"] == ["session.token"]
        twin = from_data(data)
        assert twin.exec(query="q").error.code == "unbound_state"
        twin.state = {"session": {"token": "set here"}}
        assert twin(query="q") == "q set here"

    def test_keys_that_were_secret_stay_secret(self):
        spec = ToolSpec.from_function(tools.greet).bind("tone", "a.tone", secret=True).unbind("tone")
        twin = from_data(spec.to_dict())
        twin.state = {"a": {"tone": CANARY, "b": 1}}
        assert CANARY.encode() not in pickle.dumps(twin)
        assert twin.to_dict()["secret_keys"] == ["a.tone"]

    def test_a_fixed_secret_is_an_error_with_the_fix(self):
        spec = ToolSpec.from_function(functools.partial(tools.search, token=CANARY))
        for values in (False, True):
            with pytest.raises(
                ToolSpecError, match="'token' of 'search' has a fixed secret value, which is never"
            ) as caught:
                spec.to_dict(values=values)
            assert CANARY not in str(caught.value)

    @pytest.mark.parametrize("key", ["session", "session.token", "session.token.inner"])
    def test_a_default_that_has_a_secret_part_or_is_one_is_not_in_the_data(self, key):
        spec = ToolSpec.from_function(tools.search).bind("token", "session.token")
        spec.bind("query", key, {"token": CANARY})
        assert CANARY not in json.dumps(spec.to_dict(values=True))
        data = pickle.dumps(spec)
        assert CANARY.encode() not in data
        for twin in (from_data(spec.to_dict(values=True)), pickle.loads(data)):
            twin.state = {}
            assert twin.exec().error.code == "unbound_state"

    def test_a_value_with_the_name_of_a_secret_is_not_in_the_data(self):
        spec = ToolSpec.from_function(tools.greet).transform(arguments={"tone": {"name": "api_key"}})
        assert CANARY not in json.dumps(spec.bind("api_key", default=CANARY).to_dict(values=True))

    def test_examples_have_no_values_of_bound_parameters(self):
        examples = [{"query": "tea", "token": CANARY}, {"inputs": {"query": "x", "token": CANARY}, "note": "n"}]
        spec = ToolSpec.from_function(tools.search, examples=examples).bind("token")
        data = spec.to_dict(values=True)
        assert CANARY not in json.dumps(data)
        assert from_data(data).definition.examples == [
            {"inputs": {"query": "tea"}},
            {"inputs": {"query": "x"}, "note": "n"},
        ]

    def test_a_default_of_a_secret_property_is_not_in_the_data(self):
        token = {"type": "string", "format": "password", "default": CANARY}
        schema = {"type": "object", "properties": {"query": {"type": "string"}, "token": token}}
        data = ToolSpec.from_schema("s", schema, tools.take_anything).to_dict()
        assert CANARY not in json.dumps(data)
        assert from_data(data)(query="q") == {"query": "q"}
        assert token["default"] == CANARY

    @pytest.mark.parametrize("change", [{"default": CANARY}, {"examples": [CANARY]}, {"name": "x", "default": CANARY}])
    def test_a_default_or_an_example_that_transform_gave_a_secret_is_not_in_the_data(self, change):
        spec = ToolSpec.from_function(tools.greet).transform(arguments={"tone": change})
        spec.bind(change.get("name", "tone"), "a.tone", secret=True)
        data = spec.to_dict(values=True)
        assert CANARY not in json.dumps(data)
        twin = from_data(data)
        assert twin.definition == spec.definition
        assert (twin.exec(name="Ann").error is None) is ("default" not in change)
        twin.state = {"a": {"tone": "warm"}}
        assert twin(name="Ann") == "warm: hello, Ann"

    def test_a_default_and_examples_of_a_property_that_is_bound_as_secret_are_not_in_the_data(self):
        note = {"type": "string", "default": CANARY, "examples": [CANARY]}
        schema = {"type": "object", "properties": {"query": {"type": "string"}, "note": note}}
        data = ToolSpec.from_schema("s", schema, tools.take_anything).bind("note", secret=True).to_dict(values=True)
        assert CANARY not in json.dumps(data)
        assert from_data(data)(query="q") == {"query": "q"}
        assert note["default"] == CANARY

    def test_a_default_of_a_parameter_that_is_not_secret_stays(self):
        spec = ToolSpec.from_function(tools.search).transform(arguments={"query": {"default": "tea"}}).bind("token")
        assert from_data(spec.to_dict()).transform(arguments={"query": {}}).params["query"]["default"] == "tea"

    def test_a_credential_in_the_url_of_a_token_is_refused_when_the_tool_is_made(self):
        options = {"auth_method": "oauth", "client_id": "${A}", "client_secret": "${B}"}
        url = f"https://login.example/token?client_secret={CANARY}"
        with pytest.raises(
            ToolSpecError, match="The token_url of 'ping' has a credential: use client_secret="
        ) as caught:
            ToolSpec.from_http("ping", "https://api.example/ping", token_url=url, **options)
        assert CANARY not in str(caught.value)
        assert ToolSpec.from_http(
            "ping", "https://api.example/ping", token_url="https://login.example/t?v=1", **options
        )

    def test_credentials_of_requests_are_names_of_variables_or_errors(self):
        options = {"auth_method": "api_key"}
        spec = ToolSpec.from_http("ping", "https://api.example/ping", api_key=SecretStr(CANARY), **options)
        with pytest.raises(ToolSpecError, match=r"'api_key' of 'ping' has a fixed secret value.*'\$\{NAME\}'"):
            spec.to_dict(values=True)
        spec = ToolSpec.from_http("ping", "https://api.example/ping", api_key="${CANARY_KEY}", **options)
        assert spec.to_dict()["binds"] == {"api_key": {"secret": True, "resolver": {"variable": "CANARY_KEY"}}}


def test_a_decorated_function_is_found_by_its_name():
    data = tools.double.to_dict()
    assert data["code"] == {"kind": "function", "module": "tests.spec_data.tools", "qualname": "double"}
    assert from_data(data).function is tools.double.function
