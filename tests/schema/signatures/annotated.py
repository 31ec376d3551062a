"""Functions whose parameters carry Annotated metadata: text, Field, constraints, validators."""

import math
from datetime import date
from typing import Annotated, Any, Literal, Optional

from annotated_types import Ge, Interval, Len, MultipleOf
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    SkipValidation,
    Strict,
    StringConstraints,
    WithJsonSchema,
    WrapValidator,
)
from pydantic.json_schema import Examples, SkipJsonSchema
from typing_extensions import Doc

from tests.schema.signatures.collection import Collection

signature = Collection("annotated")

Percentage = Annotated[int, Field(ge=0, le=100, description="A share of a hundred.")]
Name = Annotated[str, "What people call it."]


class Wheel(BaseModel):
    """A rotating part."""

    spokes: Name
    size: Annotated[int, "Across, in centimetres."] = 60


def strip(value: str) -> str:
    """Take the spaces off both ends."""
    return value.strip()


def call_with(value: Any, handler: Any) -> Any:
    """Let pydantic decide."""
    return handler(value)


def mark_as_colour(schema: dict[str, Any]) -> None:
    """Say how the text is meant to be shown."""
    schema["format"] = "color"


@signature
def described_by_text_with_default(value: Annotated[str, "What to call it."] = "thing") -> str: ...


@signature
def described_by_lines_of_text(
    value: Annotated[str, "First line.\n\n  Second line, indented.\nThird: line."],
) -> str: ...


@signature
def text_before_field(value: Annotated[int, "Shown by ours.", Field(ge=1)]) -> str: ...


@signature
def text_on_optional(value: Annotated[int | None, "Perhaps a number."] = None) -> str: ...


@signature
def optional_of_text(value: Optional[Annotated[int, "Inside the union."]] = None) -> str: ...


@signature
def text_on_items(values: list[Annotated[int, "Each of them."]]) -> str: ...


@signature
def text_on_model(wheel: Annotated[Wheel, "The wheel in question."]) -> Wheel: ...


@signature
def text_on_model_list(wheels: Annotated[list[Wheel], "All the wheels."]) -> list[Wheel]: ...


@signature
def text_by_alias(name: Name, second_name: Name = "none") -> Name: ...


@signature
def field_bounds(low: Annotated[int, Field(ge=1, le=9)], high: Annotated[float, Field(gt=0, lt=1)]) -> str: ...


@signature
def field_multiple(value: Annotated[int, Field(multiple_of=5)] = 10) -> str: ...


@signature
def field_title_on_optional(limit: Annotated[int | None, Field(title="Upper limit")] = None) -> str: ...


@signature
def field_alias_with_default(value: Annotated[int, Field(alias="theValue", description="Renamed.")] = 1) -> str: ...


@signature
def field_deprecated(
    old: Annotated[int, Field(deprecated=True)] = 1, older: Annotated[str, Field(deprecated="Use old.")] = ""
) -> str: ...


@signature
def field_default_beside_default(value: Annotated[int, Field(default=5)] = 7) -> str: ...


@signature
def field_around_alias(
    share: Annotated[Percentage, Field(description="Nearer.")], other: Percentage = 50
) -> Percentage: ...


@signature
def field_on_dict_values(values: dict[str, Percentage]) -> dict[str, Percentage]: ...


@signature
def field_on_union_arm(value: Annotated[int, Field(ge=1)] | Annotated[str, Field(min_length=1)] = 1) -> str: ...


@signature
def field_as_default(value: int = Field(5, ge=1, description="In the default.")) -> str: ...


@signature
def field_as_default_required(value: int = Field(description="In the default, but required.")) -> str: ...


@signature
def field_as_default_ellipsis(value: int = Field(..., title="Needed")) -> str: ...


@signature
def field_as_default_with_factory(
    values: list[int] = Field(default_factory=list, description="Fresh each time."),
) -> str: ...


@signature
def field_as_default_with_alias(value: int = Field(1, alias="outerName")) -> str: ...


@signature
def field_as_default_on_untyped(value=Field(1, description="No type at all.")) -> str: ...


@signature
def field_twice(
    value: Annotated[int, Field(ge=1, description="Inside.")] = Field(5, description="As default."),
) -> str: ...


@signature
def text_with_field_as_default(value: Annotated[int, "From the text."] = Field(5, le=9)) -> str: ...


@signature
def constraint_types(
    first: Annotated[int, Ge(1)],
    second: Annotated[float, Interval(gt=0, le=1)],
    third: Annotated[list[int], Len(1, 3)],
    fourth: Annotated[int, MultipleOf(3)],
) -> str: ...


@signature
def validated_before_with_input_type(
    value: Annotated[str, BeforeValidator(strip, json_schema_input_type=int | str)],
) -> str: ...


@signature
def validated_after(value: Annotated[str, AfterValidator(strip)] = "x") -> str: ...


@signature
def own_json_schema(
    value: Annotated[int, WithJsonSchema({"type": "string", "title": "Own", "pattern": "^0x"})],
) -> str: ...


@signature
def none_left_out(value: int | SkipJsonSchema[None] = None) -> str: ...


@signature
def serialised_as_text(
    value: Annotated[int, PlainSerializer(str, return_type=str)],
) -> Annotated[int, PlainSerializer(str, return_type=str)]: ...


@signature
def literal_with_field(mode: Annotated[Literal["fast", "slow"], Field(description="How.")] = "fast") -> str: ...


signature.taking(
    described_by_text=Annotated[int, "How many there are."],
    described_by_empty_text=Annotated[int, ""],
    field_before_text=Annotated[int, Field(ge=1, description="Shown."), "Not shown."],
    two_texts=Annotated[int, "First.", "Second."],
    number_as_metadata=Annotated[int, 42],
    object_as_metadata=Annotated[int, {"unit": "m"}],
    text_around_text=Annotated[Name, "A nearer text."],
    documented_by_doc=Annotated[int, Doc("Left alone by pydantic.")],
    field_description=Annotated[int, Field(description="How many there are.")],
    field_empty_description=Annotated[int, Field(description="")],
    field_pattern=Annotated[str, Field(pattern=r"^[A-Z]{2}\d+$", min_length=3, max_length=8)],
    field_lengths=Annotated[list[str], Field(min_length=1, max_length=5)],
    field_title=Annotated[int, Field(title="The Number")],
    field_title_as_generated=Annotated[int, Field(title="Some Value")],
    field_title_on_items=list[Annotated[int, Field(title="One Item")]],
    field_title_on_model=Annotated[Wheel, Field(title="Round Thing", description="It turns.")],
    field_examples=Annotated[str, Field(examples=["Turin", "Kyoto"])],
    field_examples_of_dates=Annotated[date, Field(examples=[date(2024, 2, 29)])],
    field_infinite_bound=Annotated[float, Field(ge=0, le=math.inf)],
    field_alias=Annotated[int, Field(alias="theValue")],
    field_validation_alias=Annotated[int, Field(validation_alias="the-value")],
    field_alias_choices=Annotated[int, Field(validation_alias=AliasChoices("first", "second"))],
    field_serialization_alias=Annotated[int, Field(serialization_alias="outward")],
    field_extra_schema=Annotated[int, Field(json_schema_extra={"x-order": 1, "unit": "m"})],
    field_extra_schema_by_function=Annotated[str, Field(json_schema_extra=mark_as_colour)],
    field_strict=Annotated[int, Field(strict=True)],
    field_frozen=Annotated[int, Field(frozen=True, repr=False)],
    field_excluded=Annotated[int, Field(exclude=True)],
    field_with_default_inside=Annotated[int, Field(default=5, description="Five by default.")],
    field_with_default_factory_inside=Annotated[list[int], Field(default_factory=list)],
    two_fields=Annotated[int, Field(ge=1, description="First."), Field(le=5, description="Second.")],
    field_on_items=list[Annotated[int, Field(ge=1, description="At least one.")]],
    field_on_decimal_digits=Annotated[float, Field(allow_inf_nan=False, ge=0)],
    text_constraints=Annotated[str, StringConstraints(min_length=1, pattern="^a", to_lower=True)],
    strict_type=Annotated[int, Strict()],
    validated_before=Annotated[str, BeforeValidator(strip)],
    validated_plainly=Annotated[str, PlainValidator(strip)],
    validated_around=Annotated[int, WrapValidator(call_with)],
    not_validated=SkipValidation[int],
    own_examples=Annotated[int, Examples([1, 2])],
)

SIGNATURES = signature.entries
