"""Pickling: the function by import path or by value, the state without secrets, nothing that is compiled."""

from __future__ import annotations

import functools
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from collections import OrderedDict, UserDict
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import cloudpickle
import pytest
from pydantic import BaseModel, Field, SecretStr

from ahvn_tools import Secret, ToolRegistry, ToolSpec, reg_toolspec, tool
from ahvn_tools.errors import PickleError, ToolConnectionError, ToolSpecError, UnboundStateError

ROOT = Path(__file__).resolve().parent.parent
CANARY = "canary-7f3a9c"
PICKLERS = [pickle.dumps, cloudpickle.dumps, functools.partial(pickle.dumps, protocol=2)]


def carried(spec: Any, dumps: Any = pickle.dumps) -> Any:
    """Return what comes out on the other side."""
    return pickle.loads(dumps(spec))


def greet(name: str, tone: str = "plain") -> str:
    """Greet a person.

    Args:
        name: The person to greet.
    """
    return f"{tone}: hello, {name}"


@tool(tags={"math"}, timeout=5)
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@tool
def countdown(number: int) -> list[int]:
    """Count down to nought."""
    return [number, *countdown(number=number - 1)] if number else [0]


class Shop(ToolRegistry):
    """A registry that travels."""

    def __init__(self, prices: dict[str, int]) -> None:
        self.prices = prices

    @reg_toolspec
    def price(self, item: str, currency: str = "EUR") -> str:
        """Return the price of an item."""
        return f"{self.prices[item]} {currency}"

    @reg_toolspec
    @classmethod
    def kind(cls) -> str:
        """Return the class."""
        return cls.__name__

    @reg_toolspec
    @staticmethod
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b


def decorate(function: Any) -> Any: ...


class Decorating(ToolSpec):
    """A subclass of ToolSpec whose call without parts returns no spec."""

    def __new__(cls, *parts: Any, **compiled: Any) -> Any:
        return super().__new__(cls) if parts else decorate


class Labelled(ToolSpec):
    """A subclass of ToolSpec."""

    label = "none"


class TestInProcess:
    @pytest.mark.parametrize("dumps", PICKLERS)
    def test_a_spec_of_a_module_function_does_the_same_afterwards(self, dumps):
        spec = ToolSpec.from_function(greet, title="Greet", version="1").bind("tone", "style.tone", "warm")
        twin = carried(spec, dumps)
        assert twin(name="Ann") == "warm: hello, Ann"
        assert twin.definition == spec.definition
        assert dict(twin.binds) == {"tone": "style.tone"}
        assert twin.function is greet

    @pytest.mark.parametrize("dumps", PICKLERS)
    def test_a_decorated_module_function_is_found_by_its_path(self, dumps):
        twin = carried(double, dumps)
        assert twin.function is double.function
        assert (twin(number=4), twin.tags, twin.timeout) == (8, {"math"}, 5)

    @pytest.mark.parametrize("spec", [countdown, countdown.clone()])
    def test_a_tool_that_calls_itself_by_its_own_name(self, spec):
        assert carried(spec)(number=2) == [2, 1, 0]

    def test_nothing_compiled_is_pickled(self):
        spec = ToolSpec.from_function(greet)
        before = len(pickle.dumps(spec))
        spec(name="Ann")
        spec.binded  # makes the FastMCP tool
        assert spec.definition.fingerprint
        assert len(pickle.dumps(spec)) == before

    def test_a_lambda_a_closure_and_a_partial_are_pickled_by_value(self):
        factor = 3

        def times(a: int, b: int = 2) -> int:
            return a * b * factor

        assert carried(ToolSpec.from_function(times))(a=1) == 6
        assert carried(ToolSpec.from_function(functools.partial(times, b=5)))(a=1) == 15
        assert carried(ToolSpec.from_function(lambda a: a, name="same"))(a=1) == 1

    async def test_async_functions_and_generators_can_be_pickled(self):
        async def later(a: int) -> int:
            return a + 1

        def several(a: int):
            yield from range(a)

        assert await carried(ToolSpec.from_function(later)).acall(a=1) == 2
        assert [chunk.value for chunk in carried(ToolSpec.from_function(several)).stream(a=2)] == [0, 1, [0, 1]]

    def test_local_classes_in_string_annotations_can_be_pickled(self):
        class Point(BaseModel):
            x: int = 1

        def move(point: Point, by: int) -> Point:
            return Point(x=point.x + by)

        spec = ToolSpec.from_function(move)
        twin = carried(spec)
        assert twin(point={"x": 1}, by=2) == 3
        assert twin.definition == spec.definition

    @pytest.mark.parametrize("name", ["price", "kind", "add"])
    def test_specs_of_a_registry_are_pickled_with_their_instance(self, name):
        spec = Shop({"tea": 3}).toolspec(name)
        twin = carried(spec)
        assert twin.definition == spec.definition
        arguments = {"price": {"item": "tea"}, "kind": {}, "add": {"a": 1, "b": 2}}[name]
        assert twin(**arguments) == spec(**arguments)

    def test_a_registry_defined_in_a_function_can_be_pickled(self):
        class Local(ToolRegistry):
            @reg_toolspec
            def twice(self, a: int) -> int:
                return 2 * a

        assert carried(Local().toolspec("twice"))(a=2) == 4

    def test_bindings_on_a_registry_spec_are_pickled(self):
        spec = Shop({"tea": 3}).toolspec("price").bind("currency", default="USD")
        assert carried(spec)(item="tea") == "3 USD"

    def test_a_spec_from_code_is_pickled_with_helpers_and_classes(self):
        code = textwrap.dedent("""
            import math
            from dataclasses import dataclass

            @dataclass
            class Circle:
                radius: float

            def _area(circle):
                return math.pi * circle.radius ** 2

            def area(circle: Circle, depth: int = 0) -> float:
                '''Area of a circle.'''
                return area(circle, depth - 1) if depth else round(_area(circle), 2)
        """)
        spec = ToolSpec.from_code(code, func_name="area")
        twin = carried(spec)
        assert twin(circle={"radius": 1}, depth=2) == 3.14
        assert (twin.source, twin.definition) == (code, spec.definition)

    def test_a_fastmcp_tool_can_be_pickled(self):
        from fastmcp.tools import Tool

        spec = ToolSpec.from_mcp(Tool.from_function(greet)).bind("tone", default="warm")
        twin = carried(spec)
        assert twin(name="Ann") == spec(name="Ann") == "warm: hello, Ann"
        assert twin.definition == spec.definition

    def test_a_pickled_wire_tool_has_no_client(self):
        from mcp_types import Tool as WireTool

        twin = carried(ToolSpec.from_mcp(WireTool(name="echo", input_schema={"type": "object"})))
        with pytest.raises(ToolConnectionError, match="without a client"):
            twin()

    async def test_a_remote_tool_is_pickled_without_its_connection(self):
        from fastmcp import Client, FastMCP

        server = FastMCP("test")
        server.tool(greet)
        async with Client(server) as client:
            spec = (await ToolSpec.afrom_client(client, "greet")).bind("tone", default="warm")
            assert await spec.acall(name="Ann") == "warm: hello, Ann"
            twin = carried(spec)
        assert twin.definition == spec.definition
        with pytest.raises(ToolConnectionError, match="client"):
            await twin.acall(name="Ann")

    def test_a_subclass_and_its_attributes_are_pickled(self):
        spec = Labelled.from_function(greet)
        spec.label, spec.notes = "first", ["a"]
        twin = carried(spec)
        assert (type(twin), twin.label, twin.notes) == (Labelled, "first", ["a"])
        assert twin.clone().label == "first"

    def test_a_subclass_whose_constructor_makes_something_else_is_pickled(self):
        spec = Decorating.from_function(greet)
        assert Decorating() is decorate
        twin = carried(spec)
        assert (type(twin), twin(name="Ann")) == (Decorating, spec(name="Ann"))

    def test_a_spec_that_is_referenced_twice_is_pickled_once(self):
        first, second = carried([double, double])
        assert first is second

    def test_a_spec_in_the_state_of_another_can_be_pickled(self):
        spec = ToolSpec.from_function(greet).bind("tone", default="warm")
        spec.state["tools"] = {"double": double, "me": spec}
        twin = carried(spec)
        assert twin.state["tools"]["double"](number=2) == 4
        assert twin.state["tools"]["me"] is twin

    def test_an_unpickled_spec_can_be_bound_and_pickled_again(self):
        twin = carried(carried(ToolSpec.from_function(greet).bind("tone", default="warm")))
        twin.state["tone"] = "cold"
        assert twin(name="Ann") == "cold: hello, Ann"
        assert twin.unbind("tone")(name="Ann") == "plain: hello, Ann"
        assert twin.exec(name="Ann").value == "plain: hello, Ann"

    def test_examples_are_pickled(self):
        twin = carried(ToolSpec.from_function(greet, examples=[{"name": "Ann"}]))
        assert twin.examples == [{"name": "Ann"}]
        assert twin.definition.examples == [{"inputs": {"name": "Ann"}}]


class TestState:
    @pytest.mark.parametrize("kind", [dict, UserDict, OrderedDict])
    def test_the_state_is_pickled_as_a_separate_dict(self, kind):
        spec = ToolSpec.from_function(greet).bind("tone")
        spec.state = kind(tone="warm", notes=[1])
        twin = carried(spec)
        assert dict(twin.state) == {"tone": "warm", "notes": [1]}
        twin.state["notes"].append(2)
        assert spec.state["notes"] == [1]

    def test_a_remembered_default_is_pickled(self):
        twin = carried(ToolSpec.from_function(greet).bind("tone", default="warm"))
        twin.state = {}
        assert twin(name="Ann") == "warm: hello, Ann"

    def test_a_state_that_contains_itself_can_be_pickled(self):
        spec = ToolSpec.from_function(greet).bind("tone", "me.tone", None)
        spec.state["me"] = spec.state
        spec.state["tone"] = "warm"
        assert carried(spec)(name="Ann") == "warm: hello, Ann"


class Unpicklable:
    def __reduce__(self):
        raise RuntimeError(CANARY)


def holding(value: Any) -> ToolSpec:
    spec = ToolSpec.from_function(greet)
    spec.state = {"fine": 1, "session": {"user": "ann", "value": value}}
    return spec


class TestWhatCannotTravel:
    @pytest.mark.parametrize(
        "value", [threading.Lock(), Unpicklable(), sys._getframe()], ids=["lock", "reduce", "frame"]
    )
    @pytest.mark.parametrize("dumps", PICKLERS)
    def test_the_error_names_the_state_key_that_cannot_be_pickled(self, value, dumps):
        with pytest.raises(PickleError, match=r"State key 'session\.value' of 'greet' cannot be pickled") as caught:
            dumps(holding(value))
        assert isinstance(caught.value, ToolSpecError)
        assert CANARY not in str(caught.value)

    def test_the_error_names_the_key_of_a_list(self):
        with pytest.raises(PickleError, match=r"'session\.value'"):
            pickle.dumps(holding([1, threading.Lock()]))

    def test_the_error_names_a_lock_in_a_state_that_contains_itself(self):
        spec = holding(threading.Lock())
        spec.state["session"]["me"] = spec.state
        with pytest.raises(PickleError, match=r"'session\.value'"):
            pickle.dumps(spec)

    def test_the_error_names_the_parameter_of_an_unpicklable_resolver(self):
        lock = threading.Lock()
        spec = ToolSpec.from_function(greet).bind("tone", resolver=lambda: str(lock))
        with pytest.raises(PickleError, match="The bound value of parameter 'tone' of 'greet' cannot be pickled"):
            pickle.dumps(spec)

    def test_the_error_names_the_parameter_of_an_unpicklable_constant(self):
        def use(query: str, limit: int, lock: Any) -> str:
            return query

        with pytest.raises(PickleError, match="The bound value of parameter 'lock' of 'use'"):
            pickle.dumps(ToolSpec.from_function(functools.partial(use, limit=1, lock=threading.Lock())))

    def test_the_error_names_an_unpicklable_attribute(self):
        spec = Labelled.from_function(greet)
        spec.label, spec.connection = "fine", threading.Lock()
        with pytest.raises(PickleError, match="Attribute 'connection' of 'greet'"):
            pickle.dumps(spec)

    def test_the_error_names_the_class_of_an_unpicklable_instance(self):
        shop = Shop({})
        shop.lock = threading.Lock()
        with pytest.raises(PickleError, match="The Shop of method 'price' cannot be pickled"):
            pickle.dumps(shop.toolspec("price"))

    def test_the_error_names_an_unpicklable_closure(self):
        lock = threading.Lock()

        def locked(a: int) -> str:
            return str(lock)

        with pytest.raises(PickleError, match="The function of 'locked' cannot be pickled"):
            pickle.dumps(ToolSpec.from_function(locked))


def use(query: str, token: str = "none", config: Any = None) -> str:
    return f"{query} {token}"


def marked(query: str, token: Annotated[str, Secret] = "none") -> str:
    return f"{query} {token}"


def required(query: str, token: str) -> str:
    return f"{query} {token}"


def shout(word: str, tone: Any = "plain") -> Any:
    """Return the tone."""
    return tone


def take_anything(**arguments: Any) -> Any:
    return arguments


def with_state(spec: ToolSpec, state: dict[str, Any]) -> ToolSpec:
    spec.state = state
    return spec


def secret_values(value: Any) -> list[SecretStr]:
    """Return the secret values in a dict that may contain itself."""
    members = [member for key, member in value.items() if key != "itself"] if isinstance(value, dict) else [*value]
    inner = [found for member in members if isinstance(member, dict | list) for found in secret_values(member)]
    return [*inner, *(member for member in members if isinstance(member, SecretStr))]


class TestSecrets:
    @pytest.mark.parametrize(
        ("key", "state"),
        [
            ("token", {"token": CANARY}),
            ("a.b.c.token", {"a": {"b": {"c": {"token": CANARY, "user": 1}}}}),
            (r"a\.b", {"a.b": CANARY}),
            ("session.token", {"session": SimpleNamespace(token=CANARY)}),
            ("a.session.token", {"a": {"session": SimpleNamespace(token=CANARY)}}),
            ("tokens[1]", {"tokens": ["x", CANARY]}),
            ("users[0].token", {"users": [{"token": CANARY}]}),
            ("session.tokens[0]", {"session": {"tokens": (CANARY,)}}),
            ("session.token", {"session": OrderedDict(token=CANARY)}),
            ("session.token", {"session": UserDict(token=CANARY)}),
        ],
    )
    @pytest.mark.parametrize("dumps", PICKLERS)
    def test_no_pickle_contains_a_secret_at_any_depth(self, key, state, dumps):
        spec = ToolSpec.from_function(use).bind("token", key, secret=True)
        spec.state = {**state, "kept": 1}
        assert spec(query="q") == f"q {CANARY}"
        data = dumps(spec)
        assert CANARY.encode() not in data
        assert pickle.loads(data).state["kept"] == 1
        assert spec(query="q") == f"q {CANARY}"

    def test_siblings_of_a_secret_are_pickled(self):
        spec = ToolSpec.from_function(use).bind("token", "a.b.token", secret=True)
        spec.state = {"a": {"b": {"token": CANARY, "user": 1}, "c": 2}}
        assert carried(spec).state == {"a": {"b": {"user": 1}, "c": 2}}

    @pytest.mark.parametrize(
        "state",
        [{"token": SecretStr(CANARY)}, {"a": {"token": SecretStr(CANARY)}}, {"a": [1, {"token": SecretStr(CANARY)}]}],
        ids=["value", "in a dict", "in a list"],
    )
    @pytest.mark.parametrize("dumps", PICKLERS)
    def test_values_of_secret_types_are_left_out_of_the_state(self, state, dumps):
        spec = ToolSpec.from_function(use)
        spec.state = {**state, "kept": {"inner": [1]}}
        spec.state["itself"] = spec.state
        data = dumps(spec)
        assert CANARY.encode() not in data
        assert pickle.loads(data).state["kept"] == {"inner": [1]}
        assert CANARY in str([value.get_secret_value() for value in secret_values(spec.state)])

    @pytest.mark.parametrize(
        "make",
        [
            lambda: ToolSpec.from_function(shout).bind("tone", default=SecretStr(CANARY)),
            lambda: with_state(ToolSpec.from_function(shout).bind("tone", "a.b"), {"a": {"b": SecretStr(CANARY)}}),
            lambda: with_state(ToolSpec.from_function(shout).bind("tone", "a[0]"), {"a": [SecretStr(CANARY)]}),
            lambda: ToolSpec.from_function(functools.partial(shout, tone=SecretStr(CANARY))),
            lambda: ToolSpec.from_function(shout).transform(arguments={"tone": {"default": CANARY}}).bind(
                "tone", secret=True
            ),
            lambda: ToolSpec.from_function(shout).transform(
                arguments={"tone": {"default": CANARY, "name": "api_key"}}
            ).bind("api_key", "some.key"),
        ],
        ids=["default", "state", "list", "constant", "default of an argument", "name of a secret"],
    )  # fmt: skip
    def test_a_secret_that_is_left_out_is_not_replaced_by_the_default_of_the_function(self, make):
        spec = make()
        data = pickle.dumps(spec)
        assert CANARY.encode() not in data
        twin = pickle.loads(data)
        assert twin.definition == spec.definition
        with pytest.raises(UnboundStateError, match="was left out of the pickle or the data"):
            twin(word="hello")
        assert spec(word="hello") in (CANARY, "**********")

    def test_examples_and_schema_defaults_of_a_bound_secret_are_left_out(self):
        note = {"type": "string", "default": CANARY, "examples": [CANARY]}
        schema = {"type": "object", "properties": {"query": {"type": "string"}, "note": note}}
        spec = ToolSpec.from_schema("s", schema, take_anything).bind("note", secret=True)
        spec_of_shout = ToolSpec.from_function(shout).transform(arguments={"tone": {"examples": [CANARY]}})
        for one in (spec, spec_of_shout.bind("tone", secret=True)):
            assert CANARY.encode() not in pickle.dumps(one)
        assert carried(spec)(query="q") == {"query": "q"}

    def test_a_secret_default_is_left_out(self):
        assert CANARY.encode() not in pickle.dumps(
            ToolSpec.from_function(use).bind("token", default=CANARY, secret=True)
        )

    def test_a_secret_constant_is_left_out(self):
        spec = ToolSpec.from_function(functools.partial(marked, token=CANARY))
        data = pickle.dumps(spec)
        assert CANARY.encode() not in data
        with pytest.raises(UnboundStateError, match=r"'token'.*make the spec again"):
            pickle.loads(data)(query="q")

    def test_a_secret_resolver_is_left_out(self):
        spec = ToolSpec.from_function(use).bind("token", resolver=lambda: CANARY, secret=True)
        data = pickle.dumps(spec)
        assert CANARY.encode() not in data
        with pytest.raises(UnboundStateError, match="set state key 'token'"):
            pickle.loads(data)(query="q")

    def test_a_resolver_that_is_not_secret_is_pickled(self):
        assert carried(ToolSpec.from_function(use).bind("token", resolver=lambda: "fresh"))(query="q") == "q fresh"

    @pytest.mark.parametrize("annotation", [SecretStr, Annotated[str, Secret], SecretStr | None])
    def test_an_annotation_makes_a_secret(self, annotation):
        def body(token) -> str:
            return "ok"

        body.__annotations__["token"] = annotation
        by_option = ToolSpec.from_function(body, binds={"token": "session.token"})
        by_option.state = {"session": {"token": SecretStr(CANARY)}}
        for spec in (by_option, ToolSpec.from_function(body).bind("token", default=CANARY)):
            assert CANARY.encode() not in pickle.dumps(spec)

    def test_a_secret_inside_the_default_of_another_binding_is_left_out(self):
        spec = ToolSpec.from_function(use).bind("config", default={"token": CANARY, "user": 1})
        spec.bind("token", "config.token", secret=True)
        data = pickle.dumps(spec)
        assert CANARY.encode() not in data
        twin = pickle.loads(data)
        twin.state = {}
        with pytest.raises(UnboundStateError):
            twin(query="q")

    def test_a_secret_key_is_left_out_of_bindings_that_are_not_secret(self):
        spec = ToolSpec.from_function(use).bind("config", "shared", CANARY).bind("token", "shared", secret=True)
        assert CANARY.encode() not in pickle.dumps(spec)

    @pytest.mark.parametrize(
        "change",
        [
            lambda spec: spec.unbind("token"),
            lambda spec: spec.bind("token", "elsewhere"),
            lambda spec: spec.clone().unbind("token"),
            lambda spec: carried(spec).unbind("token"),
        ],
        ids=["unbound", "bound elsewhere", "unbound in a clone", "unbound after a journey"],
    )
    def test_a_key_stays_secret_after_unbind(self, change):
        spec = change(ToolSpec.from_function(use).bind("token", default=CANARY, secret=True))
        spec.state["token"] = CANARY
        assert CANARY.encode() not in pickle.dumps(spec)

    @pytest.mark.parametrize("function", [use, required, marked])
    def test_a_call_without_its_secret_says_what_to_set_again(self, function):
        """The function's own default does not replace a secret that was left out, either."""
        spec = ToolSpec.from_function(function).bind("token", "session.token", secret=True)
        spec.state = {"session": {"token": CANARY}}
        twin = carried(carried(spec))
        with pytest.raises(UnboundStateError, match=r"'token' is bound to 'session\.token'.*secret.*set state key"):
            twin(query="q")
        twin.state = {"session": {"token": "again"}}
        assert twin(query="q") == "q again"

    def test_a_secret_without_a_value_removes_nothing(self):
        twin = carried(ToolSpec.from_function(use).bind("token", secret=True))
        assert twin(query="q") == "q none"

    def test_an_unpicklable_secret_is_no_error(self):
        def locked(lock: Any, query: str) -> str:
            return query

        spec = ToolSpec.from_function(locked).bind("lock", default=threading.Lock(), secret=True)
        twin = carried(spec)
        twin.state["lock"] = threading.Lock()
        assert twin(query="q") == "q"

    def test_an_object_with_a_failing_property_in_the_path_of_a_secret_is_left_out(self):
        class Vault:
            def __init__(self) -> None:
                self.hidden = CANARY

            @property
            def token(self):
                raise PermissionError

        spec = ToolSpec.from_function(use).bind("token", "vault.token", secret=True)
        spec.state = {"vault": Vault()}
        data = pickle.dumps(spec)
        assert CANARY.encode() not in data
        with pytest.raises(UnboundStateError, match=r"set state key 'vault\.token'"):
            pickle.loads(data)(query="q")

    def test_the_error_about_an_unset_secret_does_not_mention_pickling(self):
        spec = ToolSpec.from_function(required).bind("token", secret=True)
        with pytest.raises(UnboundStateError) as caught:
            spec(query="q")
        assert "pickle" not in str(caught.value)

    def test_the_repr_of_the_pickled_parts_shows_no_value(self):
        spec = ToolSpec.from_function(use).bind("token", default=CANARY)
        assert CANARY not in repr(spec.__getstate__())


MODULE = '''
from ahvn_tools import ToolRegistry, ToolSpec, reg_toolspec, tool

def plain(number: int = 2) -> str:
    """Show a number."""
    return f"{VERSION} {number}"

VERSION = "first"

@tool
def decorated(number: int) -> str:
    """Show a number."""
    return f"{VERSION} {number}"

class Shop(ToolRegistry):
    @reg_toolspec
    def method(self, number: int) -> str:
        """Show a number."""
        return f"{VERSION} {number}"
'''

MAKER = '''
import pickle
from pathlib import Path
import cloudpickle
from dataclasses import dataclass
from pydantic import BaseModel
from ahvn_tools import ToolRegistry, ToolSpec, reg_toolspec, tool

FACTOR = 10

def helper(number: int) -> int:
    return FACTOR * number

@dataclass
class Point:
    x: int = 1

class Model(BaseModel):
    points: list[Point]

@tool(tags={"main"})
def fact(number: int, factor: int = 1) -> int:
    """Return the factorial, times a factor."""
    return factor if number <= 1 else number * fact(number=number - 1, factor=factor)

@tool
def even(number: int, answer: bool = True) -> bool:
    """Return whether a number is even."""
    return answer if number == 0 else odd(number=number - 1, answer=answer)

@tool
def odd(number: int, answer: bool = True) -> bool:
    """Return whether a number is odd."""
    return not answer if number == 0 else even(number=number - 1, answer=answer)

def models(model: Model, number: int = 2) -> Model:
    """Take and return a model."""
    return Model(points=[Point(x=helper(point.x) + number) for point in model.points])

def record(point: Point, number: int = 2) -> int:
    """Take a dataclass."""
    return point.x * number

class Shop(ToolRegistry):
    def __init__(self, price: int) -> None:
        self.price = price

    @reg_toolspec
    def cost(self, number: int, factor: int = 2) -> int:
        """Return the cost."""
        return self.price * number * factor

class Kind(ToolSpec):
    label = "kind"

if __name__ == "__main__":
    kind = Kind.from_function(helper)
    kind.label = "mine"
    specs = {
        "fact": fact, "clone": fact.clone().bind("factor", default=2), "even": even, "odd": odd.clone(),
        "models": ToolSpec.from_function(models), "record": ToolSpec.from_function(record),
        "shop": Shop(3).toolspec("cost"), "kind": kind,
        "again": ToolSpec.from_function(fact.function, name="again"),
    }
    for name, spec in specs.items():
        Path(name + ".pickle").write_bytes(pickle.dumps(spec))
        Path(name + ".cloudpickle").write_bytes(cloudpickle.dumps(spec))
    Path("all.pickle").write_bytes(pickle.dumps(specs))
'''

LOADER = """
import pickle
from pathlib import Path

def load(name):
    return pickle.loads(Path(name).read_bytes())

EXPECTED = {
    "fact": ({"number": 4, "factor": 2}, 48), "clone": ({"number": 4}, 48), "even": ({"number": 3}, False),
    "odd": ({"number": 3}, True), "models": ({"model": {"points": [{"x": 1}, {}]}}, [{"x": 12}, {"x": 12}]),
    "record": ({"point": {}, "number": 1}, 1), "shop": ({"number": 2}, 12), "kind": ({"number": 2}, 20),
    "again": ({"number": 3}, 6),
}
OPTIONAL = {
    "fact": "factor", "even": "answer", "odd": "answer", "models": "number", "shop": "factor", "again": "factor"
}
def check(name, spec):
    arguments, value = EXPECTED[name]
    assert spec(**arguments) == value, (name, spec(**arguments))
    assert list(spec.params)[: len(arguments)] == list(arguments)
    if name in OPTIONAL:
        assert OPTIONAL[name] not in spec.input_schema["required"], spec.input_schema
        assert spec.params[OPTIONAL[name]]["type"] in ("integer", "boolean"), spec.input_schema
for name in EXPECTED:
    for kind in ("pickle", "cloudpickle"):
        check(name, load(f"{name}.{kind}"))
for name, spec in load("all.pickle").items():
    check(name, spec)
kind = load("kind.pickle")
assert type(kind).__name__ == "Kind" and kind.label == "mine"
print("all came over")
"""


def run(script: str, folder: Path, *path: Path) -> str:
    """Run a script in a new process; its warnings are errors."""
    file = folder / "script.py"
    file.write_text(textwrap.dedent(script))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *path)))}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(file)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class TestBetweenProcesses:
    def test_functions_of_a_script_are_pickled_by_value(self, tmp_path):
        """Among them a tool that calls itself by its own name, two that call each other, and clones of both."""
        run(MAKER, tmp_path)
        assert "all came over" in run(LOADER, tmp_path)

    @pytest.mark.exhaustive
    def test_functions_of_a_module_are_pickled_by_path(self, tmp_path):
        """The other side has a newer version of the module, and that is what it runs."""
        (tmp_path / "goods.py").write_text(MODULE)
        run(
            """
            import pickle, goods
            from pathlib import Path
            specs = [goods.ToolSpec.from_function(goods.plain), goods.decorated, goods.Shop().toolspec("method")]
            Path("specs.pickle").write_bytes(pickle.dumps(specs))
            """,
            tmp_path,
            tmp_path,
        )
        (tmp_path / "goods.py").write_text(MODULE.replace('"first"', '"second"'))
        shown = run(
            """
            import pickle
            from pathlib import Path
            print([spec(number=1) for spec in pickle.loads(Path("specs.pickle").read_bytes())])
            """,
            tmp_path,
            tmp_path,
        )
        assert shown.strip() == "['second 1', 'second 1', 'second 1']"

    def test_a_pickle_needs_neither_the_sources_of_http_nor_json_data(self, tmp_path):
        shown = run(
            """
            import pickle, sys
            from html import escape
            from ahvn_tools import ToolSpec
            pickle.loads(pickle.dumps(ToolSpec.from_function(escape)))
            print([name for name in sys.modules if "http" in name and name.startswith("ahvn_tools")])
            print("ahvn_tools.spec_data.tool_data" in sys.modules)
            """,
            tmp_path,
        )
        assert shown.split() == ["[]", "False"]

    @pytest.mark.exhaustive
    def test_the_error_names_a_function_that_the_other_process_does_not_have(self, tmp_path):
        (tmp_path / "goods.py").write_text(MODULE)
        run(
            """
            import pickle, goods
            from pathlib import Path
            Path("spec.pickle").write_bytes(pickle.dumps(goods.decorated))
            """,
            tmp_path,
            tmp_path,
        )
        (tmp_path / "goods.py").write_text("")
        shown = run(
            """
            import pickle
            from pathlib import Path
            from ahvn_tools.errors import PickleError
            try:
                pickle.loads(Path("spec.pickle").read_bytes())
            except PickleError as error:
                print(error)
            """,
            tmp_path,
            tmp_path,
        )
        assert "Module 'goods' has no 'decorated' in this process" in shown

    @pytest.mark.exhaustive
    def test_a_spec_from_code_runs_in_another_process(self, tmp_path):
        run(
            """
            import pickle
            from pathlib import Path
            from ahvn_tools import ToolSpec
            code = "def twice(number: int, times: int = 2) -> int:\\n    return helper(number) * times\\n"
            code += "def helper(number):\\n    return number + 0\\n"
            spec = ToolSpec.from_code(code, func_name="twice").bind("times", "n.times", 3)
            Path("spec.pickle").write_bytes(pickle.dumps(spec))
            """,
            tmp_path,
        )
        shown = run(
            """
            import pickle
            from pathlib import Path
            spec = pickle.loads(Path("spec.pickle").read_bytes())
            print(spec(number=5), spec.source.count("def"), dict(spec.binds), list(spec.params))
            """,
            tmp_path,
        )
        assert shown.strip() == "15 2 {'times': 'n.times'} ['number']"

    @pytest.mark.exhaustive
    def test_a_spec_runs_in_a_process_pool(self, tmp_path):
        shown = run(
            """
            import multiprocessing
            from concurrent.futures import ProcessPoolExecutor
            from ahvn_tools import tool

            @tool
            def fact(number: int) -> int:
                return 1 if number <= 1 else number * fact(number=number - 1)

            if __name__ == "__main__":
                context = multiprocessing.get_context("spawn")
                with ProcessPoolExecutor(1, mp_context=context) as pool:
                    print(pool.submit(fact, number=5).result(timeout=40))
            """,
            tmp_path,
        )
        assert shown.strip() == "120"


class SecretiveShop(ToolRegistry):
    """A registry with a secret default."""

    @reg_toolspec
    def price(self, item: str, key: Annotated[str, Secret] = CANARY) -> str:
        return item


class TestSecretDefaults:
    """The default of a parameter that is marked as secret is in no pickle of a function by value."""

    @staticmethod
    def secretive() -> Any:
        def look(
            query: str,
            key: Annotated[str, Secret] = CANARY,
            *,
            pin: Annotated[str, Secret] = Field(CANARY, description="The PIN.", min_length=3),
            password: SecretStr = SecretStr(CANARY),
            limit: int = 3,
            token: Annotated[str | None, Secret] = None,
        ) -> str:
            return f"{query} {key} {pin} {limit} {token}"

        return look

    @pytest.mark.parametrize("dumps", PICKLERS)
    def test_it_is_left_out_and_the_definition_stays(self, dumps):
        spec = ToolSpec.from_function(self.secretive())
        assert CANARY.encode() not in dumps({"spec": [spec, spec.clone()]})
        twin = carried(spec, dumps)
        assert twin.definition == spec.definition
        assert "Secret" not in repr(twin.input_schema)

    def test_a_call_that_needs_it_says_what_to_do(self):
        twin = carried(ToolSpec.from_function(self.secretive()))
        with pytest.raises(UnboundStateError, match=r"'key' has no default here: .* left out of the pickle\. Bind"):
            twin(query="q")
        assert twin(query="q", key="k", pin="123", password="p") == "q k 123 3 None"
        assert twin.exec(query="q", key="k", pin="1", password="p").error.code == "invalid_parameters"
        twin.bind("key", default="k").bind("pin", default="123").bind("password", default=SecretStr("p"))
        assert twin(query="q") == "q k 123 3 None"

    def test_it_is_left_out_when_the_parameter_is_bound(self):
        spec = ToolSpec.from_function(self.secretive()).bind("key", default=CANARY).bind("pin").bind("password")
        assert CANARY.encode() not in pickle.dumps(spec)

    def test_it_is_left_out_of_a_function_inside_of_a_wrapper(self):
        def doubled(function: Any) -> Any:
            @functools.wraps(function)
            def call(*args: Any, **arguments: Any) -> Any:
                return 2 * function(*args, **arguments)

            return call

        data = pickle.dumps(ToolSpec.from_function(doubled(self.secretive())))
        assert CANARY.encode() not in data
        twin = pickle.loads(data)
        assert twin(query="q", key="k", pin="123", password="p") == "q k 123 3 None" * 2

    def test_a_function_that_calls_itself_still_does(self):
        def count(number: int, key: Annotated[str, Secret] = CANARY) -> int:
            return 1 + count(number - 1, key) if number else 0

        data = pickle.dumps(ToolSpec.from_function(count))
        assert CANARY.encode() not in data
        assert pickle.loads(data)(number=3, key="k") == 3

    def test_an_importable_function_keeps_its_default(self):
        spec = SecretiveShop().toolspec("price")
        data = pickle.dumps(spec)
        assert CANARY.encode() not in data
        assert pickle.loads(data)(item="tea") == "tea"

    @staticmethod
    def secretive_registry() -> Any:
        """Return a class that cannot be imported, with a local name in its annotations."""
        word = Literal["a", "b"]

        class Desk(ToolRegistry):
            @reg_toolspec
            def send(self, text: word, key: Annotated[str, Secret] = CANARY, pin: SecretStr = SecretStr(CANARY)) -> str:
                return f"{text} {key}"

            @reg_toolspec
            @classmethod
            def of_class(cls, text: word, key: Annotated[str, Secret] = CANARY) -> str:
                return f"{cls.__name__} {text} {key}"

            @reg_toolspec
            @staticmethod
            def alone(text: word, key: Annotated[str, Secret] = CANARY) -> str:
                return f"{text} {key}"

        class Child(Desk):
            @reg_toolspec
            def more(self, other: word, key: Annotated[str, Secret] = CANARY) -> str:
                return f"{other} {super().send(other, key)}"

        return Child

    @pytest.mark.parametrize("name", ["send", "of_class", "alone", "more"])
    @pytest.mark.parametrize("dumps", PICKLERS)
    def test_it_is_left_out_of_a_registry_that_is_pickled_by_value(self, dumps, name):
        spec = self.secretive_registry()().toolspec(name)
        data = dumps(spec)
        assert CANARY.encode() not in data
        twin = pickle.loads(data)
        assert twin.definition == spec.definition
        arguments = {"other" if name == "more" else "text": "a", "key": "k", **({"pin": "p"} if name == "send" else {})}
        assert twin.call(**arguments) == spec.call(**arguments)

    def test_the_registry_of_a_pickled_tool_has_its_tools(self):
        spec = self.secretive_registry()().toolspec("more")
        shop = pickle.loads(pickle.dumps(spec)).body.__self__
        assert shop.list_toolspecs() == ["send", "of_class", "alone", "more"]
        assert shop.toolspec("of_class").definition == type(spec.body.__self__)().toolspec("of_class").definition
        assert list(type(shop).marked_methods()) == ["send", "of_class", "alone", "more"]
        assert CANARY.encode() not in pickle.dumps(shop.toolspec("alone"))

    def test_the_annotation_of_a_local_marker_counts(self):
        from ahvn_tools import Secret as LocalSecret

        def look(query: str, key: Annotated[str, LocalSecret] = CANARY) -> str:
            return query

        assert CANARY.encode() not in pickle.dumps(ToolSpec.from_function(look))

    def test_examples_of_a_secret_parameter_are_left_out(self):
        spec = ToolSpec.from_function(greet, examples=[{"name": "Ann", "tone": CANARY}])
        assert carried(spec).examples == [{"name": "Ann", "tone": CANARY}]
        data = pickle.dumps(spec.bind("tone", default="t", secret=True))
        assert CANARY.encode() not in data
        assert pickle.loads(data).unbind("tone").examples == [{"name": "Ann"}]
