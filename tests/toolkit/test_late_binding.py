"""Tools with a parameter whose type has no JSON form, in a toolkit: preset, bound there or not bound at all."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from fastmcp import Client
from pydantic import BaseModel

from ahvn_tools import Toolkit, ToolRegistry, ToolSpec, reg_toolspec
from ahvn_tools.errors import BindError, DefinitionError, ToolkitError, UnboundStateError
from tests.toolkit.subjects import check

UNBOUND = "Parameter 'db' of 'count' must be bound before the tool is used"


class Database:
    def __init__(self, rows: int = 3) -> None:
        self.rows = rows


def count(db: Database, table: str) -> str:
    """Count the rows of a table."""
    return f"{db.rows} rows in {table}"


def plain(table: str) -> str:
    """Need no database."""
    return table


class Tables(ToolRegistry):
    @reg_toolspec
    def count(self, db: Database, table: str) -> str:
        """Count the rows of a table."""
        return f"{db.rows} rows in {table}"

    @reg_toolspec
    def names(self) -> list[str]:
        """List the tables."""
        return ["t"]


def bound_first(thing: Any) -> Toolkit:
    return Toolkit("k", state={"db": Database()}).bind("db").add(thing)


def bound_afterwards(thing: Any) -> Toolkit:
    return Toolkit("k").add(thing).bind("db", default=Database())


def bound_to_key(thing: Any) -> Toolkit:
    return Toolkit("k", state={"s": {"db": Database()}}).add(thing, binds={"db": "s.db"})


def bound_on_tool(thing: Any) -> Toolkit:
    kit = Toolkit("k").add(thing)
    kit["count"].bind("db", resolver=Database)
    return kit


def preset(thing: Any) -> Toolkit:
    return Toolkit("k").add(thing, preset={"db": Database()})


def decorated(thing: Any) -> Toolkit:
    kit = Toolkit("k", state={"db": Database()}).bind("db")
    kit.tool(exclusive="table", description="Count.")(thing)
    return kit


def of_another_toolkit(thing: Any) -> Toolkit:
    return Toolkit("outer").add(bound_first(thing))


WAYS = [
    *[(way, count) for way in (bound_first, bound_afterwards, bound_on_tool, bound_to_key, preset, decorated)],
    *[(way, ToolSpec.from_function(count)) for way in (bound_afterwards, bound_to_key, preset, of_another_toolkit)],
    *[(way, Tables()) for way in (bound_first, bound_on_tool, preset)],
]


@pytest.mark.parametrize(("bound", "thing"), WAYS, ids=lambda value: getattr(value, "__name__", type(value).__name__))
async def test_a_tool_that_the_toolkit_binds_is_like_any_other(bound, thing):
    kit = bound(thing)
    assert kit.call("count", {"table": "t"}) == "3 rows in t"
    assert (await kit.aexec("count", {"table": "t"})).value == "3 rows in t"
    assert [result.value for result in kit.stream("count", {"table": "t"})] == ["3 rows in t"]
    assert kit["count"](table="t") == "3 rows in t"
    assert list(kit["count"].params) == ["table"]
    assert kit.exec("count", {"table": "t", "db": 1}).error.code == "invalid_parameters"
    assert check(kit) == []
    assert [entry["function"]["name"] for entry in kit.to("openai")][:1] == ["count"]
    assert kit.search("rows of a table")[0].name == "count" or bound is decorated
    async with Client(kit.to_fastmcp_server()) as client:
        assert (await client.call_tool("count", {"table": "t"})).data == "3 rows in t"


def test_each_session_has_its_own_value():
    kit = Toolkit("k").bind("db").add(count)
    small, large = kit.session(db=Database(1)), kit.session({"db": Database(2)})
    assert [session.call("count", {"table": "t"}) for session in (small, large)] == ["1 rows in t", "2 rows in t"]
    assert small["count"](table="t") == "1 rows in t"
    assert kit.exec("count", {"table": "t"}).error.code == "unbound_state"


def test_a_copy_of_a_tool_with_a_preset_is_bound_outside_of_the_toolkit():
    twin = preset(count)["count"].clone()
    assert twin(table="t") == "3 rows in t"
    with pytest.raises(BindError, match="'db' of 'count'"):
        twin.unbind("db")


def test_one_spec_is_bound_in_two_toolkits():
    spec = ToolSpec.from_function(count)
    kits = [Toolkit("k").add(spec, preset={"db": Database(rows)}) for rows in (1, 2)]
    assert [kit.call("count", {"table": "t"}) for kit in kits] == ["1 rows in t", "2 rows in t"]
    with pytest.raises(DefinitionError, match=UNBOUND):
        spec(table="t")


def test_a_changed_tool_may_be_bound_later():
    changes = {"db": {"name": "source"}, "table": {"name": "of"}}
    kit = Toolkit("k").add(ToolSpec.from_function(count), description="Count.", arguments=changes)
    kit.bind("source", default=Database())
    assert kit.call("count", {"of": "t"}) == "3 rows in t"


def test_an_unbound_tool_is_a_finding_and_an_error_in_every_export(caplog):
    kit = Toolkit("k").add(plain).add(count, rename="rows")
    [finding] = check(kit)
    assert (finding.severity, finding.place) == ("error", "")
    assert finding.problem.startswith("its parameter 'db' is not bound, and '")
    assert finding.fix == "Bind it: toolkit.bind('db'), or add the tool with preset={'db': …}."
    exports = [
        lambda: kit.to("openai"),
        lambda: kit.session(db=Database()).to("prompt"),
        kit.to_prompt,
        kit.definitions,
        lambda: kit["rows"].definition,
        kit.to_fastmcp_server,
        lambda: kit.search("rows"),
    ]
    for export in exports:
        with pytest.raises(DefinitionError, match="'db' of 'rows' must be bound"):
            export()
    assert "The tool 'rows': its parameter 'db' is not bound" in caplog.text
    assert [tool["function"]["name"] for tool in kit.select(names=["plain"]).to("openai")] == ["plain"]
    assert "must be bound" in kit._repr_html_()
    assert check(kit.bind("db")) == []
    assert len(kit.to("openai")) == 2


def test_an_unbound_tool_in_a_strict_toolkit_is_refused_as_every_finding():
    with pytest.raises(ToolkitError, match="The tool 'count': its parameter 'db' is not bound"):
        Toolkit("k", strict=True).add(count).to("openai")


def test_a_call_of_an_unbound_tool_is_an_error_result_and_the_host_reads_the_fix(caplog):
    caplog.set_level(logging.WARNING)
    kit = Toolkit("k").add(count).add(plain)
    results = [
        kit.exec("count", {"table": "t"}),
        asyncio.run(kit.aexec("count", {"table": "t"})),
        *kit.stream("count", {"table": "t"}),
        kit["count"].exec(table="t"),
        kit.session(db=Database()).exec("count", {"table": "t"}),
        kit.exec("count", {"table": "t", "db": 1}),
    ]
    for result in results:
        assert result.error.code == "unbound_state"
        assert result.text == "The tool cannot run: its host has not provided a value that it needs."
    assert UNBOUND in caplog.text
    for call in (kit.call, kit["count"].call):
        with pytest.raises(UnboundStateError, match=UNBOUND):
            call("count", {"table": "t"}) if call == kit.call else call(table="t")
    assert kit.call("plain", {"table": "t"}) == "t"


def test_an_answer_may_call_the_other_tools():
    kit = Toolkit("k").add(count).add(plain)
    calls = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": '{"table": "t"}'}}
        for name in ("plain", "count")
    ]
    messages = kit.run({"role": "assistant", "content": None, "tool_calls": calls}).messages
    assert [message["content"] for message in messages] == [
        "t",
        "Error: The tool cannot run: its host has not provided a value that it needs.",
    ]


def test_the_last_binding_of_a_tool_that_needs_it_cannot_be_undone():
    kit = Toolkit("k", state={"db": Database()}).bind("db").add(plain).add(count)
    with pytest.raises(BindError, match=r"'db' of 'count' must stay bound: .* Bind it again instead, or remove"):
        kit.unbind("db")
    kit["count"].bind("db", "other")
    kit.unbind("db").unbind("nothing")
    with pytest.raises(BindError, match="'db' of 'count' must stay bound"):
        kit["count"].unbind("db")
    assert kit["count"].binds == {"db": "other"}
    assert kit.bind("db")["count"].unbind("db")(table="t") == "3 rows in t"
    assert check(kit.remove("count").unbind("db")) == []


def test_undoing_what_is_not_bound_does_nothing():
    kit = Toolkit("k").add(count)
    kit.unbind("db")["count"].unbind("db")
    assert len(check(kit)) == 1


def test_a_model_that_a_tool_finishes_with_must_have_a_json_form():
    class Answer(BaseModel, arbitrary_types_allowed=True):
        db: Database

    with pytest.raises(ToolkitError, match="'Answer' has a field whose type has no JSON form"):
        Toolkit("k").add(plain).finish_with("plain", Answer)


def test_a_tool_that_is_bound_in_the_toolkit_may_take_a_models_fields():
    class Answer(BaseModel):
        text: str

    kit = bound_first(count).finish_with("count", Answer)
    result = kit.exec("count", {"table": "t", "text": "done"})
    assert (result.value, result.meta["structured"].text) == ("3 rows in t", "done")
