"""The limit of the memory of a process that runs a statement."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path


def limit_memory(max_memory: int) -> None:
    """Let this process take `max_memory` bytes more than it has now. Only Linux says how much that is."""
    sizes = Path("/proc/self/statm")
    if importlib.util.find_spec("resource") is None or not sizes.exists():  # pragma: no cover
        return
    resource = importlib.import_module("resource")
    present = int(sizes.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (present + max_memory, present + max_memory))
