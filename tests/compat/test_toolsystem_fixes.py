"""The tool system: what went wrong in it before and works here, and what its requirements leave open."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from fastmcp import FastMCP
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

pytest.importorskip("langchain_core", reason='needs LangChain: pip install "ahvn-tools[langchain]"')

from langchain_core.tools import StructuredTool
from langchain_core.tools import tool as langchain_tool

from ahvn_tools import ToolContext
from ahvn_tools.compat.toolsystem import MCPTool, NativeTool, ToolExecutor, ToolFormatter, ToolManager, tool
from ahvn_tools.errors import DefinitionError, ToolCallError, ToolSpecError
from tests.compat import tool_service
from tests.compat.tool_files import forgotten_modules, write
from tests.compat.tool_service import LOCAL
from tests.mcp.loopback import over_http

__all__ = ["forgotten_modules"]


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@pytest.fixture(scope="module")
def service():
    with tool_service.running() as running:
        yield running


BUILTIN = (
    "from ahvn_tools.compat.toolsystem import tool\n@tool\ndef {name}() -> str:\n    'Do it.'\n    return 'done'\n"
)


class TestParallelCalls:
    @given(st.lists(st.integers(-1000, 1000), max_size=8))
    @settings(max_examples=20, deadline=None)
    def test_calls_of_one_tool_keep_their_own_results(self, numbers):
        messages = ToolExecutor().execute_parallel([(add, {"a": number, "b": 1}) for number in numbers])
        assert [message.output for message in messages] == [number + 1 for number in numbers]

    def test_two_tools_of_one_name_have_their_own_results(self):
        another, third = tool(name="add")(lambda a, b: a - b), tool(name="add_2")(lambda a, b: a * b)
        pairs = [(each, {"a": 1, "b": 2}) for each in (add, another, third, add)]
        for calls in (pairs, pairs[::-1]):
            messages = ToolExecutor().execute_parallel(calls)
            expected = [(each.name, each.spec(1, 2)) for each, _ in calls]
            assert [(message.tool_name, message.output) for message in messages] == expected

    def test_calls_have_ids_of_their_own(self):
        @tool
        def call_id(context: ToolContext) -> str | None:
            """Return the id of the call."""
            return context.call_id

        messages = ToolExecutor().execute_parallel([(call_id, {})] * 3)
        assert len({message.output for message in messages} - {"", None}) == 3

    def test_one_tool_is_logged_under_its_own_name(self, tmp_path, caplog):
        manager = ToolManager(write(tmp_path, {"tools/builtin/good.py": BUILTIN.format(name="good")}))
        messages = ToolExecutor().execute_parallel([(manager.get_tool("good"), {}), (manager.get_tool("good"), {})])
        assert [message.output for message in messages] == ["done", "done"]
        assert "good_2" not in caplog.text

    def test_a_tool_of_a_name_that_is_taken_is_renamed_for_a_graph(self):
        another = tool(name="add")(lambda a, b: a - b)
        assert [each.name for each in ToolExecutor().guard(add, another)] == ["add", "add_2"]


@tool
async def sleep_long() -> None:
    """Sleep."""
    await asyncio.sleep(60)


class Mass(BaseModel):
    grams: float


@langchain_tool
def weigh(number: int, mass: Mass, factor: float = 1, *, is_net: bool = False, note: int | None = None) -> str:
    """Weigh."""
    return f"{number!r} {mass.grams!r} {factor!r} {is_net!r} {note!r}"


class TestLangChainTools:
    @pytest.mark.parametrize(
        "parameters",
        [
            {"number": "1", "mass": {"grams": "2"}},
            {"number": " 1 ", "mass": {"grams": "1e3"}, "factor": "0.5", "is_net": "True", "note": "7"},
            {"number": 1, "mass": {"grams": 2}, "is_net": 0, "note": None},
            {"number": True, "mass": {"grams": 2}, "is_net": "no"},
            {"number": "1.0", "mass": {"grams": "2."}},
        ],
        ids=range(5),
    )
    def test_arguments_are_converted_as_langchain_converts_them(self, parameters):
        expected = weigh.invoke(parameters)
        executor = ToolExecutor()
        assert executor.execute(weigh, parameters).output == expected
        assert executor.execute_parallel([(weigh, parameters)])[0].output == expected
        assert asyncio.run(executor.async_execute(weigh, parameters)).output == expected
        (guarded,) = executor.guard(weigh)
        assert guarded.invoke(parameters) == expected

    @pytest.mark.parametrize(
        "wrong",
        [{"number": "one"}, {"number": "1.5"}, {"number": [1]}, {"factor": "nan"}, {"is_net": 2}, {"mass": "1"}],
    )
    def test_what_langchain_refuses_is_refused(self, wrong):
        message = ToolExecutor().execute(weigh, {"number": 1, "mass": {"grams": 2}, **wrong})
        assert message.error == "invalid_parameters"

    def test_a_tool_with_a_json_schema_is_not_converted_as_in_langchain(self):
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
        loose = StructuredTool.from_function(lambda a: a, name="loose", description="Loose.", args_schema=schema)
        assert loose.invoke({"a": "1"}) == "1"
        assert ToolExecutor().execute(loose, {"a": "1"}).error == "invalid_parameters"


class TestTimeouts:
    @pytest.mark.parametrize(
        ("text", "seconds"), [("30s", 30), ("30", 30), ("1.5 s", 1.5), ("500ms", 0.5), ("2m", 120)]
    )
    def test_a_time_limit_may_be_a_text(self, service, text, seconds):
        schema = {"type": "object"}
        made = [
            tool(name="one", timeout=text)(lambda: 1),
            NativeTool("notes", "", schema, service.url, timeout=text, **LOCAL),
            MCPTool("weather", service.url, timeout=text, **LOCAL),
        ]
        assert [each.spec.timeout for each in made] == [seconds] * 3

    def test_a_call_ends_after_a_time_limit_that_is_a_text(self):
        assert ToolExecutor(timeout="20ms").execute(sleep_long, {}).error == "timeout"

    @pytest.mark.parametrize("timeout", ["0s", "soon", "-1s", 0, "30 hours"])
    def test_another_time_limit_is_an_error(self, timeout):
        with pytest.raises(ToolSpecError, match="imeout must be"):
            ToolExecutor(timeout=timeout)
        with pytest.raises(DefinitionError, match="timeout must be"):
            tool(name="one", timeout=timeout)(lambda: 1)


class TestRequests:
    @pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/a/b", ""])
    def test_the_path_of_a_server_is_kept(self, service, path):
        weather = MCPTool("weather", service.url + path, **LOCAL)
        output = ToolExecutor().execute(weather, {"city": "Oslo"}).output
        assert output["path"] == f"{path.rstrip('/')}/tools/weather/execute"

    def test_mcptool_for_a_server_of_the_other_kind_is_an_error_that_points_to_yaml(self):
        with (
            over_http(FastMCP("clock")) as url,
            pytest.raises(ToolCallError, match=r"404.*write a YAML file with `mcp_server_url`"),
        ):
            MCPTool("now", url, **LOCAL)

    @pytest.mark.parametrize(("name", "part"), [("../../admin?x=", "..%2F..%2Fadmin%3Fx%3D"), ("a/b", "a%2Fb")])
    def test_a_name_cannot_leave_its_place_in_the_url(self, service, name, part):
        before = len(service.requests)
        with pytest.raises(ToolCallError, match="404"):
            MCPTool(name, service.url, **LOCAL)
        assert [request["path"] for request in service.requests[before:]] == [f"/tools/{part}/schema"]

    def test_an_unknown_way_to_authenticate_is_an_error(self, service):
        with pytest.raises(DefinitionError, match="auth_method must be"):
            NativeTool("notes", "", {"type": "object"}, service.url, auth_method="magic")


class TestFiles:
    def test_a_server_that_cannot_be_reached_costs_only_itself(self, tmp_path):
        write(
            tmp_path,
            {
                "tools/mcp/off.yaml": "mcp_server_url: http://127.0.0.1:9/mcp\n",
                "tools/builtin/good.py": BUILTIN.format(name="good"),
            },
        )
        manager = ToolManager(tmp_path)
        assert [each.name for each in manager.load_tools()] == ["good"]
        (error,) = manager.load_errors
        assert error.file.endswith("off.yaml")
        assert "MCPTool" not in str(error)

    @pytest.mark.parametrize("path", ["/mcp", "/none/schema"], ids=["JSON", "404"])
    def test_a_plain_http_server_is_an_error_that_points_to_mcptool(self, tmp_path, service, caplog, path):
        write(tmp_path, {"tools/mcp/weather.yaml": f"mcp_server_url: {service.url}{path}\n"})
        manager = ToolManager(tmp_path)
        assert manager.load_tools() == []
        (error,) = manager.load_errors
        assert error.file.endswith("weather.yaml")
        assert "write a Python file with MCPTool(NAME, URL)" in str(error)
        assert "write a Python file with MCPTool(NAME, URL)" in caplog.text

    @pytest.mark.parametrize(
        ("files", "errors"),
        [
            ({"tool-sets/_group.yaml": "inherit: all\n"}, []),
            ({"tool_sets/bad.yaml": "name: bad\ntols: [good]\n"}, ["bad.yaml"]),
            ({"tool_sets/off.yaml": "name: off\ntools: [good]\nenabled: false\n"}, []),
        ],
        ids=["an underscore", "a broken file", "not enabled"],
    )
    def test_a_file_of_a_tool_set_that_is_not_used_costs_no_other(self, tmp_path, files, errors):
        good = "name: good_set\ntools: [good]\nenabled: true\nmetadata: {a: 1}\n"
        found = {f"configs/{name}": text for name, text in {**files, "tool_sets/good.yaml": good}.items()}
        manager = ToolManager(write(tmp_path, {"tools/builtin/good.py": BUILTIN.format(name="good"), **found}))
        assert list(manager.toolkit.toolsets) == ["good_set"]
        assert [each.name for each in manager.get_tool_set("good_set")] == ["good"]
        assert [Path(error.file).name for error in manager.load_errors] == errors

    def test_a_link_out_of_the_folder_of_tool_sets_and_a_pipe_are_not_read(self, tmp_path):
        write(
            tmp_path,
            {"outside.yaml": "name: outside\ntools: [a]\n", "configs/tool_sets/a.yaml": "name: a\ntools: [b]\n"},
        )
        (tmp_path / "configs/tool_sets/link.yaml").symlink_to(tmp_path / "outside.yaml")
        os.mkfifo(tmp_path / "configs/tool_sets/pipe.yaml")
        manager = ToolManager(tmp_path)
        assert list(manager.toolkit.toolsets) == ["a"]
        assert ["leads out of its folder" in str(error) for error in manager.load_errors] == [True]

    def test_two_tool_sets_of_one_name_are_an_error_of_the_second(self, tmp_path):
        one = "name: one\ntools: []\n"
        manager = ToolManager(write(tmp_path, {"configs/tool_sets/a.yaml": one, "configs/tool-sets/b.yaml": one}))
        assert [Path(error.file).name for error in manager.load_errors] == ["b.yaml"]

    def test_loading_needs_no_current_folder(self, tmp_path, monkeypatch):
        write(tmp_path, {"project/tools/builtin/good.py": BUILTIN.format(name="good")})
        monkeypatch.chdir(tmp_path / "project")
        assert len(ToolManager().load_tools()) == 1
        monkeypatch.chdir(tmp_path)
        assert len(ToolManager("project").load_tools()) == 1


class TestPrompts:
    def test_the_format_of_a_model_is_not_guessed_from_its_name(self):
        class Model:
            name = "gpt-and-claude"

            def supports_function_calling(self) -> bool:
                return False

        assert ToolFormatter().detect_strategy(Model()) == "structured_output"

    def test_no_strategy_is_an_error(self):
        with pytest.raises(Exception, match="Both ways are disabled"):
            ToolFormatter(function_calling=False, fallback_to_structured_output=False).detect_strategy(None)


CALC = """
from ahvn_tools import Toolkit, tool

def add(a: int, b: int = 0) -> int:
    "Add two numbers."
    return a + b

@tool(tags=["math"])
def double(a: int) -> int:
    "Double a number."
    return 2 * a

kit = Toolkit("kit")
"""


class TestDefinitions:
    def load(self, tmp_path: Path, text: str, file: str = "tools/builtin/tool.yaml", **options) -> ToolManager:
        return ToolManager(write(tmp_path, {"tools/builtin/_calc.py": CALC, file: text}), **options)

    def error(self, tmp_path: Path, text: str, file: str = "tools/builtin/tool.yaml", **options) -> str:
        manager = self.load(tmp_path, text, file, **options)
        (error,) = manager.load_errors
        assert error.file.endswith(file)
        assert manager.load_tools() == []
        return str(error)

    def test_a_function_has_the_options_of_its_definition(self, tmp_path):
        text = """
        tool_type: builtin
        name: calculate
        function_path: _calc.py:add
        title: Calculator
        description: Calculate.
        tags: [math]
        timeout: 500ms
        annotations: {readOnlyHint: true}
        metadata: {owner: me}
        binds: {b: user.bonus}
        parameters_schema: {type: object, properties: {a: {type: integer, maximum: 5}}, required: [a]}
        """
        kit = self.load(tmp_path, text).toolkit
        definition = kit["calculate"].definition
        assert (definition.title, definition.description, definition.tags) == ("Calculator", "Calculate.", {"math"})
        assert (definition.annotations, definition.meta) == ({"readOnlyHint": True}, {"owner": "me"})
        assert kit["calculate"].timeout == 0.5
        session = kit.session(user={"bonus": 2})
        assert session.call("calculate", {"a": 1}) == 3
        assert session.exec("calculate", {"a": 6}).error.code == "invalid_parameters"

    def test_a_tool_keeps_what_its_definition_does_not_say(self, tmp_path):
        definition = self.load(tmp_path, "function: _calc:double").toolkit["tool"].definition
        assert (definition.description, definition.tags) == ("Double a number.", {"math"})

    @pytest.mark.parametrize(
        ("file", "text"),
        [
            ("tools/builtin/tool.yaml", "function: nowhere:add"),
            ("tools/mcp/tool.yaml", "command: touch\nargs: [canary]"),
            ("tools/native/tool.yaml", "api_url: https://x.example"),
        ],
    )
    def test_a_definition_that_is_not_enabled_is_left_out(self, tmp_path, file, text):
        manager = self.load(tmp_path, f"{text}\nenabled: false", file, trust=[])
        assert (manager.load_tools(), manager.load_errors) == ([], [])

    @pytest.mark.parametrize(
        ("file", "text", "method"),
        [
            ("tools/native/a.yaml", "", "POST"),
            ("tools/native/a.yaml", "method: put", "PUT"),
            ("tools/native/a.yaml", "kind: http", "GET"),
            ("tools/native/deep/a.yml", "", "POST"),
            ("tools/mcp/a.yaml", "tool_type: native", "POST"),
        ],
    )
    def test_a_native_tool_posts_by_default(self, tmp_path, file, text, method):
        kit = self.load(tmp_path, f"{text}\napi_url: https://x.example/y", file).toolkit
        assert kit["a"].body.request.method == method

    @pytest.mark.parametrize("file", ["_a.yaml", ".a.yaml", ".git/a.yaml", "_drafts/deep/a.yaml"])
    def test_hidden_files_and_drafts_are_left_out(self, tmp_path, file):
        manager = self.load(tmp_path, "api_url: nothing", f"tools/native/{file}")
        assert (manager.load_tools(), manager.load_errors) == ([], [])

    def test_a_wrong_pattern_of_trust_is_an_error_at_once(self, tmp_path):
        with pytest.raises(ToolSpecError, match="is no feature"):
            self.load(tmp_path, "api_url: https://x.example", "tools/native/a.yaml", trust=["<cod>"])

    def test_a_file_beside_the_definition_has_the_certificates(self, tmp_path):
        kit = self.load(tmp_path, "api_url: https://x.example\nca_file: ca.pem", "tools/native/a.yaml").toolkit
        assert kit["a"].body.options.ca_file == str(tmp_path / "tools/native/ca.pem")

    def test_the_options_of_a_server_are_those_of_add_mcp(self, tmp_path):
        server = FastMCP("clock")
        server.tool(lambda: "noon", name="now")
        server.tool(lambda: "set", name="set")
        with over_http(server) as url:
            manager = self.load(
                tmp_path, f"url: {url}\ninclude: [now]\nprefix: clock_\ntimeout: 5s", "tools/mcp/c.yaml"
            )
            assert [each.name for each in manager.load_tools()] == ["clock_now"]
            assert (manager.toolkit["clock_now"].timeout, list(manager.toolkit.servers)) == (5, ["c"])
            manager.toolkit.remove_mcp()

    def test_definitions_precede_the_python_files_of_their_folder(self, tmp_path, caplog):
        files = {"tools/builtin/a.py": BUILTIN.format(name="tool"), "tools/native/z.yaml": "api_url: https://x.example"}
        write(tmp_path, files)
        kit = self.load(tmp_path, "function: _calc:add").toolkit
        assert [(each.name, each.description) for each in kit] == [("z", ""), ("tool", "Add two numbers.")]
        assert "'tool'" in caplog.text

    def test_other_documents_are_read_as_in_any_folder(self, tmp_path):
        operation = "{get: {operationId: ping, responses: {'200': {description: ok}}}}"
        text = "openapi: 3.1.0\ninfo: {title: x, version: '1'}\nservers: [{url: 'https://x.example'}]\n"
        text += f"paths: {{/p: {operation}}}"
        assert [each.name for each in self.load(tmp_path, text, "tools/native/api.yaml").load_tools()] == ["ping"]

    @pytest.mark.parametrize(
        ("file", "text", "message"),
        [
            ("builtin", "- a", "a definition is a mapping"),
            ("builtin", "a: [", "line 2"),
            ("builtin", "kind: htp", "`kind` is not 'htp'. Did you mean 'http'?"),
            ("builtin", "kind: [http]", "`kind` is not ['http']"),
            ("builtin", "kind: http\ntool_type: mcp", "two keys mean the same"),
            ("builtin", "description: x", "`function` is the FILE.py:NAME or the MODULE:NAME of one function"),
            ("builtin", "function: 3", "`function` is the FILE.py:NAME"),
            ("builtin", "function: _calc.py", "`function` is the FILE.py:NAME"),
            ("builtin", "function: _calc:kit", "`function` is the FILE.py:NAME"),
            ("builtin", "function: _calc:ad", "Did you mean 'add'?"),
            ("builtin", "function: none.py:add", "There is no file"),
            ("builtin", "function: _calc:add\ntimeuot: 3", "'timeuot'. Did you mean 'timeout'?"),
            ("builtin", "function: _calc:add\ntimeout: soon", "timeout"),
            ("builtin", "function: _calc:add\ntimeout: 0s", "timeout"),
            ("builtin", "function: _calc:add\ntimeout: true", "timeout"),
            ("builtin", "function: _calc:add\nenabled: no", "`enabled` is true or false"),
            ("builtin", "function: _calc:add\ntags: [1]", "tags"),
            ("builtin", "function: _calc:add\nparameters: []", "input_schema"),
            ("builtin", "function: _calc:add\nname: [1]", "name"),
            ("native", "auth_method: none", "a `name` and an `api_url`"),
            (
                "native",
                "api_url: https://x.example\napi_key: canary-1\nauth_method: api_key",
                "must not be a plain text",
            ),
            ("native", "api_url: https://${NOT_SET}", "'NOT_SET' is not set"),
            ("native", "api_url: https://x.example\nparameters: {query: {type: string}}", "a JSON Schema"),
            ("mcp", "description: x", "needs either a `command` or a `url`"),
            ("mcp", "url: http://127.0.0.1:9\nheaders: {a: [canary]}", "`headers.a` has a value that is not a string"),
            ("mcp", "url: http://127.0.0.1:9\nparameters: {}", "input_schema"),
            ("mcp", "url: http://${NOT_SET}/mcp", "NOT_SET"),
        ],
    )
    def test_a_definition_that_does_not_fit_is_an_error_of_its_file(self, tmp_path, file, text, message):
        error = self.error(tmp_path, text, f"tools/{file}/tool.yaml")
        assert message in error
        assert "canary" not in error

    @pytest.mark.parametrize(
        ("file", "text", "needs"),
        [
            ("builtin", "function: _calc.py:add", ["{folder}/tools/builtin/_calc.py"]),
            ("native", "api_url: https://x.example", ["https://x.example"]),
            ("native", "api_url: https://x.example/${PLACE:a}", ["https://x.example", "${PLACE}"]),
            (
                "native",
                "api_url: https://x.example\nauth_method: api_key\napi_key: ${KEY}",
                ["https://x.example", "${KEY}"],
            ),
            ("mcp", "url: http://127.0.0.1:9/mcp", ["http://127.0.0.1:9"]),
            ("mcp", "command: no-such-program\nenv: {LD_PRELOAD: x}", ["no-such-program", "${LD_PRELOAD}"]),
        ],
    )
    def test_a_definition_does_what_is_trusted(self, tmp_path, file, text, needs):
        needs = [need.replace("{folder}", str(tmp_path)) for need in needs]
        for missing in needs:
            trust = [need for need in needs if need != missing]
            assert "is not trusted" in self.error(tmp_path, text, f"tools/{file}/tool.yaml", trust=trust)
        errors = self.load(tmp_path, text, f"tools/{file}/tool.yaml", trust=needs).load_errors
        assert not any("is not trusted" in str(error) for error in errors)
