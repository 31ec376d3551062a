"""Profiles and audiences: partial manifests that are merged over a manifest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ahvn_tools import load
from ahvn_tools.errors import SourceError, ToolkitError
from ahvn_tools.manifest.document import ManifestDocument, merge_part
from tests.manifest.conftest import Load

MANIFEST = """
sources: [notes.py]
timeout: 30
groups: {notes: {description: Notes, active: true}}
tools:
  find: {timeout: 9, tags: [a, b], preset: {limit: 2}}
middleware: [log]
profiles:
  dev:
    timeout: 5
    tools: {find: {tags: [c], preset: {token: dev}}, delete: {enabled: false}}
    middleware: []
  prod:
    timeout: null
    tools: {find: {preset: null}}
audiences:
  sub:
    tools: {find: {description: Find for a helper, preset: {limit: 1}}, delete: {enabled: false}}
"""


def test_a_profile_is_merged_over_the_manifest(load_text: Load) -> None:
    """Mappings are merged by key, lists are replaced, null removes what the manifest says."""
    base, dev, prod = (load_text(MANIFEST, profile=profile) for profile in (None, "dev", "prod"))
    assert [kit["find"].timeout for kit in (base, dev, prod)] == [9, 5, 9]
    assert [kit["restore"].timeout for kit in (base, dev, prod)] == [30, 5, None]
    assert [kit["find"].tags for kit in (base, dev)] == [{"read", "a", "b"}, {"read", "c"}]
    assert [spec.name for spec in dev] == ["find", "restore"]
    assert dev.call("find", {"query": "q"}) == "q 2 dev"
    assert prod.call("find", {"query": "q", "limit": 7}) == "q 7 none"
    assert dev.exec("find", {"query": "q", "limit": 7}).error.code == "invalid_parameters"


def test_the_environment_names_the_profile(load_text: Load) -> None:
    environment = {"AHVN_TOOLS_PROFILE": "dev"}
    assert load_text(MANIFEST, env=environment)["restore"].timeout == 5
    assert load_text(MANIFEST, env=environment, profile="prod")["restore"].timeout is None


def test_the_environment_does_not_matter_to_other_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AHVN_TOOLS_PROFILE", "dev")
    assert len(load("notes.py")) == 3


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (MANIFEST, {"profile": "prd"}, "kit.yaml:8: profiles: there is no profile 'prd'. Did you mean 'prod'?"),
        (
            "name: a",
            {"profile": "dev"},
            "kit.yaml:1: profiles: there is no profile 'dev'. The manifest has no profiles.",
        ),
        (
            MANIFEST,
            {"env": {"AHVN_TOOLS_PROFILE": "prd"}},
            (
                "kit.yaml:8: profiles: there is no profile 'prd'. Did you mean 'prod'? "
                "The environment variable AHVN_TOOLS_PROFILE names it."
            ),
        ),
    ],
)
def test_an_unknown_profile_is_an_error(text: str, options: dict[str, Any], message: str, load_text: Load) -> None:
    with pytest.raises(SourceError) as caught:
        load_text(text, **options)
    assert str(caught.value) == message


def test_a_profile_needs_a_manifest() -> None:
    with pytest.raises(SourceError, match="profile='dev' is for manifests"):
        load("notes.py", profile="dev")


def test_errors_in_a_profile_name_their_own_lines(load_text: Load) -> None:
    text = "sources: [notes.py]\ntools: {find: {timeout: 3}}\nprofiles:\n  dev:\n    tools:\n      fnd: {timeout: 3}\n"
    with pytest.raises(SourceError) as caught:
        load_text(text, profile="dev")
    assert str(caught.value) == "kit.yaml:6: profiles.dev.tools.fnd: there is no tool 'fnd'. Did you mean 'find'?"
    assert caught.value.line == 6


def test_errors_in_a_profile_that_is_not_used_are_reported(load_text: Load) -> None:
    with pytest.raises(SourceError, match=r"kit.yaml:2: profiles.prod.timeot: there is no such key"):
        load_text("profiles: {dev: {},\n  prod: {timeot: 3}}", profile="dev")


def test_variables_of_a_profile_that_is_not_used_may_be_missing(load_text: Load) -> None:
    text = "sources: [notes.py]\nprofiles: {prod: {timeout: '${SECONDS}'}, dev: {}}"
    assert load_text(text, env={})["find"].timeout is None
    assert load_text(text, profile="dev", env={})["find"].timeout is None
    assert load_text(text, profile="prod", env={"SECONDS": "12"})["find"].timeout == 12


def test_an_audience_has_its_own_toolkit(load_text: Load) -> None:
    sub = load_text(MANIFEST, audience="sub")
    assert [spec.name for spec in sub] == ["find", "restore"]
    assert sub["find"].definition.description == "Find for a helper"
    assert sub.call("find", {"query": "q"}) == "q 1 none"
    assert load_text(MANIFEST, audience="sub", profile="dev").call("find", {"query": "q"}) == "q 1 dev"
    assert [spec.name for spec in sub.select(audience="sub")] == ["find", "restore"]


def test_the_toolkit_for_everyone_is_not_for_such_an_audience(load_text: Load) -> None:
    """It would give the audience what the manifest hides from it."""
    kit = load_text(MANIFEST)
    for conditions in ({"audience": "sub"}, {"any_of": [{"audience": "sub"}]}):
        with pytest.raises(ToolkitError, match="load it with audience='sub'"):
            kit.select(**conditions)
    assert len(kit.select(audience="main")) == 3


def test_tools_of_other_audiences_are_left_out(load_text: Load) -> None:
    text = """
        sources: [{source: notes.py, audience: [main, sub]}]
        tools: {delete: {audience: main}}
        """
    assert [spec.name for spec in load_text(text, audience="sub")] == ["find", "restore"]
    assert [spec.name for spec in load_text(text, audience="sub").session()] == ["find", "restore"]
    assert [spec.name for spec in load_text(text).session()] == []
    assert [spec.name for spec in load_text(text, audience="main")] == ["find", "delete", "restore"]
    assert [spec.name for spec in load_text(text, audience="other")] == []
    assert len(load_text(text)) == 3


def test_the_audience_of_several_sources(load_text: Load) -> None:
    load_text(MANIFEST)
    kit = load("kit.yaml", "def own() -> int:\n    return 1", audience="sub")
    assert [spec.name for spec in kit] == ["find", "restore", "own"]


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)
MAPPINGS = st.dictionaries(st.text("abc", min_size=1, max_size=2), VALUES, max_size=4)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


def merged(below: Any, above: Any) -> Any:
    data = {**below, "profiles": {"p": above}}
    return merge_part(ManifestDocument(file=None, folder=None, data=data), "profiles", "p")  # type: ignore[arg-type]  # unused


@settings(max_examples=25)
@given(below=MAPPINGS, above=MAPPINGS)
def test_merging_is_by_key(below: dict[str, Any], above: dict[str, Any]) -> None:
    """What a profile says holds, what it does not mention stays, and where a part is written is known."""
    document = merged(below, above)
    for key in below.keys() | above.keys():
        if key not in above:
            assert document.data[key] == below[key]
            assert document.origin((key,)) == (key,)
        elif above[key] is None:
            assert key not in document.data
        elif isinstance(above[key], dict) and isinstance(below.get(key), dict):
            assert document.data[key] == merged(below[key], above[key]).data
        else:
            assert document.data[key] == without_nulls(above[key])
            assert document.origin((key,)) == ("profiles", "p", key)


@settings(max_examples=25)
@given(below=MAPPINGS, above=MAPPINGS)
def test_merging_twice_changes_nothing(below: dict[str, Any], above: dict[str, Any]) -> None:
    once = merged(below, above).data
    assert merged(once, above).data == once


@settings(max_examples=25)
@given(below=MAPPINGS)
def test_an_empty_profile_changes_nothing(below: dict[str, Any]) -> None:
    assert merged(below, {}).data == below
