"""Commands on a manifest with code mode, and on tools that are served with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ahvn_tools.cli.app import main
from tests.cli.served import COMMAND, ENVIRONMENT, LONGEST, run
from tests.cli.shop import SHOP

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from fastmcp import Client  # slow
from fastmcp.client.transports import StdioTransport

TOOLS = """
from ahvn_tools import Toolkit

kit = Toolkit("shop").add_group("write", active=True)


@kit.tool(tags={"orders"}, group="write")
def status(number: int) -> str:
    \"\"\"Return the status of an order.\"\"\"
    return "sent"


@kit.tool
def other() -> None:
    \"\"\"Do nothing.\"\"\"
"""
PROGRAM = "await status(7), await status(number=8)"


@pytest.fixture(autouse=True)
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "kit.yaml").write_text("sources: [shop.py]\ncode_mode: {core: [place], limits: {code_chars: 40}}\n")
    monkeypatch.chdir(tmp_path)


def test_the_tools_for_programs_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "kit.yaml"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in ("place", "search_tools", "describe_tools", "run_code"))
    assert main(["show", "kit.yaml", "run_code"]) == 0
    assert "asyncio.gather" in capsys.readouterr().out


def test_the_tools_for_programs_are_called(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", "kit.yaml", "describe_tools", 'names=["place"]']) == 0
    assert "async def place(\n    order: Place_Order,  # What to order\n" in capsys.readouterr().out
    assert main(["call", "kit.yaml", "run_code", f"code={PROGRAM} # too long"]) != 0
    assert "it has 50 of 40 characters" in capsys.readouterr().err


def test_a_program_runs_in_a_call(tmp_path: Path) -> None:
    done = run("call", "kit.yaml", "run_code", f"code={PROGRAM}", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, '{"result": ["sent", "sent"]}\n'), done.stderr
    refused = run("call", "kit.yaml", "run_code", "code=await status('7')", cwd=tmp_path)
    assert refused.returncode != 0
    assert "Line 1: Argument to function `status` is incorrect: Expected `int`" in refused.stderr


@pytest.mark.exhaustive
def test_a_program_runs_in_a_server(tmp_path: Path) -> None:
    async def use() -> None:
        arguments = ["serve", "--code", "shop.py"]
        transport = StdioTransport(
            COMMAND[0], [*COMMAND[1:], *arguments], env=ENVIRONMENT, cwd=str(tmp_path), keep_alive=False
        )
        async with asyncio.timeout(LONGEST), Client(transport) as client:
            assert [tool.name for tool in await client.list_tools()] == ["search_tools", "describe_tools", "run_code"]
            result = await client.call_tool("run_code", {"code": PROGRAM})
            assert result.structured_content == {"result": ["sent", "sent"]}
            refused = await client.call_tool("run_code", {"code": "await statuz(7)"}, raise_on_error=False)
            assert "Did you mean 'status'?" in refused.content[0].text

    asyncio.run(use())


@pytest.mark.parametrize(
    ("source", "option"),
    [
        ("tools.yaml", ["--tag", "orders"]),
        *(
            pytest.param(source, option, marks=pytest.mark.exhaustive)
            for source, option in [
                ("tools.py", ["--tag", "orders"]),
                ("tools.py", ["--group", "write"]),
                ("tools.py", ["--include", "stat*"]),
                ("tools.yaml", ["--group", "write"]),
                ("tools.yaml", ["--include", "stat*"]),
            ]
        ),
    ],
)
@pytest.mark.exhaustive
def test_selected_tools_are_served_in_programs(source: str, option: list[str], tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "tools.yaml").write_text("sources: [tools.py]\ncode_mode: true\n")

    async def use() -> None:
        arguments = ["serve", "--code", *option, source]
        transport = StdioTransport(
            COMMAND[0], [*COMMAND[1:], *arguments], env=ENVIRONMENT, cwd=str(tmp_path), keep_alive=False
        )
        async with asyncio.timeout(LONGEST), Client(transport) as client:
            assert [tool.name for tool in await client.list_tools()] == ["search_tools", "describe_tools", "run_code"]
            result = await client.call_tool("run_code", {"code": "await status(7)"})
            assert result.structured_content == {"result": "sent"}
            refused = await client.call_tool("run_code", {"code": "await other()"}, raise_on_error=False)
            assert "`other` used when not defined" in refused.content[0].text

    asyncio.run(use())
