"""Functions documented in reST (sphinx) style; parameter texts go into the schema."""

from typing import Annotated

from pydantic import BaseModel, Field

from tests.schema.signatures.collection import Collection

signature = Collection("docstrings_sphinx")


class Filter(BaseModel):
    """Which ones to keep."""

    name: str = ""


@signature
def simple(city: str, days: int = 3) -> str:
    """Forecast the weather.

    :param city: Name of the city.
    :param days: How many days ahead.
    :return: A text to read out.
    """


@signature
def typed(city: str, days: int = 3) -> str:
    """Forecast the weather.

    :param city: Name of the city.
    :type city: str
    :param days: How many days ahead.
    :type days: int
    :returns: A text to read out.
    :rtype: str
    """


@signature
def typed_inline(city: str, days: int = 3) -> str:
    """Forecast the weather.

    :param str city: Name of the city.
    :param int days: How many days ahead.
    """


@signature
def types_that_disagree(value: int) -> str:
    """Trust the annotation.

    :param value: Said to be a list.
    :type value: list[str]
    """


@signature
def continued_lines(query: str, limit: int) -> str:
    """Search.

    :param query: What to look for. Words are joined
        by "and" unless there is an operator
        between them.
    :param limit: At most so many.
    """


@signature
def paragraphs(query: str, limit: int) -> str:
    """Search.

    :param query: What to look for.

        Words are joined by "and".
    :param limit: At most so many.
    """


@signature
def some_missing(first: int, second: int, third: int) -> str:
    """Take three, describe one.

    :param second: The only one described.
    """


@signature
def some_that_do_not_exist(first: int) -> str:
    """Take one, describe two.

    :param first: It is there.
    :param phantom: It is not.
    """


@signature
def field_wins(
    first: Annotated[int, Field(description="From Field.")], second: Annotated[int, "From text."], third: int
) -> str:
    """Compare sources.

    :param first: From the docstring.
    :param second: From the docstring.
    :param third: From the docstring.
    """


@signature
def models(keep: Filter, drop: Filter | None = None) -> Filter:
    """Filter.

    :param keep: What stays.
    :param drop: What goes.
    """


@signature
def other_names(first: int, second: int, third: int, fourth: int) -> str:
    """Use every word for a parameter.

    :parameter first: The first.
    :arg second: The second.
    :argument third: The third.
    :key fourth: The fourth.
    """


@signature
def raises(value: int) -> str:
    """Raise at times.

    It takes a while.

    :param value: The value.
    :raises ValueError: If it is wrong.
    :return: The value as text.
    """


@signature
def only_returns(value: int) -> str:
    """Return it.

    :return: The value as text.
    """


@signature
def empty_description(first: int, second: int) -> str:
    """Name them, say nothing.

    :param first:
    :param second: Only this one is described.
    """


@signature
def no_text_before(value: int) -> str:
    """:param value: The value."""


@signature
def roles(value: int) -> str:
    """Use roles.

    :param value: See :func:`simple`, ``code`` and **bold**.
    """


@signature
def type_with_brackets(value: dict[str, int], other: int | None = None) -> str:
    """Describe types with brackets.

    :param value: The value.
    :type value: dict[str, int]
    :param other: The other, see `:param:`.
    :type other: int, optional
    """


@signature
def malformed(value: int, other: int) -> str:
    """Forget the end.

    :param value The value.
    :param other: The other.
    """


@signature
def nothing_named(value: int) -> str:
    """Forget the name.

    :param: The value.
    """


@signature
def blank_lines_between(first: int, second: int) -> str:
    """Leave blank lines.

    :param first: The first.

    :param second: The second.

    :return: A text.
    """


SIGNATURES = signature.entries
