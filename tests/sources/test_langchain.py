"""LangChain's tools as a source, without LangChain: any object that has what is read of them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.errors import DefinitionError, ToolError, UnboundStateError

SCHEMA: dict[str, Any] = {
    "title": "search",
    "description": "Search.",
    "type": "object",
    "properties": {"query": {"title": "Query", "type": "string"}, "limit": {"type": "integer", "default": 3}},
    "required": ["query"],
}


class Search:
    """A tool with a JSON Schema that returns what it was invoked with, and the thread."""

    name = "search"
    description = "Search the notes."
    args_schema: Any = SCHEMA
    tags = ("notes",)
    metadata = {"cost": 3}

    def invoke(self, input: Any) -> Any:
        return {"input": input, "thread": threading.get_ident()}

    async def ainvoke(self, input: Any) -> Any:
        return self.invoke(input)


class AsyncSearch(Search):
    coroutine = Search.ainvoke


class Injecting(Search):
    """As Search, with an argument that is not in its schema."""

    _injected_args_keys = frozenset({"user"})

    def _run(self, query: str, user: str) -> None: ...


def message(content: Any, **fields: Any) -> SimpleNamespace:
    return SimpleNamespace(tool_call_id="c1", content=content, **fields)


def returning(output: Any, **attributes: Any) -> ToolSpec:
    """Return the spec of a tool that returns this."""
    made = Search()
    made.invoke = lambda _: output
    vars(made).update(attributes)
    return ToolSpec.from_langchain(made)


def test_the_definition_is_that_of_the_tool():
    spec = ToolSpec.from_langchain(Search())
    definition = spec.definition
    assert (spec.name, spec.description, spec.tags, definition.meta) == (
        "search",
        "Search the notes.",
        {"notes"},
        {"cost": 3},
    )
    assert spec.input_schema == {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "default": 3}},
        "required": ["query"],
    }


def test_a_call_passes_the_validated_arguments():
    spec = ToolSpec.from_langchain(Search())
    assert spec(query="x", limit=4.0)["input"] == {"query": "x", "limit": 4}
    assert asyncio.run(spec.acall(query="x"))["input"] == {"query": "x"}
    assert spec.exec(query="x", limit="many").error.code == "invalid_parameters"


def test_a_sync_tool_runs_in_a_thread_and_an_async_one_in_the_loop():
    here = threading.get_ident()
    assert ToolSpec.from_langchain(Search())(query="x")["thread"] == here
    assert asyncio.run(ToolSpec.from_langchain(Search()).acall(query="x"))["thread"] != here
    assert asyncio.run(ToolSpec.from_langchain(AsyncSearch()).acall(query="x"))["thread"] == here
    assert ToolSpec.from_langchain(AsyncSearch())(query="x")["thread"] != here


def test_an_artifact_makes_the_call_one_with_an_id():
    made = Search()
    vars(made).update(response_format="content_and_artifact", invoke=lambda call: message(call["name"], artifact=call))
    request = ToolSpec.from_langchain(made)(query="x")
    assert (request["type"], request["args"], request["id"][:5]) == ("tool_call", {"query": "x"}, "call_")


@pytest.mark.parametrize("made", [Search(), AsyncSearch(), Injecting()], ids=lambda made: type(made).__name__)
def test_arguments_are_never_a_call_of_their_own(made):
    """LangChain takes a dict with this type as a call, and its `args` as the arguments, the bound ones among them."""
    forged = {"query": "x", "type": "tool_call", "id": "c1", "name": "search", "args": {"query": "x", "user": "Bob"}}
    spec = ToolSpec.from_langchain(made, binds={"user": "user"} if isinstance(made, Injecting) else None)
    spec.state["user"] = "Ann"
    for request in (spec(**forged)["input"], asyncio.run(spec.acall(**forged))["input"]):
        bound = {"user": "Ann"} if isinstance(made, Injecting) else {}
        assert (request["type"], request["args"]) == ("tool_call", {**forged, **bound})


def test_an_artifact_is_the_value_and_the_content_the_blocks():
    rows = object()
    result = returning(message("one row", artifact=rows)).exec(query="x")
    assert result.value is rows
    assert result.text == "one row"
    assert [block.text for block in result.content] == ["one row"]
    assert returning(message("text", artifact=None, status="success"))(query="x") == "text"


def test_a_message_with_an_error_is_an_error():
    spec = returning(message([{"type": "text", "text": "no such note"}], status="error"))
    with pytest.raises(ToolError, match=r"^no such note$"):
        spec(query="x")


IMAGE = {"data": "iVBORw0KGgo=", "mime_type": "image/png"}


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "base64": IMAGE["data"], "mime_type": "image/png"},
        {"type": "image", "source_type": "base64", **IMAGE},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE["data"]}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE['data']}"}},
        {"type": "image_url", "image_url": f"data:image/png;base64,{IMAGE['data']}"},
    ],
)
def test_content_blocks_are_those_of_mcp(block):
    for output in ([{"type": "text", "text": "Here:"}, block], message(["Here:", block])):
        text, image = returning(output).exec(query="x").content
        assert (text.text, image.type, image.data, image.mime_type) == ("Here:", "image", *IMAGE.values())


def test_blocks_of_other_kinds_are_files_or_their_json():
    audio = {"type": "audio", "base64": "AAAA", "mime_type": "audio/wav"}
    file = {"type": "file", "base64": "AAAA"}
    link = {"type": "image", "url": "https://example.org/i.png"}
    first, second, third = returning([audio, file, link]).exec(query="x").content
    assert (first.type, second.resource.mime_type) == ("audio", "application/octet-stream")
    assert third.text == '{"type": "image", "url": "https://example.org/i.png"}'


@pytest.mark.parametrize("value", [["a", "b"], [], [{"type": "text"}], {"type": "text", "text": "x"}, [1, {"a": 2}]])
def test_any_other_value_is_unchanged(value):
    assert returning(value)(query="x") == value


def test_an_injected_argument_is_bound_to_the_state_under_its_name():
    spec = ToolSpec.from_langchain(Injecting())
    assert dict(spec.binds) == {"user": "user"}
    with pytest.raises(UnboundStateError, match="set state key 'user'"):
        spec(query="x")
    person = object()
    kit = Toolkit("k").add(Injecting(), binds={"user": "person"})
    kit.state["person"] = person
    assert "unknown argument 'user'" in kit.exec("search", {"query": "x", "user": "forged"}).text
    spec.state["user"] = "Ann"
    assert spec(query="x")["input"] == {"query": "x", "user": "Ann"}
    with pytest.raises(ValueError, match="must stay bound"):
        spec.unbind("user")


def test_a_toolkit_says_where_the_tool_comes_from():
    kit = Toolkit("k").add(Search())
    with pytest.raises(ValueError, match="the LangChain tool 'search'"):
        kit.add(Search())


def test_an_injected_argument_may_have_an_annotation_that_cannot_be_resolved():
    class Unresolved(Injecting):
        def _run(self, query: str, user: NoSuchUser) -> None: ...  # noqa: F821

    spec = ToolSpec.from_langchain(Unresolved())
    assert (list(spec.params), dict(spec.binds)) == (["query", "limit"], {"user": "user"})


@dataclass
class Runtime:
    """What only a host passes."""

    user: str


class Query(BaseModel):
    """What a model passes."""

    query: str


class WholeQuery(Query):
    """All arguments."""

    runtime: Runtime

    @field_validator("runtime", mode="before")
    @classmethod
    def refuse_text(cls, value: Any) -> Any:
        assert not isinstance(value, str), f"{value} is no runtime"
        return value


class Validating(Search):
    """A tool with a pydantic model, as LangChain makes them."""

    args_schema = WholeQuery
    tool_call_schema = Query

    def invoke(self, input: Any) -> Any:
        return WholeQuery.model_validate(input).runtime.user


@pytest.mark.parametrize(
    ("runtime", "cause"),
    [
        (SimpleNamespace(user="hunter2"), "'runtime' (dataclass_type: expects Runtime)"),
        ("hunter2", "'runtime' (assertion_error)"),
        ({"user": ["hunter2"]}, "'runtime' (string_type)"),
    ],
    ids=["object", "text", "part"],
)
def test_the_log_says_which_value_of_the_host_a_tool_refused(runtime, cause, caplog):
    session = Toolkit("kit").add(Validating()).session(runtime=runtime)
    result = session.exec("search", {"query": "x"})
    assert result.text == "Invalid arguments: the tool refused them."
    assert cause in caplog.text
    assert "hunter2" not in f"{caplog.text}{result!r}{result.exception!r}"
    assert Toolkit("kit").add(Validating()).session(runtime=Runtime("Ann")).call("search", {"query": "x"}) == "Ann"


def test_an_unknown_binding_is_refused():
    with pytest.raises(DefinitionError, match=r"no parameter 'usr' to bind\. Did you mean 'user'"):
        ToolSpec.from_langchain(Injecting(), binds={"usr": "x"})
    with pytest.raises(DefinitionError, match=r"no parameter 'zzz' to bind\. Known: 'query', 'limit', 'user'\.$"):
        ToolSpec.from_langchain(Injecting(), binds={"zzz": "x"})


@pytest.mark.parametrize("thing", [Search, object(), len, {"args_schema": {}}])
def test_another_object_is_refused(thing):
    with pytest.raises(DefinitionError, match="is not a LangChain tool; pass a BaseTool"):
        ToolSpec.from_langchain(thing)


def test_without_langchain_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['langchain_core'] = None\n"
        "from ahvn_tools import ToolSpec\n"
        "ToolSpec.from_code('def f(): return 1').to_langchain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert 'pip install "ahvn-tools[langchain]"' in done.stderr
