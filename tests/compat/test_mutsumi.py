"""The tool manager of Mutsumi, section by section of its document."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from ahvn_tools import ToolSpec, tool
from ahvn_tools.compat.mutsumi import ITool, ToolContext, ToolManager
from ahvn_tools.errors import DefinitionError, ToolkitError

SPECIFICATION = Path(__file__).parents[2].parent / "shared" / "seeds" / "004-mutsumi-tool-manager.md"

needs_specification = pytest.mark.skipif(
    not SPECIFICATION.exists(), reason="the specification is not beside the project"
)

TYPESCRIPT_BLOCKS = {
    "constructor() {": "TypeScript of the class itself; `test_the_constructor_registers_the_tools_of_the_document`",
    "const tools: ITool[] = [": "TypeScript of the class itself; `TestGetToolsDefinitions`",
    "interface ITool {": "an interface of TypeScript; `TestITool`",
    "interface ToolContext {": "an interface of TypeScript; `TestToolContext`",
    "ToolManager\n    ├──": "a diagram of modules of an editor",
    "// 创建 ToolManager": "TypeScript; `test_the_example_of_an_agent_runner_in_python`",
    "export const readFileTool": "TypeScript; its object is read by `test_the_example_of_a_definition`",
    "┌───": "a diagram; `TestPermissions`",
}
"""The beginnings of all code blocks: none of them is Python."""


class Echo:
    """An ITool that remembers its contexts."""

    def __init__(self, name: str = "echo", answer: str = "echo") -> None:
        self.name = name
        self.answer = answer
        self.contexts: list[ToolContext] = []
        parameters = {"type": "object", "properties": {"text": {"type": "string"}}}
        self.definition: dict[str, Any] = {
            "type": "function",
            "function": {"name": name, "description": f"Say {answer}.", "parameters": parameters},
        }

    async def execute(self, args: Any, context: ToolContext) -> str:
        self.contexts.append(context)
        return f"{self.answer}: {args.get('text', '')}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "index.ts").write_text("export const tea = 1;\n")
    return tmp_path


@pytest.fixture
def manager(folder: Path) -> ToolManager:
    return ToolManager(folder)


@pytest.fixture
def context() -> ToolContext:
    return ToolContext(allowed_uris=["."])


def names(definitions: list[dict[str, Any]]) -> list[str]:
    return [definition["function"]["name"] for definition in definitions]


def tables(heading: str) -> list[str]:
    """Return the first cells of the table after a heading of the document."""
    section = SPECIFICATION.read_text("utf-8").split(heading, 1)[1].split("\n#", 1)[0]
    return re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)


def blocks() -> list[str]:
    return re.findall(r"```\w*\n(.*?)```", SPECIFICATION.read_text("utf-8"), flags=re.DOTALL)


@needs_specification
def test_no_code_block_of_the_document_is_python():
    assert len(blocks()) == len(TYPESCRIPT_BLOCKS)
    for block, beginning in zip(blocks(), TYPESCRIPT_BLOCKS, strict=True):
        assert block.startswith(beginning) or beginning in block


# What the file does


async def test_the_manager_registers_classifies_runs_and_exports_tools(manager, context):
    manager.register_sub(Echo())
    assert names(manager.get_tools_definitions(is_sub_agent=True))[-1] == "echo"
    assert "echo" not in names(manager.get_tools_definitions(is_sub_agent=False))
    assert await manager.execute_tool("echo", {"text": "tea"}, context, is_sub_agent=True) == "echo: tea"


# Properties of the class


class TestProperties:
    @pytest.mark.parametrize(
        ("name", "other_name"),
        [("common_tools", "commonTools"), ("main_only_tools", "mainOnlyTools"), ("sub_only_tools", "subOnlyTools")],
    )
    def test_each_is_a_read_only_mapping_of_names_to_tools(self, manager, name, other_name):
        tools = getattr(manager, name)
        assert isinstance(tools, Mapping)
        assert getattr(manager, other_name) is tools
        with pytest.raises(TypeError):
            tools["x"] = Echo()
        for key, value in tools.items():
            assert value.name == key
            assert value.definition["function"]["name"] == key
            assert callable(value.execute)

    def test_they_show_what_is_registered_later(self, manager):
        main_only = manager.main_only_tools
        manager.register_main(Echo())
        assert list(main_only) == ["echo"]

    async def test_their_tools_can_be_executed(self, manager, context):
        assert (await manager.common_tools["read_file"].execute({"uri": "src/index.ts"}, context)).startswith("export")
        text = await manager.sub_only_tools["task_finish"].execute({"context_summary": "Done."}, context)
        assert text == "Task Finished. Report submitted."

    def test_an_unknown_attribute_is_an_error(self, manager):
        with pytest.raises(AttributeError, match="rare_tools"):
            manager.rareTools


# Constructor


@needs_specification
def test_the_constructor_registers_the_tools_of_the_document():
    manager = ToolManager()
    common, sub_only = tables("#### 通用工具"), tables("#### 子 Agent 专用工具")
    assert (len(common), len(sub_only)) == (19, 1)
    assert names(manager.get_tools_definitions(is_sub_agent=False)) == common
    assert names(manager.get_tools_definitions(is_sub_agent=True)) == common + sub_only
    assert list(manager.common_tools) == common
    assert list(manager.sub_only_tools) == sub_only
    assert list(manager.main_only_tools) == []


def test_without_a_folder_relative_paths_begin_in_the_current_one(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert ToolManager().folder == folder.resolve()


# getToolsDefinitions


class TestGetToolsDefinitions:
    def test_it_is_there_under_both_names(self, manager):
        assert manager.getToolsDefinitions(False) == manager.get_tools_definitions(False)

    @pytest.mark.parametrize("is_sub_agent", [False, True])
    def test_each_is_a_tool_of_chat_completions(self, manager, is_sub_agent):
        chat = pytest.importorskip("openai.types.chat", reason='needs the SDK: pip install "ahvn-tools[openai]"')
        manager.register_common(Echo())
        for definition in manager.get_tools_definitions(is_sub_agent):
            TypeAdapter(chat.ChatCompletionFunctionToolParam).validate_python(definition)
            assert json.loads(json.dumps(definition)) == definition
            assert definition["function"]["parameters"]["type"] == "object"

    def test_common_tools_come_first_then_those_of_the_agent_in_the_order_of_registration(self, manager):
        for register, name in [
            (manager.register_sub, "s2"), (manager.register_main, "m1"), (manager.register_common, "c20"),
            (manager.register_main, "m2"),
        ]:  # fmt: skip
            register(Echo(name))
        main, sub = (names(manager.get_tools_definitions(is_sub)) for is_sub in (False, True))
        assert main[:19] == sub[:19] == list(manager.common_tools)[:19]
        assert main[19:] == ["c20", "m1", "m2"]
        assert sub[19:] == ["c20", "task_finish", "s2"]

    def test_the_definition_of_an_itool_is_the_same_object(self, manager):
        echo = Echo()
        manager.register_common(echo)
        assert any(definition is echo.definition for definition in manager.get_tools_definitions(False))

    def test_the_caller_cannot_change_the_definitions_of_others(self, manager):
        manager.get_tools_definitions(False)[0]["function"]["parameters"].clear()
        assert manager.get_tools_definitions(False)[0]["function"]["parameters"]["required"] == ["uri"]


# executeTool


class TestExecuteTool:
    async def test_it_is_there_under_both_names(self, manager, context):
        assert await manager.executeTool("get_available_models", {}, context, False) == "No models configured."

    async def test_common_tools_are_found_first(self, manager, context):
        manager.register_main(Echo(answer="main"))
        manager.register_sub(Echo(answer="sub"))
        assert await manager.execute_tool("echo", {}, context, False) == "main: "
        assert await manager.execute_tool("echo", {}, context, True) == "sub: "
        manager.register_common(Echo(answer="common"))
        assert await manager.execute_tool("echo", {}, context, False) == "common: "
        assert await manager.execute_tool("echo", {}, context, True) == "common: "
        assert names(manager.get_tools_definitions(True)).count("echo") == 1

    async def test_a_common_tool_also_hides_one_that_is_registered_later(self, manager, context):
        manager.register_common(Echo(answer="common"))
        manager.register_main(Echo(answer="main"))
        assert await manager.execute_tool("echo", {}, context, False) == "common: "
        shown = [
            tool["function"] for tool in manager.get_tools_definitions(False) if tool["function"]["name"] == "echo"
        ]
        assert [function["description"] for function in shown] == ["Say common."]

    async def test_a_sub_agent_reads_that_a_tool_is_for_main_agents(self, manager, context):
        manager.register_main(Echo("xxx"))
        text = await manager.execute_tool("xxx", {}, context, True)
        assert text == "Tool 'xxx' is not available for Sub-Agents."

    async def test_a_main_agent_reads_that_a_tool_is_for_sub_agents(self, manager, context):
        manager.register_sub(Echo("xxx"))
        text = await manager.execute_tool("xxx", {}, context, False)
        assert text == "Tool 'xxx' is only available for Sub-Agents."

    @pytest.mark.parametrize("is_sub_agent", [False, True])
    async def test_an_unknown_tool_is_an_error_text(self, manager, context, is_sub_agent):
        assert await manager.execute_tool("xxx", {}, context, is_sub_agent) == "Error: Unknown tool 'xxx'"

    @pytest.mark.parametrize("args", [None, {}, {"uri": 3}, {"uri": ["a"]}, [], "src", 7])
    async def test_it_returns_a_text_whatever_the_arguments_are(self, manager, context, args):
        assert (await manager.execute_tool("read_file", args, context)).startswith("Error executing tool: ")


# registerCommon, registerMain, registerSub


class TestRegister:
    @pytest.mark.parametrize("method", ["registerCommon", "registerMain", "registerSub"])
    async def test_they_are_there_under_both_names(self, manager, context, method):
        getattr(manager, method)(Echo())
        assert await manager.execute_tool("echo", {"text": "tea"}, context, method == "registerSub") == "echo: tea"

    async def test_a_tool_of_the_same_name_takes_the_place_of_the_first(self, manager, context):
        manager.register_common(Echo("ls", answer="mine"))
        assert list(manager.common_tools)[:2] == ["read_file", "ls"]
        assert await manager.execute_tool("ls", {}, context) == "mine: "
        manager.register_common(Echo("ls", answer="other"))
        assert await manager.execute_tool("ls", {}, context) == "other: "
        assert names(manager.get_tools_definitions(False)).count("ls") == 1

    async def test_a_tool_of_main_agents_can_be_registered_again_after_a_common_one(self, manager, context):
        for register, answer in [
            (manager.register_main, "a"), (manager.register_common, "b"), (manager.register_main, "c"),
            (manager.register_sub, "d"), (manager.register_common, "e"),
        ]:  # fmt: skip
            register(Echo(answer=answer))
        assert await manager.execute_tool("echo", {}, context) == "e: "
        assert await manager.main_only_tools["echo"].execute({}, context) == "c: "
        assert await manager.sub_only_tools["echo"].execute({}, context) == "d: "

    async def test_a_tool_can_be_removed_from_the_toolkit(self, manager, context):
        manager.toolkit.remove("shell_exec")
        for is_sub_agent in (False, True):
            assert "shell_exec" not in names(manager.get_tools_definitions(is_sub_agent))
            text = await manager.execute_tool("shell_exec", {"uri": ".", "cmd": "ls"}, context, is_sub_agent)
            assert text == "Error: Unknown tool 'shell_exec'"

    async def test_functions_and_specs_can_be_registered_too(self, manager, context):
        @tool(name="shout")
        def spec(text: str) -> str:
            """Shout."""
            return text.upper()

        def add(a: int, b: int = 1) -> int:
            """Add."""
            return a + b

        manager.register_common(spec)
        manager.register_main(add)
        assert isinstance(spec, ToolSpec)
        assert await manager.execute_tool("shout", {"text": "tea"}, context, True) == "TEA"
        assert await manager.execute_tool("add", {"a": 1}, context) == "2"
        assert names(manager.get_tools_definitions(False))[-2:] == ["shout", "add"]

    async def test_a_tool_is_called_by_its_own_name_also_if_its_definition_has_another(self, manager, context):
        echo = Echo()
        echo.definition["function"]["name"] = "other"
        manager.register_common(echo)
        assert await manager.execute_tool("echo", {"text": "tea"}, context) == "echo: tea"
        assert "echo" in manager.toolkit

    def test_a_tool_never_replaces_one_of_another_name(self, manager):
        for name in ("echo", "echo_main_tool"):
            manager.register_common(Echo(name))
        with pytest.raises(ToolkitError, match="echo_main_tool"):
            manager.register_main(Echo())

    async def test_a_function_of_each_kind_of_agent_may_have_the_same_name(self, manager, context):
        def make(kind: str) -> Callable[[], str]:
            def who() -> str:
                return kind

            return who

        manager.register_main(make("main"))
        manager.register_sub(make("sub"))
        for is_sub_agent, kind in ((False, "main"), (True, "sub")):
            assert names(manager.get_tools_definitions(is_sub_agent))[-1] == "who"
            assert await manager.execute_tool("who", {}, context, is_sub_agent) == kind

    async def test_a_parameter_that_is_bound_in_the_toolkit_is_hidden_from_models(self, manager, context):
        def find(topic: str, user: str) -> str:
            """Find."""
            return f"{user}: {topic}"

        manager.register_common(find)
        manager.toolkit.bind("user", default="ann")
        definition = manager.get_tools_definitions(False)[-1]
        assert list(definition["function"]["parameters"]["properties"]) == ["topic"]
        assert await manager.execute_tool("find", {"topic": "tea"}, context) == "ann: tea"

    async def test_a_bound_parameter_of_an_itool_is_hidden_too(self, manager, context):
        manager.register_common(Echo())
        manager.toolkit.bind("text", default="tea")
        definition = manager.get_tools_definitions(False)[-1]
        assert definition["function"]["parameters"]["properties"] == {}
        assert await manager.execute_tool("echo", {}, context) == "echo: tea"


# ITool


class TestITool:
    async def test_execute_may_be_async_or_sync(self, manager, context):
        class Sync(Echo):
            def execute(self, args: Any, context: ToolContext) -> str:  # type: ignore[override]
                return f"{threading.current_thread() is threading.main_thread()} {args['text']}"

        class Async(Echo):
            async def execute(self, args: Any, context: ToolContext) -> str:
                await asyncio.sleep(0)
                return f"{asyncio.get_running_loop() is loop} {args['text']}"

        loop = asyncio.get_running_loop()
        manager.register_common(Sync("sync"))
        manager.register_common(Async("async"))
        assert await manager.execute_tool("sync", {"text": "tea"}, context) == "False tea"
        assert await manager.execute_tool("async", {"text": "tea"}, context) == "True tea"

    async def test_the_schema_of_the_definition_is_enforced(self, manager, context):
        manager.register_common(Echo())
        text = await manager.execute_tool("echo", {"text": ["a"]}, context)
        assert text == "Error executing tool: Invalid arguments: 'text' should be of type string."

    async def test_properties_may_have_any_name(self, manager, context):
        class Show(Echo):
            async def execute(self, args: Any, context: ToolContext) -> str:
                return json.dumps(args)

        show, args = Show(), {"call": "a", "self": "b", "args": "c", "context": "d", "page-size": "e", "更多": "f"}
        show.definition["function"]["parameters"]["properties"] = {name: {"type": "string"} for name in args}
        manager.register_common(show)
        assert json.loads(await manager.execute_tool("echo", args, context)) == args

    async def test_a_definition_needs_neither_parameters_nor_a_description(self, manager, context):
        echo = Echo()
        echo.definition = {"type": "function", "function": {"name": "echo"}}
        manager.register_common(echo)
        assert await manager.execute_tool("echo", {}, context) == "echo: "

    @pytest.mark.parametrize(
        "definition",
        [{}, {"name": "echo", "parameters": {}}, {"function": "echo"}, {"type": "function", "function": "echo"}],
    )
    def test_another_definition_is_an_error(self, manager, definition):
        echo = Echo()
        echo.definition = definition
        with pytest.raises(DefinitionError, match="as in Chat Completions"):
            manager.register_common(echo)
        assert "echo" not in manager.common_tools

    @pytest.mark.parametrize("parameters", [{"type": "string"}, {"type": "object", "properties": 3}, "x"])
    def test_a_wrong_schema_is_an_error_and_nothing_is_registered(self, manager, parameters):
        echo = Echo()
        echo.definition["function"]["parameters"] = parameters
        with pytest.raises(DefinitionError):
            manager.register_main(echo)
        assert "echo" not in manager.main_only_tools
        assert "echo" not in manager.toolkit

    async def test_what_it_raises_becomes_the_text(self, manager, context):
        class Broken(Echo):
            async def execute(self, args: Any, context: ToolContext) -> str:
                raise OSError("the disk is full")

        manager.register_common(Broken())
        text = await manager.execute_tool("echo", {}, context)
        assert text == "Error executing tool: OSError: the disk is full"

    async def test_a_manager_can_mask_what_is_raised(self, folder, context):
        class Broken(Echo):
            async def execute(self, args: Any, context: ToolContext) -> str:
                raise OSError("hunter2")

        manager = ToolManager(folder, mask_errors=True)
        manager.register_common(Broken())
        assert "hunter2" not in await manager.execute_tool("echo", {}, context)

    def test_it_is_a_protocol(self):
        echo: ITool = Echo()
        assert inspect.iscoroutinefunction(echo.execute)


# ToolContext


class TestToolContext:
    def test_the_names_are_in_both_spellings(self):
        def output(text: str) -> None: ...

        def end() -> None: ...

        event = threading.Event()
        for context in (
            ToolContext(allowed_uris=["/w"], abort_signal=event, append_output=output, signal_termination=end),
            ToolContext(allowedUris=["/w"], abortSignal=event, appendOutput=output, signalTermination=end),
        ):
            assert context.allowed_uris == context.allowedUris == ["/w"]
            assert context.abort_signal is context.abortSignal is event
            assert context.append_output is context.appendOutput is output
            assert context.signal_termination is context.signalTermination is end

    @pytest.mark.parametrize(
        "fields", [{"allowed_uris": "/w"}, {"allowedUris": None}, {"append_output": "print"}, {"uris": []}]
    )
    def test_wrong_fields_are_errors(self, fields):
        with pytest.raises(ValidationError):
            ToolContext(**fields)

    async def test_a_context_may_be_a_dict_or_an_object_of_another_class(self, manager):
        for context in (
            {"allowedUris": ["."]}, {"allowed_uris": ["."]}, SimpleNamespace(allowedUris=["."]),
            SimpleNamespace(allowed_uris=["."], abort_signal=None, other=1),
        ):  # fmt: skip
            assert await manager.execute_tool("ls", {"uri": "src"}, context) == "[FILE] index.ts"

    def test_its_repr_does_not_show_what_the_host_keeps_in_it(self):
        assert "hunter2" not in repr(ToolContext(notebook="hunter2", execution="hunter2"))

    @pytest.mark.parametrize("context", [None, "/", {"uris": ["/"]}, {"allowed_uris": "/"}])
    async def test_anything_else_is_an_error(self, manager, context):
        with pytest.raises(ValidationError):
            await manager.execute_tool("ls", {"uri": "src"}, context)

    @pytest.mark.parametrize("name", ["allowed_uris", "allowedUris"])
    def test_it_cannot_be_changed(self, name):
        with pytest.raises(ValidationError):
            setattr(ToolContext(), name, ["/"])

    async def test_a_tool_gets_the_context(self, manager, folder):
        echo, notebook, execution, event = Echo(), object(), object(), asyncio.Event()
        manager.register_common(echo)
        given = ToolContext(allowed_uris=["src"], notebook=notebook, execution=execution, abort_signal=event)
        await manager.execute_tool("echo", {}, given)
        (seen,) = echo.contexts
        assert (seen.notebook, seen.execution, seen.abort_signal) == (notebook, execution, event)
        assert seen.allowed_uris == [str(folder / "src")]
        assert (folder / "src" / "index.ts").as_posix().startswith(seen.allowedUris[0])

    # allowedUris

    @pytest.mark.parametrize(
        "allowed",
        [".", "src", "{folder}", "{folder}/src", "file://{folder}", "file://{folder}/src/", "/", "file:///"],
    )
    async def test_an_allowed_folder_can_be_a_path_or_a_uri(self, manager, folder, allowed):
        context = ToolContext(allowed_uris=["missing", allowed.format(folder=folder)])
        for uri in ("src/index.ts", f"{folder}/src/index.ts", f"file://{folder}/src/index.ts"):
            assert await manager.execute_tool("read_file", {"uri": uri}, context) == "export const tea = 1;\n"

    @pytest.mark.parametrize(
        "allowed",
        [[], ["SRC"], ["{folder}/sr"], ["other"], ["src/index"], ["{folder}/src/../other"], ["file://{folder}/other"]],
    )
    async def test_everything_else_is_denied(self, manager, folder, allowed):
        (folder / "other").mkdir()
        context = ToolContext(allowed_uris=[uri.format(folder=folder) for uri in allowed])
        text = await manager.execute_tool("read_file", {"uri": "src/index.ts"}, context)
        assert text.startswith("Error executing tool: ")
        assert "tea" not in text

    async def test_nothing_is_allowed_by_default(self, manager):
        text = await manager.execute_tool("ls", {"uri": "."}, ToolContext())
        assert text.startswith("Error executing tool: No folder may be used in this call")

    async def test_folders_outside_of_the_managers_can_be_allowed(self, manager, tmp_path_factory):
        other = tmp_path_factory.mktemp("other")
        (other / "tea.txt").write_text("green")
        context = ToolContext(allowed_uris=[other])
        assert await manager.execute_tool("read_file", {"uri": f"{other}/tea.txt"}, context) == "green"
        assert "Error" in await manager.execute_tool("read_file", {"uri": "src/index.ts"}, context)

    async def test_an_allowed_uri_that_is_no_folder_is_an_error_of_the_host(self, manager):
        with pytest.raises(ToolkitError, match="file: URI"):
            await manager.execute_tool("ls", {"uri": "."}, ToolContext(allowed_uris=["https://example.com/a"]))

    # appendOutput

    @pytest.mark.parametrize("is_async", [False, True])
    @pytest.mark.parametrize("is_async_host", [False, True])
    async def test_output_arrives_in_order(self, manager, is_async, is_async_host):
        class Writer(Echo):
            async def execute(self, args: Any, context: ToolContext) -> str:
                for number in range(5):
                    await context.appendOutput(number)
                return "done"

        class SyncWriter(Echo):
            def execute(self, args: Any, context: ToolContext) -> str:  # type: ignore[override]
                for number in range(5):
                    context.append_output(number)
                return "done"

        written: list[Any] = []

        async def write(content: Any) -> None:
            await asyncio.sleep(0)
            written.append(content)

        manager.register_common(Writer() if is_async else SyncWriter())
        context = ToolContext(append_output=write if is_async_host else written.append)
        assert await manager.execute_tool("echo", {}, context) == "done"
        assert written == [0, 1, 2, 3, 4]

    async def test_output_without_a_function_is_dropped(self, manager):
        class Writer(Echo):
            async def execute(self, args: Any, context: ToolContext) -> str:
                await context.append_output("x")
                return "done"

        manager.register_common(Writer())
        assert await manager.execute_tool("echo", {}, ToolContext()) == "done"

    async def test_what_the_function_raises_is_raised(self, manager):
        def write(content: Any) -> None:
            raise RuntimeError("the page is closed")

        class Writer(Echo):
            async def execute(self, args: Any, context: ToolContext) -> str:
                await context.append_output("x")
                return "done"

        manager.register_common(Writer())
        with pytest.raises(RuntimeError, match="the page is closed"):
            await manager.execute_tool("echo", {}, ToolContext(append_output=write))

    # abortSignal

    @pytest.mark.parametrize("kind", ["asyncio", "threading", "aborted"])
    async def test_the_signal_cancels_a_call(self, manager, kind):
        signal, abort = make_signal(kind)
        ended: list[str] = []

        class Slow(Echo):
            async def execute(self, args: Any, context: ToolContext) -> str:
                abort()
                try:
                    await asyncio.sleep(60)
                finally:
                    ended.append("yes")
                return "done"

        manager.register_common(Slow())
        text = await manager.execute_tool("echo", {}, ToolContext(abort_signal=signal))
        assert text == "Error executing tool: The call of 'echo' was cancelled."
        assert ended == ["yes"]

    @pytest.mark.parametrize("kind", ["asyncio", "threading", "aborted"])
    async def test_after_the_signal_no_call_begins(self, manager, kind):
        signal, abort = make_signal(kind)
        echo = Echo()
        manager.register_common(echo)
        abort()
        text = await manager.execute_tool("echo", {}, ToolContext(abort_signal=signal))
        assert text == "Error executing tool: The call of 'echo' was cancelled."
        assert echo.contexts == []

    async def test_the_cancellation_of_the_caller_passes(self, manager):
        started = asyncio.Event()

        class Slow(Echo):
            async def execute(self, args: Any, context: ToolContext) -> str:
                started.set()
                await asyncio.sleep(60)
                return "done"

        manager.register_common(Slow())
        for signal in (None, asyncio.Event()):
            started.clear()
            call = asyncio.ensure_future(manager.execute_tool("echo", {}, ToolContext(abort_signal=signal)))
            await started.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    async def test_another_signal_is_an_error(self, manager):
        with pytest.raises(ToolkitError, match="Event"):
            await manager.execute_tool("system_info", {}, ToolContext(abort_signal="now"))

    # signalTermination

    async def test_the_end_of_the_session_is_signalled_once(self, manager):
        signalled: list[str] = []
        context = ToolContext(signal_termination=lambda: signalled.append("end"))
        await manager.execute_tool("system_info", {}, context, True)
        assert signalled == []
        text = await manager.execute_tool("task_finish", {"context_summary": "Done."}, context, True)
        assert text == "Task Finished. Report submitted."
        assert signalled == ["end"]

    async def test_a_tool_of_the_host_can_end_the_session(self, manager):
        class Finish(Echo):
            async def execute(self, args: Any, context: ToolContext) -> str:
                context.signalTermination()
                return "bye"

        signalled: list[str] = []
        manager.register_main(Finish())
        context = ToolContext(signal_termination=lambda: signalled.append("end"))
        assert await manager.execute_tool("echo", {}, context) == "bye"
        assert signalled == ["end"]


def make_signal(kind: str) -> tuple[Any, Callable[[], None]]:
    """Return a signal and the function that gives it."""
    if kind == "aborted":
        signal = type("AbortSignal", (), {"aborted": False})()
        return signal, lambda: setattr(signal, "aborted", True)
    event = asyncio.Event() if kind == "asyncio" else threading.Event()
    return event, event.set


# Examples


async def test_the_example_of_an_agent_runner_in_python(folder, context):
    is_sub_agent = False
    tools = ToolManager(folder)
    tool_definitions = tools.getToolsDefinitions(is_sub_agent)
    result = await tools.executeTool("read_file", {"uri": "src/index.ts"}, context, is_sub_agent)
    assert "read_file" in names(tool_definitions)
    assert result == "export const tea = 1;\n"


@needs_specification
async def test_the_example_of_a_definition(manager, context):
    block = next(block for block in blocks() if block.startswith("export const readFileTool"))
    literal = re.search(r"definition: (\{.*?\n    \}),\n    execute", block, flags=re.DOTALL)
    assert literal is not None
    definition = json.loads(re.sub(r"(\w+):", r'"\1":', literal[1]).replace("'", '"'))

    class ReadFile(Echo):
        async def execute(self, args: Any, context: ToolContext) -> str:
            return f"read {args['uri']}"

    read_file = ReadFile("read_file")
    read_file.definition = definition
    own = manager.get_tools_definitions(False)[0]["function"]
    assert definition["function"]["parameters"]["required"] == own["parameters"]["required"] == ["uri"]
    manager.register_common(read_file)
    assert manager.get_tools_definitions(False)[0] is definition
    assert await manager.execute_tool("read_file", {"uri": "a"}, context) == "read a"
    assert "'uri' is missing" in await manager.execute_tool("read_file", {}, context)


# Permissions


class TestPermissions:
    def test_only_sub_agents_have_task_finish(self, manager):
        main, sub = (set(names(manager.get_tools_definitions(is_sub))) for is_sub in (False, True))
        assert sub - main == {"task_finish"}

    def test_sub_agents_have_all_other_tools_of_main_agents(self, manager):
        main, sub = (set(names(manager.get_tools_definitions(is_sub))) for is_sub in (False, True))
        assert main - sub == set()

    def test_both_kinds_of_agents_can_get_further_tools(self, manager):
        manager.register_main(Echo("m"))
        manager.register_sub(Echo("s"))
        assert names(manager.get_tools_definitions(False))[-1] == "m"
        assert names(manager.get_tools_definitions(True))[-1] == "s"

    def test_the_audiences_of_the_toolkit_are_the_kinds_of_agents(self, manager):
        manager.register_main(Echo("m"))
        for audience, is_sub in (("main", False), ("sub", True)):
            toolkit = manager.toolkit.select(audience=audience)
            assert {tool.name for tool in toolkit} == set(names(manager.get_tools_definitions(is_sub)))
