"""Functions as a source: callables of every kind, their annotations and docstrings, and what cannot be a tool."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
import functools
import inspect
import math
import pickle
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Generic, Optional, TypeVar

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.dependencies import CallArgument, CurrentContext, Depends
from fastmcp.utilities.types import Image
from pydantic import BaseModel, Field

from ahvn_tools import Toolkit, ToolRegistry, ToolSpec, reg_toolspec, tool
from ahvn_tools.errors import BindError, DefinitionError
from tests.ids import named

if TYPE_CHECKING:
    from nowhere import Elsewhere


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


async def aadd(a: int, b: int = 2) -> int:
    return a + b


def count(n: int) -> Iterator[int]:
    yield from range(n)


async def acount(n: int) -> AsyncIterator[int]:
    for i in range(n):
        yield i


def returns_generator(n: int) -> Iterator[int]:
    return (i for i in range(n))


def returns_coroutine(a: int, b: int = 2):
    return aadd(a, b)


class Counter:
    """Count things."""

    def __init__(self, start: int = 0) -> None:
        self.start = start

    def add(self, a: int) -> int:
        return self.start + a

    @classmethod
    def named(cls, a: int) -> str:
        return f"{cls.__name__}{a}"

    @staticmethod
    def twice(a: int) -> int:
        return 2 * a

    @property
    def size(self) -> int:
        return 1

    def __call__(self, a: int) -> int:
        """Add.

        Args:
            a: What to add.
        """
        return self.start + a


class AsyncCounter:
    async def __call__(self, a: int) -> int:
        return a


class StaticCounter:
    @staticmethod
    def __call__(a: int) -> int:
        return a


double = lambda a: a * 2
double.__name__ = "double"


# callables of every kind


@pytest.mark.parametrize(
    ("function", "arguments", "value"),
    [
        (add, {"a": 1}, 3),
        (aadd, {"a": 1}, 3),
        (count, {"n": 3}, [0, 1, 2]),
        (acount, {"n": 3}, [0, 1, 2]),
        (returns_generator, {"n": 2}, [0, 1]),
        (returns_coroutine, {"a": 1}, 3),
        (Counter(5).add, {"a": 1}, 6),
        (Counter.named, {"a": 1}, "Counter1"),
        (Counter(5).named, {"a": 1}, "Counter1"),
        (Counter.twice, {"a": 2}, 4),
        (vars(Counter)["twice"], {"a": 2}, 4),
        (Counter(5), {"a": 1}, 6),
        (AsyncCounter(), {"a": 1}, 1),
        (StaticCounter(), {"a": 1}, 1),
        (double, {"a": 2}, 4),
        (functools.partial(add, b=10), {"a": 1}, 11),
        (functools.partial(aadd, 1), {"b": 1}, 2),
        (functools.partial(Counter(5).add), {"a": 1}, 6),
        (functools.partial(functools.partial(add, 1), b=1), {}, 2),
        (functools.partial(count, 2), {}, [0, 1]),
        (math.sqrt, {"x": 9}, 3.0),
        (len, {"obj": [1, 2]}, 2),
    ],
    ids=named,
)
async def test_a_callable_becomes_a_tool_from_every_entry_point(function, arguments, value):
    spec = ToolSpec.from_function(function)
    assert await asyncio.to_thread(spec, **arguments) == value
    assert await spec.acall(**arguments) == value
    assert spec.exec(**arguments).value == value
    assert (await spec.aexec(**arguments)).value == value
    assert [result.value for result in spec.stream(**arguments)][-1] == value
    assert [result.value async for result in spec.astream(**arguments)][-1] == value


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (add, "add"),
        (Counter(1).add, "add"),
        (Counter(1), "Counter"),
        (functools.partial(add, b=1), "add"),
        (double, "double"),
        (len, "len"),
    ],
    ids=named,
)
def test_the_name_is_the_callables_own(function, name):
    assert ToolSpec.from_function(function).name == name


def test_a_callable_instance_has_the_docstring_of_its_class():
    spec = ToolSpec.from_function(Counter(1))
    assert spec.description == "Count things."
    assert spec.params["a"]["description"] == "What to add."


def test_positional_only_parameters_are_taken_by_name():
    def divide(a: float, b: float = 2, /) -> float:
        return a / b

    spec = ToolSpec.from_function(divide)
    assert list(spec.params) == ["a", "b"]
    assert (spec(a=3), spec(3, 1), spec(3, b=3)) == (1.5, 3.0, 1.0)


def test_variadic_parameters_are_hidden():
    def total(first: int, *more: int, flag: bool = False, **named: int) -> int:
        return first + len(more) + len(named)

    spec = ToolSpec.from_function(total)
    assert list(spec.params) == ["first", "flag"]
    assert spec(first=1) == 1
    assert spec.exec(first=1, more=[1]).error.code == "invalid_parameters"


def test_a_partials_arguments_are_fixed_and_the_partial_is_not_changed():
    partial = functools.partial(add, b=10)
    spec = ToolSpec.from_function(partial)
    assert list(spec.params) == ["a"]
    assert dict(spec.binds) == {}
    assert spec.exec(a=1, b=2).error.code == "invalid_parameters"
    with pytest.raises(BindError, match="fixed when the tool was made"):
        spec.unbind("b")
    with pytest.raises(BindError, match="fixed when the tool was made"):
        spec.bind("b", default=1)
    assert (partial.args, partial.keywords) == ((), {"b": 10})
    assert partial(1, b=1) == 2


def test_a_partial_may_fill_variadic_parameters():
    def total(first: int, *more: int, **named: int) -> int:
        return first + sum(more) + sum(named.values())

    assert ToolSpec.from_function(functools.partial(total, 1, 2, 3))() == 6
    assert ToolSpec.from_function(functools.partial(total, x=4))(first=1) == 5


def test_a_partial_may_contain_values_without_a_json_form():
    def ask(db: sqlite3.Connection, question: str) -> int:
        return db.execute(question).fetchone()[0]

    with sqlite3.connect(":memory:") as db:
        spec = ToolSpec.from_function(functools.partial(ask, db))
        assert spec(question="select 7") == 7
    db.close()


def test_a_partials_own_docstring_is_its_description():
    partial = functools.partial(add, b=1)
    assert ToolSpec.from_function(partial).description == "Add two numbers."
    partial.__doc__ = "Add one."
    assert ToolSpec.from_function(partial).description == "Add one."


def test_a_decorated_function_has_the_signature_of_the_wrapped_one():
    @functools.wraps(add)
    def logged(*args: Any, **kwargs: Any) -> int:
        return add(*args, **kwargs) + 100

    spec = ToolSpec.from_function(logged)
    assert (spec.name, list(spec.params), spec(a=1)) == ("add", ["a", "b"], 103)


# the decorator


def test_a_tool_is_not_decorated_twice():
    with pytest.raises(DefinitionError, match="'add' is already a tool"):
        tool(name="outer")(tool(add))


def test_a_singledispatch_function_is_dispatched_on_its_first_argument():
    @functools.singledispatch
    def kind(thing: int | str, suffix: str = "") -> str:
        return f"other{suffix}"

    @kind.register
    def _(thing: int, suffix: str = "") -> str:
        return f"int{suffix}"

    spec = ToolSpec.from_function(kind)
    assert list(spec.params) == ["thing", "suffix"]
    assert (spec(thing=1, suffix="!"), spec(thing="x"), spec(2)) == ("int!", "other", "int")


def test_the_bare_decorator_returns_a_spec_of_the_function():
    def f(a: int) -> int:
        return a

    spec = tool(f)
    assert type(spec) is ToolSpec
    assert spec.function is f
    assert spec(a="1") == 1


def test_the_decorator_takes_options():
    @tool(name="plus", tags={"math"}, binds={"b": "b"})
    def f(a: int, b: int = 5) -> int:
        return a + b

    assert (f.name, f.tags, list(f.params), f(a=1)) == ("plus", {"math"}, ["a"], 6)
    assert f.function(1, 2) == 3


# refusals


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (Counter, "is a class; use a function that creates an instance, an instance"),
        (functools.partial(Counter, 1), "is a class"),
        (Counter.add, "unbound method.*use the method of an instance, or make the class a ToolRegistry"),
        (Counter.__call__, "unbound method"),
        (lambda a: a, "set one: name="),
        (vars(Counter)["size"], "property cannot be a tool; use"),
        (vars(Counter)["named"], "classmethod cannot be a tool; use.*on its class or instance"),
        (max, "has no readable signature; wrap it"),
        (functools.partial(max, 1), "has no readable signature; wrap it"),
        (functools.partial(add, 1, 2, 3), "partial of 'add' cannot be called: too many"),
        (functools.partial(add, c=3), "partial of 'add' cannot be called: .*'c'"),
        (None, "NoneType cannot be a tool"),
        ("add", "str cannot be a tool"),
        (tool(add), "'add' is already a tool; use its `function`.*`clone\\(\\)`"),
        (functools.partial(tool(add), 1), "is already a tool"),
    ],
    ids=named,
)
def test_an_object_that_cannot_be_a_tool_is_refused_with_a_fix(function, message):
    with pytest.raises(DefinitionError, match=message):
        ToolSpec.from_function(function)


def test_a_lambda_with_a_name_is_a_tool():
    assert ToolSpec.from_function(lambda a: a + 1, name="next")(a=1) == 2


def test_an_unbound_method_whose_self_is_bound_is_a_tool():
    spec = ToolSpec.from_function(Counter.add, binds={"self": "counter"})
    spec.state["counter"] = Counter(7)
    assert spec(a=1) == 8
    assert list(spec.params) == ["a"]


class Opaque:
    pass


def no_form() -> dict[str, Callable[..., Any]]:
    def connection(db: sqlite3.Connection, a: int) -> int: ...
    def function(db: Callable[[int], int], a: int) -> int: ...
    def kind(db: type[int], a: int) -> int: ...
    def custom(db: Opaque, a: int) -> int: ...
    def listed(db: list[Opaque], a: int) -> int: ...
    def absent(db: Elsewhere, a: int) -> int: ...
    def unknown(db: "nope", a: int) -> int: ...  # noqa: F821
    def broken(db: "1 +", a: int) -> int: ...  # noqa: F722

    return {f.__name__: f for f in (connection, function, kind, custom, listed, absent, unknown, broken)}


@pytest.mark.parametrize("name", no_form())
def test_a_parameter_without_a_json_form_is_refused_by_name_unless_it_is_bound(name):
    function = no_form()[name]
    with pytest.raises(DefinitionError, match=r"Parameter 'db' of .*(binds=\{'db': 'state.key'\}|bind\('db'\))"):
        _ = ToolSpec.from_function(function).definition
    with pytest.raises(DefinitionError, match="'db'"):
        tool(function)(a=1)
    spec = ToolSpec.from_function(function, binds={"db": "session.db"})
    assert list(spec.params) == ["a"]
    with pytest.raises(BindError, match="no JSON form"):
        spec.unbind("db")


def test_a_bound_parameter_without_a_json_form_receives_the_object_itself():
    def which(value: Opaque, a: int) -> bool:
        return value is given

    given = Opaque()
    spec = ToolSpec.from_function(which, binds={"value": "session.thing"})
    spec.state["session"] = {"thing": given}
    assert spec(a=1) is True


def test_an_unresolvable_return_annotation_means_no_output_schema():
    def f(a: int) -> Elsewhere:
        return a

    spec = ToolSpec.from_function(f)
    assert spec.output_schema is None
    assert spec(a=1) == 1


# string annotations and forward references


def test_names_are_looked_up_in_globals_closure_and_the_callers_locals():
    class Local(BaseModel):
        x: int

    def in_closure(a: "Local") -> int:
        return Local(x=a.x).x

    def in_locals(a: "Local") -> int:
        return a.x

    def in_globals(a: "Shade", b: "Optional[Shade]" = None) -> str:
        return a.value

    assert ToolSpec.from_function(in_closure)(a={"x": 1}) == 1
    assert ToolSpec.from_function(in_locals)(a={"x": 1}) == 1
    assert tool(in_locals)(a={"x": 1}) == 1
    assert tool(name="n")(in_locals)(a={"x": 1}) == 1
    assert ToolSpec.from_function(in_globals)(a="dark", b="light") == "dark"


class Shade(enum.Enum):
    DARK = "dark"
    LIGHT = "light"


def test_the_callers_locals_are_read_when_the_tool_is_made():
    def outer() -> Any:
        def f(a: "Later") -> int:  # a name of the caller
            return a

        return f

    function = outer()
    with pytest.raises(DefinitionError, match=r"'a'.*'Later'"):
        ToolSpec.from_function(function)
    Later = int  # found by name
    assert ToolSpec.from_function(function)(a="3") == 3


def test_a_registry_looks_names_up_where_its_class_was_defined():
    class Unit(enum.Enum):
        METRE = "m"

    class Rule(ToolRegistry):
        class Mark(BaseModel):
            at: int

        @reg_toolspec
        def measure(self, unit: "Unit", mark: "Mark", other: "Optional[Rule.Mark]" = None) -> str:
            return f"{mark.at}{unit.value}"

    assert Rule().toolspec("measure")(unit="m", mark={"at": 3}) == "3m"


def test_a_recursive_model_is_resolved():
    class Node(BaseModel):
        children: "list[Node]" = []

    def depth(node: Node) -> int:
        return 1 + max((depth(child) for child in node.children), default=0)

    assert ToolSpec.from_function(depth)(node={"children": [{"children": []}]}) == 2


def test_an_incomplete_model_is_refused():
    class Half(BaseModel):
        other: "Missing"  # noqa: F821

    def f(a: Half) -> int: ...

    with pytest.raises(DefinitionError, match="'f' has a parameter type that is incomplete"):
        ToolSpec.from_function(f)


T = TypeVar("T")


@dataclasses.dataclass
class Box(Generic[T]):
    item: T


def test_generic_types_are_filled_in():
    def open_box(box: Box[int], other: T | None = None) -> int:
        return box.item

    spec = ToolSpec.from_function(open_box)
    assert spec(box={"item": "4"}) == 4
    assert spec.exec(box={"item": "x"}).error.code == "invalid_parameters"


# docstrings

GOOGLE = """Find.

Args:
    query (int): What to find. Defaults to print('run').
    limit: How many.

Returns:
    The hits.
"""
NUMPY = """Find.

Parameters
----------
query : int
    What to find. Defaults to print('run').
limit : int, optional
    How many.

Returns
-------
str
    The hits.
"""
REST = """Find.

:param query: What to find. Defaults to print('run').
:type query: int
:param limit: How many.
:returns: The hits.
"""
EPYDOC = """Find.

@param query: What to find. Defaults to print('run').
@type query: int
@param limit: How many.
@return: The hits.
"""


@pytest.mark.parametrize("style", [GOOGLE, NUMPY, REST, EPYDOC], ids=["google", "numpy", "rest", "epydoc"])
def test_a_docstring_of_each_style_describes_and_does_not_change_types(style, capsys):
    def find(query: str, limit: Annotated[int, Field(description="At most.")]) -> str:
        return query

    find.__doc__ = style
    spec = ToolSpec.from_function(find)
    assert spec.description == "Find."
    assert spec.params == {
        "query": {"type": "string", "description": "What to find. Defaults to print('run')."},
        "limit": {"type": "integer", "description": "At most."},
    }
    assert spec.definition.returns == "The hits."
    assert spec.exec(limit=1).error.code == "invalid_parameters"
    assert capsys.readouterr().out == ""


# FastMCP's injection


async def connected(spec: ToolSpec, **arguments: Any) -> Any:
    server = FastMCP("test")
    server.add_tool(spec.to_fastmcp())
    async with Client(server) as client:
        return await client.call_tool(spec.name, arguments)


async def test_fastmcp_injects_its_context():
    @tool(tags={"a"})
    async def report(text: str, ctx: Context) -> str:
        """Report."""
        await ctx.report_progress(1, 2)
        return f"{text} by {ctx.fastmcp.name}"

    assert (report.name, report.description, list(report.params), report.tags) == (
        "report",
        "Report.",
        ["text"],
        {"a"},
    )
    assert (await connected(report, text="x")).data == "x by test"


@pytest.mark.parametrize("uses_tool", [True, False], ids=["a function", "FastMCP's tool"])
async def test_a_call_without_a_server_says_what_a_context_needs(uses_tool):
    server = FastMCP("s")

    @server.tool
    async def report(text: str, ctx: Context) -> str:
        await ctx.report_progress(1, 2)
        return text

    @server.tool
    def broken(text: str) -> str:
        raise RuntimeError("the canary")

    report, broken = (await server.list_tools()) if uses_tool else (report, broken)
    kit = Toolkit("k").add(report, broken)
    for result in (await kit.aexec("report", {"text": "x"}), kit.exec("report", {"text": "x"})):
        assert "'report' needs FastMCP's Context, which only a call through an MCP server has" in result.text
        assert "`add_mcp`" in result.text
    assert "Context" not in (await kit.aexec("broken", {"text": "x"})).text
    served = Toolkit("k").add_mcp(server)
    assert await served.acall("report", {"text": "x"}) == "x"
    await served.aremove_mcp("s")


def test_the_options_of_fastmcps_decorator_are_those_of_the_tool():
    server = FastMCP("s")

    @server.tool(
        name="report-x",
        title="A report",
        description="Reports.",
        version=3,
        tags={"a"},
        annotations={"readOnlyHint": True},
        meta={"m": 1},
        timeout=5,
        output_schema=None,
    )
    def report(text: str) -> str:
        """Not this."""
        return text

    kit = Toolkit("k").add(report)
    spec = kit["report-x"]
    assert (spec.description, spec.tags, spec.definition.output_schema) == ("Reports.", {"a"}, None)
    wire = spec.to_mcp()
    assert (wire.title, wire.annotations.read_only_hint, wire.meta["m"]) == ("A report", True, 1)
    assert spec.compiled.template.settings.timeout == 5
    assert kit.call("report-x", {"text": "x"}) == "x"
    own = ToolSpec.from_function(report, name="own", description="Own.", timeout=None, tags=["b"])
    assert (own.name, own.description, own.tags) == ("own", "Own.", {"b"})
    assert own.compiled.template.settings.timeout is None
    again = pickle.loads(pickle.dumps(spec.clone()))
    assert (again.name, again.description, again("x")) == ("report-x", "Reports.", "x")

    @server.tool
    def plain(text: str) -> str:
        """This."""
        return text

    assert ToolSpec.from_function(plain).description == "This."
    assert ToolSpec.from_function(plain).output_schema is not None


async def test_fastmcp_injects_dependencies():
    def clock() -> str:
        return "noon"

    def tell(text: str, now: str = Depends(clock), ctx: Context = CurrentContext()) -> str:
        return f"{text} at {now} by {ctx.fastmcp.name}"

    spec = ToolSpec.from_function(tell)
    assert list(spec.params) == ["text"]
    assert (await connected(spec, text="x")).data == "x at noon by test"
    assert spec.exec(text="x", now="midnight").error.code == "invalid_parameters"


async def test_an_optional_context_is_none_outside_a_server():
    @tool
    def tell(text: str, ctx: Context | None = None) -> str:
        return f"{text} {ctx is None}"

    assert tell(text="x") == "x True"
    assert (await connected(tell, text="x")).data == "x False"


async def test_an_injected_parameter_leaves_others_to_bind():
    @tool
    def tell(text: str, tone: str, ctx: Context | None = None) -> str:
        return f"{text} {tone}"

    tell.bind("tone", "style.tone", "warm")
    assert list(tell.params) == ["text"]
    assert (await connected(tell, text="x")).data == "x warm"


def test_an_injected_function_remains_available():
    def tell(text: str, ctx: Context | None = None) -> str:
        return text

    assert tool(tell).function is tell


def test_fastmcps_own_signature_work_leaves_the_function_alone():
    def tell(ctx: Context, text: str) -> str:
        return text

    before = inspect.signature(tell)
    tool(tell)
    assert inspect.signature(tell) == before


def noon() -> str:
    return "noon"


def by_default(text: str, now: str = Depends(noon)) -> str:
    return f"{text} {now}"


async def in_metadata(text: str, now: Annotated[str, "when", Depends(noon)]) -> str:
    return f"{text} {now}"


def only_by_position(text: str, now: str = Depends(noon), /) -> str:
    return f"{text} {now}"


def before_many(text: str, now: str = Depends(noon), *more: str) -> str:
    return f"{text} {now}{''.join(more)}"


def with_open_names(text: str, now: str = Depends(noon), **others: str) -> str:
    return f"{text} {now}{others.get('mark', '')}"


async def items(text: str, now: str = Depends(noon)) -> AsyncIterator[str]:
    yield f"{text} {now}"


def thread_of(text: str, now: str = Depends(noon)) -> Iterator[str]:
    yield f"{text} {now}"


def coroutine_of(text: str, now: str = Depends(noon)) -> Any:
    return in_metadata(text, now)


class Teller:
    def __call__(self, text: str, now: str = Depends(noon)) -> str:
        return f"{text} {now}"


def with_argument(text: str, mark: str = "?") -> str:
    def read(mark: str = CallArgument()) -> str:
        return f"noon{mark}"

    def tell(text: str, mark: str = mark, now: str = Depends(read)) -> str:
        return f"{text} {now}"

    return ToolSpec.from_function(tell)(text=text)


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (by_default, "x noon"),
        (in_metadata, "x noon"),
        (only_by_position, "x noon"),
        (before_many, "x noon"),
        (with_open_names, "x noon"),
        (items, ["x noon"]),
        (thread_of, ["x noon"]),
        (coroutine_of, "x noon"),
        (Teller(), "x noon"),
        (functools.partial(by_default), "x noon"),
        (functools.partial(functools.partial(in_metadata)), "x noon"),
    ],
    ids=named,
)
@pytest.mark.parametrize("options", [{}, {"run_in_thread": False}], ids=repr)
async def test_an_injected_parameter_is_hidden_and_cannot_be_set(function, value, options):
    spec = ToolSpec.from_function(function, **options)
    assert list(spec.params) == ["text"]
    assert "now" not in f"{spec.input_schema}{spec.code}{spec.signature()}{spec.to_fastmcp().parameters}"
    assert spec.call(text="x") == await spec.acall(text="x") == spec.exec("x").value == value
    assert spec.exec(text="x", now="midnight").error.code == "invalid_parameters"
    with pytest.raises(BindError, match="'now'"):
        spec.bind("now", default="midnight")
    with pytest.raises(DefinitionError, match="no parameter 'now'"):
        ToolSpec.from_function(function, binds={"now": "n"})
    assert pickle.loads(pickle.dumps(spec))(text="x") == value


async def test_a_dependency_stays_open_until_the_last_item_and_each_item_comes_at_once():
    opened: list[str] = []

    @contextlib.asynccontextmanager
    async def connect() -> AsyncIterator[str]:
        opened.append("open")
        try:
            yield "connection"
        finally:
            opened.append("closed")

    async def later(connection: str = Depends(connect)) -> AsyncIterator[int]:
        for number in range(2):
            yield number

    def now(connection: str = Depends(connect)) -> Iterator[int]:
        yield from range(2)

    for function in (later, now):
        opened.clear()
        seen = [(result.value, list(opened)) async for result in ToolSpec.from_function(function).astream()]
        assert seen == [(0, ["open"]), (1, ["open"]), ([0, 1], ["open", "closed"])]
        opened.clear()
        stream = ToolSpec.from_function(function).astream()
        await anext(stream)
        await stream.aclose()
        assert opened == ["open", "closed"]


def test_an_injected_parameter_that_a_partial_fixes_is_not_injected():
    for function in (by_default, in_metadata):
        spec = ToolSpec.from_function(functools.partial(function, now="midnight"))
        assert list(spec.params) == ["text"]
        assert pickle.loads(pickle.dumps(spec))(text="x") == spec(text="x") == "x midnight"


def test_collected_arguments_do_not_reach_an_injected_parameter():
    spec = ToolSpec.from_function(before_many, include_var_positional=True)
    assert spec(text="x", more=["a", "b"]) == "x noonab"
    bound = ToolSpec.from_function(with_open_names, binds={"others": "o"})
    bound.state["o"] = {"mark": "!"}
    assert bound(text="x") == "x noon!"
    with pytest.raises(DefinitionError, match="could set in 'others'; remove include_var_keyword"):
        ToolSpec.from_function(with_open_names, include_var_keyword=True)


def test_a_dependency_may_read_another_argument_and_its_default():
    assert with_argument("x") == "x noon?"


def test_injection_works_with_a_bound_type_without_a_json_form():
    def which(value: Opaque, now: str = Depends(noon)) -> tuple[bool, str]:
        return value is given, now

    given = Opaque()
    spec = ToolSpec.from_function(which, binds={"value": "thing"})
    spec.state["thing"] = given
    assert spec() == [True, "noon"]


def test_an_injection_that_fastmcp_refuses_is_an_error():
    def twice(now: Annotated[str, Depends(noon)] = Depends(noon)) -> None: ...

    with pytest.raises(DefinitionError, match=r"FastMCP cannot inject into 'twice': .*more than one"):
        ToolSpec.from_function(twice)


def test_a_default_from_fastmcp_that_is_no_dependency_is_an_ordinary_default():
    def draw(text: str, image: Image = Image(data=b"x", format="png")) -> str:
        return text

    with pytest.raises(DefinitionError, match="'image' of 'draw'"):
        ToolSpec.from_function(draw)("text")


def test_an_error_of_an_injected_function_is_raised_as_it_is():
    def fail(now: str = Depends(noon)) -> None:
        raise LookupError(now)

    with pytest.raises(LookupError, match="noon"):
        ToolSpec.from_function(fail)()


def test_an_injected_function_takes_the_options_of_a_function():
    @tool(parse_docstring=True, run_in_thread=False, include_long_description=True)
    def tell(text: str, ctx: Context | None = None) -> str:
        """Return a text."""
        return text

    assert tell(text="x") == "x"
