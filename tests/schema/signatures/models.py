"""Functions over pydantic models, dataclasses and typed dictionaries, as parameter and as return value."""

import dataclasses
from dataclasses import InitVar, dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, ClassVar, Literal, Union

import pydantic.dataclasses
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    RootModel,
    SerializeAsAny,
    Tag,
    computed_field,
    create_model,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.alias_generators import to_camel
from typing_extensions import NotRequired, Required, TypedDict

from tests.schema.signatures.collection import Collection

signature = Collection("models")


class Status(Enum):
    """A position."""

    OPEN = "open"
    DONE = "done"


class Person(BaseModel):
    name: str
    age: int = 0


class Address(BaseModel):
    """A home address."""

    street: str = Field(description="Street and number.")
    city: str | None = None


class Company(BaseModel):
    """People who work together."""

    boss: Person
    people: list[Person] = []
    address: Address | None = None
    rooms: dict[str, Address] = Field(default_factory=dict)
    status: Status = Status.OPEN


class Aliased(BaseModel):
    outer_name: str = Field(alias="outerName")
    second: int = Field(1, validation_alias="secondIn", serialization_alias="secondOut")
    third: int = Field(1, validation_alias=AliasChoices("third_a", "third_b"))
    fourth: int = Field(1, validation_alias=AliasPath("nested", 0))


class Generated(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    first_name: str
    last_name: str = "none"


class ByAliasOut(BaseModel):
    model_config = ConfigDict(serialize_by_alias=True)

    inner_name: str = Field(serialization_alias="outerName")


class HoldsByAliasOut(BaseModel):
    held_value: ByAliasOut = Field(alias="heldValue")
    person: Person


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    value: int


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int]

    value: int


class Titled(BaseModel):
    model_config = ConfigDict(title="A Title", json_schema_extra={"examples": [{"value": 1}]})

    value: int = Field(title="The Value")
    title: str = Field("x", title="Heading")


class FieldTitles(BaseModel):
    model_config = ConfigDict(field_title_generator=lambda name, info: name.upper())

    some_value: int


class DescribedByAttribute(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)

    value: int
    """Its value."""


class EnumsAsValues(BaseModel):
    model_config = ConfigDict(use_enum_values=True)

    status: Status = Status.OPEN


class DefaultsRequired(BaseModel):
    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    value: int = 1


class Validated(BaseModel):
    low: int
    high: int

    @field_validator("low", mode="before")
    @classmethod
    def halve(cls, value: Any) -> Any:
        return value

    @model_validator(mode="after")
    def check(self) -> "Validated":
        return self


class Computed(BaseModel):
    width: int
    height: int

    @computed_field
    @property
    def area(self) -> int:
        """How much it covers."""
        return self.width * self.height


class FieldSerialised(BaseModel):
    day: date

    @field_serializer("day")
    def day_number(self, value: date) -> int:
        return value.toordinal()


class WhollySerialised(BaseModel):
    day: date

    @model_serializer
    def as_text(self) -> str:
        return self.day.isoformat()


class Private(BaseModel):
    kind: ClassVar[str] = "private"
    _secret: int = PrivateAttr(default=1)
    shown: int
    hidden: str = Field("x", exclude=True)
    old: str = Field("x", deprecated=True)


class Base(BaseModel):
    """The common part."""

    identifier: int


class Derived(Base):
    extra: str = ""


class Numbers(RootModel[list[int]]):
    """Nothing but numbers."""


class Lookup(RootModel[dict[str, Person]]):
    pass


class Word(RootModel[str]):
    pass


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    tricks: list[str] = []


class Fish(BaseModel):
    """Swims."""

    kind: Literal["salt", "fresh"]


Pet = Annotated[Union[Cat, Dog], Field(discriminator="kind")]
Animal = Annotated[Pet | Fish, Field(discriminator="kind")]


def kind_of(value: Any) -> str:
    """Distinguish the two by shape."""
    return "cat" if "lives" in value else "dog"


CallablePet = Annotated[Annotated[Cat, Tag("cat")] | Annotated[Dog, Tag("dog")], Discriminator(kind_of)]


class Owner(BaseModel):
    pet: Pet
    others: list[Animal] = []


def scope_one() -> type[BaseModel]:
    class Same(BaseModel):
        first: int

    return Same


def scope_two() -> type[BaseModel]:
    class Same(BaseModel):
        second: str

    return Same


FirstSame = scope_one()
SecondSame = scope_two()
Made = create_model("Made", value=(int, ...), note=(str, "none"))


@dataclass
class Point:
    """A place on paper."""

    x: int
    y: int = 0


@dataclass
class Line:
    start: Point
    end: Point
    labels: list[str] = dataclasses.field(default_factory=list)
    weight: Annotated[float, Field(ge=0, description="In points.")] = 1.0


@dataclass(kw_only=True, frozen=True, slots=True)
class Frozen:
    value: int
    note: str | None = None


@dataclass
class WithInitOnly:
    value: int
    scale: InitVar[int] = 1
    total: int = dataclasses.field(init=False, default=0)


@pydantic.dataclasses.dataclass
class Checked:
    value: int = Field(ge=1, description="Checked.")
    name: str = Field("x", alias="theName")


@pydantic.dataclasses.dataclass(config=ConfigDict(serialize_by_alias=True))
class CheckedByAlias:
    name: str = Field(alias="theName")


class Movie(TypedDict):
    """A film."""

    title: str
    year: int


class Partial(TypedDict, total=False):
    title: Required[str]
    year: int
    note: Annotated[str, Field(description="Anything to add.")]


class WithNotRequired(TypedDict):
    title: str
    year: NotRequired[int | None]
    country: str


class ClosedDict(TypedDict):
    __pydantic_config__ = ConfigDict(extra="forbid")

    value: int


class Shelf(TypedDict):
    movies: list[Movie]
    owner: Person


@signature
def model_twice(sender: Person, receiver: Person) -> tuple[Person, Person]: ...


@signature
def optional_model(person: Person | None = None) -> Person | None: ...


@signature
def model_or_text(thing: Person | str = "nobody") -> Person | str: ...


@signature
def model_described_by_field(person: Annotated[Person, Field(description="Who it is.")]) -> str: ...


@signature
def model_described_by_docstring(person: Person, address: Address, others: list[Person] | None = None) -> str:
    """Send a letter.

    Args:
        person: Who gets it.
        address: Where it goes.
        others: Who else gets it.
    """


@signature
def aliases_on_part_of_output(value: HoldsByAliasOut) -> list[HoldsByAliasOut]: ...


@signature
def derived_model(value: Derived, base: Base) -> Derived: ...


@signature
def discriminated(pet: Pet) -> Pet: ...


@signature
def discriminated_list(pets: list[Pet]) -> list[Pet]: ...


@signature
def discriminated_nested(animal: Animal) -> Animal: ...


@signature
def discriminated_by_function(pet: CallablePet) -> CallablePet: ...


@signature
def discriminated_in_model(owner: Owner) -> Owner: ...


@signature
def discriminated_with_default(pet: Pet = Dog()) -> None: ...


@signature
def same_model_name(first: FirstSame, second: SecondSame) -> dict[str, FirstSame | SecondSame]: ...


@signature
def optional_dataclass(point: Point | None = None) -> Point | None: ...


signature.echoes(
    model=Person,
    nested_model=Company,
    list_of_models=list[Person],
    dict_of_models=dict[str, Person],
    union_of_models=Person | Address,
    aliases=Aliased,
    generated_aliases=Generated,
    aliases_on_output=ByAliasOut,
    closed_model=Closed,
    open_model=Open,
    titled_model=Titled,
    generated_field_titles=FieldTitles,
    described_by_attribute=DescribedByAttribute,
    enums_as_values=EnumsAsValues,
    defaults_required=DefaultsRequired,
    validated_model=Validated,
    computed_model=Computed,
    field_serialised=FieldSerialised,
    wholly_serialised=WhollySerialised,
    private_parts=Private,
    serialised_as_any=SerializeAsAny[Base],
    root_list=Numbers,
    root_dict=Lookup,
    root_text=Word,
    made_model=Made,
    std_dataclass=Point,
    nested_dataclass=Line,
    frozen_dataclass=Frozen,
    dataclass_with_init_only=WithInitOnly,
    checked_dataclass=Checked,
    checked_dataclass_by_alias=CheckedByAlias,
    list_of_dataclasses=list[Point],
    typed_dict=Movie,
    partial_typed_dict=Partial,
    typed_dict_with_optional_keys=WithNotRequired,
    closed_typed_dict=ClosedDict,
    nested_typed_dict=Shelf,
    list_of_typed_dicts=list[Movie],
)

SIGNATURES = signature.entries
