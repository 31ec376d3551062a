"""How many values a message has, counted without reading it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools.mcp.trust.json_values import JsonValueCounter

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab",[{\\\n'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='a",[{\\'), inner),
    max_leaves=30,
)


def counted(value: Any) -> int:
    """Return the number of brackets and commas that a value is written with."""
    if not isinstance(value, list | dict):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(len(value) - 1, 0) + sum(map(counted, inner))


@given(JSON, st.integers(1, 7))
def test_strings_do_not_count_however_the_bytes_come(value: Any, size: int) -> None:
    data = json.dumps(value).encode()
    values = JsonValueCounter()
    for at in range(0, len(data), size):
        values.add(data[at : at + size])
    assert values.count == counted(value)


def test_a_text_is_one_value_whatever_stands_in_it() -> None:
    assert JsonValueCounter().add(json.dumps({"text": 'a,b,[{"' * 100_000}).encode()) == 1
    assert JsonValueCounter().add(json.dumps([{}] * 100).encode()) == 200
