"""Answer requests, one JSON document a line: `python -m tests.benchmarks.peers.worker ADAPTER`."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import platform
import sys
import traceback
from typing import Any

from tests.benchmarks.peers.worker import processes, served
from tests.benchmarks.peers.worker.adapter import NotOfferedError, PackageAdapter
from tests.benchmarks.peers.worker.measurements import Measurements
from tests.benchmarks.peers.worker.probes import probe

REPORTS = {"memory_tool": processes.tool_memory, "memory_context": processes.context_memory}


def load(name: str) -> PackageAdapter:
    """Import the adapter of this name."""
    adapter: PackageAdapter = importlib.import_module(f"tests.benchmarks.peers.worker.adapters.{name}").Adapter()
    return adapter


def answer(request: dict[str, Any], adapter: PackageAdapter, measurements: Measurements) -> dict[str, Any]:
    """Measure a row, or report what the package is and does. A failure is an answer, too."""
    try:
        if "package" in request:
            return {
                "version": importlib.metadata.version(request["package"]),
                "python": platform.python_version(),
                "export_form": adapter.export_form,
                "features": probe(adapter),
            }
        return {"cost": measurements.cost(request["row"], request["number"])}
    except NotOfferedError as missing:
        return {"not_offered": str(missing)}
    except Exception:
        return {"error": traceback.format_exc()}


def main(name: str, mode: str = "answer", *rest: str) -> None:
    """Answer until the input ends, or do what the mode says and end."""
    answers = os.fdopen(os.dup(1), "w") if mode != "serve" else None
    if answers is None:
        served.serve(load(name), *rest)
        return
    os.dup2(2, 1)  # what a package prints must not be taken for an answer
    with answers:
        if mode in REPORTS:
            answers.write(json.dumps(_reported(name, mode)))
            return
        adapter = load(name)
        measurements = Measurements(name, adapter)
        for line in sys.stdin:
            answers.write(json.dumps(answer(json.loads(line), adapter, measurements)) + "\n")
            answers.flush()


def _reported(name: str, mode: str) -> dict[str, Any]:
    try:
        return {"cost": REPORTS[mode](load(name))}
    except NotOfferedError as missing:
        return {"not_offered": str(missing)}


if __name__ == "__main__":
    main(*sys.argv[1:])
