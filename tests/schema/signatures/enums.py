"""Functions over enums: text, whole numbers, mixed values, flags, one member."""

from enum import Enum, Flag, IntEnum, IntFlag, StrEnum, auto
from typing import Annotated, Literal

from pydantic import Field

from tests.schema.signatures.collection import Collection

signature = Collection("enums")


class Level(StrEnum):
    LOW = auto()
    HIGH = auto()


class Priority(IntEnum):
    """How soon it must be done."""

    LATER = 1
    NOW = 2


class Colour(Enum):
    RED = "red"
    GREEN = "green"


class TextColour(str, Enum):
    RED = "red"
    GREEN = "green"


class Mixed(Enum):
    WORD = "word"
    NUMBER = 1
    HALF = 0.5
    NOTHING = None


class Ratio(Enum):
    HALF = 0.5
    WHOLE = 1.0


class Permission(Flag):
    READ = auto()
    WRITE = auto()


class Mode(IntFlag):
    READ = 4
    WRITE = 2


class Single(Enum):
    ONLY = "only"


class Compound(Enum):
    ORIGIN = (0, 0)
    UNIT = (1, 1)


@signature
def enum_with_default(
    level: Level = Level.LOW, priority: Priority = Priority.NOW, mixed: Mixed = Mixed.HALF
) -> None: ...


@signature
def optional_enum(level: Level | None = None, colour: Colour | None = Colour.RED) -> Level | None: ...


@signature
def list_of_enums(levels: list[Level], colours: set[Colour]) -> list[Colour]: ...


@signature
def literal_of_members(level: Literal[Level.LOW], either: Literal[Colour.RED, Colour.GREEN]) -> Literal[Level.HIGH]: ...


@signature
def described_enum(priority: Annotated[Priority, Field(description="When to start.")] = Priority.LATER) -> None: ...


@signature
def enum_described_in_text(priority: Annotated[Priority, "When to start."]) -> None: ...


@signature
def enum_described_in_docstring(priority: Priority, level: Level = Level.LOW) -> str:
    """Plan the work.

    Args:
        priority: When to start.
        level: How deep to go.
    """


signature.echoes(
    text_enum=Level,
    whole_enum=Priority,
    plain_enum=Colour,
    enum_that_is_text=TextColour,
    mixed_enum=Mixed,
    ratio_enum=Ratio,
    flag=Permission,
    whole_flag=Mode,
    single_member=Single,
    compound_enum=Compound,
)

SIGNATURES = signature.entries
