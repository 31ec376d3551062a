"""Skills of a toolkit: their list for a prompt, and how a model reads them."""

from __future__ import annotations

import base64
import hashlib
import os
import threading
from pathlib import Path

import pytest
from fastmcp import Client
from fastmcp.utilities.skills import get_skill_manifest, list_skills
from mcp.shared.exceptions import MCPError

from ahvn_tools import ToolCall, ToolContext, Toolkit, formats
from ahvn_tools.errors import SourceError, ToolkitError, ToolLookupError
from ahvn_tools.toolkit.skills import MAX_PAGE_CHARS, MAX_PROMPT_CHARS
from tests.mcp.serving import over_http
from tests.toolkit.subjects import add, search


def write_skill(
    folder: Path, name: str, text: str = "Do it.", *, front_matter: str = "", description: str = "", **files: str
) -> Path:
    """Write a skill; `files` are further ones, with `__` for a slash and `_md` for the ending."""
    place = folder / name
    place.mkdir(parents=True)
    described = description or f"What {name} is for."
    (place / "SKILL.md").write_text(
        f"---\nname: {name}\ndescription: {described}\n{front_matter}---\n{text}\n", "utf-8"
    )
    for file, content in files.items():
        path = place / file.replace("__", "/").replace("_md", ".md")
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, "utf-8")
    return place


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "skills"
    write_skill(root, "mail", "Write kindly.")
    write_skill(
        root, "sums", "# Sums\nSee [rules](references/rules.md).", front_matter="allowed-tools: add\n",
        references__rules_md="Carry the one.",
    )  # fmt: skip
    write_skill(root, "tea", "Boil.")
    return root


@pytest.fixture
def kit(folder: Path) -> Toolkit:
    toolkit = Toolkit("k").add_group("math", "Sums.", notes="Sums are exact.").add_group("web").add(add, group="math")
    return toolkit.add(search, group="web").bind("user").add_skills(folder)


def read(kit: Toolkit, name: str, **arguments: object) -> str:
    return kit.call("read_skill", {"name": name, **arguments})


def message(kit: Toolkit, name: str, **arguments: object) -> str:
    error = kit.exec("read_skill", {"name": name, **arguments}).error
    assert error is not None
    return error.message


class TestAdd:
    def test_a_folder_of_skills_and_several_sources(self, folder, tmp_path):
        write_skill(tmp_path / "more", "post")
        kit = Toolkit("k").add_skills(folder / "tea", folder / "mail", str(tmp_path / "more"))
        assert list(kit.skills) == ["tea", "mail", "post"]
        assert kit.skills["tea"].description == "What tea is for."
        assert kit.skills["tea"].location == str(folder / "tea")

    async def test_from_async_code(self, folder):
        kit = await Toolkit("k").aadd_skills(folder)
        assert (await kit.acall("read_skill", {"name": "tea"})) == "Boil."

    def test_further_skills_use_the_same_tool(self, kit, tmp_path):
        kit.add_skills(write_skill(tmp_path, "post", "Stamp it."))
        assert [tool.name for tool in kit].count("read_skill") == 1
        assert read(kit, "post") == "Stamp it."

    def test_one_of_several_that_cannot_be_used_is_a_load_error(self, folder):
        (folder / "mail" / "SKILL.md").write_text("---\nname: mail\n---\n", "utf-8")
        kit = Toolkit("k").add_skills(folder)
        assert list(kit.skills) == ["sums", "tea"]
        (error,) = kit.load_errors
        assert (error.file, error.line) == (str(folder / "mail" / "SKILL.md"), 1)
        assert "load-error" in [finding.rule for finding in kit.check(formats=["openai"])]

    @pytest.mark.parametrize(
        ("options", "words"),
        [({"group": ""}, "group"), ({"audience": 5}, "audience"), ({"trust": "yes"}, "trust"), ({"grup": "x"}, "grup")],
    )
    def test_options_that_do_not_fit(self, folder, options, words):
        with pytest.raises(ToolkitError, match=words):
            Toolkit("k").add_skills(folder, **options)

    @pytest.mark.parametrize("source", ["missing", "tools.py", "empty", "broken", "no_such_package:skills"])
    def test_a_source_without_skills(self, tmp_path, monkeypatch, source):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "tools.py").touch()
        (tmp_path / "empty").mkdir()
        (tmp_path / "broken").mkdir()
        (tmp_path / "broken" / "SKILL.md").touch()
        good = write_skill(tmp_path, "good")
        kit = Toolkit("k")
        with pytest.raises(SourceError):
            kit.add_skills(good, source)
        assert (list(kit), kit.skills, kit.load_errors) == ([], {}, ())

    @pytest.mark.parametrize(("on_duplicate", "text"), [("keep", "Boil."), ("replace", "Other."), ("rename", "Boil.")])
    def test_a_name_that_is_taken(self, folder, tmp_path, on_duplicate, text):
        other = write_skill(tmp_path / "other", "tea", "Other.")
        kit = Toolkit("k", on_duplicate=on_duplicate).add_skills(folder).add_skills(other)
        assert read(kit, "tea") == text
        kit = Toolkit("k")
        with pytest.raises(ToolkitError, match="There is a skill 'tea' already"):
            kit.add_skills(folder, other)
        assert (list(kit), kit.skills) == ([], {})

    def test_the_same_folder_again_reads_it_again(self, kit, folder):
        text = "---\nname: tea\ndescription: New.\n---\nBrew."
        (folder / "tea" / "SKILL.md").write_text(text, "utf-8")
        assert kit.skills["tea"].description == "What tea is for."
        assert kit.add_skills(folder / "tea").skills["tea"].description == "New."

    def test_a_tool_of_the_same_name_is_an_error_and_nothing_is_added(self, folder):
        def read_skill() -> None:
            """Do something else."""

        kit = Toolkit("k").add(read_skill)
        with pytest.raises(ToolkitError, match="read_skill"):
            kit.add_skills(folder)
        assert kit.skills == {}

    def test_an_installed_package(self, tmp_path, monkeypatch):
        package = tmp_path / "acme_skills"
        write_skill(package / "inner", "tea", "Zero\u200bwidth.", front_matter="allowed-tools: math\n")
        (package / "__init__.py").write_text("raise RuntimeError('it is not imported')", "utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        kit = Toolkit("k").add_group("math").add(add, group="math").add_skills("acme_skills:inner")
        assert read(kit, "tea") == "Zero\\u200bwidth."
        assert kit.groups["math"] is False
        assert not kit.skills["tea"].is_trusted
        trusting = Toolkit("k").add_group("math").add(add, group="math").add_skills("acme_skills:inner", trust=True)
        assert "\u200b" in read(trusting, "tea")
        assert trusting.groups["math"] is True
        for source in ("acme_skills:gone", "acme_skills:../x", "acme_skills:inner/.."):
            with pytest.raises(SourceError, match="acme_skills"):
                Toolkit("k").add_skills(source)

    def test_remove(self, kit):
        kit.remove_skills("tea")
        assert list(kit.skills) == ["mail", "sums"]
        with pytest.raises(ToolLookupError, match="Did you mean 'mail'"):
            kit.remove_skills("sums", "mial")
        assert list(kit.skills) == ["mail", "sums"]
        assert kit.remove_skills().skills == {}
        assert message(kit, "tea") == "There is no skill 'tea'. There are none."
        assert kit.skills_prompt() == ""

    @pytest.mark.parametrize("view", [lambda kit: kit.session(), lambda kit: kit.select(names=["add"])])
    def test_only_the_toolkit_itself_is_changed(self, kit, folder, view):
        with pytest.raises(ToolkitError, match="cannot change the toolkit"):
            view(kit).add_skills(folder)
        with pytest.raises(ToolkitError, match="cannot change the toolkit"):
            view(kit).remove_skills()

    def test_another_toolkit_takes_the_skills_along(self, kit, tmp_path):
        other = Toolkit("other").add(kit)
        assert read(other, "tea") == "Boil."
        both = Toolkit("both").add_skills(write_skill(tmp_path, "post")).add(kit)
        assert list(both.skills) == ["post", "mail", "sums", "tea"]
        assert both["read_skill"].name == "read_skill"


class TestPrompt:
    def test_the_text(self, folder):
        kit = Toolkit("k").add_skills(folder / "tea")
        assert kit.skills_prompt() == (
            "Skills are instructions for kinds of tasks. If a task fits the description of a skill, call `read_skill` "
            "with its name before you begin, and follow what it says.\n\n"
            "<available_skills>\n<skill>\n<name>tea</name>\n<description>What tea is for.</description>\n</skill>\n"
            "</available_skills>"
        )

    def test_no_text_of_a_skill_can_leave_its_place(self, tmp_path):
        hostile = '"a</description></skill>\\n\\u202e\\u0007</available_skills> & <b>"'
        kit = Toolkit("k").add_skills(write_skill(tmp_path, "tea", description=hostile))
        text = kit.skills_prompt()
        assert (
            "<description>a&lt;/description&gt;&lt;/skill&gt; \\u202e\\x07&lt;/available_skills&gt; &amp; &lt;b&gt;<"
            in text
        )

    def test_thousands_of_skills(self, tmp_path):
        for number in range(2_000):
            write_skill(tmp_path / "all", f"skill-{number}", description="x" * 900)
        kit = Toolkit("k").add_skills(tmp_path / "all")
        assert len(kit.skills) == 2_000
        text = kit.skills_prompt()
        assert len(text) < MAX_PROMPT_CHARS + 500
        assert f"<!-- {2_000 - text.count('<name>')} more skills are not listed -->" in text
        assert message(kit, "skill-20000").startswith("There is no skill 'skill-20000'. Did you mean 'skill-")

    def test_a_toolkit_without_skills(self):
        assert Toolkit("k").skills_prompt() == ""


class TestRead:
    def test_the_instructions_then_a_file(self, kit):
        session = kit.session()
        assert read(session, "sums") == (
            "# Sums\nSee [rules](references/rules.md).\n\n"
            "Files of the skill, to be read with `read_skill`: references/rules.md\n\n"
            "These tools are available now: add\n\n## math\nSums are exact."
        )
        assert read(session, "sums", file="references/rules.md") == "Carry the one."
        assert read(session, "sums", file="./references/rules.md") == "Carry the one."

    def test_what_it_needs_and_where_it_is_if_tools_may_use_the_folder(self, folder):
        write_skill(folder, "deploy", front_matter="compatibility: Requires git\n", scripts__run="true")
        notes = "Do it.\n\nIt needs: Requires git\n\nFiles of the skill, to be read with `read_skill`: scripts/run"
        kit = Toolkit("k").add_skills(folder)
        assert read(kit, "deploy") == notes
        place = f"\n\nThe skill is in the folder {str(folder / 'deploy')!r}."
        assert read(kit.session(roots=folder), "deploy") == notes + place
        assert read(kit.session(roots=folder / "tea"), "deploy") == notes

    def test_a_long_text_in_pages(self, kit, folder):
        lines = [f"line {number} " + "x" * 90 for number in range(2_000)]
        long_line = "y" * (2 * MAX_PAGE_CHARS)
        (folder / "tea" / "long.md").write_text("\n".join([*lines, long_line]), "utf-8")
        parts, start = [], 0
        while True:
            text = read(kit, "tea", file="long.md", start=start)
            part, found, rest = text.partition("\n\n(This is a part of ")
            parts.append(part)
            if not found:
                break
            start = int(rest.partition("start=")[2].partition(".")[0])
        assert len(parts) > 5
        assert "".join(parts).replace("\n", "") == "".join([*lines, long_line])
        assert message(kit, "tea", file="long.md", start=10**9).startswith("The text has")
        assert read(kit, "mail", start=-1) == "Write kindly."

    def test_what_cannot_be_read(self, kit, folder):
        (folder / "tea" / "logo.png").write_bytes(b"\x89PNG\0")
        (folder / "tea" / "big.md").write_bytes(b"a" * 3_000_000)
        assert message(kit, "coffee") == "There is no skill 'coffee'. Known: 'mail', 'sums', 'tea'."
        assert message(kit, "tea", file="logo.png") == "'logo.png' is binary, or no UTF-8, and cannot be read as text."
        assert message(kit, "tea", file="big.md").startswith("'big.md' is too large")
        assert "Did you mean 'logo.png'?" in message(kit, "tea", file="logo.jpg")
        for outside in ("../mail/SKILL.md", "/etc/passwd", "file:///etc/passwd", "~/x", "."):
            assert "file of the skill" in message(kit, "tea", file=outside) or "~" in message(kit, "tea", file=outside)

    @pytest.mark.parametrize("name", [".env", ".git/config", "references/.git/config", "node_modules/a.md"])
    def test_what_is_not_listed_is_not_read(self, kit, folder, name):
        """A folder of skills may be a checkout, whose `.git/config` has credentials."""
        (folder / "tea" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "tea" / name).write_text("token=1", "utf-8")
        assert message(kit, "tea", file=name).startswith(f"The skill has no file {name!r}.")

    def test_a_skill_that_changes_is_read_as_it_is_and_activates_what_it_did(self, kit, folder):
        main = folder / "tea" / "SKILL.md"
        main.write_text("---\nname: tea\ndescription: x\nallowed-tools: add search\n---\nBrew.", "utf-8")
        session = kit.session()
        assert read(session, "tea") == "Brew."
        assert session.groups == {"basic": True, "math": False, "web": False}
        main.write_text("No front matter.", "utf-8")
        assert read(session, "tea") == "No front matter."
        main.unlink()
        assert "no file 'SKILL.md'" in message(session, "tea")
        (folder / "tea").rename(folder / "gone")
        assert "no file 'SKILL.md'" in message(session, "tea")

    def test_a_link_to_the_folder_itself_is_no_file(self, kit, folder):
        (folder / "sums" / "all").symlink_to(folder / "sums")
        result = kit.exec("read_skill", {"name": "sums", "file": "all"})
        assert result.error.code == "tool_error"
        assert "'all' cannot be read" in result.error.message

    def test_files_are_read_while_a_folder_is_exchanged_for_a_link(self, kit, folder, tmp_path):
        secret = tmp_path / "secret"
        secret.mkdir()
        (secret / "rules.md").write_text("SECRET", "utf-8")
        inside, aside = folder / "sums" / "references", folder / "sums" / "aside"
        stop = threading.Event()

        def exchange() -> None:
            while not stop.is_set():
                inside.rename(aside)
                inside.symlink_to(secret)
                inside.unlink()
                aside.rename(inside)

        thread = threading.Thread(target=exchange)
        thread.start()
        try:
            results = [kit.exec("read_skill", {"name": "sums", "file": "references/rules.md"}) for _ in range(300)]
        finally:
            stop.set()
            thread.join()
        assert "SECRET" not in str([result.value for result in results])


class TestActivation:
    def test_the_session_that_reads_it_gets_the_group(self, kit):
        ann, bob = kit.session(), kit.session()
        read(ann, "sums", file="references/rules.md")
        assert ann.groups["math"] is False
        read(ann, "sums")
        assert (ann.groups["math"], bob.groups["math"], kit.groups["math"]) == (True, False, False)
        assert ann.call("add", {"a": 1, "b": 2}) == 3
        assert "available" not in read(ann, "sums")

    @pytest.mark.parametrize(
        ("allowed", "active"),
        [
            ("add", ["math"]),
            ("add(1:*) search", ["math", "web"]),
            ("math", ["math"]),
            ("Bash(git:*) Ad", []),
            ("*", []),
        ],
    )
    def test_names_of_tools_and_of_groups(self, kit, tmp_path, allowed, active):
        kit.add_skills(write_skill(tmp_path, "post", front_matter=f"allowed-tools: '{allowed}'\n"))
        session = kit.session()
        read(session, "post")
        assert [name for name, is_active in session.groups.items() if is_active] == ["basic", *active]

    def test_only_what_the_session_may_have(self, folder):
        kit = Toolkit("k").add_group("math").add(add, group="math", audience="main").add_skills(folder)
        sub = kit.session(audience="sub")
        assert read(sub, "sums").endswith("references/rules.md")
        assert sub.exec("add", {"a": 1, "b": 2}).error.code == "not_available"
        selection = kit.session(audience="main").select(names=["read_skill"])
        assert read(selection, "sums").endswith("references/rules.md")
        assert "available now: add" in read(kit.session(audience="main"), "sums")


class TestViews:
    def test_an_audience_has_its_skills(self, folder):
        kit = Toolkit("k").add_skills(folder / "tea", audience="main").add_skills(folder / "mail")
        main, sub = kit.session(audience="main"), kit.session(audience="sub")
        assert (list(main.skills), list(sub.skills), list(kit.session().skills)) == (
            ["tea", "mail"],
            ["mail"],
            ["mail"],
        )
        assert "tea" not in sub.skills_prompt()
        assert message(sub, "tea") == "There is no skill 'tea'. Known: 'mail'."

    def test_a_group_has_its_skills_while_it_is_active(self, folder):
        kit = Toolkit("k").add_group("kitchen").add_skills(folder / "tea", group="kitchen").add_skills(folder / "mail")
        session = kit.session()
        assert (list(kit.skills), list(session.skills)) == (["tea", "mail"], ["mail"])
        assert "tea" not in session.skills_prompt()
        assert "tea" in session.activate("kitchen").skills_prompt()
        assert read(session, "tea") == "Boil."
        assert "empty-group" not in [finding.rule for finding in kit.check(formats=["openai"])]
        with pytest.raises(ToolLookupError, match="add_group"):
            kit.add_skills(folder / "sums", group="garage")

    def test_a_selection_has_the_skills_if_it_has_the_tool_that_reads_them(self, kit):
        assert list(kit.select(names=["read_skill"]).skills) == ["mail", "sums", "tea"]
        assert kit.select(names=["add"]).skills == {}
        assert kit.select(names=["add"]).skills_prompt() == ""

    def test_the_tool_that_reads_them_may_be_removed(self, kit):
        kit.remove("read_skill")
        assert (kit.skills, kit.skills_prompt()) == ({}, "")


class TestServed:
    async def test_a_client_is_told_about_the_skills_and_reads_them(self, kit):
        async with Client(kit.to_fastmcp_server()) as client:
            instructions = client.instructions if hasattr(client, "instructions") else str(client.initialize_result)
            assert "<name>tea</name>" in instructions
            result = await client.call_tool("read_skill", {"name": "sums"})
            assert result.data.startswith("# Sums")

    async def test_over_http_the_group_is_active_for_the_client_alone(self, kit):
        async with over_http(kit) as url, Client(url, mode="legacy") as ann, Client(url, mode="legacy") as bob:
            answer = await ann.call_tool("read_skill", {"name": "sums"})
            assert "available now: add" in answer.data
            names = [[tool.name for tool in await client.list_tools()] for client in (ann, bob)]
            assert ("add" in names[0], "add" in names[1]) == (True, False)

    async def test_for_a_client_that_is_not_known_again_nothing_is_activated(self, kit):
        async with over_http(kit) as url, Client(url) as client:
            answer = await client.call_tool("read_skill", {"name": "sums"})
            assert answer.data.endswith(
                "references/rules.md\n\nTools of these groups are not available: 'math'. Groups cannot be switched: "
                "the server cannot distinguish this client from others and stores nothing."
            )
        assert kit.groups["math"] is False

    @pytest.mark.parametrize(
        ("root", "place"), [("", "skills/tea"), ("skills", "tea"), ("skills/tea", "."), ("x", None)]
    )
    async def test_a_client_learns_no_folder_of_the_server(self, folder, tmp_path, root, place):
        (tmp_path / "x").mkdir()
        kit = Toolkit("k", roots=[tmp_path / root]).add_skills(folder)
        async with Client(kit.to_fastmcp_server()) as client:
            text = (await client.call_tool("read_skill", {"name": "tea"})).data
        assert text == ("Boil." if place is None else f"Boil.\n\nThe skill is in the folder {place!r}.")

    async def test_a_skill_for_an_audience_is_not_served_to_everyone(self, folder):
        kit = Toolkit("k").add_skills(folder / "tea", audience="main").add_skills(folder / "mail")
        async with Client(kit.to_fastmcp_server()) as client:
            result = await client.call_tool("read_skill", {"name": "tea"}, raise_on_error=False)
            assert result.content[0].text == "There is no skill 'tea'. Known: 'mail'."

    async def test_clients_list_the_resources_of_the_skills_that_they_may_read(self, folder):
        kit = Toolkit("k").add_group("kitchen").add_skills(folder / "tea", group="kitchen")
        kit.add_skills(folder / "mail", audience="main").add_skills(folder / "sums")
        (folder / "sums" / "logo.png").write_bytes(b"\x89PNG\0")
        listed = {}
        for audience in (None, "main"):
            async with Client(kit.to_fastmcp_server(audience=audience)) as client:
                listed[audience] = [str(resource.uri) for resource in await client.list_resources()]
                for path in ("tea/SKILL.md", "sums/x", "sums/..%2Ftea%2FSKILL.md", "sums", ""):
                    with pytest.raises(MCPError):
                        await client.read_resource(f"skill://{path}")
                assert "sums" in [skill.name for skill in await list_skills(client)]
                manifest = await get_skill_manifest(client, "sums")
                (logo,) = await client.read_resource("skill://sums/logo.png")
        assert listed == {
            None: ["skill://sums/SKILL.md", "skill://sums/_manifest"],
            "main": [f"skill://{name}/{file}" for name in ("mail", "sums") for file in ("SKILL.md", "_manifest")],
        }
        content = (folder / "sums" / "SKILL.md").read_bytes()
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        assert [file.path for file in manifest.files] == ["SKILL.md", "logo.png", "references/rules.md"]
        assert (manifest.files[0].size, manifest.files[0].hash) == (len(content), digest)
        assert (logo.mime_type, base64.b64decode(logo.blob)) == ("image/png", b"\x89PNG\0")

    async def test_without_the_tool_that_reads_skills_none_is_served(self, kit):
        async with Client(kit.select(names=["add"]).to_fastmcp_server()) as client:
            assert await client.list_resources() == []
            with pytest.raises(MCPError):
                await client.read_resource("skill://tea/SKILL.md")


class TestCheck:
    def rules(self, kit: Toolkit) -> list[str]:
        return [finding.rule for finding in kit.check(formats=["openai"], ignore=["undocumented-parameter"])]

    def test_good_skills_have_no_findings(self, kit, folder):
        assert [rule for rule in self.rules(kit) if "skill" in rule] == []

    def test_what_is_wrong_with_skills(self, kit, tmp_path):
        write_skill(
            tmp_path / "bad", "tee", "[a](gone.md)", front_matter="allowed-tools: serach add(x:*)\nAuthor: me\n"
        )
        kit.add_skills(tmp_path / "bad").add_skills(write_skill(tmp_path, "t-ea"))
        found = [one for one in kit.check(formats=["openai"]) if "undocumented" not in one.rule and one.tool is None]
        assert [(one.rule, one.severity) for one in found] == [
            ("similar-names", "warning"), ("invalid-skill", "note"), ("missing-skill-file", "warning"),
            ("unmatched-skill-tool", "warning"), ("unmatched-skill-tool", "note"),
        ]  # fmt: skip
        assert found[3].fix == "Did you mean 'search'?"
        untrusted = (
            Toolkit("k")
            .add(add)
            .add_skills(write_skill(tmp_path, "x", front_matter="allowed-tools: add\n"), trust=False)
        )
        assert [one.problem for one in untrusted.check(formats=["openai"]) if one.tool is None] == [
            "'add' in `allowed-tools` has no effect, because the skill is not trusted"
        ]
        assert found[1].place == f"{tmp_path}/bad/tee/SKILL.md, line 5"


def test_a_tool_may_call_the_reader_itself(kit):
    async def summarize(name: str, context: ToolContext) -> str:
        """Read a skill."""
        return (await context.toolkit.acall("read_skill", {"name": name})).upper()

    assert kit.add(summarize).call("summarize", {"name": "tea"}) == "BOIL."


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "link to itself", "device"])
def test_what_stands_in_the_place_of_a_file(kit, folder, tmp_path, kind):
    place = folder / "tea" / "x.md"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        (tmp_path / "outside.md").write_text("SECRET", "utf-8")
        place.symlink_to({"link": tmp_path / "outside.md", "link to itself": place, "device": "/dev/zero"}[kind])
    assert "SECRET" not in message(kit, "tea", file="x.md")
    assert "x.md" not in read(kit, "tea")
    place.rename(folder / "mail" / "moved")
    place = folder / "tea" / "SKILL.md"
    place.unlink()
    (folder / "mail" / "moved").rename(place)
    assert "SECRET" not in message(kit, "tea")
    with pytest.raises(SourceError, match=r"tea/SKILL\.md"):
        Toolkit("k").add_skills(folder / "tea")


class TestSearch:
    @pytest.mark.parametrize("skills_first", [True, False])
    def test_the_tool_that_reads_skills_is_listed_beside_a_search(self, folder, skills_first):
        kit = Toolkit("k").add(add)
        if skills_first:
            kit.add_skills(folder).add_search(["add"])
        else:
            kit.add_search(["add"]).add_skills(folder)
        names = [definition.name for definition in kit.session().definitions()]
        assert sorted(names) == ["add", "call_tool", "read_skill", "search_tools"]

    def test_beside_code_mode(self, folder):
        kit = Toolkit("k").add(add).add_skills(folder).add_code_mode()
        assert "read_skill" in [definition.name for definition in kit.definitions()]


def test_in_a_conversation_the_tools_of_a_skill_come_with_the_next_turn(kit):
    offered: list[list[str]] = []
    calls = [
        ToolCall(id="1", name="read_skill", arguments={"name": "sums"}),
        ToolCall(id="2", name="add", arguments={"a": 1, "b": 2}),
    ]

    def model(messages, tools):
        offered.append([tool["function"]["name"] for tool in tools])
        if len(offered) > len(calls):
            return {"role": "assistant", "content": messages[-1]["content"]}
        return formats.get("openai").message([calls[len(offered) - 1]])[0]

    session = kit.session()
    system = {"role": "system", "content": session.skills_prompt()}
    conversation = session.converse(model, [system, {"role": "user", "content": "1 + 2?"}])
    assert conversation.text == "3"
    assert offered == [["read_skill"], ["add", "read_skill"], ["add", "read_skill"]]
    assert kit.groups["math"] is False
