"""Manifests that include other manifests."""

from __future__ import annotations

from pathlib import Path

import pytest

from ahvn_tools import load
from ahvn_tools.errors import SourceError


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)


def test_tools_come_with_what_their_own_manifest_says(folder: Path) -> None:
    """Its bindings, presets, timeouts, middleware and groups."""
    (folder / "parts").mkdir()
    write(
        folder / "parts",
        inner="""
            sources: [{source: ../notes.py, group: notes}]
            binds: {user: user.name}
            tools: {find: {preset: {limit: 3}}}
            timeout: 8
            middleware: [notes:shout]
            groups: {notes: {description: Notes, notes: Careful, active: false}}
            """,
    )
    write(
        folder,
        kit="sources: [{manifest: parts/inner.yaml, prefix: n_, tags: inner}]\ntools: {n_find: {preset: {token: t}}}",
    )
    kit = load("kit.yaml")
    assert [spec.name for spec in kit] == ["n_find", "n_delete", "n_restore"]
    assert kit.groups == {"basic": True, "notes": False}
    kit.activate("notes")
    assert kit.exec("n_find", {"query": "q"}).value == "Q 3 T"
    assert kit.session(user={"name": "ann"}).exec("n_delete", {"note": 1}).value == "ANN DELETED 1"
    assert kit["n_find"].timeout == 8
    assert kit["n_find"].tags == {"read", "inner"}
    assert kit.notes == "## notes\nCareful"


def test_a_text_includes_a_manifest_too(folder: Path) -> None:
    write(folder, kit="sources: [inner.yaml]", inner="sources: [notes.py:find]")
    assert [spec.name for spec in load("kit.yaml")] == ["find"]


def test_the_profile_is_passed_on_where_there_is_one_of_its_name(folder: Path) -> None:
    inner = "sources: [notes.py:find]\nprofiles: {dev: {timeout: 5}, slow: {timeout: 50}}"
    write(
        folder,
        inner=inner,
        plain="sources: [notes.py:delete]",
        kit="sources: [inner.yaml, plain.yaml, {manifest: inner.yaml, profile: slow, prefix: s_}]\nprofiles: {dev: {}}",
    )
    kit = load("kit.yaml", profile="dev")
    assert [spec.timeout for spec in kit] == [5, None, 50]
    assert [spec.timeout for spec in load("kit.yaml")] == [None, None, 50]


def test_an_unknown_profile_of_an_included_manifest_is_an_error(folder: Path) -> None:
    write(folder, inner="profiles: {slow: {}}", kit="sources:\n- manifest: inner.yaml\n  profile: slw")
    with pytest.raises(SourceError) as caught:
        load("kit.yaml")
    assert str(caught.value) == "inner.yaml:1: profiles: there is no profile 'slw'. Did you mean 'slow'?"


def test_the_audience_is_passed_on(folder: Path) -> None:
    inner = "sources: [notes.py]\naudiences: {sub: {tools: {find: {enabled: false}}}}"
    write(folder, inner=inner, kit="sources: [{manifest: inner.yaml, exclude: delete}]")
    assert [spec.name for spec in load("kit.yaml", audience="sub")] == ["restore"]
    assert [spec.name for spec in load("kit.yaml")] == ["find", "restore"]


def test_the_toolkit_for_everyone_is_not_for_an_audience_of_an_included_manifest(folder: Path) -> None:
    inner = "sources: [notes.py]\naudiences: {sub: {tools: {find: {enabled: false}}}}"
    write(folder, inner=inner, kit="sources: [inner.yaml]")
    for kit in (load("kit.yaml"), load("kit.yaml", "notes.py:archive")):
        with pytest.raises(ValueError, match=r"load it with audience='sub'"):
            kit.select(audience="sub")


def test_errors_of_an_included_manifest_name_its_file(folder: Path) -> None:
    (folder / "parts").mkdir()
    write(folder / "parts", inner="tols: {}\nsources: [missing.py]")
    write(folder, kit="sources: [parts/inner.yaml, {source: other.py}]")
    with pytest.raises(SourceError) as caught:
        load("kit.yaml")
    assert str(caught.value).splitlines() == [
        "parts/inner.yaml:1: tols: there is no such key. Did you mean 'tools'?",
        "kit.yaml:1: sources[1]: There is no file 'other.py'.",
    ]


@pytest.mark.parametrize("inner", ["sources: [kit.yaml]", "sources: [sub/../kit.yaml]", "sources: [third.yaml]"])
def test_a_manifest_does_not_include_itself(inner: str, folder: Path) -> None:
    (folder / "sub").mkdir()
    write(folder, kit="sources: [inner.yaml]", inner=inner, third="sources: [{manifest: kit.yaml}]")
    with pytest.raises(SourceError, match=r"the manifest includes itself: kit\.yaml -> "):
        load("kit.yaml")


def test_a_manifest_may_be_included_twice(folder: Path) -> None:
    write(
        folder,
        inner="sources: [notes.py:find]",
        kit="sources: [{manifest: inner.yaml, prefix: a_}, {manifest: inner.yaml, prefix: b_}]",
    )
    assert [spec.name for spec in load("kit.yaml")] == ["a_find", "b_find"]


def test_what_was_skipped_in_an_included_manifest_is_reported(folder: Path) -> None:
    (folder / "many").mkdir()
    (folder / "many" / "bad.py").write_text("not Python at all")
    (folder / "many" / "good.py").write_text("from ahvn_tools import tool\n@tool\ndef good(): return 1\n")
    write(folder, kit="sources: [inner.yaml]", inner="sources: [many]")
    assert len(load("kit.yaml").load_errors) == 1
    assert len(load("kit.yaml", "notes.py").load_errors) == 1


def test_a_long_chain_of_manifests_ends(folder: Path) -> None:
    """A chain that is too long for the interpreter is an error, not a crash."""
    for number in range(60):
        write(folder, **{f"m{number}": f"sources: [m{number + 1}.yaml]"})
    write(folder, m60="sources: [notes.py:find]")
    with pytest.raises(SourceError, match="at most 20"):
        load("m0.yaml")
    assert len(load("m45.yaml")) == 1
