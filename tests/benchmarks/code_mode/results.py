"""What was measured: the rows of all packages, the conversations, and the rows of this package; as a JSON file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks.peers.results import Costs


@dataclass(kw_only=True)
class Results:
    """Everything that was measured, in one run."""

    machine: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    rows: dict[str, Costs] = field(default_factory=dict)
    twenty: list[dict[str, Any]] = field(default_factory=list)
    """The conversations with 20 calls."""
    approval: dict[str, Any] = field(default_factory=dict)
    github: list[dict[str, Any]] = field(default_factory=list)
    """The conversations with the recorded tools; none if they are not here."""

    @classmethod
    def load(cls, file: Path) -> Results:
        """Read the results of an earlier run; none if there is no file."""
        if not file.exists():
            return cls()
        data = json.loads(file.read_text(encoding="utf-8"))
        return cls(**{**data, "rows": {name: Costs(**costs) for name, costs in data["rows"].items()}})

    def save(self, file: Path) -> None:
        """Write them to a JSON file."""
        file.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")
