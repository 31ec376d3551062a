"""Skills of MCP servers: what they list, and what hostile ones send."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from fastmcp import FastMCP
from fastmcp.resources import TextResource
from fastmcp.server.dependencies import get_http_headers

from ahvn_tools import Toolkit, mcp
from ahvn_tools.errors import SourceError, ToolConnectionError, ToolkitError
from tests.skills.skill_server import make_server
from tests.toolkit.subjects import add
from tests.toolkit.test_skills import message, read, write_skill


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "library"
    write_skill(
        root, "sums", "Zero\u200bwidth. See [rules](references/rules.md).", front_matter="allowed-tools: add\n",
        references__rules_md="Carry\u202e the one.", scripts__run="true",
    )  # fmt: skip
    (root / "sums" / "logo.png").write_bytes(b"\x89PNG\0")
    write_skill(root, "tea", "Boil.")
    return root


@contextmanager
def over_http(server: FastMCP) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    running = uvicorn.Server(uvicorn.Config(server.http_app(), log_level="error", ws="none"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        running.should_exit = True
        thread.join(30)


def check_library(kit: Toolkit) -> None:
    assert set(kit.skills) == {"sums", "tea"}
    assert kit.skills["sums"].location == "skill://sums/"
    text = read(kit, "sums")
    assert text.startswith("Zero\\u200bwidth.")
    assert "Files of the skill, to be read with `read_skill`: logo.png, references/rules.md, scripts/run" in text
    assert read(kit, "sums", file="references/rules.md") == "Carry\\u202e the one."
    assert read(kit, "sums", file="scripts/run") == "true"
    assert "binary" in message(kit, "sums", file="logo.png")
    assert "has no file 'gone.md'" in message(kit, "sums", file="gone.md")
    assert "hidden-unicode" in [finding.rule for finding in kit.check(formats=["openai"])]


def test_a_server_over_stdio(folder):
    command = [sys.executable, str(Path(__file__).with_name("skill_server.py")), str(folder)]
    kit = Toolkit("k").add_skills(command)
    try:
        check_library(kit)
    finally:
        kit.remove_mcp()
    assert kit.skills == {}


def test_a_server_over_http(folder):
    with over_http(make_server(folder)) as url:
        kit = Toolkit("k").add_skills(url)
        check_library(kit)
        kit.remove_mcp()


@pytest.mark.parametrize("options", [{}, {"supporting_files": "resources"}, {"experimental_skills": True}])
def test_each_form_of_the_provider(folder, options):
    kit = Toolkit("k").add_skills(make_server(folder, **options))
    check_library(kit)
    kit.remove_mcp()


def test_a_served_toolkit(folder):
    kit = Toolkit("k").add_skills(Toolkit("library").add_skills(folder).to_fastmcp_server())
    check_library(kit)
    kit.remove_mcp()


def test_gateways_of_a_served_toolkit(folder):
    """What is hidden in the texts of a server is visible behind a gateway."""
    kits = [Toolkit("library").add_skills(folder)]
    for _ in range(3):
        kits.append(Toolkit("next").add_skills(kits[-1].to_fastmcp_server()))
    assert set(kits[-1].skills) == {"sums", "tea"}
    assert read(kits[-1], "sums").startswith("Zero\\u200bwidth.")
    assert read(kits[-1], "sums", file="references/rules.md") == "Carry\\u202e the one."
    assert "binary" in message(kits[-1], "sums", file="logo.png")
    assert "has no file 'gone.md'" in message(kits[-1], "sums", file="gone.md")
    for kit in reversed(kits):
        kit.remove_mcp()


@pytest.mark.parametrize("behind_gateway", [False, True])
def test_a_served_toolkit_with_pins(folder, tmp_path, behind_gateway):
    library = Toolkit("library").add_skills(folder)
    gateway = Toolkit("gateway").add_skills(library.to_fastmcp_server()) if behind_gateway else library
    kit = Toolkit("k").add_mcp(gateway.to_fastmcp_server(), name="docs", pin=tmp_path / "pins.json")
    kit.add_skills(kit.servers["docs"])
    assert read(kit, "tea") == "Boil."
    assert read(kit, "sums", file="scripts/run") == "true"
    (folder / "tea" / "SKILL.md").write_text("---\nname: tea\ndescription: x\n---\nPour it away.", "utf-8")
    assert "not what the host has accepted" in message(kit, "tea")
    for one in (kit, gateway):
        one.remove_mcp()


async def test_a_server_that_the_toolkit_has_keeps_its_tools(folder):
    server = make_server(folder)
    server.tool(add)
    kit = await Toolkit("k").aadd_mcp(server, name="docs")
    await kit.aadd_skills(kit.servers["docs"])
    assert {tool.name for tool in kit} == {"add", "read_skill"}
    assert (await kit.acall("read_skill", {"name": "tea"})) == "Boil."
    await kit.aremove_mcp("docs")
    assert (kit.skills, [tool.name for tool in kit]) == ({}, ["read_skill"])


def test_a_server_that_the_host_has_connected(folder):
    with mcp.connect(make_server(folder)) as server:
        kit = Toolkit("k").add_skills(server)
        assert read(kit, "tea") == "Boil."
        assert kit.servers == {}


def test_its_skills_activate_nothing_unless_they_are_trusted(folder):
    def groups(**options: bool) -> dict[str, bool]:
        kit = Toolkit("k").add_group("math").add(add, group="math").add_skills(make_server(folder), **options)
        read(kit, "sums")
        kit.remove_mcp()
        return kit.groups

    assert groups() == {"basic": True, "math": False}
    assert groups(trust=True) == {"basic": True, "math": True}


def test_a_text_that_changes_is_read_as_it_is(folder):
    kit = Toolkit("k").add_skills(make_server(folder))
    (folder / "tea" / "SKILL.md").write_text("---\nname: tea\ndescription: x\n---\nBrew.", "utf-8")
    assert read(kit, "tea") == "Brew."
    kit.remove_mcp()


class TestPins:
    def kit(self, folder: Path, tmp_path: Path) -> Toolkit:
        return Toolkit("k").add_mcp(make_server(folder), name="docs", pin=tmp_path / "mcp.lock")

    def test_what_changes_while_it_is_used_is_refused(self, folder, tmp_path):
        kit = self.kit(folder, tmp_path)
        kit.add_skills(kit.servers["docs"])
        assert read(kit, "sums", file="references/rules.md").startswith("Carry")
        (folder / "sums" / "references" / "rules.md").write_text("Drop the one.", "utf-8")
        (folder / "tea" / "SKILL.md").write_text("---\nname: tea\ndescription: x\n---\nBrew.", "utf-8")
        assert "is not what the host has accepted" in message(kit, "sums", file="references/rules.md")
        assert kit.exec("read_skill", {"name": "tea"}).error.code == "changed"
        assert read(kit, "sums").startswith("Zero")
        kit.remove_mcp()

    def test_what_has_changed_since_it_was_pinned_is_left_out_until_it_is_accepted(self, folder, tmp_path):
        first = self.kit(folder, tmp_path)
        first.add_skills(first.servers["docs"]).remove_mcp()
        (folder / "tea" / "SKILL.md").write_text("---\nname: tea\ndescription: x\n---\nBrew.", "utf-8")
        kit = self.kit(folder, tmp_path)
        kit.add_skills(kit.servers["docs"])
        assert list(kit.skills) == ["sums"]
        assert "accept_skills('tea')" in str(kit.load_errors[0])
        kit.servers["docs"].accept_skills("tea")
        kit.add_skills(kit.servers["docs"])
        assert set(kit.skills) == {"sums", "tea"}
        assert read(kit, "tea") == "Brew."
        kit.remove_mcp()

    def test_line_ends_of_windows(self, folder, tmp_path):
        (folder / "sums" / "references" / "rules.md").write_bytes(b"One.\r\nTwo.\r\n")
        kit = self.kit(folder, tmp_path)
        kit.add_skills(kit.servers["docs"])
        assert read(kit, "sums", file="references/rules.md").splitlines() == ["One.", "Two."]
        kit.remove_mcp()


SKILL = "---\nname: {name}\ndescription: Text.\n---\nDo it."


def hostile(**texts: str) -> FastMCP:
    """Return a server with these resources, by URI."""
    server = FastMCP("hostile")
    for uri, text in texts.items():
        server.add_resource(TextResource(uri=uri, name="x", text=text))
    return server


class TestHostile:
    @pytest.mark.parametrize(
        "uri",
        ["skill://tea/../../SKILL.md", "skill://tea/%2e%2e/x/SKILL.md", "skill://a%2Fb/SKILL.md", "skill://tea//SKILL.md",
         "skill://tea/SKILL.md?x=1", "skill:tea/SKILL.md", "http://tea/SKILL.md", "file:///etc/tea/SKILL.md",
         "skill://SKILL.md", "skill://tea/skill.md", "skill://t%00ea/SKILL.md", "skill://t%E2%80%8Bea/SKILL.md",
         f"skill://{'a' * 3000}/SKILL.md", "skill://tea\\x/SKILL.md"],
    )  # fmt: skip
    def test_uris_that_are_none_of_a_skill(self, uri):
        server = FastMCP("hostile")
        server.tool(add)
        resource = TextResource(uri="skill://tea/SKILL.md", name="x", text=SKILL.format(name="tea"))
        server.add_resource(resource.model_copy(update={"uri": uri}))  # without FastMCP's own changes of the URI
        kit = Toolkit("k")
        with pytest.raises(SourceError, match="has no skill"):
            kit.add_skills(server)
        assert (kit.skills, kit.servers) == ({}, {})

    @pytest.mark.parametrize(
        ("text", "words"),
        [(SKILL.format(name="../x"), "is no name"), (SKILL.format(name="Tea"), "is no name"), ("Boil.", "front matter"),
         ("---\n" + "a: &a [b]\n" * 3 + "---", "description|a"), ("a" * 3_000_000, "too large")],
    )  # fmt: skip
    def test_texts_that_are_no_skills(self, text, words):
        kit = Toolkit("k")
        with pytest.raises(SourceError, match=words):
            kit.add_skills(hostile(**{"skill://tea/SKILL.md": text}))
        assert kit.servers == {}

    def test_a_manifest_cannot_lead_out_of_the_skill(self):
        paths = [
            "../tea/SKILL.md",
            "/etc/passwd",
            "a\nb",
            "skill://x/y",
            "ok.md",
            5,
            None,
            "b\u200b.md",
            "a//b",
            "C:/x",
        ]
        manifest = json.dumps({"skill": "tea", "files": [*({"path": path} for path in paths), 5, None]})
        server = hostile(**{"skill://tea/SKILL.md": SKILL.format(name="tea"), "skill://tea/_manifest": manifest})
        kit = Toolkit("k").add_skills(server)
        assert read(kit, "tea").endswith("`read_skill`: ok.md")
        kit.remove_mcp()

    @pytest.mark.parametrize(
        "manifest", ["", "[]", "{}", '{"files": 5}', "[" * 100_000, '{"files": [' + "{}," * 9 + "1]}"]
    )
    def test_a_manifest_that_is_none(self, manifest):
        server = hostile(**{"skill://tea/SKILL.md": SKILL.format(name="tea"), "skill://tea/_manifest": manifest})
        kit = Toolkit("k").add_skills(server)
        assert read(kit, "tea") == "Do it."
        kit.remove_mcp()

    def test_files_that_are_only_listed_and_those_of_a_longer_path(self):
        server = hostile(
            **{
                "skill://acme/brew/tea/SKILL.md": SKILL.format(name="tea"),
                "skill://acme/brew/tea/references/a.md": "A.",
                "skill://acme/brew/coffee/b.md": "B.",
            }
        )
        kit = Toolkit("k").add_skills(server)
        assert kit.skills["tea"].location == "skill://acme/brew/tea/"
        assert read(kit, "tea").endswith("`read_skill`: references/a.md")
        assert read(kit, "tea", file="references/a.md") == "A."
        assert "b.md" not in read(kit, "tea")
        kit.remove_mcp()

    def test_two_skills_of_one_name_and_one_of_another_source(self, tmp_path):
        server = hostile(
            **{"skill://a/tea/SKILL.md": SKILL.format(name="tea"), "skill://b/tea/SKILL.md": SKILL.format(name="tea")}
        )
        own = write_skill(tmp_path, "tea", "Mine.")
        with pytest.raises(ToolkitError, match="There is a skill 'tea' already"):
            Toolkit("k").add_skills(server)
        kit = Toolkit("k", on_duplicate="keep").add_skills(own).add_skills(server)
        assert read(kit, "tea") == "Mine."
        kit.remove_mcp()

    def test_a_server_that_is_gone(self):
        kit = Toolkit("k")
        with pytest.raises(ToolConnectionError):
            kit.add_skills("http://127.0.0.1:9/mcp")
        assert (kit.skills, kit.servers, list(kit)) == ({}, {}, [])

    def test_a_server_that_fails_later(self, folder):
        command = [sys.executable, str(Path(__file__).with_name("skill_server.py")), str(folder)]
        kit = Toolkit("k").add_skills(command)
        kit.servers[next(iter(kit.servers))].close()
        assert kit.exec("read_skill", {"name": "tea"}).error.code == "connection"
        kit.remove_mcp()


def test_each_session_reads_with_its_own_credentials():
    server = FastMCP("library")

    @server.resource("skill://tea/SKILL.md")
    def tea() -> str:
        token = get_http_headers(include_all=True).get("authorization", "none")
        return f"---\nname: tea\ndescription: Text.\n---\nFor {token}."

    with over_http(server) as url:
        kit = Toolkit("k", state={"token": "host"}).add_mcp(url, name="docs", auth=lambda state: state["token"])
        kit.add_skills(kit.servers["docs"])
        texts = [read(kit.session(token=token), "tea") for token in ("ann", "bob")]
        kit.remove_mcp()
    assert texts == ["For Bearer ann.", "For Bearer bob."]
