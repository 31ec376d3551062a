"""Functions with unusual parameter lists: odd names, keyword-only parameters, parameters without a type."""

from typing import Annotated, Any

from pydantic import Field

from tests.schema.signatures.collection import Collection

signature = Collection("parameters")


@signature
def keyword_only(*, first: int, second: str = "x") -> str: ...


@signature
def keyword_only_after_others(first: int, second: int = 2, *, third: int, fourth: int = 4) -> str: ...


@signature
def required_keyword_after_default(first: int = 1, *, second: int) -> str: ...


@signature
def untyped(value): ...


@signature
def untyped_with_default(value=1): ...


@signature
def untyped_with_none(some_value=None): ...


@signature
def untyped_with_text(value="text", *, second=True): ...


@signature
def untyped_with_list(values=[1, 2]): ...


@signature
def untyped_return(value: int): ...


@signature
def partly_typed(first, second: int, third="x", fourth: float = 0.5) -> None: ...


@signature
def untyped_described(value, other=1):
    """Do a thing.

    Args:
        value: The first thing.
        other: The second thing.
    """


@signature
def self_like(self: str, cls: int = 1) -> str: ...


@signature
def self_untyped(self) -> str: ...


@signature
def model_words(schema: str, json: dict[str, Any], copy: bool, model_config: int, model_fields: str = "") -> str: ...


@signature
def more_model_words(dict: int, construct: str, validate: bool, model_dump: int = 1, fields: str = "") -> str: ...


@signature
def leading_underscore(_x: int, _private_value: str = "x") -> str: ...


@signature
def double_underscore(__x: int, __y__: int = 1) -> str: ...


@signature
def only_underscore(_: int, __: str = "x") -> str: ...


@signature
def keyword_like(from_: str, class_: int, import_: bool = False) -> str: ...


@signature
def unicode_names(größe: int, 名前: str, čas: float = 0.5) -> str: ...


@signature
def star_names(args: int, kwargs: str, arguments: bool, keywords: float = 0.5) -> str: ...


@signature
def return_names(result: int, return_: str, value: float, returns: int = 1) -> str: ...


@signature
def schema_words(type: str, properties: int, required: bool, items: str = "x") -> str: ...


@signature
def schema_annotation_words(title: str, description: str, default: int, examples: str = "x") -> str: ...


@signature
def schema_word_enum(enum: int, const: str, format: str, anyOf: int = 1) -> str: ...


@signature
def title_only(title: str) -> dict[str, str]: ...


@signature
def title_described(title: Annotated[str, Field(title="Heading", description="What is on top.")] = "none") -> str: ...


@signature
def builtin_names(id: int, input: str, list: str, print: bool, object: int = 1) -> str: ...


@signature
def context_names(ctx, context: str, state: int, config: str = "x") -> str: ...


@signature
def spec_names(
    name: str, binds: int, tags: str, timeout: float = 0.5, func: str = "x", output_schema: str = "x"
) -> str: ...


@signature
def capital_names(URL: str, camelCase: int, userID2Name: str, X: float = 0.5) -> str: ...


@signature
def one_letter(a: int, b: int, c: int = 1) -> int: ...


@signature
def numbered(x1: int, x_2: int, x__3: int = 1) -> int: ...


@signature
def many_parameters(
    a01: int,
    a02: int,
    a03: int,
    a04: int,
    a05: int,
    a06: int,
    a07: int,
    a08: int,
    a09: int,
    a10: int,
    b01: str = "",
    b02: str = "",
    b03: str = "",
    b04: str = "",
    b05: str = "",
    b06: str = "",
    b07: str = "",
) -> None: ...


signature.echoes(
    long_name=int,
    capitalFunctionName=int,
    _leading_underscore_function=int,
    größe_berechnen=int,
)

SIGNATURES = signature.entries
