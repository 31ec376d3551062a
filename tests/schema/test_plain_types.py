"""Tools of plain types are those that pydantic would make: schemas, converted values, errors, defaults."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, IntEnum
from typing import Annotated, Any, Dict, List, Literal, NewType, Optional, Union  # users write them, too

import pytest
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType

from ahvn_tools import Secret, Toolkit
from ahvn_tools.schema import generated
from ahvn_tools.schema.plain_types import PlainParameters
from tests.property_checks import EXAMPLES, run_examples


class Text(str):
    __slots__ = ()


class Letter(Enum):
    A = "a"


class Number(IntEnum):
    ONE = 1


class Model(BaseModel):
    name: str


Name = NewType("Name", str)
Alias = TypeAliasType("Alias", int)

NAMES = {
    each.__name__: each
    for each in (Text, Letter, Number, Model, Secret, Field, Annotated, Any, Literal, Optional, Union, List, Dict)
} | {"Name": Name, "Alias": Alias}

SCALARS = ["int", "str", "float", "bool", "Any"]
PLAIN = st.recursive(
    st.sampled_from([*SCALARS, "Literal['a']", "Literal['a', 'b']"]),
    lambda inner: st.one_of(
        inner.map("list[{}]".format),
        inner.map("List[{}]".format),
        inner.map("dict[str, {}]".format),
        inner.map("Dict[str, {}]".format),
        inner.map("Optional[{}]".format),
        inner.map("Union[None, {}]".format),
    ),
    max_leaves=2,
)
OTHERS = st.sampled_from([
    "None", "object", "bytes", "list", "dict", "List", "Dict", "Alias", "Model", "list[Model]",
    "Text", "Letter", "Number", "Name", "dict[int, int]", "list[int, str]",
    "list[None]", "Literal['a', None]", "Literal[1]", "Literal['é']", "Literal[Letter.A]", "Union[int, str]",
    "Union[int, str, None]", "Annotated[int, Field(gt=1)]", "Annotated[int, 'text']", "Annotated[str, Secret]",
    "dict[str, Model]", "Optional[Model]", "list[dict[str, bytes]]",
    "list[Annotated[int, 'text']]", "set[int]", "tuple[int, ...]", "'int'", "Optional['list[int]']",
])  # fmt: skip
DEFAULTS = st.sampled_from([
    "None", "True", "0", "-1", "2**70", "1.5", "-0.0", "1e308", "5e-324", "float('nan')", "float('inf')", "''", "'a'",
    r"'\n\x00'", "'é'", r"'\ud800'", "Text('a')", "b'a'", "Letter.A", "Number.ONE", "()", "[]", "{}", "object",
    "Field(default=3)", "Field(3, gt=1)", "Field(default_factory=list)",
])  # fmt: skip
PARAMETERS = st.sampled_from(["a{}", "a{}, /", "*, a{}", "a{}, *more: int, **other: str", "a{}, größe: str = 'x'"])

VALUES: list[Any] = [
    1, 0, True, 1.0, 1.5, "1", "1.0", "a", "", "yes", None, [], [1], ["1"], [None], {}, {"a": 1}, {"a": None}, 2**70,
    float("inf"), "NaN", "null", "[1]", '{"a": 1}', "\ud800", [[{"a": 1.5}]], " 1 ",
]  # fmt: skip


@contextmanager
def without_plain_types() -> Iterator[None]:
    """Leave every type to pydantic."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlainParameters, "read", lambda parameters, annotations: None)
        patch.setattr(generated, "plain_type", lambda annotation: None)
        yield


def describe(parameters: str, returns: str, *, is_postponed: bool) -> list[Any]:
    """Return the schemas of a tool, and what its calls return."""
    future = "from __future__ import annotations\n" if is_postponed else ""
    source = f"{future}def f({parameters}) -> {returns}:\n    '''Do it.\n\n    Args:\n        a: The A.\n    '''\n"
    space: dict[str, Any] = {**NAMES, "__name__": __name__}
    exec(source + "    return a if isinstance(a, str) else repr(a)\n", space)  # our own texts
    try:
        kit = Toolkit("plain").add(space["f"])
        tool = kit["f"]
        found: list[Any] = [json.dumps(tool.input_schema), json.dumps(tool.output_schema)]
    except Exception as error:  # both ways must raise the same
        return [type(error), str(error)]
    found += [outcome(kit, {"a": value}) for value in VALUES]
    found += [outcome(kit, {}), outcome(kit, {"a": 1, "b": 1})]
    kit.bind("a")
    for value in VALUES[::3]:
        kit.state["a"] = value
        found.append(outcome(kit, {}))
    return found


def outcome(kit: Toolkit, arguments: dict[str, Any]) -> Any:
    result = kit.exec("f", arguments)
    return repr(result.value), result.error and (result.error.code, result.error.message)


@EXAMPLES
def test_a_tool_does_not_depend_on_who_makes_its_schema(max_examples):
    def check(annotation: str, default: str, parameters: str, returns: str, is_postponed: bool) -> None:
        given = parameters.format(f": {annotation}" + (f" = {default}" if default else ""))
        found = describe(given, returns, is_postponed=is_postponed)
        with without_plain_types():
            assert found == describe(given, returns, is_postponed=is_postponed)

    some_defaults = DEFAULTS | st.just("")
    run_examples(max_examples, check, PLAIN | OTHERS, some_defaults, PARAMETERS, PLAIN | OTHERS, st.booleans())


@pytest.mark.parametrize("annotation", ["dict[str]", r"Literal['\ud800']"])
def test_a_type_that_is_not_valid_is_the_same_error(annotation):
    found = describe(f"a: {annotation}", "str", is_postponed=False)
    with without_plain_types():
        assert found == describe(f"a: {annotation}", "str", is_postponed=False)
    assert isinstance(found[0], type)
