"""ProcessLimits: what one process, with its children, may use."""

from __future__ import annotations

from dataclasses import dataclass

from ahvn_tools.errors import DefinitionError


@dataclass(frozen=True, kw_only=True)
class ProcessLimits:
    """What one process, with its children, may use. None: no limit."""

    timeout: float = 120.0
    """Seconds until the process and all its children are killed."""
    memory_bytes: int | None = None
    """Address space of each process (RLIMIT_AS)."""
    cpu_seconds: int | None = None
    """Processor time of each process (RLIMIT_CPU)."""
    file_bytes: int | None = 1_000_000_000
    """Size of each file that is written (RLIMIT_FSIZE)."""
    kept_bytes: int = 64_000
    """How much of stdout, and of stderr, is returned: the beginning and the end of a longer output."""
    spooled_bytes: int = 50_000_000
    """How much of each is kept on disk to be read back; a process that writes more runs on, the rest is counted only.
    0: nothing."""

    def __post_init__(self) -> None:
        """Raise DefinitionError for a timeout that is no positive number: nothing could run or be ended."""
        timeout: object = self.timeout
        if not (isinstance(timeout, int | float) and timeout > 0):
            raise DefinitionError(f"`timeout` is a number of seconds above 0, not {timeout!r}.")

    def for_kernel(self) -> list[tuple[str, int]]:
        """Return the limits that the kernel enforces, by their names in the module `resource`."""
        limits = {
            "RLIMIT_CORE": 0,
            "RLIMIT_AS": self.memory_bytes,
            "RLIMIT_CPU": self.cpu_seconds,
            "RLIMIT_FSIZE": self.file_bytes,
        }
        return [(name, value) for name, value in limits.items() if value is not None]
