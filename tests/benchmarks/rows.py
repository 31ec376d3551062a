"""One row of the table: the measurement, its value, and its limit."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.benchmarks.measure import Timing


@dataclass(frozen=True, kw_only=True)
class Row:
    """A measurement and its limit."""

    what: str
    against: str
    ours: str
    baseline: str
    measured: float
    limit: float
    unit: str = "×"
    is_floor: bool = False
    """The limit is a minimum, not a maximum."""

    @property
    def is_held(self) -> bool:
        """Whether the measurement stays within its limit."""
        return self.measured >= self.limit if self.is_floor else self.measured <= self.limit


def at_most(limit: float, what: str, against: str, timing: Timing) -> Row:
    """Ours may cost this many times the baseline."""
    ours, baseline = seconds(timing.ours), seconds(timing.baseline)
    return Row(what=what, against=against, ours=ours, baseline=baseline, measured=timing.ratio, limit=limit)


def faster(limit: float, what: str, against: str, timing: Timing) -> Row:
    """Ours must be this many times as fast as the baseline."""
    return replace(at_most(limit, what, against, timing), measured=1 / timing.ratio, is_floor=True)


def within(limit: float, what: str, measured: float, unit: str, digits: int = 1, against: str = "the clock") -> Row:
    """Ours may take this much by itself."""
    ours = f"{measured:.{digits}f} {unit}"
    return Row(what=what, against=against, ours=ours, baseline="", measured=measured, limit=limit, unit=unit)


def seconds(value: float) -> str:
    """Return a duration as text, in a suitable unit."""
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if value * factor >= 1:
            return f"{value * factor:.1f} {unit}"
    return f"{value * 1e6:.2f} µs"
