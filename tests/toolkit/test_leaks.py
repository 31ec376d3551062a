"""No bound, preset or session value appears in any output of a toolkit."""

from __future__ import annotations

import json
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest

from ahvn_tools import Secret, ToolCall, ToolCallError, ToolError, Toolkit, ToolSpec
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats import BUILT_IN
from ahvn_tools.middleware import watch
from ahvn_tools.middleware.watched_calls import WatchedCalls
from tests.execution.entry_points import until

CANARY = "canary-7f3a9c"


def work(query: str, token: str = "none", limit: int = 3) -> str:
    """Do some work.

    Args:
        query: What to do.
        token: A secret.
        limit: How often.
    """
    if query == "raise":
        raise ValueError(f"cannot work with {token}")
    if query == "speak":
        raise ToolError(f"please do not use {token}")
    return "done"


async def later(query: str, token: str = "none", limit: int = 3) -> str:
    """Do some work in a loop."""
    return work(query, token, limit)


def items(query: str, token: str = "none", limit: int = 3) -> Iterator[str]:
    """Do some work in steps."""
    yield "first"
    yield work(query, token, limit)


def secretly(query: str, token: Annotated[str, Secret], limit: int = 3) -> str:
    """Do some work in secret."""
    return work(query, token, limit)


BODIES = (work, later, items, secretly)


def kit_of(**options: Any) -> Toolkit:
    kit = Toolkit("k")
    for body in BODIES:
        kit.add(body, **options)
    return kit


def bound_on_tools(kit: Toolkit, **how: Any) -> Toolkit:
    for tool in kit:
        tool.bind("token", **how)
    return kit


def added_to(inner: Toolkit) -> Toolkit:
    return Toolkit("outer").add(inner, prefix="in_")


async def resolve() -> str:
    return CANARY


MAKERS: dict[str, Callable[[], Toolkit]] = {
    "state": lambda: Toolkit("k", state={"token": CANARY}).add(kit_of()).bind("token"),
    "default": lambda: kit_of().bind("token", "a.b", CANARY),
    "secret": lambda: kit_of().bind("token", default=CANARY, secret=True),
    "preset": lambda: kit_of(preset={"token": CANARY}),
    "preset over bound": lambda: kit_of(preset={"token": CANARY}).bind("token", default=CANARY),
    "session": lambda: kit_of().bind("token").session(token=CANARY),
    "session of a session": lambda: kit_of().bind("token").session(token=CANARY).session(),
    "session state": lambda: kit_of().bind("token", "a.b[0]").session({"a": {"b": [CANARY]}}),
    "selection": lambda: kit_of().bind("token").session(token=CANARY).select(names=["work", "later"]),
    "resolver": lambda: kit_of().bind("token", resolver=lambda: CANARY),
    "async resolver": lambda: kit_of().bind("token", resolver=resolve),
    "on the tools": lambda: bound_on_tools(kit_of(), default=CANARY),
    "on the specs": lambda: Toolkit("k").add(ToolSpec.from_function(work).bind("token", default=CANARY)),
    "inner state": lambda: added_to(kit_of().bind("token", default=CANARY)),
    "inner preset": lambda: added_to(kit_of(preset={"token": CANARY})),
    "inner session": lambda: added_to(kit_of().bind("token").session(token=CANARY)),
}

ATTEMPTS: list[dict[str, Any]] = [
    {"query": "ok"},
    {"query": "raise"},
    {"query": "speak"},
    {"query": "ok", "limit": "many"},
    {"query": "ok", "token": "mine"},
    {"query": ["ok"]},
    {},
]


MAIN_MAKERS = {"state", "secret", "preset", "session", "async resolver", "inner preset"}


@pytest.fixture(
    params=[name if name in MAIN_MAKERS else pytest.param(name, marks=pytest.mark.exhaustive) for name in MAKERS]
)
def kit(request) -> Toolkit:
    return MAKERS[request.param]()


def texts_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))


def test_no_text_for_a_model_contains_it(kit):
    texts = [json.dumps(kit.to(name)) for name in BUILT_IN]
    texts += [repr(kit.to(name, strict=True)) for name in ("openai", "anthropic", "openai-responses")]
    texts += [kit.to_prompt(), kit.notes, repr(kit.definitions())]
    assert "work" in kit.to_prompt()
    assert CANARY not in "\n".join(texts)
    assert all("token" not in definition.input_schema["properties"] for definition in kit.definitions())


def test_no_repr_and_no_text_of_a_tool_contains_it(kit):
    for tool in kit:
        texts = [
            repr(tool),
            tool.code,
            tool.docstring,
            tool.signature(query="q"),
            repr(dict(tool.binds)),
            repr(tool.tool),
        ]
        texts += [
            repr(tool.clone()),
            repr(tool.compiled),
            repr(tool.compiled.plan.bound_parameters),
            repr(dict(tool.compiled.bindings)),
        ]
        assert CANARY not in "\n".join(texts)
    assert CANARY not in repr(kit) + str(kit) + repr(list(kit)) + repr(kit._view) + repr(kit._view.store.entries)
    assert CANARY not in repr(kit._view.session_state) + repr(kit._view.store.bindings)


@pytest.mark.parametrize("arguments", ATTEMPTS, ids=str)
@pytest.mark.default_cases(10)
async def test_no_result_contains_it(kit, arguments, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    for tool in kit:
        results = [kit.exec(tool.name, arguments), await kit.aexec(tool.name, arguments), tool.exec(**arguments)]
        results += [*kit.stream(tool.name, arguments), *[chunk async for chunk in kit.astream(tool.name, arguments)]]
        assert CANARY not in "\n".join(repr(result) + result.text + repr(result.content) for result in results)
    assert CANARY not in caplog.text + "".join(capfd.readouterr())


def test_no_file_of_watched_calls_contains_it(kit, tmp_path):
    calls = WatchedCalls(tmp_path / "calls.sqlite")
    calls.look()
    kit._view.store.use(watch(calls.path))
    for arguments in ATTEMPTS:
        for tool in kit:
            kit.exec(tool.name, {**arguments, "query": [arguments.get("query"), CANARY]})
    written = len(ATTEMPTS) * len(kit)
    assert until(lambda: sum(call["outcome"] is not None for call in calls.read()) == written)
    assert not any(CANARY.encode() in file.read_bytes() for file in tmp_path.iterdir())


@pytest.mark.parametrize(
    "name",
    [name if name in {"openai", "prompt"} else pytest.param(name, marks=pytest.mark.exhaustive) for name in BUILT_IN],
)
async def test_no_message_for_a_provider_contains_it(kit, name):
    calls = [
        ToolCall(id=f"c{number}{tool.name}", name=tool.name, arguments=arguments)
        for number, arguments in enumerate(ATTEMPTS)
        for tool in kit
    ]
    run = await kit.arun(calls, format=name)
    assert len(run) >= 1
    assert CANARY not in repr(run) + repr(list(run))


@pytest.mark.parametrize("arguments", ATTEMPTS, ids=str)
@pytest.mark.default_cases(10)
async def test_no_error_of_ours_contains_it(kit, arguments):
    raised: list[BaseException] = []
    for tool in kit:
        for attempt in (kit.call, kit.acall):
            try:
                outcomes = attempt(tool.name, arguments)
                if attempt == kit.acall:
                    await outcomes
            except ToolCallError as error:
                raised.append(error)
            except ValueError:
                pass  # the tool's own: it says what it likes
    ours = [error for error in raised if type(error) is not ToolError]
    assert CANARY not in "\n".join(map(texts_of, ours))


WRONG: dict[str, Callable[[Toolkit], Any]] = {
    "a second tool": lambda kit: kit.add(work),
    "an unknown tool": lambda kit: kit["wrok"],
    "an unknown call": lambda kit: kit.call("wrok"),
    "a removal": lambda kit: kit.remove("wrok"),
    "an unknown parameter": lambda kit: kit["work"].bind("tokne"),
    "a preset parameter": lambda kit: Toolkit("o").add(kit_of(preset={"token": CANARY}), preset={"token": CANARY}),
    "a preset that does not fit": lambda kit: Toolkit("o").add(work, preset={"limit": CANARY}),
    "an unknown option": lambda kit: Toolkit("o").add(work, presets={"token": CANARY}),
    "an option of a selection": lambda kit: kit.select(token=CANARY),
    "a pickle": pickle.dumps,
    "a pickle of a tool": lambda kit: pickle.dumps(kit["work"]),
    "a state that is none": lambda kit: setattr(kit["work"], "state", {"token": CANARY}),
    "a default that cannot be stored": lambda kit: Toolkit("o", state={"a": CANARY}).bind("x", "a.b", CANARY),
    "two sources": lambda kit: kit_of().bind("token", default=CANARY, resolver=lambda: CANARY),
    "an inner change": lambda kit: kit.session(token=CANARY).bind("token", default=CANARY),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_no_error_for_a_developer_contains_it(wrong):
    kit = kit_of().bind("token", default=CANARY)
    with pytest.raises((ToolSpecError, ToolCallError)) as raised:
        WRONG[wrong](kit)
    assert CANARY not in texts_of(raised.value)


@pytest.mark.parametrize(
    "make", [lambda: kit_of().bind("limit", "n"), lambda: Toolkit("k", state={"n": 1}).add(kit_of()).bind("limit", "n")]
)
def test_the_error_for_an_invalid_session_value_does_not_contain_it(make):
    result = make().session(n=CANARY).exec("work", {"query": "q"})
    assert result.error.code == "unbound_state"
    assert CANARY not in repr(result)


SECRET: dict[str, Callable[[], Toolkit]] = {
    "bound secret": lambda: kit_of().bind("token", default=CANARY, secret=True),
    "bound secret on the tools": lambda: bound_on_tools(kit_of(), default=CANARY, secret=True),
    "a secret resolver": lambda: kit_of().bind("token", resolver=lambda: CANARY, secret=True),
    "annotated, bound": lambda: Toolkit("k").add(secretly).bind("token", default=CANARY),
    "annotated, preset": lambda: Toolkit("k").add(secretly, preset={"token": CANARY}),
    "annotated, preset in an inner toolkit": lambda: added_to(Toolkit("k").add(secretly, preset={"token": CANARY})),
    "secret on the spec": lambda: Toolkit("k").add(
        ToolSpec.from_function(work).bind("token", "a.token", CANARY, secret=True)
    ),
    "secret on the spec, bound otherwise here": lambda: (
        Toolkit("k")
        .add(ToolSpec.from_function(work).bind("token", "a.token", CANARY, secret=True))
        .bind("token", default="open")
    ),
    "secret in an inner toolkit": lambda: added_to(
        Toolkit("k").add(ToolSpec.from_function(work).bind("token", default=CANARY, secret=True))
    ),
    "a session": lambda: kit_of().bind("token").session(token=CANARY),
}


@pytest.mark.parametrize("make", SECRET.values(), ids=SECRET)
def test_no_secret_and_no_session_value_is_in_a_pickle_of_a_clone(make):
    for tool in make():
        assert CANARY.encode() not in pickle.dumps(tool.clone())
