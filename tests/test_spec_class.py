"""A host's own subclass of ToolSpec, which registries, `@tool` and toolkits make in place of ToolSpec."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from fastmcp import FastMCP
from fastmcp.tools import Tool
from pydantic import BaseModel

from ahvn_tools import Toolkit, ToolRegistry, ToolSpec, reg_toolspec, tool
from ahvn_tools.errors import DefinitionError


class PricedSpec(ToolSpec):
    """A tool with a price."""

    currency = "EUR"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.price = 1
        self._calls = 0

    @property
    def label(self) -> str:
        return f"{self.name}: {self.price} {self.currency} for {', '.join(self.params)}"

    def call_twice(self, **arguments: Any) -> list[Any]:
        return [self.call(**arguments), self.call(**arguments)]


class OtherSpec(ToolSpec):
    pass


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


class Sums(ToolRegistry):
    spec_class = PricedSpec

    @reg_toolspec
    def double(self, a: int) -> int:
        """Double a number."""
        return 2 * a

    @reg_toolspec(spec_class=OtherSpec, name="half")
    def halve(self, a: int) -> float:
        """Halve a number."""
        return a / 2


class TestRegistry:
    def test_its_specs_are_of_its_class(self):
        specs = Sums().to_toolspecs()
        assert {name: type(spec) for name, spec in specs.items()} == {"double": PricedSpec, "half": OtherSpec}
        assert type(Sums().toolspec("double")) is PricedSpec
        assert specs["double"].label == "double: 1 EUR for a"
        assert specs["double"](a=2) == 4

    def test_the_class_is_inherited_and_replaced(self):
        class More(Sums):
            def halve(self, a: int) -> float:
                return a / 2 + 1

        class Other(Sums):
            spec_class = OtherSpec

        assert type(More().toolspec("double")) is PricedSpec
        assert type(More().toolspec("half")) is OtherSpec
        assert type(Other().toolspec("double")) is OtherSpec

    def test_dataclasses_and_models_may_set_it(self):
        @dataclass(slots=True)
        class Scaled(ToolRegistry):
            spec_class = PricedSpec
            factor: int

            @reg_toolspec
            def scale(self, a: int) -> int:
                return self.factor * a

        class Model(BaseModel, ToolRegistry):
            spec_class: ClassVar[type[ToolSpec]] = PricedSpec
            factor: int

            @reg_toolspec
            def scale(self, a: int) -> int:
                return self.factor * a

        for registry in (Scaled(3), Model(factor=3)):
            assert registry.toolspec("scale").call_twice(a=2) == [6, 6]
        assert list(Model.model_fields) == ["factor"]


class TestDecorator:
    def test_it_makes_a_spec_of_the_class(self):
        @tool(spec_class=PricedSpec, name="plus", binds={"b": "b"})
        def plus(a: int, b: int) -> int:
            return a + b

        plus.state["b"] = 2
        assert type(plus) is PricedSpec
        assert (plus.label, plus.call_twice(a=1)) == ("plus: 1 EUR for a", [3, 3])

    def test_copies_and_pickles_keep_the_class(self):
        spec = tool(spec_class=PricedSpec)(add)
        spec.price = 7
        for twin in (spec.clone(), spec.transform(timeout=9), pickle.loads(pickle.dumps(spec))):
            assert type(twin) is PricedSpec
            assert twin.label == "add: 7 EUR for a, b"


def of_function(kit: Toolkit) -> Toolkit:
    return kit.add(add)


def of_decorator(kit: Toolkit) -> Toolkit:
    kit.tool(description="Add.")(add)
    return kit


def of_changed_function(kit: Toolkit) -> Toolkit:
    return kit.add(add, tools={"add": {"description": "Sum up."}})


def of_mcp_tool(kit: Toolkit) -> Toolkit:
    return kit.add(Tool.from_function(add))


def of_server(kit: Toolkit) -> Toolkit:
    server: FastMCP[Any] = FastMCP("sums")
    server.tool(add)
    return kit.add_mcp(server, name="sums")


def of_registry(kit: Toolkit) -> Toolkit:
    class Adders(ToolRegistry):
        @reg_toolspec
        def add(self, a: int, b: int = 1) -> int:
            return a + b

    return kit.add(Adders())


def of_spec(kit: Toolkit) -> Toolkit:
    return Toolkit("plain").add(PricedSpec.from_function(add))


def of_another_toolkit(kit: Toolkit) -> Toolkit:
    return Toolkit("plain").add(kit.add(add), tags={"sum"})


class TestToolkit:
    @pytest.mark.parametrize(
        "fill",
        [
            of_function,
            of_decorator,
            of_changed_function,
            of_mcp_tool,
            of_server,
            of_registry,
            of_spec,
            of_another_toolkit,
        ],
    )
    def test_its_tools_have_the_methods_and_attributes_of_the_class(self, fill):
        first = Toolkit("k", spec_class=PricedSpec)
        kit = fill(first)
        try:
            kit.bind("b", default=4)
            found = kit["add"]
            assert isinstance(found, PricedSpec)
            assert found.label == "add: 1 EUR for a"
            assert found.call_twice(a=1) == kit.session(b=4)["add"].call_twice(a=1) == [5, 5]
            assert (found.price, found._calls, found.currency) == (1, 0, "EUR")
            assert type(found.clone()) is PricedSpec
            assert [type(one) for one in (*kit, *kit.search("add"), *kit.select(names=["add"]))] == [type(found)] * 3
        finally:
            for name in list(kit.servers):
                kit.remove_mcp(name)

    def test_what_the_toolkit_does_is_not_replaced_by_the_class(self):
        class Loud(ToolSpec):
            def call(self, **arguments: Any) -> Any:
                return "loud"

        spec = Loud.from_function(add)
        kit = Toolkit("k").add(spec)
        assert (spec.call(a=1), kit["add"].call(a=1), kit.call("add", {"a": 1})) == ("loud", 2, 2)

    def test_specs_that_exist_stay_as_they_are(self):
        spec = ToolSpec.from_function(add)
        kit = Toolkit("k", spec_class=PricedSpec).add(spec).add(Sums())
        assert not isinstance(kit["add"], PricedSpec)
        assert isinstance(kit["half"], OtherSpec)

    def test_what_a_host_sets_on_the_switch_of_groups_is_there_in_the_toolkit(self):
        kit = Toolkit("k").add_group("web")
        switch = kit.groups_tool()
        switch.cost = 3
        kit.add(switch)
        assert kit["set_groups"].cost == 3
        assert kit["set_groups"].call(web=True) == "Active groups: web."

    def test_an_attribute_that_neither_has_is_an_error(self):
        kit = Toolkit("k", spec_class=PricedSpec).add(add)
        with pytest.raises(AttributeError, match="'PricedSpec' object has no attribute 'cost'"):
            _ = kit["add"].cost
        with pytest.raises(AttributeError, match="'ToolkitTool' object has no attribute 'cost'"):
            _ = Toolkit("k").add(add)["add"].cost


@pytest.mark.parametrize(
    "other",
    [int, Sums, add, "PricedSpec", PricedSpec.from_function(add)],
    ids=["a builtin", "a registry", "a function", "a name", "a spec"],
)
def test_what_is_no_subclass_of_tool_spec_is_refused(other):
    def registry() -> Any:
        class Wrong(ToolRegistry):
            spec_class = other

    makers = [registry, lambda: tool(spec_class=other), lambda: reg_toolspec(spec_class=other)]
    for make in (*makers, lambda: Toolkit("k", spec_class=other)):
        with pytest.raises(DefinitionError, match=r"must be a subclass of ToolSpec.*class MySpec\(ToolSpec\)"):
            make()


def test_the_function_may_be_passed_by_name():
    assert ToolSpec.from_function(func=add, name="plus")(a=1) == 2
    assert type(PricedSpec.from_function(func=add)) is PricedSpec
