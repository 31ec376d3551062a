"""The end of a worker process kills all processes that it started."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.execution.entry_points import process, until
from tests.execution.workers.bodies import is_gone, isolated, read_pids, start_children

pytestmark = pytest.mark.timeout(120)


@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux a worker adopts orphans")
class TestProcessTree:
    @pytest.mark.exhaustive
    @pytest.mark.parametrize("ignores_sigterm", [False, True], ids=["plain", "ignores SIGTERM"])
    def test_a_timeout_kills_all_descendants(self, tmp_path: Path, ignores_sigterm: bool) -> None:
        path = tmp_path / "pids"
        spec = isolated(start_children, timeout=5)
        result = spec.exec(path=str(path), ignores_sigterm=ignores_sigterm)
        assert result.error.code == "timeout"
        pids = read_pids(path, 4)
        assert until(lambda: all(map(is_gone, pids)))

    async def test_a_cancellation_kills_all_descendants(self, tmp_path: Path) -> None:
        path = tmp_path / "pids"
        task = asyncio.create_task(isolated(start_children).acall(path=str(path), ignores_sigterm=True))
        pids = await asyncio.to_thread(read_pids, path, 4)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(until, lambda: all(map(is_gone, pids)))

    @pytest.mark.exhaustive
    def test_the_death_of_the_calling_process_kills_all_descendants(self, tmp_path: Path) -> None:
        path = tmp_path / "pids"
        code = """if True:
            import sys
            from ahvn_tools import ToolSpec
            from tests.execution.workers.bodies import start_children
            ToolSpec.from_function(start_children, isolation="process")(path=sys.argv[1])
        """
        parent = process(code, str(path))
        try:
            pids = read_pids(path, 4)
        finally:
            parent.kill()
            parent.communicate()
        assert until(lambda: all(map(is_gone, pids)))
