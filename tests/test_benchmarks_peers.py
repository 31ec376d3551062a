"""The comparison's own arithmetic, tables, page and processes, without the packages that it compares."""

from __future__ import annotations

import ast
import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.peers import __main__ as command
from tests.benchmarks.peers import environments, page, plot, rounds, table
from tests.benchmarks.peers.packages import OURS, PACKAGES, Package
from tests.benchmarks.peers.results import Costs, Facts, Ratio, Results
from tests.benchmarks.peers.rows import FEATURES, ROWS, Row
from tests.benchmarks.peers.worker import measurements, probes
from tests.benchmarks.peers.worker.__main__ import answer
from tests.benchmarks.peers.worker.adapter import NotOfferedError, run
from tests.benchmarks.peers.worker.adapters.ahvn_tools import Adapter as Ours
from tests.benchmarks.peers.worker.adapters.pydantic import Adapter as Baseline
from tests.benchmarks.peers.worker.measurements import Measurements
from tests.benchmarks.peers.worker_process import WorkerProcess

ADAPTERS = Path(measurements.__file__).parent / "adapters"
HERE = Package(name=OURS, adapter="ahvn_tools")


def facts(*lacking: str, form: str = "OpenAI") -> Facts:
    """Make facts of a package that does everything but what is named."""
    return Facts(version="1.0", export_form=form, features={name: name not in lacking for name in FEATURES})


@pytest.fixture
def results() -> Results:
    """Numbers as a run would give them."""
    return Results(
        machine={"Python": "3.11.7", "cores": "2"},
        packages={
            OURS: facts(),
            "fastmcp": facts("copies", form="MCP"),
            "haystack-ai": facts("validates", "gives_json"),
        },
        rows={
            "sync_call": Costs(
                by_package={OURS: [1e-6, 2e-6, 3e-6], "haystack-ai": [0.5e-6, 0.8e-6, 1.8e-6]},
                missing={"fastmcp": "has no sync call"},
            ),
            "export": Costs(by_package={OURS: [1e-6], "fastmcp": [2e-6]}),
            "memory_process": Costs(by_package={OURS: [2.0**20], "fastmcp": [2.0**21]}),
            "served_stdio": Costs(by_package={OURS: [1e-3], "fastmcp": [2e-3]}),
        },
    )


def test_a_cost_is_the_median_over_the_rounds(results):
    assert results.rows["sync_call"].cost(OURS) == 2e-6


def test_a_ratio_is_that_of_the_same_rounds(results):
    assert results.rows["sync_call"].ratio("haystack-ai") == Ratio(median=0.5, least=0.4, most=pytest.approx(0.6))


@pytest.mark.parametrize(
    ("cost", "unit", "text"),
    [
        (0.123e-6, "seconds", "0.12 µs"),
        (12.34e-6, "seconds", "12.3 µs"),
        (0.5, "seconds", "500 ms"),
        (1.5, "seconds", "1.50 s"),
        (512, "bytes", "512 B"),
        (3 * 2**20, "bytes", "3.00 MiB"),
        (1e-3, "rate", "1,000/s"),
    ],
)
def test_an_amount_has_three_digits_and_a_unit(cost, unit, text):
    assert table.amount(cost, unit) == text


def test_the_tables_have_a_line_for_each_package_that_was_measured(results):
    calls, tools, process, served, features = table.sheets(results)
    assert calls.heading == ["", "sync call"]
    assert calls.lines == [[OURS, "2.00 µs"], ["haystack-ai", "0.80 µs, 0.50× (0.40–0.60) [1, 2]"]]
    assert calls.notes == ["[1] does not validate arguments.", "[2] returns the function's object instead of JSON."]
    assert tools.lines[1] == ["fastmcp", "2.00 µs, 2.00× (2.00–2.00) [1, 2]"]
    assert tools.notes[1] == "[2] exports MCP."
    assert process.lines[1][1].startswith("2.00 MiB, 2.00×")
    assert served.lines[1][1].startswith("500/s, 2.00×")
    assert features.lines[2][:2] == ["haystack-ai 1.0", "–"]


def test_what_a_package_lacks_stands_in_place_of_its_number(results):
    results.rows["async_call"] = Costs(by_package={OURS: [1e-6], "fastmcp": [1e-5]})
    assert table.sheets(results)[0].lines[1] == ["fastmcp", "– [1]", "10.0 µs, 10.0× (10.0–10.0)"]


def test_a_package_that_costs_less_is_named_with_what_it_leaves_out(results):
    [line] = table.ahead_lines(results)
    assert line.startswith("One call, sync call: ours 2.00 µs; haystack-ai 0.80 µs (does not validate arguments, ")
    assert line.endswith("instead of JSON).")


def test_a_baseline_is_never_ahead(results):
    results.packages["pydantic"] = facts()
    results.rows["export"].by_package["pydantic"] = [1e-9]
    assert table.ahead(results) == {"sync_call": ["haystack-ai"]}


def test_a_failure_is_shown_and_named(results):
    results.rows["sync_call"].failed["fastmcp"] = "Traceback\n  line\nKeyError: 'a'\n"
    assert table.failures(results.rows) == ["sync_call: fastmcp: KeyError: 'a'"]
    results.rows["async_call"] = Costs(by_package={OURS: [1e-6], "fastmcp": [1e-5]})
    assert table.sheets(results)[0].lines[1][1] == "failed"


def test_the_markdown_marks_ours(results):
    text = table.markdown(table.sheets(results)[0])
    assert text.startswith("### One call\n\n|  | sync call |\n| --- | ---: |\n| **ahvn-tools** | **2.00 µs** |\n")


def test_only_what_is_between_the_marks_of_a_page_is_replaced(tmp_path, results):
    file = tmp_path / "page.md"
    file.write_text(f"# Before\n\n{page.BEGIN}\nold\n{page.END}\n\nAfter\n")
    for _ in range(2):
        page.write(file, results)
    text = file.read_text()
    assert text.startswith(f"# Before\n\n{page.BEGIN}\n\nMeasured with Python 3.11.7, cores 2.\n\n### One call\n")
    assert text.endswith(f"instead of JSON).\n\n{page.END}\n\nAfter\n")
    assert "old" not in text


@pytest.mark.parametrize(
    "text", ["", f"{page.BEGIN}\n", f"{page.END}\n{page.BEGIN}\n", 2 * f"{page.BEGIN}\n{page.END}\n"]
)
def test_a_page_without_both_marks_is_refused(text):
    with pytest.raises(ValueError, match="must have one line"):
        page.replaced(text, "new")


def test_results_are_kept_in_a_file_and_rows_are_merged(tmp_path, results):
    file = tmp_path / "results.json"
    assert Results.load(file) == Results()
    results.save(file)
    loaded = Results.load(file)
    assert loaded == results
    loaded.rows["batch"] = Costs(by_package={OURS: [1.0]})
    loaded.save(file)
    assert Results.load(file).rows.keys() == {*results.rows, "batch"}
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.exhaustive
def test_the_plot_is_written_as_two_files(tmp_path, results):
    plot.write(tmp_path / "plot", results)
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "haystack-ai" in (tmp_path / "plot.svg").read_text()


def test_every_package_has_an_adapter_and_every_row_a_measurement():
    assert {package.adapter for package in PACKAGES} == {file.stem for file in ADAPTERS.glob("[!_]*.py")}
    assert {row.name for row in ROWS} == {*measurements.STATEMENTS, *measurements.PROCESSES, *measurements.SERVED}


@pytest.mark.parametrize("file", sorted(ADAPTERS.glob("[!_]*.py")), ids=lambda file: file.stem)
def test_an_adapter_does_or_lacks_each_thing(file):
    [adapter] = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)][-1:]
    methods = {node.name for node in adapter.body if isinstance(node, ast.FunctionDef)}
    values = {node.targets[0].id: node.value for node in adapter.body if isinstance(node, ast.Assign)}
    lacks = {*ast.literal_eval(values["lacks"])} if "lacks" in values else set()
    optional = {"sync_call", "async_call", "context_call", "context", "dispatch", "server"}
    assert {"create", "exporter"} <= methods
    assert "first_call" in values
    assert optional - methods == lacks


@pytest.mark.parametrize("row", measurements.STATEMENTS)
def test_our_adapter_measures_every_row(monkeypatch, row):
    for count in ("DISPATCHED", "CALLED", "BATCH", "SLEEPING"):
        monkeypatch.setattr(measurements, count, 10)
    assert Measurements("unused", Ours()).cost(row, 3) > 0


@pytest.mark.parametrize("row", ["context_call", "dispatch", "sleeping"])
def test_an_adapter_says_what_its_package_lacks(row):
    with pytest.raises(NotOfferedError, match=r"^(has no|does not) "):
        Measurements("unused", Baseline()).cost(row, 3)


def test_probes_find_what_a_package_does():
    assert probes.probe(Ours()) == dict.fromkeys(FEATURES, True)
    found = probes.probe(Baseline())
    assert found.keys() == FEATURES.keys()
    assert (found["validates"], found["gives_json"], found["gives_errors"]) == (True, False, False)


class Careless(Baseline):
    """Calls the function as it is."""

    def sync_call(self, tool):
        return lambda arguments: tool(**arguments)

    def create(self, function):
        return function

    def exporter(self, tool):
        kept = {"parameters": {}}
        return lambda: kept


def test_probes_find_what_a_package_does_not_do():
    found = probes.probe(Careless())
    assert [name for name in ("validates", "converts", "copies", "describes") if found[name]] == []


def test_an_adapter_that_does_not_reach_the_function_is_an_error():
    class Empty(Careless):
        def sync_call(self, tool):
            return lambda arguments: 3

    with pytest.raises(AssertionError, match="does not reach the function"):
        probes.probe(Empty())


def test_an_error_and_a_lack_are_answers():
    measuring = Measurements("pydantic", Baseline())
    assert answer({"row": "dispatch", "number": 1}, Baseline(), measuring) == {
        "not_offered": "has no collection of tools"
    }
    assert "KeyError: 'nothing'" in answer({"row": "nothing", "number": 1}, Baseline(), measuring)["error"]


def test_rounds_go_over_all_packages_in_turn():
    asked: list[tuple[str, int]] = []

    class Worker:
        def __init__(self, name, cost):
            self.name, self.cost = name, cost

        async def ask(self, row, number):
            asked.append((self.name, number))
            return {"cost": self.cost} if self.cost else {"not_offered": "has none"}

    workers = {OURS: Worker(OURS, 0.01), "a": Worker("a", 0.02), "b": Worker("b", None)}
    costs = asyncio.run(rounds.measure(ROWS[0], workers, 2))
    assert costs == Costs(by_package={OURS: [0.01] * 2, "a": [0.02] * 2}, missing={"b": "has none"})
    assert asked[-4:] == [(OURS, 5), ("a", 2), ("a", 2), (OURS, 5)]


def test_a_package_that_fails_in_a_round_has_no_costs():
    class Worker:
        def __init__(self, *answers):
            self.answers = list(answers)

        async def ask(self, row, number):
            return self.answers.pop(0)

    row = Row(name="start", title="start", group="", number=1)
    workers = {
        OURS: Worker(*({"cost": 1.0} for _ in range(3))),
        "a": Worker({"cost": 1.0}, {"cost": 1.0}, {"error": "no"}),
    }
    costs = asyncio.run(rounds.measure(row, workers, 2))
    assert costs == Costs(by_package={OURS: [1.0, 1.0]}, failed={"a": "no"})
    row = Row(name="memory", title="memory", group="", number=1, unit="bytes", rounds=2)
    costs = asyncio.run(rounds.measure(row, {OURS: Worker({"cost": 1.0}, {"cost": 2.0})}, 3))
    assert costs.by_package == {OURS: [1.0, 2.0]}
    with pytest.raises(RuntimeError, match="ahvn-tools cannot be measured:\nno"):
        asyncio.run(rounds.measure(row, {OURS: Worker({"error": "no"})}, 2))


def test_a_finished_environment_is_used_again_and_an_unfinished_one_made_anew(tmp_path, monkeypatch):
    made: list[str] = []
    monkeypatch.setattr(environments.venv, "create", lambda home, with_pip: (home.mkdir(), made.append(home.name)))

    def install(command, **options):
        made.append(command[-1])
        return subprocess.CompletedProcess(command, returncode, stderr="no such package")

    returncode = 0
    monkeypatch.setattr(environments.subprocess, "run", install)
    package = next(package for package in PACKAGES if package.name == "fastmcp")
    for _ in range(2):
        assert environments.python_of(package, tmp_path).is_relative_to(tmp_path / "fastmcp")
    assert made == ["fastmcp", "fastmcp"]
    environments.python_of(package, tmp_path, is_fresh=True)
    assert len(made) == 4
    (tmp_path / "fastmcp" / environments.COMPLETE).unlink()
    returncode = 1
    with pytest.raises(RuntimeError, match="fastmcp cannot be installed:\nno such package"):
        environments.python_of(package, tmp_path)
    assert not (tmp_path / "fastmcp" / environments.COMPLETE).exists()


async def test_a_worker_answers_until_it_is_left():
    async with WorkerProcess(HERE, Path(sys.executable)) as worker:
        assert (await worker.ask(row="sync_call", number=5))["cost"] > 0
        assert "error" in await worker.ask(row="nothing", number=5)
        process = worker._process
    assert process.returncode == 0


@pytest.mark.exhaustive
async def test_what_a_worker_said_is_in_the_error_when_it_has_ended():
    async with WorkerProcess(Package(name="none", adapter="none"), Path(sys.executable)) as worker:
        with pytest.raises(RuntimeError, match="No module named"):
            await worker.ask(package="none")


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
async def test_processes_and_servers_are_measured():
    async with WorkerProcess(HERE, Path(sys.executable)) as worker:
        for row in ("start", "memory_process", "memory_tool", "memory_context", "served_stdio", "served_http"):
            assert (await worker.ask(row=row, number=20)).get("cost", 0) > 0, row


def test_the_command_shows_and_writes_what_a_file_holds(tmp_path, capsys, results):
    kept, file = tmp_path / "results.json", tmp_path / "page.md"
    results.save(kept)
    file.write_text(f"{page.BEGIN}\n{page.END}\n")
    assert command.main(["--no-run", "--json", str(kept), "--write", str(file)]) == 0
    assert "not first: One call, sync call: ours 2.00 µs; haystack-ai" in capsys.readouterr().out
    assert "| **ahvn-tools** |" in file.read_text()
    results.rows["sync_call"].failed["fastmcp"] = "KeyError: 'a'"
    results.save(kept)
    assert command.main(["--no-run", "--json", str(kept)]) == 1
    assert json.loads(kept.read_text())["rows"].keys() == results.rows.keys()


def test_the_loop_of_a_worker_runs_one_coroutine_after_another():
    async def value():
        return 1

    assert run(value()) + run(value()) == 2
