"""Odd types go in from JSON and come out as JSON: models, enums, dates, unions, sets, trees, paths and images."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

from fastmcp.utilities.types import Image
from pydantic import BaseModel, Field

from ahvn_tools import Toolkit, formats

Size = Enum("Size", {"SMALL": "s", "LARGE": "l"})


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=1, le=9)] = 9


class Tree(BaseModel):
    value: Any = None
    children: list[Tree] = []


@dataclass
class Order:
    id: UUID
    price: Decimal
    pets: list[Cat | Tree]
    due: dt.timedelta | None = None


def echo(order: Order, tags: set[str], pair: tuple[int, Size], file: Path) -> dict[str, Any]:
    """Return what came in, to see its types."""
    kinds = [type(each).__name__ for each in (order.id, order.price, order.due, *order.pets, tags, pair[1], file.name)]
    return {"kinds": kinds, "order": order, "tags": sorted(tags), "size": pair[1], "file": file}


kit = Toolkit("odd").add(echo).add(lambda: Image(data=b"\x89PNG\r\n\x1a\n", format="png"), rename="paint")
tree = {"value": 1, "children": [{"value": [2], "children": []}]}
order = {"id": str(UUID(int=7)), "price": "3.50", "pets": [{"kind": "cat"}, tree], "due": "P1D"}
arguments = {"order": order, "tags": ["b", "a", "b"], "pair": [1, "s"], "file": "notes/tea.md"}
value = kit.call("echo", arguments)
assert value["kinds"] == ["UUID", "Decimal", "timedelta", "Cat", "Tree", "set", "Size", "str"], value
assert value["order"] == {**order, "pets": [{"kind": "cat", "lives": 9}, tree]}, value
assert (value["tags"], value["size"], value["file"]) == (["a", "b"], "s", "notes/tea.md"), value
for wrong in ({"tags": 3}, {"order": {**order, "pets": "cow"}}, {"pair": [1]}, {"file": None}, {"x": 1}):
    assert kit.exec("echo", {**arguments, **wrong}).error.code == "invalid_parameters", wrong
for name in formats.BUILT_IN:
    assert kit.to(name, strict=True), name
assert [block.mime_type for block in kit.exec("paint").content] == ["image/png"]
