"""MCP servers in manifests: real ones, over stdio and HTTP."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import FastMCP

from ahvn_tools import Toolkit, load
from ahvn_tools.errors import SourceError
from ahvn_tools.manifest.loader import close_servers
from tests.manifest.conftest import Load
from tests.toolkit.subjects import check

SERVER = """
import os
from fastmcp import FastMCP

server = FastMCP("shelf")

@server.tool
def get_book(title: str, token: str = "none", user: str = "nobody") -> str:
    "Get a book."
    return f"{title} {token} {user} {os.environ.get('SHELF', '')}"

@server.tool
def burn_book(title: str) -> str:
    "Burn a book."
    return f"burned {title}"

if __name__ == "__main__":
    server.run(show_banner=False)
"""

SECRET = "hunter2-secret"


@pytest.fixture(autouse=True)
def server(folder: Path) -> None:
    """Write a server script."""
    (folder / "shelf.py").write_text(SERVER)


@pytest.fixture
def loaded() -> Iterator[list[Toolkit]]:
    """Close the servers of these toolkits."""
    kits: list[Toolkit] = []
    yield kits
    for kit in kits:
        close_servers(kit)


def test_options_of_a_server_object_and_of_its_single_tools(load_text: Load, loaded: list[Toolkit]) -> None:
    kit = load_text(
        """
        sources:
          - source: shelf.py:server
            prefix: b_
            tags: remote
        tools:
          "*": {preset: {token: "${TOKEN}"}}
          b_burn*: {requires_approval: true, tags: hot, description: Burn!, timeout: 3}
        """,
        env={"TOKEN": SECRET},
    )
    loaded.append(kit)
    assert SECRET in kit.call("b_get_book", {"title": "Emma"})
    assert SECRET not in str([repr(kit), kit.to("openai"), kit.servers, kit.state_dict(), check(kit)])
    burn = kit["b_burn_book"]
    assert (burn.definition.description, burn.tags, burn.timeout) == ("Burn!", {"remote", "hot"}, 3)
    assert kit.exec("b_burn_book", {"title": "Emma"}).error.code == "approval_required"


@pytest.mark.exhaustive
def test_options_of_a_server_and_of_single_tools(load_text: Load, loaded: list[Toolkit]) -> None:
    kit = load_text(
        f"""
        sources:
          - server: [{json.dumps(sys.executable)}, shelf.py]
            name: books
            prefix: b_
            group: books
            tags: remote
            env: {{SHELF: "${{SHELF}}"}}
            may_receive: user
            timeout: 60
          - notes.py
        tools:
          "b_*": {{preset: {{token: "${{TOKEN}}"}}}}
          b_get_book: {{description: Get any book}}
          b_burn*: {{group: danger, requires_approval: true, tags: hot, description: Burn!, timeout: 3}}
        groups: {{danger: {{description: Danger, active: true}}, books: {{description: Books, active: true}}}}
        binds: {{user: {{key: user.name, secret: true}}}}
        """,
        env={"TOKEN": SECRET, "SHELF": "oak-shelf-7"},
    )
    loaded.append(kit)
    assert [spec.name for spec in kit][:2] == ["b_get_book", "b_burn_book"]
    session = kit.session(user={"name": "ann"})
    assert session.call("b_get_book", {"title": "Emma"}) == f"Emma {SECRET} ann oak-shelf-7"
    assert kit["b_get_book"].definition.description == "Get any book"
    burn = kit["b_burn_book"]
    assert (burn.definition.description, burn.tags, burn.timeout) == ("Burn!", {"remote", "hot"}, 3)
    assert kit.exec("b_burn_book", {"title": "Emma"}).error.code == "approval_required"
    assert [spec.name for spec in kit.group("danger").tools] == ["b_burn_book"]
    shown = str([repr(kit), kit.to("openai"), kit.servers, kit.state_dict(), check(kit)])
    assert SECRET not in shown
    assert "oak-shelf" not in shown


@pytest.mark.exhaustive
def test_a_server_script_and_an_mcp_json_are_sources(folder: Path, load_text: Load, loaded: list[Toolkit]) -> None:
    config = {"mcpServers": {"other": {"command": sys.executable, "args": [str(folder / "shelf.py")]}}}
    (folder / "mcp.json").write_text(json.dumps(config))
    kit = load_text(
        "sources: [{server: shelf.py, include: get_book}, {source: mcp.json, prefix: j_, exclude: 'burn*'}]"
    )
    loaded.append(kit)
    assert [spec.name for spec in kit] == ["get_book", "j_get_book"]
    assert set(kit.servers) == {"shelf", "other"}


def test_an_object_in_python_may_be_a_server(load_text: Load, loaded: list[Toolkit]) -> None:
    kit = load_text("sources: [{source: 'shelf.py:server', prefix: s_}]")
    loaded.append(kit)
    assert kit.call("s_burn_book", {"title": "Emma"}) == "burned Emma"


def test_disabled_tools_and_tools_of_other_audiences_do_not_come_later(load_text: Load, loaded: list[Toolkit]) -> None:
    text = """
        sources: [{source: 'shelf.py:server'}]
        tools:
          lat*: {enabled: false}
          burn*: {audience: main}
        """
    kit = load_text(text, audience="sub")
    loaded.append(kit)
    assert [spec.name for spec in kit] == ["get_book"]
    import shelf  # made by the test

    @shelf.server.tool
    def late() -> int:
        return 1

    @shelf.server.tool
    def burn_all() -> int:
        return 1

    @shelf.server.tool
    def fine() -> int:
        return 1

    kit.refresh_mcp()
    assert [spec.name for spec in kit] == ["get_book", "fine"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{source: 'shelf.py:server', include: get_bok}", "has no tool 'get_bok'. Did you mean 'get_book'?"),
        ("{source: 'shelf.py:server', binds: {user: user.id}}", "sources[0].binds: this source is an MCP server"),
        ("{source: 'shelf.py:server', isolation: process}", "sources[0].isolation: this source is an MCP server"),
        ("{server: shelf.py, limits: {conect: 1}}", "there is no limit 'conect'. Did you mean 'connect'?"),
        ("{server: {url: 'http://127.0.0.1:9/${TOKEN}'}, limits: {connect: 5}}", "sources[0]: "),
        ("{server: 'http://127.0.0.1:9/mcp?key=${TOKEN}', auth: '${TOKEN}', limits: {connect: 5}}", "sources[0]: "),
    ],
)
def test_errors_of_a_server_name_the_source_and_show_no_secret(
    source: str, message: str, load_text: Load, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(SourceError) as caught:
        load_text(f"sources: [{source}]", env={"TOKEN": SECRET, "PATH": "/usr/bin"})
    assert str(caught.value).startswith("kit.yaml:1: sources[0]")
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    "source",
    [
        "'http://${HOST}/mcp'",
        "{server: 'http://${HOST}/mcp', limits: {connect: 5}}",
        "{server: {url: 'http://${HOST}/mcp'}, limits: {connect: 5}}",
        "'${HOST} now'",
        "{server: {command: '${HOST}'}, limits: {connect: 5}}",
    ],
)
def test_the_name_of_a_server_is_not_made_from_a_variable(
    source: str, load_text: Load, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are in logs, in `servers` and in errors at any later time."""
    names: list[str | None] = []

    def add_mcp(self: Toolkit, server: Any, *, name: str | None = None, **options: Any) -> None:
        names.extend(list(server) if isinstance(server, dict) and name is None else [name])

    monkeypatch.setattr(Toolkit, "add_mcp", add_mcp)
    monkeypatch.setattr("shutil.which", lambda program, path=None: program)
    load_text(f"sources: [{source}]", env={"HOST": "secret-host.example"})
    assert names == ["server_1"]


@pytest.mark.parametrize("order", ["[notes.py, 'shelf.py:server']", "['shelf.py:server', notes.py]"])
def test_options_of_tools_of_other_sources_are_no_findings_of_a_server(
    order: str, load_text: Load, loaded: list[Toolkit], caplog: pytest.LogCaptureFixture
) -> None:
    """Also of tools that are left out, here or for an audience, and in a toolkit that is strict."""
    tools = "{find: {timeout: 3}, 'del*': {enabled: false}, 'rest*': {audience: staff}, get_book: {audience: staff}}"
    kit = load_text(f"strict: true\nsources: {order}\ntools: {tools}", audience="guest")
    loaded.append(kit)
    assert {spec.name for spec in kit} == {"find", "burn_book"}
    assert not check(kit)
    assert not caplog.text


def test_a_pattern_that_fits_no_tool_yet_is_a_finding(load_text: Load, loaded: list[Toolkit]) -> None:
    kit = load_text("sources: ['shelf.py:server', notes.py]\ntools: {'brn*': {requires_approval: true}}")
    loaded.append(kit)
    assert [finding.problem for finding in check(kit)] == ["no tool matches 'brn*' in `tools`"]


@pytest.mark.parametrize("key", ["preset", "binds"])
@pytest.mark.parametrize("pattern", ["find*", "get_*", "*"])
def test_a_pattern_beside_a_server_must_have_its_parameters_in_a_tool(key: str, pattern: str, load_text: Load) -> None:
    text = f"sources: ['shelf.py:server', notes.py]\ntools: {{'{pattern}': {{{key}: {{titel: t}}}}}}"
    with pytest.raises(SourceError, match=r"none of these tools has a parameter 'titel'\."):
        load_text(text)


def test_a_pattern_has_the_new_name_of_a_servers_parameter(load_text: Load, loaded: list[Toolkit]) -> None:
    tools = "{s_get_book: {arguments: {title: {name: called}}}, '*book': {preset: {called: Emma}}}"
    loaded.append(kit := load_text(f"sources: [{{source: 'shelf.py:server', prefix: s_}}]\ntools: {tools}"))
    assert kit.call("s_get_book") == "Emma none nobody "
    assert not check(kit)


@pytest.mark.parametrize("strict", [False, True])
def test_a_pattern_that_fits_no_tool_is_an_error_of_a_strict_toolkit(
    strict: bool, load_text: Load, loaded: list[Toolkit]
) -> None:
    text = "sources: ['shelf.py:server']\ntools: {'brn*': {timeout: 1}}\nbinds: {tennant: user}"
    loaded.append(kit := load_text(text))
    kit._view.store.finding_log.is_strict = strict
    severity = "error" if strict else "warning"
    assert {finding.rule: finding.severity for finding in check(kit)} == {
        "unused-binding": severity,
        "unmatched-option": severity,
    }


def test_the_patterns_of_a_manifest_whose_parts_were_skipped_are_findings(folder: Path, load_text: Load) -> None:
    (folder / "parts").mkdir()
    (folder / "parts" / "broken.py").write_text("def (")
    kit = load_text("sources: [parts, notes.py]\ntools: {'find*': {preset: {querry: q}}, 'fnd*': {timeout: 1}}")
    problems = [str(finding) for finding in check(kit) if finding.rule == "unmatched-option"]
    assert problems == [
        "'tools.find*.preset.querry' of the manifest: none of these tools has a parameter 'querry'",
        "'tools.fnd*' of the manifest: no tool matches 'fnd*'",
    ]


def test_a_pattern_of_add_mcp_must_have_its_parameters_in_a_tool(loaded: list[Toolkit]) -> None:
    server = FastMCP("own")
    server.tool(lambda user: user, name="ask")
    loaded.append(kit := Toolkit("k").add_mcp(server, tools={"a*": {"preset": {"usr": 1}, "binds": {"user": "user"}}}))
    assert [(str(finding), finding.fix) for finding in check(kit) if finding.rule == "unmatched-option"] == [
        ("the MCP server 'own': no tool that matches 'a*' in `tools` has the parameter 'usr'", "Did you mean 'user'?")
    ]


def test_a_server_that_cannot_be_reached_is_a_source_error(folder: Path) -> None:
    with pytest.raises(SourceError, match="cannot be reached"):
        load("http://127.0.0.1:9/mcp")
    with pytest.raises(SourceError, match="cannot be reached"):
        load("notes.py", "http://127.0.0.1:9/mcp")


def test_may_receive_may_name_a_parameter_of_a_tool_that_is_left_out(loaded: list[Toolkit]) -> None:
    """It may come back: `may_receive` is for tools now and later."""
    server = FastMCP("own")
    server.tool(lambda user: user, name="ask")
    server.tool(lambda: 1, name="one")
    loaded.append(Toolkit("k").add_mcp(server, may_receive="user", exclude="ask"))
    assert [spec.name for spec in loaded[0]] == ["one"]
