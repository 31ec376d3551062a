"""Functions documented in google style; parameter texts go into the schema."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from tests.schema.signatures.collection import Collection

signature = Collection("docstrings_google")


class Filter(BaseModel):
    """Which ones to keep."""

    name: str = ""


@signature
def simple(city: str, days: int = 3) -> str:
    """Forecast the weather.

    Args:
        city: Name of the city.
        days: How many days ahead.

    Returns:
        A text to read out.
    """


@signature
def typed(city: str, days: int = 3) -> str:
    """Forecast the weather.

    Args:
        city (str): Name of the city.
        days (int, optional): How many days ahead. Defaults to 3.

    Returns:
        str: A text to read out.
    """


@signature
def types_that_disagree(value: int) -> str:
    """Trust the annotation.

    Args:
        value (list[str]): Said to be a list.
    """


@signature
def types_for_untyped(value, other=1):
    """Leave the type open.

    Args:
        value (int): Said to be a number.
        other (str, optional): Said to be a text.
    """


@signature
def continued_lines(query: str, limit: int) -> str:
    """Search.

    Args:
        query: What to look for. Words are joined
            by "and" unless there is an
            operator between them.
        limit: At most so many.
    """


@signature
def paragraphs(query: str, limit: int) -> str:
    """Search.

    Args:
        query: What to look for.

            Words are joined by "and".

            * a list
            * of rules
        limit: At most so many.
    """


@signature
def description_on_the_next_line(query: str, limit: int) -> str:
    """Search.

    Args:
        query:
            What to look for.
        limit (int):
            At most so many.
    """


@signature
def some_missing(first: int, second: int, third: int) -> str:
    """Take three, describe one.

    Args:
        second: The only one described.
    """


@signature
def some_that_do_not_exist(first: int) -> str:
    """Take one, describe two.

    Args:
        first: It is there.
        phantom: It is not.
    """


@signature
def field_wins(
    first: Annotated[int, Field(description="From Field.")], second: Annotated[int, "From text."], third: int
) -> str:
    """Compare sources.

    Args:
        first: From the docstring.
        second: From the docstring.
        third: From the docstring.
    """


@signature
def field_without_description(first: Annotated[int, Field(ge=1)], second: int = Field(1, le=9)) -> str:
    """Compare sources.

    Args:
        first: From the docstring.
        second: From the docstring.
    """


@signature
def empty_field_description(first: Annotated[int, Field(description="")]) -> str:
    """Compare sources.

    Args:
        first: From the docstring.
    """


@signature
def aliased(first: Annotated[int, Field(alias="theFirst")]) -> str:
    """Compare names.

    Args:
        first: Described by its Python name.
    """


@signature
def aliased_told_by_alias(first: Annotated[int, Field(alias="theFirst")]) -> str:
    """Compare names.

    Args:
        theFirst: Described by its alias.
    """


@signature
def models(keep: Filter, drop: Filter | None = None, others: list[Filter] | None = None) -> Filter:
    """Filter.

    Args:
        keep: What stays.
        drop: What goes.
        others: What else.
    """


@signature
def arguments_heading(value: int) -> str:
    """Say Arguments.

    Arguments:
        value: The value.
    """


@signature
def parameters_heading(value: int) -> str:
    """Say Parameters.

    Parameters:
        value: The value.
    """


@signature
def keyword_heading(value: int, *, other: int = 1) -> str:
    """Split them.

    Args:
        value: The value.

    Keyword Args:
        other: The other value.
    """


@signature
def other_sections(value: int) -> dict[str, Any]:
    """Do everything.

    It takes a while. There is more
    to say about it.

    Args:
        value: The value.

    Returns:
        A lot of things.

    Raises:
        ValueError: If it is wrong.

    Example:
        >>> other_sections(1)
        {}

    Note:
        This is a note.
    """


@signature
def colon_in_description(value: str, ratio: str) -> str:
    """Read texts with signs.

    Args:
        value: One of: a, b, or c: the rest.
        ratio: Like 1:2 (or {"a": 1}), `code`, "quotes" and a \\backslash.
    """


@signature
def unicode(größe: int, 名前: str) -> str:
    """Measure.

    Args:
        größe: In Metern – ungefähr.
        名前: 人の名前。
    """


@signature
def no_long_description(value: int) -> str:
    """
    Start on the second line.

    Args:
        value: The value.
    """


@signature
def only_arguments(value: int) -> str:
    """Args:
    value: The value.
    """


@signature
def only_returns(value: int) -> str:
    """Return it.

    Returns:
        The value as text.
    """


@signature
def no_parameters() -> str:
    """Take nothing.

    Args:
        value: Not there.
    """


@signature
def indented_by_two(value: int, other: int) -> str:
    """Indent less.

    Args:
      value: The value.
      other: The other.
    """


@signature
def tabs(value: int, other: int) -> str: ...


tabs.__doc__ = "Indent with tabs.\n\n\tArgs:\n\t\tvalue: The value.\n\t\tother: The other.\n\t"


@signature
def odd_spacing(value: int, other: int) -> str:
    """Space freely.

    Args:

        value : The value.

        other:    The other.

    """


@signature
def starred_and_quoted(value: int, other: int) -> str:
    """Decorate names.

    Args:
        `value`: The value.
        **other: The other.
    """


@signature
def dashes(value: int, other: int) -> str:
    """Use dashes.

    Args:
        value - The value.
        other -- The other.
    """


@signature
def defaults_told(value: int, flag: bool = False) -> str:
    """Describe defaults in words.

    Args:
        value: The value. Defaults to __import__("os").getcwd().
        flag: Whether to. Defaults to True.
    """


@signature
def only_text(value: int) -> str:
    """Do it.

    Nothing here is a section: just text.
    """


@signature
def markdown_list(value: int, other: str) -> str:
    """Do it.

    Parameters are:

    - value: the value
    - other: the other
    """


@signature
def return_type_described(value: int) -> dict[str, int]:
    """Count.

    Args:
        value: The value.

    Returns:
        dict[str, int]: Counts by name.
    """


@signature
def section_that_is_a_parameter(note: str, returns: int, example: str) -> str:
    """Name parameters like sections.

    Args:
        note: The note.
        returns: How many come back.
        example: One of them.
    """


@signature
def nested_list(options: str, other: int) -> str:
    """Choose.

    Args:
        options: One of these:
            fast: as quick as can be
            slow: with care
        other: The other.
    """


@signature
def decorator_in_example(value: int) -> str:
    """Decorate.

    @see the manual, or write to me@example.org.

    Args:
        value: The value.

    Example:
        @decorated
        def function(): ...
    """


@signature
def roles_in_text(value: int) -> str:
    """Use :func:`roles` in the text.

    :mod:`json` writes it.

    Args:
        value: As in :class:`Filter`.
    """


@signature
def heading_in_text(value: int, other: int) -> str:
    """Explain first.

    Note: this is no section.
    Example: neither is this.

    Args:
        value: The value.
        other: The other.
    """


@signature
def text_after_arguments(value: int) -> str:
    """Explain later.

    Args:
        value: The value.

    And this is said at the end.
    """


@signature
def empty_section(value: int) -> str:
    """Say nothing.

    Args:

    Returns:
        The value.
    """


@signature
def attributes_section(value: int) -> str:
    """Describe attributes.

    Attributes:
        value: An attribute, not the parameter.
    """


@signature
def complex_type_in_docstring(value: dict[str, list[int]], other: int | None = None) -> str:
    """Describe types with commas.

    Args:
        value (dict[str, list[int]]): The value.
        other (Union[int, None], optional): The other. Defaults to None.
    """


SIGNATURES = signature.entries
