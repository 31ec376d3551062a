"""MCP servers are connected in a browser; what they change is seen and accepted."""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp import FastMCP

from ahvn_tools import Toolkit
from tests.mcp.loopback import over_http
from tests.ui.test_browser import wait_for_text
from tests.ui.test_browser_approve import find_barriers

TOKEN = "sk-typed-into-the-page"

SERVER = """
import pathlib, sys
from fastmcp import FastMCP
server = FastMCP("shop")
exec(pathlib.Path(sys.argv[1]).read_text())
server.run(show_banner=False)
"""
BEFORE = """
@server.tool
def find(query: str, limit: int = 3) -> list[str]:
    '''Find goods.'''
    return [query] * limit

@server.tool(name="hid\\u200bden")
def hidden() -> str:
    return "x"
"""
AFTER = BEFORE.replace("limit: int = 3", "limit: int, user: str = ''").replace("Find goods", "Find <b>all</b> goods")


@pytest.fixture
def kit() -> Toolkit:
    return Toolkit("desk").add(len, name="size")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "server.py").write_text(SERVER)
    definitions = tmp_path / "tools.txt"
    definitions.write_text(BEFORE)
    return definitions


@pytest.fixture
def address(kit: Toolkit, serve: Callable[..., str]) -> Any:
    yield serve(kit, "/desk", connect_to=kit)
    kit.remove_mcp()


def connect(page: Any, address: str, **fields: str) -> None:
    page.goto(f"{address}/servers")
    for name, value in fields.items():
        page.locator(f"[name={name}]").fill(value)
    page.get_by_role("button", name="Connect").click()


def command(shop: Path) -> str:
    return shlex.join([sys.executable, str(shop.parent / "server.py"), str(shop)])


def test_a_command_is_connected_and_a_changed_tool_accepted(page: Any, address: str, kit: Toolkit, shop: Path) -> None:
    pins = str(shop.parent / "mcp.lock")
    connect(page, address, server=command(shop), name="shop", pin=pins)
    page.wait_for_url("**/servers/shop")
    text = page.locator("main").inner_text()
    assert "Connection: open" in text
    assert "hid\\u200bden" in text
    assert "invisible" in text
    page.get_by_role("link", name="find").click()
    page.get_by_role("link", name="Try").click()
    page.locator("[data-pointer='/query']").fill("tea")
    page.locator("#run").click()
    wait_for_text(page, "#outcome", "^Done")
    page.goto(f"{address}/servers/shop")
    page.get_by_role("button", name="Disconnect").click()
    page.get_by_text("No MCP server is connected").wait_for()
    assert "find" not in kit
    shop.write_text(AFTER)
    connect(page, address, server=command(shop), name="shop", pin=pins)
    page.get_by_role("heading", name="find waits to be accepted").wait_for()
    change = page.locator(".change").inner_text()
    assert "parameter 'limit' is required" in change
    assert page.locator(".mark").all_inner_texts() == ["limit changed", "user added"]
    assert any("<b>all</b>" in line for line in page.locator(".diff.added").all_inner_texts())
    assert any('"Find goods."' in line for line in page.locator(".diff.removed").all_inner_texts())
    assert "find" not in kit
    page.get_by_role("button", name="Accept find").click()
    page.locator(".change").wait_for(state="detached")
    assert "find" in kit
    page.get_by_role("link", name="find").wait_for()


def test_a_definition_that_changes_under_review_is_not_accepted(
    page: Any, address: str, kit: Toolkit, shop: Path
) -> None:
    pins = str(shop.parent / "mcp.lock")
    kit.add_mcp(command(shop), name="shop", pin=pins).remove_mcp("shop")
    shop.write_text(AFTER)
    kit.add_mcp(command(shop), name="shop", pin=pins)
    page.goto(f"{address}/servers/shop")
    page.locator("input[name=digest]").evaluate("field => { field.value = 'of an earlier definition' }")
    page.get_by_role("button", name="Accept find").click()
    wait_for_text(page, "#outcome", "has changed again")
    assert "find" not in kit


def test_a_url_is_connected_with_a_token_that_never_comes_back(page: Any, address: str, kit: Toolkit) -> None:
    server = FastMCP("remote")
    server.tool(lambda word: word.upper(), name="shout")
    with over_http(server) as url:
        connect(page, address, server=url, name="re/mote", token=TOKEN)
        page.get_by_role("link", name="shout").wait_for()
        assert page.url.endswith("/servers/re%2Fmote")
        for path in ("/servers", "/servers/re%2Fmote", "/tool/shout"):
            page.goto(address + path)
            assert TOKEN not in page.content()
        page.goto(f"{address}/servers/re%2Fmote")
        with page.expect_navigation():
            page.get_by_role("button", name="List its tools again").click()
        page.get_by_text("Connection: open").wait_for()


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        ("no-such-program-at-all", "its program or folder does not exist. Check its address or its command"),
        ("http://127.0.0.1:9/mcp", "cannot be reached"),
        (
            '{"mcpServers": {"a": {"command": "no-such-program-at-all", "env": {"API_KEY": "' + TOKEN + '"}}}}',
            "'a' is not",
        ),
        ('{"mcpServers": ', "mcp.json is no JSON"),
        ('{"other": 1}', "neither `mcpServers` nor"),
        ("none.json", "cannot be read"),
    ],
)
def test_an_error_says_what_to_do(page: Any, address: str, server: str, problem: str) -> None:
    connect(page, address, server=server, token="")
    assert problem in wait_for_text(page, "#outcome", "is |cannot|neither")
    assert TOKEN not in page.locator("#outcome").inner_text()
    assert page.get_by_role("button", name="Connect").is_enabled()


def test_without_permission_and_read_only_nothing_is_connected(page: Any, kit: Toolkit, serve: Any, shop: Path) -> None:
    kit.add_mcp(command(shop), name="shop")
    mounted, shown = serve(kit), serve(kit, connect_to=kit, read_only=True)
    page.goto(f"{mounted}/servers")
    assert "connect_to=kit" in page.locator("main").inner_text()
    assert page.get_by_role("button").count() == 0
    page.goto(f"{mounted}/servers/shop")
    assert page.get_by_role("button").all_inner_texts() == ["List its tools again"]
    for path in ("/servers", "/servers/shop"):
        page.goto(shown + path)
        assert page.get_by_role("button").count() == 0
    kit.remove_mcp()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_are_accessible_and_fit(page: Any, address: str, kit: Toolkit, shop: Path, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    pins = str(shop.parent / "mcp.lock")
    kit.add_mcp(command(shop), name="shop", pin=pins).remove_mcp("shop")
    shop.write_text(AFTER)
    page.goto(f"{address}/servers")
    assert find_barriers(page) == []
    kit.add_mcp(command(shop), name="shop", pin=pins)
    for path in ("/servers", "/servers/shop"):
        page.goto(address + path)
        assert find_barriers(page) == [], path
        page.set_viewport_size({"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, path
        page.set_viewport_size({"width": 1200, "height": 800})
