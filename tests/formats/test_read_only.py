"""Read-only exports: the same object until something changes, and it refuses every change."""

from __future__ import annotations

import contextlib
import copy
import gc
import json
import pickle
import threading
import weakref
from types import SimpleNamespace
from typing import Any, get_args

import pydantic
import pydantic_core
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ahvn_tools import ToolDefinition, Toolkit, ToolSpec, formats
from ahvn_tools.errors import ToolkitError, ToolLookupError, ToolSpecError
from ahvn_tools.formats import FormatName
from ahvn_tools.formats.read_only import ReadOnlyDict, ReadOnlyExports, ReadOnlyList, to_read_only

FORMATS: tuple[str, ...] = get_args(FormatName)
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    *[(name, {}) for name in FORMATS],
    ("openai", {"strict": True}),
    ("anthropic", {"strict": True, "examples": False}),
    ("anthropic", {"defer_loading": ["one"], "allowed_callers": ["direct"]}),
    ("anthropic", {"cache_control": {"type": "ephemeral"}}),
    ("prompt", {"instructions": "Write JSON."}),
]


class Address(pydantic.BaseModel):
    street: str
    lines: list[str] = []


def ship(to: Address, user: str = "anyone", weight: float = 1.5, note: str | None = None) -> str:
    """Ship a parcel."""
    return f"{to.street} {user} {weight} {note}"


def ping() -> str:
    """Is it there?"""
    return "pong"


def spec_of_ship() -> ToolSpec:
    return ToolSpec.from_function(ship)


def containers(value: Any) -> list[Any]:
    """Return the dicts and lists of an export, at any depth."""
    if isinstance(value, dict):
        return [value, *(found for item in value.values() for found in containers(item))]
    if isinstance(value, list):
        return [value, *(found for item in value for found in containers(item))]
    return []


@pytest.mark.parametrize("name", FORMATS)
def test_a_read_only_export_is_the_same_object_each_time_and_equals_a_fresh_one(name):
    spec = spec_of_ship()
    kit = Toolkit("kit").add(spec).add(ping)
    for tools in (spec, kit):
        exported = tools.to(name, read_only=True)
        assert exported is tools.to(name, read_only=True)
        assert exported == tools.to(name)
        assert json.dumps(exported) == json.dumps(tools.to(name))
        assert tools.to(name) is not tools.to(name)


def test_each_set_of_options_has_an_export_of_its_own():
    spec = spec_of_ship()
    strict = spec.to("openai", read_only=True, strict=True)
    assert strict == spec.to("openai", strict=True) != spec.to("openai", read_only=True)
    assert spec.to("openai", read_only=True, strict=True) is strict
    assert spec.to("openai", read_only=True, strict=False) == spec.to("openai")
    with pytest.raises(TypeError, match="strct"):
        spec.to("openai", read_only=True, strct=True)


def test_options_count_by_their_values_at_the_call():
    kit = Toolkit("kit").add(spec_of_ship()).add(ping)
    deferred = ["ship"]
    first = kit.to("anthropic", read_only=True, defer_loading=deferred)
    assert kit.to("anthropic", read_only=True, defer_loading=["ship"]) is first
    deferred.append("ping")
    both = kit.to("anthropic", read_only=True, defer_loading=deferred)
    assert [tool.get("defer_loading") for tool in both] == [True, True]
    assert [tool.get("defer_loading") for tool in first] == [True, None]


def test_an_export_does_not_change_with_the_options_that_it_was_made_from():
    control = {"type": "ephemeral", "ttl": "1h"}
    spec = spec_of_ship()
    exported = spec.to("anthropic", read_only=True, cache_control=control)
    control["ttl"] = "5m"
    assert exported["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert spec.to("anthropic", read_only=True, cache_control=control)["cache_control"]["ttl"] == "5m"


@pytest.mark.parametrize(("first", "second"), [(True, 1), (1, 1.0), ("1", b"1"), (None, False)], ids=repr)
def test_options_of_different_types_are_different_options(first, second):
    module = SimpleNamespace(
        export=lambda definitions, option: [{"name": each.name, "option": repr(option)} for each in definitions],
        calls=list, results=list, choice=dict,
    )  # fmt: skip
    definition = ToolDefinition(name="ping")
    exports = ReadOnlyExports()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(formats._registered, "by-option", module)
        for option in (first, second, [first], [second], {"a": first}, {"a": second}):
            (exported,) = exports.export("by-option", [definition], {"option": option})
            assert exported["option"] == repr(option)


def test_an_option_that_cannot_be_compared_is_refused():
    with pytest.raises(ToolSpecError, match="option 'defer_loading' has changed: it is a object") as raised:
        spec_of_ship().to("anthropic", read_only=True, defer_loading=object())
    assert "leave out read_only=True" in str(raised.value)


def test_an_export_that_is_no_json_data_is_refused():
    module = SimpleNamespace(export=lambda _definitions: [{"value": {1}}], calls=list, results=list, choice=dict)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(formats._registered, "with-sets", module)
        with pytest.raises(ToolSpecError, match="contains a set"):
            spec_of_ship().to("with-sets", read_only=True)


@pytest.mark.parametrize("tools", [spec_of_ship(), Toolkit("kit").add(ping)], ids=["spec", "toolkit"])
def test_an_unknown_format_is_the_same_error(tools):
    with pytest.raises(ToolLookupError, match="openai"):
        tools.to("opnai", read_only=True)


def test_entries_that_are_not_tools_are_refused():
    with pytest.raises(ToolSpecError, match="more entries"):
        spec_of_ship().to("bedrock", read_only=True, cache_point={"type": "default"})


def test_an_export_refuses_a_change_at_any_depth_and_says_what_to_do():
    exported = Toolkit("kit").add(spec_of_ship()).to("openai", read_only=True)
    before = json.dumps(exported)
    for value in containers(exported):
        with pytest.raises(TypeError, match=r"copy\.deepcopy\(export\), or export without read_only=True"):
            value.clear()
    assert json.dumps(exported) == before


ARGUMENTS: list[tuple[Any, ...]] = [(), ("a",), (0,), ("a", 1), (0, 1), ([1],), ({"b": 1},), (1,)]


@pytest.mark.parametrize(("read_only", "plain", "content"), [
    (ReadOnlyDict, dict, {"a": 1, "b": 2}), (ReadOnlyList, list, [3, 1, "a"]),
], ids=["dict", "list"])  # fmt: skip
def test_no_method_changes_it(read_only, plain, content):
    """Whatever methods a later Python adds, too."""
    for name in sorted(vars(plain).keys() - {"__init__", "__init_subclass__", "__new__", "__subclasshook__"}):
        for arguments in ARGUMENTS:
            value = read_only(content)
            with contextlib.suppress(Exception):  # these arguments do not fit the method
                getattr(value, name)(*arguments)
            assert plain(value) == content, name


@pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value)), lambda value: json.loads(json.dumps(value))],
    ids=["deepcopy", "pickle", "json"],
)
def test_a_whole_copy_is_plain_and_can_be_changed(duplicate):
    kit = Toolkit("kit").add(spec_of_ship())
    exported = kit.to("openai", read_only=True)
    other = duplicate(exported)
    assert other == exported
    assert {type(value) for value in containers(other)} == {dict, list}
    other[0]["function"]["parameters"]["properties"]["to"]["title"] = "Where"
    other.append({})
    assert exported == kit.to("openai")


def test_other_encoders_write_it_as_a_fresh_one():
    exported, fresh = (spec_of_ship().to("openai", read_only=flag) for flag in (True, False))
    assert pydantic_core.to_json(exported) == pydantic_core.to_json(fresh)
    assert pydantic.TypeAdapter(dict[str, Any]).validate_python(exported) == fresh
    assert pydantic.TypeAdapter(dict[str, Any]).dump_json(exported) == pydantic_core.to_json(fresh)
    assert repr(exported) == repr(fresh)


@pytest.mark.parametrize("value", [1.5, None, True, "text", (), [], {}, [[{"a": [1]}], ({"b": []},)]], ids=repr)
def test_a_read_only_copy_equals_what_it_is_made_of(value):
    assert to_read_only(value) == value
    assert type(to_read_only(value)) is not list


def test_sessions_and_selections_with_the_same_tools_share_the_export():
    kit = Toolkit("kit").add(spec_of_ship()).add(ping)
    exported = kit.to("openai", read_only=True)
    assert kit.session(user="ann").to("openai", read_only=True) is exported
    assert kit.select(names=["ship", "ping"]).to("openai", read_only=True) is exported
    assert kit.select(names=["ping"]).to("openai", read_only=True) == [kit["ping"].to("openai", read_only=True)]


def test_a_strict_toolkit_still_refuses_its_findings():
    kit = Toolkit("kit", strict=True).add(ping)
    assert kit.to("openai", read_only=True)
    kit.bind("nobody")
    with pytest.raises(ToolkitError, match="nobody"):
        kit.to("openai", read_only=True)


def test_nothing_that_was_removed_is_kept_alive():
    def kit_and_references() -> tuple[Toolkit, list[weakref.ref[Any]]]:
        def local() -> str:
            """Return a text."""
            return ""

        kit = Toolkit("kit").add(local).add(ping)
        kit.to("openai", read_only=True)
        kit["local"].to("openai", read_only=True)
        return kit, [weakref.ref(kit["local"].definition), weakref.ref(local)]

    kit, references = kit_and_references()
    exports = kit._view.store.exports
    assert len(exports._exports) == 1
    kit.remove("local")
    gc.collect()
    assert [reference() for reference in references] == [None, None]
    assert len(exports._exports) == 0


def test_the_number_of_kept_exports_is_limited():
    definitions = [ToolDefinition(name=f"tool_{number}") for number in range(30)]
    exports = ReadOnlyExports()
    for number in range(200):
        instructions = str(number)
        assert instructions in exports.export("prompt", definitions, {"instructions": instructions})[0]["content"]
    assert len(exports._exports) == 32
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ahvn_tools.formats.read_only.MAX_TOOLS", 95)
        exports.export("openai", definitions, {})
        assert len(exports._exports) == 3
        patch.setattr("ahvn_tools.formats.read_only.MAX_TOOLS", 1)
        latest = exports.export("gemini", definitions, {})
        assert exports.export("gemini", definitions, {}) is latest
    spec = spec_of_ship()
    for number in range(200):
        spec.to("prompt", read_only=True, instructions=str(number))
    assert len(spec.definition._shared) == 32


def test_an_export_that_is_dropped_while_others_are_dropped_is_no_error():
    """A definition may be collected in another thread at any time."""

    class Exports(dict):
        def __iter__(self) -> Any:
            keys = list(self.keys())
            if len(keys) > 2:
                del self[keys[0]]
            return iter(keys)

    definitions = [ToolDefinition(name="ping")]
    exports = ReadOnlyExports()
    exports._exports = Exports()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ahvn_tools.formats.read_only.MAX_EXPORTS", 2)
        for number in range(6):
            assert exports.export("prompt", definitions, {"instructions": str(number)})


def test_threads_get_the_same_export():
    for _ in range(20):
        kit = Toolkit("kit").add(spec_of_ship()).add(ping)
        start, found = threading.Barrier(4), []

        def export(kit=kit, start=start, found=found):
            start.wait(10)
            found.append((kit.to("openai", read_only=True), kit["ship"].to("openai", read_only=True)))

        threads = [threading.Thread(target=export) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert {id(exported) for exported, _ in found} == {id(found[0][0])}
        assert {id(exported) for _, exported in found} == {id(found[0][1])}


NAMES = st.sampled_from(["one", "two", "three"])


class Changes(RuleBasedStateMachine):
    """Tools, a toolkit, sessions and selections that change in every way."""

    @initialize()
    def begin(self) -> None:
        self.spec = spec_of_ship()
        self.others: list[ToolSpec] = []
        self.kit = Toolkit("kit").add(self.spec, rename="one", group="mail", tags=["a"]).add(ping, rename="two")
        self.views: list[Any] = [self.kit]

    @rule(on=st.booleans())
    def bind_spec(self, on: bool) -> None:
        self.spec.bind("user") if on else self.spec.unbind("user")

    @rule(on=st.booleans(), name=st.sampled_from(["user", "note"]))
    def bind_kit(self, on: bool, name: str) -> None:
        self.kit.bind(name) if on else self.kit.unbind(name)

    @rule(on=st.booleans(), name=NAMES)
    def bind_tool(self, on: bool, name: str) -> None:
        if name in self.kit and "weight" in self.kit[name].compiled.template.inputs.parameters:
            self.kit[name].bind("weight") if on else self.kit[name].unbind("weight")

    @rule(description=st.sampled_from(["Ship it.", "Send it."]))
    def transform(self, description: str) -> None:
        other = self.spec.transform(description=description)
        self.others = [*self.others, other][-2:]
        self.spec._replace_template(other.compiled.template, other.body)

    @rule(name=NAMES, tags=st.frozensets(st.sampled_from(["a", "b"]), min_size=1))
    def add(self, name: str, tags: frozenset[str]) -> None:
        self.kit.add(self.spec, rename=name, tags=tags, group="mail", on_duplicate="replace")

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        if name in self.kit:
            self.kit.remove(name)

    @rule(name=NAMES)
    def tag(self, name: str) -> None:
        if name in self.kit:
            self.kit.tag(name, "b")

    @rule(index=st.integers(0, 5), on=st.booleans())
    def switch(self, index: int, on: bool) -> None:
        view = self.views[index % len(self.views)]
        if "mail" in view.groups:
            view.set_groups({"mail": on})

    @rule(name=NAMES, index=st.integers(0, 5), on=st.booleans())
    def finish_with(self, name: str, index: int, on: bool) -> None:
        if name in self.kit:
            self.views[index % len(self.views)].finish_with(name, Address if on else None)

    @rule(index=st.integers(0, 5))
    def session(self, index: int) -> None:
        self.views = [*self.views, self.views[index % len(self.views)].session(user="ann")][:6]

    @rule(index=st.integers(0, 5), tags=st.sampled_from([["a"], ["b"]]))
    def select(self, index: int, tags: list[str]) -> None:
        self.views = [*self.views, self.views[index % len(self.views)].select(tags=tags)][:6]

    @rule(on=st.booleans())
    def search(self, on: bool) -> None:
        self.kit.add_search() if on and "search_tools" not in self.kit else None

    @invariant()
    def a_read_only_export_equals_a_fresh_one(self) -> None:
        for name, options in OPTIONS:
            for tools in (self.spec, *self.others, *self.views):
                is_kit = isinstance(tools, Toolkit)
                if "defer_loading" in options and "one" not in (
                    [definition.name for definition in tools.definitions()] if is_kit else [tools.name]
                ):
                    continue
                fresh, exported = tools.to(name, **options), tools.to(name, read_only=True, **options)
                assert exported == fresh
                assert json.dumps(exported) == json.dumps(fresh)
                assert tools.to(name, read_only=True, **options) is exported
                assert {type(value) for value in containers(exported)} <= {ReadOnlyDict, ReadOnlyList}


TestChanges = pytest.mark.filterwarnings("ignore")(Changes.TestCase)
TestChanges.settings = settings(max_examples=8, stateful_step_count=15, deadline=None)


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
class TestManyChanges(Changes.TestCase):
    settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
