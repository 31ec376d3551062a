"""`from_dict(to_dict())` gives the same tool: definition, behaviour and data."""

from __future__ import annotations

import functools
import json
import sys
from dataclasses import fields
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools import ToolSpec
from ahvn_tools.errors import UnboundStateError
from ahvn_tools.settings import ToolOptions
from tests.spec_data import tools
from tests.spec_data.subjects import ALL_OPTIONS, SUBJECTS, from_data, to_data

ARGUMENTS: dict[str, dict[str, Any]] = {
    "generator": {"limit": 2},
    "decorated": {"number": 4},
    "all-options": {"person": "Ann"},
    "transformed": {"who": "Ann"},
    "context": {"number": 1},
    "shipped-state": {"number": 1},
    "classmethod": {},
    "staticmethod": {"a": 1, "b": 2},
    "method-with-bound-self": {"item": "tea"},
    "secret": {"query": "q"},
    "variable": {"query": "q"},
    "code": {"radius": 2},
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_the_same_definition_bindings_and_data_come_back(name):
    spec = SUBJECTS[name]()
    data = to_data(spec)
    twin = from_data(data)
    assert type(twin) is ToolSpec
    assert twin.definition == spec.definition
    assert dict(twin.binds) == dict(spec.binds)
    assert json.dumps(twin.to_dict(values=True)) == json.dumps(data)
    for field in ("settings", "is_async", "source"):
        assert getattr(twin.compiled.template, field) == getattr(spec.compiled.template, field)


@pytest.mark.parametrize("name", [name for name in SUBJECTS if name not in ("http", "openapi")])
def test_calls_give_the_same(name, monkeypatch):
    monkeypatch.setenv("CANARY_KEY", "from the environment")
    spec = SUBJECTS[name]()
    twin = from_data(to_data(spec))
    for one in (spec, twin):
        one.state.setdefault("style", "from the state")
        one.state["session"] = {"token": "from the state"}
        one.state["shop"] = tools.Shop({"tea": 3})
    arguments = ARGUMENTS.get(name, {"name": "Ann"})
    assert twin.exec(**arguments).error is None
    assert twin.exec(**arguments).value == spec.exec(**arguments).value
    refused = {**arguments, "nope": 1}
    assert getattr(twin.exec(**refused).error, "code", None) == getattr(spec.exec(**refused).error, "code", None)


OPTION_VALUES: dict[str, Any] = {
    **ALL_OPTIONS,
    "parse_docstring": False,
    "include_long_description": False,
    "description_separator": " / ",
    "docstring_sections": ["Note"],
    "input_schema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    "convert": False,
    "external": True,
    "output": "raw",
    "render": tools.render,
    "include_var_positional": True,
    "include_var_keyword": True,
    "isolation": "process",
    "ship": ["user.locale"],
    "ship_secrets": True,
    "keep_children": True,
}
PLAIN_TYPES = (str, int, float, bool, type(None), tuple, list, dict, frozenset)


@pytest.mark.parametrize("option", sorted(ToolOptions.__annotations__.keys() - {"binds"}))
def test_each_option_comes_back(option):
    function = tools.take_context_and_more if option == "ship" else tools.greet_all
    needed = {"keep_children": {"isolation": "process"}, "render": {"output": "raw"}}.get(option, {})
    spec = ToolSpec.from_function(function, **{option: OPTION_VALUES[option], **needed})
    template, twin = spec.compiled.template, from_data(to_data(spec)).compiled.template
    plain = [field.name for field in fields(template) if isinstance(getattr(template, field.name), PLAIN_TYPES)]
    assert len(plain) > 10
    for name in set(plain) - {"options", "examples", "bindings", "rebuild_arguments"}:
        assert getattr(twin, name) == getattr(template, name), name
    assert twin.options.keys() - {"binds"} == template.options.keys()


def test_a_request_is_the_same():
    for name in ("http", "openapi"):
        spec = SUBJECTS[name]()
        body, twin = spec.body, from_data(to_data(spec)).body
        assert (twin.request, twin.options, twin.hidden) == (body.request, body.options, body.hidden)
        assert (twin.name, twin.wants_json, twin.is_remote, twin.named, twin.origin) == (
            body.name, body.wants_json, body.is_remote, body.named, body.origin,
        )  # fmt: skip


def test_the_spec_that_is_written_does_not_change():
    spec = SUBJECTS["default"]()
    compiled, state = spec.compiled, dict(spec.state)
    spec.to_dict()
    assert (spec.compiled, dict(spec.state)) == (compiled, state)


def test_the_data_is_a_copy_of_its_own():
    spec = SUBJECTS["all-options"]()
    data = spec.to_dict()
    twin = from_data(data)
    data["definition"]["input_schema"]["properties"].clear()
    data["options"]["meta"].clear()
    assert twin.definition == spec.definition
    assert spec.to_dict()["options"]["meta"] == {"a": [1, {"b": None}]}


def test_a_loaded_spec_can_be_bound_transformed_cloned_and_pickled():
    import pickle

    twin = from_data(to_data(SUBJECTS["function"]())).bind("tone", default="cold")
    assert pickle.loads(pickle.dumps(twin))(name="Ann") == "cold: hello, Ann"
    assert twin.clone().unbind("tone")(name="Ann") == "plain: hello, Ann"
    assert twin.transform(arguments={"name": {"name": "who"}})(who="Ann") == "cold: hello, Ann"


def test_code_that_was_written_twice_has_its_text_and_its_helpers():
    twin = from_data(to_data(from_data(to_data(SUBJECTS["code"]()))))
    assert twin(radius=2) == 6.28
    assert "_half" in twin.source


class TestSubclasses:
    def test_the_class_that_reads_makes_the_spec(self):
        data = SUBJECTS["function"]().to_dict()
        assert type(tools.Labelled.from_dict(data, trust=["tests.*"])) is tools.Labelled

    def test_a_spec_of_a_subclass_is_not_read_as_another_class(self):
        data = tools.Labelled.from_function(tools.greet).to_dict()
        assert type(tools.Labelled.from_dict(data, trust=["tests.*"])) is tools.Labelled
        with pytest.raises(
            ValueError, match=r"is a 'tests\.spec_data\.tools\.Labelled': load it with from_dict of that"
        ):
            ToolSpec.from_dict(data, trust=["tests.*"])


KINDS = {
    "int": (st.integers(-9, 9), ["0", "7"]),
    "str": (st.sampled_from(["", "a", "ü", "1"]), ["'x'", "''"]),
    "float": (st.sampled_from([0.5, 2.0, -1]), ["1.5"]),
    "bool": (st.booleans(), ["True"]),
    "list[int]": (st.lists(st.integers(0, 3), max_size=2), ["[]", "[1, 2]"]),
    "dict[str, int]": (st.dictionaries(st.sampled_from("ab"), st.integers(0, 3)), ["{}"]),
    "Literal['a', 'b']": (st.sampled_from("ab"), ["'b'"]),
    "int | None": (st.one_of(st.none(), st.integers(0, 3)), ["None", "3"]),
    "Annotated[int, Field(ge=0, description='How many.')]": (st.integers(-1, 3), ["2"]),
    "Point": (st.fixed_dictionaries({"x": st.integers(0, 3)}), ["Point(x=1)"]),
    "Color": (st.sampled_from(["red", "blue"]), ["Color.red"]),
}
HEAD = """
import enum
from typing import Annotated, Literal
from pydantic import BaseModel, Field

class Point(BaseModel):
    x: int = 0

class Color(enum.Enum):
    red = "red"
    blue = "blue"

"""


@st.composite
def functions(draw: Any) -> tuple[str, dict[str, Any]]:
    """Return the code of a function, and arguments for it."""
    names = draw(st.lists(st.sampled_from(["a", "b", "query", "Größe", "_x"]), max_size=4, unique=True))
    star = draw(st.integers(0, len(names)))
    parts, arguments, has_default = [], {}, False
    for index, name in enumerate(name for name in names if not name.startswith("_") or name == "_x"):
        kind = draw(st.sampled_from(sorted(KINDS)))
        values, defaults = KINDS[kind]
        is_optional = draw(st.booleans()) or (has_default and index < star)
        has_default |= is_optional and index < star
        default = f" = {draw(st.sampled_from(defaults))}" if is_optional else ""
        parts += (["*"] if index == star else []) + [f"{name}: {kind}{default}"]
        if not is_optional or draw(st.booleans()):
            arguments[name] = draw(values)
    docstring = draw(st.sampled_from(["", "'''Do it.'''", "'''Do it.\n\n    Args:\n        a: The a.\n    '''"]))
    prefix = draw(st.sampled_from(["", "async "]))
    body = f"    {docstring}\n    return repr(sorted(locals().items()))\n"
    return f"{HEAD}{prefix}def work({', '.join(parts)}) -> str:\n{body}", arguments


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["work_2", "Arbeit"]),
        "description": st.sampled_from(["", "Other words.", "😀 \ud800"]),
        "tags": st.sets(st.sampled_from("abc")),
        "timeout": st.sampled_from([3, 2.5]),
        "parse_docstring": st.booleans(),
        "meta": st.dictionaries(st.sampled_from("ab"), st.one_of(st.none(), st.integers(), st.text(max_size=3))),
        "annotations": st.sampled_from([{"readOnlyHint": True}, None]),
    },
)


@given(function=functions(), options=OPTIONS, is_code=st.booleans(), bound=st.booleans(), renamed=st.booleans())
def test_any_function_comes_back_as_it_was(function, options, is_code, bound, renamed):
    code, arguments = function
    module = ModuleType("generated_tools")
    sys.modules["generated_tools"] = module
    try:
        exec(code, vars(module))
        make = functools.partial(ToolSpec.from_code, code, "work") if is_code else None
        spec = make(**options) if make else ToolSpec.from_function(module.work, **options)
        first, *_ = (*spec.params, None)
        if first and renamed:
            spec = spec.transform(arguments={first: {"name": "other"}})
            arguments = {"other" if name == first else name: value for name, value in arguments.items()}
        if first and bound and not renamed:
            spec.bind(first, "some.key", arguments.pop(first, None))
        data = json.loads(json.dumps(spec.to_dict(values=True)))
        twin = ToolSpec.from_dict(data, trust=["generated_tools", "<code>"])
        assert twin.definition == spec.definition
        assert json.dumps(twin.to_dict(values=True)) == json.dumps(data)
        mine, theirs = spec.exec(**arguments), twin.exec(**arguments)
        assert (theirs.value, theirs.error) == (mine.value, mine.error)
    finally:
        del sys.modules["generated_tools"]


def test_a_binding_whose_value_is_not_in_the_data_does_not_fall_back_to_the_parameters_default():
    data = SUBJECTS["function"]().bind("tone", default="warm").to_dict()
    assert "warm" not in json.dumps(data)
    twin = from_data(data)
    with pytest.raises(
        UnboundStateError, match="its value was left out of the pickle or the data; set state key 'tone'"
    ):
        twin(name="Ann")
    twin.state["tone"] = "set here"
    assert twin(name="Ann") == "set here: hello, Ann"
    assert twin.to_dict() == data
