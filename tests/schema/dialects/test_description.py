"""Descriptions: sentences are joined as sentences, and a default is stated once."""

from __future__ import annotations

import pytest

from ahvn_tools.schema.dialects.description import append_description, describe_default, join_sentences


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("Maximum number", "Maximum number. Default: 3."),
        ("Maximum number.", "Maximum number. Default: 3."),
        ("Maximum number \n", "Maximum number. Default: 3."),
        ("Maximum number (of all)", "Maximum number (of all). Default: 3."),
        ("Maximum number (of all.)", "Maximum number (of all.) Default: 3."),
        ('It says "no."', 'It says "no." Default: 3.'),
        ('It says "no"', 'It says "no". Default: 3.'),
        ("How many?", "How many? Default: 3."),
        ("Choose one:", "Choose one: Default: 3."),
        ("最大数量。", "最大数量。 Default: 3."),
        ("", "Default: 3."),
        (None, "Default: 3."),
    ],
)
def test_a_sentence_ends_before_the_next_one_begins(text, joined):
    assert join_sentences(text, "Default: 3.") == joined


def test_a_last_sentence_stays_as_it_is():
    node = {"description": "Maximum number"}
    append_description(node, [None, ""])
    assert node == {"description": "Maximum number"}
    empty: dict[str, str] = {}
    append_description(empty, [])
    assert empty == {}


@pytest.mark.parametrize(
    ("description", "default"),
    [
        ("How many. Defaults to 3.", 3), ("How many. Default: 3.", 3), ("How many (default 3)", 3),
        ("How many; the default value is 3", 3), ("By default, 3", 3), ("3 by default", 3), ("defaulted to 3.0", 3),
        ("Default is 3", 3.0), ("Default = 0.5.", 0.5), ("Default is 'red'.", "red"), ('Default: "red".', "red"),
        ("Defaults to red", "red"), ("Defaults to `red`.", "red"), ("'red' by default", "red"),
        ("Default is False.", False), ("Default: false", False), ("Defaults to [].", []),
        ("default: {'a': 1}", {"a": 1}), ('default: {"a": 1}', {"a": 1}), ("Defaults to ''", ""), ("Anything", None),
    ],
)  # fmt: skip
def test_a_stated_default_is_not_stated_again(description, default):
    assert describe_default({"description": description, "default": default}) is None


@pytest.mark.parametrize(
    ("description", "default"),
    [
        ("Default: 30.", 3), ("Default: 3.5", 3), ("Default: 13", 3), ("At most 3. The default is elsewhere.", 3),
        ("A default directory", "directory"), ("Defaults to redder", "red"), ("Defaults to 2, at most 3", 3), ("", ""),
        ("No default", ""), ("13 by default", 3), ("Default: 3", 10**400), ("Defaults to inf", 1.0),
    ],
)  # fmt: skip
def test_another_value_is_not_the_default(description, default):
    assert describe_default({"description": description, "default": default}) is not None
