"""Functions over types that hold themselves: models, dataclasses, typed dictionaries, type aliases."""

from dataclasses import dataclass, field
from typing import Annotated, Dict, List, Optional, Union

from pydantic import BaseModel, Field, RootModel
from typing_extensions import NotRequired, TypeAliasType, TypedDict

from tests.schema.signatures.collection import Collection

signature = Collection("recursive")


class Tree(BaseModel):
    """A tree of names."""

    name: str
    children: list["Tree"] = []


class Branch(BaseModel):
    """A separate tree: pydantic shares the description of a recursive model between all its users."""

    branches: list["Branch"] = []


class Husband(BaseModel):
    wife: Optional["Wife"] = None


class Wife(BaseModel):
    husband: Optional["Husband"] = None


class Forest(BaseModel):
    trees: dict[str, Tree]


class Nest(RootModel[List["Nest"]]):
    """Lists all the way down."""


@dataclass
class Node:
    value: int
    next: Optional["Node"] = None
    others: List["Node"] = field(default_factory=list)


class Folder(TypedDict):
    name: str
    folders: NotRequired[List["Folder"]]


class Plus(BaseModel):
    left: "Expression"
    right: "Expression"


Expression = Union[Plus, int]
Plus.model_rebuild()

Json = TypeAliasType("Json", "Union[Dict[str, Json], List[Json], str, int, float, bool, None]")
Numbers = TypeAliasType("Numbers", "Union[int, List[Numbers]]")
Plain = TypeAliasType("Plain", List[int])
Described = TypeAliasType("Described", Annotated[int, Field(ge=1, description="From the alias.")])
Record = TypeAliasType("Record", Dict[str, int])


@signature
def optional_tree(root: Tree | None = None) -> Tree | None: ...


@signature
def tree_twice(left: Tree, right: Tree) -> dict[str, Tree]: ...


@signature
def described_branch(branch: Annotated[Branch, "Where to start."]) -> int: ...


@signature
def mutual(husband: Husband) -> Wife: ...


@signature
def recursive_alias_with_default(document: Json = None) -> list[Json]: ...


@signature
def described_alias(value: Described, second: Described = 1) -> Described: ...


@signature
def alias_inside(values: dict[str, Plain], optional: Plain | None = None) -> list[Plain]: ...


signature.echoes(
    tree=Tree,
    list_of_trees=list[Tree],
    tree_inside=Forest,
    linked_dataclass=Node,
    folder=Folder,
    nest=Nest,
    expression=Expression,
    plus=Plus,
    recursive_alias=Json,
    recursive_numbers=Numbers,
    plain_alias=Plain,
    object_alias=Record,
)

SIGNATURES = signature.entries
