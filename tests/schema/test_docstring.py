"""The texts of docstrings in four styles."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.schema.docstring import Docstring, parse

GOOGLE = """Search the notes.

Looks at titles first.

Args:
    query: Words to look for.
    limit (int, optional): How many notes.
        At most ten. Defaults to 3.
    *rest: More words.

Returns:
    list[str]: The titles.

Example:
    search("tides")
"""
NUMPY = """Search the notes.

Looks at titles first.

Parameters
----------
query : str
    Words to look for.
limit : int, optional
    How many notes.
    At most ten. Defaults to 3.
*rest : str
    More words.

Returns
-------
list of str
    The titles.
"""
REST = """Search the notes.

Looks at titles first.

:param query: Words to look for.
:param int limit: How many notes.
    At most ten. Defaults to 3.
:param rest: More words.
:returns: The titles.
"""
EPYDOC = """Search the notes.

Looks at titles first.

@param query: Words to look for.
@param limit: How many notes.
    At most ten. Defaults to 3.
@param rest: More words.
@return: The titles.
"""


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST, EPYDOC], ids=["google", "numpy", "rest", "epydoc"])
class TestStyles:
    def test_the_description_is_short_and_long(self, text):
        read = parse(text)
        assert (read.short_description, read.long_description) == ("Search the notes.", "Looks at titles first.")

    def test_parameters_are_described(self, text):
        read = parse(text)
        assert read.parameters["query"] == "Words to look for."
        assert read.parameters["rest"] == "More words."
        assert " ".join(read.parameters["limit"].split()) == "How many notes. At most ten. Defaults to 3."

    def test_the_return_value_is_described(self, text):
        assert parse(text).returns == "The titles."

    def test_indentation_as_in_a_method_makes_no_difference(self, text):
        indented = "\n".join(f"    {line}" if line and number else line for number, line in enumerate(text.split("\n")))
        assert parse(indented) == parse(text)

    def test_a_tool_uses_the_texts(self, text):
        def search(query: str, limit: int = 3) -> list[str]:
            return []

        search.__doc__ = text
        spec = ToolSpec.from_function(search)
        assert spec.description == "Search the notes.\n\nLooks at titles first."
        assert spec.params["query"] == {"type": "string", "description": "Words to look for."}
        assert spec.params["limit"]["type"] == "integer"
        assert spec.definition.returns == "The titles."


class TestOptions:
    def made(self, **options):
        def search(query: str) -> None: ...

        search.__doc__ = GOOGLE
        return ToolSpec.from_function(search, **options)

    def test_the_long_description_can_be_omitted(self):
        assert self.made(include_long_description=False).description == "Search the notes."

    def test_the_whole_docstring_can_be_the_description(self):
        spec = self.made(parse_docstring=False)
        assert spec.description == GOOGLE.strip()
        assert "description" not in spec.params["query"]
        assert spec.definition.returns == ""

    def test_an_explicit_description_wins_and_parameters_are_still_described(self):
        spec = self.made(description="Find.")
        assert spec.description == "Find."
        assert spec.params["query"]["description"] == "Words to look for."

    def test_examples_are_separate_from_the_description(self):
        spec = self.made()
        assert "tides" not in spec.description
        assert [found.name for found in Toolkit("notes").add(spec).search("tides")] == [spec.name]


SECTIONS = {
    "google": """Do it.

More.

Args:
    a: One.

Keyword Args:
    b: Two.

Warning:
    It deletes.

Returns:
    A number.

Note:
    Only on Mondays.

Raises:
    ValueError: If it is Sunday.

The last words.
""",
    "list": """Do it.

More.

Arguments:
    - a: One.
    * **b** (int) - Two.

Warning:
    It deletes.

Note:
    Only on Mondays.

Raises:
    ValueError: If it is Sunday.

The last words.
""",
    "numpy": """Do it.

More.

Parameters
----------
a : int
    One.

Keyword Arguments
-----------------
b : int
    Two.

Returns
-------
int
    A number.

Warning
-------
It deletes.

Note
----
Only on Mondays.

Raises
------
ValueError: If it is Sunday.
""",
    "rest": """Do it.

More.

:param a: One.
:keyword b: Two.
:raises ValueError: If it is Sunday.
:returns: A number.

.. warning:: It deletes.

.. note::
    Only on Mondays.

The last words.
""",
    "epydoc": """Do it.

More.

@param a: One.
@keyword b: Two.
@warning: It deletes.
@note: Only on Mondays.
@raise ValueError: If it is Sunday.
@return: A number.

The last words.
""",
}


@pytest.mark.parametrize("style", SECTIONS)
class TestOtherText:
    def made(self, style, **options):
        def act(a: int, b: int = 1) -> int:
            return a + b

        act.__doc__ = SECTIONS[style]
        return ToolSpec.from_function(act, **options)

    def test_all_parameters_are_described(self, style):
        described = {name: node["description"] for name, node in self.made(style).params.items()}
        assert described == {"a": "One.", "b": "Two."}
        assert self.made(style).definition.returns in ("A number.", "")

    def test_other_sections_and_what_follows_them_are_in_the_description(self, style):
        description = self.made(style).description
        assert description.startswith("Do it.\n\nMore.\n\n")
        for text in ("It deletes.", "Only on Mondays.", "ValueError: If it is Sunday."):
            assert description.count(text) == 1
        assert description.count("The last words.") == (style != "numpy")
        assert "One." not in description

    def test_an_option_names_the_sections(self, style):
        description = self.made(style, docstring_sections=["Notes"]).description
        assert "Only on Mondays." in description
        assert "It deletes." not in description
        assert "Sunday" not in description
        assert description.count("The last words.") == (style != "numpy")
        assert "Monday" not in self.made(style, docstring_sections=[]).description

    def test_the_short_description_has_none_of_it(self, style):
        assert self.made(style, include_long_description=False).description == "Do it."


class TestIgnoredParts:
    def test_a_default_in_the_text_creates_none_and_is_never_evaluated(self, tmp_path):
        trace = tmp_path / "trace"

        def f(query: str) -> str:
            return query

        f.__doc__ = f"""Do it.

        Args:
            query (int): Something. Defaults to open({str(trace)!r}, "w") or "x".
        """
        spec = ToolSpec.from_function(f)
        assert spec.input_schema["required"] == ["query"]
        assert "default" not in spec.params["query"]
        assert spec.exec().error.message == "Invalid arguments: 'query' is missing."
        assert not trace.exists()

    def test_annotations_win_over_types_in_the_text(self):
        def f(count: int, free) -> None:
            """Do it.

            Args:
                count (str): A count.
                free (int): Anything.
            """

        params = ToolSpec.from_function(f).params
        assert params["count"] == {"type": "integer", "description": "A count."}
        assert params["free"] == {"description": "Anything."}

    def test_unknown_parameters_are_ignored(self):
        def f(a: int) -> None:
            """Do it.

            Args:
                a: One.
                b: Two.
            """

        assert list(ToolSpec.from_function(f).params) == ["a"]

    def test_attributes_are_not_parameters(self):
        assert parse("Do it.\n\nAttributes:\n    a: One.\n").parameters == {}

    def test_a_parameter_without_text_is_not_described(self):
        assert parse("Do it.\n\nArgs:\n    a:\n").parameters == {}


class TestEdgeCases:
    @pytest.mark.parametrize("text", [None, "", "  \n  "])
    def test_an_empty_docstring_has_no_texts(self, text):
        assert parse(text) == Docstring()

    def test_several_names_in_one_entry_share_its_description(self):
        text = "Do it.\n\nParameters\n----------\na, b : int\n    Numbers.\n"
        assert parse(text).parameters == {"a": "Numbers.", "b": "Numbers."}

    def test_a_role_at_the_start_of_a_line_is_prose(self):
        text = "Do it.\n\n:class:`Thing` is what it makes.\n\nArgs:\n    a: One.\n"
        assert parse(text).parameters == {"a": "One."}

    def test_text_that_no_style_can_read_is_a_description(self):
        text = "Do it.\n\n:param"
        read = parse(text)
        assert read.short_description == "Do it."
        assert read.parameters == {}

    @given(text=st.text(max_size=200) | st.text(alphabet=":@ \nArgsparm-=", max_size=60))
    @example(text=": :")
    def test_any_text_can_be_parsed(self, text):
        read = parse(text)
        assert isinstance(read.short_description, str)
        assert all(isinstance(description, str) for description in read.parameters.values())


PARTS = [
    "Search: by words", "- an item", "Args:\n    query: Words.\n    limit (int): How many\n        notes.", "Args:",
    "Args:\n    query:\n        Words.\n\n    limit: How many.", "Args:\n    - query: Words.", "Args:\n  query: Words.",
    "Args:\n        query: Words.\n    limit: How many.", "Returns:\n    list[str]: Titles.", "Yields:\n    A title.",
    "Example:\n    >>> search('a')", "Examples:\n    search('b')", "Note:\n    Slow.", "After all.", ":param query: W.",
]  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), max_size=4))
def test_a_section_of_other_text_changes_no_other_section(parts: list[str]) -> None:
    text = "\n\n".join(["Search the notes.", *parts])
    plain, noted = parse(text), parse(f"{text}\n\nNote:\n    Titles only.")
    assert dataclasses.replace(noted, long_description=plain.long_description) == plain
    assert noted.long_description.endswith("Note:\n    Titles only.")
