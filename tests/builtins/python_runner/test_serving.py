"""PythonRunner over MCP: pictures arrive as image blocks, and clients do not share sessions."""

from __future__ import annotations

import base64
import importlib.util

import pytest
from fastmcp import Client

from ahvn_tools import Toolkit
from ahvn_tools.builtins.python_runner import PythonRunner
from tests.mcp.serving import over_http

CODE = "execute_python_code"


@pytest.fixture
def runner():
    runner = PythonRunner(approve="never", keep_session=True)
    yield runner
    runner.close()


async def call(client, code):
    return await client.call_tool(CODE, {"code": code})


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed")
@pytest.mark.exhaustive
async def test_pictures_arrive_as_image_blocks():
    kit = Toolkit("code").add(PythonRunner(approve="never"))
    async with over_http(kit) as url, Client(url) as client:
        result = await call(client, "import matplotlib.pyplot as plt\nplt.plot([1, 2])\n'done'")
    assert [block.type for block in result.content] == ["text", "image"]
    assert result.content[0].text.startswith("<returncode>0</returncode>")
    assert "<result>'done'</result>" in result.content[0].text
    assert base64.b64decode(result.content[1].data).startswith(b"\x89PNG")
    assert result.structured_content["images"] == 1


async def test_a_result_without_pictures_is_a_text():
    kit = Toolkit("code").add(PythonRunner(approve="never"))
    async with over_http(kit) as url, Client(url) as client:
        result = await call(client, "6 * 7")
    assert "<result>42</result>" in result.content[0].text
    assert result.structured_content["result"] == "42"


async def test_hints_say_that_code_may_change_things():
    kit = Toolkit("code").add(PythonRunner())
    async with over_http(kit) as url, Client(url) as client:
        (tool,) = await client.list_tools()
    assert tool.annotations.destructive_hint
    assert not tool.annotations.read_only_hint
    assert set(tool.input_schema["properties"]) == {"code", "timeout"}


async def test_clients_share_no_session(runner):
    kit = Toolkit("code").add(runner)
    async with over_http(kit) as url, Client(url, mode="legacy") as one, Client(url, mode="legacy") as two:
        await call(one, "x = 1")
        assert "NameError" in (await call(two, "x")).content[0].text
        assert "<result>1</result>" in (await call(one, "x")).content[0].text


async def test_a_client_that_cannot_be_distinguished_has_no_session(runner):
    kit = Toolkit("code").add(runner)
    async with over_http(kit) as url, Client(url, mode="auto") as client:
        first = await call(client, "x = 1")
        second = await call(client, "x")
    assert "<note>Variables of this code are lost" in first.content[0].text
    assert "NameError" in second.content[0].text


async def test_a_client_is_asked_before_code_runs_without_a_sandbox(tmp_path):
    kit = Toolkit("code").add(PythonRunner(sandbox="none"))
    asked = []

    async def decline(message, *_):
        asked.append(message)
        from fastmcp.client.elicitation import ElicitResult

        return ElicitResult(action="decline")

    code = f"open({str(tmp_path / 'x')!r}, 'w')"
    async with over_http(kit) as url, Client(url, elicitation_handler=decline) as client:
        result = await client.call_tool(CODE, {"code": code}, raise_on_error=False)
    assert result.is_error
    assert code in asked[0]
    assert not (tmp_path / "x").exists()
