"""A tool that also takes a pydantic model's fields."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, RootModel, SecretStr, create_model, model_validator

from ahvn_tools import ApprovalRules, Secret, ToolCall, Toolkit, ToolResult, ToolSpec
from ahvn_tools.errors import InvalidParametersError, ToolkitError, ToolLookupError
from tests.toolkit.changing_server import ChangingServer


class Source(BaseModel):
    page: int


class Report(BaseModel):
    title: str = Field(description="The topic.")
    score: float = 0.5
    sources: list[Source] = []


def finish(summary: str, user: str = "guest") -> str:
    """End the work.

    Args:
        summary: What was found.
    """
    return f"{user}: {summary}"


def finish_all(summary: str, **fields) -> str:
    """End the work."""
    return f"{summary} {sorted(fields)} {type(fields.get('sources')).__name__}"


async def afinish(summary: str, **fields) -> str:
    """End the work."""
    return f"{summary} {sorted(fields)}"


def kit() -> Toolkit:
    return Toolkit("k", state={"user": "host"}).add(finish).add(finish_all).add(afinish).bind("user")


def test_the_schema_has_the_models_fields_and_the_tools_parameters():
    toolkit = kit().finish_with("finish", Report)
    properties = {
        "type": "object",
        "properties": {
            "summary": {"type": "string", "description": "What was found."},
            "title": {"type": "string", "description": "The topic."},
            "score": {"type": "number", "default": 0.5},
            "sources": {"type": "array", "items": {"$ref": "#/$defs/Source"}, "default": []},
        },
        "required": ["summary", "title"],
        "additionalProperties": False,
        "$defs": {"Source": {"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]}},
    }
    assert toolkit["finish"].input_schema == properties
    assert toolkit.definitions()[0].input_schema == properties
    assert toolkit.to("openai")[0]["function"]["parameters"]["required"] == ["summary", "title"]
    assert toolkit["finish"].definition is toolkit["finish"].definition
    assert "title" not in toolkit["finish_all"].params


def test_the_instance_is_on_the_results_metadata():
    toolkit = kit().finish_with("finish", Report)
    result = toolkit.exec("finish", {"summary": "done", "title": "tea", "sources": [{"page": 3}]})
    assert result.value == "host: done"
    assert result.meta["structured"] == Report(title="tea", sources=[Source(page=3)])
    assert "duration" in result.meta
    assert json.loads(json.dumps(result.to_mcp().model_dump(mode="json")))["meta"]["structured"]["title"] == "tea"


async def test_every_call_method_returns_the_instance():
    toolkit = kit().finish_with("finish", Report)
    arguments = {"summary": "done", "title": "tea"}
    assert toolkit.call("finish", arguments) == await toolkit.acall("finish", arguments) == "host: done"
    assert (await toolkit.aexec("finish", arguments)).meta["structured"].title == "tea"
    assert [result.meta["structured"].title for result in toolkit.stream("finish", arguments)] == ["tea"]
    assert [result.meta["structured"].title async for result in toolkit.astream("finish", arguments)] == ["tea"]
    assert toolkit["finish"].exec(**arguments).meta["structured"].title == "tea"
    answer = {"tool_calls": [{"id": "c", "function": {"name": "finish", "arguments": json.dumps(arguments)}}]}
    run = toolkit.run(answer, format="openai")
    assert run.results[0][1].meta["structured"].title == "tea"
    assert run[0]["content"] == "host: done"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"summary": "done"}, "'title' is missing"),
        ({"summary": "done", "title": "tea", "score": "hidden"}, "'score' should be a valid number"),
        ({"summary": "done", "title": "tea", "sources": [{"page": "hidden"}]}, r"'sources\[0\].page' should be"),
        ({"title": "tea"}, "'summary' is missing"),
        ({"summary": "done", "title": "tea", "colour": "hidden"}, "unknown argument 'colour'"),
        ({"summary": "done", "title": "tea", "user": "eve"}, "unknown argument 'user'"),
    ],
)
def test_invalid_fields_are_refused_before_the_body_runs(arguments, message):
    toolkit = kit().finish_with("finish", Report)
    with pytest.raises(InvalidParametersError, match=message) as refused:
        toolkit.call("finish", arguments)
    assert "hidden" not in str(refused.value)
    result = toolkit.exec("finish", arguments)
    assert result.error.code == "invalid_parameters"
    assert "structured" not in result.meta


def test_a_refused_name_is_compared_with_the_fields_too():
    def finish() -> str:
        return "done"

    toolkit = Toolkit("k").add(finish).finish_with("finish", Report)
    result = toolkit.exec("finish", {"titel": "tea"})
    assert result.text == "Invalid arguments: unknown argument 'titel' (did you mean 'title'?)."


def test_a_model_validator_can_refuse_the_call():
    class Even(BaseModel):
        number: int

        @model_validator(mode="after")
        def is_even(self):
            if self.number % 2:
                raise ValueError("only even numbers")
            return self

    toolkit = kit().finish_with("finish", Even)
    assert toolkit.exec("finish", {"summary": "done", "number": 2}).meta["structured"].number == 2
    assert toolkit.exec("finish", {"summary": "done", "number": 3}).error.code == "invalid_parameters"


@pytest.mark.parametrize("name", ["finish_all", "afinish"])
async def test_a_body_with_kwargs_receives_the_fields(name):
    toolkit = kit().finish_with(name, Report)
    arguments = {"summary": "done", "title": "tea"}
    assert toolkit.call(name, arguments).startswith("done ['score', 'sources', 'title']")
    assert (await toolkit.acall(name, arguments)).startswith("done ['score', 'sources', 'title']")
    assert toolkit.session().finish_with(name, None).call(name, {"summary": "done"}).startswith("done []")


@dataclass
class Vault:
    """An object whose values no text may contain."""

    word: str = "sesame-open"

    def close(self, summary: str, **fields) -> str:
        """End the work."""
        raise ValueError(f"{self.word} {sorted(fields)}")


def test_an_error_of_a_method_does_not_contain_values_of_its_instance():
    toolkit = Toolkit("k", mask_errors=False).add(Vault().close).finish_with("close", Report)
    text = toolkit.exec("close", {"summary": "done", "title": "tea"}).text
    assert "title" in text
    assert "sesame" not in text


def test_a_field_with_an_alias_is_exported_and_passed_by_it():
    class Aliased(BaseModel):
        kind: str = Field(alias="type")

    toolkit = kit().finish_with("finish_all", Aliased)
    assert list(toolkit["finish_all"].params) == ["summary", "type"]
    result = toolkit.exec("finish_all", {"summary": "done", "type": "a"})
    assert (result.value, result.meta["structured"].kind) == ("done ['kind'] NoneType", "a")


def test_a_model_of_one_session_does_not_affect_others():
    toolkit = kit()
    ann, bob = toolkit.session(user="ann").finish_with("finish", Report), toolkit.session(user="bob")
    assert "title" in ann["finish"].params
    assert "title" not in bob["finish"].params
    assert "title" not in toolkit["finish"].params
    assert ann.exec("finish", {"summary": "done", "title": "tea"}).meta["structured"].title == "tea"
    assert bob.exec("finish", {"summary": "done", "title": "tea"}).error.code == "invalid_parameters"
    assert bob.call("finish", {"summary": "done"}) == "bob: done"


def test_a_model_of_the_toolkit_applies_in_sessions_that_do_not_replace_it():
    toolkit = kit()
    session, plain = toolkit.session(), toolkit.session().finish_with("finish", None)
    toolkit.finish_with("finish", Report)
    session.session().finish_with("finish", Source)
    assert "title" in session["finish"].params
    assert "title" not in plain["finish"].params
    assert list(session.session().finish_with("finish", Source)["finish"].params) == ["summary", "page"]
    toolkit.finish_with("finish", None)
    assert "title" not in session["finish"].params


def test_the_definition_follows_the_tool():
    toolkit = kit().unbind("user").finish_with("finish", Report)
    assert "user" in toolkit["finish"].params
    toolkit.bind("user")
    assert "user" not in toolkit["finish"].params
    assert "title" in toolkit["finish"].params
    toolkit.remove("finish").add(finish)
    assert "title" not in toolkit["finish"].params


def test_an_error_result_has_no_instance_and_middleware_sees_all_arguments():
    calls = []

    def fail(summary: str) -> ToolResult:
        raise ValueError(summary)

    async def note(call, next):
        calls.append((sorted(call.arguments), "title" in call.definition.input_schema["properties"]))
        return await next(call)

    toolkit = Toolkit("k", middleware=[note]).add(fail).finish_with("fail", Report)
    assert "structured" not in toolkit.exec("fail", {"summary": "x", "title": "tea"}).meta
    assert calls == [(["summary", "title"], True)]


def test_a_tool_without_definitions_and_required_arguments():
    class Small(BaseModel):
        note: str = ""

    def end() -> str:
        return "ended"

    toolkit = Toolkit("k").add(end).finish_with("end", Small)
    assert toolkit["end"].input_schema == {
        "type": "object", "properties": {"note": {"type": "string", "default": ""}}, "additionalProperties": False,
    }  # fmt: skip
    assert toolkit.exec("end").meta["structured"] == Small()


def test_a_recursive_model_is_exported_completely():
    toolkit = kit().finish_with("finish", Tree)
    assert toolkit["finish"].params["branches"] == {"type": "array", "items": {"$ref": "#/$defs/Tree"}, "default": []}
    assert "Tree" in toolkit["finish"].input_schema["$defs"]
    result = toolkit.exec("finish", {"summary": "done", "branches": [{"branches": []}]})
    assert result.meta["structured"] == Tree(branches=[Tree()])


class Tree(BaseModel):
    branches: list[Tree] = []


def test_a_schema_tool_is_sent_its_own_arguments_alone():
    from mcp_types import Tool

    wire = Tool(name="remote", input_schema={"type": "object", "properties": {"a": {"type": "integer"}}})
    toolkit = Toolkit("k").add(ToolSpec.from_mcp(wire)).finish_with("remote", Report)
    assert toolkit.exec("remote", {"a": 1, "title": "tea"}).error.code == "connection"


class TestWhatCannotBeSet:
    def refused(self, model, message, name="finish"):
        toolkit = kit()
        with pytest.raises(ToolkitError, match=message):
            toolkit.finish_with(name, model)
        assert "summary" in toolkit["finish"].params

    def test_an_unknown_tool(self):
        with pytest.raises(ToolLookupError, match=r"no tool 'finsh'\. Did you mean 'finish'"):
            kit().session().finish_with("finsh", Report)

    @pytest.mark.parametrize("model", [dict, RootModel[list[int]], Report(title="a"), "Report"])
    def test_an_argument_that_is_no_model(self, model):
        self.refused(model, "a pydantic model that has fields")

    def test_a_field_with_the_name_of_a_parameter_bound_or_not(self):
        class Own(BaseModel):
            summary: str

        class Bound(BaseModel):
            user: str

        class ByAlias(BaseModel):
            who: str = Field(alias="user")

        self.refused(Own, "'summary' is a parameter of 'finish' and a field of 'Own'")
        self.refused(Bound, "'user' is a parameter of 'finish' and a field of")
        self.refused(ByAlias, "'user' is a parameter of 'finish' and a field of")

    def test_a_secret_field(self):
        class Hidden(BaseModel):
            password: SecretStr

        class Marked(BaseModel):
            word: Annotated[str, Secret]

        self.refused(Hidden, "'password' of 'Hidden' is secret")
        self.refused(Marked, "'word' of 'Marked' is secret")

    def test_a_shared_type_is_no_clash(self):
        def end(source: Source) -> str:
            return "ended"

        toolkit = Toolkit("k").add(end).finish_with("end", Report)
        assert list(toolkit["end"].input_schema["$defs"]) == ["Source"]


class TestTwoTypesWithOneName:
    def test_the_models_type_gets_another_name(self):
        def end(source: Other, spare: Spare | None = None) -> str:
            return f"{source.place} {spare}"

        toolkit = Toolkit("k").add(end).finish_with("end", Report)
        schema = toolkit["end"].input_schema
        assert {name: list(node["properties"]) for name, node in schema["$defs"].items()} == {
            "Source": ["place"],
            "Source_2": ["size"],
            "Source_3": ["page"],
        }
        assert schema["properties"]["source"] == {"$ref": "#/$defs/Source"}
        assert schema["properties"]["sources"]["items"] == {"$ref": "#/$defs/Source_3"}
        result = toolkit.exec("end", {"source": {"place": "here"}, "title": "tea", "sources": [{"page": 3}]})
        assert (result.value, result.meta["structured"].sources) == ("here None", [Source(page=3)])

    def test_references_inside_of_the_models_types_follow(self):
        def end(plant: OtherPlant, cat: OtherCat) -> str:
            return "ended"

        toolkit = Toolkit("k").add(end).finish_with("end", Forest)
        definitions = toolkit["end"].input_schema["$defs"]
        assert definitions["Plant_2"]["properties"]["branches"]["items"] == {"$ref": "#/$defs/Plant_2"}
        assert definitions["Plant_2"]["properties"]["pet"]["anyOf"][0]["discriminator"]["mapping"] == {
            "cat": "#/$defs/Cat_2",
            "dog": "#/$defs/Dog",
        }

    @pytest.mark.parametrize("format", ["openai", "anthropic", "gemini", "prompt"])
    def test_a_server_may_add_a_type_later(self, format):
        server = ChangingServer(end="summary!", other="")
        toolkit = Toolkit("k").add_mcp(server.fastmcp, name="remote").finish_with("end", Report)
        before = toolkit.to(format)
        server.put(
            "end",
            "summary!",
            properties={"summary": {"type": "string"}, "where": {"$ref": "#/$defs/Source"}},
            **{"$defs": {"Source": RECURSIVE}},
        )
        toolkit.refresh_mcp("remote")
        assert toolkit.to(format) != before
        assert set(toolkit["end"].input_schema["$defs"]) == {"Source", "Source_2"}
        arguments = {"summary": "s", "where": {"place": "p"}, "title": "tea", "sources": [{"page": 3}]}
        assert toolkit.exec("end", arguments).meta["structured"].sources == [Source(page=3)]
        assert server.calls == [("end", {"summary": "s", "where": {"place": "p"}})]

    def test_a_parameter_that_a_server_adds_later_does_not_receive_the_field_of_its_name(self):
        server = ChangingServer(end="summary!")
        toolkit = Toolkit("k").add_mcp(server.fastmcp, name="remote").finish_with("end", Report)
        server.put("end", "summary! title score!")
        toolkit.refresh_mcp("remote")
        assert toolkit["end"].input_schema["required"] == ["summary", "title"]
        toolkit.to("openai", strict=True)
        result = toolkit.exec("end", {"summary": "s", "title": "tea", "score": 1})
        assert (result.error.code, server.calls) == ("invalid_parameters", [])
        server.put("end", "summary! title")
        toolkit.refresh_mcp("remote")
        assert toolkit.exec("end", {"summary": "s", "title": "tea"}).meta["structured"].title == "tea"
        assert server.calls == [("end", {"summary": "s"})]


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Plant(BaseModel):
    branches: list[Plant] = []
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None


class Forest(BaseModel):
    plants: list[Plant]


RECURSIVE = {
    "type": "object",
    "properties": {"place": {"type": "string"}, "parent": {"$ref": "#/$defs/Source"}},
}
OtherPlant, OtherCat = create_model("Plant", place=(str, ...)), create_model("Cat", age=(int, 0))
Spare = create_model("Source_2", size=(int, ...))

Other = create_model("Source", place=(str, ...))


def test_a_call_with_fields_waits_for_its_approval_and_follows_rules():
    for options in ({"rules": ApprovalRules(mode="ask", deny=['finish(title: "bad")'])}, {}):
        kit = Toolkit("work", **options).add(finish, requires_approval=not options).finish_with("finish", Report)
        call = ToolCall(id="c1", name="finish", arguments={"summary": "tea", "title": "Tea"})
        run = kit.run([call])
        assert run.pending[0].arguments == {"summary": "tea", "title": "Tea"}
        result = kit.resume(run, approved=True).results[0][1]
        assert (result.value, result.meta["structured"]) == ("guest: tea", Report(title="Tea"))
        assert kit.exec("finish", {"summary": "tea", "titel": "Tea"}).error.code == "invalid_parameters"
        denied = kit.exec("finish", {"summary": "tea", "title": "bad"}).error.code
        assert denied == ("rejected" if options else "approval_required")
