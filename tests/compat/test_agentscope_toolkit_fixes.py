"""What goes wrong in AgentScope's toolkit and works here."""

import asyncio
import contextlib
import copy
import functools
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ahvn_tools.compat.agentscope import StateModule, Toolkit, ToolResponse
from tests.compat.agentscope_calls import (
    INTERRUPTION,
    add,
    answer_of,
    block,
    sums_client,
    text,
    texts_of,
)


@pytest.fixture
def toolkit() -> Toolkit:
    return Toolkit()


class TestFixed:
    """What goes wrong in AgentScope, one bug each."""

    @pytest.mark.parametrize("name", ["b", "service"])
    async def test_a_model_cannot_override_a_preset(self, toolkit, name):
        def show(a: int, b: int, **more: Any) -> ToolResponse:
            return text((a, b, more))

        toolkit.register_tool_function(show, preset_kwargs={"b": 4711, "service": "hunter22"})
        answer = await answer_of(toolkit, "show", a=1, **{name: 3})
        assert answer == f"Error: Invalid arguments: unknown argument {name!r} (known: 'a')."
        assert await answer_of(toolkit, "show", a=1) == "(1, 4711, {'service': 'hunter22'})"

    async def test_a_model_cannot_override_a_preset_of_an_explicit_schema(self, toolkit):
        schema = {
            "type": "function",
            "function": {
                "name": "show",
                "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
            },
        }
        toolkit.register_tool_function(
            lambda **arguments: text(arguments), json_schema=schema, preset_kwargs={"b": 1, "service": "s"}
        )
        assert (await answer_of(toolkit, "show", b=3)).startswith("Error: Invalid arguments: unknown")
        assert await answer_of(toolkit, "show", service="mine") == "{'service': 's', 'b': 1}"  # its schema is open
        assert await answer_of(toolkit, "show", a=5) == "{'a': 5, 'b': 1, 'service': 's'}"

    async def test_a_call_with_raw_arguments_cannot_override_a_preset_either(self, toolkit):
        toolkit.register_tool_function(add, preset_kwargs={"b": 1})
        (response,) = [each async for each in toolkit.tools["add"].call(arguments={"a": 1, "b": 2})]
        assert texts_of(response)[0].startswith("Error: Invalid arguments")

    @pytest.mark.parametrize("is_generator", [False, True], ids=["coroutine", "generator"])
    async def test_a_call_that_is_cancelled_is_cancelled(self, toolkit, is_generator):
        async def wait() -> ToolResponse:
            await asyncio.sleep(60)

        async def count():
            yield text("one")
            await asyncio.sleep(60)

        toolkit.register_tool_function(count if is_generator else wait, func_name="wait")
        seen = []

        async def collect() -> None:
            async for response in await toolkit.call_tool_function(block("wait")):
                seen.append(response)  # noqa: PERF401  # a comprehension is dropped when it is cancelled

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(collect(), 0.1)
        last = seen[-1]
        assert texts_of(last) == [*(["one"] if is_generator else []), INTERRUPTION]
        assert (last.stream, last.is_last, last.is_interrupted) == (True, True, True)

    async def test_cancellation_is_raised_at_the_step_after_the_interrupted_response(self, toolkit):
        async def wait() -> ToolResponse:
            await asyncio.sleep(60)

        toolkit.register_tool_function(wait)
        call = toolkit.call_tool_function(block("wait"))
        asyncio.get_running_loop().call_later(0.05, asyncio.current_task().cancel)
        assert (await anext(call)).is_interrupted
        with pytest.raises(asyncio.CancelledError):
            await anext(call)
        asyncio.current_task().uncancel()

    async def test_a_partial_is_not_changed_by_its_registration(self, toolkit):
        part = functools.partial(add, b=1)
        toolkit.register_tool_function(part, preset_kwargs={"a": 1})
        assert (part.args, part.keywords) == ((), {"b": 1})
        assert texts_of(part(5)) == ["6"]

    async def test_a_schema_and_presets_are_not_changed_by_registration(self, toolkit):
        schema = {
            "type": "function",
            "function": {
                "name": "show",
                "parameters": {
                    "type": "object",
                    "title": "Show",
                    "properties": {"a": {"type": "integer", "title": "A"}},
                    "required": ["a"],
                },
            },
        }
        presets = {"a": 1, "b": [2]}
        before = copy.deepcopy((schema, presets))
        toolkit.register_tool_function(
            lambda **arguments: text(arguments), json_schema=schema, preset_kwargs=presets, func_name="other"
        )
        toolkit.get_json_schemas()
        assert await answer_of(toolkit, "other") == "{'a': 1, 'b': [2]}"
        assert (schema, presets) == before

    async def test_a_schema_without_parameters_is_a_tool_without_arguments(self, toolkit):
        schema = {"type": "function", "function": {"name": "ping"}}
        toolkit.register_tool_function(lambda: text("pong"), json_schema=schema)
        assert await answer_of(toolkit, "ping") == "pong"

    def test_what_else_a_given_schema_says_is_kept(self, toolkit):
        parameters = {"type": "object", "properties": {}, "additionalProperties": False}
        schema = {
            "type": "function",
            "function": {"name": "ping", "description": "Ping.", "strict": True, "parameters": parameters},
        }
        toolkit.register_tool_function(lambda: text("pong"), json_schema=schema)
        assert toolkit.get_json_schemas() == [schema]

    def test_a_toolkit_is_not_copied(self, toolkit):
        with pytest.raises(TypeError):
            copy.deepcopy(toolkit)

    def test_an_unknown_preset_is_an_error_of_registration(self, toolkit):
        with pytest.raises(ValueError, match="c"):
            toolkit.register_tool_function(add, preset_kwargs={"c": 1})
        with pytest.raises(ValueError, match="'b'"):
            toolkit.register_tool_function(add, preset_kwargs={"b": "many"})
        assert toolkit.tools == {}

    async def test_presets_show_up_nowhere(self, toolkit, caplog):
        def connect(host: str, token: str) -> ToolResponse:
            raise ConnectionError(f"no way to {host}")

        caplog.set_level(logging.DEBUG)
        toolkit.register_tool_function(connect, preset_kwargs={"token": "hunter2-4711"})
        shown = [
            await answer_of(toolkit, "connect", host="x"),
            await answer_of(toolkit, "connect", host=3.5, token="y"),
            repr(toolkit.tools),
            repr(toolkit.get_json_schemas()),
            repr(toolkit.state_dict()),
            caplog.text,
        ]
        assert "hunter2" not in "\n".join(shown)

    async def test_a_preset_in_the_text_of_an_exception_is_hidden_from_the_model(self, toolkit):
        def connect(token: str, **more: str) -> ToolResponse:
            raise ConnectionError(f"the key {token} is not that of {more['user']}")

        toolkit.register_tool_function(connect, preset_kwargs={"token": "hunter2-4711", "user": "ann-the-admin"})
        assert await answer_of(toolkit, "connect") == "Error: the key <token> is not that of <more>"


def name_it(name: str) -> Any:
    def function() -> ToolResponse:
        return text(name)

    function.__name__ = name
    return function


class TestStreams:
    async def test_a_call_can_be_closed_after_its_end(self, toolkit):
        toolkit.register_tool_function(add)
        async with contextlib.aclosing(await toolkit.call_tool_function(block("add", a=1))) as responses:
            assert [texts_of(response) async for response in responses] == [["3"]]
        await responses.aclose()

    async def test_a_cancelled_aclose_is_cancelled(self, toolkit):
        async def count():
            try:
                yield text(1)
            finally:
                await asyncio.sleep(60)

        toolkit.register_tool_function(count)
        call = toolkit.call_tool_function(block("count"))
        await anext(call)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await call.aclose()

    async def test_an_aclose_that_is_cancelled_before_it_begins_is_cancelled(self, toolkit):
        """As at the end of a program that has left a call with `break`."""

        async def count():
            yield text(1)
            yield text(2)

        toolkit.register_tool_function(count)
        call = toolkit.call_tool_function(block("count"))
        await anext(call)
        closing = asyncio.ensure_future(call.aclose())
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await call.aclose()

    async def test_a_limit_for_one_response_ends_the_call_and_not_the_task(self, toolkit):
        async def wait() -> ToolResponse:
            await asyncio.sleep(60)

        toolkit.register_tool_function(wait)
        call = toolkit.call_tool_function(block("wait"))
        assert (await asyncio.wait_for(anext(call), 0.05)).is_interrupted
        with pytest.raises(StopAsyncIteration):
            await anext(call)

    @pytest.mark.parametrize("middleware", [None, add, "text"], ids=["none", "function", "text"])
    def test_a_middleware_is_an_async_generator_function(self, toolkit, middleware):
        with pytest.raises(TypeError, match="async generator function"):
            toolkit.register_middleware(middleware)

    async def test_an_object_may_be_a_middleware(self, toolkit):
        class Double:
            async def __call__(self, kwargs, next_handler):
                async for response in await next_handler(**kwargs):
                    yield text(texts_of(response)[0] * 2)

        toolkit.register_tool_function(add)
        toolkit.register_middleware(Double())
        assert await answer_of(toolkit, "add", a=1) == "33"


class TestThreads:
    def test_tools_that_threads_register_at_once_are_all_there(self, toolkit):
        def register(number: int) -> None:
            for count in range(10):
                toolkit.register_tool_function(name_it(f"f{number}_{count}"))
                toolkit.get_json_schemas()

        with ThreadPoolExecutor(6) as threads:
            list(threads.map(register, range(6)))
        assert len(toolkit.tools) == len(toolkit.get_json_schemas()) == 60

    def test_groups_can_be_listed_while_another_thread_removes_them(self, toolkit):
        errors = []

        def change() -> None:
            for _ in range(100):
                toolkit.create_tool_group("web", "The web.", active=True)
                toolkit.register_tool_function(name_it("find"), "web")
                toolkit.remove_tool_groups("web")

        def look() -> None:
            while changing.is_alive():
                try:
                    toolkit.get_activated_notes()
                    toolkit.get_json_schemas()
                    toolkit.update_tool_groups("web", False)
                    toolkit.state_dict()
                except LookupError as error:
                    errors.append(error)

        changing = threading.Thread(target=change)
        changing.start()
        look()
        changing.join()
        assert errors == []


class TestPresets:
    """Presets that are no named parameter."""

    @pytest.mark.parametrize("given", [None, {}], ids=["signature", "schema"])
    async def test_each_call_has_its_own_copy(self, toolkit, given):
        def grow(**more: Any) -> ToolResponse:
            more["items"].append(1)
            return text(more["items"])

        schema = None if given is None else {"type": "function", "function": {"name": "grow"}}
        mine: list[int] = []
        toolkit.register_tool_function(grow, preset_kwargs={"items": mine}, json_schema=schema)
        assert [await answer_of(toolkit, "grow") for _ in range(2)] == ["[1]", "[1]"]
        assert mine == []

    async def test_a_parameter_that_is_not_in_the_schema_can_be_preset(self, toolkit):
        schema = {
            "type": "function",
            "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        }
        schema["function"]["parameters"]["required"] = ["a"]
        toolkit.register_tool_function(add, preset_kwargs={"b": 5}, json_schema=schema)
        assert await answer_of(toolkit, "add", a=1) == "6"
        assert (await answer_of(toolkit, "add", a=1, b=7)).endswith("unknown argument 'b' (known: 'a').")

    @pytest.mark.parametrize("name", ["more", "service"])
    async def test_the_name_of_the_variadic_parameter_is_like_any_other(self, toolkit, name):
        def show(**more: Any) -> ToolResponse:
            return text(more)

        toolkit.register_tool_function(show, preset_kwargs={name: 1, "x": 2})
        assert await answer_of(toolkit, "show") == str({name: 1, "x": 2})

    async def test_a_partial_keeps_what_it_fixes(self, toolkit):
        def show(a: int, **more: Any) -> ToolResponse:
            return text((a, more))

        toolkit.register_tool_function(functools.partial(show, service="s"), preset_kwargs={"user": "u"})
        assert await answer_of(toolkit, "show", a=1) == "(1, {'service': 's', 'user': 'u'})"

    @pytest.mark.parametrize("arguments", [((1, "hunter2-4711"), {}), ((), {"nope": "hunter2-4711"})], ids=str)
    def test_the_error_about_a_partial_does_not_show_its_values(self, toolkit, arguments):
        def show(a: int) -> ToolResponse:
            return text(a)

        positional, named = arguments
        with pytest.raises(ValueError, match="'show'") as error:
            toolkit.register_tool_function(functools.partial(show, *positional, **named))
        assert "hunter2" not in str(error.value)

    def test_a_schema_that_is_changed_later_changes_nothing(self, toolkit):
        schema = {"type": "function", "function": {"name": "ping", "strict": True}}
        toolkit.register_tool_function(lambda: text("pong"), json_schema=schema)
        schema["function"]["strict"] = "changed later"
        assert toolkit.get_json_schemas()[0]["function"]["strict"] is True

    async def test_a_subclass_may_change_the_switch_of_groups(self):
        class Quiet(Toolkit):
            async def reset_equipped_tools(self, /, **groups: Any) -> ToolResponse:
                await super().reset_equipped_tools(**groups)
                return text("done")

        toolkit = Quiet()
        toolkit.create_tool_group("web", "The web.")
        toolkit.register_tool_function(toolkit.reset_equipped_tools)
        assert await answer_of(toolkit, "reset_equipped_tools", web=True) == "done"
        assert toolkit.groups["web"].active

    def test_the_switch_of_groups_belongs_to_its_toolkit(self, toolkit):
        with pytest.raises(ValueError, match="in its own toolkit"):
            toolkit.register_tool_function(Toolkit().reset_equipped_tools)
        with pytest.raises(ValueError, match="without preset_kwargs"):
            toolkit.register_tool_function(toolkit.reset_equipped_tools, preset_kwargs={"web": True})


class TestClients:
    async def test_a_client_that_cannot_be_registered_replaces_nothing(self, toolkit):
        toolkit.register_tool_function(name_it("plus"))
        async with sums_client() as client:
            with pytest.raises(ValueError, match="'a'"):
                await toolkit.register_mcp_client(
                    client, namesake_strategy="override", preset_kwargs_mapping={"minus": {"a": "not a number"}}
                )
        assert list(toolkit.tools) == ["plus"]
        assert await answer_of(toolkit, "plus") == "plus"

    async def test_a_client_replaces_tools_as_asked(self, toolkit):
        toolkit.register_tool_function(name_it("plus"))
        async with sums_client() as client:
            await toolkit.register_mcp_client(
                client, namesake_strategy="override", preset_kwargs_mapping={"plus": {"b": 5}}
            )
            assert await answer_of(toolkit, "plus", a=1) == "6"
            assert toolkit.tools["plus"].mcp_name == "sums"

    @pytest.mark.parametrize(
        "options",
        [{"preset_kwargs_mapping": {"plus": {"nope": 1}}}, {"execution_timeout": -1}, {"execution_timeout": "a"}],
        ids=["preset", "negative", "text"],
    )
    async def test_what_no_call_could_use_is_an_error(self, toolkit, options):
        async with sums_client() as client:
            with pytest.raises(ValueError, match=r"nope|above 0"):
                await toolkit.register_mcp_client(client, **options)
        assert toolkit.tools == {}

    async def test_presets_that_are_no_dict_are_an_error(self, toolkit):
        async with sums_client() as client:
            with pytest.raises(TypeError, match="must be a dict"):
                await toolkit.register_mcp_client(client, preset_kwargs_mapping={"plus": 5})


class TestState:
    @pytest.mark.parametrize(
        "group",
        [{"name": ""}, {"name": "basic"}, {"name": [1]}, {"description": 5}, {"notes": ["a"]}, "text"],
        ids=["empty", "basic", "name", "description", "notes", "text"],
    )
    def test_a_state_that_cannot_be_loaded_changes_nothing(self, toolkit, group):
        toolkit.extra = 1
        toolkit.register_state("extra")
        good = {"name": "new", "active": True, "description": "New."}
        groups = [good, {**good, **group} if isinstance(group, dict) else group]
        with pytest.raises(ValueError):  # the text is pydantic's
            toolkit.load_state_dict({"extra": 2, "active_groups": ["new"], "groups": groups}, strict=False)
        assert (toolkit.extra, toolkit.groups) == (1, {})

    @pytest.mark.parametrize("groups", [None, 5], ids=str)
    def test_groups_are_a_list(self, toolkit, groups):
        with pytest.raises(ValueError, match="valid list"):
            toolkit.load_state_dict({"active_groups": [], "groups": groups})

    def test_keys_of_several_types_are_named(self, toolkit):
        with pytest.raises(ValueError, match="additional keys"):
            toolkit.load_state_dict({"active_groups": [], 1: 2, "zz": 3})

    def test_modules_are_loaded_in_their_order(self):
        loaded = []

        class Part(StateModule):
            def load_state_dict(self, state_dict, strict=True):
                loaded.append(state_dict["number"])

        class Whole(StateModule):
            def __init__(self):
                super().__init__()
                for number in range(10):
                    setattr(self, f"part{number}", Part())

        Whole().load_state_dict({f"part{number}": {"number": number} for number in reversed(range(10))})
        assert loaded == list(range(10))
