"""The schemas of plain types are those that pydantic makes."""

from __future__ import annotations

import inspect
import json
import types
import typing
from typing import Annotated, Any, Literal, Optional

import pytest
from hypothesis import example
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from typing_extensions import TypeAliasType

from ahvn_tools import Secret
from ahvn_tools.schema import generated
from ahvn_tools.schema.generated import QuietSchemaGenerator, clean_schema, generate_output_schema
from ahvn_tools.schema.plain_types import EMPTY, PlainParameters
from tests.property_checks import EXAMPLES, run_examples

SCALARS = [str, int, bool, float, Any]
LITERALS = [Literal["a"], Literal["a", "b"], Literal["b", "a", ""]]
ANNOTATIONS = st.recursive(
    st.sampled_from([*SCALARS, *LITERALS]),
    lambda inner: st.one_of(
        inner.map(lambda kind: list[kind]),
        inner.map(lambda kind: dict[str, kind]),
        inner.filter(lambda kind: kind is not Any).map(lambda kind: kind | None),
        inner.filter(lambda kind: kind is not Any).map(lambda kind: Optional[kind]),
        inner.filter(lambda kind: kind is not Any).map(lambda kind: None | kind),
    ),
    max_leaves=3,
)
DEFAULTS = st.sampled_from([EMPTY, None, True, 0, 2**70, -1, 1.5, "", "text"])
PARAMETERS = st.dictionaries(
    st.sampled_from(["a", "b", "_c", "self", "class_name", "args", "type", "default"]),
    st.tuples(ANNOTATIONS | st.just(EMPTY), DEFAULTS),
    max_size=4,
)


def keyword_only(parameters: dict[str, tuple[Any, Any]]) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in parameters.items()
    ]


def adapter_of(parameters: list[inspect.Parameter]) -> TypeAdapter[Any]:
    def function() -> None: ...

    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # inspect reads it
    function.__annotations__ = {each.name: each.annotation for each in parameters if each.annotation is not EMPTY}
    return TypeAdapter(function, config=ConfigDict(allow_inf_nan=False))  # type: ignore[arg-type]  # pydantic takes it


def without_metadata(schema: Any) -> Any:
    if isinstance(schema, list):
        return [without_metadata(item) for item in schema]
    if isinstance(schema, dict):
        return {key: without_metadata(item) for key, item in schema.items() if key not in ("metadata", "function")}
    return schema


@EXAMPLES
def test_the_schemas_are_those_of_pydantic(max_examples):
    @example({})
    @example({"a": (EMPTY, EMPTY), "b": (list[Any], EMPTY), "c": (dict[str, Any], None)})
    def check(parameters: dict[str, tuple[Any, Any]]) -> None:
        given = keyword_only(parameters)
        plain, adapter = PlainParameters.from_parameters(given), adapter_of(given)
        assert plain is not None
        assert without_metadata(plain.core_schema) == without_metadata(adapter.core_schema)
        expected = clean_schema(adapter.json_schema(schema_generator=QuietSchemaGenerator))
        is_sorted = "default" in parameters  # pydantic does not sort what is under this name
        assert json.dumps(plain.json_schema(), sort_keys=is_sorted) == json.dumps(expected, sort_keys=is_sorted)

    run_examples(max_examples, check, PARAMETERS)


@EXAMPLES
def test_the_output_schema_is_that_of_pydantic(max_examples):
    def check(annotation: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            plain = generate_output_schema(annotation)
            patch.setattr(generated, "plain_schema", lambda _annotation: None)
            assert json.dumps(plain) == json.dumps(generate_output_schema(annotation))

    run_examples(max_examples, check, ANNOTATIONS)


class Model(BaseModel):
    name: str


class Text(str):
    __slots__ = ()


OTHERS = {
    "model": Model, "bare List": typing.List, "bare Dict": typing.Dict, "empty literal": Literal,
    "alias": TypeAliasType("Alias", int), "new type": typing.NewType("Number", int), "subclass": Text,
    "bytes": bytes, "bare list": list, "bare dict": dict, "set": set[int],
    "tuple": tuple[int, int], "field": Annotated[int, Field(gt=0)], "secret": Annotated[str, Secret], "none": None,
    "list of models": list[Model], "dict of models": dict[str, Model], "optional model": Model | None,
    "other keys": dict[int, str], "union": int | str, "union with none": int | str | None, "numbers": Literal[1, "a"],
    "object": object, "forward": "int", "nested": list[dict[str, bytes]], "keys alone": types.GenericAlias(dict, str),
    "surrogate literal": Literal["\ud800"], "letter literal": Literal["a", "é"],
}  # fmt: skip


@pytest.mark.parametrize("annotation", OTHERS.values(), ids=OTHERS)
def test_another_type_is_left_to_pydantic(annotation):
    assert PlainParameters.from_parameters(keyword_only({"a": (int, 1), "b": (annotation, EMPTY)})) is None


@pytest.mark.parametrize(
    "default",
    [[], {}, (), float("nan"), float("inf"), "\ud800", "é", Text("a"), b"", object(), Field(gt=1)],
    ids=["list", "dict", "tuple", "nan", "inf", "surrogate", "letter", "subclass", "bytes", "object", "field"],
)
def test_another_default_is_left_to_pydantic(default):
    assert PlainParameters.from_parameters(keyword_only({"a": (Any, default)})) is None
