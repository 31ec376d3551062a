"""The linters find every broken rule, and nothing in a good export."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.formats.rules import anthropic, gemini, linter, openai

TEXT = {"type": "string"}
GOOD = {
    "type": "object",
    "properties": {"a": {"type": "string", "description": "It."}},
    "required": ["a"],
    "additionalProperties": False,
}


def of(node: Any, **root: Any) -> dict[str, Any]:
    """Return a strict schema except for one member."""
    return {**GOOD, "properties": {"a": node}, **root}


def chat(schema: Any = GOOD, **function: Any) -> list[Any]:
    return [{"type": "function", "function": {"name": "f", "parameters": schema, **function}}]


def responses(schema: Any = GOOD, **tool: Any) -> list[Any]:
    return [{"type": "function", "name": "f", "parameters": schema, "strict": False, **tool}]


def claude(schema: Any = GOOD, **tool: Any) -> list[Any]:
    return [{"name": "f", "input_schema": schema, **tool}]


def converse(schema: Any = GOOD, **spec: Any) -> list[Any]:
    return [{"toolSpec": {"name": "f", "inputSchema": {"json": schema}, **spec}}]


def declared(schema: Any = GOOD, **declaration: Any) -> list[Any]:
    return [{"name": "f", "parametersJsonSchema": schema, **declaration}]


OPEN_API = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]}


def older(schema: Any = OPEN_API, **declaration: Any) -> list[Any]:
    return [{"name": "f", "parameters": schema, **declaration}]


FLAT = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}


def native(schema: Any = FLAT, **function: Any) -> list[Any]:
    return [{"type": "function", "function": {"name": "f", "parameters": schema, **function}}]


def listed(schema: Any = GOOD, **tool: Any) -> list[Any]:
    return [{"name": "f", "inputSchema": schema, **tool}]


SHOWN = f"### f\nDo it.\nParameters (JSON Schema): {json.dumps(GOOD)}\n"
FORM = 'Answer {"name": …, "parameters": {…}}.'


def asked(content: Any = SHOWN + FORM, **message: Any) -> list[Any]:
    return [{"role": "system", "content": content, **message}]


MAKERS: dict[str, Any] = {
    "openai": chat, "openai-responses": responses, "anthropic": claude, "bedrock": converse, "gemini": declared,
    "mistral": chat, "ollama": native, "mcp": listed, "prompt": asked,
}  # fmt: skip
NAMED = sorted(MAKERS.keys() - {"prompt"})
STRICT = ("anthropic", "bedrock", "mistral", "openai", "openai-responses")
RICH = of(
    {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]},
    **{"$defs": {"A": {**GOOD, "properties": {"a": {"type": "array", "items": {"type": "string", "enum": ["x"]}}}}}},
)


@pytest.mark.parametrize("name", MAKERS)
def test_a_good_export_breaks_nothing(name):
    assert linter(name)(MAKERS[name](), False) == []


@pytest.mark.parametrize("name", STRICT)
def test_a_good_strict_export_breaks_nothing(name):
    assert linter(name)(MAKERS[name](RICH, strict=True), True) == []
    assert linter(name)(MAKERS[name](of({}), strict=False), True) == []


def test_good_exports_in_the_older_form_break_nothing():
    assert gemini.broken(older(), False) == []
    assert gemini.broken([{"name": "f"}], False) == []


def recursive(required: Any = ()) -> dict[str, Any]:
    node = {**GOOD, "properties": {"a": TEXT, "b": {"$ref": "#/$defs/N"}}, "required": ["a", *required]}
    return of({"$ref": "#/$defs/N"}, **{"$defs": {"N": node}})


def nested(levels: int) -> dict[str, Any]:
    node: dict[str, Any] = GOOD
    for _ in range(levels):
        node = of(node)
    return node


def wide(count: int, long: int = 0) -> dict[str, Any]:
    members = {f"{'m' * long}{i}": TEXT for i in range(count)}
    return {**GOOD, "properties": members, "required": list(members)}


CASES: list[tuple[Any, Any, str]] = [
    # the wrapper
    ("openai", [{**chat()[0], "extra": 1}], "the tool has an unknown 'extra'"),
    ("openai", [{"function": chat()[0]["function"]}], "the tool lacks 'type'"),
    ("openai", [{**chat()[0], "type": "custom"}], "the type is not 'function'"),
    ("openai", chat(output_schema={}), "the function has an unknown 'output_schema'"),
    ("openai", [{"type": "function", "function": 3}], "the function is no object"),
    ("openai-responses", [{k: v for k, v in responses()[0].items() if k != "strict"}], "the tool lacks 'strict'"),
    ("openai-responses", responses(strict=None), "it does not say whether it is strict"),
    ("openai-responses", [{**responses()[0], "type": "custom"}], "the type is not 'function'"),
    ("openai-responses", responses(function={}), "the tool has an unknown 'function'"),
    ("openai-responses", responses(output_schema={"type": "x"}), "output_schema: the schema is no valid"),
    ("openai-responses", responses(defer_loading="yes"), "'defer_loading' is no boolean"),
    ("openai-responses", responses(allowed_callers=["anyone"]), "an unknown caller"),
    ("anthropic", claude(output_schema={}), "the tool has an unknown 'output_schema'"),
    ("anthropic", [{"name": "f"}], "the tool lacks 'input_schema'"),
    ("anthropic", claude(type="function"), "the type is not 'custom'"),
    ("anthropic", claude(input_examples=[3]), "the examples are no list of objects"),
    ("anthropic", claude(cache_control={"type": "ephemeral", "ttl": "1d"}), "an unknown 'cache_control'"),
    ("anthropic", claude(defer_loading=1), "'defer_loading' is no boolean"),
    ("bedrock", [{**converse()[0], "cache": 1}], "the tool has an unknown 'cache'"),
    ("bedrock", converse(examples=[]), "the toolSpec has an unknown 'examples'"),
    ("bedrock", converse(inputSchema={"schema": GOOD}), "the inputSchema lacks 'json'"),
    ("bedrock", converse(description=""), "the description has 0 characters"),
    ("bedrock", [{"cachePoint": {"ttl": "5m"}}], "the cache point lacks 'type'"),
    ("gemini", [{"functionDeclarations": declared()}], "the tool has an unknown 'functionDeclarations'"),
    ("gemini", declared(strict=True), "the tool has an unknown 'strict'"),
    ("gemini", declared(parameters=OPEN_API), "it has both 'parametersJsonSchema' and 'parameters'"),
    ("gemini", declared(response={}, responseJsonSchema={}), "it has both 'responseJsonSchema' and 'response'"),
    ("gemini", declared(responseJsonSchema={"type": "x"}), "the response: the schema is no valid"),
    ("mistral", [{"type": "function", "function": {"name": "f"}}], "the function lacks 'parameters'"),
    ("ollama", [{**native()[0], "strict": True}], "the tool has an unknown 'strict'"),
    ("ollama", native(strict=True), "the function has an unknown 'strict'"),
    ("ollama", [{**native()[0], "type": "tool"}], "the type is not 'function'"),
    ("mcp", listed(strict=True), "the tool has an unknown 'strict'"),
    ("mcp", listed(annotations={"safe": True}), "the annotations has an unknown 'safe'"),
    ("mcp", listed(annotations={"readOnlyHint": "yes"}), "'readOnlyHint' is no boolean"),
    ("mcp", listed(title=3), "the title is no text"),
    ("mcp", listed(_meta=[]), "'_meta' is no object"),
    ("mcp", listed(icons=[{"url": "x"}]), "an icon has no 'src'"),
    ("mcp", listed(outputSchema={"type": "x"}), "outputSchema: the schema is no valid"),
    ("prompt", [], "it is 0 messages"),
    ("prompt", asked(role="user"), "the message is not the system's"),
    ("prompt", asked(name="f"), "the message has an unknown 'name'"),
    ("prompt", asked([{"text": "x"}]), "the message is no text"),
    ("prompt", asked(SHOWN), 'it does not say "parameters"'),
    ("prompt", asked(FORM), "it shows no schema"),
    ("prompt", asked(SHOWN.replace("### ", "") + FORM), "a schema belongs to no tool"),
    ("prompt", asked(SHOWN.replace("### f", "### f g") + FORM), "the name 'f g' does not fit"),
    ("prompt", asked(SHOWN + SHOWN + FORM), "two tools have one name"),
    ("prompt", asked(SHOWN.replace("}", "") + FORM), "a schema is no JSON"),
    ("prompt", asked(SHOWN.replace('"string"', '"str"') + FORM), "the schema is no valid JSON Schema"),
    ("prompt", asked(SHOWN.replace('"type": "object", ', "") + FORM), "the root is no object"),
    ("prompt", asked(SHOWN.replace('"type": "string"', '"$ref": "#/$defs/A"') + FORM), "leads nowhere"),
    # names and descriptions
    *[(name, MAKERS[name](name="a b"), "the name 'a b' does not fit") for name in NAMED],
    *[(name, MAKERS[name](name="a" * 129), "does not fit") for name in NAMED],
    *[(name, MAKERS[name]() * 2, "two tools have one name") for name in NAMED],
    *[(name, MAKERS[name](description=3), "the description is no text") for name in NAMED if name != "bedrock"],
    ("openai", chat(description="x" * 1_048_577), "the description has 1048577 characters"),
    ("gemini", declared(name="2fast"), "the name '2fast' does not fit"),
    # any schema
    *[(name, MAKERS[name]({**GOOD, "type": "dict"}), "is no valid JSON Schema") for name in NAMED],
    *[(name, MAKERS[name]([]), "the schema is no object") for name in NAMED if name != "mistral"],
    *[(name, MAKERS[name]({**GOOD, "type": ["object", "null"]}), "the root is no object") for name in NAMED],
    *[(name, MAKERS[name](of({"$ref": "#/$defs/B"})), "'#/$defs/B' leads nowhere") for name in NAMED],
    *[(name, MAKERS[name](of({"$ref": "https://a.b/c"})), "leads nowhere") for name in NAMED],
    *[(name, MAKERS[name](of({"$ref": "#/required"})), "leads nowhere") for name in NAMED],
    *[(name, MAKERS[name](of({"$ref": "#/allOf/3"})), "leads nowhere") for name in NAMED],
    *[(name, MAKERS[name](of({"$dynamicRef": "#a"})), "'$dynamicRef' is not followed") for name in NAMED],
    *[(name, MAKERS[name](of({"default": {1}})), "it has no JSON form: TypeError") for name in NAMED],
    *[(name, MAKERS[name](of({"default": (1,)})), "it holds what is no JSON") for name in NAMED],
    *[(name, MAKERS[name](of({"default": {1: 2}})), "it holds what is no JSON") for name in NAMED],
    *[(name, MAKERS[name](of({"default": float("nan")})), "it has no JSON form") for name in NAMED],
    *[(name, MAKERS[name](of({"default": "\ud800"})), "it has no JSON form") for name in NAMED],
    ("openai", chat({**GOOD, "$schema": "http://json-schema.org/draft-07/schema#"}), "is written in 'http"),
    *[("openai", chat({**GOOD, key: [TEXT]}), f"the root has {key!r}") for key in ("oneOf", "anyOf", "allOf")],
    *[("openai", chat({**GOOD, key: {}}), f"the root has {key!r}") for key in ("not", "const")],
    ("openai", chat({**GOOD, "enum": [{}]}), "the root has 'enum'"),
    ("openai", chat({**GOOD, "$ref": "#/$defs/A", "$defs": {"A": GOOD}}), "the root has '$ref'"),
    ("openai", chat(of({"type": "object"})), "#/properties/a: an object without 'properties'"),
    ("openai", chat(of({"type": ["array", "null"]})), "#/properties/a: an array without 'items'"),
    *[("anthropic", claude({**GOOD, key: [TEXT]}), f"the root has {key!r}") for key in ("oneOf", "anyOf", "allOf")],
    ("anthropic", claude(of({"$ref": "#/definitions/A"}, definitions={"A": TEXT})), "old sections are not followed"),
    ("bedrock", converse({**GOOD, "anyOf": [{}]}), "the root has 'anyOf'"),
    # Gemini's two languages
    ("gemini", declared(of({"type": "string", "minLength": 1})), "'minLength' is not supported"),
    ("gemini", declared(of({"const": "x"})), "'const' is not supported"),
    ("gemini", declared(of({"enum": [None]})), "an enum of other things than texts and numbers"),
    ("gemini", declared(of({"$ref": "#", "title": "x"})), "'$ref' has 'title' next to it"),
    ("gemini", declared(recursive(["b"])), "it is recursive through required members"),
    ("gemini", declared({**GOOD, "anyOf": [TEXT]}), "the root has 'anyOf'"),
    ("gemini", older({"type": "STRING"}), "the root is no object"),
    ("gemini", older({**OPEN_API, "properties": {"a": {"type": ["STRING", "NULL"]}}}), "is none"),
    ("gemini", older({**OPEN_API, "properties": {"a": {"type": "DICT"}}}), "the type 'DICT' is none"),
    ("gemini", older({**OPEN_API, "properties": {"a": {}}}), "the type None is none"),
    ("gemini", older({**OPEN_API, "additionalProperties": False}), "'additionalProperties' is not supported"),
    ("gemini", older({"type": "OBJECT", "properties": {"a": True}}), "#/properties/a: a schema is True"),
    ("gemini", older({"type": "OBJECT", "properties": {}}), "'properties' names none"),
    ("gemini", older({**OPEN_API, "required": ["b"]}), "what is required is not defined"),
    ("gemini", older({**OPEN_API, "properties": {"a": {"type": "ARRAY"}}}), "an array without 'items'"),
    ("gemini", older({**OPEN_API, "properties": {"a": {"type": "STRING", "format": "uuid"}}}), "'uuid'"),
    ("gemini", older({**OPEN_API, "properties": {"a": {"type": "STRING", "enum": [""]}}}), "an enum of other things"),
    ("gemini", older({**OPEN_API, "properties": {"a": {"type": "INTEGER", "enum": ["1"]}}}), "an enum that is no"),
    ("gemini", older({**OPEN_API, "properties": {"a": {"type": "STRING", "nullable": 1}}}), "'nullable' is no boolean"),
    ("gemini", older({**OPEN_API, "properties": {"a": {"type": "STRING", "minLength": "1"}}}), "'minLength' is no num"),
    (
        "gemini",
        older({**OPEN_API, "properties": {"a": {"anyOf": [{"type": "STRING"}], "description": "x"}}}),
        "'anyOf' has siblings",
    ),
    # what Ollama's SDK would drop
    ("ollama", native({**FLAT, "additionalProperties": False}), "the root has an unknown 'additionalProperties'"),
    ("ollama", native({**FLAT, "properties": {"a": {"anyOf": [TEXT]}}}), "the member 'a' has an unknown 'anyOf'"),
    ("ollama", native({**FLAT, "properties": {"a": True}}), "the member 'a' is no object"),
    ("ollama", native({**FLAT, "properties": {"a": {"type": 3}}}), "the member 'a' has no plain type"),
    ("ollama", native({**FLAT, "properties": {"a": {"enum": 3}}}), "the member 'a' has no list of values"),
]


@pytest.mark.parametrize(("name", "export", "problem"), CASES, ids=[f"{case[0]}-{case[2]}" for case in CASES])
def test_a_broken_rule_is_found(name, export, problem):
    found = linter(name)(export, False)
    assert any(problem in line for line in found), found


BOTH = ("anthropic", "bedrock", "mistral", "openai", "openai-responses")
OPENAI = ("mistral", "openai", "openai-responses")
CLAUDE = ("anthropic", "bedrock")
NUMBERS = {"minimum": 1, "maximum": 1, "exclusiveMinimum": 1, "exclusiveMaximum": 1, "multipleOf": 1}
REFUSED = {
    "allOf": [TEXT], "oneOf": [TEXT], "not": {"const": "x"}, "if": TEXT, "then": TEXT, "else": TEXT,
    "dependentRequired": {}, "dependentSchemas": {}, "patternProperties": {}, "propertyNames": TEXT,
    "unevaluatedProperties": False, "unevaluatedItems": False, "minProperties": 1, "maxProperties": 1,
    "contains": TEXT, "minContains": 1, "maxContains": 1, "uniqueItems": True, "prefixItems": [TEXT], "default": "x",
    "x-note": 1,
}  # fmt: skip
STRICT_CASES: list[tuple[tuple[str, ...], dict[str, Any], str]] = [
    (BOTH, {k: v for k, v in GOOD.items() if k != "additionalProperties"}, "#: an object is not closed"),
    (BOTH, of({**GOOD, "additionalProperties": TEXT}), "#/properties/a: an object is not closed"),
    (BOTH, of({"type": "string", "pattern": "(?=x)"}), "the pattern is too complex"),
    (CLAUDE, of({"type": "string", "pattern": r"(x)\1"}), "the pattern is too complex"),
    (OPENAI, {**GOOD, "required": []}, "#: required is not what the object has"),
    (OPENAI, {**GOOD, "required": ["a", "b"]}, "#: required is not what the object has"),
    (OPENAI, of({"type": "object", "properties": {}, "additionalProperties": False}), "an object without 'required'"),
    (OPENAI, of({"enum": ["x"]}), "#/properties/a: it has no type"),
    (OPENAI, of({"$ref": "#/properties/b"}, properties={"a": {"$ref": "#/properties/b"}, "b": TEXT}), "to a definitio"),
    *[(OPENAI, of({"type": "string", key: value}), f"{key!r} is not supported") for key, value in REFUSED.items()],
    (OPENAI, of({"type": "string", "format": "uri"}), "the format 'uri' is not supported"),
    (("anthropic",), of({"type": "string", "format": "binary"}), "the format 'binary' is not supported"),
    ((*OPENAI, "anthropic"), of(True), "#/properties/a: a schema is True"),
    ((*OPENAI, "anthropic"), of({"$ref": "#/$defs/A", "description": "x"}, **{"$defs": {"A": TEXT}}), "next to it"),
    ((*OPENAI, "anthropic"), of({"type": "string", "enum": [1]}), "a value of the enum is not of the type"),
    ((*OPENAI, "anthropic"), of({"type": "boolean", "const": 1}), "a value of the enum is not of the type"),
    (
        (*OPENAI, "anthropic"),
        of({"type": ["integer", "null"], "enum": [1.5]}),
        "a value of the enum is not of the type",
    ),
    ((*OPENAI, "anthropic"), of({"type": "array"}), "an array without 'items'"),
    (OPENAI, nested(openai.MAX_LEVELS), "it nests more than 10 levels deep"),
    (OPENAI, of(TEXT, **{"$defs": {"A": nested(openai.MAX_LEVELS)}}), "it nests more than 10 levels deep"),
    (OPENAI, wide(5_001), "it has more than 5000 properties"),
    (OPENAI, of({"type": "integer", "enum": list(range(1_001))}), "it has more than 1000 enum values"),
    (OPENAI, wide(121, 1_000), "more than 120000 characters"),
    (OPENAI, of({"type": "string", "enum": [f"{i:060}" for i in range(251)]}), "more than 15000 characters"),
    *[(CLAUDE, of({"type": "integer", key: value}), f"{key!r} is not supported") for key, value in NUMBERS.items()],
    (CLAUDE, of({"type": "array", "items": TEXT, "maxItems": 1}), "'maxItems' is not supported"),
    (CLAUDE, of({"type": "array", "items": TEXT, "minItems": 2}), "'minItems' is more than 1"),
    (CLAUDE, of({"type": "array", "items": TEXT, "contains": TEXT}), "'contains' is not supported"),
    (("anthropic",), of({"type": "string", "minLength": 1}), "'minLength' is not supported"),
    (("anthropic",), of({"oneOf": [TEXT]}), "'oneOf' is not supported"),
    (("anthropic",), of({}), "#/properties/a: it accepts any value"),
    (("anthropic",), recursive(), "it is recursive"),
    (("anthropic",), of({"$ref": "#"}), "it is recursive"),
    (("anthropic",), {**wide(25), "required": []}, "it has more than 24 optional members"),
    (
        ("anthropic",),
        {**GOOD, "properties": {key: {"type": ["string", "null"]} for key in "abcdefghijklmnopq"}},
        "unions",
    ),
]


@pytest.mark.parametrize(
    ("name", "schema", "problem"),
    [(name, schema, problem) for names, schema, problem in STRICT_CASES for name in names],
    ids=[f"{name}-{problem}" for names, _, problem in STRICT_CASES for name in names],
)
@pytest.mark.default_cases(40)
def test_a_broken_rule_of_strictness_is_found_and_is_none_without(name, schema, problem):
    found = linter(name)(MAKERS[name](copy.deepcopy(schema), strict=True), True)
    assert any(problem in line for line in found), found
    found = linter(name)(MAKERS[name](copy.deepcopy(schema), strict=False), True)
    assert not any(problem in line for line in found) or problem == "an array without 'items'", found


@pytest.mark.parametrize("name", STRICT)
def test_the_strict_field_is_set_only_with_strict(name):
    without = MAKERS[name]()
    without[0].pop("strict", None)
    assert "it does not say whether it is strict" in linter(name)(without, True)
    assert "it is strict without being requested" in linter(name)(MAKERS[name](strict=True), False)


def test_strict_tools_of_one_request_share_its_limits():
    def broken(count: int, schema: Any, *, is_strict: bool = True) -> list[str]:
        tools = [tool for index in range(count) for tool in claude(schema, name=f"f{index}", strict=is_strict)]
        return anthropic.broken(tools, True)

    optional, unions = {**wide(12), "required": []}, of({"anyOf": [TEXT, {"type": "null"}]})
    assert (broken(20, GOOD), broken(21, GOOD)) == ([], ["more than 20 tools are strict"])
    assert (broken(2, optional), broken(3, optional)) == ([], ["it has more than 24 optional members"])
    assert (broken(16, unions), broken(17, unions)) == ([], ["it has more than 16 unions"])
    assert broken(30, optional, is_strict=False) == []


def test_recursion_through_optional_members_is_accepted_by_gemini():
    assert gemini.broken(declared(recursive()), False) == []


def test_exactly_the_largest_strict_schemas_pass():
    for schema in (
        nested(openai.MAX_LEVELS - 1),
        wide(5_000),
        of({"type": "integer", "enum": list(range(1_000))}),
        of({"type": "string", "enum": [f"{i:060}" for i in range(250)]}),
        recursive(["b"]),
    ):
        assert openai.broken(chat(schema, strict=True), True) == []
