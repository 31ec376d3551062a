"""Attacks on what a host stores of calls that wait: approve them twice, late or as others; read their secrets."""

from __future__ import annotations

import json
import pickle
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import Run, ToolCall, Toolkit
from tests.attacks.attack import Attack, equals, rows
from tests.attacks.test_approval import KEY, Bank, tried


def rejected_first() -> list[Any]:
    """Approve what another person has rejected, in every form."""
    bank = Bank()
    run = bank.ask()
    bank.session.resume(run.pending[0].to_json(), approved=False)
    restored = Run.from_json(json.loads(json.dumps(run.to_json())))
    waiting = [run, run.pending[0], restored, pickle.loads(pickle.dumps(run))]
    return [tried(*[lambda form=form: bank.session.resume(form, approved=True) for form in waiting]), bank.paid]


def approved_in_two_processes() -> list[Any]:
    """Approve one request in two toolkits that share nothing but a key and a file."""
    with tempfile.TemporaryDirectory() as folder:
        banks = [Bank(approval_store=Path(folder) / "approvals.db") for _ in range(2)]
        data = banks[0].request()
        results = tried(*[lambda bank=bank: bank.session.resume(data, approved=True) for bank in banks])
    return [results, [paid for bank in banks for paid in bank.paid]]


def expired() -> list[Any]:
    """Approve a request that has expired, with its own time and with a later one."""
    bank = Bank(approval_expiry=1e-9)
    data = bank.request()
    while time.time() < data["expires_at"]:
        time.sleep(0.01)
    later = [data, {**data, "expires_at": data["expires_at"] + 3600}, {**data, "expires_at": None}]
    return [tried(*[lambda form=form: bank.session.resume(form, approved=True) for form in later]), bank.paid]


def login_kit(got: list[str]) -> Toolkit:
    def login(token: str, place: str = "") -> None:
        got.append(token)

    return Toolkit("k", secret_key=KEY).add(login, requires_approval=True)


def guessed(**edits: Any) -> Callable[[], list[str]]:
    """Try many values of a short secret that a saved request hides, with other edits beside it."""

    def act() -> list[str]:
        got: list[str] = []
        kit = login_kit(got)
        data = kit.run([ToolCall(id="c1", name="login", arguments={"token": "0042"})]).pending[0].to_json()
        guesses = [{"token": f"{number:04}", **edits} for number in range(100)]
        tried(*[lambda guess=guess: kit.resume(data, approved=True, arguments=guess) for guess in guesses])
        return got

    return act


def named_as_another_tool() -> list[Any]:
    """Let a saved run, and a run in memory, say that the approved call is one of another tool."""
    bank, called = Bank(), []
    bank.kit.add(lambda: called.append("drop"), rename="drop", requires_approval=True)
    bank.kit.add(lambda: called.append("free"), rename="free")
    run = bank.session.run([ToolCall(id="c1", name="drop", arguments={})])
    finished = bank.session.run([ToolCall(id="c1", name="free", arguments={})]).to_json()
    called.clear()
    finished["calls"][0]["result"]["meta"] = {"approval": run.pending[0].to_json()}
    renamed = replace(run, results=[(replace(run.results[0][0], name="free"), run.results[0][1])])
    tried(*[lambda form=form: bank.session.resume(form, approved=True) for form in (Run.from_json(finished), renamed)])
    return called


def swapped() -> list[Any]:
    """Let a run show one request under the id of another: a yes for the small one must not pay the large one."""
    bank = Bank()
    calls = [ToolCall(id=f"c{amount}", name="pay", arguments={"to": "ann", "amount": amount}) for amount in (1, 1000)]
    run = bank.session.run(calls)
    (small, first), (large, second) = run.results
    tried(lambda: bank.session.resume(replace(run, results=[(small, second), (large, first)]), approved={"c1": True}))
    return [paid for paid in bank.paid if 1000 in paid]


def secrets_on_disk() -> bool:
    """Look for a secret argument in everything that is stored."""
    got: list[str] = []
    kit = login_kit(got)
    run = kit.run([ToolCall(id="c1", name="login", arguments={"token": "hunter2-hunter2"})])
    done = kit.resume(run, approved=True)
    stored = [pickle.dumps(form).decode("latin-1") for form in (run, done, run.pending[0])]
    stored += [json.dumps(form.to_json()) for form in (run, done, run.pending[0])]
    return any("hunter2" in text or KEY in text for text in [*stored, repr(run), repr(done), repr(run.pending)])


ATTACKS = [
    Attack("a request that was rejected before", rejected_first, equals([["RequestUsedError"] * 4, []])),
    Attack(
        "one approval in two processes with one file",
        approved_in_two_processes,
        equals([["ran", "RequestUsedError"], [["ann's", "ann", 10]]]),
    ),
    Attack("a request that has expired", expired, equals([["ToolkitError"] * 3, []])),
    Attack("a short secret, by trying", guessed(), equals([])),
    Attack("a short secret, by trying beside other edits", guessed(place="here"), equals([])),
    Attack("an approved call under another name", named_as_another_tool, lambda got: "free" not in got.value),
    Attack("a yes for another request of the run", swapped, equals([])),
    Attack("secrets in what is stored", secrets_on_disk, equals(False)),
]


@pytest.mark.parametrize("attack", rows(ATTACKS))
def test_what_must_hold_holds(attack, carry_out):
    outcome = carry_out(attack)
    assert attack.holds(outcome), outcome
