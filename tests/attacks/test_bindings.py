"""Attacks on bindings: a model that wants to set a bound value, a user who wants another's, and texts that show one."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import inspect
import json
import pickle
import threading
from collections import ChainMap, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Annotated, Any

import cloudpickle
import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, Field

from ahvn_tools import (
    ErrorDetail,
    ToolCall,
    ToolContext,
    ToolError,
    Toolkit,
    ToolRegistry,
    ToolResult,
    ToolSpec,
    reg_toolspec,
)
from ahvn_tools.errors import (
    ApprovalRequiredError,
    BindError,
    CallCancelledError,
    InvalidParametersError,
    InvalidResultError,
    LimitExceededError,
    ToolChangedError,
    ToolkitError,
    ToolNotFoundError,
    ToolSpecError,
)
from ahvn_tools.middleware.cache import cache
from tests.attacks.attack import CANARY, Attack, Outcome, all_of, ends_with, equals, fails_silently, rows, shows_nothing
from tests.execution.entry_points import until

WAIT = 10.0
"""Seconds that an attack waits at most for something that should happen at once."""

is_refused = ends_with("invalid_parameters")


def keeps_user(outcome: Outcome) -> bool:
    """Every call ran for ann."""
    return all(str(result.value).startswith("ann") for result in outcome.value)


def whoami(action: str, user: str) -> str:
    """Say who acts.

    Args:
        action: What is done.
        user: The heliotrope who does it.
    """
    return f"{user}: {action}"


def kit_of(*tools: Any, **options: Any) -> Toolkit:
    kit = Toolkit("attacked")
    for tool in tools or (whoami,):
        kit.add(tool, **options)
    return kit


def ann_of(*tools: Any, **options: Any) -> Any:
    """Return the session of ann, in a toolkit whose `user` is bound."""
    return kit_of(*tools, **options).bind("user").session(user="ann", session_id="ann")


# A model that sends arguments

OTHER_SPELLINGS = (
    "USER", "User", "user ", " user", "user\n", "user\x00", "us\u00ader", "\u200buser", "user\ufe0f", "\ufeffuser",
    "\uff55\uff53\uff45\uff52", "u\u0455er", "user\ud800", "user.", ".user", "user[0]", "state.user", "session.user",
    "**user", "*", "", "__proto__", "constructor", "__class__", "self", "kwargs", "arguments", "params", "action.user",
)  # fmt: skip
"""Names that some language or library takes for `user`, or that lead to it elsewhere."""


def send(arguments: Any, *tools: Any, **options: Any) -> Callable[[], list[ToolResult]]:
    """Send the same arguments in every way in which a model's arguments arrive."""

    def act() -> list[ToolResult]:
        ann = ann_of(*tools, **options)
        name = next(iter(ann)).name
        answer = {"tool_calls": [{"id": "c1", "function": {"name": name, "arguments": json.dumps(arguments)}}]}
        streamed = list(ann.stream(name, arguments))
        return [ann.exec(name, arguments), *streamed, ann.run(answer, format="openai").results[0][1]]

    return act


def send_other_spellings(*tools: Any, **options: Any) -> Callable[[], list[ToolResult]]:
    ann = ann_of(*tools, **options)
    name = next(iter(ann)).name
    return lambda: [ann.exec(name, {"action": "a", spelling: "eve"}) for spelling in OTHER_SPELLINGS]


def send_text(text: str) -> Callable[[], Any]:
    """Answer with exactly this text as the arguments of `whoami`."""
    answer = {"tool_calls": [{"id": "c1", "function": {"name": "whoami", "arguments": text}}]}
    return lambda: ann_of().run(answer, format="openai")


def collect(action: str, user: str, **extra: Any) -> dict[str, Any]:
    return {"user": user, **extra}


def collect_open() -> ToolSpec:
    return ToolSpec.from_function(collect, include_var_keyword=True)


def gather(action: str, **extra: Any) -> dict[str, Any]:
    return extra


def after_user(user: str, /, action: str, **extra: Any) -> list[Any]:
    return [user, extra]


def with_context(action: str, user: str, context: ToolContext, **extra: Any) -> list[Any]:
    return [user, context.call_id is None or isinstance(context.call_id, str), extra]


class Desk(ToolRegistry):
    def __init__(self, owner: str) -> None:
        self.owner = owner

    @reg_toolspec(include_var_keyword=True)
    def act(self, action: str, **extra: Any) -> str:
        return self.owner


def same_alias(action: str, user: str, other: Annotated[str, Field(alias="user")] = "") -> str:
    return f"{user} {other}"


def same_choice(
    action: str, user: str, other: Annotated[str, Field(validation_alias=AliasChoices("other", "user"))] = ""
) -> str:
    return user


def bound_by_alias(action: str, user: Annotated[str, Field(alias="account")]) -> str:
    return user


def bound_by_choices(
    action: str, user: Annotated[str, Field(validation_alias=AliasChoices("account", AliasPath("login", "name")))]
) -> str:
    return user


class Order(BaseModel):
    user: str
    note: str = ""


def nested(action: str, user: str, order: Order) -> list[str]:
    return [user, order.user]


def open_schema_tool() -> ToolSpec:
    from fastmcp.tools import Tool
    from fastmcp.tools.base import ToolResult as FastMCPResult

    class Echo(Tool):
        async def run(self, arguments: dict[str, Any]) -> Any:
            return FastMCPResult(structured_content={"sent": arguments})

    schema = {"type": "object", "properties": {"action": {"type": "string"}, "user": {"type": "string"}}}
    return ToolSpec.from_mcp(Echo(name="echo", parameters=schema))


def schema_tool_with_other_spellings() -> list[Any]:
    """Return the values of `user` that reached a tool whose schema allows any other name."""
    ann = ann_of(open_schema_tool())
    results = [ann.exec("echo", {"action": "a", name: "eve"}) for name in OTHER_SPELLINGS]
    return sorted({result.structured_content["sent"]["user"] for result in results if not result.is_error})


class OpenVerdict(BaseModel, extra="allow"):
    is_good: bool


def extra_field_of_structured_output() -> ToolResult:
    ann = ann_of()
    ann.finish_with("whoami", OpenVerdict)
    return ann.exec("whoami", {"action": "a", "is_good": True, "user": "eve"})


class AliasedVerdict(BaseModel):
    is_good: bool = Field(validation_alias=AliasChoices("is_good", "user"))


def alias_of_structured_output() -> ToolResult:
    ann = ann_of()
    ann.finish_with("whoami", AliasedVerdict)
    return ann.exec("whoami", {"action": "a", "is_good": True, "user": "true"})


def partial_with_variadic_constant() -> Any:
    spec = ToolSpec.from_function(functools.partial(gather, token="constant"), name="gather", include_var_keyword=True)
    return spec.exec(action="a", extra={"token": "eve"})


def partial_with_variadic_constant_hidden() -> Any:
    spec = ToolSpec.from_function(functools.partial(gather, token="constant"), name="gather", include_var_keyword=True)
    return [list(spec.params), spec.exec(action="a", token="eve").is_error, spec(action="a")]


def positional_partial() -> ToolResult:
    spec = ToolSpec.from_function(functools.partial(collect, "a", "ann"), include_var_keyword=True)
    return spec.exec(extra={"user": "eve"})


def by_position() -> list[ToolResult]:
    spec = ToolSpec.from_function(whoami).bind("user", default="ann")
    return [spec.exec("a", "eve"), spec.exec("a", user="eve")]


def by_exported_function() -> list[Any]:
    function = ToolSpec.from_function(whoami).bind("user", default="ann").to_function()
    caught: list[Any] = []
    for attempt in (
        lambda: function("a", "eve"),
        lambda: function("a", user="eve"),
        lambda: function(user="eve", action="a"),
    ):
        try:
            caught.append(attempt())
        except (InvalidParametersError, TypeError):
            caught.append("refused")
    return caught


EXTREMES = [10**5000, -(10**5000), float("nan"), float("inf"), "\ud800", "\x00", "a" * 1_000_000, True, None, 1e400]


def extreme_values() -> list[Any]:
    """Return what was seen of the bound value next to each extreme argument."""
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]

    def take(anything: Any, user: str) -> str:
        return user

    ann = ann_of(take)
    results = [ann.exec("take", {"anything": value}) for value in [*EXTREMES, deep]]
    return sorted({"ann" if not result.is_error else str(result.error and result.error.code) for result in results})


def no_hint() -> list[str]:
    """Misspell the bound parameter, to be told its name."""
    results = [ann_of().exec("whoami", {"action": "a", name: "eve"}) for name in ("usr", "user_", "users", "uesr")]
    return [text for result in results if "'user'" in (text := result.text)]


# A user of one session who wants another's values

mark: ContextVar[str] = ContextVar("mark", default="nobody")


def users() -> tuple[Any, Any, Toolkit]:
    kit = kit_of(whoami, watch, steps, later_steps, remember).bind("user")
    return kit.session(user="ann", session_id="ann"), kit.session(user="bob", session_id="bob"), kit


def steps(user: str, context: ToolContext) -> Iterator[str]:
    for number in range(3):
        yield f"{user} {context.session_id} {context.state['user']} {number}"


async def later_steps(user: str, context: ToolContext) -> AsyncIterator[str]:
    for number in range(3):
        await asyncio.sleep(0)
        yield f"{user} {context.session_id} {context.state['user']} {number}"


def remember(user: str) -> str:
    before = mark.get()
    mark.set(user)
    return before


async def watch(user: str) -> str:
    await asyncio.sleep(WAIT)
    return user


def suspended_generators() -> bool:
    ann, bob, _ = users()
    streams = {"ann": ann.stream("steps"), "bob": bob.stream("steps")}
    seen = [(name, next(stream).value) for _ in range(3) for name, stream in streams.items()]
    for stream in streams.values():
        list(stream)
    return all(value.startswith(f"{name} {name} {name} ") for name, value in seen)


async def suspended_async_generators() -> bool:
    ann, bob, _ = users()
    streams = {"ann": ann.astream("later_steps"), "bob": bob.astream("later_steps")}
    seen = [(name, (await anext(stream)).value) for _ in range(3) for name, stream in streams.items()]
    for stream in streams.values():
        await stream.aclose()
    return all(value.startswith(f"{name} {name} {name} ") for name, value in seen)


async def context_variables() -> list[str]:
    ann, bob, _ = users()
    return [await ann.acall("remember"), await bob.acall("remember"), await bob.acall("remember"), mark.get()]


async def cancel_by_a_foreign_id() -> list[Any]:
    ann, bob, _kit = users()
    task = asyncio.create_task(ann.aexec("watch", call_id="c1"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    attempts = [bob.cancel("c1"), bob.select().cancel("c1"), bob.session().cancel("c1"), ann.session().cancel("c1")]
    is_running = not task.done()
    return [attempts, is_running, ann.select(names=[]).cancel("c1"), (await task).is_interrupted]


async def same_id_in_two_sessions() -> list[bool]:
    ann, bob, _ = users()
    tasks = [asyncio.create_task(view.aexec("watch", call_id="c1")) for view in (ann, bob)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    bob.cancel("c1")
    await tasks[1]
    others = tasks[0].done()
    ann.cancel("c1")
    return [others, (await tasks[0]).is_interrupted]


def cached_of_another() -> list[str]:
    def read(user: str) -> str:
        return user

    kit = Toolkit("cached", middleware=[cache()])
    kit.add(ToolSpec.from_function(read, annotations={"readOnlyHint": True})).bind("user")
    ann, bob = kit.session(user="ann"), kit.session(user="bob")
    return [ann.call("read"), bob.call("read"), ann.call("read"), ann.session(user="eve").call("read")]


def cached_of_a_changed_state() -> list[str]:
    def read(user: str) -> str:
        return user

    kit = Toolkit("cached", middleware=[cache()])
    kit.add(ToolSpec.from_function(read, annotations={"readOnlyHint": True})).bind("user", "session.user")
    session = kit.session({"session": {"user": "ann"}})
    first = session.call("read")
    session.state["session"]["user"] = "bob"
    return [first, session.call("read")]


def shared_default() -> list[Any]:
    """Write into the default of a binding in one session, and read it in another."""

    def keep(note: str, notes: list[str]) -> list[str]:
        notes.append(note)
        return list(notes)

    kit = Toolkit("notes").add(keep).bind("notes", default=[])
    kit.session().call("keep", {"note": "ann's"})
    return kit.session().call("keep", {"note": "bob's"})


def shared_parameter_default() -> list[Any]:
    def keep(note: str, notes: list[str] = []) -> list[str]:
        notes.append(note)
        return list(notes)

    kit = Toolkit("notes").add(keep).bind("notes")
    kit.session().call("keep", {"note": "ann's"})
    return kit.session().call("keep", {"note": "bob's"})


def shared_preset() -> list[Any]:
    def keep(note: str, notes: list[str]) -> list[str]:
        notes.append(note)
        return list(notes)

    kit = Toolkit("notes").add(keep, preset={"notes": []})
    kit.session().call("keep", {"note": "ann's"})
    return kit.session().call("keep", {"note": "bob's"})


def write_through_the_context() -> Any:
    def write(context: ToolContext) -> str:
        try:
            context.state["user"] = "eve"  # type: ignore[index]  # the attack
        except TypeError:
            return "refused"
        return "written"

    kit = kit_of(write, whoami).bind("user")
    ann = kit.session(user="ann")
    return [ann.call("write"), ann.call("whoami", {"action": "a"})]


def change_the_toolkit_from_a_tool() -> Any:
    def change(context: ToolContext) -> list[str]:
        view, caught = context.toolkit, []
        for attempt in (
            lambda: view.bind("action", default="x"),
            lambda: view.add(steps, rename="mine"),
            lambda: view.remove("whoami"),
            lambda: view.use(lambda call, following: None),
        ):
            try:
                attempt()
            except ToolkitError:
                caught.append("refused")
        return caught

    kit = kit_of(change, whoami).bind("user")
    return [kit.session(user="ann").call("change"), [tool.name for tool in kit]]


def bind_on_a_tool_of_a_session() -> list[Any]:
    ann, bob, kit = users()
    try:
        ann["whoami"].bind("action", default="stolen")
    except (ToolkitError, BindError):
        refused = True
    else:
        refused = False
    return [refused, bob.call("whoami", {"action": "a"}), list(kit["whoami"].params)]


def state_of_a_tool_of_a_session() -> list[Any]:
    ann, bob, kit = users()
    with contextlib.suppress(ToolkitError, AttributeError):
        ann["whoami"].state = {"user": "eve"}
    ann["whoami"].state["user"] = "eve"
    return [bob.call("whoami", {"action": "a"}), kit.state]


async def resolvers_at_once() -> bool:
    async def resolve(state: Any) -> str:
        await asyncio.sleep(0)
        return str(state["name"])

    kit = kit_of().bind("user", resolver=resolve)
    names = [f"user-{number}" for number in range(50)]
    results = await asyncio.gather(*[kit.session(name=name).acall("whoami", {"action": "a"}) for name in names])
    return results == [f"{name}: a" for name in names]


def nested_sessions() -> list[str]:
    kit = kit_of().bind("user", "session.user")
    kit.state["session"] = {"user": "host"}
    ann = kit.session(session={"user": "ann"})
    inner = ann.session(session={"name": "no user here"})
    other = kit.session(session={"name": "no user here"})
    return [view.call("whoami", {"action": "a"}) for view in (inner, other, inner.session(), ann.select())]


# Texts that could show a bound value


class Loud(Exception):
    def __init__(self, token: str) -> None:
        super().__init__()
        self.token = token

    def __str__(self) -> str:
        return f"loud {self.token}"

    __repr__ = __str__


def raise_with_notes(token: str) -> None:
    error = ValueError("failed")
    error.add_note(f"the token was {token}")
    raise error


def raise_with_cause(token: str) -> None:
    try:
        raise KeyError(token)
    except KeyError as error:
        raise RuntimeError("failed") from error


def raise_in_context(token: str) -> None:
    try:
        {}[token]
    finally:
        json.loads("{" + token)


def raise_validation_error(token: str) -> None:
    Order.model_validate({"user": {"token": token}, "note": [token]})


def raise_group(token: str) -> None:
    raise ExceptionGroup(f"failed with {token}", [ValueError(token), ExceptionGroup("inner", [Loud(token)])])


def raise_unicode_error(token: str) -> None:
    (token.encode() + b"\xff").decode("ascii")


def raise_with_a_named_type(token: str) -> None:
    raise type(token, (Exception,), {})


def raise_(kind: Callable[[str], BaseException]) -> Callable[[str], Any]:
    def raise_it(token: str) -> None:
        raise kind(f"failed with {token}")

    return raise_it


RAISED: dict[str, Callable[[str], Any]] = {
    "with a note": raise_with_notes,
    "with a cause": raise_with_cause,
    "in the context of another": raise_in_context,
    "of pydantic": raise_validation_error,
    "as a group": raise_group,
    "about bytes": raise_unicode_error,
    "that writes its own text": raise_(Loud),
    "of a type of that name": raise_with_a_named_type,
    "with a tuple": lambda token: raise_(lambda text: ValueError(({"token": token}, [text])))(token),
    "as a KeyError": raise_(KeyError),
    "as an OSError": lambda token: Path(f"/nowhere/{token}").read_text(),
    "as ToolError": raise_(ToolError),
    "as ApprovalRequiredError": raise_(ApprovalRequiredError),
    "as CallCancelledError": raise_(CallCancelledError),
    "as ToolChangedError": raise_(ToolChangedError),
    "as LimitExceededError": raise_(LimitExceededError),
    "as InvalidResultError": raise_(InvalidResultError),
    "as InvalidParametersError": raise_(InvalidParametersError),
    "as ToolNotFoundError": raise_(ToolNotFoundError),
}


def fail(how: Callable[[str], Any]) -> Callable[[], Any]:
    """Call a tool that fails, in every way, locally and as a client of a server."""

    async def act() -> list[ToolResult]:
        def body(token: str) -> str:
            return str(how(token))

        async def later(token: str) -> str:
            return str(how(token))

        def items(token: str) -> Iterator[str]:
            yield "first"
            how(token)

        kit = kit_of(body, later, items).bind("token")
        session = kit.session(token=CANARY)
        results = [await session.aexec(name) for name in ("body", "later", "items")]
        results += [session.exec(name) for name in ("body", "later", "items")]
        for name in ("body", "later", "items"):
            results += [result async for result in session.astream(name)]
        return results

    return act


def return_it(make: Callable[[str], Any], annotation: Any = inspect.Parameter.empty) -> Callable[[], Any]:
    """Return something without a JSON form that has the bound value in it."""

    def act() -> list[ToolResult]:
        def body(token: str):
            return make(token)

        if annotation is not inspect.Parameter.empty:
            body.__annotations__["return"] = annotation
        spec = ToolSpec.from_function(body).bind("token", default=CANARY)
        return [spec.exec(), *spec.stream()]

    return act


@dataclass
class Config:
    token: str


class Settings(BaseModel):
    token: str


SECRET_STATES: dict[str, tuple[str, Any]] = {
    "a plain dict": ("a.token", {"a": {"token": CANARY}}),
    "an OrderedDict": ("a.token", OrderedDict(a=OrderedDict(token=CANARY))),
    "a read-only mapping": ("a.token", {"a": MappingProxyType({"token": CANARY})}),
    "a ChainMap": ("a.token", {"a": ChainMap({}, {"token": CANARY})}),
    "the end of a list": ("a[-1]", {"a": ["x", CANARY]}),
    "a list by its index": ("a[1].token", {"a": ["x", {"token": CANARY}]}),
    "a name with a dot": (r"a\.token", {"a.token": CANARY}),
    "a dataclass": ("a.token", {"a": Config(CANARY)}),
    "a model": ("a.token", {"a": Settings(token=CANARY)}),
    "a namespace": ("a.token", {"a": SimpleNamespace(token=CANARY)}),
}


def save_secrets() -> list[str]:
    """Return the places of a secret from which it got into a pickle or a saved session."""
    found: list[str] = []
    for place, (key, state) in SECRET_STATES.items():
        spec = ToolSpec.from_function(lambda token: "", name="t").bind("token", key, secret=True)
        spec.state = state
        kit = Toolkit("k").add(lambda token: "", rename="t").bind("token", key, secret=True)
        session = kit.session(state)
        copies: list[Any] = [session.state_dict]
        copies += [lambda spec=spec: pickle.dumps(spec), lambda session=session: pickle.dumps(session["t"].clone())]
        for copy_ in copies:
            try:
                saved = copy_()
            except Exception as error:
                saved = repr(error)
            if CANARY in str(saved) or CANARY.encode() in (saved if isinstance(saved, bytes) else b""):
                found.append(place)
    return found


def pickle_what_a_session_returns() -> list[str]:
    """Return what contains a secret when it is pickled, copied or shown: views, results, runs and requests."""

    def work(action: str, token: str) -> str:
        if action == "fail":
            raise ValueError(f"cannot use {token}")
        return action

    kit = Toolkit("k").add(work).add(work, rename="ask", requires_approval=True).bind("token", secret=True)
    session = kit.session(token=CANARY)
    calls = [ToolCall(id="c1", name="work", arguments={"action": "fail"})]
    requests = [ToolCall(id="c2", name="ask", arguments={"action": "a"})]
    things: dict[str, Any] = {
        "session": session,
        "selection": session.select(names=["work"]),
        "tool": session["work"],
        "clone": session["work"].clone(),
        "result": session.exec("work", {"action": "a"}),
        "error": session.exec("work", {"action": "fail"}),
        "run": session.run(calls, format="openai"),
        "pending run": (pending := session.run(requests)),
        "request": pending.pending[0],
        "chunks": list(session.stream("work", {"action": "fail"})),
    }
    ways: dict[str, Callable[[Any], Any]] = {"pickle": pickle.dumps, "cloudpickle": cloudpickle.dumps, "repr": repr}
    ways |= {"copy": lambda thing: pickle.dumps(copy.copy(thing)), "text": str}
    return [f"{way} {name}" for name, thing in things.items() for way, save in ways.items() if shows(save, thing)]


def shows(save: Callable[[Any], Any], thing: Any) -> bool:
    try:
        saved = save(thing)
    except (ToolSpecError, ToolkitError) as error:  # it refuses
        saved = repr(error)
    return CANARY.encode() in (saved if isinstance(saved, bytes) else str(saved).encode())


def read_the_exported_function() -> list[Any]:
    def body(action: str, token: str = CANARY) -> str:
        """Do it."""
        return action

    function = ToolSpec.from_function(body).bind("token").to_function()
    return [str(inspect.signature(function)), function.__doc__, function.__defaults__, function.__kwdefaults__,
            function.__annotations__, vars(function).keys(), repr(function)]  # fmt: skip


def read_the_exports_of_a_default() -> list[Any]:
    def body(action: str, token: str = CANARY) -> str:
        """Do it."""
        return action

    spec = ToolSpec.from_function(body).bind("token")
    return [spec.code, spec.signature(), spec.to_prompt(), spec.docstring, spec.to("openai"), spec.to_jsonschema()]


class Level(BaseModel):
    name: Annotated[str, Field(examples=[CANARY], description=CANARY)] = CANARY


def read_the_definitions_of_a_bound_type() -> list[Any]:
    def body(action: str, level: Level) -> str:
        return action

    spec = ToolSpec.from_function(body).bind("level")
    return [spec.input_schema, spec.to("openai", strict=True), spec.to_prompt(), repr(spec.definition)]


def search_for_a_bound_parameter() -> list[str]:
    kit = kit_of(whoami, steps).bind("user")
    return [tool.name for tool in kit.search("heliotrope")]


def fail_after_the_timeout() -> ToolResult:
    is_over, has_ended = threading.Event(), threading.Event()

    def body(token: str) -> str:
        try:
            is_over.wait(WAIT)
            raise ValueError(token)
        finally:
            has_ended.set()

    spec = ToolSpec.from_function(body, timeout=0.05).bind("token", default=CANARY)
    result = spec.exec()
    is_over.set()
    has_ended.wait(WAIT)
    from ahvn_tools import execution

    until(lambda: execution.abandoned() == 0)
    return result


async def fail_after_the_cancellation() -> list[ToolResult]:
    async def body(token: str) -> str:
        try:
            await asyncio.sleep(WAIT)
        except asyncio.CancelledError:
            raise ValueError(token) from None
        return ""

    spec = ToolSpec.from_function(body, timeout=0.05).bind("token", default=CANARY)
    results = [await spec.aexec(), await asyncio.to_thread(spec.exec)]
    task = asyncio.create_task(spec.aexec())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    return results


def fail_while_closing() -> list[ToolResult]:
    def body(token: str) -> Iterator[str]:
        try:
            yield "first"
            yield "second"
        finally:
            raise ValueError(token)

    kit = kit_of(body).bind("token", default=CANARY)
    stream = kit.stream("body")
    results = [next(stream)]
    stream.close()
    return results


async def fail_while_closing_async() -> list[ToolResult]:
    async def body(token: str) -> AsyncIterator[str]:
        try:
            yield "first"
            yield "second"
        finally:
            raise ValueError(token)

    kit = kit_of(body).bind("token", default=CANARY)
    results = []
    async for result in kit.astream("body"):
        results.append(result)
        break
    stream = kit.astream("body")
    results.append(await anext(stream))
    await stream.aclose()
    return results


async def run_in_debug_mode() -> list[Any]:
    """Run everything on a loop that logs every step as slow, with the reprs of its callbacks."""
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    loop.slow_callback_duration = 0

    async def body(action: str, token: str) -> str:
        await asyncio.sleep(0)
        return action

    def sync(action: str, token: str, context: ToolContext) -> str:
        context.append_output("x")
        return action

    kit = kit_of(body, sync).bind("token", default=CANARY)
    results = [await kit.aexec(name, {"action": "a"}, timeout=WAIT) for name in ("body", "sync")]
    for name in ("body", "sync"):
        results += [result async for result in kit.astream(name, {"action": "a"})]
    results.append(
        await kit.arun([ToolCall(id=name, name=name, arguments={"action": "a"}) for name in ("body", "sync")])
    )
    return results


ATTACKS = [
    # A model that sends arguments
    Attack("the bound name in another case, unicode form or spelling", send_other_spellings(), is_refused),
    Attack("other spellings in an open JSON schema", schema_tool_with_other_spellings, equals(["ann"])),
    Attack(
        "the bound name in an open JSON schema", send({"action": "a", "user": "eve"}, open_schema_tool()), is_refused
    ),
    Attack("the bound name with null, which repairs remove", send({"action": "a", "user": None}), is_refused),
    Attack(
        "the bound name next to arguments that must be repaired",
        send({"action": "a", "user": "eve", "order": '{"user": "x"}'}, nested),
        is_refused,
    ),
    Attack(
        "the bound name inside a model",
        send({"action": "a", "order": {"user": "eve"}}, nested),
        lambda got: all(r.value == ["ann", "eve"] for r in got.value),
    ),
    Attack("the bound name in **kwargs", send({"action": "a", "extra": {"user": "eve"}}, collect_open()), is_refused),
    Attack(
        "the bound name in JSON text for **kwargs",
        send({"action": "a", "extra": '{"user": "eve"}'}, collect_open()),
        is_refused,
    ),
    Attack("the bound name beside **kwargs", send({"action": "a", "user": "eve"}, collect_open()), is_refused),
    Attack(
        "a full-width name in **kwargs",
        send({"action": "a", "extra": {"ｕｓｅｒ": "eve"}}, collect_open()),
        lambda got: all(r.value["user"] == "ann" for r in got.value),
    ),
    Attack("a constant of a partial that goes to **kwargs", partial_with_variadic_constant, is_refused),
    Attack(
        "a constant of a partial that is not in its signature",
        partial_with_variadic_constant_hidden,
        equals([["action"], True, {"token": "constant"}]),
    ),
    Attack("a positional constant of a partial, in **kwargs", positional_partial, is_refused),
    Attack(
        "a positional-only bound name in **kwargs",
        send({"action": "a", "extra": {"user": "eve"}}, ToolSpec.from_function(after_user, include_var_keyword=True)),
        is_refused,
    ),
    Attack(
        "the name of the ToolContext in **kwargs",
        send(
            {"action": "a", "extra": {"context": "eve"}}, ToolSpec.from_function(with_context, include_var_keyword=True)
        ),
        is_refused,
    ),
    Attack(
        "`self` of an instance in **kwargs",
        lambda: Desk("ann").toolspec("act").exec(action="a", extra={"self": "eve"}),
        lambda got: got.value.is_error,
    ),
    Attack("a visible alias that is the bound name", send({"action": "a", "user": "eve"}, same_alias), keeps_user),
    Attack(
        "a visible alias choice that is the bound name", send({"action": "a", "user": "eve"}, same_choice), keeps_user
    ),
    Attack("the alias of the bound parameter", send({"action": "a", "account": "eve"}, bound_by_alias), is_refused),
    Attack(
        "the alias choices of the bound parameter",
        send({"action": "a", "login": {"name": "eve"}}, bound_by_choices),
        is_refused,
    ),
    Attack(
        "a preset by its name",
        lambda: kit_of(whoami, preset={"user": "ann"}).exec("whoami", {"action": "a", "user": "eve"}),
        is_refused,
    ),
    Attack("the bound value by position", by_position, is_refused),
    Attack("the bound value of an exported function", by_exported_function, equals(["refused"] * 3)),
    Attack(
        "the bound name twice, first with another value",
        send_text('{"user": "ann", "action": "a", "user": "eve"}'),
        is_refused,
    ),
    Attack("an array of pairs in place of the object", send_text('[["user", "eve"], ["action", "a"]]'), is_refused),
    Attack("a JSON text inside of JSON text", send_text(json.dumps('{"action": "a", "user": "eve"}')), is_refused),
    Attack("the bound name in an extra field of the structured output", extra_field_of_structured_output, is_refused),
    Attack("the bound name as an alias in the structured output", alias_of_structured_output, is_refused),
    Attack("huge, infinite, deep and broken values", extreme_values, equals(["ann", "invalid_parameters"])),
    Attack("a misspelled bound name, to get a hint", no_hint, equals([])),
    # A user of one session who wants another's values
    Attack("generators of two sessions, read in turns", suspended_generators, equals(True)),
    Attack("async generators of two sessions, read in turns", suspended_async_generators, equals(True)),
    Attack("a context variable that a tool sets", context_variables, equals(["nobody"] * 4)),
    Attack("cancel by the call id of another session", cancel_by_a_foreign_id, equals([[False] * 4, True, True, True])),
    Attack("one call id in two sessions", same_id_in_two_sessions, equals([False, True])),
    Attack("the cached result of another session", cached_of_another, equals(["ann", "bob", "ann", "eve"])),
    Attack("the cached result of an earlier state", cached_of_a_changed_state, equals(["ann", "bob"])),
    Attack("a mutable default of a toolkit's binding", shared_default, equals(["bob's"])),
    Attack("a mutable default of a bound parameter", shared_parameter_default, equals(["bob's"])),
    Attack("a mutable preset", shared_preset, equals(["bob's"])),
    Attack("writing into the state of the ToolContext", write_through_the_context, equals(["refused", "ann: a"])),
    Attack(
        "changing the toolkit from a tool",
        change_the_toolkit_from_a_tool,
        equals([["refused"] * 4, ["change", "whoami"]]),
    ),
    Attack(
        "binding on a tool of a session",
        bind_on_a_tool_of_a_session,
        lambda got: got.value[1:] == ["bob: a", ["action"]],
    ),
    Attack("the state of a tool of a session", state_of_a_tool_of_a_session, equals(["bob: a", {}])),
    Attack("fifty async resolvers at once", resolvers_at_once, equals(True)),
    Attack("a session inside of a session", nested_sessions, equals(["ann: a", "host: a", "ann: a", "ann: a"])),
    # Texts that could show a bound value
    *[Attack(f"an exception {how}", fail(act), fails_silently) for how, act in RAISED.items()],
    Attack("an exception after the timeout", fail_after_the_timeout, all_of(ends_with("timeout"), shows_nothing)),
    Attack(
        "an exception after the cancellation", fail_after_the_cancellation, all_of(ends_with("timeout"), shows_nothing)
    ),
    Attack("an exception while a generator is closed", fail_while_closing, shows_nothing),
    Attack("an exception while an async generator is closed", fail_while_closing_async, shows_nothing),
    Attack("asyncio's debug log of slow callbacks", run_in_debug_mode, shows_nothing),
    Attack("a result with an object under that key", return_it(lambda token: {token: object()}), shows_nothing),
    Attack(
        "a result that is an error with that text",
        return_it(lambda token: ToolResult(error=ErrorDetail(code="tool_error", message=token))),
        shows_nothing,
    ),
    Attack("a secret in every kind of state, saved", save_secrets, equals([])),
    Attack("what a session returns, pickled and shown", pickle_what_a_session_returns, equals([])),
    Attack("an exported function", read_the_exported_function, shows_nothing),
    Attack("the exports of a default", read_the_exports_of_a_default, shows_nothing),
    Attack("the schema of a bound type", read_the_definitions_of_a_bound_type, shows_nothing),
    Attack("a search for the description of a bound parameter", search_for_a_bound_parameter, equals([])),
]


@pytest.mark.parametrize("attack", rows(ATTACKS))
def test_what_must_hold_holds(attack, carry_out):
    outcome = carry_out(attack)
    assert attack.holds(outcome), outcome
