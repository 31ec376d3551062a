"""Binding on a spec: parameters taken from the model, and filled from the state at call time."""

from __future__ import annotations

import functools
import traceback
from collections import ChainMap, OrderedDict, UserDict
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr

from ahvn_tools import Secret, ToolSpec
from ahvn_tools.errors import BindError, DefinitionError, InvalidParametersError, StateKeyError, UnboundStateError

CANARY = "canary-7f3a9c"


def act(user_id: str, action: str, limit: int = 3) -> str:
    """Do something for a user."""
    return f"{user_id} {action} {limit}"


def spec_of(function: Any = act, **options: Any) -> ToolSpec:
    return ToolSpec.from_function(function, **options)


class TestBind:
    def test_a_bound_parameter_is_filled_from_the_state(self):
        spec = spec_of().bind("user_id", default="user123")
        assert spec(action="login") == "user123 login 3"

    def test_bind_and_unbind_return_the_spec(self):
        spec = spec_of()
        assert spec.bind("user_id") is spec
        assert spec.unbind("user_id") is spec

    def test_the_key_is_the_name_of_the_parameter_by_default(self):
        spec = spec_of().bind("user_id").bind("limit", "session.limits[0]")
        assert dict(spec.binds) == {"user_id": "user_id", "limit": "session.limits[0]"}
        spec.state = {"user_id": "ann", "session": {"limits": [9]}}
        assert spec(action="go") == "ann go 9"

    def test_binds_is_a_read_only_view(self):
        spec = spec_of().bind("user_id")
        with pytest.raises(TypeError):
            spec.binds["action"] = "x"  # type: ignore[index]
        assert list(spec.binds) == ["user_id"]

    def test_binding_an_unknown_parameter_fails_at_bind_with_near_misses(self):
        with pytest.raises(BindError, match=r"no parameter 'user'.*Did you mean 'user_id'"):
            spec_of().bind("user")

    def test_a_malformed_key_fails_at_bind_and_binds_nothing(self):
        spec = spec_of()
        with pytest.raises(StateKeyError, match="Malformed"):
            spec.bind("user_id", "user..id")
        assert not spec.binds

    def test_binding_again_replaces_the_binding_whole(self):
        spec = spec_of().bind("user_id", "a.b", default="first").bind("user_id", "c")
        assert dict(spec.binds) == {"user_id": "c"}
        with pytest.raises(UnboundStateError):
            spec(action="go")

    def test_binding_again_drops_a_resolver_and_an_old_default(self):
        spec = spec_of().bind("user_id", resolver=lambda: "resolved").bind("user_id", default="stored")
        assert spec(action="go") == "stored go 3"
        spec.bind("user_id", resolver=lambda: "resolved")
        assert spec(action="go") == "resolved go 3"

    def test_a_parameter_can_be_bound_after_it_was_unbound(self):
        spec = spec_of().bind("user_id", default="a").unbind("user_id")
        assert spec(user_id="b", action="go") == "b go 3"
        assert spec.bind("user_id")(action="go") == "a go 3"

    def test_a_mistake_in_binding_again_leaves_the_old_binding(self):
        spec = spec_of().bind("user_id", "a", default="x")
        with pytest.raises(StateKeyError):
            spec.bind("user_id", "a.b", default="y")
        assert dict(spec.binds) == {"user_id": "a"}
        assert spec(action="go") == "x go 3"

    def test_parameters_may_be_bound_when_the_tool_is_made(self):
        spec = spec_of(binds={"user_id": "session.user"})
        spec.state = {"session": {"user": "ann"}}
        assert (spec(action="go"), list(spec.params)) == ("ann go 3", ["action", "limit"])

    def test_binding_an_unknown_parameter_fails_when_the_tool_is_made(self):
        with pytest.raises(DefinitionError, match=r"no parameter 'usr_id'.*'user_id'"):
            spec_of(binds={"usr_id": "x"})

    def test_a_method_may_be_bound_to_the_value_of_its_instance(self):
        spec = ToolSpec.from_function(SimpleNamespace.__repr__, name="show", binds={"self": "it"})
        spec.state["it"] = SimpleNamespace(a=1)
        assert spec() == "namespace(a=1)"


class TestUnbind:
    def test_an_unbound_parameter_is_required_again(self):
        spec = spec_of().bind("user_id", default="a").unbind("user_id")
        assert "user_id" in spec.params
        with pytest.raises(InvalidParametersError, match="'user_id' is missing"):
            spec(action="go")

    def test_the_state_keeps_its_value(self):
        spec = spec_of().bind("user_id", default="a").unbind("user_id")
        assert spec.state == {"user_id": "a"}

    @pytest.mark.parametrize("param", ["action", "nothing"])
    def test_unbinding_what_is_not_bound_changes_nothing(self, param):
        spec = spec_of().bind("user_id")
        assert dict(spec.unbind(param).binds) == {"user_id": "user_id"}

    def test_the_order_of_the_parameters_stays(self):
        spec = spec_of().bind("user_id").unbind("user_id")
        assert list(spec.params) == ["user_id", "action", "limit"]


class TestState:
    def test_a_changed_value_is_seen_by_the_next_call(self):
        spec = spec_of().bind("user_id", default="a")
        spec.state["user_id"] = "b"
        assert spec(action="go") == "b go 3"

    def test_a_nested_value_changed_in_place_is_seen_by_the_next_call(self):
        spec = spec_of().bind("user_id", "session.user.id", default="a")
        spec(action="go")
        spec.state["session"]["user"]["id"] = "b"
        assert spec(action="go") == "b go 3"

    def test_a_replaced_state_is_seen_by_the_next_call(self):
        spec = spec_of().bind("user_id", "user.id", default="a")
        spec.state = {"user": {"id": "b"}}
        assert spec(action="go") == "b go 3"

    def test_the_state_is_the_assigned_object(self):
        spec, state = spec_of(), {"a": 1}
        spec.state = state
        assert spec.state is state

    @pytest.mark.parametrize(
        "kind", [OrderedDict, UserDict, lambda **values: ChainMap(values), lambda **v: MappingProxyType(v)]
    )
    def test_a_state_may_be_any_mapping(self, kind):
        spec = spec_of().bind("user_id")
        spec.state = kind(user_id="b")
        assert spec(action="go") == "b go 3"

    @pytest.mark.parametrize("state", [None, [("user_id", "b")], "user_id", SimpleNamespace(user_id="b"), 5])
    def test_a_state_that_is_no_mapping_is_refused_and_changes_nothing(self, state):
        spec = spec_of().bind("user_id", default="a")
        with pytest.raises(TypeError, match=f"mapping such as a dict, not {type(state).__name__}"):
            spec.state = state
        assert spec(action="go") == "a go 3"

    def test_keys_lead_through_objects_models_and_properties(self):
        class Account(BaseModel):
            owner: str

        class Session:
            @property
            def account(self):
                return Account(owner="ann")

        spec = spec_of().bind("user_id", "session.account.owner")
        spec.state = {"session": Session()}
        assert spec(action="go") == "ann go 3"

    def test_a_huge_state_is_read_and_not_copied(self):
        spec = spec_of().bind("user_id", "rows[99999].id")
        rows = [{"id": str(number)} for number in range(100_000)]
        spec.state = {"rows": rows}
        assert spec(action="go") == "99999 go 3"
        assert spec.state["rows"] is rows

    def test_a_state_may_contain_itself(self):
        spec = spec_of().bind("user_id", "me.me.me.user")
        spec.state["me"] = spec.state
        spec.state["user"] = "ann"
        assert spec(action="go") == "ann go 3"
        assert spec.clone()(action="go") == "ann go 3"


class TestLookup:
    def test_the_lookup_order_is_state_binding_default_function_default(self):
        spec = spec_of().bind("limit", default=5).bind("user_id", default="a")
        assert spec(action="go") == "a go 5"
        spec.state["limit"] = 6
        assert spec(action="go") == "a go 6"
        spec.state = {}
        assert spec(action="go") == "a go 5"
        spec.bind("limit")
        assert spec(action="go") == "a go 3"

    def test_a_default_is_stored_if_the_key_is_absent(self):
        spec = spec_of().bind("user_id", "session.user.id", default="a")
        assert spec.state == {"session": {"user": {"id": "a"}}}

    def test_a_default_does_not_replace_what_the_state_has(self):
        spec = spec_of()
        spec.state = {"user_id": "b"}
        assert spec.bind("user_id", default="a")(action="go") == "b go 3"

    def test_none_in_the_state_is_a_value(self):
        def maybe(value: int | None = 4) -> str:
            return str(value)

        spec = spec_of(maybe).bind("value", default=5)
        spec.state["value"] = None
        assert spec() == "None"

    def test_none_as_a_default_binds_none(self):
        def maybe(value: int | None = 4) -> str:
            return str(value)

        spec = spec_of(maybe).bind("value", default=None)
        assert (spec(), spec.state) == ("None", {"value": None})
        spec.state = {}
        assert spec() == "None"

    @pytest.mark.parametrize("state", [{"a": 5}, {"a": None}, {"a": [1]}, {"a": SimpleNamespace()}])
    def test_a_default_that_cannot_be_stored_fails_at_bind_and_changes_nothing(self, state):
        spec = spec_of()
        spec.state = state
        before = repr(state)
        with pytest.raises(StateKeyError, match=r"Cannot store a default under 'a.b'"):
            spec.bind("user_id", "a.b", default="x")
        assert (repr(spec.state), dict(spec.binds)) == (before, {})

    def test_a_default_for_a_read_only_state_is_not_stored(self):
        spec = spec_of()
        spec.state = MappingProxyType({})  # type: ignore[assignment]
        with pytest.raises(StateKeyError, match="a mappingproxy"):
            spec.bind("user_id", default="x")

    def test_a_tool_cannot_change_a_remembered_default(self):
        """The default object itself is in the state; the binding remembers a copy."""

        def log(entry: str, entries: list) -> int:
            entries.append(entry)
            return len(entries)

        given: list[str] = []
        spec = spec_of(log).bind("entries", default=given)
        assert spec.state["entries"] is given
        assert (spec(entry="a"), spec(entry="b")) == (1, 2)
        spec.state = {}
        assert (spec(entry="c"), spec(entry="d")) == (1, 1)
        assert spec.clone()(entry="e") == 1

    def test_a_key_does_not_lead_into_the_default_of_another(self):
        spec = spec_of().bind("user_id", "user.id")
        spec.state = {"user": {"name": "ann"}}
        with pytest.raises(UnboundStateError, match=r"'user.id'"):
            spec(action="go")


class TestUnboundState:
    def test_it_names_parameter_and_key_before_the_body_runs(self):
        ran = []

        def body(query: str, api_key: str) -> None:
            ran.append(query)

        spec = spec_of(body).bind("api_key", "config.api.key")
        with pytest.raises(UnboundStateError, match=r"'api_key' is bound to 'config.api.key'.*set state key") as caught:
            spec(query="q")
        assert (caught.value.parameter, caught.value.key, caught.value.code) == (
            "api_key",
            "config.api.key",
            "unbound_state",
        )
        assert not ran

    def test_exec_returns_it_as_a_result(self):
        result = spec_of().bind("user_id").exec(action="go")
        assert result.error is not None
        assert result.error.code == "unbound_state"

    async def test_every_entry_point_reports_it(self):
        spec = spec_of().bind("user_id")
        with pytest.raises(UnboundStateError):
            await spec.acall(action="go")
        codes = [(await spec.aexec(action="go")).error.code, next(iter(spec.stream(action="go"))).error.code]
        codes += [result.error.code async for result in spec.astream(action="go")]
        assert codes == ["unbound_state"] * 3

    def test_a_key_that_leads_through_another_kind_of_value_is_unbound(self):
        spec = spec_of().bind("user_id", "a.b.c")
        for state in ({"a": 5}, {"a": None}, {"a": {"b": "text"}}, {"a": []}):
            spec.state = state
            with pytest.raises(UnboundStateError, match=r"'a.b.c'"):
                spec(action="go")

    @pytest.mark.parametrize("error", [ConnectionError, KeyError, AttributeError, StopIteration])
    def test_a_property_that_raises_is_reported_by_the_kind_of_its_error(self, error):
        class Session:
            @property
            def user(self):
                raise error(CANARY)

        spec = spec_of().bind("user_id", "session.user")
        spec.state["session"] = Session()
        with pytest.raises(UnboundStateError, match=f"reading it raised {error.__name__}") as caught:
            spec(action="go")
        assert CANARY not in str(caught.value)
        assert isinstance(caught.value.__cause__, error)

    def test_a_failing_property_is_not_replaced_by_a_default(self):
        class Session:
            @property
            def limit(self):
                return self.no_such_thing

        spec = spec_of().bind("limit", "session.limit")
        spec.state["session"] = Session()
        with pytest.raises(UnboundStateError, match="reading it raised AttributeError"):
            spec(user_id="a", action="go")

    @pytest.mark.parametrize("is_async", [False, True])
    async def test_a_resolver_that_raises_is_reported_by_the_kind_of_its_error(self, is_async):
        async def later():
            raise ConnectionError(CANARY)

        def now():
            raise ConnectionError(CANARY)

        spec = spec_of().bind("user_id", resolver=later if is_async else now)
        result = spec.exec(action="go")
        assert result.error.code == "unbound_state"
        assert "raised ConnectionError" in str(result.exception)
        assert CANARY not in str(result.exception)
        with pytest.raises(UnboundStateError, match="raised ConnectionError"):
            await spec.acall(action="go")


class Handle:
    """A thing without a JSON form."""


class TestValues:
    def test_the_object_itself_is_passed(self):
        seen = []

        class Model(BaseModel):
            a: int

        @dataclass
        class Record:
            a: int

        def take(items: list[int], table: dict[str, list[int]], model: Model, record: Record, anything: Any) -> None:
            seen.extend([items, table, model, record, anything])

        spec = ToolSpec.from_function(take)
        values = [[1], {"a": [1]}, Model(a=1), Record(a=1), [object()]]
        for name, value in zip(["items", "table", "model", "record", "anything"], values, strict=True):
            spec.bind(name, default=value)
        spec()
        assert all(given is value for given, value in zip(seen, values, strict=True))

    def test_a_tool_may_change_a_list_of_the_session(self):
        def note(text: str, notes: list[str]) -> int:
            notes.append(text)
            return len(notes)

        spec = spec_of(note).bind("notes", "session.notes", default=[])
        spec(text="a")
        assert spec.state["session"]["notes"] == ["a"]

    def test_a_custom_container_is_passed_unchanged(self):
        class Rows(list):
            """A list that knows where it belongs, as an object mapper's."""

        def change(rows: list[int], table: dict[str, int]) -> None:
            rows.append(1)
            table["a"] = 1

        spec = ToolSpec.from_function(change).bind("rows", default=Rows()).bind("table", default=OrderedDict())
        spec()
        assert spec.state == {"rows": [1], "table": {"a": 1}}
        assert [type(value) for value in spec.state.values()] == [Rows, OrderedDict]

    def test_a_value_of_a_convertible_type_is_converted(self):
        class Model(BaseModel):
            a: int

        def take(number: int, model: Model) -> str:
            return f"{number + 1} {model.a}"

        spec = ToolSpec.from_function(take).bind("number", default="41").bind("model", default={"a": "2"})
        assert spec() == "42 2"
        assert spec.state == {"number": "41", "model": {"a": "2"}}

    def test_a_type_without_json_form_is_passed_unchanged(self):
        def use(db: Handle, query: str) -> str:
            return type(db).__name__ + query

        spec = spec_of(use, binds={"db": "session.db"})
        spec.state = {"session": {"db": Handle()}}
        assert spec(query="!") == "Handle!"
        spec.state = {"session": {"db": object()}}
        assert spec(query="!") == "object!"

    def test_a_parameter_without_json_form_cannot_be_unbound(self):
        def use(db: Handle, query: str) -> str:
            return query

        spec = spec_of(use, binds={"db": "db"})
        with pytest.raises(BindError, match="'db' of 'use' must stay bound"):
            spec.unbind("db")
        assert list(spec.params) == ["query"]

    def test_a_parameter_without_json_form_can_be_bound_to_another_key(self):
        def use(db: Handle) -> str:
            return type(db).__name__

        spec = spec_of(use, binds={"db": "db"}).bind("db", "other.db", default=Handle())
        assert spec() == "Handle"

    @pytest.mark.parametrize(
        ("annotation", "value", "kind"),
        [
            (int, CANARY, "str"),
            (str, {"token": CANARY}, "dict"),
            (Literal["a", "b"], CANARY, "str"),
            (Annotated[str, Field(max_length=3)], CANARY, "str"),
            (list[int], [CANARY], "list"),
            (dict[int, int], {CANARY: 1}, "dict"),
            (int, SecretStr(CANARY), "SecretStr"),
            (int, CANARY.encode(), "bytes"),
        ],
    )
    def test_a_value_that_does_not_fit_is_reported_by_parameter_key_and_expected_type(self, annotation, value, kind):
        def body(query: str, setting) -> None: ...

        body.__annotations__["setting"] = annotation
        spec = spec_of(body).bind("setting", "config.setting")
        spec.state = {"config": {"setting": value}}
        with pytest.raises(UnboundStateError) as caught:
            spec(query="q")
        message = str(caught.value)
        assert message.startswith(
            f"Parameter 'setting' is bound to 'config.setting': it holds a {kind} that does not fit"
        )
        assert getattr(annotation, "__name__", "Annotated") in message
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__
        assert CANARY not in "".join(traceback.format_exception(caught.value))
        assert CANARY not in repr(spec.exec(query="q"))

    async def test_the_value_of_an_async_resolver_is_checked_too(self):
        async def resolve():
            return CANARY

        spec = spec_of().bind("limit", resolver=resolve)
        with pytest.raises(UnboundStateError, match="holds a str that does not fit 'int'") as caught:
            await spec.acall(user_id="a", action="go")
        assert CANARY not in "".join(traceback.format_exception(caught.value))


class TestConstants:
    def test_arguments_of_a_partial_are_fixed(self):
        partial = functools.partial(act, "ann", limit=9)
        spec = ToolSpec.from_function(partial)
        assert spec(action="go") == "ann go 9"
        assert list(spec.params) == ["action"]
        assert not spec.binds
        with pytest.raises(InvalidParametersError, match="unknown argument 'limit'"):
            spec(action="go", limit=1)

    def test_the_partial_is_not_changed(self):
        partial = functools.partial(act, "ann", limit=9)
        ToolSpec.from_function(partial).bind("action", default="x")
        assert (partial.args, partial.keywords, partial("go")) == (("ann",), {"limit": 9}, "ann go 9")

    def test_a_constant_is_not_read_from_the_state(self):
        spec = ToolSpec.from_function(functools.partial(act, "ann"))
        spec.state = {"user_id": "eve"}
        assert spec(action="go") == "ann go 3"

    def test_a_constant_is_passed_unchanged(self):
        handle = Handle()

        def same(value: Handle, query: str) -> bool:
            return value is handle

        assert ToolSpec.from_function(functools.partial(same, handle))(query="q") is True

    @pytest.mark.parametrize("change", ["bind", "unbind"])
    def test_a_constant_can_be_neither_bound_nor_unbound(self, change):
        spec = ToolSpec.from_function(functools.partial(act, CANARY))
        with pytest.raises(BindError, match="'user_id' of 'act' was fixed when the tool was made") as caught:
            getattr(spec, change)("user_id")
        assert CANARY not in str(caught.value)
        assert spec(action="go") == f"{CANARY} go 3"


class TestOddParameters:
    def test_a_parameter_with_an_alias_is_bound_by_its_own_name(self):
        def body(user: Annotated[str, Field(alias="userId")], q: str) -> str:
            return f"{user} {q}"

        spec = spec_of(body).bind("user", default="ann")
        assert (spec(q="x"), list(spec.params)) == ("ann x", ["q"])
        for name in ("user", "userId"):
            with pytest.raises(InvalidParametersError, match=f"unknown argument '{name}'"):
                spec(q="x", **{name: "eve"})

    def test_a_positional_only_parameter_can_be_bound(self):
        def body(user: str, q: str, /, *rest: int) -> str:
            return f"{user} {q}"

        assert spec_of(body).bind("user", default="ann")(q="x") == "ann x"

    def test_parameters_with_the_names_of_our_methods_can_be_bound_and_passed(self):
        def body(self: str, param: str, args: str, arguments: str) -> str:
            return f"{self} {param} {args} {arguments}"

        spec = spec_of(body, name="body").bind("param", default="p")
        assert spec(self="s", args="a", arguments="b") == "s p a b"

    def test_visible_kwargs_cannot_set_a_bound_parameter(self):
        def body(user: str, **more: Any) -> str:
            return user

        spec = spec_of(body, include_var_keyword=True).bind("user", default="ann")
        with pytest.raises(InvalidParametersError):
            spec(more={"user": "eve"})
        assert spec(more={"other": 1}) == "ann"

    def test_positional_arguments_skip_bound_parameters(self):
        spec = spec_of().bind("user_id", default="ann")
        assert spec("go", 7) == "ann go 7"
        with pytest.raises(InvalidParametersError, match="3 positional arguments for 2 parameters"):
            spec("eve", "go", 7)

    def test_definitions_of_a_bound_type_leave_the_schema_with_it(self):
        class Hidden(BaseModel):
            secret_field: int

        def body(hidden: Hidden, q: str) -> str:
            return q

        assert "secret_field" not in str(ToolSpec.from_function(body).bind("hidden").input_schema)

    def test_bound_parameters_are_removed_from_the_examples(self):
        examples = [{"user_id": CANARY, "action": "go"}, {"inputs": {"user_id": CANARY}, "expected": "x"}]
        spec = spec_of(examples=examples)
        assert spec.examples is examples
        spec.bind("user_id")
        assert spec.definition.examples == [{"inputs": {"action": "go"}}, {"inputs": {}, "expected": "x"}]
        assert spec.examples == [{"action": "go"}, {"inputs": {}, "expected": "x"}]


class TestSchemaTools:
    """Tools whose truth is a JSON Schema bind by the same rules."""

    @staticmethod
    def sent() -> ToolSpec:
        from fastmcp.tools import Tool
        from fastmcp.tools.base import ToolResult

        class Echo(Tool):
            async def run(self, arguments):
                return ToolResult(structured_content={"sent": arguments})

        properties = {"user.id": {"type": "string"}, "query": {"type": "string"}, "limit": {"type": "integer"}}
        properties["more"] = {"type": "object"}
        schema = {"type": "object", "properties": properties, "required": ["user.id", "query"]}
        return ToolSpec.from_mcp(Echo(name="echo", parameters=schema))

    def test_a_property_with_a_dot_in_its_name_is_one_step_of_the_state(self):
        spec = self.sent().bind("user.id", default="ann")
        assert spec.state == {"user.id": "ann"}
        assert dict(spec.binds) == {"user.id": r"user\.id"}
        assert spec(query="q")["sent"] == {"user.id": "ann", "query": "q"}
        assert list(spec.params) == ["query", "limit", "more"]

    def test_a_key_copied_from_binds_binds_the_same_value(self):
        spec = self.sent().bind("user.id", default="ann")
        again = self.sent().bind("user.id", spec.binds["user.id"])
        again.state = spec.state
        assert again(query="q")["sent"]["user.id"] == "ann"

    def test_a_bound_name_is_refused_by_an_open_schema(self):
        spec = self.sent().bind("limit", default=3)
        with pytest.raises(InvalidParametersError, match="unknown argument 'limit'"):
            spec(**{"user.id": "a", "query": "q", "limit": 5})
        assert spec(**{"user.id": "a", "query": "q", "other": 5})["sent"]["other"] == 5

    def test_a_bound_property_that_is_not_required_is_left_out_without_a_value(self):
        assert self.sent().bind("limit")(**{"user.id": "a", "query": "q"})["sent"] == {
            "user.id": "a",
            "query": "q",
        }

    @pytest.mark.parametrize("value", [SecretStr("ann"), "ann"])
    def test_a_secret_type_is_sent_as_its_content(self, value):
        assert self.sent().bind("user.id", default=value)(query="q")["sent"]["user.id"] == "ann"

    def test_a_secret_type_inside_a_container_is_too(self):
        spec = self.sent().bind("more", default={"keys": [SecretStr("ann")]})
        assert spec(**{"user.id": "a", "query": "q"})["sent"]["more"] == {"keys": ["ann"]}

    def test_a_bound_property_that_is_required_is_not(self):
        with pytest.raises(UnboundStateError, match=r"'user.id' is bound to"):
            self.sent().bind("user.id")(query="q")

    def test_a_bound_value_is_checked_against_its_schema(self):
        spec = self.sent().bind("limit", default=CANARY)
        with pytest.raises(UnboundStateError, match="holds a str that does not fit 'integer'") as caught:
            spec(**{"user.id": "a", "query": "q"})
        assert CANARY not in "".join(traceback.format_exception(caught.value))


PARAMETERS = ["alpha", "beta", "gamma", "delta"]


def four(alpha: str, beta: int = 2, gamma: list[str] | None = None, *, delta: bool = False) -> str:
    return repr((alpha, beta, gamma, delta))


VALUES = {"alpha": "bound", "beta": 77, "gamma": ["x"], "delta": True}


class TestSealing:
    """The model neither sees nor sets a bound parameter."""

    @given(st.lists(st.sampled_from(PARAMETERS), unique=True), st.data())
    def test_bound_names_are_in_no_export_and_cannot_be_passed(self, bound, data):
        spec = ToolSpec.from_function(four)
        for name in bound:
            key = data.draw(st.sampled_from([None, f"k.{name}", rf"k\.{name}"]))
            spec.bind(name, key, default=VALUES[name])
        visible = [name for name in PARAMETERS if name not in bound]
        assert list(spec.params) == visible
        assert set(spec.definition.input_schema.get("required", [])) <= set(visible)
        for text in (spec.docstring, spec.code, spec.signature(), spec.to_prompt()):
            assert not any(name in text for name in bound)
        arguments = {name: VALUES[name] for name in visible}
        assert spec(**arguments) == repr(tuple(VALUES[name] for name in PARAMETERS))
        for name in bound:
            attempt = {**arguments, name: "eve"}
            with pytest.raises(InvalidParametersError, match=f"unknown argument '{name}'"):
                spec(**attempt)
            assert spec.exec(**attempt).error.code == "invalid_parameters"
        with pytest.raises(InvalidParametersError):
            spec(*(VALUES[name] for name in PARAMETERS), "eve")

    @pytest.mark.exhaustive
    @given(st.lists(st.tuples(st.sampled_from(PARAMETERS), st.booleans()), max_size=12))
    def test_the_last_binding_decides_what_is_hidden(self, steps):
        spec, bound = ToolSpec.from_function(four), set()
        for name, binds in steps:
            if binds:
                spec.bind(name)
                bound.add(name)
            else:
                spec.unbind(name)
                bound.discard(name)
            assert set(spec.binds) == bound
            assert [name for name in PARAMETERS if name not in bound] == list(spec.params)


class TestSecretMarks:
    @pytest.mark.parametrize(
        "annotation", [Annotated[str, Secret], Annotated[str, Secret()], SecretStr, SecretStr | None]
    )
    def test_an_annotated_secret_says_that_it_is_left_out_of_pickles(self, annotation):
        import pickle

        def body(token) -> str:
            return "ok"

        body.__annotations__["token"] = annotation
        spec = spec_of(body).bind("token", default=CANARY)
        assert spec() == "ok"
        assert CANARY.encode() not in pickle.dumps(spec)
