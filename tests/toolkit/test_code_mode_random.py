"""Random programs, decided in any order, continued anywhere and cancelled: no call is made twice or unapproved."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import ToolCall
from ahvn_tools.errors import ToolkitError
from ahvn_tools.toolkit.approval_store import SQLiteApprovalStore
from ahvn_tools.toolkit.run import Run

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from ahvn_tools.code_mode import MontySandbox  # as above
from tests.toolkit.program_desk import restored, value
from tests.toolkit.random_programs import APPROVED_TOOLS, NumberedCalls, RandomProgram

SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(4, 24))]


class Decisions:
    """A person who decides on calls of a program at random, and host processes that continue it."""

    def __init__(self, seed: int, sandbox: MontySandbox, folder: Path) -> None:
        self.random = random.Random(seed)
        self.program = RandomProgram(self.random, awaits=seed % 5 > 0)
        self.calls = NumberedCalls(sandbox, SQLiteApprovalStore(None) if seed % 3 else folder / "approvals.db")
        self.kits = [self.calls.make_kit(max_concurrency) for max_concurrency in (1, 2, 16)]
        self.approved: set[int] = set()
        self.rejected: set[int] = set()
        self.notes: dict[int, str] = {}
        self.used: list[Any] = []

    def start(self) -> Run:
        return self.any_kit().run([ToolCall(id="c1", name="run_code", arguments={"code": self.program.code})])

    def any_kit(self) -> Any:
        return self.random.choice(self.kits)

    def decide(self, run: Run) -> dict[str, Any]:
        """Return the options of `resume` that decide on some of the calls."""
        options: dict[str, Any] = {"approved": {}, "arguments": {}, "reason": {}}
        for request in self.random.sample(run.pending, self.random.randint(1, len(run.pending))):
            number = request.arguments["number"]
            is_approved = options["approved"][request.call_id] = self.random.random() < 0.75
            (self.approved if is_approved else self.rejected).add(number)
            if not is_approved:
                options["reason"][request.call_id] = f"no {number}"
            elif self.random.random() < 0.2:
                options["arguments"][request.call_id] = {"note": " edited"}
                self.notes[number] = " edited"
        return {name: option for name, option in options.items() if option}

    def resume(self, run: Run) -> Run:
        """Continue the program: here or in another process, from async code, or in several processes at once."""
        self.used.append(json.loads(json.dumps(run.to_json())))
        options, way = self.decide(run), self.random.choice(["here", "elsewhere", "async", "several"])
        if way == "several":
            return self._resume_at_once(options)
        waiting = run if way == "here" else restored(run)
        kit = self.any_kit()
        result: Run = asyncio.run(kit.aresume(waiting, **options)) if way == "async" else kit.resume(waiting, **options)
        return result

    def resume_cancelled(self, run: Run) -> None:
        """Continue the program, cancel it at some moment, and then continue it again, if nothing was decided yet."""
        options, steps = self.decide(run), self.random.randint(0, 60)

        async def resume() -> None:
            task = asyncio.create_task(self.any_kit().aresume(run, **options))
            for _ in range(steps):
                await asyncio.sleep(0.0002)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

        self.used.append(json.loads(json.dumps(run.to_json())))
        asyncio.run(resume())
        with contextlib.suppress(ToolkitError):
            self.any_kit().resume(Run.from_json(self.used[-1]), **options)

    def check(self) -> None:
        """Check that no call was made twice, or without its approval, and that no used request continues anything."""
        for data in self.random.sample(self.used, min(2, len(self.used))):
            with pytest.raises(ToolkitError, match="used before"):
                self.any_kit().resume(Run.from_json(data), approved=True)
            assert self.any_kit().resume(Run.from_json(data), approved=False).pending == []
        made = list(self.calls.made)
        assert len(made) == len(set(made))
        assert self.rejected.isdisjoint(made)
        assert {number for number in made if self.program.tools[number] in APPROVED_TOOLS} <= self.approved

    def _resume_at_once(self, options: dict[str, Any]) -> Run:
        def resume(kit: Any) -> Run | None:
            with contextlib.suppress(ToolkitError):
                continued: Run = kit.resume(Run.from_json(self.used[-1]), **options)
                is_lost = "may have run already" in continued.results[0][1].text  # it was rejected a second time
                return None if is_lost else continued
            return None

        with ThreadPoolExecutor(len(self.kits)) as threads:
            [run] = [run for run in threads.map(resume, self.kits) if run is not None]
        return run


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.default_cases(1)
def test_each_call_of_a_program_is_made_once_and_with_its_approval(
    sandbox: MontySandbox, tmp_path: Path, seed: int
) -> None:
    person = Decisions(seed, sandbox, tmp_path)
    run = person.start()
    while run.pending:
        person.check()
        run = person.resume(run)
    person.check()
    assert value(run) == person.program.result(person.rejected, person.notes)
    assert set(person.calls.made) == person.program.tools.keys() - person.rejected


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.default_cases(1)
def test_no_call_of_a_program_that_is_cancelled_while_it_continues_is_made_again(
    sandbox: MontySandbox, tmp_path: Path, seed: int
) -> None:
    person = Decisions(seed, sandbox, tmp_path)
    run = person.start()
    for _ in range(person.random.randint(0, 2)):
        run = person.resume(run) if run.pending else run
    if run.pending:
        person.resume_cancelled(run)
    person.check()
