"""Tools defined by a JSON Schema: jsonschema-rs decides, after the repairs and without other coercion."""

from __future__ import annotations

import copy
import datetime as dt
import json
import math
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import jsonschema_rs
import pytest
from fastmcp.tools import Tool
from fastmcp.tools.base import ToolResult as WireResult
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from ahvn_tools import ToolSpec
from ahvn_tools.errors import DefinitionError, UnboundStateError
from tests.ids import named

CANARY = "Zq7canary"


class Recorder(Tool):
    """A FastMCP tool that records the arguments of its runs."""

    async def run(self, arguments: dict[str, Any]) -> WireResult:
        RECEIVED.append(arguments)
        return WireResult(content="done")


RECEIVED: list[dict[str, Any]] = []


def tool_of(properties: dict[str, Any], **rest: Any) -> ToolSpec:
    schema = {"type": "object", "properties": properties, **rest}
    return ToolSpec.from_mcp(Recorder(name="record", description="Record a call.", parameters=schema))


def sent(spec: ToolSpec, **arguments: Any) -> dict[str, Any]:
    """Call the tool and return what its body received."""
    RECEIVED.clear()
    result = spec.exec(**arguments)
    assert result.error is None, result.error.message
    return RECEIVED.pop()


def refusal(spec: ToolSpec, **arguments: Any) -> str:
    RECEIVED.clear()
    result = spec.exec(**arguments)
    assert RECEIVED == []
    assert result.error is not None
    assert result.error.code == "invalid_parameters"
    return result.error.message


INTEGER = {"type": "integer"}
POINT = {
    "type": "object",
    "properties": {"x": INTEGER, "y": INTEGER, "note": {"type": ["string", "null"]}},
    "required": ["x"],
}


class TestAcceptedArguments:
    def test_valid_arguments_arrive_unchanged(self):
        spec = tool_of({"it": POINT, "free": {}})
        assert sent(spec, it={"x": 1, "z": 2}, free=[None]) == {"it": {"x": 1, "z": 2}, "free": [None]}

    @pytest.mark.parametrize(
        ("node", "value"), [(INTEGER, "1"), (INTEGER, True), ({"type": "boolean"}, "yes"), ({"type": "string"}, True)]
    )
    def test_nothing_else_is_coerced(self, node, value):
        assert refusal(tool_of({"it": node}), it=value).startswith("Invalid arguments: 'it' should be of type ")

    @pytest.mark.parametrize(
        ("node", "value", "expected"),
        [
            ({"type": "string"}, 1, "1"),
            ({"type": "string"}, 1.5, "1.5"),
            ({"type": ["string", "boolean"]}, 2, "2"),
            ({"type": ["string", "number"]}, 2, 2),
            ({"items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, [1, None], ["1", None]),
        ],
    )
    def test_a_number_becomes_a_text_where_only_a_text_fits(self, node, value, expected):
        assert sent(tool_of({"it": node}), it=value) == {"it": expected}

    def test_a_number_is_refused_by_an_option(self):
        schema = {"type": "object", "properties": {"it": {"type": "string"}}}
        recorder = Recorder(name="record", description="Record a call.", parameters=schema)
        spec = ToolSpec.from_mcp(recorder, coerce_numbers_to_str=False)
        assert refusal(spec, it=1) == "Invalid arguments: 'it' should be of type string."

    def test_a_default_is_not_added(self):
        assert sent(tool_of({"it": {"type": "integer", "default": 5}})) == {}

    def test_unknown_names_pass_where_the_schema_is_open(self):
        assert sent(tool_of({"it": INTEGER}), other="a") == {"other": "a"}

    def test_unknown_names_are_refused_where_the_schema_is_closed(self):
        spec = tool_of({"count": INTEGER}, additionalProperties=False)
        assert refusal(spec, cuont=1) == "Invalid arguments: unknown argument 'cuont' (did you mean 'count'?)."

    def test_unknown_names_are_refused_when_there_are_no_parameters(self):
        spec = tool_of({"user": {"type": "string"}}, additionalProperties=False).bind("user", default="ann")
        assert refusal(spec, other=1) == "Invalid arguments: unknown argument 'other' (the tool takes no arguments)."

    def test_a_closed_schema_refuses_an_unknown_null(self):
        assert "unknown argument 'other'" in refusal(tool_of({"it": INTEGER}, additionalProperties=False), other=None)

    def test_python_values_are_converted_to_json(self):
        spec = tool_of({"it": {}})
        assert sent(spec, it=(dt.date(2024, 1, 1), {1})) == {"it": ["2024-01-01", [1]]}

    def test_a_value_without_json_form_is_refused(self):
        assert refusal(tool_of({"it": {}}), it=object()) == "Invalid arguments: a value has no JSON form."

    @pytest.mark.parametrize("number", [math.nan, math.inf])
    @pytest.mark.parametrize("wrap", [lambda n: n, lambda n: [n], lambda n: {"a": (n,)}])
    def test_nan_and_infinity_are_refused(self, wrap, number):
        assert refusal(tool_of({"it": {}}), it=wrap(number)) == (
            "Invalid arguments: NaN and Infinity are not JSON numbers."
        )

    def test_extremes_are_refused(self):
        spec, deep = tool_of({"it": {}, "list": {"type": "array"}}), json.loads("[" * 201 + "]" * 201)
        assert "200 levels" in refusal(spec, it=deep)
        assert "200 levels" in refusal(spec, list=json.dumps(deep))
        assert "4300 digits" in refusal(spec, it=[10**4300])
        assert sent(spec, list=json.dumps(deep[0])) == {"list": deep[0]}

    def test_true_and_false_are_schemas_too(self):
        spec = tool_of({"any": True, "none": False})
        assert sent(spec, any=1) == {"any": 1}
        assert refusal(spec, none=1) == "Invalid arguments: 'none' is not allowed."
        spec.bind("any", default=2)
        assert sent(spec) == {"any": 2}


class TestRepairs:
    @pytest.mark.parametrize(
        ("node", "value", "expected"),
        [
            ({"type": "array"}, "[1]", [1]),
            ({"type": ["array", "null"]}, "[1]", [1]),
            (POINT, '{"x": 1}', {"x": 1}),
            ({"type": "array", "items": POINT}, ['{"x": 1}'], [{"x": 1}]),
            ({"anyOf": [POINT, INTEGER]}, '{"x": 1}', {"x": 1}),
            ({"oneOf": [{"type": "array"}, {"type": "null"}]}, "[]", []),
            ({"allOf": [POINT]}, '{"x": 1, "y": null}', {"x": 1}),
            ({"$ref": "#/$defs/Point"}, '{"x": 1.0}', {"x": 1}),
        ],
        ids=str,
    )
    def test_json_text_is_parsed_for_a_container(self, node, value, expected):
        spec = tool_of({"it": node}, **{"$defs": {"Point": POINT}})
        assert sent(spec, it=value) == {"it": expected}

    @pytest.mark.parametrize(
        "node", [{"type": "string"}, {}, {"type": ["string", "array"]}, {"anyOf": [{"type": "string"}, POINT]}]
    )
    def test_a_string_is_not_parsed(self, node):
        assert sent(tool_of({"it": node}), it='{"x": 1}') == {"it": '{"x": 1}'}

    @pytest.mark.parametrize("text", ["[NaN]", "[1e999]", "[", "[" * 100_000, "1", "[" + "9" * 4301 + "]"])
    def test_text_that_is_not_plain_json_is_refused(self, text):
        assert refusal(tool_of({"it": {"type": "array"}}), it=text) == (
            "Invalid arguments: 'it' should be of type array."
        )

    def test_null_means_absent_for_an_optional_property_that_refuses_it(self):
        spec = tool_of({"size": INTEGER, "it": POINT, "more": {"type": "array", "items": POINT}})
        assert sent(spec, size=None, it={"x": 1, "y": None}, more=[{"x": 1, "y": None}]) == {
            "it": {"x": 1},
            "more": [{"x": 1}],
        }

    def test_null_stays_where_it_is_legal(self):
        spec = tool_of({"it": POINT, "maybe": {"type": ["integer", "null"]}, "free": {}})
        arguments = {"it": {"x": 1, "note": None}, "maybe": None, "free": None}
        assert sent(spec, **arguments) == arguments

    def test_null_for_a_required_property_is_reported_as_such(self):
        assert refusal(tool_of({"it": POINT}, required=["it"]), it=None) == "Invalid arguments: 'it' must not be null."
        assert refusal(tool_of({"it": POINT}), it={"x": None}) == "Invalid arguments: 'it.x' must not be null."
        assert refusal(tool_of({"it": POINT}), it={}) == "Invalid arguments: 'it.x' is missing."

    @pytest.mark.parametrize(
        ("node", "is_legal"),
        [
            ({"type": ["integer", "null"]}, True),
            ({"type": "null"}, True),
            ({"enum": [1, None]}, True),
            ({"const": None}, True),
            ({}, True),
            ({"type": "integer"}, False),
            ({"enum": [1]}, False),
            ({"const": 1}, False),
            ({"properties": {"a": INTEGER}, "type": "object"}, False),
        ],
        ids=str,
    )
    def test_null_stays_where_a_branch_accepts_it_unless_no_other_repair_applies(self, node, is_legal):
        def branch(tag, size):
            members = {"tag": {"const": tag}, "size": size, "other": INTEGER}
            return {"type": "object", "properties": members, "required": ["tag"]}

        spec = tool_of({"it": {"anyOf": [branch(1, INTEGER), branch(2, node)]}})
        kept = {"size": None} if is_legal else {}
        assert sent(spec, it={"tag": 2, "size": None, "other": None}) == {"it": {"tag": 2, **kept}}
        assert sent(spec, it={"tag": 1, "size": None, "other": None}) == {"it": {"tag": 1}}

    def test_nested_json_text_is_parsed_to_a_limit(self):
        node, value = {"type": "array", "items": INTEGER}, [1]
        for _ in range(17):
            node, value = {"type": "array", "items": node}, [json.dumps(value)]
        assert refusal(tool_of({"it": node}), it=value).endswith("should be of type array.")

    def test_null_in_a_free_object_is_refused_and_not_removed(self):
        spec = tool_of({"it": {"type": "object", "additionalProperties": INTEGER}})
        assert refusal(spec, it={"ann": None}) == "Invalid arguments: a value in 'it' should be of type integer."

    @pytest.mark.parametrize(
        ("node", "value", "expected"),
        [
            (INTEGER, 3.0, "3"),
            ({"type": ["integer", "null"]}, 3.0, "3"),
            ({"anyOf": [INTEGER, {"type": "null"}]}, 3.0, "3"),
            ({"$ref": "#/$defs/Point"}, {"x": 3.0}, "{'x': 3}"),
            ({"type": "array", "items": INTEGER}, [3.0], "[3]"),
            ({"type": "array", "prefixItems": [INTEGER, {"type": "number"}]}, [3.0, 3.0], "[3, 3.0]"),
            ({"type": "object", "additionalProperties": INTEGER}, {"a": 3.0}, "{'a': 3}"),
            ({"type": "number"}, 3.0, "3.0"),
            ({"type": ["integer", "number"]}, 3.0, "3.0"),
            ({}, 3.0, "3.0"),
        ],
        ids=str,
    )
    def test_integral_floats_become_integers_where_the_schema_has_integers_only(self, node, value, expected):
        assert repr(sent(tool_of({"it": node}, **{"$defs": {"Point": POINT}}), it=value)["it"]) == expected

    def test_a_recursive_schema_is_followed(self):
        tree = {
            "type": "object",
            "properties": {"size": INTEGER, "next": {"$ref": "#/$defs/Tree"}},
            "required": ["size"],
        }
        spec = tool_of({"it": {"$ref": "#/$defs/Tree"}}, **{"$defs": {"Tree": tree}})
        assert sent(spec, it={"size": 1.0, "next": '{"size": 2.0, "next": null}'}) == {
            "it": {"size": 1, "next": {"size": 2}}
        }

    def test_a_reference_to_itself_does_not_loop(self):
        spec = tool_of({"it": {"$ref": "#/$defs/A"}}, **{"$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, INTEGER]}}})
        assert repr(sent(spec, it=3.0)["it"]) == "3"


TAGGED = {
    "oneOf": [
        {
            "title": "Cat",
            "type": "object",
            "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}},
            "required": ["kind"],
        },
        {
            "type": "object",
            "properties": {"kind": {"enum": ["dog", "puppy"]}, "tricks": {"type": "integer"}},
            "required": ["kind", "tricks"],
        },
    ]
}


class TestMessages:
    @pytest.mark.parametrize(
        ("node", "value", "message"),
        [
            ({"type": ["integer", "null"]}, "x", "'it' should be of type "),
            ({"enum": ["a", 2]}, "x", "'it' should be one of [\"a\", 2]"),
            ({"const": "ü"}, "x", "'it' should be \"ü\""),
            ({"minimum": 3}, 2, "'it' should be at least 3"),
            ({"maximum": 3}, 4, "'it' should be at most 3"),
            ({"exclusiveMinimum": 3}, 3, "'it' should be greater than 3"),
            ({"exclusiveMaximum": 3}, 3, "'it' should be less than 3"),
            ({"multipleOf": 2}, 3, "'it' should be a multiple of 2"),
            ({"minLength": 3}, "a", "'it' should have at least this many characters: 3"),
            ({"maxLength": 1}, "abc", "'it' should have at most this many characters: 1"),
            ({"minItems": 1}, [], "'it' should have at least this many items: 1"),
            ({"maxItems": 0}, [1], "'it' should have at most this many items: 0"),
            ({"pattern": "^a$"}, "b", "'it' should match the pattern \"^a$\""),
            ({"uniqueItems": True}, [1, 1], "'it' should not have the same item twice"),
            ({"anyOf": [INTEGER, {"type": "null"}]}, "x", "'it' should be of type integer or null"),
            (
                {"oneOf": [{"minimum": 1}, {"maximum": 3}]},
                2,
                "'it' matches several alternatives, and must match exactly one",
            ),
            (TAGGED, {"kind": "bird"}, '\'it.kind\' should be one of ["cat", "dog", "puppy"]'),
            (
                TAGGED,
                {"kind": "cat", "lives": "x"},
                "'it' does not match its alternative 'Cat': 'it.lives' should be of",
            ),
            (TAGGED, {"kind": "dog"}, "'it' does not match its alternative number 2: 'it.tricks' is missing"),
            (TAGGED, "cat", "'it' should be of type object"),
            ({"type": "array", "items": TAGGED}, [{"kind": "dog"}], "'it[0]' does not match its alternative number 2"),
            (
                {"anyOf": [{"type": "string"}, TAGGED]},
                {"kind": "dog"},
                "'it' does not match its alternative number 2: 'it' ",
            ),
            ({"type": "array", "items": POINT}, [{"x": "a"}], "'it[0].x' should be of type integer"),
            ({"type": "object", "minProperties": 1}, {}, "'it' should have at least this many properties: 1"),
            (
                {"type": "object", "additionalProperties": False},
                {"a": 1},
                "'it' has an unknown property 'a' (it has no properties)",
            ),
        ],
        ids=str,
    )
    def test_they_name_the_location_and_the_rule(self, node, value, message):
        assert message in refusal(tool_of({"it": node}), it=value)

    def test_a_problem_of_all_arguments_together_is_reported_as_such(self):
        assert refusal(tool_of({"it": {}}, minProperties=1)) == (
            "Invalid arguments: the argument object should have at least this many properties: 1."
        )

    def test_they_are_capped(self):
        many = refusal(tool_of({f"it{n}": INTEGER for n in range(20)}), **{f"it{n}": "x" for n in range(20)})
        assert many.endswith("; and 15 more.")
        assert len(refusal(tool_of({"it": {"enum": list(range(5_000))}}), it="x")) < 400

    @pytest.mark.parametrize(
        ("node", "value"),
        [
            (INTEGER, CANARY),
            ({"enum": ["a"]}, CANARY),
            ({"const": "a"}, CANARY),
            ({"pattern": "^a$"}, CANARY),
            ({"type": "object", "additionalProperties": INTEGER}, {CANARY: CANARY}),
            ({"type": "object", "additionalProperties": POINT}, {CANARY: {"x": CANARY}}),
            ({"type": "object", "additionalProperties": False}, {f"{CANARY} text": 1}),
            ({"type": "object", "propertyNames": {"maxLength": 2}}, {CANARY: 1}),
            ({"type": "object", "unevaluatedProperties": False}, {f"{CANARY} text": 1}),
            ({"anyOf": [INTEGER, POINT]}, {CANARY: CANARY}),
            ({"not": {"const": CANARY}}, CANARY),
            ({"type": "array", "items": INTEGER}, CANARY),
            ({"contains": INTEGER, "type": "array"}, [CANARY]),
        ],
        ids=str,
    )
    def test_they_repeat_nothing_of_the_input(self, node, value):
        message = refusal(tool_of({"it": node}), it=value)
        assert CANARY not in message

    def test_an_invalid_name_is_not_repeated(self):
        message = refusal(tool_of({"it": INTEGER}, additionalProperties=False), **{f"{CANARY} {CANARY}": 1})
        assert message.startswith("Invalid arguments: unknown argument with an invalid name")
        assert CANARY not in message


class TestBoundParameters:
    def test_a_bound_name_is_refused_even_where_the_schema_is_open(self):
        spec = tool_of({"it": INTEGER, "user": {"type": "string"}}, required=["user"]).bind("user", default="ann")
        assert "unknown argument 'user'" in refusal(spec, user="bob")
        assert "unknown argument 'user'" in refusal(spec, user=None)
        assert sent(spec, it=1) == {"it": 1, "user": "ann"}
        assert list(spec.params) == ["it"]

    def test_a_bound_value_is_converted_to_json(self):
        spec = tool_of({"day": {"type": "string"}}).bind("day", default=dt.date(2024, 1, 1))
        assert sent(spec) == {"day": "2024-01-01"}

    def test_a_bound_secret_is_sent_and_not_its_mask(self):
        spec = tool_of({"login": {"type": "object"}, "token": {"type": "string"}}).bind("login").bind("token")
        spec.state = {"login": {"keys": [SecretStr("hunter2")]}, "token": SecretStr("t0p")}
        assert sent(spec) == {"login": {"keys": ["hunter2"]}, "token": "t0p"}

    def test_an_optional_bound_parameter_without_a_value_is_omitted(self):
        assert sent(tool_of({"it": INTEGER, "user": {"type": "string"}}).bind("user")) == {}

    def test_a_required_bound_parameter_without_a_value_is_an_error(self):
        spec = tool_of({"user": {"type": "string"}}, required=["user"]).bind("user", "session.user")
        with pytest.raises(UnboundStateError, match=r"'user' is bound to 'session\.user'"):
            spec.call()

    def test_an_invalid_bound_value_is_reported_by_parameter_key_and_type(self):
        spec = tool_of({"user": {"$ref": "#/$defs/Name"}}, **{"$defs": {"Name": {"type": "integer"}}})
        spec.bind("user", "session.user", CANARY)
        with pytest.raises(UnboundStateError) as caught:
            spec.call()
        assert CANARY not in str(caught.value)
        assert "'session.user'" in str(caught.value)

    def test_definitions_that_only_a_bound_parameter_used_are_removed(self):
        spec = tool_of({"it": INTEGER, "user": {"$ref": "#/$defs/User"}}, **{"$defs": {"User": {"type": "string"}}})
        assert "$defs" not in spec.bind("user", default="a").input_schema


class TestSchemas:
    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "array"},
            {"type": "object", "properties": []},
            {"type": "object", "properties": {"it": {"type": "nonsense"}}},
            {"type": "object", "properties": {"it": {"minimum": "a"}}},
            {"type": "object", "properties": {"it": {"pattern": "("}}},
            {"type": "object", "properties": {"it": {"$ref": "#/$defs/Missing"}}},
            {"type": "object", "properties": {"it": {"default": math.nan}}},
            {"type": "object", "properties": {"it": {"default": object()}}},
            {"type": "object", "required": "it", "properties": {"it": {}}},
        ],
        ids=named,
    )
    def test_an_invalid_one_is_refused_at_creation(self, schema):
        def f(it: Any = None) -> None: ...

        with pytest.raises(DefinitionError):
            ToolSpec.from_function(f, input_schema=schema)

    @pytest.mark.parametrize("default", [math.nan, {1, 2}])
    def test_one_that_is_not_json_is_refused(self, default):
        with pytest.raises(DefinitionError, match="JSON"):
            tool_of({"it": {"default": default}})

    def test_nothing_is_fetched_from_the_network(self):
        asked = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b'{"type": "integer"}')

        server = HTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            with pytest.raises(DefinitionError, match="contain everything that it refers to"):
                tool_of({"it": {"$ref": f"http://127.0.0.1:{server.server_port}/schema.json"}})
        finally:
            server.shutdown()
            server.server_close()
            thread.join(10)
        assert asked == []

    def test_nothing_is_read_from_the_disk(self, tmp_path):
        there = tmp_path / "schema.json"
        there.write_text('{"type": "integer"}')
        with pytest.raises(DefinitionError, match="contain everything that it refers to"):
            tool_of({"it": {"$ref": there.as_uri()}})

    def test_later_changes_of_the_schema_have_no_effect(self):
        properties = {"it": {"type": "integer"}}
        spec = tool_of(properties)
        properties["it"]["type"] = "string"
        assert sent(spec, it=1) == {"it": 1}
        assert spec.params == {"it": {"type": "integer"}}


NODES = st.sampled_from([
    {}, True, INTEGER, {"type": "number"}, {"type": "string"}, {"type": "boolean"}, {"type": "null"},
    {"type": "array"}, {"type": "array", "items": INTEGER}, {"type": "object"}, POINT, {"enum": [1, "a", None]},
    {"anyOf": [INTEGER, {"type": "array"}]}, {"minimum": 3}, {"maxLength": 2}, {"not": {"type": "string"}},
])  # fmt: skip
VALUES = st.recursive(
    st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet="abxy", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=8,
)


@given(node=NODES, value=VALUES)
def test_without_repairs_it_accepts_exactly_what_the_schema_accepts(node, value):
    """No value contains a null or a JSON text, and no number is made a text."""
    schema = {"type": "object", "properties": {"it": node}, "required": ["it"]}
    recorder = Recorder(name="record", description="Record a call.", parameters=schema)
    spec = ToolSpec.from_mcp(recorder, coerce_numbers_to_str=False)
    before = copy.deepcopy(value)
    RECEIVED.clear()
    result = spec.exec(it=value)
    validator = jsonschema_rs.validator_for({"type": "object", "properties": {"it": node}}, offline=True)
    assert (result.error is None) is validator.is_valid({"it": value})
    assert repr(value) == repr(before)
    if result.error is None:
        assert RECEIVED.pop() == {"it": value}
    else:
        assert result.error.code == "invalid_parameters"


CLOSED = {"type": "object", "properties": {"size": {}}, "additionalProperties": False}
PATTERNED = {"type": "object", "patternProperties": {"^x_": {}}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("node", "value", "message"),
    [
        (CLOSED, {"siz": 1}, "'it' has an unknown property 'siz' (did you mean 'size'?)"),
        ({"type": "array", "items": CLOSED}, [{"zz": 1}], "'it[0]' has an unknown property 'zz' (known: 'size')"),
        (
            {"allOf": [{"properties": {"size": {}}}], "unevaluatedProperties": False},
            {"zz": 1, "ww": 2},
            "'it' has an unknown property 'zz' (known: 'size'); 'it' has an unknown property 'ww' (known: 'size')",
        ),
        (PATTERNED, {"zz": 1, "x_a": 1}, "'it' has an unknown property 'zz' (names match \"^x_\")"),
        ({"propertyNames": {"maxLength": 1}}, {"zz": 1}, "a key in 'it' should have at most this many characters: 1"),
        ({"propertyNames": {"enum": ["a"]}}, {"zz": 1}, "a key in 'it' should be one of [\"a\"]"),
        ({"prefixItems": [{}], "items": False}, [1, 2], "'it[1]' is not allowed"),
        ({"type": "object", "maxProperties": 1}, {"a": 1, "b": 2}, "should have at most this many properties: 1"),
    ],
    ids=str,
)
def test_a_message_says_what_a_model_can_correct(node, value, message):
    assert message in refusal(tool_of({"it": node}), it=value)


def test_an_argument_that_matches_a_pattern_is_not_named_as_unknown():
    spec = tool_of({"it": {}}, patternProperties={"^x_": {}}, additionalProperties=False)
    assert refusal(spec, it=1, x_a=1, zz=1) == "Invalid arguments: unknown argument 'zz' (known: 'it')."
