"""Answer requests, one JSON document a line: `python -m tests.benchmarks.code_mode.worker ADAPTER`."""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import json
import os
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.benchmarks.code_mode.worker.measurements import Measurements
    from tests.benchmarks.code_mode.worker.subject import PackageSubject


def load(adapter: str) -> PackageSubject:
    """Import a package and make its tools."""
    subject: PackageSubject = importlib.import_module(f"tests.benchmarks.code_mode.worker.subjects.{adapter}").Subject()
    return subject


async def answer(request: dict[str, Any], subject: PackageSubject, measurements: Measurements) -> dict[str, Any]:
    """Measure a row, or read the recorded tools. A failure is an answer, too."""
    from tests.benchmarks.peers.worker.adapter import NotOfferedError

    try:
        if "package" in request:
            return {"version": importlib.metadata.version(request["package"])}
        if "corpus" in request:
            return {"conversations": await subject.read(Path(request["corpus"]))}
        if "rounds" in request:
            from tests.benchmarks.code_mode.worker import own_rows

            return await own_rows.measure(request["rounds"])
        return {"cost": await measurements.cost(request["row"], request["number"])}
    except NotOfferedError as missing:
        return {"not_offered": str(missing)}
    except Exception:
        return {"error": traceback.format_exc()}


async def answer_all(adapter: str) -> None:
    """Answer until the input ends."""
    from tests.benchmarks.code_mode.worker.measurements import Measurements

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a package prints must not be taken for an answer
    subject = load(adapter)
    measurements = Measurements(adapter, subject)
    with answers:
        while line := await asyncio.to_thread(sys.stdin.readline):
            answers.write(json.dumps(await answer(json.loads(line), subject, measurements)) + "\n")
            answers.flush()
    await measurements.close()


async def run_first(adapter: str) -> None:
    """Run the first program, and print its result."""
    subject = load(adapter)
    print(await subject.run(subject.programs["three"]), flush=True)
    await subject.close()


def serve(adapter: str, transport: str, port: str = "0") -> None:
    """Serve until the client or, over HTTP, the process above ends."""
    if transport == "http":
        threading.Thread(target=_end_with_input, daemon=True).start()
    load(adapter).serve(transport, int(port))


def _end_with_input() -> None:
    while os.read(0, 1_000):
        pass
    os._exit(0)


def main(adapter: str, mode: str = "answer", *rest: str) -> None:
    """Do what the mode says."""
    if mode == "serve":
        serve(adapter, *rest)
    else:
        asyncio.run(run_first(adapter) if mode == "first" else answer_all(adapter))


if __name__ == "__main__":
    main(*sys.argv[1:])
