"""Functions documented in numpy style; parameter texts go into the schema."""

from typing import Annotated

from pydantic import BaseModel, Field

from tests.schema.signatures.collection import Collection

signature = Collection("docstrings_numpy")


class Filter(BaseModel):
    """Which ones to keep."""

    name: str = ""


@signature
def simple(city: str, days: int = 3) -> str:
    """Forecast the weather.

    Parameters
    ----------
    city : str
        Name of the city.
    days : int
        How many days ahead.

    Returns
    -------
    str
        A text to read out.
    """


@signature
def with_optional(city: str, days: int = 3, unit: str = "C") -> str:
    """Forecast the weather.

    Parameters
    ----------
    city : str
        Name of the city.
    days : int, optional
        How many days ahead.
    unit : {"C", "F"}, default "C"
        Of the temperature.
    """


@signature
def without_types(city: str, days: int = 3) -> str:
    """Forecast the weather.

    Parameters
    ----------
    city
        Name of the city.
    days
        How many days ahead.
    """


@signature
def types_that_disagree(value: int) -> str:
    """Trust the annotation.

    Parameters
    ----------
    value : list of str
        Said to be a list.
    """


@signature
def types_for_untyped(value, other=1):
    """Leave the type open.

    Parameters
    ----------
    value : int
        Said to be a number.
    other : str, optional
        Said to be a text.
    """


@signature
def continued_lines(query: str, limit: int) -> str:
    """Search.

    Parameters
    ----------
    query : str
        What to look for. Words are joined
        by "and" unless there is an operator.
    limit : int
        At most so many.
    """


@signature
def paragraphs(query: str, limit: int) -> str:
    """Search.

    Parameters
    ----------
    query : str
        What to look for.

        Words are joined by "and".

        - a list
        - of rules
    limit : int
        At most so many.
    """


@signature
def together(left: int, right: int) -> str:
    """Describe two at once.

    Parameters
    ----------
    left, right : int
        Both sides.
    """


@signature
def some_missing(first: int, second: int, third: int) -> str:
    """Take three, describe one.

    Parameters
    ----------
    second : int
        The only one described.
    """


@signature
def some_that_do_not_exist(first: int) -> str:
    """Take one, describe two.

    Parameters
    ----------
    first : int
        It is there.
    phantom : int
        It is not.
    """


@signature
def no_description(first: int, second: int) -> str:
    """Name them, say nothing.

    Parameters
    ----------
    first : int
    second : int
        Only this one is described.
    """


@signature
def field_wins(
    first: Annotated[int, Field(description="From Field.")], second: Annotated[int, "From text."], third: int
) -> str:
    """Compare sources.

    Parameters
    ----------
    first : int
        From the docstring.
    second : int
        From the docstring.
    third : int
        From the docstring.
    """


@signature
def models(keep: Filter, drop: Filter | None = None) -> Filter:
    """Filter.

    Parameters
    ----------
    keep : Filter
        What stays.
    drop : Filter, optional
        What goes.
    """


@signature
def other_parameters(value: int, other: int = 1) -> str:
    """Split them.

    Parameters
    ----------
    value : int
        The value.

    Other Parameters
    ----------------
    other : int
        The other value.
    """


@signature
def other_sections(value: int) -> dict[str, int]:
    """Do everything.

    It takes a while.

    Parameters
    ----------
    value : int
        The value.

    Returns
    -------
    dict
        A lot of things.

    Raises
    ------
    ValueError
        If it is wrong.

    See Also
    --------
    simple : The short one.

    Notes
    -----
    This is a note.

    Examples
    --------
    >>> other_sections(1)
    {}
    """


@signature
def only_returns(value: int) -> str:
    """Return it.

    Returns
    -------
    str
        The value as text.
    """


@signature
def starred(value: int, other: int = 1) -> str:
    """Decorate names.

    Parameters
    ----------
    value : int
        The value.
    **other
        The other.
    """


@signature
def yields(value: int) -> str:
    """Yield a lot.

    Parameters
    ----------
    value : int
        The value.

    Yields
    ------
    str
        A text.
    """


@signature
def empty_section(value: int) -> str:
    """Say nothing.

    Parameters
    ----------

    Returns
    -------
    str
        The value.
    """


@signature
def type_without_space(value: int, other: int) -> str:
    """Write types tightly.

    Parameters
    ----------
    value: int
        The value.
    other: int, default: 3
        The other.
    """


@signature
def three_together(red: int, green: int, blue: int, alpha: float = 1.0) -> str:
    """Describe three at once.

    Parameters
    ----------
    red, green, blue
        The colour.
    alpha : float, optional
        How much shines through.
    """


SIGNATURES = signature.entries
