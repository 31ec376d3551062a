"""The pages of MCP servers without a browser: what they refuse, and what they never show."""

import json
import re
from typing import Any

import pytest

pytest.importorskip("jinja2")
from fastmcp import FastMCP

from ahvn_tools import ApprovalRules, Toolkit
from tests.ui.test_site import client


def shop(description: str = "Find goods.") -> FastMCP:
    server = FastMCP("shop")
    server.tool(lambda query: query, name="find", description=description)
    return server


def post(opened: Any, path: str, **body: str) -> Any:
    return opened.post(path, content=json.dumps(body))


@pytest.fixture
def kit() -> Any:
    made = Toolkit("desk")
    yield made
    made.remove_mcp()


def test_without_permission_nothing_is_connected_or_disconnected(kit: Toolkit) -> None:
    kit.add_mcp(shop())
    opened = client(kit)
    for path, body in (("/servers", {"server": "true"}), ("/servers/shop", {"action": "disconnect"})):
        assert post(opened, path, **body).status_code == 403
    assert [*kit.servers] == ["shop"]
    assert post(opened, "/servers/shop", action="refresh").json()["text"] == "Listed again."
    assert post(opened, "/servers/none", action="refresh").status_code == 404
    assert opened.get("/servers/none").status_code == 404


@pytest.mark.parametrize("body", ["", "[]", "{", "{}", '{"server": 7}', '{"server": "{", "token": ["x"]}'])
def test_what_names_no_server_is_an_error(kit: Toolkit, body: str) -> None:
    answer = client(kit, connect_to=kit).post("/servers", content=body).json()
    assert answer["is_error"]
    assert answer["text"]


def test_a_name_that_is_taken_and_a_missing_folder_of_pins_are_errors(kit: Toolkit) -> None:
    kit.add_mcp(shop())
    opened = client(kit, connect_to=kit)
    for body, problem in (
        ({"server": "true", "name": "shop"}, "There is a server 'shop' already"),
        ({"server": "true", "name": "sh\ud83d"}, "half of a surrogate pair"),
        ({"server": '{"mcpServers": {"sh\\ud83d": {"command": "true"}}}'}, "half of a surrogate pair"),
        ({"server": "true", "pin": "/none/at/all/mcp.lock"}, "is not available"),
    ):
        assert problem in post(opened, "/servers", **body).json()["text"]


def test_only_what_was_seen_is_accepted(kit: Toolkit, tmp_path: Any) -> None:
    pins = tmp_path / "mcp.lock"
    kit.add_mcp(shop(), pin=pins).remove_mcp()
    kit.add_mcp(shop("Find <i>all</i> goods.\u200b"), pin=pins)
    opened = client(kit, read_only=False)
    page = opened.get("/servers/shop").text
    assert "the description changed" in page
    assert "<i>" not in page
    assert "\u200b" not in page
    digest = page.partition('name="digest" value="')[2].partition('"')[0]
    for wrong in ({}, {"digest": "0" * 64, "tool": "find"}, {"digest": digest, "tool": "other"}):
        assert post(opened, "/servers/shop", action="accept", **wrong).json()["is_error"]
    assert "find" not in kit
    assert post(opened, "/servers/shop", action="accept", tool="find", digest=digest).json()["text"] == "Accepted."
    assert "find" in kit
    assert post(opened, "/servers/shop", action="accept", tool="find", digest=digest).json()["is_error"]


def test_a_tool_without_a_known_definition_is_shown_whole(kit: Toolkit) -> None:
    kit.add_mcp(shop()).servers["shop"].quarantine("find")
    page = client(kit).get("/servers/shop").text
    assert "its earlier definition is not known" in page
    assert "Find goods." in page


def test_a_server_with_very_many_tools_has_a_page_of_bounded_size(kit: Toolkit) -> None:
    server = FastMCP("many")
    for number in range(150):
        server.tool(lambda query: query, name=f"find_{number}")
        server.tool(lambda query: query, name=f"hidden\u200b_{number}_{'x' * 1000}")
    kit.add_mcp(server)
    for number in range(150):
        kit.servers["many"].quarantine(f"find_{number}")
    page = client(kit).get("/servers/many").text
    assert page.count("waits to be accepted") == 100
    assert "50 more wait to be accepted." in page
    assert "50 more are refused." in page
    assert "x" * 301 not in page


def test_a_definition_that_is_cut_says_so(kit: Toolkit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ahvn_tools.ui.servers.MAX_DIFF_LINES", 3)
    kit.add_mcp(shop()).servers["shop"].quarantine("find")
    assert "more lines, which are not shown and may have changed" in client(kit).get("/servers/shop").text


def test_the_list_counts_the_tools_that_the_page_of_the_server_has(kit: Toolkit) -> None:
    server = shop()
    for name in ("sell", "count"):
        server.tool(lambda query: query, name=name, description="Sell.")
    kit.add_mcp(server).servers["shop"].quarantine("sell")
    row = client(kit).get("/servers").text.partition("open</span></td>")[2]
    assert re.findall(r"<td>(\d+)</td>", row) == ["2", "0", "1"]
    assert client(kit).get("/servers/shop").text.count("<li><a href=") == 2


def test_the_list_of_tools_says_which_need_an_approval() -> None:
    def act(path: str = "") -> None:
        """Act."""

    rules = ApprovalRules(mode="allow", ask=["asked", 'partly(path: "a*")'], deny=["never"])
    kit = Toolkit("desk", rules=rules)
    for name in ("asked", "partly", "never", "free", "own"):
        kit.add(act, rename=name, requires_approval=name == "own")
    page, words = client(kit).get("/").text, r"needs an approval|may need an approval|denied"
    rows = {name: re.findall(words, page.partition(f">{name}</a>")[2].partition("</tr>")[0]) for name in kit_names(kit)}
    expected = {"asked": "needs an approval", "partly": "may need an approval", "own": "needs an approval"}
    assert rows == {name: [expected[name]] if name in expected else [] for name in rows} | {"never": ["denied"]}
    assert "needs an approval" in client(kit).get("/tool/asked").text


def kit_names(kit: Toolkit) -> list[str]:
    return [tool.name for tool in kit]
