"""What was measured: costs of rounds, their medians, and their ratios to ours; read from and written to a JSON file."""

from __future__ import annotations

import json
import os
import platform
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks.peers.packages import OURS


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a package is and does."""

    version: str
    export_form: str
    features: dict[str, bool]


@dataclass(kw_only=True)
class Costs:
    """One row: the costs of each package by round, and why others have none."""

    by_package: dict[str, list[float]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """What the packages without costs lack."""
    failed: dict[str, str] = field(default_factory=dict)
    """The errors of the packages that should have costs."""

    def cost(self, package: str) -> float:
        """Return the median over the rounds."""
        return statistics.median(self.by_package[package])

    def ratio(self, package: str) -> Ratio:
        """Return how many times the cost of ours a package costs, of the same rounds."""
        pairs = zip(self.by_package[package], self.by_package[OURS], strict=True)
        ratios = [theirs / ours for theirs, ours in pairs]
        return Ratio(median=statistics.median(ratios), least=min(ratios), most=max(ratios))


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """How many times the cost of ours: above 1, ours costs less."""

    median: float
    least: float
    most: float


@dataclass(kw_only=True)
class Results:
    """Everything that was measured. Rows come from one run each; runs of other rows are merged."""

    machine: dict[str, str] = field(default_factory=dict)
    packages: dict[str, Facts] = field(default_factory=dict)
    rows: dict[str, Costs] = field(default_factory=dict)

    @classmethod
    def load(cls, file: Path) -> Results:
        """Read the results of earlier runs; none if there is no file."""
        if not file.exists():
            return cls()
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return cls(
            machine=data["machine"],
            packages={name: Facts(**facts) for name, facts in data["packages"].items()},
            rows={name: Costs(**costs) for name, costs in data["rows"].items()},
        )

    def save(self, file: Path) -> None:
        """Write them to a JSON file, at once or not at all."""
        part = file.with_name(f"{file.name}.part")
        part.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")
        part.replace(file)

    def validating(self) -> set[str]:
        """Return the packages that refuse arguments of wrong types."""
        return {name for name, facts in self.packages.items() if facts.features["validates"]}


def this_machine() -> dict[str, str]:
    """Return what the numbers depend on, without names of hosts."""
    return {
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
    }
