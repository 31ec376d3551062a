"""Generator functions, plain and async, and functions that hand out an iterator."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Generator, Iterator
from typing import Annotated, Any
from typing import AsyncIterator as TypingAsyncIterator
from typing import Generator as TypingGenerator
from typing import Iterator as TypingIterator

from fastmcp.utilities.types import Image
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType

from tests.schema.signatures.collection import Collection

signature = Collection("streams")


Numbers = TypeAliasType("Numbers", Iterator[int])


class Chunk(BaseModel):
    """A piece of the answer."""

    text: str


@signature
def not_annotated(count: int):
    yield count


@signature
async def async_not_annotated(count: int):
    yield count


@signature
def iterator(count: int) -> Iterator[int]:
    yield count


@signature
def typing_iterator(count: int) -> TypingIterator[str]:
    yield str(count)


@signature
def generator(count: int) -> Generator[int, None, None]:
    yield count


@signature
def generator_of_one_type(count: int) -> TypingGenerator[str, None, str]:
    yield str(count)


@signature
def iterator_of_models(count: int) -> Iterator[Chunk]:
    yield Chunk(text=str(count))


@signature
def iterator_of_optional(count: int) -> Iterator[int | None]:
    yield count


@signature
def iterator_of_lists(count: int) -> Iterator[list[str]]:
    yield [str(count)]


@signature
def iterator_of_described(count: int) -> Iterator[Annotated[int, Field(ge=0, description="One of them.")]]:
    yield count


@signature
def described_iterator(count: int) -> Annotated[Iterator[int], Field(description="All of them.")]:
    yield count


@signature
def iterator_of_any(count: int) -> Iterator[Any]:
    yield count


@signature
def bare_iterator(count: int) -> Iterator:
    yield count


@signature
def iterator_of_bytes(count: int) -> Iterator[bytes]:
    yield bytes(count)


@signature
def iterator_of_images(count: int) -> Iterator[Image]:
    yield Image(data=bytes(count), format="png")


@signature
async def async_iterator(count: int) -> AsyncIterator[int]:
    yield count


@signature
async def async_typing_iterator(count: int) -> TypingAsyncIterator[str]:
    yield str(count)


@signature
async def async_generator(count: int) -> AsyncGenerator[float, None]:
    yield count


@signature
async def async_iterable(count: int) -> AsyncIterable[int]:
    yield count


@signature
async def async_iterator_of_models(count: int) -> AsyncIterator[Chunk]:
    yield Chunk(text=str(count))


@signature
async def async_iterator_of_any(count: int) -> AsyncIterator[Any]:
    yield count


@signature
def hands_out_an_iterator(count: int) -> Iterator[int]:
    return iter(range(count))


@signature
def list_of_a_generator(count: int) -> list[int]:
    yield count


@signature
def iterator_by_alias(count: int) -> Numbers:
    yield count


SIGNATURES = signature.entries
