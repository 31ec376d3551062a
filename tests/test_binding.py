"""Resolvers and constants: the sources of a parameter's value, and how resolvers are called."""

from __future__ import annotations

import functools

import pytest

from ahvn_tools import ToolSpec
from ahvn_tools.binding import Binding
from ahvn_tools.errors import BindError, UnboundStateError
from ahvn_tools.state import MISSING, UNSET, StateKey


def show(question: str, token: str) -> str:
    return f"{question}:{token}"


class Vault:
    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> str:
        self.asked += 1
        return f"t{self.asked}"

    def of(self, state) -> str:
        return state["user"]

    async def later(self) -> str:
        return "later"


class AsyncVault:
    async def __call__(self, state) -> str:
        return f"async {state['user']}"


async def fetched() -> str:
    return "fetched"


async def fetched_for(state) -> str:
    return f"fetched for {state['user']}"


class TestResolvers:
    @pytest.mark.parametrize(
        ("resolver", "value"),
        [
            (lambda: "plain", "plain"),
            (lambda state: state["user"], "ann"),
            (lambda state=None: f"given {state}", "given None"),
            (lambda *anything: f"{len(anything)} arguments", "0 arguments"),
            (functools.partial(lambda name, state: f"{name} {state['user']}", "for"), "for ann"),
            (Vault().of, "ann"),
            (Vault(), "t1"),
            (str, ""),
            (fetched, "fetched"),
            (fetched_for, "fetched for ann"),
            (functools.partial(fetched_for), "fetched for ann"),
            (Vault().later, "later"),
            (AsyncVault(), "async ann"),
        ],
    )
    @pytest.mark.parametrize("is_async", [False, True], ids=["call", "acall"])
    async def test_a_resolver_of_any_kind_returns_the_value(self, resolver, value, is_async):
        if isinstance(resolver, Vault):
            resolver = Vault()
        spec = ToolSpec.from_function(show).bind("token", resolver=resolver)
        spec.state["user"] = "ann"
        given = await spec.acall(question="q") if is_async else spec.call(question="q")
        assert given == f"q:{value}"

    def test_a_resolver_is_called_at_each_call(self):
        spec = ToolSpec.from_function(show).bind("token", resolver=Vault())
        assert [spec(question="q"), spec(question="q")] == ["q:t1", "q:t2"]

    def test_a_resolver_is_not_called_for_an_export(self):
        vault = Vault()
        spec = ToolSpec.from_function(show).bind("token", resolver=vault)
        assert list(spec.params) == ["question"]
        assert spec.to_prompt()
        assert vault.asked == 0

    def test_a_resolver_takes_precedence_over_the_state(self):
        spec = ToolSpec.from_function(show).bind("token", resolver=lambda: "resolved")
        spec.state["token"] = "stored"
        assert spec(question="q") == "q:resolved"

    def test_a_resolver_receives_the_state_of_the_spec(self):
        seen = []
        spec = ToolSpec.from_function(show).bind("token", resolver=lambda state: seen.append(state) or "x")
        spec(question="q")
        assert seen[0] is spec.state

    @pytest.mark.parametrize(
        "resolver",
        [lambda state, more: "", lambda *, state: "", lambda state, *, more: ""],
        ids=["two", "keyword only", "one and a keyword"],
    )
    def test_bind_refuses_a_resolver_with_more_than_one_argument(self, resolver):
        with pytest.raises(BindError, match="'token' must take no argument, or one argument: the state"):
            ToolSpec.from_function(show).bind("token", resolver=resolver)

    def test_a_resolver_must_be_callable(self):
        with pytest.raises(BindError, match="not callable") as caught:
            ToolSpec.from_function(show).bind("token", resolver="canary-token")
        assert "canary" not in str(caught.value)

    @pytest.mark.parametrize("is_async", [False, True], ids=["call", "acall"])
    async def test_a_sync_resolver_that_returns_a_coroutine_is_an_error(self, is_async):
        spec = ToolSpec.from_function(show).bind("token", resolver=lambda: fetched_for({"user": "ann"}))
        with pytest.raises(UnboundStateError, match="define it with `async def`") as caught:
            await spec.acall(question="q") if is_async else spec.call(question="q")
        assert isinstance(caught.value.__cause__, BindError)

    def test_a_resolver_and_a_default_together_are_refused(self):
        with pytest.raises(BindError, match="cannot have a resolver and a default"):
            ToolSpec.from_function(show).bind("token", default="x", resolver=lambda: "y")


class TestBinding:
    def test_a_constant_is_not_read_from_the_state(self):
        binding = Binding.constant("token", "fixed")
        assert binding.is_constant
        assert binding.read(({"token": "stored"},)) == "fixed"

    def test_a_key_is_looked_up_in_each_state_separately(self):
        binding = Binding(parameter="id", key=StateKey.parse("user.id"), default=0)
        assert binding.read(({"user": {"name": "x"}}, {"user": {"id": 5}})) == 5
        assert binding.read(({}, {})) == 0
        assert Binding(parameter="id", key=StateKey.parse("user.id")).read(({},)) is MISSING

    def test_a_resolver_sees_the_first_state_first(self):
        binding = Binding.create("id", None, UNSET, lambda state: (state["a"], state["b"]), is_secret=False)
        assert binding.read(({"a": 1}, {"a": 2, "b": 3})) == (1, 3)

    def test_a_default_is_copied_at_each_read(self):
        binding = Binding(parameter="log", key=StateKey.from_name("log"), default=[])
        binding.read(({},)).append("x")
        assert binding.read(({},)) == []

    def test_a_removed_value_is_missing_until_the_state_has_one(self):
        binding = Binding(
            parameter="token", key=StateKey.from_name("token"), default="canary", is_secret=True
        ).without_value()
        assert binding.default is UNSET
        assert binding.is_value_removed
        assert binding.read(({},)) is MISSING
        assert binding.read(({"token": "again"},)) == "again"

    def test_a_repr_shows_no_value(self):
        bindings = [
            Binding.constant("token", "canary"),
            Binding(parameter="token", key=StateKey.from_name("token"), default="canary"),
            Binding.create("token", None, UNSET, functools.partial(str, "canary"), is_secret=False),
        ]
        assert "canary" not in repr(bindings)
