"""Attacks on approval: a call that runs without a person's yes, twice, or as another call than the one approved."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable
from copy import deepcopy
from dataclasses import fields, replace
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from ahvn_tools import Call, Next, ToolCall, ToolContext, Toolkit, ToolResult
from ahvn_tools.errors import ToolkitError, ToolSpecError
from ahvn_tools.middleware.cache import cache
from ahvn_tools.middleware.pending import ApprovalRequest
from ahvn_tools.middleware.retry import retry
from tests.attacks.attack import CANARY, Attack, Outcome, ends_with, equals, rows

KEY = "the key of both processes"

PAY = {"to": "ann", "amount": 10}


class Bank:
    """A toolkit whose `pay` needs an approval, and what was really paid."""

    def __init__(self, **options: Any) -> None:
        self.paid: list[Any] = []
        self.kit = Toolkit("bank", secret_key=KEY, **options)

        def pay(to: str, amount: int, account: str = "host") -> str:
            """Pay."""
            self.paid.append([account, to, amount])
            return f"paid {amount}"

        self.kit.add(pay, requires_approval=True).bind("account")
        self.session = self.kit.session(account="ann's", session_id="s1")

    def ask(self, arguments: Any = None, view: Toolkit | None = None, name: str = "pay") -> Any:
        """Return the run in which the model has asked to pay."""
        call = ToolCall(id="c1", name=name, arguments=PAY if arguments is None else arguments)
        return (view or self.session).run([call])

    def request(self, arguments: Any = None) -> Any:
        """Return the JSON of a request, as a host would store it."""
        return json.loads(json.dumps(self.ask(arguments).pending[0].to_json()))


def tried(*attempts: Callable[[], Any]) -> list[Any]:
    """Return what each attempt came to: the error's type, or the code of its result."""
    results: list[Any] = []
    for attempt in attempts:
        try:
            run = attempt()
        except (ToolkitError, ToolSpecError) as error:
            results.append(type(error).__name__)
        else:
            results += [result.error.code if result.error else "ran" for _, result in run.results]
    return results


def changed_fields() -> list[Any]:
    """Change every field of a stored request, in ways that suit its type."""
    bank = Bank()
    stored = bank.request()
    changes: list[Any] = []
    for field in fields(ApprovalRequest):
        value = stored[field.name]
        if field.name == "secrets":
            value = []
        others = (
            [f"{value}0", "", None, 0]
            if isinstance(value, str) or value is None
            else [None, ["to"], {"to": "eve", "amount": 10}]
        )
        changes += [{**stored, field.name: other} for other in others if other != value]
    left_out = [
        {name: value for name, value in stored.items() if name != field.name}
        for field in fields(ApprovalRequest)
        if field.name != "secrets"
    ]
    attempts = [lambda data=data: bank.session.resume(data, approved=True) for data in [*changes, *left_out]]
    return [sorted(set(tried(*attempts)) - {"ToolkitError", "ToolSpecError"}), bank.paid]


def argument_of_another_type() -> list[Any]:
    """Change an argument to one that Python calls equal."""
    bank = Bank()
    attempts = []
    for amount in (10.0, "10", True, 10 + 0j):
        data = bank.request()
        data["arguments"]["amount"] = amount
        attempts.append(lambda data=data: bank.session.resume(data, approved=True))
    return [tried(*attempts), bank.paid]


def one_for_true() -> list[Any]:
    bank = Bank()
    data = bank.request({"to": "ann", "amount": 1})
    data["arguments"]["amount"] = True
    return [tried(lambda: bank.session.resume(data, approved=True)), bank.paid]


def other_order() -> list[Any]:
    """The order of keys has no meaning in JSON: the same permission, once."""
    bank = Bank()
    data = bank.request()
    turned = {name: data[name] for name in reversed(data)}
    turned["arguments"] = {name: data["arguments"][name] for name in reversed(data["arguments"])}
    return [tried(*[lambda d=d: bank.session.resume(d, approved=True) for d in (turned, data)]), bank.paid]


def replayed() -> list[Any]:
    bank = Bank()
    run = bank.ask()
    data = run.pending[0].to_json()
    attempts: list[Callable[[], Any]] = [
        lambda: bank.session.resume(run, approved=True),
        lambda: bank.session.resume(run, approved=True),
        lambda: bank.session.resume(run.pending[0], approved=True),
        lambda: bank.session.resume(data, approved=True),
        lambda: bank.session.resume(data, approved=True, arguments={"to": "eve", "amount": 10}),
        lambda: bank.session.resume(replace(run, results=deepcopy(run.results)), approved={"c1": True}),
        lambda: bank.session.select().resume(json.loads(json.dumps(data)), approved=True),
    ]
    return [tried(*attempts), bank.paid]


def twice_in_one_run() -> list[Any]:
    """Put the pending result of one call beside the call of another, so that one yes counts twice."""
    bank = Bank()
    run = bank.ask()
    doubled = replace(run, results=[*run.results, *run.results], pending=[*run.pending, *run.pending])
    first = tried(lambda: bank.session.resume(doubled, approved=True))
    return [len(bank.paid) <= 1, first]


def resumed_at_once() -> list[Any]:
    """Resume one request in many threads and tasks at once."""
    bank = Bank()
    data = bank.request()
    barrier = threading.Barrier(8)

    def resume() -> None:
        barrier.wait(10)
        tried(lambda: bank.session.resume(data, approved=True))

    threads = [threading.Thread(target=resume) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    return bank.paid


async def resumed_at_once_async() -> list[Any]:
    bank = Bank()
    run = bank.ask()
    await asyncio.gather(*[bank.session.aresume(run, approved=True) for _ in range(20)], return_exceptions=True)
    return bank.paid


def other_session() -> list[Any]:
    bank = Bank()
    run, data = bank.ask(), bank.request()
    views = [
        bank.kit, bank.kit.session(account="bob's"), bank.kit.session(account="bob's", session_id="s2"),
        bank.session.session(account="bob's"), bank.session.session(session_id="s1 "), bank.kit.select(),
    ]  # fmt: skip
    attempts = [
        lambda view=view, asked=asked: view.resume(asked, approved=True) for view in views for asked in (run, data)
    ]
    return [sorted(set(tried(*attempts))), bank.paid]


async def request_of_another_client() -> list[Any]:
    """Resume the request of one client of a served toolkit in the sessions of others, and show it to the client."""
    from fastmcp import Client

    asked: list[Any] = []
    bank = Bank(middleware=[])

    async def note(call: Call, next: Next) -> ToolResult:
        result = await next(call)
        asked.append(result.meta.get("approval"))
        return result

    bank.kit.use(note)
    bank.kit.add(bank.paid.append, rename="login", requires_approval=True)
    server = bank.kit.to_fastmcp_server(session=lambda request: request.meta.get("me"))
    async with Client(server) as client:
        await client.call_tool_mcp("pay", PAY, meta={"me": "ann"})
        answer = await client.call_tool_mcp("login", {"password": CANARY}, meta={"me": "ann"})
        again = await client.call_tool_mcp(
            "pay", {**PAY, "approval": asked[0]}, meta={"me": "ann", "approval": asked[0]}
        )
    ids = ["bob", "ann ", "ann.", asked[0]["session_id"] + "x"]
    views = [bank.kit, bank.kit.session(), *[bank.kit.session(session_id=one, account=one) for one in ids]]
    tries = tried(*[lambda view=view: view.resume(asked[0], approved=True) for view in views])
    return [asked[0]["session_id"] is None, set(tries), again.is_error, bank.paid, CANARY in str(answer)]


def ids_of_another_type() -> list[Any]:
    """Resume the request of a session in sessions whose ids look like its id."""
    bank = Bank()
    data = bank.kit.session(account="ann's", session_id="1").run([ToolCall(id="c1", name="pay", arguments=PAY)])
    stored = data.pending[0].to_json()
    ids: list[Any] = [1, 1.0, True, b"1", "01", "1 ", "１", "s1", None]
    attempts = []
    for one in ids:
        with contextlib.suppress(ToolkitError, TypeError):
            view = bank.kit.session(account="bob's", session_id=one)
            attempts.append(lambda view=view: view.resume(stored, approved=True))
    return [set(tried(*attempts)) - {"ToolkitError"}, bank.paid]


def request_as_an_argument() -> list[Any]:
    """Pass a stored request, and what it contains, as arguments of the call that it is for."""
    bank = Bank()
    data = bank.request()
    for extra in (
        {"approval": data},
        {"is_approved": True},
        {"_meta": {"approval": data}},
        {"__approved__": True},
        data,
    ):
        bank.session.exec("pay", {**PAY, **extra})
        bank.ask({**PAY, **extra})
    for name in (data["id"], data["signature"], data["digest"], data["call_id"]):
        bank.session.run([ToolCall(id=name, name="pay", arguments=PAY)])
    return bank.paid


def out_of_the_selection() -> list[Any]:
    bank = Bank()
    data = bank.request()
    return [tried(lambda: bank.session.select(names=[]).resume(data, approved=True)), bank.paid]


def group_switched_off() -> list[Any]:
    bank = Bank()
    bank.kit.add_group("money", "Money.").add(bank.paid.append, rename="give", group="money", requires_approval=True)
    bank.session.activate("money")
    data = bank.ask({"object": "ann"}, name="give").pending[0].to_json()
    bank.session.set_groups({"money": False})
    return [tried(lambda: bank.session.resume(data, approved=True)), bank.paid]


def replaced(how: Callable[[Bank], Any]) -> Callable[[], list[Any]]:
    """Change the tool between the request and the approval."""

    def act() -> list[Any]:
        bank = Bank(on_duplicate="replace")
        run, data = bank.ask(), bank.request()
        how(bank)
        attempts = [lambda: bank.session.resume(run, approved=True), lambda: bank.session.resume(data, approved=True)]
        return [tried(*attempts), bank.paid]

    return act


def other_description(bank: Bank) -> None:
    def pay(to: str, amount: int) -> str:
        """Pay a bit."""
        bank.paid.append("other")
        return ""

    bank.kit.add(pay)


def unbound(bank: Bank) -> None:
    bank.kit.unbind("account")


def bound_more(bank: Bank) -> None:
    bank.kit.bind("to", default="eve")


def renamed(bank: Bank) -> None:
    tool = bank.kit["pay"].clone()
    bank.kit.remove("pay")
    bank.kit.add(tool, rename="pay_", requires_approval=True)


def with_other_fields(bank: Bank) -> None:
    class More(BaseModel):
        tip: int = 0

    bank.kit.finish_with("pay", More)


def other_kit_of_one_key() -> list[Any]:
    """Another toolkit with this key and a tool of this name, but other parameters."""
    bank, other = Bank(), Toolkit("other", secret_key=KEY)
    paid: list[Any] = []
    other.add(lambda to, amount, tip=0: paid.append(to), rename="pay", requires_approval=True)
    data = bank.request()
    return [tried(lambda: other.session(session_id="s1").resume(data, approved=True)), paid]


def other_key() -> list[Any]:
    bank = Bank()
    data = bank.request()
    other = Bank()
    other.kit = Toolkit("bank", secret_key=KEY + "!")
    other.kit.add(lambda to, amount: other.paid.append(to), rename="pay", requires_approval=True)
    forged = ApprovalRequest.from_json(data)
    attempts = [lambda d=d: other.kit.session(session_id="s1").resume(d, approved=True) for d in (data, forged)]
    return [tried(*attempts), other.paid]


def login_into(done: list[str]) -> Callable[..., None]:
    def login(token: str) -> None:
        done.append(token)

    return login


def swapped_secret() -> list[Any]:
    """Change a secret argument of a stored request, which shows it as stars."""
    done: list[str] = []
    kit = Toolkit("k", secret_key=KEY).add(login_into(done), requires_approval=True)
    run = kit.run([ToolCall(id="c1", name="login", arguments={"token": CANARY})])
    data = run.pending[0].to_json()
    shown = CANARY in json.dumps(data)
    attempts = [
        lambda: kit.resume(data, approved=True),
        lambda: kit.resume(data, approved=True, arguments={"token": "another"}),
        lambda: kit.resume({**data, "secrets": []}, approved=True),
    ]
    return [shown, tried(*attempts), done]


def secret_swapped_in_the_run() -> list[Any]:
    """Change a secret argument in the run that waits; nobody sees it behind its stars."""
    done: list[str] = []
    kit = Toolkit("k").add(login_into(done), requires_approval=True)
    run = kit.run([ToolCall(id="c1", name="login", arguments={"token": CANARY})])
    run.results[0][0].arguments["token"] = "another"
    return [tried(lambda: kit.resume(run, approved=True)), done]


def argument_swapped_in_the_run() -> list[Any]:
    """Change what the run remembers of the call, of its request, and of both."""
    bank, attempts = Bank(), []
    for is_call, is_request in ((True, False), (False, True), (True, True)):
        run = bank.ask(dict(PAY))
        if is_call:
            run.results[0][0].arguments["to"] = "eve"
        if is_request:
            run.pending[0].arguments["to"] = run.results[0][1].meta["approval"]["arguments"]["to"] = "eve"
        attempts.append(lambda run=run: bank.session.resume(run, approved=True))
    return [tried(*attempts), bank.paid]


def swapped_while_deciding() -> list[Any]:
    """Change the arguments after the approver has seen them and before it has answered."""
    paid: list[Any] = []
    arguments = {"to": ["ann"]}

    def approver(request: ApprovalRequest) -> bool:
        arguments["to"][0] = "eve"
        return True

    kit = Toolkit("k", approver=approver).add(lambda to: paid.append(list(to)), rename="pay", requires_approval=True)
    kit.exec("pay", arguments)
    return [to for to in paid if "eve" in to]


def written_by_the_approver() -> list[Any]:
    """An approver that changes the request instead of answering with other arguments has changed a copy."""
    bank = Bank(approver=lambda request: bool(request.arguments.update(to="eve")) or True)
    bank.session.exec("pay", PAY)
    return bank.paid


def answers(*decisions: Any) -> Callable[[], list[Any]]:
    """Return what was paid after these answers of an approver."""

    def act() -> list[Any]:
        bank, left = Bank(approver=lambda request: left.pop()), list(decisions)
        while left:
            bank.session.exec("pay", PAY)
        return bank.paid

    return act


class Yes:
    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]  # equal to everything


def bound_by_the_approver() -> Any:
    bank = Bank(approver=lambda request: {**request.arguments, "account": "eve's"})
    return [bank.session.exec("pay", PAY), bank.paid][0]


def bound_by_resume() -> list[Any]:
    bank = Bank()
    edits = {**PAY, "account": "eve's"}
    data, run = bank.request(), bank.ask()
    attempts = [
        lambda: bank.session.resume(data, approved=True, arguments=edits),
        lambda: bank.session.resume(run, approved=True, arguments={"c1": edits}),
    ]
    return [tried(*attempts), bank.paid]


def edit_of_another_type() -> list[Any]:
    """An approver replaces 1 by True, which Python calls equal."""
    seen: list[Any] = []

    def take(flag: bool | int) -> str:
        seen.append(flag)
        return ""

    kit = Toolkit("k", approver=lambda request: {"flag": True}).add(take, requires_approval=True)
    kit.exec("take", {"flag": 1})
    run = (waiting := Toolkit("k").add(take, requires_approval=True)).run(
        [ToolCall(id="c1", name="take", arguments={"flag": 1})]
    )
    waiting.resume(run, approved=True, arguments={"c1": {"flag": True}})
    return [type(flag).__name__ for flag in seen]


# Which calls need an approval


def truth_as_text() -> list[Any]:
    """Send what pydantic takes for False, and a function of the arguments for true."""
    ran: list[Any] = []

    def delete(path: str, dry_run: bool = True) -> str:
        if not dry_run:
            ran.append(path)
        return ""

    kit = Toolkit("files").add(delete, requires_approval=lambda arguments: not arguments.get("dry_run", True))
    for sent in ("false", "no", "off", "0", "f", "n", 0.0, 0, "False"):
        kit.exec("delete", {"path": str(sent), "dry_run": sent})
    return ran


def number_as_text() -> list[Any]:
    ran: list[Any] = []

    def open_port(port: int) -> str:
        ran.append(port)
        return ""

    kit = Toolkit("net").add(open_port, requires_approval=lambda arguments: arguments["port"] == 22)
    for sent in (22, "22", 22.0, " 22 ", "022", "+22", "22.0"):
        kit.exec("open_port", {"port": sent})
    return ran


def list_as_text() -> list[Any]:
    ran: list[Any] = []

    def grant(roles: list[str]) -> str:
        ran.append(roles)
        return ""

    kit = Toolkit("users").add(grant, requires_approval=lambda arguments: "admin" in arguments["roles"])
    for sent in (["admin"], '["admin"]', '["\\u0061dmin"]'):
        kit.exec("grant", {"roles": sent})
    return ran


def under_another_name() -> list[Any]:
    """Send a parameter under its own name, where a function of the arguments expects the alias."""
    ran: list[Any] = []

    def close(account: Annotated[str, Field(alias="id")]) -> str:
        ran.append(account)
        return ""

    kit = Toolkit("bank").add(close, requires_approval=lambda arguments: arguments.get("id") == "main")
    for sent in ({"account": "main"}, {"id": "main"}, {"id": "other", "account": "main"}, {"ID": "main"}):
        kit.exec("close", sent)
    return ran


def failing_condition() -> list[Any]:
    bank: list[Any] = []
    kit = Toolkit("k").add(bank.append, rename="t", requires_approval=lambda a: a["nope"] > 1)
    return [kit.exec("t", {"n": 1}), bank][1]


def look_alikes() -> list[Any]:
    """Call the tool by names that look like its own."""
    bank = Bank()
    for name in (
        "pay ",
        " pay",
        "PAY",
        "pay\u200b",
        "p\u0430y",
        "pay\x00",
        "functions.pay",
        "bank.pay",
        "pay()",
        "ｐａｙ",
    ):
        bank.session.exec(name, PAY)
        bank.ask(name=name)
    return bank.paid


def from_another_tool() -> list[Any]:
    """Call it from a tool that was approved, or needs no approval."""
    bank = Bank()

    def outer(context: ToolContext) -> str:
        return str(context.toolkit.exec("pay", PAY).error.code)

    async def later(context: ToolContext) -> str:
        return str((await context.toolkit.aexec("pay", PAY)).error.code)

    bank.kit.add(outer, requires_approval=True).add(later)
    run = bank.session.resume(bank.session.run([ToolCall(id="c1", name="outer", arguments={})]), approved=True)
    return [run.results[0][1].value, bank.session.call("later"), bank.paid]


def every_way() -> list[Any]:
    """Call it in every way there is, and by a clone of what the toolkit shows."""
    bank = Bank()
    view, tool = bank.session, bank.session["pay"]
    codes = [
        view.exec("pay", PAY), asyncio.run(view.aexec("pay", PAY)), list(view.stream("pay", PAY))[-1],
        tool.exec(**PAY), list(tool.stream(**PAY))[-1], view.select(names=["pay"]).exec("pay", PAY),
        view.session().exec("pay", PAY), Toolkit("outer").add(bank.kit).exec("pay", PAY),
    ]  # fmt: skip
    return [{result.error.code for result in codes}, bank.paid]


def added_again() -> list[Any]:
    """A toolkit inside of another brings its rules along, also under another name."""
    bank = Bank()
    outer = Toolkit("outer").add(bank.kit, prefix="x_")
    outer.exec("x_pay", PAY)
    Toolkit("outermost").add(outer).exec("x_pay", PAY)
    return bank.paid


def approved_then_cached() -> list[Any]:
    """A result that a person allowed once is not an answer to the next call."""
    ran: list[Any] = []

    def read(path: str) -> str:
        ran.append(path)
        return "content"

    kit = Toolkit("k", middleware=[cache()])
    from ahvn_tools import ToolSpec

    kit.add(ToolSpec.from_function(read, annotations={"readOnlyHint": True}), requires_approval=True)
    call = ToolCall(id="c1", name="read", arguments={"path": "/x"})
    kit.resume(kit.run([call]), approved=True)
    again = kit.run([call])
    return [len(again.pending), ran]


def approved_then_retried() -> list[Any]:
    """One yes is one run: a tool that is not repeatable is not tried again."""
    ran: list[int] = []

    def pay(amount: int) -> str:
        ran.append(amount)
        raise ConnectionError("lost")

    kit = Toolkit("k", middleware=[retry(3)]).add(pay, requires_approval=True)
    kit.resume(kit.run([ToolCall(id="c1", name="pay", arguments={"amount": 1})]), approved=True)
    return ran


def rejected_in_part() -> list[Any]:
    """Approve one of two calls with one id: each is decided by its own id alone."""
    bank = Bank()
    calls = [ToolCall(id="c1", name="pay", arguments={"to": to, "amount": 1}) for to in ("ann", "eve")]
    run = bank.session.run([calls[0], replace(calls[1], id="c2")])
    bank.session.resume(run, approved={"c1": True, "c2": False})
    return bank.paid


def truthy_decisions() -> list[Any]:
    bank = Bank()
    run, data = bank.ask(), bank.request()
    yes: list[Any] = [1, "yes", Yes(), [True], {"c1": 1}, {"c1": "true"}, None, {"C1": True}]
    attempts = [
        lambda asked=asked, say=say: bank.session.resume(asked, approved=say) for say in yes for asked in (run, data)
    ]
    return [set(tried(*attempts)) <= {"ToolkitError", "rejected"}, bank.paid]


def imitated_request() -> list[Any]:
    """A tool returns what looks like a request for another call."""
    bank = Bank()
    stolen = bank.request()

    def imitate() -> ToolResult:
        return ToolResult("x", meta={"approval": {**stolen, "call_id": "c9"}})

    bank.kit.add(imitate)
    run = bank.session.run([ToolCall(id="c9", name="imitate", arguments={})])
    return [run.pending, bank.paid]


def returned_real_request() -> list[Any]:
    """A tool calls another that needs an approval, and returns that request as its own."""
    bank = Bank()

    def relay(context: ToolContext) -> Any:
        return context.toolkit.exec("pay", PAY)

    bank.kit.add(relay)
    run = bank.session.run([ToolCall(id="c1", name="relay", arguments={})])
    outcome = tried(lambda: bank.session.resume(run, approved=True)) if run.pending else []
    return [len(run.pending), outcome, bank.paid]


def mutual_bodies() -> list[Any]:
    """A body that asks for approval after it has acted on other arguments does not get a yes for these."""
    ran: list[Any] = []

    def send(to: str, context: ToolContext) -> str:
        context.ask("send")
        ran.append(to)
        return ""

    kit = Toolkit("k").add(send)
    data = kit.run([ToolCall(id="c1", name="send", arguments={"to": "ann"})]).pending[0].to_json()
    data["arguments"]["to"] = "eve"
    return [tried(lambda: kit.resume(data, approved=True)), ran]


def not_json(outcome: Outcome) -> bool:
    return outcome.value == [] and outcome.error is None


def arguments_without_identity() -> list[Any]:
    """Send arguments whose JSON form hides what they are."""
    paid: list[Any] = []
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    kit = Toolkit("k").add(paid.append, rename="t", requires_approval=True)
    for value in (cyclic, object(), float("nan"), 10**5000, "\ud800", {"a": {1: 2}}):
        try:
            run = kit.run([ToolCall(id="c1", name="t", arguments={"x": value})])
            for request in run.pending:
                json.dumps(request.to_json())
        except (ToolkitError, ToolSpecError):
            pass
    return paid


ATTACKS = [
    # As another call than the one that was approved
    Attack("a stored request with any field changed or left out", changed_fields, equals([[], []])),
    Attack("an argument that became another type", argument_of_another_type, equals([["ToolkitError"] * 4, []])),
    Attack("1 that became True", one_for_true, equals([["ToolkitError"], []])),
    Attack(
        "the same request in another order, twice",
        other_order,
        equals([["ran", "RequestUsedError"], [["ann's", "ann", 10]]]),
    ),
    Attack("arguments changed in the waiting run", argument_swapped_in_the_run, equals([["ToolkitError"] * 3, []])),
    Attack("a secret argument changed in the waiting run", secret_swapped_in_the_run, equals([["ToolkitError"], []])),
    Attack(
        "a secret argument of a stored request exchanged",
        swapped_secret,
        lambda got: got.value[0] is False and got.value[1][::2] == ["ToolkitError"] * 2,
    ),
    Attack("arguments changed while the approver decides", swapped_while_deciding, equals([])),
    Attack("a request that its approver writes to", written_by_the_approver, equals([["ann's", "ann", 10]])),
    Attack("an approver that sets a bound value", bound_by_the_approver, ends_with("tool_error")),
    Attack("a resumed call that sets a bound value", bound_by_resume, equals([["ToolkitError"] * 2, []])),
    Attack("an approver's True for the model's 1", edit_of_another_type, equals(["bool", "bool"])),
    # Twice
    Attack(
        "one approval used again, in every form",
        replayed,
        equals([["ran", *["RequestUsedError"] * 6], [["ann's", "ann", 10]]]),
    ),
    Attack("one approval twice in one run", twice_in_one_run, lambda got: got.value[0]),
    Attack("one approval in eight threads at once", resumed_at_once, equals([["ann's", "ann", 10]])),
    Attack("one approval in twenty tasks at once", resumed_at_once_async, equals([["ann's", "ann", 10]])),
    Attack("an approved call that fails and is repeated", approved_then_retried, equals([1])),
    # By somebody else, or as another tool
    Attack("the request of another session", other_session, equals([["ToolkitError"], []])),
    Attack(
        "the request of another client",
        request_of_another_client,
        lambda got: got.error is None and got.value[1:] == [{"ToolkitError"}, True, [], False],
    ),
    Attack("a session whose id looks the same", ids_of_another_type, equals([set(), []])),
    Attack("a request passed as an argument", request_as_an_argument, equals([])),
    Attack("a selection without the tool", out_of_the_selection, equals([["ToolkitError"], []])),
    Attack("a group that was switched off meanwhile", group_switched_off, equals([["ToolkitError"], []])),
    *[
        Attack(f"a tool {how} meanwhile", replaced(change), equals([["changed", "changed"], []]))
        for how, change in {
            "replaced": other_description,
            "unbound": unbound,
            "bound more": bound_more,
            "given other fields": with_other_fields,
        }.items()
    ],
    Attack("a tool removed meanwhile", replaced(renamed), equals([["not_found"] * 2, []])),
    Attack("another toolkit with this key and a tool of this name", other_kit_of_one_key, equals([["changed"], []])),
    Attack("a toolkit with another key", other_key, equals([["ToolkitError"] * 2, []])),
    Attack("a result that imitates a request", imitated_request, equals([[], []])),
    Attack("the request of a nested call as one's own", returned_real_request, lambda got: got.value[2] == []),
    Attack("changed arguments of a call that asks in its body", mutual_bodies, equals([["ToolkitError"], []])),
    # Without a person's yes
    Attack("every way to call it", every_way, equals([{"approval_required"}, []])),
    Attack("a toolkit inside of another", added_again, equals([])),
    Attack("a name that looks like its own", look_alikes, equals([])),
    Attack(
        "a call from inside another tool", from_another_tool, equals(["approval_required", "approval_required", []])
    ),
    Attack("answers that are only truthy", answers(1, "yes", Yes(), [1], 1.0, None, ""), equals([])),
    Attack("decisions that are only truthy", truthy_decisions, equals([True, []])),
    Attack("a yes for the call beside it", rejected_in_part, equals([["ann's", "ann", 1]])),
    Attack("a result that was allowed once, from the cache", approved_then_cached, equals([1, ["/x"]])),
    Attack("False in another type", truth_as_text, equals([])),
    Attack("a number in another type", number_as_text, equals([])),
    Attack("a list as JSON text", list_as_text, equals([])),
    Attack("an argument under the parameter's own name", under_another_name, equals([])),
    Attack("arguments that make the condition fail", failing_condition, equals([])),
    Attack("arguments without a JSON form", arguments_without_identity, not_json),
]


@pytest.mark.parametrize("attack", rows(ATTACKS))
def test_what_must_hold_holds(attack, carry_out):
    outcome = carry_out(attack)
    assert attack.holds(outcome), outcome
