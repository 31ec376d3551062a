"""numpy: a scalar as the number, text or time that it is, an array as nested lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final


def encode_scalar(scalar: Any) -> Any:
    """Return a scalar as Python's own value; a time without a value (NaT) is None."""
    if scalar.dtype.kind in "mM":
        return _with_python_times(scalar).item()
    value = scalar.item()
    return float(value) if type(value) is type(scalar) else value  # Python has no longer float


def encode_array(array: Any) -> Any:
    """Return the items of an array as nested lists; one without dimensions as its only item."""
    return _with_python_times(array).tolist()


def _with_python_times(values: Any) -> Any:
    """Return times in microseconds: of finer ones numpy makes integers."""
    kind = values.dtype.kind
    return values.astype({"m": "timedelta64[us]", "M": "datetime64[us]"}[kind]) if kind in "mM" else values


ENCODERS: Final[Mapping[tuple[str, str], Callable[[Any], Any]]] = {
    ("numpy", "generic"): encode_scalar,
    ("numpy", "ndarray"): encode_array,
}
