"""Functions documented in epydoc style, which FastMCP does not read."""

from typing import Annotated

from pydantic import Field

from tests.schema.signatures.collection import Collection

signature = Collection("docstrings_epydoc")


@signature
def simple(city: str, days: int = 3) -> str:
    """Forecast the weather.

    @param city: Name of the city.
    @param days: How many days ahead.
    @return: A text to read out.
    """


@signature
def typed(city: str, days: int = 3) -> str:
    """Forecast the weather.

    @param city: Name of the city.
    @type city: str
    @param days: How many days ahead.
    @type days: int
    @return: A text to read out.
    @rtype: str
    """


@signature
def field_wins(first: Annotated[int, Field(description="From Field.")], second: int) -> str:
    """Compare sources.

    @param first: From the docstring.
    @param second: From the docstring.
    """


@signature
def only_return(value: int) -> str:
    """Return it.

    @return: The value as text.
    """


@signature
def continued_lines(query: str, limit: int) -> str:
    """Search.

    @param query: What to look for. Words are joined
        by "and" unless there is an operator.
    @param limit: At most so many.
    """


SIGNATURES = signature.entries
