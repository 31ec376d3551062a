"""Dotted keys: what they parse to, what they read, and what a default writes."""

from __future__ import annotations

import functools
from collections import ChainMap, OrderedDict, UserDict, UserList, defaultdict, deque, namedtuple
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from ahvn_tools.errors import StateKeyError
from ahvn_tools.state import MISSING, UNSET, StateKey, copy_containers, copy_state, without_keys

NAMES = st.text(min_size=1, max_size=12)
PATHS = st.lists(NAMES, min_size=1, max_size=6)


def escaped(name: str) -> str:
    """Return a name as one segment of a dotted key."""
    return StateKey.from_name(name).text


class TestParsing:
    @pytest.mark.parametrize(
        ("text", "steps"),
        [
            ("user", ("user",)),
            ("user.id", ("user", "id")),
            ("a.b.c", ("a", "b", "c")),
            ("items[0]", ("items", 0)),
            ("items[-1].id", ("items", -1, "id")),
            ("grid[1][2]", ("grid", 1, 2)),
            ("items[ 3 ]", ("items", 3)),
            (r"first\.name", ("first.name",)),
            (r"a\[0]", ("a[0]",)),
            (r"a\\.b", ("a\\", "b")),
            (r"C:\temp", (r"C:\temp",)),
            ("user-id.größe", ("user-id", "größe")),
            ("a b.c d", ("a b", "c d")),
            ("_private", ("_private",)),
            ("0.1", ("0", "1")),
        ],
    )
    def test_a_key_parses_to_its_steps(self, text, steps):
        key = StateKey.parse(text)
        assert (key.text, key.steps) == (text, steps)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "[0]",
            "a[",
            "a[x]",
            "a[]",
            "a[0]b",
            "a.[0]",
            "a[1.5]",
            "a[0:2]",
            f"a[{'9' * 5000}]",
        ],
    )
    def test_a_malformed_key_is_refused_with_the_grammar(self, text):
        with pytest.raises(StateKeyError, match="names joined by dots"):
            StateKey.parse(text)

    @pytest.mark.parametrize("text", [None, 1, b"user", ("user", "id")])
    def test_a_key_must_be_a_str(self, text):
        with pytest.raises(StateKeyError, match=type(text).__name__):
            StateKey.parse(text)

    @given(PATHS)
    def test_any_names_can_be_written_as_one_key(self, names):
        assert StateKey.parse(".".join(map(escaped, names))).steps == tuple(names)

    @given(NAMES)
    def test_the_text_of_a_name_parses_to_that_name(self, name):
        key = StateKey.from_name(name)
        assert key.steps == (name,)
        assert StateKey.parse(key.text) == key

    @given(PATHS, st.lists(st.integers(-9, 9), max_size=3))
    def test_indices_may_follow_any_name(self, names, indices):
        text = ".".join(map(escaped, names)) + "".join(f"[{index}]" for index in indices)
        assert StateKey.parse(text).steps == (*names, *indices)

    @given(st.text(max_size=20))
    def test_any_text_is_a_key_or_is_refused(self, text):
        try:
            key = StateKey.parse(text)
        except StateKeyError:
            return
        assert key.steps
        assert isinstance(key.steps[0], str)
        assert "" not in key.steps


class Account(BaseModel):
    owner: str = "Ann"


@dataclass
class Session:
    account: Account
    tags: list[str]


class TestReading:
    @pytest.mark.parametrize(
        ("state", "text", "value"),
        [
            ({"a": {"b": 1}}, "a.b", 1),
            ({"a.b": 1}, r"a\.b", 1),
            ({"a": None}, "a", None),
            ({"a": [10, 20, 30]}, "a[1]", 20),
            ({"a": [10, 20, 30]}, "a[-1]", 30),
            ({"a": [[1, 2], [3, 4]]}, "a[1][0]", 3),
            ({"a": (10, 20)}, "a[0]", 10),
            ({"a": {0: "zero"}}, "a[0]", "zero"),
            ({"s": Session(Account(), ["x"])}, "s.account.owner", "Ann"),
            ({"s": Session(Account(), ["x"])}, "s.tags[0]", "x"),
            ({"s": SimpleNamespace(a={"b": 2})}, "s.a.b", 2),
            ({"a": MappingProxyType({"b": 1})}, "a.b", 1),
            ({"a": UserDict(b=1)}, "a.b", 1),
            ({"a": UserList([1, 2])}, "a[1]", 2),
            ({"a": ChainMap({}, {"b": 1})}, "a.b", 1),
            ({"a": OrderedDict(b=1)}, "a.b", 1),
            ({"_a": {"_b": 1}}, "_a._b", 1),
            (UserDict(a=1), "a", 1),
        ],
    )
    def test_a_key_reads_its_value(self, state, text, value):
        assert StateKey.parse(text).read(state) == value

    @pytest.mark.parametrize(
        ("state", "text"),
        [
            ({}, "a"),
            ({"a": {}}, "a.b"),
            ({"a": None}, "a.b"),
            ({"a": 5}, "a.b"),
            ({"a": 5}, "a[0]"),
            ({"a": "text"}, "a[0]"),
            ({"a": b"bytes"}, "a[0]"),
            ({"a": [1]}, "a[1]"),
            ({"a": [1]}, "a[-2]"),
            ({"a": [1]}, "a.b"),
            ({"a": {"0": 1}}, "a[0]"),
            ({"a": {1, 2}}, "a[0]"),
            ({"s": Session(Account(), [])}, "s.nothing"),
            ({"s": Session(Account(), [])}, "s.__class__"),
            ({"s": SimpleNamespace(_hidden=1)}, "s._hidden"),
            ({"a": {"b": 1}}, r"a\.b"),
        ],
    )
    def test_a_key_without_a_value_is_missing(self, state, text):
        assert StateKey.parse(text).read(state) is MISSING

    def test_reading_does_not_change_a_defaultdict(self):
        state = {"a": defaultdict(list)}
        assert StateKey.parse("a.b").read(state) is MISSING
        assert not state["a"]

    def test_a_value_removed_during_the_lookup_is_missing(self):
        class Vanishing(UserDict):
            def __contains__(self, key):
                return True

        assert StateKey.parse("a.b").read({"a": Vanishing()}) is MISSING

    def test_a_property_is_read_as_an_attribute(self):
        class Connection:
            @property
            def token(self):
                return "abc"

        assert StateKey.parse("c.token").read({"c": Connection()}) == "abc"

    @pytest.mark.parametrize("descriptor", [property, functools.cached_property])
    def test_a_property_that_fails_is_not_a_missing_one(self, descriptor):
        class Connection:
            def fail(self):
                return self.there_is_no_such_attribute

            token = descriptor(fail)

        if descriptor is functools.cached_property:
            Connection.token.__set_name__(Connection, "token")
        with pytest.raises(AttributeError, match="there_is_no_such_attribute"):
            StateKey.parse("c.token").read({"c": Connection()})

    def test_the_exception_of_a_property_is_raised(self):
        class Connection:
            @property
            def token(self):
                raise ConnectionError("closed")

        with pytest.raises(ConnectionError, match="closed"):
            StateKey.parse("c.token").read({"c": Connection()})

    def test_the_first_state_with_the_whole_path_is_used(self):
        layers = ({"user": {}}, {"user": {"id": None}}, {"user": {"id": 3}})
        assert StateKey.parse("user.id").find(layers) is None


class TestWriting:
    @pytest.mark.parametrize(
        ("state", "text", "after"),
        [
            ({}, "a", {"a": 7}),
            ({}, "a.b.c", {"a": {"b": {"c": 7}}}),
            ({"a": {"x": 1}}, "a.b", {"a": {"x": 1, "b": 7}}),
            ({"a": [{"x": 1}]}, "a[0].b.c", {"a": [{"x": 1, "b": {"c": 7}}]}),
            ({"a": [1, 2]}, "a[-1]", {"a": [1, 7]}),
            ({}, r"a\.b", {"a.b": 7}),
        ],
    )
    def test_a_key_writes_where_it_reads(self, state, text, after):
        key = StateKey.parse(text)
        key.write(state, 7)
        assert state == after
        assert key.read(state) == 7

    def test_it_writes_into_a_mapping_inside_an_object(self):
        state = {"session": SimpleNamespace(values={})}
        StateKey.parse("session.values.id").write(state, 7)
        assert state["session"].values == {"id": 7}

    @pytest.mark.parametrize(
        ("state", "text", "named"),
        [
            ({"a": 5}, "a.b", "a int"),
            ({"a": None}, "a.b", "a NoneType"),
            ({"a": [1]}, "a[3]", "a list of 1"),
            ({"a": [1]}, "a.b", "a list of 1"),
            ({"a": (1,)}, "a[0]", "a tuple"),
            ({"a": MappingProxyType({})}, "a.b", "a mappingproxy"),
            ({"a": SimpleNamespace()}, "a.b", "a SimpleNamespace"),
            ({}, "a[0]", "nothing"),
            ({}, "a.b[0].c", "nothing"),
            ({"a": {}}, "a.b.c[1]", "nothing"),
        ],
    )
    def test_a_refused_write_names_the_obstacle_and_changes_nothing(self, state, text, named):
        before = repr(state)
        with pytest.raises(StateKeyError, match=rf"the state has {named} where step"):
            StateKey.parse(text).write(state, 7)
        assert repr(state) == before

    def test_the_error_of_a_write_does_not_contain_values(self):
        with pytest.raises(StateKeyError) as caught:
            StateKey.parse("a.b").write({"a": "canary-value"}, "canary-default")
        assert "canary" not in str(caught.value)

    @given(PATHS, st.integers())
    def test_a_written_value_is_read_again(self, names, value):
        state: dict[str, object] = {}
        key = StateKey.parse(".".join(map(escaped, names)))
        key.write(state, value)
        assert key.read(state) == value
        assert len(state) == 1

    @given(st.lists(PATHS, min_size=1, max_size=6))
    def test_writing_one_key_does_not_change_others(self, paths):
        state: dict[str, object] = {}
        written: dict[tuple[str, ...], int] = {}
        for number, names in enumerate(paths):
            key = StateKey.parse(".".join(map(escaped, names)))
            if any(key.steps[: len(other)] == other or other[: len(key.steps)] == key.steps for other in written):
                continue
            key.write(state, number)
            written[key.steps] = number
        for steps, number in written.items():
            assert StateKey("", steps).read(state) == number


Pair = namedtuple("Pair", "left right")


class Triple(tuple):
    __slots__ = ()


class TestOwnContainers:
    @pytest.mark.parametrize(
        "value",
        [
            {"a": {"b": [1, {2}]}},
            [[1], [2]],
            ({"a": 1}, [2]),
            Pair([1], {"a": 2}),
            deque([[1]], maxlen=3),
            defaultdict(list, a=[1]),
            OrderedDict(a=[1]),
            UserDict(a=[1]),
            UserList([[1]]),
            {1, 2},
            bytearray(b"x"),
            MappingProxyType({"a": [1]}),
        ],
    )
    def test_a_copy_is_equal_and_of_the_same_type_and_shares_no_container(self, value):
        own = copy_containers(value)
        assert own == value
        assert type(own) is type(value)
        assert own is not value
        assert containers_of(own).isdisjoint(containers_of(value))

    def test_objects_in_the_containers_are_shared(self):
        held = object()
        assert copy_containers({"a": [held]})["a"][0] is held

    @pytest.mark.parametrize("value", [(1, "a"), Pair(1, 2), Triple((1, [2])), frozenset({1}), "text", 5, None])
    def test_immutable_values_stay_the_same_object(self, value):
        assert copy_containers(value) is value

    def test_a_cycle_is_copied_as_a_cycle(self):
        ring: dict[str, object] = {"list": []}
        ring["list"].append(ring)
        ring["tuple"] = (ring,)
        own = copy_containers(ring)
        assert own is not ring
        assert own["list"][0] is own
        assert own["tuple"][0] is own

    def test_a_container_that_is_referenced_twice_is_copied_once(self):
        shared: list[int] = []
        own = copy_containers({"a": shared, "b": shared})
        assert own["a"] is own["b"]

    def test_a_copied_state_can_be_changed_whatever_its_mapping_type(self):
        own = copy_state(ChainMap({"a": [1]}, {"b": 2}))
        assert own == {"a": [1], "b": 2}
        own["c"] = 3


def containers_of(value: object) -> set[int]:
    found = {id(value)} if isinstance(value, dict | list | set | UserDict | UserList | deque | bytearray) else set()
    inside = (
        value.values()
        if hasattr(value, "values")
        else value
        if isinstance(value, list | tuple | deque | UserList)
        else ()
    )
    return found.union(*(containers_of(item) for item in inside))


class TestWithoutKeys:
    @pytest.mark.parametrize(
        ("state", "text", "left"),
        [
            ({"token": "s", "user": 1}, "token", {"user": 1}),
            ({"a": {"token": "s", "user": 1}}, "a.token", {"a": {"user": 1}}),
            ({"a": ["s", "t"], "b": 1}, "a[1]", {"b": 1}),
            ({"a": SimpleNamespace(token="s"), "b": 1}, "a.token", {"b": 1}),
            ({"a": {"b": SimpleNamespace(token="s"), "c": 1}}, "a.b.token", {"a": {"c": 1}}),
            ({"a": OrderedDict(token="s"), "b": 1}, "a.token", {"b": 1}),
            ({"b": 1}, "a.token", {"b": 1}),
        ],
    )
    def test_the_value_under_the_key_is_removed(self, state, text, left):
        assert without_keys(state, [StateKey.parse(text)]) == left

    def test_an_object_whose_property_fails_is_removed(self):
        class Locked:
            @property
            def token(self):
                raise PermissionError

        assert without_keys({"a": Locked(), "b": 1}, [StateKey.parse("a.token")]) == {"b": 1}

    def test_the_original_state_is_not_changed(self):
        state = {"a": {"token": "s"}}
        without_keys(state, [StateKey.parse("a.token")])
        assert state == {"a": {"token": "s"}}

    def test_a_container_that_is_referenced_twice_loses_the_secret_in_both_places(self):
        shared = {"token": "s", "user": 1}
        assert without_keys({"a": shared, "b": shared}, [StateKey.parse("a.token")]) == {
            "a": {"user": 1},
            "b": {"user": 1},
        }

    def test_a_state_that_contains_itself_loses_the_secret_everywhere(self):
        state = {"token": "s", "user": 1}
        state["me"] = state
        stored = without_keys(state, [StateKey.parse("token")])
        assert "token" not in stored["me"]
        assert state["token"] == "s"


def test_the_sentinels_have_readable_reprs():
    assert (repr(MISSING), repr(UNSET)) == ("MISSING", "UNSET")
