"""The example of code mode, as a process that cannot reach a provider."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import sealed

EXAMPLE = str(Path(__file__).resolve().parents[2] / "examples" / "code_mode.py")
QUESTION = "Refund what was lost on its way to me.\n\n"
WORK = """
  track_parcel(1)
  track_parcel(2)
  track_parcel(3)
approved, from a file of N bytes: refund {'order': 2, 'euros': 95.0}
> run_code:\x20
import asyncio

orders = await list_orders()
places = await asyncio.gather(*[track_parcel(order["id"]) for order in orders])
lost = [order for order, place in zip(orders, places) if place == "lost"]
[await refund(order["id"], order["euros"]) for order in lost]

  refund(2, 95.0)
{"result": ["Paid 95 euros for order 2."]}

The tool said: {"result": ["Paid 95 euros for order 2."]}
"""


def needs_packages() -> None:
    pytest.importorskip("openai", reason='needs the SDK: pip install "ahvn-tools[openai]"')
    pytest.importorskip("pydantic_monty", reason='needs Monty: pip install "ahvn-tools[code]"')


def test_the_program_runs_waits_in_a_file_and_goes_on_with_each_call_made_once(tmp_path: Path) -> None:
    needs_packages()
    finished = sealed.run("-W", "error", EXAMPLE, folder=tmp_path)
    assert finished.stderr == ""
    found, work = re.sub(r"[\d,]+ bytes", "N bytes", finished.stdout).split("for order in lost]\n", 1)
    assert (work, finished.returncode) == (WORK, 0)
    assert found.startswith(f"{QUESTION}> search_tools: orders, parcels, refund\n3 of 3 functions:")
    assert "\nasync def list_orders() -> list[" in found
    assert "customer:" not in found
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".py"] in ([], ["__pycache__"])


def test_it_calls_the_real_service_when_its_key_is_set(tmp_path: Path) -> None:
    needs_packages()
    finished = sealed.run(EXAMPLE, folder=tmp_path, OPENAI_API_KEY="none")
    assert finished.stderr.startswith("no connection to ")
    assert "127.0.0.1" not in finished.stderr
    assert (finished.stdout, finished.returncode) == (QUESTION, 70)


@pytest.mark.parametrize("module", ["openai", "pydantic_monty"])
@pytest.mark.default_cases(1)
def test_without_a_package_it_says_what_to_install(module: str, tmp_path: Path) -> None:
    finished = sealed.run(EXAMPLE, folder=tmp_path, MISSING=module)
    assert finished.stderr == 'This example needs an SDK: pip install "ahvn-tools[code,openai]"\n'
    assert finished.returncode == 1
