"""Search: the tools that match a query, best first."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ahvn_tools import ToolDefinition, Toolkit, tool
from ahvn_tools.errors import ToolkitError
from tests.toolkit.subjects import in_threads


def get_weather(city: str, unit: str = "celsius") -> str:
    """Return how warm it is.

    Args:
        city: Where.
        unit: Fahrenheit or celsius.
    """
    return f"{city} in {unit}"


def readFile(path: str) -> str:
    """Return the text of a document on disk."""
    return path


def weigh(thing: str) -> int:
    """Weigh a thing; the weather does not matter."""
    return len(thing)


def lookup(query: str) -> str:
    """查询天气预报。"""
    return query


def kit() -> Toolkit:
    return Toolkit("k").add(get_weather, tags={"outdoors"}).add(readFile).add(weigh).add(lookup)


def names(toolkit: Toolkit, query: str, k: int = 10) -> list[str]:
    return [results.name for results in toolkit.search(query, k)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("weather", ["get_weather", "weigh"]),
        ("read a file", ["readFile"]),
        ("I want to know how to read a file, please", ["readFile"]),
        ("a", ["weigh", "readFile"]),
        ("readfile", ["readFile"]),
        ("read-file", ["readFile"]),
        ("READ_FILE", ["readFile"]),
        ("documents", ["readFile"]),
        ("fahrenheit", ["get_weather"]),
        ("cities", ["get_weather"]),
        ("outdoors", ["get_weather"]),
        ("天气", ["lookup"]),
        ("气", ["lookup"]),
        ("报", ["lookup"]),
        ("预报天", ["lookup"]),
        ("ｗｅａｔｈｅｒ", ["get_weather", "weigh"]),
        ("WÉATHER天", ["lookup", "get_weather", "weigh"]),
        ("nothing alike", []),
        ("", []),
        ("?! -- ()", []),
    ],
)
def test_a_query_finds_words_of_names_descriptions_parameters_and_tags(query, expected):
    assert names(kit(), query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [("อากาศ", ["thai"]), ("ที", ["thai"]), ("किताब", ["hindi"]), ("कमल", []), ("ガス", ["kana"]), ("ｶﾞｽ", ["kana"])],
)
def test_vowel_signs_are_parts_of_words(query, expected):
    toolkit = Toolkit("k").add(tool(name="thai", description="วันนี้อากาศดีมากที่กรุงเทพ")(lambda: 1))
    toolkit.add(tool(name="hindi", description="हिन्दी किताब")(lambda: 1))
    toolkit.add(tool(name="kana", description="カ・ス ガス")(lambda: 1))
    assert names(toolkit, query) == expected


@pytest.mark.parametrize(
    "query",
    [
        'weather"', "weather AND", "NOT weather", "weather*", "name:weather", "{name}:weather", "NEAR(weather",
        "^weather", "weather OR (", "'; DROP TABLE tools; -- weather",
        "weather\x00", "weather\ud800", "-weather", "weather + 1",
    ],
)  # fmt: skip
def test_sqlite_syntax_in_a_query_is_read_as_words(query):
    assert "get_weather" in names(kit(), query)
    assert "get_weather" in names(kit(), "weather")


def test_examples_are_searched():
    sample = tool(name="convert", examples=[{"amount": 3, "into": "zloty"}])(lambda amount, into: amount)
    assert names(kit().add(sample), "zloty") == ["convert"]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.from_regex(r"[A-Z][a-z]{2,5}[0-9]?", fullmatch=True), min_size=2, max_size=4), st.booleans())
def test_each_part_of_a_word_in_camel_case_is_searched(parts, begins_in_lower_case):
    word = "".join(parts)
    word = word[0].lower() + word[1:] if begins_in_lower_case else word
    kit = Toolkit("kit").add(tool(weigh, description=f"Weigh a {word}, or another."))
    assert all(kit.search(query) for query in (*parts, word))


def test_a_tool_whose_name_is_the_query_comes_first():
    toolkit = Toolkit("k").add(tool(name="mail_mail")(lambda: "mail")).add(tool(name="mail")(lambda: 1))
    assert names(toolkit, " mail ")[0] == "mail"


@pytest.mark.parametrize("k", ["3", 2.5, None])
def test_k_is_a_whole_number(k):
    with pytest.raises(ToolkitError, match="k is the number of tools to return"):
        Toolkit("k").search("anything", k)


def test_k_may_exceed_the_number_of_tools():
    assert (len(Toolkit("k").add(readFile).search("disk", 10**30)), Toolkit("k").search("disk")) == (1, [])


def test_at_most_k_tools_are_returned():
    assert names(kit(), "weather", 1) == ["get_weather"]
    with pytest.raises(ToolkitError, match="at least 1"):
        kit().search("weather", 0)
    with pytest.raises(ToolkitError, match="a text, not a NoneType"):
        kit().search(None)


def test_a_search_result_is_a_tool_of_the_searched_view():
    toolkit = kit().bind("unit")
    results = toolkit.session(unit="kelvin").search("warm")[0]
    assert results.call(city="Rome") == "Rome in kelvin"


def test_words_that_any_sentence_contains_do_not_rank():
    def close(issue: int) -> int:
        """Close it."""
        return issue

    def describe(issue: int) -> str:
        """Say of an issue what it is about: a bug, a wish, or an idea that is to be a plan."""
        return str(issue)

    toolkit = Toolkit("k").add(describe).add(close)
    assert names(toolkit, "I want to close an issue that is done")[0] == "close"
    assert names(toolkit, "what is it about?") == ["describe", "close"]


def by_length(query: str, definitions: Sequence[ToolDefinition]) -> list[str]:
    """Rank the tools whose name is at least as long as the query, the shortest first."""
    fitting = [definition.name for definition in definitions if len(definition.name) >= len(query)]
    return sorted(fitting, key=len)


async def by_length_later(query: str, definitions: Sequence[ToolDefinition]) -> list[str]:
    """Rank in a loop."""
    await asyncio.sleep(0)
    return by_length(query, definitions)


@pytest.mark.parametrize("rank", [by_length, by_length_later])
async def test_the_host_can_rank_the_tools(rank):
    toolkit = kit().add_search(rank=rank)
    assert names(toolkit, "12345678") == ["readFile", "get_weather"]
    assert names(toolkit, "weigh") == ["weigh", "lookup", "readFile", "get_weather"]
    assert names(toolkit, "1", k=2) == ["weigh", "lookup"]
    assert names(toolkit.select(names=["lookup", "readFile"]), "1") == ["lookup", "readFile"]
    for found in (
        await toolkit.acall("search_tools", {"query": "12345678"}),
        toolkit.call("search_tools", {"query": "12345678"}),
    ):
        assert [found["name"] for found in found] == ["readFile", "get_weather"]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (["weigh", "weight"], "`rank` returned 'weight', which is no name of a tool that it received"),
        (["search_tools"], "`rank` returned 'search_tools', which"),
        ([1], "`rank` returned '1', which"),
        ("weigh", "`rank` returns the names of tools, best first, not a str"),
        (None, "not a NoneType"),
    ],
)
def test_a_rank_that_returns_something_else_is_an_error(returned, message):
    with pytest.raises(ToolkitError, match=message):
        kit().add_search(rank=lambda query, definitions: returned).search("x")


def test_a_rank_is_a_function():
    with pytest.raises(ToolkitError, match="`rank` is a function"):
        kit().add_search(rank="bm25")


def test_only_visible_tools_are_found():
    toolkit = kit().add_group("web").add(tool(name="web_weather")(lambda: 1), group="web")
    toolkit.add(tool(name="weather_for_hosts")(lambda: 1), audience="host")
    assert names(toolkit.select(audience="main"), "weather") == ["get_weather", "weigh"]
    session = toolkit.session().activate("web")
    assert "web_weather" in names(session, "weather")
    assert "web_weather" not in names(toolkit, "weather")
    assert names(toolkit.select(names=["weigh"]), "weather") == ["weigh"]


def test_the_index_follows_tools_and_bindings():
    toolkit = kit()
    assert names(toolkit, "fahrenheit") == ["get_weather"]
    toolkit.bind("unit")
    assert names(toolkit, "fahrenheit") == []
    toolkit.unbind("unit")
    assert names(toolkit, "fahrenheit") == ["get_weather"]
    toolkit["get_weather"].bind("unit")
    assert names(toolkit, "fahrenheit") == []
    toolkit["get_weather"].unbind("unit")
    assert names(toolkit, "fahrenheit") == ["get_weather"]
    toolkit.remove("get_weather")
    assert names(toolkit, "fahrenheit") == []
    toolkit.add(readFile, rename="fahrenheit")
    assert names(toolkit, "fahrenheit") == ["fahrenheit"]


def test_the_index_follows_a_spec_that_is_bound_outside():
    spec = tool(get_weather)
    toolkit = Toolkit("k").add(spec)
    assert names(toolkit, "fahrenheit") == ["get_weather"]
    spec.bind("unit")
    assert names(toolkit, "fahrenheit") == []


def test_a_common_word_only_ranks_in_a_large_toolkit():
    toolkit = Toolkit("k")
    for number in range(1_100):
        toolkit.add(tool(name=f"task_{number}", description="Do the common thing.")(lambda: 1))
    toolkit.add(tool(name="rare", description="Something else.")(lambda: 1))
    toolkit.add(tool(name="rare_task", description="The common thing.")(lambda: 1))
    assert sorted(names(toolkit, "the rare task")) == ["rare", "rare_task"]
    assert len(names(toolkit, "common", 2_000)) == 1_101
    last = toolkit.select(names=["task_1099"])
    assert names(last, "common") == ["task_1099"]
    few = toolkit.select(names=["task_1099", "rare"])
    assert names(few, "the rare task") == ["rare", "task_1099"]


def test_threads_search_while_tools_are_added_and_removed():
    toolkit, failures = kit(), []
    stop = time.monotonic() + 0.2

    def look():
        try:
            while time.monotonic() < stop:
                assert "get_weather" in names(toolkit, "weather")
        except BaseException as error:
            failures.append(error)

    def change():
        try:
            for number in range(10_000):
                if time.monotonic() >= stop:
                    return
                toolkit.add(readFile, rename=f"weather_{number}")
                toolkit.remove(f"weather_{number}")
        except BaseException as error:
            failures.append(error)

    in_threads((look, look, look, change))
    assert failures == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_can_search():
    toolkit = kit()
    assert names(toolkit, "weather")
    child = os.fork()
    if child == 0:
        try:
            toolkit.add(readFile, rename="weather_of_the_child")
            os._exit(0 if "weather_of_the_child" in names(toolkit, "weather") else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert names(toolkit, "child") == []


def test_without_a_full_text_index_search_says_what_is_missing(monkeypatch):
    import sqlite3

    connect = sqlite3.connect

    def poor(*args, **options):
        database = connect(*args, **options)
        database.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_CREATE_VTABLE else sqlite3.SQLITE_OK
        )
        return database

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", poor)
        with pytest.raises(ToolkitError, match="SQLite with FTS5"):
            kit().search("weather")
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    with pytest.raises(ToolkitError, match="SQLite with FTS5"):
        kit().search("weather")
