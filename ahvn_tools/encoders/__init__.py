"""Encoders: how values of other libraries' classes become JSON or content.

`registry.py` knows which encoder a value has, those of the host first. `libraries.py` has the built-in ones, and
imports no library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ahvn_tools.encoders.registry import register_encoder

__all__ = ["register_encoder"]


def __getattr__(name: str) -> Any:
    """Import the function at its first use (PEP 562): most tools return plain data."""
    if name != "register_encoder":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ahvn_tools.encoders.registry import register_encoder

    return register_encoder
