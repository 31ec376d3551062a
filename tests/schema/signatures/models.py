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
def model(person: Person) -> Person: ...


@signature
def nested_model(company: Company) -> Company: ...


@signature
def model_twice(sender: Person, receiver: Person) -> tuple[Person, Person]: ...


@signature
def list_of_models(people: list[Person]) -> list[Person]: ...


@signature
def dict_of_models(people: dict[str, Person]) -> dict[str, Person]: ...


@signature
def optional_model(person: Person | None = None) -> Person | None: ...


@signature
def union_of_models(thing: Person | Address) -> Person | Address: ...


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
def aliases(value: Aliased) -> Aliased: ...


@signature
def generated_aliases(value: Generated) -> Generated: ...


@signature
def aliases_on_output(value: ByAliasOut) -> ByAliasOut: ...


@signature
def aliases_on_part_of_output(value: HoldsByAliasOut) -> list[HoldsByAliasOut]: ...


@signature
def closed_model(value: Closed) -> Closed: ...


@signature
def open_model(value: Open) -> Open: ...


@signature
def titled_model(value: Titled) -> Titled: ...


@signature
def generated_field_titles(value: FieldTitles) -> FieldTitles: ...


@signature
def described_by_attribute(value: DescribedByAttribute) -> DescribedByAttribute: ...


@signature
def enums_as_values(value: EnumsAsValues) -> EnumsAsValues: ...


@signature
def defaults_required(value: DefaultsRequired) -> DefaultsRequired: ...


@signature
def validated_model(value: Validated) -> Validated: ...


@signature
def computed_model(value: Computed) -> Computed: ...


@signature
def field_serialised(value: FieldSerialised) -> FieldSerialised: ...


@signature
def wholly_serialised(value: WhollySerialised) -> WhollySerialised: ...


@signature
def private_parts(value: Private) -> Private: ...


@signature
def derived_model(value: Derived, base: Base) -> Derived: ...


@signature
def serialised_as_any(value: SerializeAsAny[Base]) -> SerializeAsAny[Base]: ...


@signature
def root_list(values: Numbers) -> Numbers: ...


@signature
def root_dict(values: Lookup) -> Lookup: ...


@signature
def root_text(value: Word) -> Word: ...


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
def made_model(value: Made) -> Made: ...


@signature
def std_dataclass(point: Point) -> Point: ...


@signature
def nested_dataclass(line: Line) -> Line: ...


@signature
def frozen_dataclass(value: Frozen) -> Frozen: ...


@signature
def dataclass_with_init_only(value: WithInitOnly) -> WithInitOnly: ...


@signature
def checked_dataclass(value: Checked) -> Checked: ...


@signature
def checked_dataclass_by_alias(value: CheckedByAlias) -> CheckedByAlias: ...


@signature
def list_of_dataclasses(points: list[Point]) -> list[Point]: ...


@signature
def optional_dataclass(point: Point | None = None) -> Point | None: ...


@signature
def typed_dict(movie: Movie) -> Movie: ...


@signature
def partial_typed_dict(value: Partial) -> Partial: ...


@signature
def typed_dict_with_optional_keys(value: WithNotRequired) -> WithNotRequired: ...


@signature
def closed_typed_dict(value: ClosedDict) -> ClosedDict: ...


@signature
def nested_typed_dict(shelf: Shelf) -> Shelf: ...


@signature
def list_of_typed_dicts(movies: list[Movie]) -> list[Movie]: ...


SIGNATURES = signature.entries
