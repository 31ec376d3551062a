"""`@tool`: a spec has the function's parameters, and its type of value where that is its own JSON form."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from enum import Enum
from typing import Any, assert_type

from pydantic import BaseModel

from ahvn_tools import ToolContext, ToolResult, ToolSpec, tool


class City(BaseModel):
    """Whose JSON form is a dict."""

    name: str


class Unit(Enum):
    """Whose JSON form is a text."""

    CELSIUS = "C"


@tool
def forecast(city: str, days: int = 1) -> list[str]:
    """Return the weather."""
    return [city] * days


@tool(tags={"read"}, examples=[{"city": "Oslo"}])
async def population(city: str) -> int:
    """An async function; the value is what it returns when it is awaited."""
    return len(city)


@tool(binds={"user": "session.user"}, timeout=1)
def notes(topic: str, user: str) -> str | None:
    """With a binding, the parameters of a call are no longer those of the function."""
    return f"{user}: {topic}"


class OwnSpec(ToolSpec):
    """A subclass of the user's."""

    def price(self) -> int:
        """A method of the user's."""
        return len(self.name)


@tool(spec_class=OwnSpec, binds={"user": "session.user"}, timeout=1)
async def billed(topic: str, user: str) -> str:
    """A tool of another class; its calls have any parameters, and Any as their value."""
    return f"{user}: {topic}"


@tool
def find(name: str) -> City:
    """Return a model."""
    return City(name=name)


@tool
def unit() -> Unit:
    """Return an enum."""
    return Unit.CELSIUS


@tool
def count(to: int) -> Generator[int, None, None]:
    """The value of a generator is the list of its items."""
    yield from range(to)


@tool
async def words(text: str) -> AsyncIterator[str]:
    """So is that of an async one."""
    for word in text.split():
        yield word


@ToolSpec.from_function
def report(topic: str, context: ToolContext) -> str:
    """Its type has any parameters: callers leave the context out, which a type checker cannot see."""
    return f"{context.call_id}: {topic}"


assert_type(forecast("Oslo", days=2), list[str])
assert_type(forecast.call("Oslo"), list[str])
assert_type(forecast.exec("Oslo"), ToolResult)
assert_type(forecast.clone()("Oslo"), list[str])
assert_type(forecast.bind("days"), ToolSpec[..., list[str]])
assert_type(forecast.bind("days")(city="Oslo"), list[str])
assert_type(population("Oslo"), int)
assert_type(notes(topic="tea"), str | None)
assert_type(billed, OwnSpec)
assert_type(billed.price(), int)
assert_type(find("Oslo"), Any)
assert_type(unit(), Any)
assert_type(count(3), list[int])
assert_type(words("a b"), list[str])
assert_type(report("tea"), Any)

spec: ToolSpec = forecast
specs: list[ToolSpec] = [forecast, population, find]
specs_by_name: dict[str, ToolSpec] = {"notes": notes}


def run(spec: ToolSpec[[str], int]) -> int:
    """Take a tool of a certain shape."""
    return spec("Oslo") + 1


assert_type(run(population), int)


async def calls() -> None:
    """The asynchronous calls."""
    assert_type(await population.acall("Oslo"), int)
    assert_type(await forecast.acall("Oslo"), list[str])
    assert_type(await population.aexec("Oslo"), ToolResult)
    async for result in words.astream("a b"):
        assert_type(result, ToolResult)
