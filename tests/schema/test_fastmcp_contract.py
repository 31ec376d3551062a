"""Our schemas against FastMCP's over a corpus of signatures; every intended difference is listed with its reason."""

from __future__ import annotations

import copy
import types
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from fastmcp.tools import Tool
from pydantic import PydanticUserError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError
from pydantic.json_schema import PydanticJsonSchemaWarning
from pydantic_core import SchemaError

from ahvn_tools import ToolSpec
from ahvn_tools.errors import DefinitionError
from tests.schema.signatures import REFUSED, SIGNATURES, WRONGLY_ACCEPTED

JsonObject = dict[str, Any]
Function = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Schemas:
    """What a model is shown of a function."""

    name: str
    input_schema: JsonObject
    output_schema: JsonObject | None

    def with_order(self) -> Any:
        """Return the same with properties as lists, so that a comparison includes their order."""
        return self.name, _with_ordered_properties(self.input_schema), _with_ordered_properties(self.output_schema)


class _Same:
    """The placeholder for FastMCP's own value."""

    def __repr__(self) -> str:
        return "SAME"


SAME: Any = _Same()


@dataclass(frozen=True, kw_only=True)
class Difference:
    """An intended difference: its reason, and our exact schemas where they are not `SAME`."""

    reason: str
    input_schema: JsonObject = SAME
    output_schema: JsonObject | None = SAME
    descriptions: dict[str, str | None] = field(default_factory=dict)
    """Our descriptions of parameters; None for a parameter that only FastMCP describes."""
    tag: str | None = None
    """The member that all definitions with it require, without a default."""

    def of(self, theirs: Schemas) -> Schemas:
        """Return our expected schemas for FastMCP's schemas."""
        schema = copy.deepcopy(theirs.input_schema if self.input_schema is SAME else self.input_schema)
        for parameter, description in self.descriptions.items():
            schema["properties"][parameter].pop("description", None)
            if description is not None:
                schema["properties"][parameter]["description"] = description
        for node in schema.get("$defs", {}).values():
            if self.tag in node.get("properties", {}):
                node["properties"][self.tag].pop("default", None)
                required = node.get("required", [])
                node["required"] = required if self.tag in required else [self.tag, *required]
        output_schema = theirs.output_schema if self.output_schema is SAME else self.output_schema
        return Schemas(name=theirs.name, input_schema=schema, output_schema=output_schema)


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A function that FastMCP refuses, and our schemas for it."""

    error: type[Exception]
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    options: dict[str, Any] = field(default_factory=dict)


def one_of_each_module(identities: Iterable[str]) -> list[Any]:
    """Return cases for these functions: one of each corpus module for the default run, the others exhaustive."""
    cases: list[Any] = []
    modules: set[str] = set()
    for identity in identities:
        module = identity.partition(".")[0]
        cases.append(pytest.param(identity, marks=[pytest.mark.exhaustive] if module in modules else []))
        modules.add(module)
    return cases


def wrapped(schema: JsonObject) -> JsonObject:
    """Return the output schema of a value other than an object."""
    return {"properties": {"result": schema}, "required": ["result"], "type": "object", "x-fastmcp-wrap-result": True}


def takes(properties: JsonObject, *, required: list[str] | None = None) -> JsonObject:
    """Return an input schema."""
    schema = {"additionalProperties": False, "properties": properties, "type": "object"}
    return schema if required is None else {**schema, "required": required}


def listed(items: JsonObject) -> JsonObject:
    """Return the schema of a list."""
    return {"items": items, "type": "array"}


def defaulting(schema: JsonObject, default: Any) -> JsonObject:
    """Return the schema of a parameter that has a default."""
    return {**schema, "default": default}


INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
TEXT = {"type": "string"}
TRUTH = {"type": "boolean"}
HIDDEN = {"format": "password", "type": "string", "writeOnly": True}

CHUNK = {
    "description": "A piece of the answer.",
    "properties": {"text": TEXT},
    "required": ["text"],
    "type": "object",
}
ANSWER = {
    "description": "What came out.",
    "properties": {"text": TEXT, "score": {**defaulting(NUMBER, 0.0), "description": "How sure we are."}},
    "required": ["text"],
    "type": "object",
}
COLOUR = {"enum": ["red", "green"], "type": "string"}
PERSON = {
    "description": "A person.",
    "properties": {
        "name": TEXT,
        "friends": defaulting(listed({"$ref": "#/$defs/Person"}), []),
        "colour": {"$ref": "#/$defs/Colour", "default": "red"},
    },
    "required": ["name"],
    "type": "object",
}
LIMIT = {"properties": {"highest": NUMBER, "lowest": defaulting(NUMBER, 0.0)}, "type": "object"}
ORDER = {
    "properties": {"article": TEXT, "amount": defaulting(INTEGER, 1)},
    "required": ["article"],
    "type": "object",
}

ITERATOR = "FastMCP has no schema for an iterator's items; ours returns them as a list, so their schema is known"
AWAITED = "FastMCP has no schema for an awaitable's value; ours awaits it, so its schema is known"
NO_VALUE = "FastMCP has a schema of null for `-> None` as a string, and none for it as an object"
CONTENT = "content is not a structured value; FastMCP knows the content classes, but not their subclasses and unions"
OUR_RESULT = "our ToolResult declares its own content, as FastMCP's does for FastMCP"
SEALED = "FastMCP exports the keyword arguments of a partial, and a model may override them; ours binds them"
TEXT_OF_PARTIAL = "FastMCP reads a text in `Annotated` as a description, but not on a partial"
EPYDOC = "FastMCP does not read epydoc style"
FIRST_LINE = "FastMCP begins the text with the line break before it; ours begins with the text"
FIRST_BREAK = "docstring-parser removes the blank line after the first line of a parameter's text"
STARRED = "ours ignores asterisks and quotes around a parameter's name"
EMPTY_TEXT = "FastMCP exports an empty description; ours exports none"
OTHER_PARAMETERS = "FastMCP does not read the section of further parameters"
SPACING = "FastMCP loses a section that has blank lines in it; ours reads it"
MALFORMED = "docstring-parser reads either the whole of a reST docstring or nothing"
INFINITE = "FastMCP writes NaN and Infinity into the schema, which then is not JSON; ours omits such a default"
INNER_TEXT = "FastMCP reads a text in `Annotated` only if there is nothing else, and not inside of a type"
ALIASED = "FastMCP loses what a docstring says about a parameter with an alias under its Python name"
SECRET_DEFAULT = "FastMCP exports the default of a secret, or its stars as if they were a value; ours exports neither"
TAG = "both refuse a value without its tag, whatever default the tag has; FastMCP exports the tag as optional"

DIFFERENCES: dict[str, Difference] = {
    "annotated.text_before_field": Difference(reason=INNER_TEXT, descriptions={"value": "Shown by ours."}),
    "annotated.optional_of_text": Difference(reason=INNER_TEXT, descriptions={"value": "Inside the union."}),
    "annotated.text_on_items": Difference(
        reason=INNER_TEXT,
        input_schema=takes({"values": listed({**INTEGER, "description": "Each of them."})}, required=["values"]),
    ),
    "docstrings_google.aliased": Difference(reason=ALIASED, descriptions={"theFirst": "Described by its Python name."}),
    "models.discriminated": Difference(reason=TAG, tag="kind"),
    "models.discriminated_list": Difference(reason=TAG, tag="kind"),
    "models.discriminated_nested": Difference(reason=TAG, tag="kind"),
    "models.discriminated_by_function": Difference(reason=TAG, tag="kind"),
    "models.discriminated_in_model": Difference(reason=TAG, tag="kind"),
    "models.discriminated_with_default": Difference(reason=TAG, tag="kind"),
    "defaults.secret": Difference(reason=SECRET_DEFAULT, input_schema=takes({"password": HIDDEN})),
    "standard_types.secret_with_default": Difference(
        reason=SECRET_DEFAULT,
        input_schema=takes({"password": HIDDEN, "key": {"anyOf": [HIDDEN, {"type": "null"}], "default": None}}),
    ),
    "own_types.secret_described": Difference(
        reason=SECRET_DEFAULT,
        input_schema=takes({"token": {**TEXT, "description": "Internal.", "writeOnly": True}}),
    ),
    "defaults.infinity": Difference(reason=INFINITE, input_schema=takes({"value": NUMBER, "low": NUMBER})),
    "defaults.not_a_number": Difference(
        reason=INFINITE, input_schema=takes({"value": NUMBER, "other": defaulting(INTEGER, 1)})
    ),
    "defaults.infinity_in_model": Difference(
        reason=INFINITE,
        input_schema={
            "$defs": {"Limit": LIMIT},
            **takes({"limit": {"$ref": "#/$defs/Limit"}}, required=["limit"]),
        },
        output_schema=LIMIT,
    ),
    "returns.own_text_content": Difference(reason=CONTENT, output_schema=None),
    "returns.protocol_result_or_none": Difference(reason=CONTENT, output_schema=None),
    "returns.awaitable": Difference(reason=AWAITED, output_schema=wrapped(INTEGER)),
    "returns.coroutine": Difference(reason=AWAITED, output_schema=ANSWER),
    "own_types.result": Difference(reason=OUR_RESULT, output_schema=None),
    "own_types.result_or_text": Difference(reason=OUR_RESULT, output_schema=None),
    "streams.iterator": Difference(reason=ITERATOR, output_schema=wrapped(listed(INTEGER))),
    "streams.typing_iterator": Difference(reason=ITERATOR, output_schema=wrapped(listed(TEXT))),
    "streams.iterator_of_models": Difference(
        reason=ITERATOR, output_schema={"$defs": {"Chunk": CHUNK}, **wrapped(listed({"$ref": "#/$defs/Chunk"}))}
    ),
    "streams.iterator_of_optional": Difference(
        reason=ITERATOR, output_schema=wrapped(listed({"anyOf": [INTEGER, {"type": "null"}]}))
    ),
    "streams.iterator_of_lists": Difference(reason=ITERATOR, output_schema=wrapped(listed(listed(TEXT)))),
    "streams.iterator_of_described": Difference(
        reason=ITERATOR, output_schema=wrapped(listed({**INTEGER, "description": "One of them.", "minimum": 0}))
    ),
    "streams.described_iterator": Difference(
        reason=ITERATOR, output_schema=wrapped({**listed(INTEGER), "description": "All of them."})
    ),
    "streams.iterator_by_alias": Difference(reason=ITERATOR, output_schema=wrapped(listed(INTEGER))),
    "streams.iterator_of_bytes": Difference(
        reason=ITERATOR, output_schema=wrapped(listed({**TEXT, "format": "binary"}))
    ),
    "streams.async_iterator": Difference(reason=ITERATOR, output_schema=wrapped(listed(INTEGER))),
    "streams.async_typing_iterator": Difference(reason=ITERATOR, output_schema=wrapped(listed(TEXT))),
    "streams.async_generator": Difference(reason=ITERATOR, output_schema=wrapped(listed(NUMBER))),
    "streams.async_iterable": Difference(reason=ITERATOR, output_schema=wrapped(listed(INTEGER))),
    "streams.async_iterator_of_models": Difference(
        reason=ITERATOR, output_schema={"$defs": {"Chunk": CHUNK}, **wrapped(listed({"$ref": "#/$defs/Chunk"}))}
    ),
    "streams.hands_out_an_iterator": Difference(reason=ITERATOR, output_schema=wrapped(listed(INTEGER))),
    "callables.partial_with_keyword": Difference(
        reason=SEALED,
        input_schema=takes(
            {
                "first": {**INTEGER, "description": "The first one."},
                "third": {**defaulting(NUMBER, 0.5), "description": "The third one."},
            },
            required=["first"],
        ),
    ),
    "callables.partial_with_keyword_for_default": Difference(
        reason=SEALED,
        input_schema=takes(
            {
                "first": {**INTEGER, "description": "The first one."},
                "second": {**TEXT, "description": "The second one."},
            },
            required=["first", "second"],
        ),
    ),
    "callables.partial_with_both": Difference(
        reason=SEALED,
        input_schema=takes({"second": {**TEXT, "description": "The second one."}}, required=["second"]),
    ),
    "future_annotations.partial": Difference(reason=TEXT_OF_PARTIAL, descriptions={"other": "What else."}),
    "future_annotations.returns_none": Difference(reason=NO_VALUE, output_schema=None),
    "future_annotations.partly_typed": Difference(reason=NO_VALUE, output_schema=None),
    "future_annotations.returns_iterator": Difference(
        reason=ITERATOR,
        output_schema={
            "$defs": {"Colour": COLOUR, "Person": PERSON},
            **wrapped(listed({"$ref": "#/$defs/Person"})),
        },
    ),
    "future_annotations.returns_async_iterator": Difference(reason=ITERATOR, output_schema=wrapped(listed(INTEGER))),
    "docstrings_google.description_on_the_next_line": Difference(
        reason=FIRST_LINE, descriptions={"query": "What to look for.", "limit": "At most so many."}
    ),
    "docstrings_google.paragraphs": Difference(
        reason=FIRST_BREAK,
        descriptions={"query": 'What to look for.\nWords are joined by "and".\n\n* a list\n* of rules'},
    ),
    "docstrings_google.odd_spacing": Difference(
        reason=SPACING, descriptions={"value": "The value.", "other": "The other."}
    ),
    "docstrings_google.starred_and_quoted": Difference(
        reason=STARRED, descriptions={"value": "The value.", "other": "The other."}
    ),
    "docstrings_google.keyword_heading": Difference(
        reason=OTHER_PARAMETERS, descriptions={"other": "The other value."}
    ),
    "docstrings_numpy.starred": Difference(reason=STARRED, descriptions={"other": "The other."}),
    "docstrings_numpy.no_description": Difference(reason=EMPTY_TEXT, descriptions={"first": None}),
    "docstrings_numpy.other_parameters": Difference(
        reason=OTHER_PARAMETERS, descriptions={"other": "The other value."}
    ),
    "docstrings_sphinx.paragraphs": Difference(
        reason=FIRST_BREAK, descriptions={"query": 'What to look for.\nWords are joined by "and".'}
    ),
    "docstrings_sphinx.empty_description": Difference(reason=EMPTY_TEXT, descriptions={"first": None}),
    "docstrings_sphinx.malformed": Difference(reason=MALFORMED, descriptions={"other": None}),
    "docstrings_epydoc.simple": Difference(
        reason=EPYDOC, descriptions={"city": "Name of the city.", "days": "How many days ahead."}
    ),
    "docstrings_epydoc.typed": Difference(
        reason=EPYDOC, descriptions={"city": "Name of the city.", "days": "How many days ahead."}
    ),
    "docstrings_epydoc.field_wins": Difference(reason=EPYDOC, descriptions={"second": "From the docstring."}),
    "docstrings_epydoc.continued_lines": Difference(
        reason=EPYDOC,
        descriptions={
            "query": 'What to look for. Words are joined\nby "and" unless there is an operator.',
            "limit": "At most so many.",
        },
    ),
}

REFUSALS: dict[str, Refusal] = {
    "refused.positional_only": Refusal(
        error=ValueError,
        input_schema=takes({"first": INTEGER, "second": defaulting(TEXT, "x")}, required=["first"]),
        output_schema=wrapped(TEXT),
    ),
    "refused.positional_only_and_others": Refusal(
        error=ValueError,
        input_schema=takes(
            {"first": INTEGER, "second": INTEGER, "third": defaulting(INTEGER, 3)}, required=["first", "second"]
        ),
        output_schema=wrapped(TEXT),
    ),
    "refused.var_positional": Refusal(
        error=ValueError, input_schema=takes({"first": INTEGER}, required=["first"]), output_schema=wrapped(TEXT)
    ),
    "refused.var_positional/included": Refusal(
        error=ValueError,
        options={"include_var_positional": True},
        input_schema=takes({"first": INTEGER, "others": defaulting(listed(INTEGER), [])}, required=["first"]),
        output_schema=wrapped(TEXT),
    ),
    "refused.only_var_positional": Refusal(error=ValueError, input_schema=takes({}), output_schema=wrapped(TEXT)),
    "refused.only_var_positional/included": Refusal(
        error=ValueError,
        options={"include_var_positional": True},
        input_schema=takes({"values": defaulting(listed(TEXT), [])}),
        output_schema=wrapped(TEXT),
    ),
    "refused.var_keyword": Refusal(
        error=ValueError, input_schema=takes({"first": INTEGER}, required=["first"]), output_schema=wrapped(TEXT)
    ),
    "refused.var_keyword/included": Refusal(
        error=ValueError,
        options={"include_var_keyword": True},
        input_schema=takes(
            {"first": INTEGER, "others": {"additionalProperties": NUMBER, "default": {}, "type": "object"}},
            required=["first"],
        ),
        output_schema=wrapped(TEXT),
    ),
    "refused.everything": Refusal(
        error=ValueError,
        input_schema=takes(
            {
                "first": {**INTEGER, "description": "The first one."},
                "second": {**TEXT, "description": "The second one."},
                "third": {**defaulting(TRUTH, False), "description": "The third one."},
            },
            required=["first", "second"],
        ),
        output_schema=wrapped(TEXT),
    ),
    "refused.everything/included": Refusal(
        error=ValueError,
        options={"include_var_positional": True, "include_var_keyword": True},
        input_schema=takes(
            {
                "first": {**INTEGER, "description": "The first one."},
                "second": {**TEXT, "description": "The second one."},
                "others": {**defaulting(listed(INTEGER), []), "description": "The other ones."},
                "third": {**defaulting(TRUTH, False), "description": "The third one."},
                "more": {
                    "additionalProperties": TEXT,
                    "default": {},
                    "type": "object",
                    "description": "Some more.",
                },
            },
            required=["first", "second"],
        ),
        output_schema=wrapped(TEXT),
    ),
    "refused.untyped_var": Refusal(error=ValueError, input_schema=takes({})),
    "refused.cached": Refusal(
        error=PydanticSchemaGenerationError,
        input_schema=takes(
            {"value": {**INTEGER, "description": "What goes in."}, "other": defaulting(TEXT, "x")},
            required=["value"],
        ),
        output_schema=wrapped(INTEGER),
    ),
    "refused.required_after_field_default": Refusal(
        error=SchemaError,
        input_schema=takes(
            {"value": defaulting(INTEGER, 1), "other": {**TEXT, "description": "Needed."}}, required=["other"]
        ),
        output_schema=wrapped(TEXT),
    ),
    "refused.returns_function": Refusal(error=TypeError, input_schema=takes({"value": INTEGER}, required=["value"])),
    "refused.returns_class": Refusal(
        error=PydanticInvalidForJsonSchema, input_schema=takes({"value": INTEGER}, required=["value"])
    ),
    "refused.unhashable_metadata": Refusal(
        error=TypeError,
        input_schema=takes({"value": INTEGER}, required=["value"]),
        output_schema={"additionalProperties": INTEGER, "type": "object"},
    ),
    "refused.unhashable_metadata_inside": Refusal(
        error=TypeError,
        input_schema=takes({"value": INTEGER}, required=["value"]),
        output_schema=wrapped(listed(INTEGER)),
    ),
    "refused.object_parameter/bound": Refusal(
        error=PydanticSchemaGenerationError,
        options={"binds": {"database": "session.database"}},
        input_schema=takes({"query": {**TEXT, "description": "What to ask."}}, required=["query"]),
        output_schema=wrapped(listed(TEXT)),
    ),
    "refused.partial_of_instance": Refusal(
        error=KeyError, input_schema=takes({"hours": defaulting(INTEGER, 8)}), output_schema=wrapped(listed(TEXT))
    ),
    "refused.builtin": Refusal(error=ValueError, input_schema=takes({"x": {}}, required=["x"])),
    "refused.builtin_with_two": Refusal(error=ValueError, input_schema=takes({"x": {}, "y": {}}, required=["x", "y"])),
    "refused.local_type_by_name": Refusal(
        error=NameError,
        input_schema={
            "$defs": {"Order": ORDER},
            **takes(
                {
                    "order": {"$ref": "#/$defs/Order"},
                    "others": defaulting({"anyOf": [listed({"$ref": "#/$defs/Order"}), {"type": "null"}]}, None),
                },
                required=["order"],
            ),
        },
        output_schema=ORDER,
    ),
    "refused.local_type_by_object": Refusal(
        error=NameError,
        input_schema={
            "$defs": {"Order": ORDER},
            **takes({"order": {"$ref": "#/$defs/Order"}}, required=["order"]),
        },
        output_schema={"$defs": {"Order": ORDER}, **wrapped(listed({"$ref": "#/$defs/Order"}))},
    ),
}

REFUSED_BY_BOTH: dict[str, str] = {
    "refused.object_parameter": "database",
    "refused.optional_object_parameter": "database",
    "refused.function_parameter": "callback",
    "refused.byte_array_parameter": "value",
    "refused.mixed_tuple_parameter": "values",
    "refused.unknown_name": "value",
    "refused.unknown_name_inside": "values",
}
"""Functions with a parameter, by name, that no model can send."""


@pytest.mark.parametrize("identity", SIGNATURES)
@pytest.mark.default_cases(150)
def test_schemas_are_those_of_fastmcp(identity: str) -> None:
    """Name, input schema and output schema are FastMCP's, property order included, or differ exactly as listed."""
    theirs = fastmcp_schemas(SIGNATURES[identity])
    ours = our_schemas(SIGNATURES[identity])
    difference = DIFFERENCES.get(identity)
    if difference is None:
        assert ours == theirs
        assert ours.with_order() == theirs.with_order()
    else:
        assert ours != theirs, f"{identity} no longer differs; remove it from the list"
        assert ours == difference.of(theirs)


def test_listed_differences_are_about_functions_of_the_corpus() -> None:
    """Each listed difference is about a function that exists."""
    assert DIFFERENCES.keys() <= SIGNATURES.keys()


def test_corpus_is_wide() -> None:
    """At least 150 functions have exactly FastMCP's schemas."""
    assert len(SIGNATURES.keys() - DIFFERENCES.keys()) >= 150


@pytest.mark.parametrize("identity", REFUSALS)
def test_function_that_fastmcp_refuses_has_a_schema(identity: str) -> None:
    """A function that FastMCP refuses becomes a tool with the listed schemas."""
    refusal = REFUSALS[identity]
    function = REFUSED[identity.partition("/")[0]]
    with pytest.raises(refusal.error):
        Tool.from_function(copy_of(function))
    spec = ToolSpec.from_function(function, **refusal.options)
    assert (spec.input_schema, spec.output_schema) == (refusal.input_schema, refusal.output_schema)
    assert list(spec.input_schema["properties"]) == list(refusal.input_schema["properties"])


def test_every_refused_function_is_accounted_for() -> None:
    """Each function that FastMCP refuses is listed with our schema, or as refused by us too."""
    listed = {identity.partition("/")[0] for identity in REFUSALS} | REFUSED_BY_BOTH.keys()
    assert listed == REFUSED.keys()


@pytest.mark.parametrize(("identity", "parameter"), REFUSED_BY_BOTH.items())
def test_parameter_without_a_json_form_is_refused_by_name(identity: str, parameter: str) -> None:
    """A tool has no definition while a model would have to send such a type; the message has the name and the fix."""
    with pytest.raises((PydanticUserError, NameError)):
        Tool.from_function(copy_of(REFUSED[identity]))
    with pytest.raises(DefinitionError, match=rf"{parameter!r}[\s\S]*(binds=|bind\()"):
        _ = ToolSpec.from_function(REFUSED[identity]).definition


@pytest.mark.parametrize(("identity", "parameter"), REFUSED_BY_BOTH.items())
def test_parameter_without_a_json_form_may_be_bound(identity: str, parameter: str) -> None:
    """A parameter that is bound at creation needs no schema, and the others have theirs."""
    spec = ToolSpec.from_function(REFUSED[identity], binds={parameter: "state.key"})
    assert parameter not in spec.input_schema["properties"]


@pytest.mark.parametrize("function", WRONGLY_ACCEPTED.values(), ids=WRONGLY_ACCEPTED)
def test_function_that_fastmcp_wrongly_accepts_is_refused(function: Function) -> None:
    """FastMCP makes a tool that cannot be called; our message says what to pass instead."""
    assert "self" in Tool.from_function(function).parameters["required"]
    with pytest.raises(DefinitionError, match=r"use the method of an instance|use a function"):
        ToolSpec.from_function(function)


@pytest.mark.parametrize("identity", one_of_each_module([*SIGNATURES, *REFUSALS]))
def test_function_is_not_changed(identity: str) -> None:
    """Creating a spec and reading its schemas does not change the user's function."""
    function = SIGNATURES.get(identity) or REFUSED[identity.partition("/")[0]]
    options = REFUSALS[identity].options if identity in REFUSALS else {}
    before = attributes_of(function)
    our_schemas(function, **options)
    assert attributes_of(function) == before


@pytest.mark.parametrize("identity", one_of_each_module(SIGNATURES))
def test_schemas_are_fresh_equal_copies(identity: str) -> None:
    """Changes of a returned schema do not affect the next one."""
    spec = ToolSpec.from_function(SIGNATURES[identity])
    first_input, first_output = spec.input_schema, spec.output_schema
    expected = copy.deepcopy((first_input, first_output))
    destroy(first_input)
    destroy(first_output)
    assert (spec.input_schema, spec.output_schema) == expected
    assert (spec.definition.input_schema, spec.definition.output_schema) == expected


def our_schemas(function: Function, **options: Any) -> Schemas:
    """Return the schemas of our definition."""
    spec = ToolSpec.from_function(function, **options)
    return Schemas(name=spec.definition.name, input_schema=spec.input_schema, output_schema=spec.output_schema)


def fastmcp_schemas(function: Function) -> Schemas:
    """Return the schemas of FastMCP's tool, which omits defaults without a JSON form with a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PydanticJsonSchemaWarning)
        tool = Tool.from_function(copy_of(function))
    return Schemas(name=tool.name, input_schema=tool.parameters, output_schema=tool.output_schema)


def copy_of(function: Function) -> Function:
    """Return a copy of a plain function: FastMCP rewrites the signature of one that asks for its context."""
    if not isinstance(function, types.FunctionType):
        return function
    twin = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    twin.__annotations__ = dict(function.__annotations__)
    twin.__dict__.update(function.__dict__)
    twin.__doc__, twin.__module__, twin.__qualname__ = function.__doc__, function.__module__, function.__qualname__
    return twin


def attributes_of(function: Any) -> list[Any]:
    """Return everything that a wrapper could have changed on a callable and on the function that it calls."""
    parts = [function, getattr(function, "__func__", None), getattr(function, "func", None), type(function).__call__]
    return [
        (
            dict(getattr(part, "__dict__", {})),
            dict(getattr(part, "__annotations__", {})),
            getattr(part, "__signature__", None),
            getattr(part, "__defaults__", None),
            copy.copy(getattr(part, "__kwdefaults__", None)),
            getattr(part, "__doc__", None),
            getattr(part, "__name__", None),
        )
        for part in parts
    ]


def destroy(schema: Any) -> None:
    """Destroy a schema at every depth."""
    if isinstance(schema, dict):
        for child in schema.values():
            destroy(child)
        schema.clear()
    elif isinstance(schema, list):
        for child in schema:
            destroy(child)
        schema.append("spoiled")


def _with_ordered_properties(node: Any) -> Any:
    if isinstance(node, list):
        return [_with_ordered_properties(child) for child in node]
    if not isinstance(node, dict):
        return node
    return {
        key: [(name, _with_ordered_properties(part)) for name, part in child.items()]
        if key == "properties" and isinstance(child, dict)
        else _with_ordered_properties(child)
        for key, child in node.items()
    }
