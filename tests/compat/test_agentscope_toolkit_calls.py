"""Calls of the toolkit: responses, postprocessing, extended models, middleware and MCP, with their exact texts."""

import asyncio
import contextvars
import copy
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel

from ahvn_tools.compat.agentscope import Toolkit, ToolResponse, ToolUseBlock
from ahvn_tools.compat.agentscope.mcp import StatefulClientBase
from tests.compat.agentscope_calls import (
    INTERRUPTION,
    add,
    answer_of,
    block,
    parameters_of,
    responses_of,
    sums_client,
    text,
    texts_of,
)


@pytest.fixture
def toolkit() -> Toolkit:
    return Toolkit()


class TestCalls:
    async def test_an_unknown_tool(self, toolkit):
        assert await answer_of(toolkit, "sum") == "FunctionNotFoundError: Cannot find the function named sum"

    async def test_a_tool_of_an_inactive_group_is_not_run(self, toolkit):
        toolkit.create_tool_group("web", "The web.")
        toolkit.register_tool_function(add, "web")
        assert await answer_of(toolkit, "add", a=1) == (
            "FunctionInactiveError: The function 'add' is in the inactive group 'web'. Activate the tool group by "
            "calling 'reset_equipped_tools' first to use this tool."
        )

    @pytest.mark.parametrize("arguments", [None, {}], ids=["none", "empty"])
    async def test_a_call_without_input(self, toolkit, arguments):
        toolkit.register_tool_function(lambda: text("pong"), func_name="ping")
        call = {"type": "tool_use", "id": "1", "name": "ping", "input": arguments}
        assert [texts_of(each) async for each in await toolkit.call_tool_function(call)] == [["pong"]]

    @pytest.mark.parametrize("wrong", [[1], "x", '{"a": 1}', 3], ids=["list", "text", "json", "number"])
    @pytest.mark.parametrize("name", ["add", "reset_equipped_tools"])
    async def test_input_that_is_no_object_is_refused(self, toolkit, name, wrong):
        toolkit.register_tool_function(add)
        toolkit.register_tool_function(toolkit.reset_equipped_tools)
        call = {"type": "tool_use", "id": "1", "name": name, "input": wrong}
        (response,) = [each async for each in toolkit.call_tool_function(call)]
        assert "Invalid arguments: they are not an object" in texts_of(response)[0]

    async def test_a_warm_call_is_a_thin_layer(self, toolkit):
        async def add_later(a: int, b: int = 2) -> ToolResponse:
            return text(a + b)

        toolkit.register_tool_function(add_later)
        called: list[str] = []
        for _ in range(2):
            called.clear()
            sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
            try:
                answer = await answer_of(toolkit, "add_later", a=1)
            finally:
                sys.setprofile(None)
            assert answer == "3"
        assert len(called) < 140, called

    async def test_a_function_that_returns_one_response_runs_in_the_task_of_its_caller(self, toolkit):
        user = contextvars.ContextVar("user", default="")

        async def log_in() -> ToolResponse:
            user.set("Ann")
            return text(id(asyncio.current_task()))

        toolkit.register_tool_function(log_in)
        assert await answer_of(toolkit, "log_in") == str(id(asyncio.current_task()))
        assert user.get() == "Ann"

    async def test_a_function_may_return_a_response_or_a_generator(self, toolkit):
        async def count(until: int):
            async def items():
                for number in range(1, until + 1):
                    yield text(number)

            return items() if until else text("nothing")

        toolkit.register_tool_function(count)
        for until, expected in [
            (0, ["nothing"]),
            (2, ["1", "2"]),
            (0, ["nothing"]),
            (0, ["nothing"]),
            (3, ["1", "2", "3"]),
        ]:
            assert [texts_of(each)[0] for each in await responses_of(toolkit, "count", until=until)] == expected

    async def test_each_response_of_a_generator_comes_at_once_also_after_a_call_that_failed(self, toolkit):
        async def count(until: int) -> AsyncGenerator[ToolResponse, None]:
            if until < 0:
                raise ValueError("no")
            for number in range(until):
                made.append(number)
                yield text(number)

        toolkit.register_tool_function(count)
        for until in (-1, 0, 3, 3):
            made: list[int] = []
            async for response in toolkit.call_tool_function(block("count", until=until)):
                assert texts_of(response)[0] in {"Error: no", str(made[-1] if made else None)}

    async def test_a_call_without_an_id(self, toolkit):
        toolkit.register_tool_function(add)
        (response,) = [each async for each in toolkit.call_tool_function({"name": "add", "input": {"a": 1}})]
        assert texts_of(response) == ["3"]

    @pytest.mark.parametrize("kind", ["sync", "async", "generator", "async generator"])
    async def test_an_exception_before_the_first_response_is_a_text(self, toolkit, kind):
        def fail() -> ToolResponse:
            raise KeyError("gone")

        async def fail_later() -> ToolResponse:
            fail()

        def fail_first():
            yield fail()

        async def afail_first():
            yield fail()

        functions = {"sync": fail, "async": fail_later, "generator": fail_first, "async generator": afail_first}
        toolkit.register_tool_function(functions[kind], func_name="fail")
        (response,) = await responses_of(toolkit, "fail")
        assert (texts_of(response), response.is_last) == (["Error: 'gone'"], True)

    @pytest.mark.parametrize(
        "returned",
        ["a text", 3, None, [3], [], [text(1)], {"type": "text", "text": "a"}],
        ids=["text", "number", "none", "list", "empty", "responses", "block"],
    )
    async def test_anything_but_a_response_is_a_type_error(self, toolkit, returned):
        toolkit.register_tool_function(lambda: returned, func_name="wrong")
        with pytest.raises(TypeError, match=r"^The tool function must return a ToolResponse object, or an Async"):
            await responses_of(toolkit, "wrong")

    @pytest.mark.parametrize("returned", ["a text", [text(1)]], ids=["text", "list"])
    async def test_a_wrong_type_is_not_logged_as_a_failure_of_this_package(self, toolkit, returned, caplog):
        toolkit.register_tool_function(lambda: returned, func_name="wrong")
        with pytest.raises(TypeError):
            await responses_of(toolkit, "wrong")
        assert "render" not in caplog.text

    async def test_a_generator_is_closed_at_its_first_item_that_is_no_response(self, toolkit):
        closed = []

        async def count():
            try:
                yield text(1)
                yield 2
                yield text(3)
            finally:
                closed.append(True)

        toolkit.register_tool_function(count)
        call = toolkit.call_tool_function(block("count"))
        assert texts_of(await anext(call)) == ["1"]
        with pytest.raises(TypeError, match="but got <class 'int'>"):
            await anext(call)
        assert closed == [True]

    async def test_a_generator_without_items_yields_nothing(self, toolkit):
        def count():
            yield from ()

        toolkit.register_tool_function(count)
        assert await responses_of(toolkit, "count") == []

    async def test_chunks_are_the_very_objects_of_the_tool(self, toolkit):
        chunks = [text(1), text(12)]
        toolkit.register_tool_function(lambda: iter(chunks), func_name="count")
        responses = await responses_of(toolkit, "count")
        assert [id(each) for each in responses] == [id(each) for each in chunks]

    async def test_a_model_in_the_signature_arrives_as_json(self, toolkit):
        class Book(BaseModel):
            title: str

        def put(book: Book) -> ToolResponse:
            return text(book["title"])

        toolkit.register_tool_function(put)
        assert await answer_of(toolkit, "put", book={"title": "Tea"}) == "Tea"

    @pytest.mark.parametrize(
        "begin",
        [
            pytest.param(lambda toolkit: toolkit.call_tool_function(block("count")), id="toolkit"),
            pytest.param(lambda toolkit: toolkit.tools["count"].call(arguments={}), id="function"),
        ],
    )
    async def test_a_stream_of_which_a_part_is_read_is_closed(self, toolkit, begin):
        closed = []

        async def count():
            try:
                for number in range(100):
                    yield text(number)
            finally:
                closed.append(True)

        toolkit.register_tool_function(count)
        call = begin(toolkit)
        async for _ in call:
            break
        await call.aclose()
        assert closed == [True]

    async def test_a_call_may_be_awaited_as_a_future(self, toolkit):
        toolkit.register_tool_function(add)
        call = await asyncio.ensure_future(toolkit.call_tool_function(block("add", a=1)))
        assert [texts_of(each) async for each in call] == [["3"]]


class TestToolsThatCancelThemselves:
    @pytest.mark.parametrize("chunks", [0, 1, 2])
    async def test_the_stream_ends_with_the_interrupted_response(self, toolkit, chunks):
        async def wait():
            for number in range(chunks):
                yield text(number, stream=True)
            raise asyncio.CancelledError

        toolkit.register_tool_function(wait)
        *before, last = await responses_of(toolkit, "wait")
        assert [texts_of(each) for each in before] == [[str(number)] for number in range(chunks)]
        assert texts_of(last) == [*(texts_of(before[-1]) if before else []), INTERRUPTION]
        assert (last.stream, last.is_last, last.is_interrupted) == (True, True, True)

    async def test_a_coroutine_that_returns_a_generator(self, toolkit):
        async def wait() -> ToolResponse:
            raise asyncio.CancelledError("by itself")

        async def start():
            return wait()

        toolkit.register_tool_function(wait)
        toolkit.register_tool_function(start)
        assert [texts_of(each) for each in await responses_of(toolkit, "wait")] == [[INTERRUPTION]]
        assert [texts_of(each) for each in await responses_of(toolkit, "start")] == [[INTERRUPTION]]


class TestPostprocessing:
    async def test_it_gets_the_content_of_a_stream_without_a_last_response_once(self, toolkit):
        def count():
            yield text(1, is_last=False)
            yield text(12, is_last=False)

        seen = []

        def shout(tool_call: ToolUseBlock, response: ToolResponse) -> ToolResponse:
            seen.append(texts_of(response))
            return text(f"{texts_of(response)[0]}!", is_last=response.is_last)

        toolkit.register_tool_function(count, postprocess_func=shout)
        responses = await responses_of(toolkit, "count")
        assert seen == [["1"], ["12"]]
        assert [(*texts_of(each), each.is_last) for each in responses] == [("1!", False), ("12!", False), ("12!", True)]

    async def test_what_it_made_of_the_latest_chunk_is_in_the_interrupted_response(self, toolkit):
        async def count():
            yield text(1)
            raise asyncio.CancelledError

        toolkit.register_tool_function(count, postprocess_func=lambda tool_call, response: text("changed"))
        assert texts_of((await responses_of(toolkit, "count"))[-1]) == ["changed", INTERRUPTION]

    async def test_it_gets_every_chunk(self, toolkit):
        def count():
            yield text(1)
            yield text(2)

        def shout(tool_call: ToolUseBlock, response: ToolResponse) -> ToolResponse:
            return text(f"{texts_of(response)[0]}!")

        toolkit.register_tool_function(count, postprocess_func=shout)
        assert [texts_of(each) for each in await responses_of(toolkit, "count")] == [["1!"], ["2!"]]

    async def test_it_gets_the_error_of_a_failed_tool(self, toolkit):
        def fail() -> ToolResponse:
            raise ValueError("no tea")

        async def shout(tool_call: ToolUseBlock, response: ToolResponse) -> ToolResponse:
            await asyncio.sleep(0)
            return text(f"{texts_of(response)[0]}!")

        toolkit.register_tool_function(fail, postprocess_func=shout)
        assert await answer_of(toolkit, "fail") == "Error: no tea!"

    async def test_it_gets_no_refusal(self, toolkit):
        toolkit.create_tool_group("web", "The web.")
        toolkit.register_tool_function(add, "web", postprocess_func=lambda tool_call, response: text("changed"))
        assert (await answer_of(toolkit, "add", a=1)).startswith("FunctionInactiveError")

    async def test_what_it_raises_is_raised(self, toolkit):
        def fail(tool_call: ToolUseBlock, response: ToolResponse) -> None:
            raise LookupError("no rule")

        toolkit.register_tool_function(add, postprocess_func=fail)
        with pytest.raises(LookupError, match="no rule"):
            await responses_of(toolkit, "add", a=1)

    async def test_it_gets_the_call_itself(self, toolkit):
        calls = []
        toolkit.register_tool_function(add, postprocess_func=lambda tool_call, response: calls.append(tool_call))
        call = {"type": "tool_use", "id": "c7", "name": "add", "input": {"a": 1}, "raw_input": '{"a": 1}'}
        await anext(toolkit.call_tool_function(call))
        assert calls == [call]


class Answer(BaseModel):
    class Source(BaseModel):
        url: str

    score: int
    sources: list[Source] = []


class TestExtendedModel:
    def test_fields_and_definitions_are_merged(self, toolkit):
        class Source(BaseModel):
            name: str

        def finish(source: Source) -> ToolResponse:
            return text(source["name"])

        toolkit.register_tool_function(finish)
        toolkit.set_extended_model("finish", Answer)
        parameters = parameters_of(toolkit, "finish")
        assert parameters["required"] == ["source", "score"]
        assert len(parameters["$defs"]) == 2
        assert parameters["properties"]["score"] == {"type": "integer"}

    def test_a_clash_is_an_error_when_the_model_is_set(self, toolkit):
        class Clash(BaseModel):
            a: int

        toolkit.register_tool_function(add)
        with pytest.raises(ValueError, match="'a'"):
            toolkit.set_extended_model("add", Clash)
        assert list(parameters_of(toolkit, "add")["properties"]) == ["a", "b"]

    def test_a_field_may_not_replace_a_preset(self, toolkit):
        class Clash(BaseModel):
            b: int

        toolkit.register_tool_function(add, preset_kwargs={"b": 1})
        with pytest.raises(ValueError, match="'b'"):
            toolkit.set_extended_model("add", Clash)

    def test_an_unknown_tool(self, toolkit):
        with pytest.raises(ValueError, match=r"^Tool function 'zz' not found in the toolkit\.$"):
            toolkit.set_extended_model("zz", Answer)

    @pytest.mark.parametrize("model", [dict, "Answer", Answer(score=1)], ids=["dict", "text", "instance"])
    def test_something_else_than_a_model(self, toolkit, model):
        toolkit.register_tool_function(add)
        with pytest.raises(TypeError):
            toolkit.set_extended_model("add", model)

    async def test_none_removes_the_fields(self, toolkit):
        toolkit.register_tool_function(add)
        toolkit.set_extended_model("add", Answer)
        toolkit.set_extended_model("add", None)
        assert list(parameters_of(toolkit, "add")["properties"]) == ["a", "b"]
        (response,) = await responses_of(toolkit, "add", a=1)
        assert response.metadata is None

    async def test_a_function_without_variable_parameters_does_not_get_the_fields(self, toolkit):
        toolkit.register_tool_function(add)
        toolkit.set_extended_model("add", Answer)
        (response,) = await responses_of(toolkit, "add", a=1, score=5)
        assert (texts_of(response), response.metadata["success"]) == (["3"], True)

    async def test_a_function_that_says_nothing_answers_that_it_has_succeeded(self, toolkit):
        toolkit.register_tool_function(lambda **fields: ToolResponse([]), func_name="finish")
        toolkit.set_extended_model("finish", Answer)
        assert await answer_of(toolkit, "finish", score=5) == "Successfully generated response."

    async def test_fields_that_the_model_ignores_are_ignored(self, toolkit):
        called: list[dict[str, Any]] = []

        def finish(q: str, **fields: Any) -> ToolResponse:
            called.append(fields)
            return text(q)

        toolkit.register_tool_function(finish, preset_kwargs={"service": "preset-4711"})
        toolkit.set_extended_model("finish", Answer)
        for extra in ("response", "service"):
            assert await answer_of(toolkit, "finish", q="tea", score=5, **{extra: "mine"}) == "tea"
        assert called == [{"service": "preset-4711", "score": 5, "sources": []}] * 2

    @pytest.mark.parametrize("extra", ["forbid", "allow"])
    async def test_other_models_refuse_other_fields(self, toolkit, extra):
        class Closed(BaseModel, extra=extra):
            score: int

        toolkit.register_tool_function(lambda **fields: text(fields), func_name="finish")
        toolkit.set_extended_model("finish", Closed)
        problem = "unknown argument 'response' (known: 'score')"
        answer = await answer_of(toolkit, "finish", score=5, response="tea")
        assert answer == f"Arguments Validation Error: Invalid arguments: {problem}."

    async def test_a_stream_ends_with_the_answer(self, toolkit):
        def finish():
            yield text(1)
            yield text(12)

        toolkit.register_tool_function(finish)
        toolkit.set_extended_model("finish", Answer)
        *chunks, last = await responses_of(toolkit, "finish", score=5)
        assert [chunk.metadata for chunk in chunks] == [None, None]
        assert (texts_of(last), last.metadata["structured_output"]) == (["12"], {"score": 5, "sources": []})

    async def test_the_tool_is_an_error_like_any_other_if_it_fails(self, toolkit):
        def finish() -> ToolResponse:
            raise ValueError("no tea")

        toolkit.register_tool_function(finish)
        toolkit.set_extended_model("finish", Answer)
        (response,) = await responses_of(toolkit, "finish", score=5)
        assert (texts_of(response), response.metadata) == (["Error: no tea"], None)


def wrapping(name: str, order: list[str]):
    async def middleware(kwargs: dict[str, Any], next_handler: Any) -> AsyncGenerator[ToolResponse, None]:
        order.append(f"{name} in")
        async for response in await next_handler(**kwargs):
            yield text(f"{texts_of(response)[0]} {name}")
        order.append(f"{name} out")

    return middleware


class TestMiddleware:
    async def test_the_first_is_the_outermost(self, toolkit):
        order = []
        toolkit.register_tool_function(lambda: order.append("tool") or text("tea"), func_name="brew")
        for name in ("1", "2"):
            toolkit.register_middleware(wrapping(name, order))
        assert await answer_of(toolkit, "brew") == "tea 2 1"
        assert order == ["1 in", "2 in", "tool", "2 out", "1 out"]

    async def test_it_gets_the_call_and_may_change_it(self, toolkit):
        async def double(kwargs: dict[str, Any], next_handler: Any) -> AsyncGenerator[ToolResponse, None]:
            call = kwargs["tool_call"]
            async for response in next_handler(tool_call={**call, "input": {"a": call["input"]["a"] * 2}}):
                yield response

        toolkit.register_tool_function(add)
        toolkit.register_middleware(double)
        assert await answer_of(toolkit, "add", a=4) == "10"

    async def test_it_may_answer_itself(self, toolkit):
        async def refuse(kwargs: dict[str, Any], next_handler: Any) -> AsyncGenerator[ToolResponse, None]:
            yield text(f"{list(kwargs)}: no")

        toolkit.register_middleware(refuse)
        assert await answer_of(toolkit, "unknown") == "['tool_call']: no"

    async def test_it_sees_refusals(self, toolkit):
        toolkit.register_middleware(wrapping("1", []))
        assert await answer_of(toolkit, "unknown") == "FunctionNotFoundError: Cannot find the function named unknown 1"


@pytest.fixture
async def client() -> AsyncIterator[StatefulClientBase]:
    async with sums_client() as client:
        yield client


class TestMCP:
    @pytest.mark.parametrize(
        "options",
        [
            {"enable_funcs": ["pluss"]},
            {"enable_funcs": ["plus"], "disable_funcs": ["plus"]},
            {"enable_funcs": "plus", "disable_funcs": "plus"},
            {"preset_kwargs_mapping": {"pluss": {"a": 1}}},
            {"group_name": "nope"},
        ],
        ids=["unknown", "both", "both as texts", "preset", "group"],
    )
    async def test_names_that_do_not_fit_register_nothing(self, toolkit, client, options):
        with pytest.raises(ValueError, match=r"pluss|both|Tool group 'nope' not found"):
            await toolkit.register_mcp_client(client, **options)
        assert toolkit.tools == {}

    @pytest.mark.parametrize("option", ["enable_funcs", "disable_funcs"])
    async def test_other_types_of_names_are_a_type_error(self, toolkit, client, option):
        with pytest.raises(TypeError, match=f"The {option} must be a list of strings, but got <class 'int'>"):
            await toolkit.register_mcp_client(client, **{option: 3})

    async def test_a_name_that_is_taken_registers_nothing(self, toolkit, client):
        toolkit.register_tool_function(add, func_name="minus")
        with pytest.raises(ValueError, match="'minus' is already registered"):
            await toolkit.register_mcp_client(client)
        assert list(toolkit.tools) == ["minus"]
        await toolkit.register_mcp_client(client, enable_funcs=["plus", "minus"], namesake_strategy="skip")
        assert {name: tool.mcp_name for name, tool in toolkit.tools.items()} == {"minus": None, "plus": "sums"}

    async def test_tools_are_removed_by_the_name_of_their_client(self, toolkit, client):
        await toolkit.register_mcp_client(client)
        await toolkit.remove_mcp_clients("other")
        assert len(toolkit.tools) == 4
        await toolkit.remove_mcp_clients("sums")
        assert toolkit.tools == {}

    async def test_a_failure_may_be_handed_on_unwrapped(self, toolkit, client):
        await toolkit.register_mcp_client(client, wrap_tool_result=False)
        (result,) = await responses_of(toolkit, "fail", code=7)
        assert result.is_error
        assert "code 7" in result.content[0].text

    async def test_a_result_of_mcp_is_not_printed(self, toolkit, client, capsys):
        await toolkit.register_mcp_client(client, wrap_tool_result=False)
        call = toolkit.tools["plus"].call(arguments={"a": 1, "b": 2}, stream_print=True)
        assert [result.content[0].text async for result in call] == ["3"]
        assert capsys.readouterr().out == ""

    async def test_the_schema_of_the_client_is_not_changed(self, toolkit, client):
        function = await client.get_callable_function("plus")
        before = copy.deepcopy(function.json_schema)
        toolkit.register_tool_function(function, func_name="sum", preset_kwargs={"a": 1})
        toolkit.get_json_schemas()
        assert function.json_schema == before
