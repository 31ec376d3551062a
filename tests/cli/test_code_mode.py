"""Commands on a manifest with code mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from ahvn_tools.cli.app import main
from tests.cli.shop import SHOP

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")


@pytest.fixture(autouse=True)
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "kit.yaml").write_text("sources: [shop.py]\ncode_mode: {core: [place], limits: {code_chars: 3}}\n")
    monkeypatch.chdir(tmp_path)


def test_the_tools_for_programs_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "kit.yaml"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in ("place", "search_tools", "describe_tools", "run_code"))
    assert main(["show", "kit.yaml", "run_code"]) == 0
    assert "asyncio.gather" in capsys.readouterr().out


def test_the_tools_for_programs_are_called(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", "kit.yaml", "describe_tools", 'names=["place"]']) == 0
    assert "async def place(order: Place_Order | Mapping[str, Any]" in capsys.readouterr().out
    assert main(["call", "kit.yaml", "run_code", "code=1 + 1"]) != 0
    assert "it has 5 of 3 characters" in capsys.readouterr().err
