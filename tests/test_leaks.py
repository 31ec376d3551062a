"""No bound value reaches anything that we show: schemas, texts, exports, errors, logs, results.

One canary is bound in every way there is, and looked for in every sink. A tool's own return value is its own affair, so
the tools here return none of it.
"""

from __future__ import annotations

import functools
import io
import json
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, SecretStr

from ahvn_tools import Secret, ToolCallError, ToolError, Toolkit, ToolRegistry, ToolSpec, reg_toolspec
from ahvn_tools.formats import BUILT_IN

CANARY = "canary-7f3a9c"


class Credentials(BaseModel):
    """A model with a secret in it."""

    user: str
    token: str


@dataclass
class Handle:
    """An object without a JSON form whose repr reveals everything."""

    token: str


def work(query: str, token: Any, limit: int = 3) -> str:
    """Do some work.

    Args:
        query: What to do.
        token: Nobody needs to know.
        limit: How often.
    """
    if query == "raise":
        raise ValueError(f"cannot work with {token}")
    if query == "speak":
        raise ToolError(f"please do not use {token}")
    if query == "fail":
        return object()  # type: ignore[return-value]
    return "done"


def strictly(query: str, token: str, limit: int = 3) -> str:
    """Do some work with a text."""
    return work(query, token, limit)


async def later(query: str, token: str, limit: int = 3) -> str:
    """Do some work in a loop."""
    return work(query, token, limit)


def items(query: str, token: str, limit: int = 3) -> Iterator[str]:
    """Do some work in steps."""
    yield "first"
    yield work(query, token, limit)


class Office(ToolRegistry):
    """A registry whose instance holds the canary."""

    def __init__(self) -> None:
        self.token = CANARY

    @reg_toolspec
    def work(self, query: str, limit: int = 3) -> str:
        """Do some work."""
        return work(query, self, limit)


def with_state(function: Callable[..., Any], value: Any, key: str = "session.token") -> ToolSpec:
    spec = ToolSpec.from_function(function).bind("token", key)
    spec.state = {"session": {"token": value}}
    return spec


async def resolved() -> str:
    return CANARY


MAKERS: dict[str, Callable[[], ToolSpec]] = {
    "text": lambda: with_state(strictly, CANARY),
    "default": lambda: ToolSpec.from_function(strictly).bind("token", default=CANARY),
    "SecretStr": lambda: with_state(work, SecretStr(CANARY)),
    "nested": lambda: with_state(work, {"api": {"keys": [CANARY]}}),
    "nested SecretStr": lambda: with_state(work, {"api": SecretStr(CANARY)}),
    "bytes": lambda: with_state(work, CANARY.encode()),
    "model": lambda: with_state(work, Credentials(user="ann", token=CANARY)),
    "object": lambda: with_state(work, Handle(CANARY)),
    "constant": lambda: ToolSpec.from_function(functools.partial(strictly, token=CANARY)),
    "resolver": lambda: ToolSpec.from_function(strictly).bind("token", resolver=lambda: CANARY),
    "async resolver": lambda: ToolSpec.from_function(strictly).bind("token", resolver=resolved),
    "async": lambda: with_state(later, CANARY),
    "generator": lambda: with_state(items, CANARY),
    "instance": lambda: Office().toolspec("work"),
    "code": lambda: ToolSpec.from_code(
        "def strictly(query: str, token: str, limit: int = 3) -> str:\n"
        "    if query != 'ok':\n"
        "        raise ValueError(f'cannot work with {token}')\n"
        "    return 'done'\n"
    ).bind("token", default=CANARY),
    "annotated": lambda: ToolSpec.from_function(secretly).bind("token", default=CANARY),
    "example": lambda: ToolSpec.from_function(strictly, examples=[{"query": "q", "token": CANARY}]).bind("token"),
}


def secretly(query: str, token: Annotated[str, Secret], limit: int = 3) -> str:
    """Do some work in secret."""
    return work(query, token, limit)


ATTEMPTS = [
    {"query": "ok"},
    {"query": "raise"},
    *(
        pytest.param(arguments, marks=pytest.mark.exhaustive)
        for arguments in (
            {"query": "speak"},
            {"query": "fail"},
            {"query": "ok", "limit": "many"},
            {"query": "ok", "tokens": "mine"},
            {},
            {"query": ["ok"]},
        )
    ),
    {"query": "ok", "token": "mine"},
]
"""Arguments of calls: a success, failures of the body, and arguments that are refused."""


@pytest.fixture(params=MAKERS)
def spec(request) -> ToolSpec:
    return MAKERS[request.param]()


def shown_with_traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))


class TestShown:
    def test_no_export_of_a_spec_contains_it(self, spec):
        shown = [
            repr(spec),
            str(spec),
            f"{spec}",
            repr(spec.definition),
            json.dumps(spec.input_schema),
            json.dumps(spec.params),
            json.dumps(spec.output_schema),
            str(vars(spec.definition)),
            spec.definition.fingerprint,
            spec.description,
            spec.docstring,
            spec.code,
            spec.signature(),
            spec.signature(query="x"),
            spec.to_prompt(),
            repr(dict(spec.binds)),
            json.dumps(spec.to_jsonschema()),
            json.dumps(spec.to_jsonschema(strict=False)),
            repr(spec.to_function()),
            str(spec.to_function().__doc__),
            str(spec.to_mcp().model_dump()),
            repr(spec.to_mcp()),
            str(spec.to_fastmcp().model_dump()),
            repr(spec.to_fastmcp()),
            repr(spec.tool),
            repr(spec.binded),
            str(spec.binded.to_mcp_tool().model_dump()),
        ]
        assert CANARY not in "\n".join(shown)
        assert "token" not in spec.input_schema["properties"]

    def test_no_repr_inside_a_spec_contains_it(self, spec):
        """The reprs of our own objects, as in a debugger or a log; the state is the user's."""
        own = [spec.compiled, spec.compiled.plan, spec.compiled.plan.bound_parameters, dict(spec.compiled.bindings)]
        assert CANARY not in repr(own)


class TestErrors:
    @pytest.mark.parametrize("arguments", ATTEMPTS, ids=str)
    async def test_no_result_contains_it(self, spec, arguments, caplog, capfd):
        caplog.set_level(logging.DEBUG)
        results = [spec.exec(**arguments), await spec.aexec(**arguments)]
        results += list(spec.stream(**arguments))
        results += [result async for result in spec.astream(**arguments)]
        for result in results:
            shown = [repr(result), str(result), result.text, repr(result.content), str(result.to_mcp().model_dump())]
            assert CANARY not in "\n".join(shown)
        assert CANARY not in caplog.text
        assert CANARY not in "".join(capfd.readouterr())

    @pytest.mark.parametrize("arguments", ATTEMPTS, ids=str)
    async def test_no_error_of_ours_contains_it(self, spec, arguments, caplog):
        caplog.set_level(logging.DEBUG)
        raised: list[BaseException] = []
        for call in (spec.call, spec, spec.to_function()):
            try:
                call(**arguments)
            except Exception as error:
                raised.append(error)
        try:
            await spec.acall(**arguments)
        except Exception as error:
            raised.append(error)
        ours = [error for error in raised if isinstance(error, ToolCallError) and type(error) is not ToolError]
        assert CANARY not in "\n".join(map(shown_with_traceback, ours))
        assert CANARY not in caplog.text

    def test_a_logged_error_of_ours_does_not_contain_it(self, spec, caplog):
        try:
            spec(query="ok", limit="many")
        except ToolCallError:
            logging.getLogger("test").exception("failed")
        assert "failed" in caplog.text
        assert CANARY not in caplog.text


UNFIT: dict[str, tuple[Any, Any]] = {
    "text for a number": (int, CANARY),
    "dict for a text": (str, {"token": CANARY}),
    "key of a dict": (dict[str, int], {CANARY: "x"}),
    "bytes for a number": (int, CANARY.encode()),
    "SecretStr for a text": (str, SecretStr(CANARY)),
    "dict for a model": (Credentials, {"user": CANARY}),
    "object for a text": (str, Handle(CANARY)),
    "list of texts": (list[int], [CANARY]),
}


class TestUnfit:
    @pytest.mark.parametrize("case", UNFIT)
    @pytest.mark.parametrize("source", ["state", "resolver", "async resolver"])
    async def test_the_error_about_an_invalid_value_does_not_contain_it(self, case, source, caplog):
        caplog.set_level(logging.DEBUG)
        annotation, value = UNFIT[case]

        def body(query: str, token) -> str:
            return "done"

        async def resolve() -> Any:
            return value

        body.__annotations__["token"] = annotation
        if source == "state":
            spec = with_state(body, value)
        else:
            spec = ToolSpec.from_function(body).bind("token", resolver=resolve if "async" in source else lambda: value)
        errors: list[BaseException] = []
        for attempt in (spec.call, spec.acall):
            with pytest.raises(ToolCallError, match="does not fit") as caught:
                returned = attempt(query="q")
                await returned
            errors.append(caught.value)
        assert CANARY not in "".join(map(shown_with_traceback, errors))
        assert CANARY not in repr([spec.exec(query="q"), await spec.aexec(query="q"), *spec.stream(query="q")])
        assert CANARY not in caplog.text


class Loud(Office):
    """A registry whose instance shows what it holds."""

    def __repr__(self) -> str:
        return f"Loud({self.token})"


class TestInstances:
    @pytest.mark.parametrize("query", ["raise", "speak"])
    def test_an_instance_whose_text_a_method_raises_is_masked(self, query):
        assert CANARY not in repr(Loud().toolspec("work").exec(query=query))

    def test_an_instance_with_a_revealing_repr_is_in_no_text(self):
        spec = Loud().toolspec("work")
        assert CANARY not in repr([spec, spec.definition, spec.to_mcp(), spec.binded, spec.exec(query="ok")])


class TestServed:
    @pytest.mark.parametrize("arguments", ATTEMPTS, ids=str)
    @pytest.mark.default_cases(12)
    async def test_no_client_receives_it(self, spec, arguments, caplog, capfd):
        from fastmcp import Client, FastMCP

        caplog.set_level(logging.DEBUG)
        server = FastMCP("leaks")
        server.add_tool(spec.to_fastmcp())
        async with Client(server) as client:
            listed = await client.list_tools()
            result = await client.call_tool(spec.name, arguments, raise_on_error=False)
        assert CANARY not in str([entry.model_dump() for entry in listed])
        assert CANARY not in repr(result)
        assert CANARY not in str(result.content)
        assert result.is_error is (await spec.aexec(**arguments)).is_error
        assert CANARY not in caplog.text
        assert CANARY not in "".join(capfd.readouterr())

    async def test_a_bound_tool_of_another_server_does_not_send_it_back(self):
        from fastmcp import Client, FastMCP

        server = FastMCP("remote")

        @server.tool
        def remote(query: str, token: str) -> str:
            raise ToolError(f"refused {token}") if query == "raise" else ValueError(token)

        async with Client(server) as client:
            spec = (await ToolSpec.afrom_client(client, "remote")).bind("token", default=CANARY)
            results = [await spec.aexec(query=query) for query in ("raise", "ok")]
            results.append(await spec.aexec(query=1))
        assert all(result.is_error for result in results)
        assert CANARY not in repr(results)


class TestPickled:
    @pytest.mark.parametrize(
        "spec",
        [
            ToolSpec.from_function(strictly).bind("token", default=CANARY, secret=True),
            ToolSpec.from_function(secretly).bind("token", default=CANARY),
            ToolSpec.from_function(functools.partial(secretly, token=CANARY)),
            ToolSpec.from_function(secretly).bind("token", resolver=functools.partial(str, CANARY)),
        ],
        ids=["secret=True", "Secret", "constant", "resolver"],
    )
    def test_no_pickle_contains_a_secret(self, spec):
        buffer = io.BytesIO()
        pickle.Pickler(buffer).dump({"tools": [spec, spec.clone()]})
        assert CANARY.encode() not in buffer.getvalue()


class Login(BaseModel):
    """A model with secrets in it."""

    user: str = "guest"
    phrase: Annotated[str, Secret] = CANARY
    password: SecretStr = SecretStr(CANARY)
    pin: SecretStr = CANARY  # type: ignore[assignment]  # pydantic does not check defaults


def marked(query: str, key: Annotated[str, Secret] = CANARY) -> str:
    """Look something up."""
    return query


def typed(query: str, key: SecretStr = SecretStr(CANARY)) -> str:
    return query


def in_field(query: str, key: Annotated[str, Secret, Field(description="The key.")] = Field(CANARY, alias="k")) -> str:
    return query


def in_annotation(query: str, key: Annotated[str, Secret, Field(default=CANARY)]) -> str:
    return query


def in_containers(
    query: str, keys: list[SecretStr] = [CANARY], named: dict[str, Annotated[str, Secret]] = {"a": CANARY}
) -> str:
    return query


def in_model(login: Login, other: Login = Login(), plain: Any = None) -> str:
    return login.user


EXPLICIT = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "key": {"type": "string", "format": "password", "default": CANARY},
        "more": {"type": "object", "properties": {"pin": {"writeOnly": True, "default": CANARY}}},
        "all": {"$ref": "#/$defs/All", "default": {"pins": [{"pin": CANARY}]}},
    },
    "$defs": {"All": {"properties": {"pins": {"items": {"properties": {"pin": {"writeOnly": True}}}}}}},
}


def explicit(query: str, key: str = "", more: Any = None, all: Any = None) -> str:
    return query


SECRET_DEFAULTS: dict[str, Callable[[], ToolSpec]] = {
    **{
        function.__name__: functools.partial(ToolSpec.from_function, function)
        for function in (marked, typed, in_field, in_annotation, in_containers, in_model)
    },
    "explicit": lambda: ToolSpec.from_function(explicit, input_schema=EXPLICIT),
}


class TestSecretDefaults:
    """The default of a parameter that is marked as secret is not shown, whether the parameter is bound or not."""

    @pytest.fixture(params=SECRET_DEFAULTS)
    def spec(self, request) -> ToolSpec:
        return SECRET_DEFAULTS[request.param]()

    def test_no_export_shows_it(self, spec):
        shown = [
            json.dumps([spec.input_schema, spec.params, spec.to_jsonschema(), spec.to_jsonschema(strict=False)]),
            spec.docstring,
            spec.code,
            spec.signature(query="q"),
            spec.to_prompt(),
            repr([spec.definition, spec.to_mcp(), spec.to_fastmcp().parameters, spec.compiled.template]),
            repr(list(spec.compiled.template.inputs.parameters.values())),
            *[json.dumps(spec.to(name)) for name in BUILT_IN],
        ]
        assert CANARY not in "\n".join(shown)
        assert "*****" not in "\n".join(shown)

    def test_the_parameter_stays_optional(self, spec):
        assert set(spec.input_schema.get("required", ())) <= {"query", "login"}
        arguments = {"query": "q"} if "query" in spec.params else {"login": {}}
        assert spec(**arguments) in {"q", "guest"}

    def test_the_body_gets_it(self):
        def look(query: str, key: Annotated[str, Secret] = CANARY) -> bool:
            return key == CANARY

        assert ToolSpec.from_function(look)(query="q") is True

    def test_an_empty_default_and_other_defaults_are_shown(self):
        def look(
            query: str = "q", key: Annotated[str | None, Secret] = None, phrase: Annotated[str, Secret] = ""
        ) -> str:
            return query

        params = ToolSpec.from_function(look).params
        assert {name: node["default"] for name, node in params.items()} == {"query": "q", "key": None, "phrase": ""}


class TestExamples:
    def test_examples_of_a_spec_have_no_value_of_a_bound_parameter(self):
        full = {"inputs": {"query": "q", "token": CANARY}, "note": "N."}
        spec = ToolSpec.from_function(strictly, examples=[{"query": "q", "token": CANARY}, full]).bind("token")
        assert spec.examples == [{"query": "q"}, {"inputs": {"query": "q"}, "note": "N."}]
        assert CANARY not in repr([spec.examples, spec.clone().examples, spec.compiled.template, vars(spec)])
        assert spec.unbind("token").examples[0] == {"query": "q", "token": CANARY}

    def test_a_tool_of_a_toolkit_has_no_value_of_what_the_toolkit_binds(self):
        spec = ToolSpec.from_function(strictly, examples=[{"query": "q", "token": CANARY}])
        kit = Toolkit("k").add(spec).bind("token", default=CANARY)
        assert kit["strictly"].examples == kit["strictly"].clone().examples == [{"query": "q"}]

    def test_a_parameter_named_inputs_is_a_parameter(self):
        def look(inputs: dict[str, int], note: str = "") -> str:
            return note

        spec = ToolSpec.from_function(look, examples=[{"inputs": {"inputs": {"a": 1}, "note": CANARY}}]).bind("note")
        assert spec.examples == [{"inputs": {"inputs": {"a": 1}}}]
        assert spec.definition.examples == spec.examples
