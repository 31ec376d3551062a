"""Tools with a parameter whose type has no JSON form: unusable until it is bound, and then like any other tool."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ahvn_tools import Toolkit, ToolSpec, tool
from ahvn_tools.errors import BindError, DefinitionError, UnboundStateError

UNBOUND = r"Parameter 'db' of 'count' must be bound before the tool is used: its type '.*Database' has no JSON form"


class Database:
    def __init__(self, rows: int = 3) -> None:
        self.rows = rows


def count(db: Database, table: str) -> str:
    """Count the rows of a table.

    Args:
        db: Where it is.
        table: Its name.
    """
    return f"{db.rows} rows in {table}"


async def acount(db: Database, table: str) -> str:
    return f"{db.rows} rows in {table}"


def counts(db: Database, table: str) -> Any:
    yield f"{db.rows} rows in {table}"


async def use_all(spec: ToolSpec) -> list[Callable[[], Any]]:
    async def read() -> list[Any]:
        return [result async for result in spec.astream(table="t")]

    loop = asyncio.get_running_loop()

    def run(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(60)

    return [
        lambda: spec(table="t"),
        lambda: spec("t"),
        lambda: spec.call(db=Database(), table="t"),
        spec.call,
        lambda: spec.exec(table="t"),
        lambda: list(spec.stream(table="t")),
        lambda: run(spec.acall(table="t")),
        lambda: run(spec.aexec(table="t")),
        lambda: run(read()),
    ]


@pytest.mark.parametrize("function", [count, acount, counts], ids=lambda function: function.__name__)
@pytest.mark.parametrize(
    "options",
    [{}, {"timeout": 60}, {"isolation": "process"}, {"run_in_thread": False}],
    ids=lambda options: next(iter(options), "plain"),
)
async def test_every_call_raises_until_the_parameter_is_bound(function, options):
    spec = ToolSpec.from_function(function, name="count", **options)
    for use in await use_all(spec):
        with pytest.raises(DefinitionError, match=UNBOUND):
            await asyncio.to_thread(use)


@pytest.mark.parametrize(
    "export",
    [
        lambda spec: spec.definition,
        lambda spec: spec.input_schema,
        lambda spec: spec.params,
        lambda spec: spec.output_schema,
        lambda spec: spec.code,
        lambda spec: spec.docstring,
        lambda spec: spec.tool,
        lambda spec: spec.binded,
        lambda spec: spec.signature(table="t"),
        lambda spec: spec.to("openai"),
        lambda spec: spec.to_fastmcp(),
        lambda spec: spec.to_function(),
        lambda spec: spec.to_jsonschema(),
        lambda spec: spec.to_mcp(),
        lambda spec: spec.to_prompt(),
        inspect.signature,
    ],
)
def test_every_export_raises_until_the_parameter_is_bound(export):
    spec = ToolSpec.from_function(count)
    for _ in range(2):
        with pytest.raises(DefinitionError, match=UNBOUND):
            export(spec)
    spec.bind("db")
    assert re.search(r"\bdb\b", str(export(spec))) is None


def test_the_message_has_every_fix():
    with pytest.raises(DefinitionError) as raised:
        ToolSpec.from_function(count)(table="t")
    assert str(raised.value).endswith(
        "Bind it, with bind('db') or preset={'db': …}, or annotate it with a type that a model can send."
    )


def test_what_needs_no_definition_works_unbound():
    spec = ToolSpec.from_function(count, tags={"read"})
    assert (spec.name, spec.__name__, spec.description) == ("count", "count", "Count the rows of a table.")
    assert (spec.tags, dict(spec.binds), spec.function) == ({"read"}, {}, count)
    assert repr(spec) == "<ToolSpec 'count'>"
    assert spec.__doc__ == "Count the rows of a table."
    assert "&#x27;db&#x27; of &#x27;count&#x27; must be bound" in spec._repr_html_()


@pytest.mark.parametrize(
    "bind",
    [
        lambda spec: spec.bind("db", default=Database(4)),
        lambda spec: spec.bind("db", "session.db", Database(4)),
        lambda spec: spec.bind("db", resolver=lambda: Database(4), secret=True),
    ],
)
def test_a_bound_tool_is_like_any_other(bind):
    spec = bind(ToolSpec.from_function(count))
    assert spec(table="t") == spec.exec(table="t").value == "4 rows in t"
    assert asyncio.run(spec.acall(table="t")) == "4 rows in t"
    assert list(spec.params) == ["table"]
    with pytest.raises(BindError, match="'db' of 'count' must stay bound"):
        spec.unbind("db")


def test_a_bound_tool_without_a_value_fails_as_any_other():
    spec = ToolSpec.from_function(count).bind("db", "session.db")
    with pytest.raises(UnboundStateError, match=r"set state key 'session\.db'"):
        spec(table="t")
    spec.state = {"session": {"db": Database(5)}}
    assert spec(table="t") == "5 rows in t"


def test_each_of_several_parameters_must_be_bound():
    def both(first: Database, second: Database) -> int:
        return first.rows + second.rows

    spec = ToolSpec.from_function(both).bind("first", default=Database(1))
    with pytest.raises(DefinitionError, match="'second' of 'both'"):
        spec()
    assert spec.bind("second", default=Database(2))() == 3


def test_the_decorator_makes_a_tool_that_is_bound_later():
    @tool
    def rows(db: Database) -> int:
        return db.rows

    with pytest.raises(DefinitionError, match="'db' of 'rows'"):
        rows.exec()
    assert rows.bind("db", default=Database(2))() == 2


def test_code_may_define_a_tool_that_is_bound_later():
    code = "class Db: rows = 2\ndef rows(db: Db) -> int: return db.rows"
    spec = ToolSpec.from_code(code)
    with pytest.raises(DefinitionError, match="'db' of 'rows'"):
        spec()
    assert spec.bind("db", default=Database(7))() == 7


@pytest.mark.parametrize(
    "copied",
    [ToolSpec.clone, copy.copy, copy.deepcopy, lambda spec: pickle.loads(pickle.dumps(spec)), ToolSpec.transform],
    ids=["clone", "copy", "deepcopy", "pickle", "transform"],
)
def test_a_copy_is_bound_on_its_own(copied):
    spec = ToolSpec.from_function(count)
    twin = copied(spec)
    with pytest.raises(DefinitionError, match=UNBOUND):
        twin(table="t")
    assert twin.bind("db", default=Database(6))(table="t") == "6 rows in t"
    with pytest.raises(DefinitionError, match=UNBOUND):
        spec(table="t")


def test_a_pickle_keeps_what_was_bound_later():
    spec = ToolSpec.from_function(count).bind("db", default=Database(6))
    assert pickle.loads(pickle.dumps(spec))(table="t") == "6 rows in t"


def test_a_changed_tool_names_the_parameter_as_it_is_called_now():
    spec = ToolSpec.from_function(count).transform(name="rows", arguments={"db": {"name": "source"}})
    with pytest.raises(DefinitionError, match="'source' of 'rows' must be bound"):
        _ = spec.definition
    assert spec.bind("source", default=Database(8))(table="t") == "8 rows in t"


def test_another_thread_may_bind_it():
    spec = ToolSpec.from_function(count)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda rows: spec.bind("db", default=Database(rows)), [1] * 20))
        assert set(pool.map(lambda table: spec(table=table), ["t"] * 20)) == {"1 rows in t"}


@pytest.mark.parametrize("key", ["state", "session_id", "roots", "audience", "id"])
def test_a_key_that_is_an_option_of_session_goes_into_a_mapping(key):
    kit = Toolkit("kit").add(lambda value: value, name="get", binds={"value": key})
    assert kit.session({key: "Ann"}).call("get") == "Ann"
    error = kit.session({"value": "Ann"}).exec("get").exception
    assert str(error).endswith(f"set state key {key!r}, in a mapping: session({{{key!r}: …}}).")
