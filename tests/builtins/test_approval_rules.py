"""Approval rules about the built-in tools: no spelling and no roots of a call lead around a deny rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import ApprovalRules, Toolkit
from ahvn_tools.builtins import Git, Knowledge, Workspace, standard_toolkit

DENIED = "docs/private"
RULES = ApprovalRules(mode="allow", deny=[f'*({name}: "{DENIED}/**")' for name in ("uri", "target_uri")])
VALUES: dict[str, Any] = {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


def make_kit(folder: Path, call_roots: Any = "narrow") -> Toolkit:
    (folder / DENIED).mkdir(parents=True)
    (folder / "docs" / "link").symlink_to("private")
    return standard_toolkit(
        folder, rules=RULES, approve="never", sandbox="none", text_files=True, call_roots=call_roots, ask_user=True,
        knowledge=Knowledge(folder / "notes.db"), runner=lambda task: "",
    )  # fmt: skip


def parameters_of(tool: Any) -> dict[str, Any]:
    return tool.to_jsonschema()["parameters"]["properties"]


@pytest.mark.parametrize("call_roots", ["narrow", "replace"])
def test_no_spelling_of_a_path_leads_a_built_in_tool_around_a_deny_rule(tmp_path: Path, call_roots: Any):
    kit = make_kit(tmp_path.resolve(), call_roots)
    views = [kit, kit.session(), kit.session(roots=tmp_path), kit.session(roots=tmp_path / "docs"), kit.select()]
    inside = [
        f"{DENIED}/x", f"./{DENIED}//x", f"docs/../{DENIED}/x", "docs/link/x", "DOCS/Private/x", DENIED, f"{DENIED}/",
        f"{tmp_path}/{DENIED}/x", f"file://{tmp_path}/{DENIED}/x", f"FILE://localhost{tmp_path}/docs/%70rivate/x",
        "docs/\u200bprivate/x", "docs\\private\\x", "docs/%2570rivate/x", "docs/ｐrivate/x", f"{DENIED}/x\0.txt",
    ]  # fmt: skip
    in_session = ["private/x", "./private/../private/x", "link/x", "private"] if call_roots == "narrow" else []
    seen = set()
    for tool in kit:
        parameters = parameters_of(tool)
        for name in parameters.keys() & {"uri", "target_uri"}:
            seen.add(name)
            types = {other: schema.get("type") for other, schema in parameters.items() if other != name}
            others = {other: VALUES[given] for other, given in types.items() if isinstance(given, str)}
            for view in views:
                for path in [*inside, *(in_session if view is views[3] else [])]:
                    found = view.explain(tool.name, {**others, name: path})
                    assert found.decision == "deny", (tool.name, name, path, view)
    assert seen == {"uri", "target_uri"}


@pytest.mark.parametrize("call_roots", ["narrow", "replace"])
def test_paths_of_a_call_with_its_own_roots_begin_where_the_tool_begins(tmp_path: Path, call_roots: Any):
    """Rules begin in the folder of the tool, also where the paths of a session begin in a folder of its own."""
    for name in ("docs/private", "docs/open/docs/open"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "docs" / "private" / "x").write_text("private")
    rules = ApprovalRules(allow=['*(uri: "docs/open/**")'], deny=['*(uri: "docs/private/**")'])
    kit = Toolkit("files", rules=rules).add(Workspace(tmp_path, approve="never", call_roots=call_roots))
    session = kit.session(roots=tmp_path / "docs")
    assert session.exec("read_file", {"uri": "private/x"}).error is not None
    new = {"uri": "open/x", "content": ""}
    assert session.explain("create_file", new).decision == ("allow" if call_roots == "narrow" else "ask")
    new["uri"] = "docs/open/x"  # in a session, this is docs/docs/open/x
    assert session.explain("create_file", new).decision == ("ask" if call_roots == "narrow" else "allow")
    denied = kit.exec("read_file", {"uri": "private/x"}, roots=tmp_path / "docs")
    assert denied.error is not None
    assert denied.error.code == ("rejected" if call_roots == "narrow" else denied.error.code)


def test_a_tool_that_checks_paths_is_denied_by_the_rules_of_its_toolkit_in_each_session(tmp_path: Path):
    (tmp_path / "docs").mkdir()
    kit = Toolkit("files", roots=tmp_path, rules=ApprovalRules(mode="allow", deny=['*(path: "docs/private/**")']))

    @kit.tool
    def remove(path: str) -> str:
        """Remove."""
        return path

    outer = Toolkit("outer").add(kit)
    for view in (kit.session(roots=tmp_path / "docs"), outer.session(roots=tmp_path / "docs")):
        assert view.exec("remove", {"path": "private/x"}).error.code == "rejected"
        assert view.exec("remove", {"path": "open/x"}).value == "open/x"


@pytest.mark.parametrize("args", ["push", " push x", "'push' x", "pu''sh x", "\\push x", '"push"'])
def test_no_quotes_lead_a_command_of_git_around_a_deny_rule(tmp_path: Path, args: str):
    rules = ApprovalRules(mode="allow", deny=['git_cmd(args: "push*")'])
    kit = Toolkit("git", rules=rules).add(Git(tmp_path, approve="never", sandbox="none"))
    assert kit.exec("git_cmd", {"uri": ".", "args": args}).error.code == "rejected"
    assert kit.explain("git_cmd", {"uri": ".", "args": "status"}).decision == "allow"
