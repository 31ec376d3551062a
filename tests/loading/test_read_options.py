"""The variables in documents."""

from __future__ import annotations

import pytest

from ahvn_tools.errors import SourceError
from ahvn_tools.loading.read_options import expand


def test_variables_are_replaced_in_texts_lists_and_mappings():
    env = {"A": "1", "EMPTY": ""}
    assert expand(["${A}-${B:2}", {"x": "${EMPTY}|${B:}"}, "$${A}", 3, None], env) == [
        "1-2",
        {"x": "|"},
        "${A}",
        3,
        None,
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${B}", "The environment variable 'B' is not set: set it, or write ${B:default}."),
        ("${}", "A variable is ${NAME} or ${NAME:default}, and a literal ${ is $${."),
        ("${a", "A variable is "),
        ("${env:B}", "The environment variable 'env' is not set"),
    ],
)
def test_a_variable_that_is_not_set_or_not_finished_is_an_error(text, message):
    if text == "${env:B}":
        assert expand(text, {}) == "B"
        return
    with pytest.raises(SourceError) as caught:
        expand(text, {})
    assert str(caught.value).startswith(message)
