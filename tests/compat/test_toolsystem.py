"""The tool system, by the sections of its requirements: one test for each statement."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import re
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastmcp import FastMCP
from pydantic import BaseModel
from starlette.middleware import Middleware

pytest.importorskip("langchain_core", reason='needs LangChain: pip install "ahvn-tools[langchain]"')

from langchain_core.tools import BaseTool

from ahvn_tools import Toolkit
from ahvn_tools.compat import toolsystem
from ahvn_tools.compat.toolsystem import (
    BuiltinTool,
    IConfigLoader,
    IConfigSystem,
    ILLMClient,
    ILogger,
    IMetricsCollector,
    IToolExecutor,
    IToolFormatter,
    IToolManager,
    MCPTool,
    NativeTool,
    ToolExecutor,
    ToolFormatter,
    ToolManager,
    ToolMessage,
    tool,
)
from ahvn_tools.errors import DefinitionError, ToolCallError, ToolLookupError, ToolSpecError
from tests.compat import tool_service
from tests.compat.tool_files import forgotten_modules, write
from tests.compat.tool_service import KEY, LOCAL, WEATHER
from tests.mcp.loopback import over_http

__all__ = ["forgotten_modules"]

REQUIREMENTS = Path(__file__).parents[2].parent / "shared" / "seeds" / "002-tool-system-requirements.md"

SEARCH = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


@tool
def calculate(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


@tool
def fail(text: str) -> str:
    """Fail."""
    raise RuntimeError(text)


@tool
def echo(value: Any) -> Any:
    """Return the value."""
    return value


@tool
def slow(seconds: float) -> str:
    """Sleep."""
    time.sleep(seconds)
    return "awake"


@tool
async def slow_too(seconds: float) -> str:
    """Sleep in an event loop."""
    await asyncio.sleep(seconds)
    return "awake"


class Model:
    """A model that has function calling, or not."""

    def __init__(self, *, is_native: bool) -> None:
        self.is_native = is_native

    def supports_function_calling(self) -> bool:
        return self.is_native


class Lines:
    """A logger."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, message: str) -> None:
        self.lines.append(message)


class Collector:
    """Metrics."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, bool, float, str | None]] = []

    def record_tool_metric(self, tool: str, success: bool, duration: float, error_type: str | None = None) -> None:
        self.calls.append((tool, success, duration, error_type))


@pytest.fixture
def service():
    with tool_service.running() as running:
        yield running


@pytest.fixture
def guarded_service(monkeypatch):
    monkeypatch.setenv("TOOL_KEY", KEY)
    with tool_service.running(needs_key=True) as running:
        yield running


def builtin(*names: str, result: str = "") -> str:
    """Return a file with tools of these names."""
    functions = [
        f'@tool\ndef {name}() -> str:\n    """Do {name}."""\n    return {result or name!r}\n' for name in names
    ]
    return "\n\n".join(["from ahvn_tools.compat.toolsystem import tool", *functions])


def names(tools: list[BaseTool]) -> list[str]:
    return [each.name for each in tools]


def requirements(language: str) -> list[str]:
    """Return the blocks of the requirements in this language."""
    if not REQUIREMENTS.is_file():
        pytest.skip("the specification is not beside the project")
    blocks = re.findall(r"^ *```(\w*)\n(.*?)^ *```", REQUIREMENTS.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(text).strip() for found, text in blocks if found == language]


class TestKindsOfTools:  # 4.1.1
    def test_all_kinds_are_langchain_tools(self, service):
        native = NativeTool("search", "Search.", SEARCH, service.url, **LOCAL)
        mcp = MCPTool("weather", service.url, **LOCAL)
        assert [isinstance(each, BaseTool) for each in (native, mcp, calculate)] == [True] * 3
        assert [type(each) for each in (native, mcp, calculate)] == [NativeTool, MCPTool, BuiltinTool]

    def test_a_native_tool_has_a_url_and_a_way_to_authenticate(self, guarded_service):
        options = {"auth_method": "api_key", "api_key": "${TOOL_KEY}", **LOCAL}
        search = NativeTool("search", "Search.", SEARCH, f"{guarded_service.url}/search", **options)
        assert ToolExecutor().execute(search, {"query": "tea"}).output == {"path": "/search", "sent": {"query": "tea"}}
        (request,) = guarded_service.requests
        assert (request["method"], request["headers"]["Authorization"]) == ("POST", f"Bearer {KEY}")

    @pytest.mark.parametrize(
        ("auth_method", "header"), [("api_key", "Authorization"), ("api_key_header", "X-Api-Key"), ("none", None)]
    )
    def test_a_native_tool_authenticates_by_these_methods(self, monkeypatch, service, auth_method, header):
        monkeypatch.setenv("TOOL_KEY", KEY)
        options = {} if header is None else {"api_key": "${TOOL_KEY}"}
        search = NativeTool("search", "", SEARCH, service.url, auth_method=auth_method, **options, **LOCAL)
        ToolExecutor().execute(search, {"query": "tea"})
        headers = service.requests[0]["headers"]
        assert [name for name, value in headers.items() if KEY in value] == ([] if header is None else [header])

    def test_an_mcp_tool_gets_its_schema_from_its_server(self, service):
        weather = MCPTool("weather", service.url, **LOCAL)
        assert (weather.name, weather.description) == ("weather", WEATHER["description"])
        assert list(weather.args) == ["city", "days"]
        assert [(request["method"], request["path"]) for request in service.requests] == [
            ("GET", "/tools/weather/schema")
        ]

    def test_an_mcp_tool_is_called_at_the_endpoint_execute(self, service):
        weather = MCPTool("weather", service.url, **LOCAL)
        message = ToolExecutor().execute(weather, {"city": "Oslo"})
        assert message.output == {"path": "/tools/weather/execute", "sent": {"city": "Oslo"}}
        assert service.requests[-1]["method"] == "POST"

    def test_a_server_without_the_schema_is_an_error_of_the_constructor(self, service):
        with pytest.raises(ToolCallError, match="404"):
            MCPTool("unknown", service.url, **LOCAL)
        with pytest.raises(ToolCallError, match="does not fit its output schema"):
            MCPTool("broken", service.url, **LOCAL)

    def test_a_builtin_tool_is_a_function_with_the_decorator(self):
        assert isinstance(calculate, BuiltinTool)
        assert calculate.invoke({"a": 1, "b": 2}) == "3"
        assert calculate.spec(1, 2) == 3

    def test_the_decorator_takes_options(self):
        @tool(name="total", description="Total.", tags={"math"})
        def calculate(a: int, b: int) -> int:
            return a + b

        assert (calculate.name, calculate.description, calculate.tags) == ("total", "Total.", ["math"])

    def test_every_tool_has_a_name_a_description_and_parameters_with_types(self):
        assert (calculate.name, calculate.description) == ("calculate", "Add two whole numbers.")
        assert calculate.args == {"a": {"type": "integer"}, "b": {"type": "integer"}}
        assert calculate.args_schema["required"] == ["a", "b"]

    def test_parameters_may_be_a_pydantic_model(self, service):
        class Search(BaseModel):
            query: str
            limit: int = 5

        search = NativeTool("search", "Search.", Search, service.url, **LOCAL)
        assert search.args_schema["required"] == ["query"]
        assert ToolExecutor().execute(search, {"query": "tea", "limit": "x"}).error == "invalid_parameters"


class TestLoading:  # 4.1.2
    @pytest.fixture
    def project(self, tmp_path, service):
        return write(
            tmp_path,
            {
                "tools/native/search.yaml": f"name: search\ndescription: Search.\napi_url: {service.url}/search\n"
                'allow_private: ["127.0.0.1"]\ninput_schema: {type: object, properties: {query: {type: string}}}\n',
                "tools/builtin/calc.py": builtin("calculate"),
                "tools/mcp/weather.py": "from ahvn_tools.compat.toolsystem import MCPTool\n"
                f'weather = MCPTool("weather", "{service.url}/mcp", allow_private=["127.0.0.1"])\n',
            },
        )

    def test_tools_are_found_in_three_folders_without_registration(self, project):
        tools = ToolManager(project).load_tools()
        assert names(tools) == ["search", "calculate", "weather"]
        assert all(isinstance(each, BaseTool) for each in tools)

    def test_tools_from_all_folders_run(self, project, service):
        manager, executor = ToolManager(str(project)), ToolExecutor()
        assert executor.execute(manager.get_tool("search"), {"query": "tea"}).output["path"] == "/search"
        assert executor.execute(manager.get_tool("calculate"), {}).output == "calculate"
        outputs = executor.execute(manager.get_tool("weather"), {"city": "Oslo"}).output
        assert outputs == {"path": "/mcp/tools/weather/execute", "sent": {"city": "Oslo"}}

    def test_other_folders_are_not_read(self, project):
        write(project, {"tools/other/stop.py": "raise SystemExit", "main.py": "raise SystemExit"})
        assert len(ToolManager(project).load_tools()) == 3

    def test_folders_may_be_missing_or_empty(self, tmp_path):
        assert ToolManager(tmp_path).load_tools() == []
        write(tmp_path, {"tools/builtin/README.md": "Here are tools."})
        assert ToolManager(tmp_path).load_tools() == []

    def test_files_are_read_in_the_order_of_their_names(self, tmp_path):
        write(tmp_path, {f"tools/builtin/{name}.py": builtin(name) for name in ("c", "a", "b")})
        assert names(ToolManager(tmp_path).load_tools()) == ["a", "b", "c"]

    def test_a_definition_in_yaml_names_a_function(self, tmp_path):
        write(
            tmp_path,
            {
                "tools/builtin/total.yaml": "name: total\nfunction_path: sums.py:add\ndescription: Add.\n",
                "tools/builtin/sums.py": "def add(a: int, b: int) -> int:\n    return a + b\n",
            },
        )
        total = ToolManager(tmp_path).get_tool("total")
        assert ToolExecutor().execute(total, {"a": 1, "b": 2}).output == 3

    def test_a_definition_in_tools_mcp_is_a_server_of_the_model_context_protocol(self, tmp_path):
        server = FastMCP("clock")

        @server.tool
        def now(zone: str) -> str:
            """Return the time."""
            return f"noon in {zone}"

        with over_http(server) as url:
            write(tmp_path, {"tools/mcp/clock.yaml": f"mcp_server_url: {url}\n"})
            manager = ToolManager(tmp_path)
            assert names(manager.load_tools()) == ["now"]
            assert ToolExecutor().execute(manager.get_tool("now"), {"zone": "Oslo"}).output == "noon in Oslo"
            manager.toolkit.remove_mcp("clock")

    def test_a_definition_in_tools_mcp_may_be_a_request_to_execute(self, tmp_path, service):
        url = f"{service.url}/tools/weather/execute"
        text = f"kind: http\nname: weather\nmethod: POST\napi_url: {url}\nallow_private: ['127.0.0.1']\n"
        write(tmp_path, {"tools/mcp/weather.yaml": text + "input_schema: {properties: {city: {type: string}}}\n"})
        weather = ToolManager(tmp_path).get_tool("weather")
        output = {"path": "/tools/weather/execute", "sent": {"city": "Oslo"}}
        assert ToolExecutor().execute(weather, {"city": "Oslo"}).output == output

    def test_an_unknown_tool_is_an_error(self, project):
        with pytest.raises(ToolLookupError, match=r"no tool 'calclate' here. Did you mean 'calculate'"):
            ToolManager(project).get_tool("calclate")

    def test_a_duplicate_is_a_warning_and_the_first_one_is_kept(self, tmp_path, caplog):
        write(tmp_path, {"tools/builtin/a.py": builtin("one"), "tools/builtin/b.py": builtin("one", result="'b'")})
        manager = ToolManager(tmp_path)
        assert names(manager.load_tools()) == ["one"]
        assert ToolExecutor().execute(manager.get_tool("one"), {}).output == "one"
        assert [record.levelname for record in caplog.records if "'one'" in record.getMessage()] == ["WARNING"]

    def test_values_come_from_the_environment(self, tmp_path, guarded_service):
        write(
            tmp_path,
            {
                "tools/native/search.yaml": f"name: search\napi_url: {guarded_service.url}/${{PLACE:search}}\n"
                'allow_private: ["127.0.0.1"]\nauth_method: api_key\napi_key: ${TOOL_KEY}\n',
            },
        )
        search = ToolManager(tmp_path).get_tool("search")
        assert ToolExecutor().execute(search, {}).output["path"] == "/search"
        assert KEY not in repr((search, search.spec, search.args_schema))

    def test_trust_limits_what_may_run(self, tmp_path):
        write(tmp_path, {"tools/builtin/a.py": builtin("a"), "tools/builtin/b.py": builtin("b")})
        manager = ToolManager(tmp_path, trust=[tmp_path / "tools/builtin/b.py"])
        assert names(manager.load_tools()) == ["b"]
        assert "not trusted" in str(manager.toolkit.load_errors[0])


class TestToolSets:  # 4.2
    @pytest.fixture
    def project(self, tmp_path):
        return write(
            tmp_path,
            {
                "tools/builtin/all.py": builtin("plot_tool", "search_tool", "excel_tool", "sql_tool"),
                "configs/tool_sets/data.yaml": "name: data_analysis_set\ndescription: 数据分析工具集\n"
                "tools: [sql_tool, excel_tool, plot_tool]\n",
            },
        )

    def test_a_tool_set_combines_tools_in_its_order(self, project):
        tools = ToolManager(project).get_tool_set("data_analysis_set")
        assert names(tools) == ["sql_tool", "excel_tool", "plot_tool"]

    def test_the_example_of_a_tool_set_works_as_it_stands(self, project):
        text = requirements("yaml")[0]
        write(project, {"configs/tool_sets/data.yaml": text})
        manager = ToolManager(project)
        assert names(manager.get_tool_set("data_analysis_set")) == ["sql_tool", "excel_tool", "plot_tool"]
        assert manager.toolkit.toolset("data_analysis_set").description == "数据分析工具集"

    def test_the_folder_may_have_a_hyphen(self, project):
        write(project, {"configs/tool-sets/two.yaml": "name: two\ntools: [plot_tool]\n"})
        assert names(ToolManager(project).get_tool_set("two")) == ["plot_tool"]

    def test_an_agent_has_the_union_of_its_tools_and_its_tool_sets(self, project):
        agent = {"tools": ["search_tool", "plot_tool"], "tool_sets": ["data_analysis_set"], "model": "any"}
        tools = ToolManager(project).get_agent_tools(agent)
        assert names(tools) == ["search_tool", "plot_tool", "sql_tool", "excel_tool"]

    @pytest.mark.parametrize(
        ("agent", "expected"),
        [
            ({"tools": ["sql_tool"]}, ["sql_tool"]),
            ({"tools": ["sql_tol", "sql_tool"]}, ["sql_tool"]),
            ({"tool_sets": ["data_analysis_set"], "tools": None}, ["sql_tool", "excel_tool", "plot_tool"]),
            ({}, []),
        ],
        ids=["tools", "an unknown tool", "tool sets", "nothing"],
    )
    def test_an_agent_has_the_tools_that_exist(self, project, agent, expected):
        assert names(ToolManager(project).get_agent_tools(agent)) == expected

    def test_an_unknown_tool_set_is_an_error(self, project):
        with pytest.raises(ToolLookupError, match="data_set"):
            ToolManager(project).get_tool_set("data_set")

    def test_unknown_names_in_the_lists_of_an_agent_are_warnings_with_the_near_miss(self, project, caplog):
        manager = ToolManager(project)
        agent = {"tools": ["sql_tol", "sql_tool"], "tool_sets": ["data_analysis", "data_analysis_set"]}
        assert names(manager.get_agent_tools(agent)) == ["sql_tool", "excel_tool", "plot_tool"]
        assert [record.getMessage() for record in caplog.records] == [
            "The agent: there is no tool 'sql_tol'. Did you mean 'sql_tool'?",
            "The agent: there is no tool set 'data_analysis'. Did you mean 'data_analysis_set'?",
        ]

    def test_a_list_of_one_name_may_be_that_name(self, project):
        agent = {"tools": "plot_tool", "tool_sets": "data_analysis_set"}
        assert names(ToolManager(project).get_agent_tools(agent)) == ["plot_tool", "sql_tool", "excel_tool"]

    def test_an_unknown_tool_in_a_tool_set_is_a_warning_and_left_out(self, project, caplog):
        write(project, {"configs/tool_sets/two.yaml": "name: two\ntools: [plot_tol, sql_tool]\n"})
        assert names(ToolManager(project).get_tool_set("two")) == ["sql_tool"]
        assert "Did you mean 'plot_tool'" in caplog.text


class TestOutputStrategy:  # 4.3.1
    @pytest.mark.parametrize(
        ("is_native", "options", "expected"),
        [
            (True, {}, "function_calling"),
            (False, {}, "structured_output"),
            (True, {"function_calling": False}, "structured_output"),
            (True, {"fallback_to_structured_output": False}, "function_calling"),
        ],
        ids=["native", "fallback", "structured output chosen", "no fallback needed"],
    )
    def test_the_strategy_is_detected_before_a_call(self, is_native, options, expected):
        assert ToolFormatter(**options).detect_strategy(Model(is_native=is_native)) == expected

    def test_the_example_of_an_agent_works_as_it_stands(self):
        agent = yaml.safe_load(requirements("yaml")[1])
        formatter = ToolFormatter(**agent["output_strategy"])
        strategies = [formatter.detect_strategy(Model(is_native=is_native)) for is_native in (True, False)]
        assert strategies == ["function_calling", "structured_output"]

    def test_without_fallback_it_is_an_error(self):
        formatter = ToolFormatter(function_calling=True, fallback_to_structured_output=False)
        with pytest.raises(ToolSpecError, match="no function calling, and the fallback is disabled"):
            formatter.detect_strategy(Model(is_native=False))

    def test_an_unknown_option_is_an_error(self):
        with pytest.raises(TypeError, match="fallback"):
            ToolFormatter(fallback=True).detect_strategy(Model(is_native=True))


class TestFormats:  # 4.3.2
    def test_a_native_call_has_the_field_function_call_of_openai(self):
        message = ToolFormatter().format(calculate, {"a": 1, "b": 2})
        assert message["function_call"]["name"] == "calculate"
        assert json.loads(message["function_call"]["arguments"]) == {"a": 1, "b": 2}

    def test_another_model_has_its_own_format(self):
        message = ToolFormatter(native="anthropic").format(calculate, {"a": 1, "b": 2})
        (block,) = message["content"]
        assert (block["type"], block["name"], block["input"]) == ("tool_use", "calculate", {"a": 1, "b": 2})

    def test_the_prompt_has_the_template_and_the_schemas(self):
        prompt = ToolFormatter().format_prompt([calculate, slow])
        assert prompt.endswith(requirements("")[0])
        for each in (calculate, slow):
            assert each.description in prompt
            assert json.dumps(each.args_schema, separators=(",", ":")) in prompt

    def test_without_tools_there_is_no_prompt(self):
        assert ToolFormatter().format_prompt(ToolManager("nowhere").load_tools()) == ""

    def test_the_template_is_complete_without_the_requirements(self):
        lines = ToolFormatter().format_prompt([calculate]).split("请按以下格式调用工具：")[1]
        assert json.loads(lines) == {"name": "工具名", "parameters": {"参数1": "值1", "参数2": "值2"}}

    def test_an_answer_in_the_form_of_the_prompt_is_run(self):
        answer = '好的：\n```json\n{"name": "calculate", "parameters": {"a": 1, "b": 2}}\n```'
        run = Toolkit("tools").add(calculate).run(answer, format="prompt")
        assert [result.value for _, result in run.results] == [3]

    def test_a_native_answer_is_run(self):
        answer = ToolFormatter().format(calculate, {"a": 1, "b": 2})
        run = Toolkit("tools").add(calculate).run(answer, format="openai")
        assert run.messages == [{"role": "function", "name": "calculate", "content": "3"}]


class TestExecution:  # 4.4
    async def test_all_kinds_run_from_async_code(self, service):
        executor, native = ToolExecutor(), NativeTool("search", "Search.", SEARCH, service.url, **LOCAL)
        mcp = await asyncio.to_thread(MCPTool, "weather", service.url, **LOCAL)
        messages = await asyncio.gather(
            executor.async_execute(native, {"query": "tea"}),
            executor.async_execute(mcp, {"city": "Oslo"}),
            executor.async_execute(calculate, {"a": 1, "b": 2}),
            executor.async_execute(slow_too, {"seconds": 0}),
        )
        assert [message.error for message in messages] == [None] * 4
        assert [messages[0].output["sent"], messages[1].output["sent"]] == [{"query": "tea"}, {"city": "Oslo"}]
        assert [message.output for message in messages[2:]] == [3, "awake"]

    def test_calls_run_at_once(self):
        together = threading.Barrier(3, timeout=30)

        @tool
        def meet(number: int) -> int:
            """Wait for the others."""
            together.wait()
            return number

        messages = ToolExecutor(parallel=True).execute_parallel([(meet, {"number": number}) for number in range(3)])
        assert [message.output for message in messages] == [0, 1, 2]

    def test_without_parallel_they_run_one_after_the_other(self):
        running, most = 0, 0

        @tool
        def count(number: int) -> int:
            """Count how many run."""
            nonlocal running, most
            running += 1
            most = max(most, running)
            time.sleep(0.005)
            running -= 1
            return number

        messages = ToolExecutor(parallel=False).execute_parallel([(count, {"number": number}) for number in range(4)])
        assert ([message.output for message in messages], most) == ([0, 1, 2, 3], 1)

    def test_results_of_different_tools_are_in_the_order_of_the_calls(self):
        calls = [
            (slow, {"seconds": 0.05}),
            (calculate, {"a": 1, "b": 2}),
            (fail, {"text": "x"}),
            (slow_too, {"seconds": 0}),
        ]
        messages = ToolExecutor().execute_parallel(calls)
        assert [message.tool_name for message in messages] == ["slow", "calculate", "fail", "slow_too"]
        assert [message.output for message in messages] == ["awake", 3, None, "awake"]

    def test_a_result_is_a_message_with_tool_output_and_error(self):
        message = ToolMessage("search", {"hits": 3}, None)
        assert (message.tool_name, message.output, message.error) == ("search", {"hits": 3}, None)

    def test_any_langchain_tool_can_be_executed(self):
        class Upper(BaseTool):
            name: str = "upper"
            description: str = "Capitals."

            def _run(self, text: str) -> str:
                return text.upper()

        executor = ToolExecutor()
        assert executor.execute(Upper(), {"text": "tea"}).output == "TEA"
        assert executor.execute(Upper(), {"txt": "tea"}).error == "invalid_parameters"


class TestSafety:  # 4.5
    @pytest.mark.parametrize(
        "parameters",
        [{"a": "x", "b": 2}, {"a": 1}, {}, {"a": 1, "b": 2, "c": 3}, {"a": None, "b": 2}, None, "a", [1, 2]],
        ids=["type", "missing", "nothing", "unknown", "null", "None", "text", "list"],
    )
    @pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
    def test_invalid_parameters_are_an_error_before_the_call(self, parameters, is_async):
        executor = ToolExecutor()
        message = (
            asyncio.run(executor.async_execute(calculate, parameters))
            if is_async
            else executor.execute(calculate, parameters)
        )
        assert (message.error, message.output) == ("invalid_parameters", None)
        assert message.text.startswith("Invalid arguments: ")

    @pytest.mark.parametrize("sleeper", [slow, slow_too], ids=["sync", "async"])
    def test_a_call_that_takes_too_long_is_an_error(self, sleeper):
        executor = ToolExecutor(timeout=0.05)
        messages = [
            executor.execute(sleeper, {"seconds": 0.2}),
            asyncio.run(executor.async_execute(sleeper, {"seconds": 0.2})),
            *executor.execute_parallel([(sleeper, {"seconds": 0.2})]),
        ]
        assert [(message.error, message.output) for message in messages] == [("timeout", None)] * 3
        assert "did not finish within 0.05 seconds" in messages[0].text

    def test_a_call_may_take_30_seconds(self):
        (guarded,) = ToolExecutor().guard(calculate)
        assert guarded.spec.timeout == 30

    def test_a_definition_may_have_a_shorter_limit(self, tmp_path):
        write(
            tmp_path,
            {
                "tools/builtin/wait.yaml": "function: waiting.py:wait\ntimeout: 50ms\n",
                "tools/builtin/waiting.py": "import time\ndef wait() -> None:\n    time.sleep(0.2)\n",
                "tools/builtin/last.yaml": "function: waiting.py:wait\ntimeout: 30s\n",
            },
        )
        manager = ToolManager(tmp_path)
        assert ToolExecutor().execute(manager.get_tool("wait"), {}).error == "timeout"
        assert manager.get_tool("last").spec.timeout == 30

    def test_the_key_of_an_mcp_tool_is_sent_in_a_header(self, guarded_service):
        weather = MCPTool("weather", guarded_service.url, mcp_api_key="${TOOL_KEY}", **LOCAL)
        assert ToolExecutor().execute(weather, {"city": "Oslo"}).error is None
        assert [request["headers"]["Authorization"] for request in guarded_service.requests] == [f"Bearer {KEY}"] * 2

    def test_a_missing_permission_is_an_error_that_says_so(self, guarded_service, monkeypatch):
        with pytest.raises(ToolCallError, match="403"):
            MCPTool("weather", guarded_service.url, **LOCAL)
        weather = MCPTool("weather", guarded_service.url, mcp_api_key="${TOOL_KEY}", **LOCAL)
        monkeypatch.setenv("TOOL_KEY", "another-key-1")
        message = ToolExecutor().execute(weather, {"city": "Oslo"})
        assert message.error == "tool_error"
        assert "403" in message.text

    def test_no_key_is_in_a_schema_a_text_or_a_repr(self, guarded_service):
        weather = MCPTool("weather", guarded_service.url, mcp_api_key="${TOOL_KEY}", **LOCAL)
        assert KEY not in repr((weather, weather.spec, weather.model_dump(), weather.args_schema))

    def test_a_key_is_never_a_plain_text(self, service):
        with pytest.raises(DefinitionError, match="environment variable"):
            MCPTool("weather", service.url, mcp_api_key="k-plain", **LOCAL)

    def test_the_key_of_a_definition_is_sent_to_a_server_of_the_model_context_protocol(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TOOL_KEY", KEY)
        sent = []

        class Headers:
            def __init__(self, app):
                self.app = app

            async def __call__(self, scope, receive, send):
                sent.append(dict(scope.get("headers") or ()).get(b"authorization"))
                await self.app(scope, receive, send)

        server = FastMCP("clock")
        server.tool(lambda: "noon", name="now")
        with over_http(server, middleware=[Middleware(Headers)]) as url:
            write(tmp_path, {"tools/mcp/clock.yaml": f"mcp_server_url: {url}\nmcp_api_key: ${{TOOL_KEY}}\n"})
            manager = ToolManager(tmp_path)
            assert names(manager.load_tools()) == ["now"]
            manager.toolkit.remove_mcp("clock")
        assert f"Bearer {KEY}".encode() in sent


class TestQualities:  # 5
    def test_a_new_tool_needs_only_its_file(self, tmp_path):
        write(
            tmp_path,
            {
                "tools/builtin/upper.py": "from langchain_core.tools import BaseTool\n\n\nclass Upper(BaseTool):\n"
                '    name: str = "upper"\n    description: str = "Capitals."\n\n'
                "    def _run(self, text: str) -> str:\n        return text.upper()\n",
            },
        )
        upper = ToolManager(tmp_path).get_tool("upper")
        assert ToolExecutor().execute(upper, {"text": "tea"}).output == "TEA"

    def test_a_new_class_of_a_native_tool_needs_only_its_file(self, tmp_path, service):
        write(
            tmp_path,
            {
                "tools/native/search.py": "from ahvn_tools.compat.toolsystem import NativeTool\n\n\n"
                f"SCHEMA = {SEARCH}\n\n\nclass SearchTool(NativeTool):\n    def __init__(self):\n"
                f'        super().__init__("search", "Search.", SCHEMA, "{service.url}/search", allow_private=True)\n',
            },
        )
        search = ToolManager(tmp_path).get_tool("search")
        assert ToolExecutor().execute(search, {"query": "tea"}).output["sent"] == {"query": "tea"}

    def test_a_failure_is_a_message_and_no_exception(self):
        messages = [
            ToolExecutor().execute(fail, {"text": "x"}),
            *ToolExecutor().execute_parallel([(fail, {"text": "x"})]),
        ]
        assert [(message.error, message.text) for message in messages] == [("tool_error", "RuntimeError: x")] * 2

    def test_the_text_of_an_exception_is_in_the_message_and_in_the_log(self):
        logger = Lines()
        message = ToolExecutor(logger=logger).execute(fail, {"text": "disk full"})
        assert message.text == "RuntimeError: disk full"
        assert logger.lines[0].endswith(": RuntimeError: disk full")

    def test_no_bound_value_is_in_the_text_of_an_exception(self):
        @tool(binds={"account": "account"})
        def pay(account: str, amount: int) -> None:
            """Pay."""
            raise LookupError(f"no account {account}")

        pay.spec.bind("account", default="DE-123456")
        logger = Lines()
        message = ToolExecutor(logger=logger).execute(pay, {"amount": 1})
        assert message.text == "LookupError: no account <account>"
        assert "DE-123456" not in logger.lines[0]

    def test_a_logger_that_fails_costs_no_result(self, caplog):
        class Broken:
            def info(self, message: str) -> None:
                raise OSError("disk full")

        executor = ToolExecutor(logger=Broken())
        assert executor.execute(calculate, {"a": 1, "b": 2}) == ToolMessage("calculate", 3, None, "3")
        assert executor.execute_parallel([(calculate, {"a": 1, "b": 2})])[0].output == 3
        assert "disk full" in caplog.text

    def test_parameters_result_and_duration_are_logged_as_info(self):
        logger = Lines()
        ToolExecutor(logger=logger).execute(calculate, {"a": 1, "b": 2})
        assert re.fullmatch(r'calculate \{"a": 1, "b": 2\} -> ok in 0\.\d+ s: 3', logger.lines[0])

    def test_without_a_logger_the_standard_one_gets_the_lines(self, caplog):
        caplog.set_level(logging.INFO, "ahvn_tools.calls")
        asyncio.run(ToolExecutor().async_execute(calculate, {"a": 1}))
        (record,) = [record for record in caplog.records if record.name == "ahvn_tools.calls"]
        assert record.levelname == "INFO"
        assert 'calculate {"a": 1} -> invalid_parameters in ' in record.getMessage()

    def test_a_logger_of_the_standard_library_is_one(self, caplog):
        caplog.set_level(logging.INFO, "mine")
        ToolExecutor(logger=logging.getLogger("mine")).execute(calculate, {"a": 1, "b": 2})
        assert [record.name for record in caplog.records] == ["mine"]

    def test_no_secret_is_logged(self):
        @tool
        def sign_in(user: str, password: str) -> str:
            """Sign in."""
            return f"{user} has {password}"

        logger = Lines()
        ToolExecutor(logger=logger).execute(sign_in, {"user": "ann", "password": "open sesame"})
        assert "sesame" not in logger.lines[0]
        assert '"password": "***"' in logger.lines[0]

    @pytest.mark.parametrize(
        "secret",
        [
            "sk-1234567890abcdef",
            "sk-proj-a_B-1",
            "ann@example.com",
            "ann.b+c@mail.example.co",
            "13812345678",
            13812345678,
        ],
        ids=["key", "key of a project", "address", "long address", "telephone number", "number"],
    )
    def test_no_key_address_or_telephone_number_is_logged(self, secret):
        logger = Lines()
        executor = ToolExecutor(logger=logger)
        executor.execute(echo, {"value": secret})
        executor.execute(echo, {"value": {"texts": [f"to:\n{secret}, please"]}})
        executor.execute(fail, {"text": f"no {secret}"})
        executor.execute(BuiltinTool(fail.spec.function, timeout=5), {"text": f"no {secret}"})
        assert str(secret) not in "".join(logger.lines)
        assert logger.lines[1].endswith(': {"texts": ["to:\\n***, please"]}')
        assert logger.lines[2].endswith(": RuntimeError: no ***")

    @pytest.mark.parametrize(
        "value", ["task-force", "1381234567", "a @ b", "ann@host", "913812345678", "138123456789", 1700000000.5]
    )
    def test_what_only_looks_like_one_is_logged(self, value):
        logger = Lines()
        ToolExecutor(logger=logger).execute(echo, {"value": value})
        assert logger.lines[0].count(str(value)) == 2

    def test_the_host_says_what_else_is_secret(self):
        logger = Lines()
        executor = ToolExecutor(logger=logger, secret_patterns=[r"order-\d+"])
        executor.execute(echo, {"value": "order-12 of ann@example.com"})
        assert logger.lines[0].endswith(": *** of ***")

    def test_a_secret_pattern_that_is_none_is_an_error_of_the_constructor(self):
        with pytest.raises(ToolSpecError, match="no regular expression"):
            ToolExecutor(secret_patterns=["("])


class TestNeighbours:  # 6
    def test_duration_and_success_are_measured(self):
        metrics = Collector()
        executor = ToolExecutor(metrics=metrics, timeout=0.1)
        executor.execute(calculate, {"a": 1, "b": 2})
        executor.execute(calculate, {"a": 1})
        executor.execute(fail, {"text": "x"})
        executor.execute_parallel([(slow, {"seconds": 0.2}), (calculate, {"a": 1, "b": 2})])
        assert sorted((name, success, error or "") for name, success, _, error in metrics.calls) == [
            ("calculate", False, "invalid_parameters"),
            ("calculate", True, ""),
            ("calculate", True, ""),
            ("fail", False, "tool_error"),
            ("slow", False, "timeout"),
        ]
        assert all(0 <= duration < 60 for _, _, duration, _ in metrics.calls)

    def test_metrics_that_fail_cost_no_result(self, caplog):
        class Broken:
            def record_tool_metric(self, *arguments: Any) -> None:
                raise OSError("disk full")

        assert ToolExecutor(metrics=Broken()).execute(calculate, {"a": 1, "b": 2}).output == 3
        assert "disk full" in caplog.text

    def test_the_configuration_of_an_agent_comes_from_the_config_system(self, tmp_path):
        class Configs:
            def load_agent_config(self, name: str) -> dict[str, Any]:
                return {"name": name, "tools": ["b"]}

        configs: IConfigSystem = Configs()
        write(tmp_path, {"tools/builtin/all.py": builtin("a", "b")})
        assert names(ToolManager(tmp_path).get_agent_tools(configs.load_agent_config("writer"))) == ["b"]

    def test_the_model_says_whether_it_has_function_calling(self):
        class Silent:
            pass

        with pytest.raises(ToolSpecError, match=r"supports_function_calling\(\)"):
            ToolFormatter().detect_strategy(Silent())


class TestInterfaces:  # 7
    @pytest.mark.parametrize(
        ("interface", "implementation"),
        [
            (IToolManager, ToolManager),
            (IToolFormatter, ToolFormatter),
            (IToolExecutor, ToolExecutor),
            (ILLMClient, Model),
            (ILogger, Lines),
            (IMetricsCollector, Collector),
        ],
        ids=lambda value: value.__name__,
    )
    def test_a_class_has_the_methods_of_its_interface(self, interface, implementation):
        methods = [name for name in vars(interface) if not name.startswith("_")]
        assert methods
        for name in methods:
            expected = list(inspect.signature(getattr(interface, name)).parameters)
            assert list(inspect.signature(getattr(implementation, name)).parameters)[: len(expected)] == expected

    def test_the_interfaces_have_the_names_of_the_requirements(self):
        methods = {
            each: {name for name in vars(each) if not name.startswith("_")}
            for each in (IToolManager, IToolFormatter, IToolExecutor, IConfigLoader, IConfigSystem)
        }
        assert methods == {
            IToolManager: {"load_tools", "get_tool", "get_tool_set"},
            IToolFormatter: {"format", "detect_strategy"},
            IToolExecutor: {"execute", "async_execute"},
            IConfigLoader: {"load"},
            IConfigSystem: {"load_agent_config"},
        }

    def test_everything_is_exported(self):
        assert all(hasattr(toolsystem, name) for name in toolsystem.__all__)


class TestPoints:  # 8
    def test_the_same_tool_object_is_returned_each_time(self, tmp_path):
        write(tmp_path, {"tools/builtin/all.py": builtin("a"), "configs/tool_sets/s.yaml": "name: s\ntools: [a]\n"})
        manager = ToolManager(tmp_path)
        tools = [*manager.load_tools(), manager.get_tool("a"), *manager.get_tool_set("s")]
        assert all(each is tools[0] for each in tools)

    def test_a_tool_that_is_added_later_is_found(self, tmp_path):
        write(
            tmp_path, {"tools/builtin/all.py": builtin("a"), "configs/tool_sets/s.yaml": "name: s\ntools: [a, add]\n"}
        )
        manager = ToolManager(tmp_path)
        manager.toolkit.add(calculate, rename="add")
        assert names(manager.get_tool_set("s")) == names(manager.load_tools()) == ["a", "add"]

    def test_a_tool_that_is_replaced_is_found(self, tmp_path):
        manager = ToolManager(write(tmp_path, {"tools/builtin/all.py": builtin("calculate")}))
        before = manager.get_tool("calculate")
        manager.toolkit.remove("calculate").add(calculate)
        after = manager.get_tool("calculate")
        assert (list(before.args), list(after.args)) == ([], ["a", "b"])
        assert ToolExecutor().execute(after, {"a": 1, "b": 2}).output == 3
