"""ToolRegistry: which methods of a class are tools, what a subclass changes, what the specs of one instance share."""

from __future__ import annotations

import abc
import dataclasses
import functools
import gc
import re
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Generic, TypeVar

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.dependencies import Depends
from pydantic import BaseModel

from ahvn_tools import ToolRegistry, ToolSpec, reg_toolspec
from ahvn_tools.errors import BindError, DefinitionError, ToolLookupError

T = TypeVar("T")
U = TypeVar("U")


class Base(ToolRegistry):
    def __init__(self, name: str = "base") -> None:
        self.name = name

    @reg_toolspec
    def greet(self, who: str) -> str:
        """Greet a person.

        Args:
            who: The one to greet.
        """
        return f"{self.name}: {who}"

    @reg_toolspec(name="sum", tags={"math"}, examples=[{"a": 1, "b": 2}])
    def add(self, a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    def plain(self) -> None: ...


# every kind of method


class Kinds(ToolRegistry):
    label = "k"

    @reg_toolspec
    def plain(self, a: int) -> str:
        return f"{self.label}{a}"

    @reg_toolspec()
    async def later(self, a: int) -> str:
        return f"{self.label}{a}"

    @reg_toolspec
    def items(self, n: int) -> Iterator[str]:
        for i in range(n):
            yield f"{self.label}{i}"

    @reg_toolspec
    async def aitems(self, n: int) -> AsyncIterator[str]:
        for i in range(n):
            yield f"{self.label}{i}"

    @reg_toolspec
    @classmethod
    def outer_class(cls, a: int) -> str:
        return f"{cls.__name__}{a}"

    @classmethod
    @reg_toolspec
    def inner_class(cls, a: int) -> str:
        return f"{cls.__name__}{a}"

    @reg_toolspec
    @staticmethod
    def outer_static(a: int) -> str:
        return f"s{a}"

    @staticmethod
    @reg_toolspec
    def inner_static(a: int) -> str:
        return f"s{a}"


@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        ("plain", {"a": 1}, "k1"),
        ("later", {"a": 1}, "k1"),
        ("items", {"n": 2}, ["k0", "k1"]),
        ("aitems", {"n": 2}, ["k0", "k1"]),
        ("outer_class", {"a": 1}, "Kinds1"),
        ("inner_class", {"a": 1}, "Kinds1"),
        ("outer_static", {"a": 1}, "s1"),
        ("inner_static", {"a": 1}, "s1"),
    ],
)
def test_a_method_of_any_kind_is_a_tool(name, arguments, value):
    spec = Kinds().to_toolspecs()[name]
    assert spec(**arguments) == value
    assert list(spec.params) == list(arguments)


def test_the_method_itself_stays_a_method():
    assert Base("b").greet("Ann") == "b: Ann"
    assert Kinds.outer_static(1) == "s1"


def test_a_marked_method_can_be_recognized_by_its_attributes():
    @reg_toolspec(name="sum")
    def add(self) -> int: ...

    assert (add._is_toolspec, add._toolspec_args, add._toolspec_kwargs) == (True, (), {"name": "sum"})


def test_the_marked_methods_of_a_class_and_their_options_are_readable():
    class Child(Base):
        greet = None

        def add(self, a: int, b: int = 2) -> int:
            return a * b

        @reg_toolspec(tags={"late"})
        def late(self, other: Later) -> int: ...  # noqa: F821

    methods = Child.marked_methods()
    assert methods == {
        "add": {"name": "sum", "tags": {"math"}, "examples": [{"a": 1, "b": 2}]},
        "late": {"tags": {"late"}},
    }
    methods["add"].clear()
    assert Child.marked_methods()["add"]["name"] == "sum"
    assert ToolRegistry.marked_methods() == {}


def test_a_registry_that_changes_its_tools_lists_and_finds_the_changed_ones():
    class Changed(Base):
        def to_toolspecs(self) -> dict[str, ToolSpec]:
            specs = super().to_toolspecs()
            return {"hello": specs["greet"], "total": specs["sum"].transform(name="total")}

    changed = Changed("c")
    assert changed.list_toolspecs() == ["hello", "total"]
    assert changed.toolspec("hello")(who="Ann") == changed.toolspec("greet")(who="Ann") == "c: Ann"
    assert changed.toolspec("total")(a=1) == 2
    with pytest.raises(ToolLookupError, match="no tool 'sum'"):
        changed.toolspec("sum")


def test_only_marked_methods_are_tools_in_order_of_definition():
    assert Base().list_toolspecs() == list(Base().to_toolspecs()) == ["greet", "sum"]
    assert ToolRegistry().list_toolspecs() == []


def test_the_basic_example_works():
    class MyKnowledgeBase(ToolRegistry):
        def __init__(self) -> None:
            self.items: dict[str, str] = {}

        @reg_toolspec(parse_docstring=True)
        def search(self, query: str, limit: int = 10) -> list:
            """Search the base."""
            return [title for title, content in self.items.items() if query in content][:limit]

        @reg_toolspec(parse_docstring=True)
        def add_item(self, title: str, content: str) -> dict:
            """Add an item."""
            self.items[title] = content
            return {"title": title}

    kb = MyKnowledgeBase()
    tools = kb.to_toolspecs()
    assert kb.list_toolspecs() == ["search", "add_item"]
    assert tools["add_item"](title="t", content="tea time") == {"title": "t"}
    assert tools["search"](query="tea") == ["t"]


def test_the_decorator_takes_options():
    class Shop(ToolRegistry):
        @reg_toolspec(
            description="Custom.",
            output_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
            examples=[{"a": 1}],
            title="T",
            timeout=5,
            annotations={"readOnlyHint": True},
        )
        def count(self, a: int) -> Any:
            return {"n": a}

    spec = Shop().toolspec("count")
    assert (spec.description, spec.title, spec.timeout) == ("Custom.", "T", 5)
    assert spec.definition.annotations == {"readOnlyHint": True}
    assert spec.definition.examples == [{"inputs": {"a": 1}}]
    assert spec(a=3) == 3


# self


def test_self_is_invisible_and_fixed():
    spec = Base("b").toolspec("greet")
    texts = [str(spec.input_schema), spec.signature(), spec.docstring, spec.code, spec.to_prompt(), repr(spec)]
    texts += [str(spec.to_jsonschema()), str(spec.to_mcp()), str(spec.to_fastmcp().parameters), str(dict(spec.binds))]
    assert [text for text in texts if "self" in text] == []
    assert spec.exec(who="x", self=Base("other")).error.code == "invalid_parameters"
    with pytest.raises(BindError):
        spec.bind("self")


def test_each_instance_has_its_own_tools():
    one, two = Base("one"), Base("two")
    assert one.toolspec("greet")(who="x") == "one: x"
    assert two.toolspec("greet")(who="x") == "two: x"


def test_specs_are_new_at_each_call_and_so_are_their_bindings():
    base = Base()
    first = base.to_toolspecs()["greet"].bind("who", default="Ann")
    assert first() == "base: Ann"
    assert list(base.to_toolspecs()["greet"].params) == ["who"]
    assert list(base.toolspec("greet").params) == ["who"]
    assert base.toolspec("greet").state == {}


def test_instances_share_the_compiled_tools():
    one, two = Base("one").to_toolspecs(), Base("two").to_toolspecs()
    assert one["greet"].definition is two["greet"].definition
    assert Base().toolspec("greet").definition is one["greet"].definition


def test_the_class_does_not_reference_its_instances():
    base = Base("gone")
    spec = base.to_toolspecs()["greet"]
    assert spec(who="x") == "gone: x"
    watch = weakref.ref(base)
    gc.disable()  # no cycle: the instance goes when its last reference goes
    try:
        del base, spec
        assert watch() is None
    finally:
        gc.enable()


# lookup


def test_a_tool_is_found_by_tool_name_and_by_method_name():
    assert Base().toolspec("sum").name == Base().toolspec("add").name == "sum"


def test_the_error_about_an_unknown_name_suggests_a_similar_one():
    with pytest.raises(ToolLookupError, match=r"Base has no tool 'gret'. Did you mean 'greet'") as caught:
        Base().toolspec("gret")
    assert isinstance(caught.value, KeyError)


def test_a_similar_method_name_is_suggested_too():
    with pytest.raises(ToolLookupError, match="'sum'"):
        Base().toolspec("plus")


# inheritance


def test_tools_are_inherited_and_added():
    class Child(Base):
        @reg_toolspec
        def more(self) -> int:
            return 1

    assert Child().list_toolspecs() == ["greet", "sum", "more"]
    assert Child("c").toolspec("greet")(who="x") == "c: x"
    assert Base().list_toolspecs() == ["greet", "sum"]


def test_an_override_without_the_decorator_keeps_the_options_and_has_the_new_body():
    class Child(Base):
        def add(self, a: int, b: int = 1, c: int = 1) -> int:
            return a + b + c

    spec = Child().toolspec("sum")
    assert (spec.name, spec.tags, list(spec.params)) == ("sum", {"math"}, ["a", "b", "c"])
    assert spec(a=1) == 3
    assert spec.description == "Add."


def test_an_override_has_its_own_docstring_if_it_has_one():
    class Child(Base):
        def greet(self, who: str) -> str:
            """Hail.

            Args:
                who: The one to hail.
            """
            return who

    class Mute(Child):
        def greet(self, who: str) -> str:
            return who

    for cls in (Child, Mute):
        spec = cls().toolspec("greet")
        assert spec.description == "Hail."
        assert spec.params["who"]["description"] == "The one to hail."


def test_a_decorated_override_adds_its_options_to_the_inherited_ones():
    class Child(Base):
        @reg_toolspec(tags={"new"}, title="Sum")
        def add(self, a: int, b: int = 1) -> int:
            return a

    class Grandchild(Child):
        @reg_toolspec(examples=[], name="total")
        def add(self, a: int) -> int:
            return a

    assert Child().list_toolspecs() == ["greet", "sum"]
    assert (Child().toolspec("sum").tags, Child().toolspec("sum").title) == ({"new"}, "Sum")
    assert Grandchild.marked_methods()["add"] == {"name": "total", "tags": {"new"}, "title": "Sum", "examples": []}
    assert Grandchild().toolspec("total").tags == {"new"}


class Tenants(ToolRegistry):
    @reg_toolspec(name="lookup", binds={"tenant": "tenant"})
    def find(self, query: str, tenant: str = "public") -> str:
        return f"{tenant}: {query}"


def test_a_decorated_override_keeps_a_bound_parameter_hidden():
    class Child(Tenants):
        @reg_toolspec
        def find(self, query: str, tenant: str = "public") -> str:
            return query

    class Open(Tenants):
        @reg_toolspec(binds={})
        def find(self, query: str, tenant: str = "public") -> str:
            return query

    assert list(Child().toolspec("lookup").params) == ["query"]
    assert list(Open().toolspec("lookup").params) == ["query", "tenant"]


@pytest.mark.parametrize("mark", [reg_toolspec, lambda method: method])
def test_the_error_about_an_inherited_option_names_the_override_and_the_option(mark):
    text = (
        "Child.find: 'lookup' has no parameter 'tenant' to bind. Known: 'query'. It inherits the options 'binds' from "
        "Tenants, 'name' from Tenants; @reg_toolspec(binds=…) replaces one."
    )
    with pytest.raises(DefinitionError, match=f"^{re.escape(text)}$"):

        class Child(Tenants):
            @mark
            def find(self, query: str) -> str:
                return query


def test_none_under_the_name_of_a_tool_is_an_error_that_names_its_method():
    with pytest.raises(DefinitionError, match=r"`lookup = None` in 'Child' removes no tool.*Write `find = None`"):

        class Child(Tenants):
            lookup = None

    class Fine(Tenants):
        lookup = None
        find = None

    class Field(ToolRegistry):
        cache = None

        @reg_toolspec(name="cache")
        def store(self) -> int:
            return 1

    assert Fine().list_toolspecs() == []
    assert Field().list_toolspecs() == ["cache"]


@pytest.mark.parametrize("wrap", [property, functools.cached_property, functools.lru_cache])
def test_a_marked_method_that_becomes_no_method_is_an_error(wrap):
    with pytest.raises(DefinitionError, match=r"Child.size is marked as a tool, or overrides one, and is a .*: write"):

        class Child(ToolRegistry):
            @wrap
            @reg_toolspec
            def size(self) -> int: ...


def test_none_removes_a_tool_and_a_method_brings_it_back():
    class Child(Base):
        greet = None

    class Grandchild(Child):
        def greet(self, who: str) -> str:
            return "again"

    assert Child().list_toolspecs() == ["sum"]
    assert Grandchild().toolspec("greet")(who="x") == "again"


@pytest.mark.parametrize("other", [3, property(lambda self: 1), functools.partial(print)])
def test_a_tool_overridden_by_no_method_is_an_error(other):
    with pytest.raises(DefinitionError, match=r"greet is marked as a tool, or overrides one, .*`greet = None`"):
        type("Child", (Base,), {"greet": other})


def test_mixins_combine_by_their_order():
    class Loud:
        @reg_toolspec
        def shout(self) -> str:
            return "LOUD"

        def greet(self, who: str) -> str:
            return who.upper()

    class Quiet(ToolRegistry):
        @reg_toolspec
        def shout(self) -> str:
            return "quiet"

    class Both(Loud, Quiet, Base): ...

    assert sorted(Both().list_toolspecs()) == ["greet", "shout", "sum"]
    assert Both().toolspec("shout")() == "LOUD"
    assert Both().toolspec("greet")(who="ann") == "ANN"


def test_two_tools_of_one_name_are_an_error_when_the_class_is_made():
    with pytest.raises(DefinitionError, match="'a' and 'b' of 'Twice' have the same tool name 'same'"):

        class Twice(ToolRegistry):
            @reg_toolspec(name="same")
            def a(self) -> None: ...

            @reg_toolspec(name="same")
            def b(self) -> None: ...


@pytest.mark.parametrize("mark", [property(lambda self: 1), functools.partial(print), 3, "name", Base])
def test_only_methods_can_be_marked(mark):
    with pytest.raises(DefinitionError, match="is for methods, classmethods and staticmethods, not for a"):
        reg_toolspec(mark)


@pytest.mark.parametrize("wrap", [lambda f: f, classmethod])
def test_a_method_without_self_is_refused(wrap):
    def lonely(*, a: int = 1) -> int: ...

    with pytest.raises(DefinitionError, match=r"Wrong.lonely has no '(self|cls)' parameter; .*@staticmethod"):
        type("Wrong", (ToolRegistry,), {"lonely": reg_toolspec(wrap(lonely))})


def test_self_cannot_be_unbound():
    class Odd(ToolRegistry):
        @reg_toolspec
        def f(this, a: int) -> int:
            return a

        @reg_toolspec
        @staticmethod
        def g(this: int) -> int:
            return this

    with pytest.raises(BindError, match="'this' of 'f' is the instance of its method"):
        Odd().toolspec("f").unbind("this")
    assert Odd().toolspec("f").unbind("a")(a=1) == 1
    assert Odd().toolspec("g").unbind("this")(this=1) == 1


# bindings on methods


def test_binds_hide_a_parameter():
    class Notes(ToolRegistry):
        @reg_toolspec(binds={"db": "session.db", "user": "user.id"})
        def add(self, text: str, db: object, user: int = 0) -> str:
            return f"{text} {db['name']} {user}"

    spec = Notes().toolspec("add")
    assert list(spec.params) == ["text"]
    assert dict(spec.binds) == {"db": "session.db", "user": "user.id"}
    spec.state.update({"session": {"db": {"name": "main"}}, "user": {"id": "7"}})
    assert spec(text="x") == "x main 7"


def test_a_parameter_without_a_json_form_is_bound_later():
    class Notes(ToolRegistry):
        @reg_toolspec
        def add(self, text: str, db: weakref.ref) -> str:
            return f"{text} {db()}"

        @reg_toolspec
        def count(self, text: str) -> int:
            return len(text)

    class MoreNotes(Notes):
        @reg_toolspec
        def clear(self, db: weakref.ref) -> str:
            return f"cleared {db()}"

    for notes in (Notes(), MoreNotes()):
        spec = notes.toolspec("add")
        with pytest.raises(DefinitionError, match="'db' of 'add' must be bound"):
            spec(text="x")
        assert notes.toolspec("count")(text="x") == 1
        assert spec.bind("db", resolver=lambda: weakref.ref(Notes))(text="x") == f"x {Notes}"
    assert MoreNotes().list_toolspecs() == ["add", "count", "clear"]


def test_a_parameter_of_the_class_itself_is_bound_later():
    class Box(ToolRegistry):
        @reg_toolspec
        def is_same(self, other: Box) -> bool:
            return self is other

    box = Box()
    with pytest.raises(DefinitionError, match="'other' of 'is_same' must be bound"):
        _ = box.toolspec("is_same").definition
    assert box.toolspec("is_same").bind("other", default=box)() is True


# other kinds of classes


@pytest.mark.parametrize("slots", [False, True])
def test_a_dataclass_is_a_registry(slots):
    @dataclasses.dataclass(slots=slots)
    class Point(ToolRegistry):
        x: int

        @reg_toolspec
        def shifted(self, by: int) -> int:
            return self.x + by

        @reg_toolspec
        def other(self, to: Point | None = None) -> bool:
            return isinstance(to, Point)

    spec = Point(3).toolspec("shifted")
    assert spec(by=2) == 5
    assert Point(1).toolspec("other")(to={"x": 1}) is True


def test_the_class_that_slots_replace_is_garbage_collected():
    watched: list[weakref.ref[type]] = []

    class Watched(ToolRegistry):
        def __init_subclass__(cls, **kwargs: Any) -> None:
            watched.append(weakref.ref(cls))
            super().__init_subclass__(**kwargs)

    @dataclasses.dataclass(slots=True)
    class Point(Watched):
        x: int

        @reg_toolspec(binds={"handle": "h"})
        def shifted(self, by: int, handle: weakref.ref, lost: int = 0) -> int:
            return self.x + by

        @reg_toolspec(binds={"handle": "h"})
        def unknown(self, by: int, handle: Nowhere) -> Point:  # noqa: F821
            return self

    first, second = watched
    gc.collect()
    assert second() is Point
    assert first() is None


def test_the_defining_frames_locals_are_garbage_collected():
    class Handle:
        pass

    def define(handle: Handle) -> tuple[type[ToolRegistry], weakref.ref[Handle]]:
        class Notes(ToolRegistry):
            @reg_toolspec(binds={"db": "db"})
            def add(self, text: str, db: Nowhere) -> str:  # noqa: F821
                return text

        return Notes, weakref.ref(handle)

    notes, watch = define(Handle())
    gc.collect()
    assert notes().list_toolspecs() == ["add"]
    assert watch() is None


def test_a_class_with_slots_has_no_dict():
    class Slim(ToolRegistry):
        __slots__ = ("x",)

        @reg_toolspec
        def get(self) -> int:
            return self.x

    slim = Slim()
    slim.x = 4
    assert slim.toolspec("get")() == 4
    assert not hasattr(slim, "__dict__")


def test_an_abstract_method_may_be_a_tool():
    class Shape(ToolRegistry, abc.ABC):
        @reg_toolspec(tags={"geometry"})
        @abc.abstractmethod
        def area(self, scale: float = 1) -> float:
            """Measure the area."""

    class Square(Shape):
        def area(self, scale: float = 1) -> float:
            return 4 * scale

    with pytest.raises(TypeError):
        Shape()
    spec = Square().toolspec("area")
    assert (spec.tags, spec.description, spec(scale=2)) == ({"geometry"}, "Measure the area.", 8)


class Repository(ToolRegistry, Generic[T]):
    @reg_toolspec
    def put(self, item: T, more: list[T] | None = None) -> T:
        return item


class Pair(Repository[list[U]], Generic[U]): ...


class Numbers(Repository[int]): ...


class Words(Pair[str]): ...


def test_a_generic_base_uses_the_types_of_its_subclass():
    assert Numbers().toolspec("put")(item="3", more=["4"]) == 3
    assert Numbers().toolspec("put").params["item"] == {"type": "integer"}
    assert Words().toolspec("put").params["item"] == {"type": "array", "items": {"type": "string"}}
    assert Words().toolspec("put").output_schema["properties"]["result"]["type"] == "array"
    assert Repository().toolspec("put").params["item"] == {}


def test_one_type_variable_may_stand_for_two_types():
    class Left(ToolRegistry, Generic[T]):
        @reg_toolspec
        def left(self, item: T) -> None: ...

    class Right(ToolRegistry, Generic[T]):
        @reg_toolspec
        def right(self, item: "T") -> None: ...

    class Both(Left[int], Right[str]): ...

    class Child(Both): ...

    for cls in (Both, Child):
        assert cls().toolspec("left").params["item"] == {"type": "integer"}
        assert cls().toolspec("right").params["item"] == {"type": "string"}


def test_an_override_in_a_generic_subclass_has_its_own_types():
    class Own(Repository[int]):
        def put(self, item: str, more: list[str] | None = None) -> str:
            return item

    assert Own().toolspec("put").params["item"] == {"type": "string"}


def test_a_pydantic_model_is_a_registry_in_both_orders():
    class First(ToolRegistry, BaseModel):
        x: int

        @reg_toolspec
        def shifted(self, by: int) -> int:
            return self.x + by

    class Second(BaseModel, ToolRegistry):
        x: int

        @reg_toolspec
        def shifted(self, by: int) -> int:
            return self.x + by

    class Child(Second):
        def shifted(self, by: int) -> int:
            return self.x - by

    class Own(BaseModel, ToolRegistry):
        x: int

        @reg_toolspec
        def total(self, other: Own | None = None) -> int:
            return self.x + (other.x if other else 0)

    assert Own(x=1).toolspec("total")(other={"x": 2}) == 3
    assert First(x=1).toolspec("shifted")(by=2) == 3
    assert Second(x=1).toolspec("shifted")(by=2) == 3
    assert Child(x=1).toolspec("shifted")(by=2) == -1
    assert First(x=1).model_dump() == {"x": 1}
    assert list(Second.model_fields) == ["x"]


def test_other_init_subclass_bases_receive_their_keywords():
    seen: list[tuple[str, str]] = []

    class Plugin:
        def __init_subclass__(cls, *, kind: str = "", **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            seen.append((cls.__name__, kind))

    class First(ToolRegistry, Plugin, kind="a"):
        @reg_toolspec
        def f(self) -> int:
            return 1

    class Second(Plugin, ToolRegistry, kind="b"):
        @reg_toolspec
        def f(self) -> int:
            return 2

    assert seen == [("First", "a"), ("Second", "b")]
    assert (First().toolspec("f")(), Second().toolspec("f")()) == (1, 2)


def test_a_base_that_stops_the_chain_does_not_stop_the_scan():
    class Selfish:
        def __init_subclass__(cls) -> None:
            pass

    class Child(Selfish, Base):
        def greet(self, who: str) -> str:
            return "child"

    assert Child().list_toolspecs() == ["greet", "sum"]
    assert Child().toolspec("greet")(who="x") == "child"


def test_a_metaclass_and_a_hook_of_the_same_module_do_not_hide_its_names():
    class Unit(BaseModel):
        at: int

    class Hooked(ToolRegistry):
        def __init_subclass__(cls, **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)

    class Meta(type):
        def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
            return super().__new__(mcs, name, bases, namespace)

    class Child(Hooked, metaclass=Meta):
        @reg_toolspec
        def f(self, unit: "Unit") -> int:
            return unit.at

    assert Child().toolspec("f")(unit={"at": 3}) == 3


# what FastMCP injects


def secret_token() -> str:
    return "injected"


class Injecting(ToolRegistry):
    def __init__(self, name: str) -> None:
        self.name = name

    @reg_toolspec
    def default(self, a: int, tok: str = Depends(secret_token)) -> str:
        """Return a text."""
        return f"{self.name} {a} {tok}"

    @reg_toolspec
    async def annotated(self, a: int, *, tok: Annotated[str, Depends(secret_token)]) -> str:
        return f"{self.name} {a} {tok}"

    @reg_toolspec
    def served(self, ctx: Context, a: int) -> str:
        return f"{self.name} {a} {ctx.fastmcp.name}"

    @reg_toolspec
    @classmethod
    def of_class(cls, a: int, tok: str = Depends(secret_token)) -> str:
        return f"{cls.__name__} {a} {tok}"

    @reg_toolspec
    @staticmethod
    def static(a: int, tok: str = Depends(secret_token)) -> str:
        return f"{a} {tok}"


@pytest.mark.parametrize("cls", [Injecting, type("Heir", (Injecting,), {})])
@pytest.mark.parametrize("name", ["default", "annotated", "of_class", "static"])
async def test_only_fastmcp_fills_an_injected_parameter_of_a_method(name, cls):
    spec = cls("one").to_toolspecs()[name]
    start = {"of_class": f"{cls.__name__} ", "static": ""}.get(name, "one ")
    assert list(spec.params) == list(spec.to_fastmcp().parameters["properties"]) == ["a"]
    assert spec(a=1) == await spec.acall(a="1") == f"{start}1 injected"
    assert spec.exec(a=1, tok="evil").error.code == "invalid_parameters"
    assert getattr(cls("two"), name).__name__ == spec.function.__name__ == name


async def test_a_method_receives_the_context_of_the_server():
    server = FastMCP("test")
    spec = Injecting("one").toolspec("served")
    assert list(spec.params) == ["a"]
    server.add_tool(spec.to_fastmcp())
    async with Client(server) as client:
        assert (await client.call_tool("served", {"a": 1})).data == "one 1 test"
        refused = await client.call_tool("served", {"a": 1, "ctx": "evil"}, raise_on_error=False)
    assert refused.is_error


def test_injected_methods_use_their_own_instance_and_do_not_keep_it_alive():
    one, two = Injecting("one"), Injecting("two")
    specs = [one.toolspec("default"), two.toolspec("default")]
    assert [spec(a=1) for spec in specs] == ["one 1 injected", "two 1 injected"]
    assert specs[0].definition is specs[1].definition
    assert one.default(1, "mine") == "one 1 mine"
    watch = weakref.ref(one)
    del one, specs
    gc.collect()
    assert watch() is None


def test_the_instance_is_masked_in_the_error_of_an_injected_method():
    class Account(ToolRegistry):
        def __str__(self) -> str:
            return "account 4711"

        @reg_toolspec
        def close(self, tok: str = Depends(secret_token)) -> None:
            raise LookupError(self)

    assert Account().toolspec("close").exec().error.message == "LookupError: <self>"


# forward references


class Early(ToolRegistry):
    @reg_toolspec
    def read(self, page: Page) -> int:
        return page.number


class Page(BaseModel):
    number: int


def test_an_annotation_may_name_a_later_definition():
    assert Early().list_toolspecs() == ["read"]
    assert Early().toolspec("read")(page={"number": 4}) == 4


def test_a_name_that_is_never_defined_is_an_error_at_first_use():
    class Never(ToolRegistry):
        @reg_toolspec
        def f(self, a: Nowhere) -> int: ...  # noqa: F821

    for _ in range(2):
        with pytest.raises(DefinitionError, match="'a' of 'f' is annotated 'Nowhere'"):
            Never().to_toolspecs()


def test_the_error_about_a_missing_name_contains_a_fix():
    class Never(ToolRegistry):
        @reg_toolspec
        def f(self, a: Strr) -> int: ...  # noqa: F821

    with pytest.raises(DefinitionError, match=r"Define or import 'Strr', or bind the parameter.*binds="):
        Never().to_toolspecs()


def test_a_late_scan_knows_the_defining_frames_names_and_then_drops_them():
    class Handle:
        pass

    def define() -> tuple[type[ToolRegistry], weakref.ref[Any], weakref.ref[Any]]:
        class Unit(BaseModel):
            at: int

        handle = Handle()

        @dataclasses.dataclass
        class Point(ToolRegistry):
            x: int

            @reg_toolspec
            def moved(self, unit: Unit, to: list[Point]) -> int:
                return unit.at + to[0].x

            @reg_toolspec(binds={"unit": "u"})
            def bound(self, unit: Handle) -> None: ...

        return Point, weakref.ref(handle), weakref.ref(Unit)

    point, handle, _ = define()
    gc.collect()
    assert handle() is None
    assert point(1).toolspec("moved")(unit={"at": 3}, to=[{"x": 4}]) == 7
    assert point(1).toolspec("moved").definition is point(2).toolspec("moved").definition


# names of inherited tools


def test_an_inherited_tool_knows_the_names_of_the_class_that_wrote_it():
    class Nested(ToolRegistry):
        class Inner(BaseModel):
            w: int

        @reg_toolspec
        def m(self, b: Inner) -> int:
            return b.w

    class Child(Nested): ...

    class Grandchild(Child):
        def m(self, b: Inner) -> int:  # noqa: F821
            return b.w + 1

    assert Child().toolspec("m")(b={"w": 3}) == 3
    assert Grandchild().toolspec("m")(b={"w": 3}) == 4
    assert Grandchild.__mro__[1] is Child


class Shadowed(BaseModel):
    outer: int


def test_names_of_the_class_and_its_frame_take_precedence_over_the_module():
    class Page(BaseModel):
        local: int

    class Shelf(ToolRegistry):
        class Shadowed(BaseModel):
            inner: int

        @reg_toolspec
        def m(self, a: Shadowed, b: Page, c: list[int]) -> int:
            return a.inner + b.local

        @reg_toolspec
        def list(self) -> None: ...

    class Child(Shelf):
        class Shadowed(BaseModel):
            other: int

    for cls in (Shelf, Child):
        assert cls().toolspec("m")(a={"inner": 1}, b={"local": 2}, c=[3]) == 3


def base_of_a_factory() -> type[ToolRegistry]:
    class Local(BaseModel):
        w: int

    class Made(ToolRegistry):
        @reg_toolspec
        def m(self, b: Local) -> Local:
            return b

    return Made


@dataclasses.dataclass
class Late(ToolRegistry):
    """A base that is scanned when it is first asked; its heir is made before."""

    x: int

    class Inner(BaseModel):
        w: int

    @reg_toolspec
    def sum(self, to: Late, b: Inner) -> int:
        return to.x + b.w


@dataclasses.dataclass
class LateHeir(Late): ...


def test_a_base_may_be_subclassed_where_its_names_are_unknown():
    class Child(base_of_a_factory()): ...

    class Grandchild(Child): ...

    for cls in (Child, Grandchild):
        spec = cls().toolspec("m")
        assert spec(b={"w": "3"}) == 3
        assert spec.output_schema == {"type": "object", "properties": {"w": {"type": "integer"}}, "required": ["w"]}


def test_a_base_that_is_scanned_late_may_be_subclassed_before():
    assert LateHeir(1).toolspec("sum")(to={"x": 1}, b={"w": 2}) == 3


def test_a_mixins_names_are_found_again_in_a_subclass_of_its_registry():
    class Mixin(Generic[T]):
        class Inner(BaseModel):
            w: int

        @reg_toolspec
        def m(self, b: Inner, item: T) -> T:
            return item

    class First(Mixin[U], ToolRegistry, Generic[U]): ...

    class Second(First[int]): ...

    assert Second().toolspec("m")(b={"w": 1}, item="3") == 3
    assert Second().toolspec("m").params["item"] == {"type": "integer"}


def test_a_class_may_be_created_for_another_module():
    result = type("Made", (Base,), {"__module__": "elsewhere", "greet": lambda self, who: "made"})
    assert result().toolspec("greet")(who="x") == "made"


def test_specs_of_a_registry_are_of_class_toolspec():
    assert {type(spec) for spec in Base().to_toolspecs().values()} == {ToolSpec}
