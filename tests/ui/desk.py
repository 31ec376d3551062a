"""A toolkit to look at and to try."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator
from typing import Any, Literal

from pydantic import BaseModel, Field

from ahvn_tools import Toolkit

SECRETS = ("hunter2", "acme-preset", "ann-resolved")
"""Bound values, which no page shows."""


class Circle(BaseModel):
    kind: Literal["circle"] = "circle"
    radius: float = Field(gt=0, description="In metres.")


class Square(BaseModel):
    kind: Literal["square"]
    side: float


class Group(BaseModel):
    """Several shapes."""

    members: list[Circle | Square | Group]
    note: str | None = None


def draw(
    shape: Circle | Square | Group,
    color: Literal["red", "green"] = "red",
    day: dt.date | None = None,
    labels: dict[str, int] = {},
    limit: int = 10,
    token: str = "",
    user: str = "",
    tenant: str = "",
) -> dict[str, Any]:
    """Draw a shape.

    Args:
        shape: What to draw.
        color: The colour of its lines <b>.
    """
    return {"drawn": shape.model_dump(), "color": color, "limit": limit}


async def count(to: int = 3) -> AsyncIterator[int]:
    """Count."""
    for number in range(to):
        yield number


async def wait(seconds: float = 600) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "waited"


def picture(width: int = 40) -> Any:
    """Make a picture."""
    from PIL import Image

    return Image.new("RGB", (width, 20), "green")


def fail(text: str) -> str:
    """Fail."""
    raise ValueError(text)


def open_desk() -> Toolkit:
    """Return the toolkit."""
    kit = Toolkit("desk").add(draw, tags=["art"], group="drawing", preset={"tenant": "acme-preset"})
    kit.add(count).add(wait).add(picture, tags=["art"]).add(fail, annotations={"readOnlyHint": True})
    kit.bind("token", "auth.token", "hunter2", secret=True)
    kit["draw"].bind("user", resolver=lambda: "ann-resolved")
    return kit
