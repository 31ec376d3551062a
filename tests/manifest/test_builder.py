"""What the keys of a manifest mean for the toolkit."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from ahvn_tools import Toolkit, ToolSpec, load, tool
from ahvn_tools.errors import SourceError
from tests.manifest.conftest import Load


def names(kit: Toolkit) -> list[str]:
    return [spec.name for spec in kit]


def test_an_empty_manifest_is_a_toolkit_that_is_named_after_the_file(load_text: Load) -> None:
    kit = load_text("")
    assert (kit.name, names(kit)) == ("kit", [])


def test_name_and_sources(load_text: Load) -> None:
    kit = load_text("name: diary\nsources: [notes.py]")
    assert (kit.name, names(kit)) == ("diary", ["find", "delete", "restore"])
    assert kit.call("restore", {"note": 3}) == "restored 3"


def test_the_name_of_load_replaces_that_of_the_manifest(load_text: Load) -> None:
    assert load_text("name: diary", name="book").name == "book"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("notes.py", ["find", "delete", "restore"]),
        ("notes.py:find", ["find"]),
        ("notes:archive", ["restore"]),
        ("{source: notes.py, include: find}", ["find"]),
        ("{source: notes.py, include: ['*e', find]}", ["find", "delete", "restore"]),
        ("{source: notes.py, exclude: 're*'}", ["find", "delete"]),
        ("{source: notes.py, include: 'f*', prefix: note_}", ["note_find"]),
        ("{source: notes.py, include: [find, delete], rename: {find: search}}", ["search", "delete"]),
        ("{code: 'def add(a: int, b: int) -> int: return a + b'}", ["add"]),
        ('"def add(a: int, b: int) -> int:\\n  return a + b"', ["add"]),
    ],
)
def test_sources_in_all_ways_to_write_them(source: str, expected: list[str], load_text: Load) -> None:
    assert names(load_text(f"sources:\n  - {source}")) == expected


def test_paths_are_relative_to_the_folder_of_the_manifest(folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "more.py").write_text("from ahvn_tools import tool\n@tool\ndef more(): return 1\n")
    (folder / "inner" / "more.yaml").write_text("sources: [more.py, ../notes.py]")
    assert names(load("inner/more.yaml")) == ["more", "find", "delete", "restore"]


def test_a_folder_is_a_source(folder: Path, load_text: Load) -> None:
    (folder / "many").mkdir()
    (folder / "many" / "one.py").write_text("from ahvn_tools import tool\n@tool\ndef one(): return 1\n")
    (folder / "many" / "two.py").write_text("this is not Python")
    kit = load_text("sources: [many]")
    assert names(kit) == ["one"]
    assert "two.py" in str(kit.load_errors[0])


def test_options_of_a_source_apply_to_its_tools(load_text: Load) -> None:
    kit = load_text("""
        sources:
          - source: notes.py
            include: [find, delete]
            group: notes
            tags: [text, local]
            audience: main
            timeout: 7
            binds: {user: user.name}
        """)
    find, delete = kit["find"], kit["delete"]
    assert find.tags == {"read", "text", "local"}
    assert delete.tags == {"text", "local"}
    assert delete.binds == {"user": "user.name"}
    assert kit.session(user={"name": "ann"}, audience="main").call("delete", {"note": 1}) == "ann deleted 1"
    assert [spec.timeout for spec in kit] == [7, 7]
    assert names(kit.select(audience="sub")) == []
    assert kit.groups == {"basic": True, "notes": True}


def test_options_of_single_tools_replace_those_of_the_source(load_text: Load) -> None:
    kit = load_text("""
        sources:
          - {source: notes.py, prefix: n_, group: notes, tags: a, timeout: 7}
        tools:
          "n_*": {tags: b, timeout: 6, preset: {limit: 9, user: ann}}
          n_find:
            {group: other, timeout: 5, description: Look, preset: {limit: 1, token: tt},
             annotations: {readOnlyHint: true}, arguments: {query: {name: q, description: Words}}}
          n_restore: {enabled: false}
        """)
    assert names(kit) == ["n_find", "n_delete"]
    assert kit["n_find"].tags == {"read", "a", "b"}
    assert (kit["n_find"].timeout, kit["n_delete"].timeout) == (5, 6)
    assert [spec.name for spec in kit.group("other").tools] == ["n_find"]
    assert kit["n_find"].definition.description == "Look"
    assert kit["n_find"].definition.annotations["readOnlyHint"] is True
    assert kit["n_find"].definition.input_schema["properties"]["q"]["description"] == "Words"
    assert kit.call("n_delete", {"note": 1}) == "ann deleted 1"
    assert kit.call("n_find", {"q": "tea"}) == "tea 1 tt"


def test_groups_have_descriptions_notes_and_a_default(load_text: Load) -> None:
    kit = load_text("""
        sources: [{source: notes.py, group: notes}]
        groups:
          notes: {description: Notes, notes: Be careful., active: true}
          danger: Dangerous tools
        tools: {delete: {group: danger}}
        """)
    assert kit.groups == {"basic": True, "notes": True, "danger": False}
    assert kit.notes == "## notes\nBe careful."
    assert kit.group("danger").description == "Dangerous tools"
    assert kit.exec("delete", {"note": 1}).error.code == "not_available"


def test_toolsets_are_saved_selections_in_any_order(load_text: Load) -> None:
    kit = load_text("""
        sources: [notes.py]
        toolsets:
          all: {any_of: [writing, {tags: read}], description: Everything}
          writing: [delete, restore]
        """)
    assert names(kit.select(toolset="writing")) == ["delete", "restore"]
    assert names(kit.select(toolset="all")) == ["find", "delete", "restore"]
    assert kit.toolset("all").description == "Everything"


def test_binds_are_keys_of_the_state(load_text: Load) -> None:
    kit = load_text("""
        sources: [notes.py]
        binds:
          user: user.name
          token: {key: auth.token, secret: true, default: none}
        """)
    assert "user" not in str(kit.to("openai"))
    session = kit.session(user={"name": "ann"}, auth={"token": "t9"})
    assert session.call("delete", {"note": 1}) == "ann deleted 1"
    assert session.call("find", {"query": "tea"}) == "tea 5 t9"
    assert kit.exec("find", {"query": "tea", "token": "x"}).error.code == "invalid_parameters"
    assert "none" not in str(kit.state_dict())


def test_the_toolkit_has_the_options_of_the_manifest(load_text: Load) -> None:
    kit = load_text("""
        sources: [notes.py]
        timeout: 11
        max_concurrency: 3
        roots: [.]
        """)
    assert kit["find"].timeout == 11
    assert kit.max_concurrency == 3


def test_an_empty_list_of_roots_forbids_files(load_text: Load) -> None:
    source = "sources: [{builtins: [files], roots: [.]}]"
    names = load_text(source).call("ls", {"uri": "."})
    assert "notes.py" in names
    for roots in ("[]", "[]\nprofiles: {open: {roots: [.]}}"):
        forbidding = load_text(f"{source}\nroots: {roots}").exec("ls", {"uri": "."})
        assert forbidding.text.startswith("No folder may be used in this call")
        assert "notes.py" not in forbidding.text


def test_middleware_is_outermost_first(load_text: Load, caplog: pytest.LogCaptureFixture) -> None:
    kit = load_text("""
        sources: [{source: notes.py, middleware: [notes:shout]}]
        middleware: [log, {"notes:repeat": {times: 3}}]
        tools: {delete: {middleware: []}}
        """)
    with caplog.at_level(logging.INFO):
        assert kit.exec("restore", {"note": 1}).value == "RESTORED 1" * 3
        assert kit.exec("delete", {"note": 1}).value == "nobody deleted 1" * 3
    assert "restore" in caplog.text


def test_a_factory_without_options_is_called_with_an_empty_mapping(load_text: Load) -> None:
    kit = load_text("sources: [notes.py]\nmiddleware: [{'notes:repeat': {}}]")
    assert kit.exec("restore", {"note": 1}).value == "restored 1restored 1"


def test_files_of_middleware_are_in_the_folder_of_the_manifest(
    folder: Path, load_text: Load, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = load_text("sources: [notes.py]\nmiddleware: [{record: {path: calls.jsonl}}]")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    kit.exec("restore", {"note": 1})
    assert (folder / "calls.jsonl").exists()


def test_an_approver_decides(load_text: Load) -> None:
    kit = load_text(
        """
        sources: [notes.py]
        tools: {delete: {requires_approval: true}}
        approval: {approver: "notes:ask", store: approvals.sqlite, expiry: 60, secret_key: "${APPROVAL_KEY}"}
        """,
        env={"APPROVAL_KEY": "0123456789abcdef"},
    )
    assert kit.exec("delete", {"note": 1}).value == "nobody deleted 1"
    assert kit.exec("delete", {"note": 2}).error.code == "rejected"


def test_rules_decide(load_text: Load, folder: Path) -> None:
    kit = load_text(
        """
        sources: [notes.py]
        approval:
          approver: "notes:ask"
          secret_key: "${APPROVAL_KEY}"
          mode: allow
          allow: ["delete(note: 3)"]
          ask: delete
          deny: ["delete(note: 2)"]
          remember: rules.json
        """,
        env={"APPROVAL_KEY": "0123456789abcdef"},
    )
    assert kit.explain("delete", {"note": 1}).decision == "ask"
    assert kit.explain("delete", {"note": 2}).rule == "delete(note: 2)"
    assert kit.exec("delete", {"note": 2}).error.code == "rejected"
    assert kit.approval_mode == "allow"
    assert not (folder / "rules.json").exists()
    assert load_text("sources: [notes.py]\napproval: {mode: read_only}").exec("delete", {"note": 1}).is_error
    assert load_text("sources: [notes.py]\napproval: {expiry: 5}").approval_mode == "allow"


def test_search_and_groups_tool(load_text: Load) -> None:
    kit = load_text("""
        sources: [{source: notes.py, group: notes}]
        groups: {notes: Notes}
        search: {core: [set_groups], search_tool: {name: look}}
        groups_tool: {description: Switch groups}
        """)
    assert [definition.name for definition in kit.definitions()] == ["set_groups", "look", "call_tool"]
    assert kit["set_groups"].definition.description.startswith("Switch groups")
    assert "search_tools" in names(load_text("search: true"))


def test_code_mode(load_text: Load) -> None:
    pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")
    kit = load_text("""
        sources: [notes.py]
        code_mode: {core: [find], limits: {code_chars: 3}, run_tool: {name: python}}
        """)
    assert names(kit)[-3:] == ["search_tools", "describe_tools", "python"]
    assert [definition.name for definition in kit.definitions()] == ["find", "search_tools", "describe_tools", "python"]
    assert "it has 4 of 3 characters" in kit.exec("python", {"code": "1234"}).text
    assert [tool.name for tool in load_text("code_mode: {inline: true}").definitions()] == ["run_code"]


def test_code_mode_without_its_extra_says_what_to_install(load_text: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("ahvn_tools.code_mode.monty")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    with pytest.raises(SourceError, match=r'code_mode: .*pip install "ahvn-tools\[code\]"'):
        load_text("code_mode: true")


def test_the_first_of_two_tools_of_one_name_is_kept(load_text: Load, caplog: pytest.LogCaptureFixture) -> None:
    kit = load_text("""
        sources:
          - notes.py
          - code: "def find(query: str) -> str: return 'second'"
        """)
    assert kit.call("find", {"query": "tea"}) == "tea 5 none"
    assert [(duplicate.name, duplicate.action) for duplicate in kit.duplicates] == [("find", "keep")]
    assert "find" in caplog.text


def test_another_decision_about_two_tools_of_one_name(load_text: Load) -> None:
    source = "{code: 'def find() -> int: return 2', on_duplicate: replace}"
    assert load_text(f"sources: [notes.py, {source}]").call("find", {}) == 2
    kit = load_text("on_duplicate: rename\nsources: [notes.py, {code: 'def find() -> int: return 2'}]")
    assert names(kit) == ["find", "delete", "restore", "find_2"]


def test_several_sources_make_a_new_toolkit(folder: Path, load_text: Load) -> None:
    load_text("sources: [{source: notes.py, include: find}]\nbinds: {token: auth.token}")

    @tool
    def extra() -> int:
        return 1

    kit = load("kit.yaml", "notes.py:archive", extra, name="both")
    assert (kit.name, names(kit)) == ("both", ["find", "restore", "extra"])
    assert kit.session(auth={"token": "t"}).call("find", {"query": "q"}) == "q 5 t"


def test_a_single_toolkit_is_that_object_and_another_name_is_refused(folder: Path) -> None:
    kit = Toolkit("own")
    assert load(kit) is kit
    assert load(kit, name="own") is kit
    with pytest.raises(ValueError, match=r"Toolkit\('other'\)\.add"):
        load(kit, name="other")


def test_a_spec_of_a_source_is_not_changed(load_text: Load) -> None:
    load_text("sources: [{source: notes.py, tags: new}]\ntools: {find: {preset: {limit: 1}, description: Other}}")
    import notes  # made by the test

    assert isinstance(notes.find, ToolSpec)
    assert notes.find.tags == {"read"}
    assert notes.find(query="a") == "a 5 none"


def test_the_callers_of_tools_are_one_or_a_list(load_text: Load) -> None:
    kit = load_text(
        "sources: [{source: notes.py, allowed_callers: direct}]\ntools: {find: {allowed_callers: [programmatic]}}"
    )
    callers = {name: entry.allowed_callers for name, entry in kit._view.store.entries.items()}
    assert callers == {"find": {"programmatic"}, "delete": {"direct"}, "restore": {"direct"}}


@pytest.mark.parametrize("wrong", ["nobody", "[]"])
def test_what_is_no_caller_is_an_error_with_its_line(load_text: Load, wrong: str) -> None:
    with pytest.raises(SourceError, match=r"kit\.yaml:1: sources\[0\]"):
        load_text(f"sources: [{{source: notes.py, allowed_callers: {wrong}}}]")


@pytest.mark.parametrize(
    ("ui", "html"),
    [
        ("page.html", "<p>page</p>"),
        ("{html: page.html, visibility: [app]}", "<p>page</p>"),
        ("ui://desk/page.html", None),
        ("{text: <b>, resourceUri: 'ui://desk/page.html'}", "<b>"),
    ],
)
def test_a_tool_has_a_page(load_text, folder, ui, html):
    (folder / "page.html").write_text("<p>page</p>")
    kit = load_text(f"sources: [notes.py]\ntools: {{find: {{ui: {ui}}}}}")
    interface = kit["find"].compiled.template.options["ui"]
    assert interface.html == html
    assert kit["find"].definition.meta["ui"]["resourceUri"] == interface.uri
