"""The measurements of code mode: their conversations, tables, limits and processes, without the other packages."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from ahvn_tools.code_mode import MontySandbox  # after the check that it is there
from tests.benchmarks.code_mode import __main__ as command
from tests.benchmarks.code_mode import table
from tests.benchmarks.code_mode.packages import NOTES, PACKAGES
from tests.benchmarks.code_mode.results import Results
from tests.benchmarks.code_mode.rows import ROWS
from tests.benchmarks.code_mode.worker import github_task, own_rows
from tests.benchmarks.code_mode.worker.conversation import Conversation, results_of
from tests.benchmarks.code_mode.worker.subject import SUMS
from tests.benchmarks.peers.packages import OURS
from tests.benchmarks.peers.results import Costs
from tests.benchmarks.peers.worker_process import WorkerProcess

SUBJECTS = Path(command.__file__).parent / "worker" / "subjects"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "maintainers" / "benchmarks-code-mode.md"


def conversation(title: str, *, read: int) -> dict[str, Any]:
    counts = {f"{part}_{unit}": read for part in ("list", "read", "written") for unit in ("bytes", "tokens")}
    size = {"bytes": 12, "tokens": 3}
    return {
        "title": title,
        "requests": 2,
        **counts,
        "seconds": [0.001, 0.002],
        "anthropic": size,
        "answers": [size] * 3,
    }


@pytest.fixture
def results() -> Results:
    """Numbers as a run would give them."""
    return Results(
        machine={"Python": "3.11.7"},
        versions={OURS: "1.0"},
        rows={
            "three": Costs(by_package={OURS: [0.002, 0.003], "fastmcp": [0.004, 0.006], "smolagents": [0.001, 0.001]}),
            "stdio_three": Costs(by_package={OURS: [0.003]}, failed={"fastmcp": "Traceback\nOSError: gone"}),
            "first": Costs(by_package={OURS: [0.4]}, missing={"fastmcp": "has none"}),
        },
        twenty=[conversation("20 calls", read=1_000)],
        approval={"stops": [0.003], "resumes": [0.001], "bytes": 5_000},
        github=[conversation("all tools listed", read=9_000), conversation(OURS, read=900)],
    )


def test_each_request_has_the_whole_conversation() -> None:
    talk = Conversation("", "How many?", [{"type": "function", "function": {"name": "count"}}])
    message = talk.ask([("count", {"of": "tea"})])
    talk.answer(results_of(message, ["3"]))
    talk.end("There are 3.")
    first, second = map(json.loads, talk.requests)
    assert [part["role"] for part in second["messages"]] == ["user", "assistant", "tool"]
    assert second["messages"][0] == first["messages"][0] == {"role": "user", "content": "How many?"}
    assert second["tools"] == first["tools"]
    assert [json.loads(text)["content"] for text in talk.answers] == [None, "There are 3."]


async def test_a_program_takes_fewer_round_trips_and_bytes_than_a_call_in_each_answer() -> None:
    sandbox = MontySandbox()
    try:
        held = {talk.title: talk for talk, _ in await own_rows.converse(sandbox, 1)}
        approval = await own_rows.approve(sandbox, 1)
    finally:
        sandbox.close()
    counts = [len(talk.requests) for talk in held.values()]
    assert counts == [21, 2, 4, 2]
    single, _, program, _ = [len("".join(talk.requests)) for talk in held.values()]
    assert program < single / 4
    assert (len(approval["stops"]), len(approval["resumes"])) == (1, 1)
    assert 1_000 < approval["bytes"] < 20_000


@pytest.mark.exhaustive
async def test_a_worker_measures_this_package_in_its_own_process() -> None:
    async with WorkerProcess(PACKAGES[0], Path(sys.executable), command.WORKER) as worker:
        answer = await worker.ask(row="three", number=2)
        assert 0 < answer["cost"] < 60
        assert 0 < (await worker.ask(row="stdio_three", number=1))["cost"] < 60
        assert "KeyError: 'four'" in (await worker.ask(row="four", number=1))["error"]


def test_the_sums_are_those_of_the_programs() -> None:
    assert {"three": 1 + 2 + 3 + 4, "twenty": sum(range(20)), "gathered": sum(range(20))} == SUMS


def test_the_task_comments_on_the_issues_that_nobody_has() -> None:
    issues = github_task.result("list_issues", github_task.LIST)["issues"]
    assert [issue["number"] for issue in issues if not issue["assignees"]] == github_task.FREE
    with pytest.raises(ValueError, match="'merge'"):
        github_task.result("merge", {})


def test_results_are_the_same_after_they_were_saved(results: Results, tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    assert Results.load(file) == Results()
    results.save(file)
    assert Results.load(file) == results


def test_the_tables_have_all_numbers_with_least_and_most(results: Results) -> None:
    text = table.text(results)
    assert "| **ahvn-tools** | **2.50 ms (2.00 ms – 3.00 ms)** |" in text
    assert "| fastmcp | 5.00 ms (4.00 ms – 6.00 ms), 2.00× |" in text
    assert "| **ahvn-tools** | **3.00 ms (3.00 ms – 3.00 ms)** |" in text
    assert "| 20 calls | 2 | 1,000 B, 1,000 tokens |" in text
    assert "5,000 B" in text
    assert f"fastmcp: {NOTES['fastmcp']}." in text


def test_who_is_ahead_of_ours_is_said(results: Results) -> None:
    results.github.append(conversation("fastmcp", read=800))
    assert table.not_first(results) == [
        "A program in this process, 3 calls: ours 2.50 ms; smolagents 1.00 ms.",
        "The task with 117 tools: the model reads 900 tokens with ours and 800 tokens with fastmcp.",
    ]


def test_a_limit_that_is_exceeded_and_a_failure_end_the_command_with_1(
    results: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.missed(results) == []
    file = tmp_path / "results.json"
    results.save(file)
    assert command.main(["--no-run", "--json", str(file)]) == 1
    assert "failed: stdio_three: fastmcp: OSError: gone" in capsys.readouterr().out
    results.rows["three"] = Costs(by_package={OURS: [0.011], "fastmcp": [0.010]})
    assert len(command.missed(results)) == 2


def test_the_results_are_written_between_their_marks(results: Results, tmp_path: Path) -> None:
    page, file = tmp_path / "page.md", tmp_path / "results.json"
    page.write_text(f"before\n{command.BEGIN}\nold\n{command.END}\nafter\n", encoding="utf-8")
    results.rows["stdio_three"].failed = {}
    results.save(file)
    assert command.main(["--no-run", "--json", str(file), "--write", str(page)]) == 0
    written = page.read_text(encoding="utf-8")
    assert (written.startswith("before\n"), written.endswith("after\n"), "old" in written) == (True, True, False)


def test_the_page_has_the_marks_once() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert (text.count(command.BEGIN), text.count(command.END)) == (1, 1)


def test_each_package_has_an_adapter_and_each_adapter_a_package() -> None:
    assert {package.adapter for package in PACKAGES} == {path.stem for path in SUBJECTS.glob("[a-z]*.py")}
    assert NOTES.keys() <= {package.name for package in PACKAGES}
    assert len({row.name for row in ROWS}) == len(ROWS)
