"""Tools from a JSON Schema and a function: the schema alone validates, and the function gets the JSON."""

from __future__ import annotations

import asyncio
import copy
import functools
import pickle
from typing import Annotated, Any

import pytest
from fastmcp import Client, Context

from ahvn_tools import Secret, ToolContext, Toolkit, ToolRegistry, ToolSpec, reg_toolspec, tool
from ahvn_tools.errors import BindError, DefinitionError, UnboundStateError
from ahvn_tools.middleware import log

SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "maxLength": 20},
        "page-size": {"type": "integer", "default": 10},
        "class": {"type": "array", "items": {"type": "string"}},
        "since": {"type": "string", "format": "date-time"},
    },
    "required": ["query"],
    "additionalProperties": False,
}
OPEN_SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


def search(**arguments):
    """Search for records."""
    return arguments


async def search_async(**arguments):
    await asyncio.sleep(0)
    return arguments


def search_items(**arguments):
    yield from arguments.items()


async def search_async_items(**arguments):
    for item in arguments.items():
        yield item


async def search_returning_items(**arguments):
    await asyncio.sleep(0)
    return (item for item in arguments.items())


def made(function=search, schema=SCHEMA, **options):
    return ToolSpec.from_schema("search", schema, function, **options)


def test_the_schema_is_exported_as_it_was_written():
    assert made().input_schema == SCHEMA
    assert made().to("openai")["function"]["parameters"]["properties"].keys() == SCHEMA["properties"].keys()


def test_options_and_docstring_describe_the_tool():
    spec = made(title="Search", tags={"web"}, timeout=5, output_schema={"type": "object"})
    assert (spec.name, spec.description, spec.title, spec.tags) == ("search", "Search for records.", "Search", {"web"})
    assert spec.timeout == 5
    assert made(description="Find.").description == "Find."


def test_parameters_may_be_passed_by_keyword():
    spec = ToolSpec.from_schema(name="find", input_schema=SCHEMA, function=search)
    assert spec.call(query="tea") == {"query": "tea"}


def test_the_function_gets_validated_json_and_nothing_that_was_left_out():
    arguments = {"query": "tea", "class": ["a"], "since": "2026-01-02T03:04:05Z"}
    assert made().call(**arguments) == arguments
    assert made().call("tea", 3) == {"query": "tea", "page-size": 3}


def test_the_usual_repairs_apply_and_no_other_conversion():
    sent = {"query": 7, "page-size": 3.0, "class": '["a"]', "since": None}
    assert made().call(**sent) == {"query": "7", "page-size": 3, "class": ["a"]}
    assert "'page-size' should be of type integer" in made().exec(**{"query": "tea", "page-size": "3"}).error.message
    strict = made(coerce_numbers_to_str=False)
    assert "'query' should be of type string" in strict.exec(query=7).error.message


def test_the_function_cannot_change_its_callers_arguments():
    def change(**arguments):
        arguments["class"].append("b")
        return arguments["class"]

    sent = {"query": "tea", "class": ["a"]}
    assert made(change).call(**copy.deepcopy(sent)) == ["a", "b"]
    made(change).call(**sent)
    assert sent["class"] == ["a"]


@pytest.mark.parametrize("function", [search, search_async])
def test_sync_and_async_functions_run_from_sync_and_async_code(function):
    spec = made(function)
    assert spec.call(query="tea") == {"query": "tea"}
    assert spec.exec(query="tea").value == {"query": "tea"}
    assert asyncio.run(spec.acall(query="tea")) == {"query": "tea"}
    assert asyncio.run(spec.aexec(query="tea")).value == {"query": "tea"}


@pytest.mark.parametrize("function", [search_items, search_async_items, search_returning_items])
def test_generators_stream_their_items(function):
    spec = made(function)
    arguments = {"query": "tea", "page-size": 3}
    assert spec.call(**arguments) == [["query", "tea"], ["page-size", 3]]
    assert [(r.value, r.is_last) for r in spec.stream(query="tea")] == [
        (["query", "tea"], False), ([["query", "tea"]], True)
    ]  # fmt: skip


def test_a_return_annotation_gives_the_output_schema():
    def count(**arguments) -> int:
        return len(arguments)

    assert made(count).output_schema["properties"] == {"result": {"type": "integer"}}
    assert made(count).exec(query="tea").structured_content == {"result": 1}
    assert made().output_schema is None


def test_the_function_may_name_properties_and_take_a_context():
    def find(context: ToolContext, query: int, since=None, **others):
        return [query, since, others, isinstance(context, ToolContext)]

    assert made(find).call(**{"query": "tea", "page-size": 2}) == ["tea", None, {"page-size": 2}, True]


def test_a_function_without_keyword_arguments_takes_every_property_by_name():
    def find(query, limit=5):
        return [query, limit]

    schema = {**OPEN_SCHEMA, "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}}}
    spec = made(find, schema)
    assert spec.call(query="tea", limit=2) == ["tea", 2]
    error = spec.exec(query="tea", limt=2).error
    assert (error.code, "did you mean 'limit'" in error.message) == ("invalid_parameters", True)
    assert "limit" not in spec.bind("limit").exec(query="tea", limt=2).error.message.partition("(")[2]
    with pytest.raises(DefinitionError, match="property 'page', which is not a parameter"):
        made(find, {"type": "object", "properties": {"query": {}, "limit": {}, "page": {}}, "required": ["query"]})


def test_what_the_schema_leaves_open_reaches_the_function():
    assert made(schema=OPEN_SCHEMA).call(query="tea", color=["red"]) == {"query": "tea", "color": ["red"]}
    assert "unknown argument 'color'" in made().exec(query="tea", color="red").error.message


def test_rules_about_several_properties_are_enforced():
    schema = {"properties": {"a": {}, "b": {}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
    spec = made(schema=schema)
    assert spec.call(a=1) == {"a": 1}
    assert spec.exec(a=1, b=2).error.code == "invalid_parameters"


def test_a_parameter_that_is_no_property_is_never_set_by_a_caller():
    def find(query, user="nobody", **others):
        return [query, user, others]

    spec = made(find, OPEN_SCHEMA)
    assert spec.call("tea") == spec.call(query="tea") == ["tea", "nobody", {}]
    assert "unknown argument 'user'" in spec.exec(query="tea", user="eve").error.message
    spec.bind("user", "session.user", "ann")
    assert spec.call(query="tea") == ["tea", "ann", {}]
    assert "unknown argument 'user'" in spec.exec(query="tea", user="eve").error.message
    assert "unknown argument 'user'" in spec.unbind("user").exec(query="tea", user="eve").error.message


def test_a_required_parameter_that_is_no_property_is_bound_from_the_start():
    class Database:
        rows = ("tea",)

    def find(db: Database, query, **others):
        return [query in db.rows, others]

    with pytest.raises(DefinitionError, match=r"'search' requires 'db', .* binds=\{'db': 'state.key'\}"):
        made(find)
    spec = made(find, binds={"db": "db"})
    with pytest.raises(UnboundStateError):
        spec.call(query="tea")
    spec.state["db"] = Database()
    assert spec.call(query="tea") == [True, {}]
    with pytest.raises(BindError, match="must stay bound"):
        spec.unbind("db")


def test_an_optional_parameter_may_have_a_type_without_a_json_form():
    class Database:
        """Has no JSON form."""

    def find(query, db: Database | None = None):
        return [query, db is None]

    assert made(find, OPEN_SCHEMA).call(query="tea") == ["tea", True]


def test_a_bound_property_is_hidden_and_validated_by_the_schema():
    spec = made().bind("page-size", "page", 3)
    assert "page-size" not in spec.params
    assert spec.call(query="tea") == {"query": "tea", "page-size": 3}
    assert "unknown argument" in spec.exec(**{"query": "tea", "page-size": 4}).error.message
    spec.state["page"] = "many"
    with pytest.raises(UnboundStateError):
        spec.call(query="tea")


def test_an_optional_bound_property_without_a_value_is_left_out():
    assert made(binds={"page-size": "page"}).call(query="tea") == {"query": "tea"}


def test_a_binding_of_a_secret_property_is_secret():
    schema = {"type": "object", "properties": {"token": {"type": "string", "writeOnly": True}}}
    spec = made(schema=schema, binds={"token": "auth.token"})
    spec.state = {"auth": {"token": "hunter2-hunter2"}}
    assert spec.call() == {"token": "hunter2-hunter2"}
    assert b"hunter2" not in pickle.dumps(spec)


def test_an_annotation_marks_a_property_as_secret():
    def login(query, token: Annotated[str, Secret] = "", **others):
        return [query, token]

    schema = {"type": "object", "properties": {"query": {}, "token": {"type": "string"}}, "required": ["query"]}
    for spec in (made(login, schema).bind("token"), made(login, schema, binds={"token": "token"})):
        spec.state["token"] = "hunter2-hunter2"
        assert spec.call(query="tea") == ["tea", "hunter2-hunter2"]
        assert b"hunter2" not in pickle.dumps(spec)


def test_its_schema_can_be_replaced_and_not_removed():
    assert made().transform(input_schema=OPEN_SCHEMA).call(query="tea", other=1) == {"query": "tea", "other": 1}
    with pytest.raises(DefinitionError, match="pass another input_schema"):
        made().transform(input_schema=None)


def test_no_model_sees_the_default_of_a_property_that_the_function_marks_as_secret():
    def login(query, token: Annotated[str, Secret] = "", **others):
        return [query, token]

    schema = {"type": "object", "properties": {"query": {}, "token": {"type": "string", "default": "hunter2"}}}
    schema["required"] = ["query"]
    for spec in (made(login, schema), ToolSpec.from_function(login, input_schema=schema)):
        assert spec.input_schema["properties"] == {"query": {}, "token": {"type": "string"}}


@pytest.mark.parametrize("name", ["phrase", "renamed"])
def test_a_secret_default_is_masked_in_the_text_of_an_error(name):
    def login(phrase: Annotated[str, Secret] = "open sesame", password="swordfish", place="the cave"):
        raise ValueError(f"{phrase}, {password} at {place}")

    schema = {"type": "object", "properties": {key: {"type": "string"} for key in ("phrase", "password", "place")}}
    spec = made(login, schema).transform(arguments={"phrase": {"name": name}})
    assert spec.exec().error.message == f"ValueError: <{name}>, <password> at the cave"
    assert spec.bind(name).exec().error.message == f"ValueError: <{name}>, <password> at the cave"
    assert spec.exec(password="barracuda").error.message == f"ValueError: <{name}>, <password> at the cave"


@pytest.mark.parametrize("arguments", [{}, {"phrase": "close sesame"}], ids=["default", "passed"])
def test_a_secret_default_is_in_no_repr_and_in_no_log(caplog, arguments):
    def login(phrase: Annotated[str, Secret] = "open sesame"):
        raise ValueError(phrase)

    spec = made(login, {"type": "object", "properties": {"phrase": {"type": "string"}}})
    for found in (spec, ToolSpec.from_function(login)):
        caplog.clear()
        with caplog.at_level("DEBUG"):
            Toolkit("k", middleware=[log(traceback=True)]).add(found).exec(found.name, arguments)
        assert "ValueError: <phrase>" in caplog.text
        assert "sesame" not in f"{found!r} {found.input_schema} {found.definition} {caplog.text}"


def test_an_unknown_binding_is_refused():
    with pytest.raises(DefinitionError, match=r"no parameter 'qery' to bind\. Did you mean 'query'"):
        made(binds={"qery": "q"})


def test_what_a_partial_fixes_is_no_argument():
    def run(kind, **arguments):
        return [kind, arguments]

    spec = made(functools.partial(run, "web", page=2), OPEN_SCHEMA)
    assert spec.call(query="tea") == ["web", {"query": "tea", "page": 2}]
    assert "unknown argument 'page'" in spec.exec(query="tea", page=3).error.message
    assert "unknown argument 'kind'" in spec.exec(query="tea", kind="x").error.message
    with pytest.raises(DefinitionError, match="property 'query', which the function takes as its own"):
        made(functools.partial(run, "web", query="x"))


def test_methods_and_callable_objects_never_get_their_instance_from_a_caller():
    class Engine:
        def run(self, **arguments):
            return arguments

        def __call__(self, **arguments):
            return arguments

    for function in (Engine().run, Engine()):
        assert made(function, OPEN_SCHEMA).call(query="tea") == {"query": "tea"}
        assert "unknown argument 'self'" in made(function, OPEN_SCHEMA).exec(query="tea", self=1).error.message
        with pytest.raises(DefinitionError, match="property 'self'"):
            made(function, {"type": "object", "properties": {"self": {}}})


def test_arguments_can_be_renamed_described_and_preset():
    spec = made().transform(
        arguments={
            "page-size": {"name": "limit", "description": "How many."},
            "query": {"name": "text to find"},
        },
        preset={"since": "2026-01-01T00:00:00Z"},
    )
    assert list(spec.params) == ["text to find", "limit", "class"]
    sent = {"text to find": "tea", "limit": 2}
    assert spec.call(**sent) == {"query": "tea", "page-size": 2, "since": "2026-01-01T00:00:00Z"}
    assert "unknown argument 'query'" in spec.exec(query="tea").error.message
    assert pickle.loads(pickle.dumps(spec)).call(**sent) == spec.call(**sent)


def test_a_changed_default_fits_the_schema():
    spec = made(arguments={"page-size": {"default": 25}})
    assert spec.call(query="tea") == {"query": "tea", "page-size": 25}
    with pytest.raises(DefinitionError, match="default of 'page-size'"):
        made(arguments={"page-size": {"default": "many"}})


def test_examples_are_validated_by_the_schema():
    assert made(examples=[{"query": "tea", "page-size": 2}]).definition.examples
    with pytest.raises(DefinitionError, match="Example 1 of 'search' is no call of it"):
        made(examples=[{"query": "tea", "page-size": "two"}])


def test_clones_have_bindings_of_their_own():
    spec = made()
    twin = spec.clone().bind("page-size", default=1)
    assert "page-size" in spec.params
    assert twin.call(query="tea") == {"query": "tea", "page-size": 1}


@pytest.mark.parametrize("is_local", [False, True])
def test_it_survives_pickling_by_path_and_by_value(is_local):
    def local(query, user="nobody", **others):
        return [query, user, others]

    spec = made(local if is_local else search, OPEN_SCHEMA)
    if is_local:
        spec.bind("user", default="ann")
    loaded = pickle.loads(pickle.dumps(spec))
    assert loaded.definition == spec.definition
    assert loaded.call(query="tea", more=1) == spec.call(query="tea", more=1)
    assert loaded.exec(query="tea", user=1).error == spec.exec(query="tea", user=1).error


def test_it_runs_in_a_worker_process():
    spec = made(isolation="process", timeout=60)
    assert spec.call(**{"query": "tea", "page-size": 2}) == {"query": "tea", "page-size": 2}


def test_it_works_in_a_toolkit_with_preset_and_session():
    def find(query, user="nobody", **others):
        return [query, user, others]

    kit = Toolkit("kit").add(made(find), preset={"page-size": 7}).bind("user")
    session = kit.session(user="ann")
    assert list(session["search"].params) == ["query", "class", "since"]
    assert session.call("search", {"query": "tea"}) == ["tea", "ann", {"page-size": 7}]
    assert session.exec("search", {"query": "tea", "page-size": 1}).error.code == "invalid_parameters"
    assert asyncio.run(session.aexec("search", {"query": "tea"})).value == ["tea", "ann", {"page-size": 7}]


async def test_it_is_served_over_mcp():
    kit = Toolkit("kit").add(made())
    async with Client(kit.to_fastmcp_server()) as client:
        [listed] = await client.list_tools()
        assert listed.input_schema["properties"] == SCHEMA["properties"]
        result = await client.call_tool("search", {"query": "tea", "page-size": 2})
        assert result.structured_content == {"query": "tea", "page-size": 2}


def test_texts_and_code_are_made_for_any_property_name():
    spec = made()
    assert "page-size" in spec.to_prompt()
    assert "search" in spec.code
    assert spec.to_function()


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (None, "input_schema must be a dict"),
        ([], "input_schema must be a dict"),
        ({"type": "array"}, "must describe an object"),
        ({"type": "object", "properties": ["a"]}, "must describe an object"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}, "contain everything that it refers to"),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, "Not a usable JSON Schema"),
        ({"type": "object", "properties": {"a": {"default": {1, 2}}}}, "no JSON form"),
        ({"type": "object", "properties": {"a": {"maximum": float("nan")}}}, "no JSON form"),
    ],
)
def test_a_bad_schema_is_refused_with_the_fix(schema, reason):
    with pytest.raises(DefinitionError, match=reason):
        made(schema=schema)


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_name_is_needed(name):
    with pytest.raises(DefinitionError, match="name of a tool must be a text"):
        ToolSpec.from_schema(name, SCHEMA, search)


@pytest.mark.parametrize(
    "options", [{"convert": False}, {"include_var_keyword": True}, {"include_var_positional": True}]
)
def test_options_that_mean_nothing_are_refused_with_the_reason(options):
    with pytest.raises(DefinitionError, match=r"is no option of a tool from a schema: .*\. Remove it\."):
        made(**options)
    with pytest.raises(DefinitionError, match="is no option of a tool from a schema"):
        made().transform(**options)


def test_a_property_named_as_the_context_is_refused():
    def find(query: str, context: ToolContext, **others):
        return query

    schema = {"type": "object", "properties": {"query": {}, "context": {}}, "required": ["query"]}
    with pytest.raises(DefinitionError, match="property 'context', which the function takes as its ToolContext"):
        made(find, schema)
    with pytest.raises(DefinitionError, match="property 'context', which the function takes as its ToolContext"):
        ToolSpec.from_function(find, input_schema=schema)


def test_an_optional_property_needs_a_parameter_with_a_default():
    def find(query, since, **others):
        return [query, since]

    with pytest.raises(DefinitionError, match="'since' of 'search' is optional in input_schema and required"):
        made(find)
    assert made(find, {**SCHEMA, "required": ["query", "since"]}).call(query="tea", since="x") == ["tea", "x"]


def test_a_single_mapping_is_refused_because_properties_are_passed_by_name():
    def find(arguments):
        return arguments

    with pytest.raises(DefinitionError, match=r"`\*\*arguments` takes them all"):
        made(find)


def test_a_property_may_have_the_name_of_the_variadic_parameters():
    def find(*args, **kwargs):
        return [args, kwargs]

    spec = made(find, {"type": "object", "properties": {"args": {}, "kwargs": {}}})
    assert spec.call(args=[1], kwargs={"a": 2}) == [[], {"args": [1], "kwargs": {"a": 2}}]


def test_a_positional_only_parameter_is_refused():
    def find(query, /, **others):
        return query

    with pytest.raises(DefinitionError, match="cannot take the property 'query' by name"):
        made(find)


def test_injection_by_fastmcp_is_refused():
    async def find(ctx: Context, **arguments):
        return arguments

    with pytest.raises(DefinitionError, match="take a ToolContext instead"):
        made(find)


def test_a_function_with_keyword_arguments_may_have_an_input_schema():
    @tool(input_schema=OPEN_SCHEMA | {"properties": {"query": {"type": "string"}, "from": {"type": "integer"}}})
    def find(**arguments):
        """Find."""
        return arguments

    assert list(find.params) == ["query", "from"]
    assert find.call(**{"query": "tea", "from": 2.0, "more": []}) == {"query": "tea", "from": 2, "more": []}


def test_named_parameters_are_still_converted_beside_keyword_arguments():
    @tool(input_schema={"type": "object", "properties": {"sizes": {"type": "array"}, "when": {"type": "string"}}})
    def find(sizes: set[int], **others):
        return [type(sizes).__name__, others]

    assert find.call(sizes=["1", 2], when="now") == ["set", {"when": "now"}]
    assert "'sizes[0]' should be a valid integer" in find.exec(sizes=["a"]).error.message
    bound = find.clone().bind("when", default="then").bind("sizes", default={3})
    assert bound.call() == ["set", {"when": "then"}]


def test_a_registry_method_may_take_keyword_arguments():
    class Shop(ToolRegistry):
        def __init__(self, factor):
            self.factor = factor

        @reg_toolspec(input_schema={"type": "object", "properties": {"item-price": {"type": "number"}}})
        def total(self, **arguments) -> float:
            return self.factor * arguments["item-price"]

    spec = Shop(2).toolspec("total")
    assert spec.call(**{"item-price": 1.5}) == 3.0
    assert "unknown argument 'self'" in spec.exec(self=1).error.message
    assert pickle.loads(pickle.dumps(spec)).call(**{"item-price": 2}) == 4.0


@pytest.mark.parametrize("option", ["input_schema", "output_schema"])
def test_a_schema_whose_keys_are_no_texts_is_refused(option):
    schema = {"type": "object", "properties": {"a": {"type": "object", "properties": {1: {"type": "string"}}}}}
    with pytest.raises(DefinitionError, match=f"{option} has the key 1; the keys of a JSON object are texts"):
        ToolSpec.from_function(lambda **arguments: "", **{"name": "any", option: schema})


def test_a_schema_that_is_nested_too_deep_is_refused():
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(5000):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(DefinitionError, match="nested too deep"):
        ToolSpec.from_schema("any", schema, lambda **arguments: "")
