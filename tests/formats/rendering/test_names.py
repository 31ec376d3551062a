"""Wire names are valid for every provider, depend only on the tool's own name, and are translated back."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools import ToolDefinition, ToolSpec
from ahvn_tools.errors import DefinitionError, ToolLookupError
from ahvn_tools.formats.rendering.names import index_by_wire_name, resolve_choice, wire_name

VALID = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")


@pytest.mark.parametrize("name", ["a", "_", "get_weather", "Get-Weather2", "a" * 64])
def test_a_valid_name_is_unchanged(name):
    assert wire_name(name) == name


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("math.sqrt", "math_sqrt_"),
        ("2fast", "_2fast_"),
        ("-dash", "_-dash_"),
        ("", "__"),
        ("Straße", "Stra_e_"),
        ("ends\n", "ends__"),
        ("a" * 65, "a" * 55 + "_"),
        ("天气", "___"),
    ],
)
def test_an_invalid_name_ends_with_its_hash(name, start):
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    assert wire_name(name) == start + digest
    assert VALID.fullmatch(wire_name(name))


@given(st.text() | st.from_regex(r"[a-z_.]{50,80}", fullmatch=True))
def test_every_wire_name_is_valid_and_stable(name):
    wire = wire_name(name)
    assert VALID.fullmatch(wire)
    assert wire_name(wire) == wire


def test_a_name_with_a_lone_surrogate_becomes_valid():
    assert VALID.fullmatch(wire_name("a\ud800"))


@given(st.lists(st.text(max_size=80), unique=True))
def test_different_names_stay_different(names):
    definitions = [ToolDefinition(name=name) for name in names]
    assert [definition.name for definition in index_by_wire_name(definitions).values()] == names


def test_a_name_that_equals_another_wire_name_is_refused():
    taken = wire_name("a.b")
    with pytest.raises(DefinitionError, match=f"'a.b' and '{taken}' would both be called '{taken}'. Rename one."):
        index_by_wire_name([ToolDefinition(name="a.b"), ToolDefinition(name=taken)])


def test_chosen_names_are_wire_names_each_once():
    assert resolve_choice("a.b") == [wire_name("a.b")]
    assert resolve_choice(["c", "a.b", "c"]) == ["c", wire_name("a.b")]


def test_chosen_names_are_looked_up_where_there_are_definitions():
    definitions = [ToolDefinition(name="search"), ToolDefinition(name="send")]
    assert resolve_choice(["send", "search"], definitions) == ["send", "search"]
    with pytest.raises(ToolLookupError, match="Did you mean 'search'"):
        resolve_choice(["send", "serch"], definitions)


def test_an_object_that_is_no_definition_is_refused_with_the_fix():
    spec = ToolSpec.from_function(len, name="measure")
    with pytest.raises(TypeError, match=r"not a ToolSpec\. Pass `spec\.definition`"):
        index_by_wire_name([spec])
